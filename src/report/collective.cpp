// A predicted collective as nccl-tests prints one (format of src/common.cu, 2.13 to 2.17), and
// measured points beside predicted ones.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "json_writer.h"
#include "stepcast/report/report.h"
#include "text_table.h"

namespace stepcast::report {
namespace {

using Align = TextTable::Align;

int ranks_of(const result::CollectiveTable& table) {
  return std::accumulate(table.ranks_per_node.begin(), table.ranks_per_node.end(), 0);
}

// Bytes on the busiest link over bytes of the size column (nccl-tests: doc/PERFORMANCE.md).
double bus_factor(const std::string& op, int ranks) {
  const double n = ranks;
  if (op == "all_reduce") {
    return 2 * (n - 1) / n;
  }
  return op == "all_gather" || op == "reduce_scatter" || op == "alltoall" ? (n - 1) / n : 1;
}

bool sharded(const std::string& op) {
  return op == "all_gather" || op == "reduce_scatter" || op == "alltoall";
}

// Seven columns: fewer decimals the larger the time.
std::string time_column(double microseconds) {
  return microseconds >= 1e4      ? fmt::format("{:7.0f}", microseconds)
         : microseconds >= 99.995 ? fmt::format("{:7.1f}", microseconds)
                                  : fmt::format("{:7.2f}", microseconds);
}

constexpr int kElementBytes = 4;  // nccl-tests' default type, float

}  // namespace

std::string nccl_tests(const result::CollectiveTable& table) {
  const int ranks = ranks_of(table);
  const bool reduces =
      table.op == "all_reduce" || table.op == "reduce_scatter" || table.op == "reduce";
  const bool rooted = table.op == "broadcast" || table.op == "reduce";
  std::string text = fmt::format(
      "# Collective test starting: {}_perf\n"
      "# nThread 1 nGpus 1 minBytes {} maxBytes {} step: {}(factor) warmup iters: 0 iters: 0 "
      "agg iters: 1 validation: 0 graph: 0\n"
      "#\n"
      "# Using devices\n",
      table.op, table.min_bytes, table.max_bytes, table.factor);
  int rank = 0;
  for (std::size_t node = 0; node < table.ranks_per_node.size(); ++node) {
    for (int local = 0; local < table.ranks_per_node[node]; ++local) {
      text += fmt::format("#  Rank {:2} Group  0 Pid {:6} on {:>10} device {:2} [0x00] {}\n",
                          rank++, 0, fmt::format("node{}", node), local, table.device);
    }
  }
  text +=
      "#\n"
      "#                                                              out-of-place"
      "                       in-place          \n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong"
      "     time   algbw   busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)       "
      "     (us)  (GB/s)  (GB/s)       \n";
  double sum = 0;
  for (const result::CollectivePoint& p : table.points) {
    const double algorithm = static_cast<double>(p.bytes) / p.time.value * 1e-9;
    const double bus = algorithm * bus_factor(table.op, ranks);
    sum += bus;
    const std::int64_t count =
        p.bytes / kElementBytes / (sharded(table.op) ? std::max(ranks, 1) : 1);
    // Nothing is computed, so nothing is checked: N/A, as with validation off.
    const std::string half = fmt::format("  {}  {:6.2f}  {:6.2f}  {:>5}",
                                         time_column(p.time.value * 1e6), algorithm, bus, "N/A");
    text += fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:6}{}{}\n", p.bytes, count, "float",
                        reduces ? "sum" : "none", rooted ? 0 : -1, half, half);
  }
  text += fmt::format(
      "# Out of bounds values : 0 OK\n"
      "# Avg bus bandwidth    : {:.6g} \n"
      "#\n"
      "# Collective test concluded: {}_perf\n",
      table.points.empty() ? 0.0 : sum / static_cast<double>(table.points.size()), table.op);
  return text;
}

std::string json(const result::CollectiveTable& table) {
  const int ranks = ranks_of(table);
  JsonWriter out;
  out.object();
  out.key("schema").integer(1);
  out.key("op").text(table.op);
  out.key("ranks").integer(ranks);
  out.key("nodes").integer(static_cast<std::int64_t>(table.ranks_per_node.size()));
  out.key("rows").array();
  for (const result::CollectivePoint& p : table.points) {
    const double algorithm = static_cast<double>(p.bytes) / p.time.value;
    out.object(true);
    out.key("id").text(fmt::format("{} {}", table.op, p.bytes));
    out.key("bytes").integer(p.bytes);
    out.key("predicted").number(p.time.value);
    out.key("low").number(p.time.low);
    out.key("high").number(p.time.high);
    out.key("algorithm").text(p.algorithm);
    out.key("protocol").text(p.protocol);
    out.key("algbw").number(algorithm);
    out.key("busbw").number(algorithm * bus_factor(table.op, ranks));
    out.close();
  }
  out.close();
  out.close();
  return std::move(out).finish();
}

std::string points(const result::Validation& validation, bool colour) {
  const Paint paint{colour};
  TextTable table(
      {{"measured"}, {"predicted"}, {"error"}, {"90 % interval"}, {"point", Align::left}});
  for (const result::ValidationRow& row : validation.rows) {
    const auto number = [](double seconds) { return time_column(seconds * 1e6); };
    if (row.status == "skipped") {
      table.row({row.published > 0 ? number(row.published) : "-", "-", "-", "-",
                 row.id + ": " + row.reason.value_or("")});
      continue;
    }
    table.row({number(row.published), number(row.predicted),
               row.published > 0 ? fmt::format("{:+.1f} %", 100 * row.error) : "-",
               number(row.low) + " to " + number(row.high), row.id});
  }
  constexpr int kWidth = 120;
  return paint("1", "Measured and predicted") + "  " + paint("2", "microseconds") + "\n" +
         table.text(paint, kWidth);
}

}  // namespace stepcast::report
