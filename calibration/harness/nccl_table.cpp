#include "nccl_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace stepcast::harness {
namespace {

using interop::CollectiveCase;
using interop::GpuMeasurement;
using job::DType;

struct Type {
  DType dtype;
  const char* name;
  int bytes;
};
constexpr std::array kTypes = {Type{DType::fp32, "float", 4}, Type{DType::bf16, "bfloat16", 2},
                               Type{DType::fp16, "half", 2}, Type{DType::fp8, "f8e4m3", 1},
                               Type{DType::int8, "int8", 1}};

const Type* type_of(DType dtype) {
  const auto* found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& t) { return t.dtype == dtype; });
  return found == kTypes.end() ? nullptr : found;
}

// What a rank sends and receives of a size column: all of it or its share.
struct Op {
  const char* name;
  bool send_share, receive_share;
  bool reduces, rooted;
};
constexpr std::array kOps = {
    Op{"all_reduce", false, false, true, false},    Op{"all_gather", true, false, false, false},
    Op{"reduce_scatter", false, true, true, false}, Op{"alltoall", false, false, false, false},
    Op{"sendrecv", false, false, false, false},     Op{"broadcast", false, false, false, true},
    Op{"reduce", false, false, true, true}};

const Op* op_of(std::string_view name) {
  const auto* found =
      std::find_if(kOps.begin(), kOps.end(), [&](const Op& op) { return name == op.name; });
  return found == kOps.end() ? nullptr : found;
}

bool in_shares(const Op& op) {
  return op.send_share || op.receive_share || std::string_view(op.name) == "alltoall";
}

// As nccl-tests rounds times: four digits or so.
std::string microseconds(double seconds) {
  const double us = seconds * 1e6;
  return us >= 10000 ? fmt::format("{:.0f}", us)
         : us >= 100 ? fmt::format("{:.1f}", us)
                     : fmt::format("{:.2f}", us);
}

// Everything that stands once for a table.
using Key = std::tuple<std::string, DType, int, int, std::string, std::string>;
Key key_of(const CollectiveCase& c) { return {c.op, c.dtype, c.nodes, c.ranks, c.algo, c.proto}; }

std::string table_text(const interop::GpuSession& session, const CollectiveCase& first,
                       const std::map<std::int64_t, double>& seconds_by_size) {
  const Op& op = *op_of(first.op);
  std::string out = fmt::format(
      "# nThread 1 nGpus 1 minBytes {} maxBytes {} step: 2(factor)\n"
      "# Collective test starting: {}_perf\n",
      seconds_by_size.begin()->first, seconds_by_size.rbegin()->first, first.op);
  if (!session.nccl.empty()) {
    out += fmt::format("# NCCL version {}\n", session.nccl);
  }
  for (const auto& [variable, value] :
       {std::pair{"NCCL_ALGO", first.algo}, {"NCCL_PROTO", first.proto}}) {
    if (!value.empty()) {
      out += fmt::format("# {}={}\n", variable, value);
    }
  }
  out += "#\n# Using devices\n";
  const int each = first.ranks / first.nodes;
  for (int rank = 0; rank < first.ranks; ++rank) {
    // Nodes are numbered and processes are not told: a log names no host and no user.
    out += fmt::format("#  Rank {:2} Group  0 Pid      0 on node{} device {:2} [0x00] {}\n", rank,
                       rank / each, rank % each, session.gpu);
  }
  out += fmt::format(
      "#\n# {:>60}                       {}\n"
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}",
      "out-of-place", "in-place", "size", "count", "type", "redop", "root");
  for (int half = 0; half < 2; ++half) {
    out += fmt::format("  {:>7}  {:>6}  {:>6} {:>6}", "time", "algbw", "busbw", "#wrong");
  }
  out += fmt::format("\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "");
  for (int half = 0; half < 2; ++half) {
    out += fmt::format("  {:>7}  {:>6}  {:>6} {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  }
  out += '\n';
  double bus_total = 0;
  for (const auto& [bytes, seconds] : seconds_by_size) {
    CollectiveCase what = first;
    what.bytes = bytes;
    const double rate = static_cast<double>(bytes) / seconds * 1e-9;
    const double bus = rate * bus_factor(first.op, first.ranks);
    bus_total += bus;
    // Elements are compared on each communicator's first use, not at each size.
    out +=
        fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6.2f}  {:>6.2f} {:>6}", bytes,
                    counts_of(what)->count, nccl_type(first.dtype), op.reduces ? "sum" : "none",
                    op.rooted ? 0 : -1, microseconds(seconds), rate, bus, "N/A");
    out += fmt::format("  {:>7}  {:>6}  {:>6} {:>6}\n", "N/A", "N/A", "N/A", "N/A");
  }
  // A wrong element ends the run: none got this far.
  out += fmt::format("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {:g}\n#\n",
                     bus_total / static_cast<double>(seconds_by_size.size()));
  return out;
}

}  // namespace

