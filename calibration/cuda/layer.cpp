// Times one transformer layer in one stream. It checks predictions and is never used for a fit.
#include <algorithm>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "attention.h"
#include "bench.h"
#include "gemm.h"
#include "gemm_layout.h"
#include "gemm_operands.h"
#include "memory.h"
#include "stepcast/config/config.h"
#include "stepcast/measured/kernels.h"

namespace stepcast::harness::cuda {
namespace {

using interop::AttentionCase;
using interop::GemmCase;
using interop::MemoryCase;
using measured::LayerKernel;

// Bytes that one pass over the layer accesses, to determine whether repetitions would find them in
// L2.
std::int64_t touched(const Context& context, const std::vector<LayerKernel>& kernels) {
  std::int64_t bytes = 0;
  for (const LayerKernel& kernel : kernels) {
    if (const auto* gemm = std::get_if<GemmCase>(&kernel.what)) {
      const bool k_innermost = needs_k_innermost(gemm->dtype, target_of(context));
      bytes += working_set(*gemm, gemm_view(*gemm, k_innermost));
    } else if (const auto* memory = std::get_if<MemoryCase>(&kernel.what)) {
      bytes += memory->bytes * kernel.launches;
    }
  }
  return bytes;
}

class Layer {
 public:
  Layer(Context& context, const std::vector<LayerKernel>& kernels, std::uint64_t seed)
      : context_(context) {
    const std::int64_t bytes = std::max<std::int64_t>(1, touched(context, kernels));
    constexpr int kMaxCopies = 64;
    copies_ = rotated_copies(context, bytes, kMaxCopies);
    for (const LayerKernel& kernel : kernels) {
      std::visit([&](const auto& what) { add(what, kernel.launches, ++seed); }, kernel.what);
    }
  }

  void launch(int rotate) {
    for (const auto& step : steps_) {
      step(rotate);
    }
  }

 private:
  void add(const GemmCase& what, int, std::uint64_t seed) {
    gemms_.push_back(std::make_unique<Gemm>(context_, what, copies_, seed));
    steps_.emplace_back([gemm = gemms_.back().get()](int rotate) { gemm->launch(rotate); });
  }
  void add(const AttentionCase& what, int, std::uint64_t) {
    attentions_.push_back(std::make_unique<Attention>(context_, what));
    steps_.emplace_back(
        [attention = attentions_.back().get()](int rotate) { attention->launch(rotate); });
  }
  void add(const MemoryCase& what, int launches, std::uint64_t) {
    // Equal kernels (two norms, two residual additions) share buffers and use them in turn.
    auto found = std::find_if(memories_.begin(), memories_.end(),
                              [&](const Memory& m) { return m.what == what; });
    if (found == memories_.end()) {
      memories_.push_back({what, std::make_unique<MemoryKernel>(context_, what)});
      found = memories_.end() - 1;
    }
    MemoryKernel* kernel = found->kernel.get();
    for (int i = 0; i < launches; ++i) {
      steps_.emplace_back([this, kernel](int) { kernel->launch(turn_++ & kTurns); });
    }
  }

  struct Memory {
    MemoryCase what;
    std::unique_ptr<MemoryKernel> kernel;
  };
  static constexpr unsigned kTurns = 0x3fffffff;  // fits in an int after the counter wraps

  Context& context_;
  int copies_ = 1;
  unsigned turn_ = 0;
  std::vector<std::unique_ptr<Gemm>> gemms_;
  std::vector<std::unique_ptr<Attention>> attentions_;
  std::vector<Memory> memories_;
  std::vector<std::function<void(int)>> steps_;
};

}  // namespace

Samples run_layer(Context& context, const interop::LayerCase& what, const Policy& policy) {
  const auto kernels = measured::layer_kernels(config::model(what.model), what);
  if (const auto* impossible = std::get_if<Infeasible>(&kernels)) {
    throw Unsupported(impossible->reason);
  }
  // Each kernel reads its own buffers, so none finds the results of the previous kernel in L2. At
  // the measured sizes a layer's tensors are larger than L2.
  Layer layer(context, std::get<0>(kernels), policy.seed);
  return time_burst(context, policy, [&](int rotate) { layer.launch(rotate); });
}

}  // namespace stepcast::harness::cuda
