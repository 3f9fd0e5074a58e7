// simulate calibrate nccl: nccl-tests logs to a calibration file.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "command_line.h"
#include "commands.h"
#include "output.h"
#include "stepcast/calibrate/nccl.h"
#include "stepcast/input/input.h"
#include "stepcast/interop/nccl_log.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

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
  std::vector<Fault> faults;
  for (const std::string& file : files) {
    try {
      logs.push_back(interop::read_collectives(file));
    } catch (const InputError& error) {
      faults.insert(faults.end(), error.faults().begin(), error.faults().end());
    }
  }
  if (!faults.empty()) {
    throw InputError(std::move(faults));
  }
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

// A name becomes that of a file and a YAML scalar.
void check_name(const std::string& name) {
  const bool good = !name.empty() && name[0] != '.' && name[0] != '-' &&
                    std::all_of(name.begin(), name.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
                    });
  if (!good) {
    throw option_fault(
        "--name",
        fmt::format("'{}' is no name; expected letters, digits, dashes, underscores, dots", name));
  }
}

// The file of a scope: logs of both give two, the domain's beside the network's.
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
  std::vector<std::unique_ptr<OutputFile>> files;
  std::string written;
  for (const auto& file : found.files) {
    if (output == "-") {
      continue;
    }
    const auto path = file_for(output, file.scope, found.files.size());
    files.push_back(std::make_unique<OutputFile>("--output", path));
    files.back()->write(file.yaml);
    written += fmt::format("{} ({}) is written; use it with calibration: [{}]\n", path.string(),
                           file.scope, path.string());
  }
  const std::string json = report::json(found);
  if (!given.json.empty() && given.json != "-") {
    files.push_back(std::make_unique<OutputFile>("--json", given.json));
    files.back()->write(json);
  }
  if (output == "-") {
    for (const auto& file : found.files) {
      write_stdout("--output -", file.yaml);
    }
  } else {
    write_stdout("calibrate", given.json == "-" ? json
                                                : report::terminal(found, terminal_colour()) +
                                                      (written.empty() ? "" : "\n" + written));
  }
  for (auto& file : files) {
    file->commit();
  }
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
  check_name(options.system);
  if (!given.op.empty()) {
    options.op = interop::collective_name(given.op);
    if (options.op.empty()) {
      throw option_fault("--op",
                         "unknown collective '" + given.op + "'; expected one such as all_reduce");
    }
  }
  const int stated = given.nodes.empty() ? 0 : integer_option("--nodes", given.nodes, 1);
  const auto logs = read_logs(given.logs);
  int nodes = std::max(1, stated);
  for (const auto& log : logs) {
    for (const auto& measured : log.runs) {
      nodes = std::max(nodes, static_cast<int>(measured.ranks_per_node.size()));
    }
  }
  const input::Network network = input::network(given.cluster, nodes, given.set);
  if (stated > 0) {
    const int each = given.gpus_per_node.empty()
                         ? network.cluster.node.gpus
                         : integer_option("--gpus-per-node", given.gpus_per_node, 1);
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
                 "the machine that the logs are from, as configs/clusters lists them")
      .type_name("NAME");
  app.add_option("--nodes", given->nodes, "hosts, of logs that do not list their devices")
      .type_name("N");
  app.add_option("--gpus-per-node", given->gpus_per_node,
                 "ranks of each, of logs that do not list their devices (all GPUs)")
      .type_name("G");
  app.add_option("--op", given->op, "the collective, of logs that do not tell").type_name("OP");
  app.add_option("--name", given->name, "of the calibration (CLUSTER-nccl)").type_name("SYSTEM");
  app.add_option("--scope", given->scope,
                 "domain (inside one NVLink or PCIe domain), network (across domains), or auto: "
                 "one file for each that the logs have")
      .type_name("SCOPE")
      .show_default();
  app.add_option("--output", given->output,
                 "the calibration file (SYSTEM.yaml; - is standard output, without the report)")
      .type_name("FILE");
  app.add_option("--json", given->json, "write the report as JSON (- is standard output)")
      .type_name("FILE");
  app.add_option("--set", given->set, "change a key below cluster")
      .type_name("KEY=VALUE")
      .one_value();
  app.add_flag("--keep-degraded", given->keep_degraded, "fit degraded logs too");
  app.footer =
      "Examples:\n"
      "  simulate calibrate nccl all_reduce.log alltoall.log --cluster dgx-a100\n"
      "  simulate calibrate nccl excerpt.txt --cluster dgx-h100 --nodes 2 --name lab --output -\n"
      "Exit status 1: every log is degraded, nothing was fitted.";
  return [given] { return run_calibrate_nccl(*given); };
}

}  // namespace stepcast::cli
