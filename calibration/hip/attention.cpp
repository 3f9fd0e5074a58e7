// Fused attention by MIOpen's Find API (MIOpen 3.3, ROCm 6.3, or later), whose 16-bit solutions are
// Composable Kernel's FlashAttention-2. Passes and devices without a solution are reported as
// unsupported by the library itself.
#include "cuda/attention.h"

#include <miopen/miopen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

namespace stepcast::harness::cuda {
namespace {

using interop::AttentionCase;

constexpr std::int64_t kAlign = 256;
constexpr std::int64_t kMaxSlots = 16;

void check_miopen(miopenStatus_t status, const char* what) {
  if (status == miopenStatusSuccess) {
    return;
  }
  const std::string text = std::string(what) + ": " + miopenGetErrorString(status);
  switch (status) {
    case miopenStatusNotImplemented:
    case miopenStatusUnsupportedOp:
    case miopenStatusBadParm:
    case miopenStatusAllocFailed:
      throw Unsupported(text);
    default:
      throw std::runtime_error(text);
  }
}

// A tensor argument of a problem: its shape and how its memory is filled.
struct Argument {
  enum class Kind { operand, result, one, zero, zero_integer } kind;
  miopenTensorArgumentId_t id;
  std::array<int, 4> dims;  // [sequences, heads, length, size], packed
  miopenDataType_t type;

