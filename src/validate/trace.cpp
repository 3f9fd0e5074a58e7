#include "stepcast/validate/trace.h"

#include <limits>

#include "kernel_price.h"
#include "stepcast/interop/gpu_csv.h"

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

}  // namespace

void price_operators(result::TraceProfile& profile, const job::Device& device,
                     const std::filesystem::path& data_directory,
                     const std::vector<std::string>& own) {
  KernelPrices prices(device, "cublas", data_directory / "calibration", own);
  profile.priced_device = device.name;
  for (result::TraceRank& rank : profile.ranks) {
    for (TraceOperator& op : rank.operators) {
      price(op, prices);
    }
  }
}

}  // namespace stepcast::validate
