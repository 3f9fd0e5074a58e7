// Compares the memory-bound kernels of calibrate-gpu with plain loops, run on the host
// (support/cuda_emulator.h): the timed kernels must compute what frameworks compute. Shapes with
// tails, a single row, and many tensors.
#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "catch.hpp"
#include "cuda/bench.h"
#include "cuda/memory_kernels.h"

namespace stepcast::harness::cuda {

void check(cudaError_t, const char*) {}  // no kernel is launched on a device

}  // namespace stepcast::harness::cuda

namespace {

using namespace stepcast::harness::cuda;
namespace job = stepcast::job;

// Blocks are aligned to 16 bytes; the guard after them must not change.
template <typename T>
class Aligned {
 public:
  explicit Aligned(std::size_t count)
      : count_(count), bytes_(count * sizeof(T) + 16 + kGuard, kMark) {}
  T* data() {
    auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return reinterpret_cast<T*>((address + 15) / 16 * 16);
  }
  T& operator[](std::size_t i) { return data()[i]; }
  std::size_t size() const { return count_; }
  bool guarded() {
    const auto* behind = reinterpret_cast<const unsigned char*>(data() + count_);
    for (std::size_t i = 0; i < kGuard - 16; ++i) {
      if (behind[i] != kMark) {
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr unsigned char kMark = 0xA5;
  std::size_t count_;
  std::vector<unsigned char> bytes_;
};

float value(float x) { return x; }
float value(__nv_bfloat16 x) { return __bfloat162float(x); }
void put(float x, float& to) { to = x; }
void put(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }

template <typename T>
constexpr job::DType dtype_of() {
  return sizeof(T) == 4 ? job::DType::fp32 : job::DType::bf16;
}
// Tolerance of a result that was rounded once to T.
template <typename T>
constexpr double rounding() {
  return sizeof(T) == 4 ? 2e-6 : 4.1e-3;  // half an ulp of bf16's 8 bits: 2^-8
}

template <typename T>
Aligned<T> random_tensor(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  Aligned<T> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    put(normal(bits), out[i]);
  }
  return out;
}

void near(double found, double meant, double relative, double absolute = 1e-6) {
  CHECK(std::abs(found - meant) <= relative * std::abs(meant) + absolute);
}

Launch launch_for(job::DType dtype) { return {nullptr, 2, dtype}; }

}  // namespace

TEMPLATE_TEST_CASE("copy and add touch every element once", "[cuda]", float, __nv_bfloat16) {
  const std::size_t pack = 16 / sizeof(TestType);
  // With the last count a thread takes four packs.
  for (const std::size_t packs : {1, 255, 257, 20'000}) {
    const std::size_t n = packs * pack;
    auto x = random_tensor<TestType>(n, 1);
    auto y = random_tensor<TestType>(n, 2);
    Aligned<TestType> copy(n);
    Aligned<TestType> sum(n);
    enqueue_copy(launch_for(dtype_of<TestType>()), x.data(), copy.data(), n);
    enqueue_add(launch_for(dtype_of<TestType>()), x.data(), y.data(), sum.data(), n);
    bool same = true;
    bool added = true;
    for (std::size_t i = 0; i < n; ++i) {
      TestType meant;
      put(value(x[i]) + value(y[i]), meant);
      same = same && value(copy[i]) == value(x[i]);
      added = added && value(sum[i]) == value(meant);
    }
    CHECK(same);
    CHECK(added);
    CHECK(copy.guarded());
    CHECK(sum.guarded());
  }
}

TEMPLATE_TEST_CASE("SwiGLU and its gradient", "[cuda]", float, __nv_bfloat16) {
  const RowShape shape{3, 328};
  const auto w = static_cast<std::size_t>(shape.width);
  auto gate_up = random_tensor<TestType>(shape.rows * 2 * w, 3);
  auto dy = random_tensor<TestType>(shape.rows * w, 4);
  Aligned<TestType> y(shape.rows * w);
  Aligned<TestType> grad(shape.rows * 2 * w);
  const Launch launch = launch_for(dtype_of<TestType>());
  enqueue_swiglu(launch, gate_up.data(), y.data(), shape);
  enqueue_swiglu_backward(launch, gate_up.data(), dy.data(), grad.data(), shape);
  for (std::size_t r = 0; r < shape.rows; ++r) {
    for (std::size_t c = 0; c < w; ++c) {
      const double g = value(gate_up[r * 2 * w + c]);
      const double u = value(gate_up[r * 2 * w + w + c]);
      const double d = value(dy[r * w + c]);
      const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
      const double step = 1e-5;
      const double slope = (silu(g + step) - silu(g - step)) / (2 * step);
      near(value(y[r * w + c]), silu(g) * u, rounding<TestType>());
      near(value(grad[r * 2 * w + c]), d * u * slope, rounding<TestType>(), 1e-5);
      near(value(grad[r * 2 * w + w + c]), d * silu(g), rounding<TestType>());
    }
  }
  CHECK(y.guarded());
  CHECK(grad.guarded());
}

TEMPLATE_TEST_CASE("RMSNorm and its gradients", "[cuda]", float, __nv_bfloat16) {
  for (const int width : {256, 1032, 4096}) {
    const RowShape shape{11, width};
    const auto w = static_cast<std::size_t>(width);
    auto x = random_tensor<TestType>(shape.rows * w, 5);
    auto weight = random_tensor<TestType>(w, 6);
    auto dy = random_tensor<TestType>(shape.rows * w, 7);
    Aligned<TestType> y(shape.rows * w);
    Aligned<TestType> dx(shape.rows * w);
    Aligned<TestType> dweight(w);
    Aligned<float> inverse(shape.rows);
    const Launch launch = launch_for(dtype_of<TestType>());
    const int parts = norm_partial_rows(launch, shape);
    REQUIRE(parts >= 1);
    Aligned<float> partial(static_cast<std::size_t>(parts) * w);
    enqueue_rms_norm(launch, x.data(), weight.data(), y.data(), inverse.data(), shape);
    enqueue_rms_norm_backward(launch, dy.data(), x.data(), weight.data(), inverse.data(), dx.data(),
                              dweight.data(), partial.data(), shape);
    std::vector<double> sum(w, 0);
    std::vector<double> size(w, 0);
    for (std::size_t r = 0; r < shape.rows; ++r) {
      double squares = 0;
      for (std::size_t c = 0; c < w; ++c) {
        squares += std::pow(value(x[r * w + c]), 2);
      }
      const double scale = 1 / std::sqrt(squares / width + 1e-5);
      near(inverse[r], scale, 1e-5);
      double mean = 0;
      for (std::size_t c = 0; c < w; ++c) {
        mean += value(dy[r * w + c]) * value(weight[c]) * value(x[r * w + c]) * scale / width;
      }
      for (std::size_t c = 0; c < w; ++c) {
        const double hat = value(x[r * w + c]) * scale;
        const double d = value(dy[r * w + c]);
        near(value(y[r * w + c]), hat * value(weight[c]), rounding<TestType>());
        near(value(dx[r * w + c]), (d * value(weight[c]) - hat * mean) * scale,
             rounding<TestType>(), 1e-4);
        sum[c] += d * hat;
        size[c] += std::abs(d * hat);
      }
    }
    for (std::size_t c = 0; c < w; ++c) {
      near(value(dweight[c]), sum[c], rounding<TestType>(), 1e-5 * size[c] + 1e-6);
    }
    CHECK(y.guarded());
    CHECK(dx.guarded());
    CHECK(dweight.guarded());
    CHECK(inverse.guarded());
    CHECK(partial.guarded());
  }
}

TEMPLATE_TEST_CASE("cross entropy and its gradient", "[cuda]", float, __nv_bfloat16) {
  for (const int width : {256, 5000, 32'768}) {
    const RowShape shape{2, width};
    const auto w = static_cast<std::size_t>(width);
    auto logits = random_tensor<TestType>(shape.rows * w, 8);
    put(30, logits[w - 1]);  // the largest logit comes last, so the running sum is rescaled
    Aligned<std::int64_t> labels(shape.rows);
    Aligned<float> loss(shape.rows);
    Aligned<float> log_sum(shape.rows);
    Aligned<TestType> grad(shape.rows * w);
    const Launch launch = launch_for(dtype_of<TestType>());
    enqueue_labels(launch, labels.data(), shape);
    enqueue_cross_entropy(launch, logits.data(), labels.data(), loss.data(), log_sum.data(), shape);
    enqueue_cross_entropy_backward(launch, logits.data(), labels.data(), log_sum.data(),
                                   grad.data(), shape);
    for (std::size_t r = 0; r < shape.rows; ++r) {
      REQUIRE(labels[r] >= 0);
      REQUIRE(labels[r] < width);
      double sum = 0;
      for (std::size_t c = 0; c < w; ++c) {
        sum += std::exp(static_cast<double>(value(logits[r * w + c])));
      }
      near(log_sum[r], std::log(sum), 1e-6, 1e-5);
      const auto label = static_cast<std::size_t>(labels[r]);
      near(loss[r], std::log(sum) - value(logits[r * w + label]), 1e-5, 1e-5);
      for (std::size_t c = 0; c < w; ++c) {
        const double one = c == label ? 1 : 0;
        const double meant =
            (std::exp(value(logits[r * w + c])) / sum - one) / static_cast<double>(shape.rows);
        near(value(grad[r * w + c]), meant, 2 * rounding<TestType>() + 1e-5, 1e-9);
      }
    }
    CHECK(loss.guarded());
    CHECK(log_sum.guarded());
    CHECK(grad.guarded());
  }
}

TEST_CASE("Adam steps every parameter of every tensor once", "[cuda]") {
  // Tensors of one and a half chunks; a short last one; more tensors than one launch takes.
  const std::size_t chunk = 65'536;
  const std::size_t each = GENERATE_COPY(chunk + chunk / 2, std::size_t{1'024});
  const std::size_t n = each == 1'024 ? 40 * each + 8 : 2 * each + 8;
  const bool parameters = GENERATE(true, false);
  auto gradient = random_tensor<float>(n, 9);
  auto master = random_tensor<float>(n, 10);
  auto m = random_tensor<float>(n, 11);
  auto v = random_tensor<float>(n, 12);
  enqueue_square({nullptr, 2, job::DType::fp32}, v.data(), n);
  auto old = master;
  auto old_m = m;
  auto old_v = v;
  Aligned<__nv_bfloat16> parameter(n);
  enqueue_adam({nullptr, 2, parameters ? job::DType::bf16 : job::DType::fp32}, gradient.data(),
               master.data(), m.data(), v.data(), parameters ? parameter.data() : nullptr, n, each);
  bool stepped = true;
  bool rounded = true;
  for (std::size_t i = 0; i < n; ++i) {
    const double g = gradient[i];
    const double mean = 0.9 * old_m[i] + 0.1 * g;
    const double square = 0.95 * old_v[i] + 0.05 * g * g;
    const double after = old[i] - 1e-4 * (mean / (std::sqrt(square) + 1e-8) + 0.1 * old[i]);
    stepped = stepped && std::abs(m[i] - mean) < 1e-6 + 1e-6 * std::abs(mean);
    stepped = stepped && std::abs(v[i] - square) < 1e-6 + 1e-6 * square;
    stepped = stepped && std::abs(master[i] - after) < 1e-6 + 1e-6 * std::abs(after);
    if (parameters) {
      rounded = rounded && value(parameter[i]) == value(__float2bfloat16_rn(master[i]));
    }
  }
  CHECK(stepped);
  CHECK(rounded);
  CHECK(master.guarded());
  CHECK(parameter.guarded());
}