  std::int64_t elements() const {
    std::int64_t n = 1;
    for (const int d : dims) {
      n *= d;
    }
    return n;
  }
  std::int64_t bytes() const {
    const std::int64_t size = type == miopenFloat ? 4 : type == miopenInt64 ? 8 : 2;
    return (elements() * size + kAlign - 1) / kAlign * kAlign;
  }
  bool scalar() const { return elements() == 1; }
};

std::vector<Argument> arguments_of(const AttentionCase& c) {
  using Kind = Argument::Kind;
  const miopenDataType_t type = c.dtype == job::DType::fp16 ? miopenHalf : miopenBFloat16;
  const auto n = static_cast<int>(c.sequences);
  const auto s = static_cast<int>(c.length);
  const std::array<int, 4> query = {n, c.heads, s, c.head_dim};
  const std::array<int, 4> key = {n, c.kv_heads, s, c.head_dim};
  const std::array<int, 4> row = {n, c.heads, s, 1};
  const std::array<int, 4> single = {1, 1, 1, 1};
  const Kind made = c.backward ? Kind::operand : Kind::result;  // by the forward pass
  std::vector<Argument> all = {
      {Kind::operand, miopenTensorMhaQ, query, type},
      {Kind::operand, miopenTensorMhaK, key, type},
      {Kind::operand, miopenTensorMhaV, key, type},
      {made, miopenTensorMhaO, query, type},
      {made, miopenTensorMhaM, row, miopenFloat},
      {made, miopenTensorMhaZInv, row, miopenFloat},
      {Kind::zero, miopenTensorMhaDropoutProbability, single, miopenFloat},
      {Kind::zero_integer, miopenTensorMhaDropoutSeed, single, miopenInt64},
      {Kind::zero_integer, miopenTensorMhaDropoutOffset, single, miopenInt64}};
  // Scales of 8-bit operands, which MIOpen's problem has in every type.
  std::vector<miopenTensorArgumentId_t> scales = {miopenTensorMhaDescaleK, miopenTensorMhaDescaleQ,
                                                  miopenTensorMhaDescaleV, miopenTensorMhaDescaleS,
                                                  miopenTensorMhaScaleS};
  std::vector<miopenTensorArgumentId_t> largest;
  if (c.backward) {
    all.push_back({Kind::operand, miopenTensorMhaDO, query, type});
    all.push_back({Kind::result, miopenTensorMhaDQ, query, type});
    all.push_back({Kind::result, miopenTensorMhaDK, key, type});
    all.push_back({Kind::result, miopenTensorMhaDV, key, type});
    scales.insert(scales.end(),
                  {miopenTensorMhaDescaleO, miopenTensorMhaDescaleDO, miopenTensorMhaDescaleDS,
                   miopenTensorMhaScaleDS, miopenTensorMhaScaleDQ, miopenTensorMhaScaleDK,
                   miopenTensorMhaScaleDV});
    largest = {miopenTensorMhaAmaxDQ, miopenTensorMhaAmaxDK, miopenTensorMhaAmaxDV,
               miopenTensorMhaAmaxDS};
  } else {
    scales.push_back(miopenTensorMhaScaleO);
    largest = {miopenTensorMhaAmaxO, miopenTensorMhaAmaxS};
  }
  for (const auto id : scales) {
    all.push_back({Kind::one, id, single, miopenFloat});
  }
  for (const auto id : largest) {
    all.push_back({Kind::result, id, single, miopenFloat});
  }
  return all;
}

// A handle of MIOpen's that is destroyed with its own function.
template <typename T>
class Owned {
 public:
  explicit Owned(miopenStatus_t (*destroy)(T)) : destroy_(destroy) {}
  ~Owned() {
    if (value != nullptr) {
      (void)destroy_(value);
    }
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T value = nullptr;

 private:
  miopenStatus_t (*destroy_)(T);
};

using Tensors = std::map<miopenTensorArgumentId_t, Buffer>;

// One direction: the solution that MIOpen finds fastest, and its workspace.
class Pass {
 public:
  Pass(miopenHandle_t handle, const AttentionCase& what)
      : handle_(handle), arguments_(arguments_of(what)), solution_(miopenDestroySolution) {
    mask_ = what.causal ? miopenMhaMaskCausal : miopenMhaMaskNone;
    // MIOpen 3.3 has no function that destroys it: a few bytes for each case.
    miopenMhaDescriptor_t attention = nullptr;
    check_miopen(miopenCreateMhaDescriptor(&attention), "miopenCreateMhaDescriptor");
    check_miopen(
        miopenSetMhaDescriptor(attention, 1.0F / std::sqrt(static_cast<float>(what.head_dim))),
        "miopenSetMhaDescriptor");
    Owned<miopenProblem_t> problem(miopenDestroyProblem);
    check_miopen(miopenCreateMhaProblem(&problem.value, attention,
                                        what.backward ? miopenProblemDirectionBackward
                                                      : miopenProblemDirectionForward),
                 "miopenCreateMhaProblem");
    for (const Argument& a : arguments_) {
      Owned<miopenTensorDescriptor_t> shape(miopenDestroyTensorDescriptor);
      check_miopen(miopenCreateTensorDescriptor(&shape.value), "miopenCreateTensorDescriptor");
      const std::array<int, 4> strides = {a.dims[1] * a.dims[2] * a.dims[3], a.dims[2] * a.dims[3],
                                          a.dims[3], 1};
      check_miopen(miopenSetTensorDescriptor(shape.value, a.type, 4, a.dims.data(), strides.data()),
                   "miopenSetTensorDescriptor");
      check_miopen(miopenSetProblemTensorDescriptor(problem.value, a.id, shape.value),
                   "miopenSetProblemTensorDescriptor");
    }
    std::size_t found = 0;
    check_miopen(miopenFindSolutions(handle, problem.value, nullptr, &solution_.value, &found, 1),
                 "miopenFindSolutions");
    if (found == 0) {
      throw Unsupported("MIOpen has no solution for it");
    }
    std::size_t bytes = 0;
    check_miopen(miopenGetSolutionWorkspaceSize(solution_.value, &bytes),
                 "miopenGetSolutionWorkspaceSize");
    workspace_ = Buffer(bytes);
  }

  const std::vector<Argument>& arguments() const { return arguments_; }

