#include "stepcast/validate/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "kernel_price.h"
#include "stepcast/base/interval.h"
#include "stepcast/interop/gpu_csv.h"
#include "stepcast/validate/collective.h"

namespace stepcast::validate {
namespace {

using interop::GpuCase;
using result::TraceOperator;

// The operator as a case that could have been timed by itself; nothing where it is beyond such.
std::optional<GpuCase> case_of(const TraceOperator& op, job::DType dtype) {
  if (op.product) {
    interop::GemmCase c;
    c.dtype = dtype;
    c.m = op.product->m, c.n = op.product->n, c.k = op.product->k;
    c.batch = op.product->batch;
    c.sustained = true;
    return c;
  }
  const result::TraceAttention& a = *op.attention;
  constexpr std::int64_t kMostHeads = std::numeric_limits<int>::max();
  if (a.heads > kMostHeads || a.kv_heads > kMostHeads || a.head_dim > kMostHeads) {
    return std::nullopt;
  }
  interop::AttentionCase c;
  c.kernel = op.name.find("cudnn") != std::string::npos ? "cudnn" : "flash2";
  c.dtype = dtype;
  c.sequences = a.sequences, c.length = a.length;
  c.heads = static_cast<int>(a.heads), c.kv_heads = static_cast<int>(a.kv_heads);
  c.head_dim = static_cast<int>(a.head_dim);
  c.causal = a.causal, c.backward = a.backward;
  return c;
}

void price(TraceOperator& op, KernelPrices& prices) {
  if (!op.product && !op.attention) {
    return;
  }
  const auto dtype = interop::dtype_named(op.dtype);
  if (!dtype) {
    op.why = "its type is not modelled";
    return;
  }
  const auto what = case_of(op, *dtype);
  if (!what) {
    op.why = "its shapes are not read";
    return;
  }
  if (const auto priced = prices.measured(*what, op.why)) {
    op.predicted = priced->seconds;
    op.residual = priced->residual;
  }
}

// How many ranks of the group each node has; empty: not known.
std::vector<int> placement_of(const result::TraceCollective& row, const job::Cluster& cluster) {
  std::map<int, int> nodes;
  if (row.group_size == cluster.ranks()) {
    return std::vector<int>(static_cast<std::size_t>(cluster.nodes), cluster.node.gpus);
  }
  for (const int rank : row.ranks) {
    ++nodes[rank / cluster.node.gpus];
  }
  std::vector<int> out;
  for (const auto& [node, ranks] : nodes) {
    out.push_back(ranks);
  }
  return out;
}

void price_collective(result::TraceCollective& row, CollectiveModel& model) {
  const std::vector<int> placement = placement_of(row, model.cluster());
  if (row.group_size < 2) {
    row.why = "its group is of one rank, or of an unknown number";
  } else if (placement.empty()) {
    row.why = "the ranks of its group are not recorded";
  } else if (const auto why = model.misplaced(placement)) {
    row.why = *why;
  } else if (const auto priced =
                 model.price(row.operation == "all_to_all" ? "alltoall" : row.operation, row.bytes,
                             placement)) {
    row.predicted = priced->time.value;
    row.residual = (priced->time.high - priced->time.value) /
                   std::max(1e-12, kDeviations90 * priced->time.value);
    row.how = fmt::format("{} {}", priced->algorithm, priced->protocol);
  } else {
    row.why = "NCCL has no such operation";
  }
}

// Rows that a curve predicts by how much longer or shorter they take than it says, the largest
// difference first; behind them the others, the longest first.
template <class Row, class Difference>
void largest_difference_first(std::vector<Row>& rows, Difference difference) {
  const auto key = [&](const Row& row) {
    return std::pair(row.predicted.has_value(),
                     row.predicted ? std::abs(difference(row)) : to_seconds(row.time));
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Row& a, const Row& b) { return key(a) > key(b); });
}

}  // namespace

void price_collectives(result::TraceProfile& profile, const job::Job& job,
                       const std::filesystem::path& data_directory) {
  CollectiveModel model({job.cluster, job.nccl}, data_directory);
  for (result::TraceRank& rank : profile.ranks) {
    for (result::TraceCollective& row : rank.collectives) {
      price_collective(row, model);
    }
    largest_difference_first(rank.collectives, [](const result::TraceCollective& row) {
      return static_cast<double>(row.count) * (to_seconds(row.transfer) - *row.predicted);
    });
  }
}

void price_operators(result::TraceProfile& profile, const job::Device& device,
                     const std::filesystem::path& data_directory,
                     const std::vector<std::string>& own) {
  KernelPrices prices(device, "cublas", data_directory / "calibration", own);
  profile.priced_device = device.name;
  for (result::TraceRank& rank : profile.ranks) {
    for (TraceOperator& op : rank.operators) {
      price(op, prices);
    }
    largest_difference_first(rank.operators, [](const TraceOperator& op) {
      return to_seconds(op.time) - static_cast<double>(op.count) * *op.predicted;
    });
  }
}

}  // namespace stepcast::validate
