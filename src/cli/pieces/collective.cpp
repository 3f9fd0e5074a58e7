// simulate collective: predicted times of a collective as nccl-tests prints them, or compared with
// a log.
#include "stepcast/validate/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <variant>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/base/suggestion.h"
#include "stepcast/input/input.h"
#include "stepcast/interop/nccl_log.h"
#include "stepcast/job/nccl.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct CollectiveOptions {
  std::string cluster, nodes, ranks, gpus_per_node;
  std::string op, min_bytes = "8", max_bytes = "8G", factor = "2";
  std::string type = "float";
  std::string algorithm, protocol, version;
  std::vector<std::string> set, calibration;
  std::string compare, json, svg;
};

// 8, 32M, 8G: powers of 1024, as nccl-tests reads them.
std::int64_t size_option(const std::string& option, const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  constexpr std::string_view kUnits = "KMGT";
  int shift = 0;
  bool good = error == std::errc() && value > 0;
  if (good && stop != end) {
    const auto unit =
        kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(*stop))));
    good = stop + 1 == end && unit != std::string_view::npos;
    shift = good ? 10 * (static_cast<int>(unit) + 1) : 0;
  }
  constexpr std::int64_t kLargest = std::int64_t{1} << 50;
  if (!good || value > (kLargest >> shift)) {
    throw option_fault(
        option, fmt::format("'{}' is not a size; expected bytes such as 8, 32M or 8G", text));
  }
  return value << shift;
}

// A value of NCCL_ALGO or NCCL_PROTO in NCCL's own syntax.
std::optional<std::string> forced_option(const std::string& option, const std::string& text,
                                         std::span<const std::string_view> names) {
  if (text.empty()) {
    return std::nullopt;
  }
  const auto rules = job::parse_nccl_rules(text, names);
  if (const auto* fault = std::get_if<job::NcclFault>(&rules)) {
    const bool name = fault->what == job::NcclFault::What::name;
    throw option_fault(option, fmt::format("unknown value '{}'; expected {}",
                                           fault->word.empty() ? text : fault->word,
                                           fmt::join(name ? names
                                                     : fault->what == job::NcclFault::What::function
                                                         ? job::nccl_functions()
                                                         : names,
                                                     ", ")));
  }
  return text;
}

std::string op_option(const std::string& text) {
  const std::string op = interop::collective_name(text);
  if (op.empty()) {
    throw option_fault(
        "--op", fmt::format("unknown collective '{}'; expected one such as all_reduce{}", text,
                            suggestion(text, interop::collective_names())));
  }
  return op;
}

// The first ranks of the cluster; nodes are filled one after another.
std::vector<int> placement(const CollectiveOptions& given, const job::Cluster& cluster) {
  const int each = integer_option("--gpus-per-node", given.gpus_per_node, 1, cluster.node.gpus);
  if (each > cluster.node.gpus) {
    throw option_fault(
        "--gpus-per-node",
        fmt::format("{} is more than a node has; expected 1 to {}", each, cluster.node.gpus));
  }
  int left = each * cluster.nodes;
  if (!given.ranks.empty()) {
    const int ranks = integer_option("--ranks", given.ranks, 1);
    if (ranks > left) {
      throw option_fault("--ranks", fmt::format("{} are more than {} nodes of {} GPUs hold; "
                                                "expected 1 to {}",
                                                ranks, cluster.nodes, each, left));
    }
    left = ranks;
  }
  std::vector<int> out;
  for (; left > 0; left -= each) {
    out.push_back(std::min(left, each));
  }
  return out;
}

void write_tables(Outputs& outputs, const std::string& json,
                  const std::vector<result::CollectiveTable>& tables, const std::string& text) {
  outputs.give("--json", [&] { return json; });
  outputs.give("--svg", [&] { return report::svg(tables); });
  outputs.finish("collective", [&] { return text; });
}

// A path, or the name of a committed file.
void check_calibration(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    std::error_code error;
    const auto committed =
        text::data_directory() / "calibration" / "nccl" / std::filesystem::path(file).filename();
    if (!std::filesystem::is_regular_file(file, error) &&
        !std::filesystem::is_regular_file(committed, error)) {
      throw option_fault("--calibration",
                         "there is no file '" + file + "'; expected a file of simulate calibrate");
    }
  }
}

// The cluster and NCCL's settings; `nodes` 0: a --set states them.
input::Network network_of(const CollectiveOptions& given, int nodes) {
  const auto algorithm = forced_option("--algo", given.algorithm, job::nccl_algorithms());
  const auto protocol = forced_option("--proto", given.protocol, job::nccl_protocols());
  const bool nodes_set = std::any_of(given.set.begin(), given.set.end(), [](const std::string& s) {
    return s.rfind("cluster", 0) == 0;
  });
  if (nodes == 0 && !nodes_set) {
    throw option_fault("--nodes", "missing; expected the number of hosts");
  }
  input::Network network = input::network(given.cluster, nodes, given.set);
  network.nccl.algo = algorithm ? algorithm : network.nccl.algo;
  network.nccl.proto = protocol ? protocol : network.nccl.proto;
  if (!given.version.empty()) {
    network.nccl.version = given.version;
  }
  return network;
}