std::string nccl_type(DType dtype) {
  const Type* type = type_of(dtype);
  return type == nullptr ? "" : type->name;
}

int nccl_type_bytes(DType dtype) {
  const Type* type = type_of(dtype);
  return type == nullptr ? 0 : type->bytes;
}

std::optional<CollectiveCounts> counts_of(const CollectiveCase& what) {
  const Op* op = op_of(what.op);
  const Type* type = type_of(what.dtype);
  if (op == nullptr || type == nullptr || what.ranks < 1 || what.bytes < 1) {
    return std::nullopt;
  }
  const std::int64_t unit = in_shares(*op) ? std::int64_t{type->bytes} * what.ranks : type->bytes;
  if (what.bytes % unit != 0) {
    return std::nullopt;
  }
  const std::int64_t whole = what.bytes / type->bytes;
  const std::int64_t share = what.bytes / unit;
  return CollectiveCounts{in_shares(*op) ? share : whole, op->send_share ? share : whole,
                          op->receive_share ? share : whole};
}

std::int64_t whole_size(const std::string& op, std::int64_t bytes, int ranks) {
  constexpr std::int64_t kAligned = 16;  // nccl-tests' shares (src/all_gather.cu and its like)
  const Op* known = op_of(op);
  if (known == nullptr || !in_shares(*known) || ranks < 1) {
    return bytes;
  }
  const std::int64_t unit = kAligned * ranks;
  return bytes / unit * unit;
}

bool in_shares(const std::string& op) {
  const Op* known = op_of(op);
  return known != nullptr && in_shares(*known);
}

double bus_factor(const std::string& op, int ranks) {
  const Op* known = op_of(op);
  if (known == nullptr || ranks < 1) {
    return 0;
  }
  const double n = ranks;
  if (op == "all_reduce") {
    return 2 * (n - 1) / n;
  }
  return in_shares(*known) ? (n - 1) / n : 1;
}

void write_nccl_tables(std::ostream& out, const interop::GpuSession& session,
                       const std::vector<GpuMeasurement>& measurements) {
  std::vector<CollectiveCase> tables;  // by their first case
  std::map<Key, std::map<std::int64_t, double>> rows;
  for (const GpuMeasurement& m : measurements) {
    const auto* what = std::get_if<CollectiveCase>(&m.what);
    if (what == nullptr || !m.skipped.empty() || m.time.median <= 0 || !counts_of(*what) ||
        what->nodes < 1 || what->ranks % what->nodes != 0) {
      continue;
    }
    auto& sizes = rows[key_of(*what)];
    if (sizes.empty()) {
      tables.push_back(*what);
    }
    sizes[what->bytes] = m.time.median;
  }
  for (const CollectiveCase& table : tables) {
    out << table_text(session, table, rows[key_of(table)]);
  }
}

}  // namespace stepcast::harness
