#include "memory.h"

#include <algorithm>

#include "memory_kernels.h"

namespace stepcast::harness::cuda {
namespace {

constexpr std::size_t kAlign = 256;                   // alignment of cudaMalloc
constexpr std::size_t kTensorElements = 4096 * 4096;  // a weight matrix of a 7B model
// More slots than time_burst has launches between two scrubs of L2.
constexpr std::int64_t kMaxSlots = 256;

// A tensor with one copy for each slot, stored consecutively.
struct Tensor {
  Buffer buffer;
  std::size_t stride = 0;

  void* at(std::size_t slot) const { return buffer.as<char>() + slot * stride; }
  float* floats(std::size_t slot) const { return static_cast<float*>(at(slot)); }
};

}  // namespace

struct MemoryKernel::State {
  Context& context;
  interop::MemoryCase what;
  Launch device;
  std::int64_t moved = 0;
  std::size_t elements = 0;
  RowShape shape;
  std::size_t slots = 1;
  std::uint64_t seed = 1;
  // Their meaning depends on the operation; see prepare().
  Tensor in, in2, out, out2, weight, row_floats, labels, partial;
  Tensor master, m, v;

  State(Context& c, const interop::MemoryCase& w) : context(c), what(w) {
    device = {c.stream, c.properties.multiProcessorCount, w.dtype};
    const MemoryShape chosen = memory_shape(w);
    moved = chosen.moved;
    elements = chosen.elements;
    shape = chosen.rows;
    // All slots together are four times as large as L2, so that the operands of a launch have left
    // the cache since their last use.
    const std::int64_t wanted = 4 * static_cast<std::int64_t>(c.properties.l2CacheSize);
    slots = static_cast<std::size_t>(
        std::clamp((wanted + moved - 1) / moved, std::int64_t{1}, kMaxSlots));
  }

  std::size_t element_size() const {
    return static_cast<std::size_t>(job::bytes_per_element(what.dtype));
  }

  Tensor empty(std::size_t bytes, bool shared = false) const {
    Tensor t;
    t.stride = (bytes + kAlign - 1) / kAlign * kAlign;
    t.buffer = Buffer(t.stride * (shared ? 1 : slots));
    if (shared) {
      t.stride = 0;
    }
    return t;
  }

  Tensor random(std::size_t count, job::DType dtype, bool shared = false) {
    const auto size = static_cast<std::size_t>(job::bytes_per_element(dtype));
    Tensor t = empty(count * size, shared);
    fill_random(context, t.buffer.data(), t.buffer.size() / size, dtype, ++seed);
    return t;
  }

  void prepare();
  void launch(std::size_t slot);
};

void MemoryKernel::State::prepare() {
  const std::size_t bytes = elements * element_size();
  const auto width = static_cast<std::size_t>(shape.width);
  const auto rows_floats = [&] { return empty(shape.rows * sizeof(float)); };
  if (what.op == "copy" || what.op == "add") {
    in = random(elements, what.dtype);
    if (what.op == "add") {
      in2 = random(elements, what.dtype);
    }
    out = empty(bytes);
  } else if (what.op == "norm") {
    in = random(elements, what.dtype);
    weight = random(width, what.dtype, true);
    out = empty(bytes);
    row_floats = rows_floats();
    if (what.backward) {
      in2 = random(elements, what.dtype);
      out2 = empty(width * element_size(), true);
      const auto rows = static_cast<std::size_t>(norm_partial_rows(device, shape));
      partial = empty(rows * width * sizeof(float), true);
      for (std::size_t slot = 0; slot < slots; ++slot) {  // 1/rms as the forward pass saved it
        enqueue_rms_norm(device, in.at(slot), weight.at(slot), out.at(slot),
                         row_floats.floats(slot), shape);
      }
    }
  } else if (what.op == "activation") {
    in = random(2 * elements, what.dtype);
    if (what.backward) {
      in2 = random(elements, what.dtype);
    }
    out = empty((what.backward ? 2 : 1) * bytes);
  } else if (what.op == "cross_entropy") {
    in = random(elements, what.dtype);
    labels = empty(shape.rows * sizeof(std::int64_t));
    row_floats = rows_floats();  // log-sum-exp
    out2 = rows_floats();        // loss
    for (std::size_t slot = 0; slot < slots; ++slot) {
      auto* label = static_cast<std::int64_t*>(labels.at(slot));
      enqueue_labels(device, label, shape);
      if (what.backward) {
        enqueue_cross_entropy(device, in.at(slot), label, out2.floats(slot),
                              row_floats.floats(slot), shape);
      }
    }
    if (what.backward) {
      out = empty(bytes);
    }
  } else {  // optimizer
    in = random(elements, job::DType::fp32);
    master = random(elements, job::DType::fp32);
    m = random(elements, job::DType::fp32);
    v = random(elements, job::DType::fp32);
    enqueue_square(device, v.floats(0), v.buffer.size() / sizeof(float));
    if (what.dtype != job::DType::fp32) {
      out = empty(bytes);
    }
  }
  check(cudaStreamSynchronize(context.stream), "preparing a memory-bound kernel");
}

void MemoryKernel::State::launch(std::size_t slot) {
  if (what.op == "copy") {
    enqueue_copy(device, in.at(slot), out.at(slot), elements);
  } else if (what.op == "add") {
    enqueue_add(device, in.at(slot), in2.at(slot), out.at(slot), elements);
  } else if (what.op == "norm" && !what.backward) {
    enqueue_rms_norm(device, in.at(slot), weight.at(slot), out.at(slot), row_floats.floats(slot),
                     shape);
  } else if (what.op == "norm") {
    enqueue_rms_norm_backward(device, in2.at(slot), in.at(slot), weight.at(slot),
                              row_floats.floats(slot), out.at(slot), out2.at(slot),
                              partial.floats(slot), shape);
  } else if (what.op == "activation" && !what.backward) {
    enqueue_swiglu(device, in.at(slot), out.at(slot), shape);
  } else if (what.op == "activation") {
    enqueue_swiglu_backward(device, in.at(slot), in2.at(slot), out.at(slot), shape);
  } else if (what.op == "cross_entropy" && !what.backward) {
    enqueue_cross_entropy(device, in.at(slot), static_cast<std::int64_t*>(labels.at(slot)),
                          out2.floats(slot), row_floats.floats(slot), shape);
  } else if (what.op == "cross_entropy") {
    enqueue_cross_entropy_backward(device, in.at(slot), static_cast<std::int64_t*>(labels.at(slot)),
                                   row_floats.floats(slot), out.at(slot), shape);
  } else {
    enqueue_adam(device, in.floats(slot), master.floats(slot), m.floats(slot), v.floats(slot),
                 out.buffer.size() == 0 ? nullptr : out.at(slot), elements, kTensorElements);
  }
}

MemoryKernel::MemoryKernel(Context& context, const interop::MemoryCase& what)
    : state_(std::make_unique<State>(context, what)) {
  state_->prepare();
}

MemoryKernel::~MemoryKernel() = default;

void MemoryKernel::launch(int rotate) {
  state_->launch(static_cast<std::size_t>(rotate) % state_->slots);
}

std::int64_t MemoryKernel::bytes() const { return state_->moved; }

Samples run_memory(Context& context, const interop::MemoryCase& what, const Policy& policy) {
  MemoryKernel kernel(context, what);
  return time_burst(context, policy, [&](int rotate) { kernel.launch(rotate); });
}

}  // namespace stepcast::harness::cuda