result::CollectiveTable priced_table(const CollectiveOptions& given, const std::string& op,
                                     int element_bytes, validate::CollectiveModel& model,
                                     const std::vector<int>& ranks) {
  result::CollectiveTable table;
  table.op = op;
  table.cluster = model.cluster().name;
  table.type = given.type;
  table.element_bytes = element_bytes;
  table.device = model.cluster().device.name;
  table.ranks_per_node = ranks;
  table.notes = model.scaled(ranks);
  table.min_bytes = size_option("--min-bytes", given.min_bytes);
  table.max_bytes = size_option("--max-bytes", given.max_bytes);
  table.factor = integer_option("--factor", given.factor, 2);
  if (table.min_bytes > table.max_bytes) {
    throw option_fault("--min-bytes", "larger than --max-bytes; expected at most that");
  }
  const int count = std::accumulate(ranks.begin(), ranks.end(), 0);
  for (const std::int64_t bytes :
       validate::test_sizes(op, count, table.min_bytes, table.max_bytes, table.factor)) {
    const auto point = model.price(op, bytes, ranks);
    if (!point) {
      throw count < 2
          ? option_fault("--ranks", "one rank has no other to communicate with; expected 2 or more")
          : option_fault("--op", op + " is not modelled; expected one such as all_reduce");
    }
    table.points.push_back(*point);
  }
  return table;
}

int run_collective(const CollectiveOptions& given) {
  if (given.cluster.empty()) {
    throw option_fault("--cluster", "missing; expected a cluster such as dgx-h100");
  }
  int nodes = integer_option("--nodes", given.nodes, 1, 0);
  const std::string op = given.op.empty() ? "" : op_option(given.op);
  if (!given.version.empty() && !job::parse_nccl_version(given.version)) {
    throw option_fault("--nccl-version",
                       "'" + given.version + "' is not a version; expected one such as 2.23.4");
  }
  const auto element = interop::element_bytes(given.type);
  if (!element) {
    throw option_fault("--datatype", "unknown type '" + given.type +
                                         "'; expected one such as float, half, bfloat16, int8");
  }
  std::optional<interop::CollectiveLog> log;
  if (!given.compare.empty()) {
    log = interop::read_collectives(given.compare);
    if (nodes == 0) {
      for (const auto& measured : log->runs) {
        nodes = std::max(nodes, static_cast<int>(measured.ranks_per_node.size()));
      }
    }
  } else if (op.empty()) {
    throw option_fault("--op", "missing; expected a collective such as all_reduce, or --compare");
  }
  const input::Network network = network_of(given, nodes);
  check_calibration(given.calibration);
  validate::CollectiveModel model(network, text::data_directory(), given.calibration);
  const std::vector<int> ranks = placement(given, model.cluster());
  Outputs outputs;
  outputs.add("--json", given.json);
  outputs.add("--svg", given.svg);
  if (log) {
    const auto comparison = validate::compare_log(model, *log, ranks, op);
    write_tables(outputs, report::json(comparison.validation), comparison.tables,
                 report::compared(comparison.tables) + "\n" +
                     report::terminal(comparison.validation, terminal_colour()));
    return done;
  }
  const result::CollectiveTable table = priced_table(given, op, *element, model, ranks);
  write_tables(outputs, report::json(table), {table}, report::nccl_tests(table));
  return done;
}

}  // namespace

Run add_collective(Command& app) {
  auto given = std::make_shared<CollectiveOptions>();
  app.add_option("--cluster", given->cluster, "the cluster, a name in configs/clusters")
      .type_name("NAME");
  app.add_option("--nodes", given->nodes,
                 "number of hosts (with --compare: by default those of the log)")
      .type_name("N");
  app.add_option("--ranks", given->ranks, "number of ranks that take part (by default all GPUs)")
      .type_name("R");
  app.add_option("--gpus-per-node", given->gpus_per_node,
                 "ranks of each node (by default all its GPUs)")
      .type_name("G");
  app.add_option(
         "--op", given->op,
         "all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce, gather, scatter, "
         "sendrecv")
      .type_name("OP");
  app.add_option("--min-bytes,-b", given->min_bytes, "smallest message size")
      .type_name("BYTES")
      .show_default();
  app.add_option("--max-bytes,-e", given->max_bytes, "largest message size")
      .type_name("BYTES")
      .show_default();
  app.add_option("--factor,-f", given->factor, "factor from one size to the next")
      .type_name("F")
      .show_default();
  app.add_option("--datatype,-d", given->type, "element type, as nccl-tests names it")
      .type_name("TYPE")
      .show_default();
  app.add_option("--algo", given->algorithm,
                 "force an algorithm as NCCL_ALGO does: ring, tree, nvls, nvlstree, collnetdirect, "
                 "collnetchain, pat; also lists, and exclusions by ^")
      .type_name("ALGO");
  app.add_option("--proto", given->protocol,
                 "force a protocol as NCCL_PROTO does: ll, ll128, simple")
      .type_name("PROTO");
  app.add_option("--nccl-version", given->version,
                 "NCCL version whose tuning is used (by default the current one)")
      .type_name("VERSION");
  app.add_option("--calibration", given->calibration,
                 "use this calibration file of simulate calibrate nccl; may come several times")
      .type_name("FILE")
      .one_value();
  app.add_option("--set", given->set,
                 "override a key below cluster or nccl; may come several times")
      .type_name("KEY=VALUE")
      .one_value();
  app.add_option("--compare", given->compare,
                 "compare with nccl-tests output, or a CSV with collective, size_bytes, time_us")
      .type_name("LOG");
  add_output(app, "--json", given->json, "write the result as JSON");
  add_output(app, "--svg", given->svg, "draw bus bandwidth over size");
  app.footer =
      "Examples:\n"
      "  simulate collective --cluster dgx-h100 --nodes 8 --op all_reduce\n"
      "  simulate collective --cluster dgx-h100 --nodes 2 --op alltoall --min-bytes 1M --json -\n"
      "  simulate collective --cluster dgx-a100 --nodes 2 --compare all_reduce.log\n"
      "  simulate collective --cluster dgx-a100 --nodes 2 --compare all_reduce.log --svg "
      "busbw.svg";
  return [given] { return run_collective(*given); };
}

}  // namespace stepcast::cli
