// A predicted collective in nccl-tests' format (src/common.cu, 2.13 to 2.17), and
// measured points beside predicted ones.
#include <fmt/format.h>

#include <algorithm>

#include "../record/tables.h"
#include "bus.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

// A time in seven columns; the larger it is, the fewer decimals it has.
std::string time_column(double microseconds) {
  return microseconds >= 1e4      ? fmt::format("{:7.0f}", microseconds)
         : microseconds >= 99.995 ? fmt::format("{:7.1f}", microseconds)
                                  : fmt::format("{:7.2f}", microseconds);
}

std::int64_t elements(const result::CollectiveTable& table, std::int64_t bytes) {
  return bytes / table.element_bytes / (sharded(table.op) ? std::max(ranks_of(table), 1) : 1);
}

bool reduces(const std::string& op) {
  return op == "all_reduce" || op == "reduce_scatter" || op == "reduce";
}

int root(const std::string& op) {
  return op == "broadcast" || op == "reduce" || op == "gather" || op == "scatter" ? 0 : -1;
}

std::string preamble(const result::CollectiveTable& table) {
  std::string text;
  for (const std::string& note : table.notes) {
    text += fmt::format("# {}\n", note);
  }
  text += fmt::format(
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
  return text + "#\n";
}

// The columns from size to root, with which both kinds of table begin.
std::string row_front(const result::CollectiveTable& table, std::int64_t bytes) {
  return fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:6}", bytes, elements(table, bytes), table.type,
                     reduces(table.op) ? "sum" : "none", root(table.op));
}

std::string footer(const result::CollectiveTable& table, double average) {
  return fmt::format(
      "# Out of bounds values : 0 OK\n"
      "# Avg bus bandwidth    : {:.6g} \n"
      "#\n"
      "# Collective test concluded: {}_perf\n",
      average, table.op);
}

}  // namespace

std::string nccl_tests(const result::CollectiveTable& table) {
  std::string text =
      preamble(table) +
      "#                                                              out-of-place"
      "                       in-place          \n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong"
      "     time   algbw   busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)       "
      "     (us)  (GB/s)  (GB/s)       \n";
  double sum = 0;
  for (const result::CollectivePoint& p : table.points) {
    const double bus = bus_bandwidth(table, p.bytes, p.time.value) * 1e-9;
    sum += bus;
    // Nothing is computed, so nothing can be checked: N/A, as without validation.
    const std::string half =
        fmt::format("  {}  {:6.2f}  {:6.2f}  {:>5}", time_column(p.time.value * 1e6),
                    static_cast<double>(p.bytes) / p.time.value * 1e-9, bus, "N/A");
    text += row_front(table, p.bytes) + half + half + "\n";
  }
  return text +
         footer(table, table.points.empty() ? 0 : sum / static_cast<double>(table.points.size()));
}

std::string compared(const std::vector<result::CollectiveTable>& tables) {
  std::string text;
  for (const result::CollectiveTable& table : tables) {
    text += (text.empty() ? "" : "\n") + preamble(table) +
            "#                                                                predicted"
            "                      measured     90 % interval\n"
            "#       size         count      type   redop    root     time   algbw   busbw"
            "     time   busbw   error      low     high  algorithm\n"
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)"
            "     (us)  (GB/s)     (%)     (us)     (us)\n";
    double sum = 0;
    int priced = 0;
    for (const result::CollectivePoint& p : table.points) {
      const std::string measured =
          p.measured > 0 ? fmt::format("  {}  {:6.2f}", time_column(p.measured * 1e6),
                                       bus_bandwidth(table, p.bytes, p.measured) * 1e-9)
                         : fmt::format("  {:>7}  {:>6}", "-", "-");
      if (!p.priced) {
        text += row_front(table, p.bytes) + fmt::format("  {:>7}  {:>6}  {:>6}", "-", "-", "-") +
                measured + fmt::format("  {:>6}  {:>7}  {:>7}  -\n", "-", "-", "-");
        continue;
      }
      const double bus = bus_bandwidth(table, p.bytes, p.time.value) * 1e-9;
      sum += bus;
      ++priced;
      text += row_front(table, p.bytes) +
              fmt::format("  {}  {:6.2f}  {:6.2f}", time_column(p.time.value * 1e6),
                          static_cast<double>(p.bytes) / p.time.value * 1e-9, bus) +
              measured +
              (p.measured > 0 ? fmt::format("  {:+6.1f}", 100 * (p.time.value / p.measured - 1))
                              : fmt::format("  {:>6}", "-")) +
              fmt::format("  {}  {}  {} {}\n", time_column(p.time.low * 1e6),
                          time_column(p.time.high * 1e6), p.algorithm, p.protocol);
    }
    text += footer(table, priced > 0 ? sum / priced : 0);
  }
  return text;
}

std::string json(const result::CollectiveTable& table) {
  const auto point = [&](const result::CollectivePoint& p) -> Record {
    return {{"id", fmt::format("{} {}", table.op, p.bytes)},
            {"bytes", p.bytes},
            {"predicted", p.time.value},
            {"low", p.time.low},
            {"high", p.time.high},
            {"algorithm", p.algorithm},
            {"protocol", p.protocol},
            {"algbw", static_cast<double>(p.bytes) / p.time.value},
            {"busbw", bus_bandwidth(table, p.bytes, p.time.value)}};
  };
  return json_of({{"schema", 1},
                  {"op", table.op},
                  {"ranks", ranks_of(table)},
                  {"nodes", table.ranks_per_node.size()},
                  {"rows", rows(table.points, point)}});
}

std::string points(const result::Validation& validation, bool colour) {
  const auto point = [](const result::ValidationRow& row) -> Record {
    const auto number = [](double seconds) { return time_column(seconds * 1e6); };
    const bool known = row.published > 0, ran = row.status != "skipped";
    return {{"", or_dash(known || ran, number(row.published)), "measured", Show::number},
            {"", or_dash(ran, number(row.predicted)), "predicted", Show::number},
            {"", or_dash(ran && known, row.error), "error", Show::change},
            {"", or_dash(ran, number(row.low) + " to " + number(row.high)), "90 % interval",
             Show::number},
            {"", ran ? row.id : row.id + ": " + row.reason.value_or(""), "point"}};
  };
  const Paint paint{colour};
  return heading(paint, "Measured and predicted", "microseconds") +
         text_table(validation.rows, point).text(paint, kUsualWidth);
}

}  // namespace stepcast::report
