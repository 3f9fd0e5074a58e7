#include "attention.h"

#include <algorithm>
#include <map>
#include <vector>

#include "attention_graph.h"

namespace stepcast::harness::cuda {
namespace {

constexpr std::int64_t kAlign = 256;
constexpr std::int64_t kMaxSlots = 16;

class Handle {
 public:
  explicit Handle(cudaStream_t stream) {
    check_cudnn(cudnnCreate(&handle_), "cudnnCreate");
    const cudnnStatus_t status = cudnnSetStream(handle_, stream);
    if (status != CUDNN_STATUS_SUCCESS) {
      cudnnDestroy(handle_);
      check_cudnn(status, "cudnnSetStream");
    }
  }
  ~Handle() { cudnnDestroy(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

std::int64_t tensor_bytes(const interop::AttentionCase& what, std::int64_t uid) {
  const std::int64_t size = uid == kStats ? 4 : 2;
  return (attention_elements(what, uid) * size + kAlign - 1) / kAlign * kAlign;
}

std::vector<std::int64_t> tensors_of(bool backward) {
  return backward
             ? std::vector<std::int64_t>{kQ, kK, kV, kO, kStats, kGradO, kGradQ, kGradK, kGradV}
             : std::vector<std::int64_t>{kQ, kK, kV, kO, kStats};
}

// One plan with everything that its launches need: workspace, scratch and, for each slot of the
// tensors, the addresses of the plan's tensors.
class Pass {
 public:
  Pass(const Handle& handle, cudaStream_t stream, const interop::AttentionCase& what,
       const std::map<std::int64_t, Buffer>& tensors, std::int64_t slots)
      : handle_(handle), stream_(stream), graph_(plan_attention(what, cudnn_device(handle.get()))) {
    if (const std::int64_t bytes = workspace_bytes(graph_.plan); bytes > 0) {
      workspace_ = Buffer(static_cast<std::size_t>(bytes));
    }
    std::vector<std::int64_t> uids;
    std::vector<void*> fixed;
    for (const std::int64_t uid : graph_.values) {
      values_[uid] = attention_value(what, uid);
      uids.push_back(uid);
      fixed.push_back(&values_[uid]);
    }
    for (const AttentionScratch& part : graph_.scratch) {
      scratch_.emplace_back(static_cast<std::size_t>(part.bytes));
      uids.push_back(part.uid);
      fixed.push_back(scratch_.back().data());
    }
    uids.insert(uids.end(), graph_.tensors.begin(), graph_.tensors.end());
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      std::vector<void*> addresses = fixed;
      for (const std::int64_t uid : graph_.tensors) {
        addresses.push_back(tensors.at(uid).as<char>() + slot * tensor_bytes(what, uid));
      }
      packs_.push_back(pack(uids, addresses));
    }
  }

  void launch(std::size_t slot) const {
    for (std::size_t i = 0; i < scratch_.size(); ++i) {
      if (graph_.scratch[i].zeroed) {
        check(cudaMemsetAsync(scratch_[i].data(), 0, scratch_[i].size(), stream_),
              "cudaMemsetAsync");
      }
    }
    check_cudnn(cudnnBackendExecute(handle_.get(), graph_.plan.get(), packs_[slot].get()),
                "cudnnBackendExecute");
  }

 private:
  Descriptor pack(const std::vector<std::int64_t>& uids, const std::vector<void*>& addresses) {
    Descriptor result(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    result.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids);
    result.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
               static_cast<std::int64_t>(addresses.size()), addresses.data());
    void* workspace = workspace_.data();
    result.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    result.finalize("variant pack");
    return result;
  }

  const Handle& handle_;
  cudaStream_t stream_;
  AttentionGraph graph_;
  Buffer workspace_;
  std::vector<Buffer> scratch_;
  std::map<std::int64_t, float> values_;  // packs_ holds pointers into this map
  std::vector<Descriptor> packs_;         // one for each slot
};

}  // namespace

struct Attention::State {
  Handle handle;
  std::map<std::int64_t, Buffer> tensors;  // with space for all slots
  std::int64_t slots = 1;
  std::unique_ptr<Pass> pass;

  explicit State(cudaStream_t stream) : handle(stream) {}
};

Attention::Attention(Context& context, const interop::AttentionCase& what) {
  if (what.kernel != "cudnn") {
    throw Unsupported("no attention kernel \"" + what.kernel + "\" here");
  }
  state_ = std::make_unique<State>(context.stream);
  std::int64_t bytes = 0;
  for (const std::int64_t uid : tensors_of(what.backward)) {
    bytes += tensor_bytes(what, uid);
  }
  // All slots together are twice as large as L2, so that the next launch reads its operands from
  // memory.
  const std::int64_t wanted = 2 * static_cast<std::int64_t>(context.properties.l2CacheSize);
  state_->slots = std::clamp<std::int64_t>((wanted + bytes - 1) / bytes, 1, kMaxSlots);
  std::uint64_t seed = 1;
  for (const std::int64_t uid : tensors_of(what.backward)) {
    Buffer& buffer = state_->tensors[uid];
    buffer = Buffer(static_cast<std::size_t>(tensor_bytes(what, uid) * state_->slots));
    if (uid == kQ || uid == kK || uid == kV || uid == kGradO) {
      fill_random(context, buffer.data(), buffer.size() / 2, what.dtype, ++seed);
    }
  }
  if (what.backward) {
    interop::AttentionCase before = what;
    before.backward = false;
    const Pass forward(state_->handle, context.stream, before, state_->tensors, state_->slots);
    for (std::int64_t slot = 0; slot < state_->slots; ++slot) {
      forward.launch(static_cast<std::size_t>(slot));
    }
    check(cudaStreamSynchronize(context.stream), "attention forward");
  }
  state_->pass =
      std::make_unique<Pass>(state_->handle, context.stream, what, state_->tensors, state_->slots);
  check(cudaStreamSynchronize(context.stream), "preparing attention");
}

Attention::~Attention() = default;

void Attention::launch(int rotate) {
  state_->pass->launch(static_cast<std::size_t>(rotate) % static_cast<std::size_t>(state_->slots));
}

Samples run_attention(Context& context, const interop::AttentionCase& what, const Policy& policy) {
  Attention attention(context, what);
  return time_burst(context, policy, [&](int rotate) { attention.launch(rotate); });
}

}  // namespace stepcast::harness::cuda