  void launch(const Tensors& tensors, std::int64_t slot) {
    std::vector<miopenTensorArgument_t> given;
    given.reserve(arguments_.size() + 1);
    for (const Argument& a : arguments_) {
      const std::int64_t at = a.scalar() ? 0 : slot * a.bytes();
      given.push_back({a.id, nullptr, tensors.at(a.id).as<char>() + at});
    }
    given.push_back({miopenTensorMhaMask, nullptr, &mask_});
    check_miopen(miopenRunSolution(handle_, solution_.value, given.size(), given.data(),
                                   workspace_.data(), workspace_.size()),
                 "miopenRunSolution");
  }

 private:
  miopenHandle_t handle_;
  std::vector<Argument> arguments_;
  Owned<miopenSolution_t> solution_;
  Buffer workspace_;
  miopenMhaMask_t mask_ = miopenMhaMaskNone;
};

}  // namespace

struct Attention::State {
  Owned<miopenHandle_t> handle{miopenDestroy};
  Tensors tensors;  // with space for all slots
  std::int64_t slots = 1;
  std::unique_ptr<Pass> pass;

  void allocate(Context& context, const AttentionCase& what,
                const std::vector<Argument>& arguments) {
    std::int64_t bytes = 0;
    for (const Argument& a : arguments) {
      bytes += a.bytes();
    }
    // All slots together are twice as large as the last cache, so that the next launch reads its
    // operands from memory.
    const std::int64_t wanted = 2 * static_cast<std::int64_t>(context.properties.l2CacheSize);
    slots = std::clamp<std::int64_t>((wanted + bytes - 1) / bytes, 1, kMaxSlots);
    std::uint64_t seed = 1;
    for (const Argument& a : arguments) {
      Buffer& buffer = tensors[a.id];
      buffer = Buffer(static_cast<std::size_t>(a.bytes() * (a.scalar() ? 1 : slots)));
      if (a.kind == Argument::Kind::operand && a.type != miopenFloat) {
        fill_random(context, buffer.data(), buffer.size() / 2, what.dtype, ++seed);
      } else {
        check(cudaMemsetAsync(buffer.data(), 0, buffer.size(), context.stream), "cudaMemsetAsync");
      }
      if (a.kind == Argument::Kind::one) {
        const float one = 1;
        check(cudaMemcpyAsync(buffer.data(), &one, sizeof one, cudaMemcpyHostToDevice,
                              context.stream),
              "scale");
        check(cudaStreamSynchronize(context.stream), "scale");
      }
    }
  }
};

Attention::Attention(Context& context, const AttentionCase& what) {
  // A layer's attention is called cudnn: the library's.
  if (what.kernel != "flash2" && what.kernel != "cudnn") {
    throw Unsupported("no attention kernel \"" + what.kernel + "\" here");
  }
  state_ = std::make_unique<State>();
  check_miopen(miopenCreateWithStream(&state_->handle.value, context.stream),
               "miopenCreateWithStream");
  state_->pass = std::make_unique<Pass>(state_->handle.value, what);
  if (!what.backward) {
    state_->allocate(context, what, state_->pass->arguments());
  } else {
    AttentionCase before = what;
    before.backward = false;
    Pass forward(state_->handle.value, before);
    std::vector<Argument> all = state_->pass->arguments();
    for (const Argument& a : forward.arguments()) {
      const bool known = std::any_of(all.begin(), all.end(),
                                     [&](const Argument& other) { return other.id == a.id; });
      if (!known) {
        all.push_back(a);
      }
    }
    state_->allocate(context, what, all);
    for (std::int64_t slot = 0; slot < state_->slots; ++slot) {
      forward.launch(state_->tensors, slot);
    }
  }
  check(cudaStreamSynchronize(context.stream), "preparing attention");
}

Attention::~Attention() = default;

void Attention::launch(int rotate) {
  state_->pass->launch(state_->tensors, rotate % state_->slots);
}

Samples run_attention(Context& context, const AttentionCase& what, const Policy& policy) {
  Attention attention(context, what);
  return time_burst(context, policy, [&](int rotate) { attention.launch(rotate); });
}

}  // namespace stepcast::harness::cuda
