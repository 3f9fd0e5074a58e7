// simulate calibrate nccl: nccl-tests logs to a calibration file.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/calibrate/nccl.h"
#include "stepcast/input/input.h"
#include "stepcast/interop/nccl_log.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"
#include "stepcast/text/map.h"

namespace stepcast::cli {
namespace {

struct CalibrateNcclOptions {
  std::vector<std::string> logs;
  std::string cluster, nodes, gpus_per_node, op;
  std::string name, scope = "auto", output, json;
  std::vector<std::string> set;
  bool keep_degraded = false;
};

std::vector<interop::CollectiveLog> read_logs(const std::vector<std::string>& files) {
  std::vector<interop::CollectiveLog> logs;
  text::Faults faults;
  for (const std::string& file : files) {
    faults.guarded([&] { logs.push_back(interop::read_collectives(file)); });
  }
  faults.done();
  return logs;
}

std::optional<cost::NcclScope> scope_option(const std::string& text) {
  if (text == "domain") {
    return cost::NcclScope::domain;
  }
  if (text == "network") {
    return cost::NcclScope::network;
  }
  if (text != "auto") {
    throw option_fault("--scope",
                       fmt::format("unknown value '{}'; expected auto, domain, network", text));
  }
  return std::nullopt;
}

// The file of a scope. Logs of both scopes give two files: the domain's has a name of its own.
std::filesystem::path file_for(const std::filesystem::path& output, const std::string& scope,
                               std::size_t files) {
  if (files < 2 || scope == "network") {
    return output;
  }
  std::filesystem::path beside = output;
  beside.replace_filename(output.stem().string() + "-domain" + output.extension().string());
  return beside;
}

void write_calibration(const CalibrateNcclOptions& given, const std::string& output,
                       const result::Calibration& found) {
  if (output == "-" && found.files.size() > 1) {
    throw option_fault("--output",
                       "the logs are from inside domains and across them; expected a file, or "
                       "--scope domain or network");
  }
  if (output == "-" && given.json == "-") {
    throw option_fault("--json", "standard output is the calibration's; expected a file");
  }
  Outputs outputs;
  std::string written;
  for (const auto& file : found.files) {
    const std::filesystem::path path = output == "-"
                                           ? std::filesystem::path(output)
                                           : file_for(output, file.scope, found.files.size());
    outputs.add("--output", path, file.yaml);
    written += fmt::format("{} ({}) is written; use it with calibration: [{}]\n", path.string(),
                           file.scope, path.string());
  }
  outputs.add("--json", given.json, report::json(found));
  outputs.finish("calibrate", [&] {
    if (output == "-") {
      return std::string();  // nothing was fitted
    }
    return report::terminal(found, terminal_colour()) + (written.empty() ? "" : "\n" + written);
  });
}

int run_calibrate_nccl(const CalibrateNcclOptions& given) {
  if (given.logs.empty()) {
    throw option_fault("calibrate nccl", "missing logs; expected nccl-tests output or CSV");
  }
  if (given.cluster.empty()) {
    throw option_fault("--cluster",
                       "missing; expected the machine that the logs are from, such as dgx-h100");
  }
  calibrate::NcclOptions options;
  options.scope = scope_option(given.scope);
  options.keep_degraded = given.keep_degraded;
  options.system = given.name.empty()
                       ? std::filesystem::path(given.cluster).stem().string() + "-nccl"
                       : given.name;
  if (!is_plain_name(options.system, true)) {
    throw option_fault(
        "--name",
        fmt::format("'{}' is not a name; expected letters, digits, dashes, underscores, dots",
                    options.system));
  }
  if (!given.op.empty()) {
    options.op = interop::collective_name(given.op);
    if (options.op.empty()) {
      throw option_fault("--op",
                         "unknown collective '" + given.op + "'; expected one such as all_reduce");
    }
  }
  const int stated = integer_option("--nodes", given.nodes, 1, 0);
  const auto logs = read_logs(given.logs);
  int nodes = std::max(1, stated);
  for (const auto& log : logs) {
    for (const auto& measured : log.runs) {
      nodes = std::max(nodes, static_cast<int>(measured.ranks_per_node.size()));
    }
  }
  const input::Network network = input::network(given.cluster, nodes, given.set);
  if (stated > 0) {
    const int each =
        integer_option("--gpus-per-node", given.gpus_per_node, 1, network.cluster.node.gpus);
    options.ranks_per_node.assign(static_cast<std::size_t>(stated), each);
  } else if (!given.gpus_per_node.empty()) {
    options.ranks_per_node = {integer_option("--gpus-per-node", given.gpus_per_node, 1)};
  }
  const auto found = calibrate::calibrate_nccl(network.cluster, logs, options,
                                               text::data_directory() / "calibration");
  const std::string output = given.output.empty() ? options.system + ".yaml" : given.output;
  write_calibration(given, output, found);
  if (found.files.empty()) {
    write_stderr("calibrate: nothing is left to fit; no file is written (--keep-degraded)\n");
    return cannot_run;
  }
  return done;
}

}  // namespace

Run add_calibrate_nccl(Command& app) {
  auto given = std::make_shared<CalibrateNcclOptions>();
  app.add_option(
         "log", given->logs,
         "nccl-tests output of any version, CSV with collective, size_bytes, time_us, or a file "
         "of calibrate-gpu")
      .type_name("LOG...");
  app.add_option("--cluster", given->cluster,
                 "the cluster that the logs are from, a name in configs/clusters")
      .type_name("NAME");
  app.add_option("--nodes", given->nodes,
                 "number of hosts, for logs that do not list their devices")
      .type_name("N");
  app.add_option(
         "--gpus-per-node", given->gpus_per_node,
         "ranks of each host, for logs that do not list their devices (by default all its GPUs)")
      .type_name("G");
  app.add_option("--op", given->op, "the collective, for logs that do not name it").type_name("OP");
  app.add_option("--name", given->name, "name of the calibration (by default CLUSTER-nccl)")
      .type_name("SYSTEM");
  app.add_option("--scope", given->scope,
                 "what is fitted: domain (within one NVLink or PCIe domain), network (between "
                 "domains), or auto: one file for each of the two that the logs cover")
      .type_name("SCOPE")
      .show_default();
  app.add_option("--output", given->output,
                 "file for the calibration (by default SYSTEM.yaml; - is standard output, without "
                 "the report)")
      .type_name("FILE");
  add_output(app, "--json", given->json, "write the report as JSON");
  app.add_option("--set", given->set, "override a key below cluster; may come several times")
      .type_name("KEY=VALUE")
      .one_value();
  app.add_flag("--keep-degraded", given->keep_degraded, "also fit logs of degraded runs");
  app.footer =
      "Examples:\n"
      "  simulate calibrate nccl all_reduce.log alltoall.log --cluster dgx-a100\n"
      "  simulate calibrate nccl excerpt.txt --cluster dgx-h100 --nodes 2 --name lab --output -\n"
      "Exit status: 0 done; 1 every log is degraded and nothing is fitted; 2 bad input.";
  return [given] { return run_calibrate_nccl(*given); };
}

}  // namespace stepcast::cli
