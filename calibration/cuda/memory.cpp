#include "memory.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "memory_kernels.h"

namespace stepcast::harness::cuda {
namespace {

constexpr std::size_t kAlign = 256;                   // as cudaMalloc aligns
constexpr std::size_t kTensorElements = 4096 * 4096;  // a weight matrix of a 7B model
constexpr std::array<int, 2> kNormWidths = {8192, 4096};
constexpr std::array<int, 2> kSwigluWidths = {14336, 4096};
constexpr std::array<int, 2> kVocabularies = {131072, 32768};

// Bytes that an operation reads and writes: of each element of its rows, each row, each column.
struct Traffic {
  std::int64_t element = 0, row = 0, column = 0;
  std::int64_t of(RowShape shape) const {
    const auto rows = static_cast<std::int64_t>(shape.rows);
    return rows * (shape.width * element + row) + shape.width * column;
  }
};

// The widest of `widths` that leaves 512 rows; else as many rows of at least 256 columns.
RowShape choose_rows(std::int64_t bytes, Traffic traffic, std::span<const int> widths, int pack) {
  constexpr std::int64_t kEnoughRows = 512;
  for (const int width : widths) {
    const std::int64_t each = width * traffic.element + traffic.row;
    const std::int64_t rows = (bytes - width * traffic.column + each / 2) / each;
    if (rows >= kEnoughRows) {
      return {static_cast<std::size_t>(rows), width};
    }
  }
  RowShape shape;
  for (const std::int64_t rows : {kEnoughRows, std::int64_t{64}, std::int64_t{8}}) {
    const std::int64_t each = rows * traffic.element + traffic.column;
    const std::int64_t width = (bytes - rows * traffic.row) / each / pack * pack;
    shape = {static_cast<std::size_t>(rows),
             static_cast<int>(std::clamp<std::int64_t>(width, pack, widths.back()))};
    if (width >= 256) {
      break;
    }
  }
  return shape;
}

// One tensor in as many copies as there are slots, one behind the other.
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
  std::size_t elements = 0;  // of a tensor, or of the rows together
  RowShape shape;
  std::size_t slots = 1;
  std::uint64_t seed = 1;
  // What each stands for depends on the operation; see prepare().
  Tensor in, in2, out, out2, weight, row_floats, labels, partial;
  Tensor master, m, v;

  State(Context& c, const interop::MemoryCase& w) : context(c), what(w) {
    device = {c.stream, c.properties.multiProcessorCount, w.dtype};
  }

  std::size_t element_size() const {
    return static_cast<std::size_t>(job::bytes_per_element(what.dtype));
  }
  int pack() const { return static_cast<int>(16 / element_size()); }

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

  // Buffers that together hold four times L2: what a launch reads has left the cache since the
  // last launch on the same slot.
  void choose_slots() {
    const std::int64_t wanted = 4 * static_cast<std::int64_t>(context.properties.l2CacheSize);
    slots = static_cast<std::size_t>(
        std::max<std::int64_t>(1, (wanted + moved - 1) / std::max<std::int64_t>(1, moved)));
  }

  void prepare();
  void prepare_rows(Traffic traffic, std::span<const int> widths);
  void launch(std::size_t slot);
};

void MemoryKernel::State::prepare_rows(Traffic traffic, std::span<const int> widths) {
  shape = choose_rows(what.bytes, traffic, widths, pack());
  elements = shape.rows * static_cast<std::size_t>(shape.width);
  moved = traffic.of(shape);
  choose_slots();
}

void MemoryKernel::State::prepare() {
  if (what.dtype != job::DType::bf16 && what.dtype != job::DType::fp16 &&
      what.dtype != job::DType::fp32) {
    throw Unsupported("memory-bound kernels run in bf16, fp16 and fp32");
  }
  if (what.bytes < 1024) {
    throw Unsupported("memory-bound kernels of less than 1 KiB");
  }
  const auto e = static_cast<std::int64_t>(element_size());
  const auto rows_floats = [&] { return empty(shape.rows * sizeof(float)); };
  const auto width = [&] { return static_cast<std::size_t>(shape.width); };
  if ((what.op == "copy" || what.op == "add") && !what.backward) {
    const std::int64_t tensors = what.op == "copy" ? 2 : 3;
    elements = static_cast<std::size_t>(what.bytes / (tensors * e) / pack() * pack());
    moved = static_cast<std::int64_t>(elements) * tensors * e;
    choose_slots();
    in = random(elements, what.dtype);
    if (what.op == "add") {
      in2 = random(elements, what.dtype);
    }
    out = empty(elements * element_size());
  } else if (what.op == "norm") {
    prepare_rows(what.backward ? Traffic{3 * e, 4, 2 * e} : Traffic{2 * e, 4, e}, kNormWidths);
    in = random(elements, what.dtype);
    weight = random(width(), what.dtype, true);
    out = empty(elements * element_size());
    row_floats = rows_floats();
    if (what.backward) {
      in2 = random(elements, what.dtype);
      out2 = empty(width() * element_size(), true);
      partial = empty(
          static_cast<std::size_t>(norm_partial_rows(device, shape)) * width() * sizeof(float),
          true);
      for (std::size_t slot = 0; slot < slots; ++slot) {  // 1/rms as the forward pass saved it
        enqueue_rms_norm(device, in.at(slot), weight.at(slot), out.at(slot),
                         row_floats.floats(slot), shape);
      }
    }
  } else if (what.op == "activation") {
    prepare_rows({(what.backward ? 5 : 3) * e, 0, 0}, kSwigluWidths);
    in = random(2 * elements, what.dtype);
    if (what.backward) {
      in2 = random(elements, what.dtype);
    }
    out = empty((what.backward ? 2 : 1) * elements * element_size());
  } else if (what.op == "cross_entropy") {
    prepare_rows(what.backward ? Traffic{2 * e, 12, 0} : Traffic{e, 16, 0}, kVocabularies);
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
      out = empty(elements * element_size());
    }
  } else if (what.op == "optimizer" && !what.backward) {
    const bool parameter = what.dtype != job::DType::fp32;
    const std::int64_t each = 28 + (parameter ? e : 0);
    elements = static_cast<std::size_t>(what.bytes / each / 8 * 8);
    moved = static_cast<std::int64_t>(elements) * each;
    choose_slots();
    in = random(elements, job::DType::fp32);
    master = random(elements, job::DType::fp32);
    m = random(elements, job::DType::fp32);
    v = random(elements, job::DType::fp32);
    enqueue_square(device, v.floats(0), v.buffer.size() / sizeof(float));
    if (parameter) {
      out = empty(elements * element_size());
    }
  } else {
    throw Unsupported("no memory-bound kernel \"" + what.op + "\"" +
                      (what.backward ? " with a backward pass" : ""));
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
