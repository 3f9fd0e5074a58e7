// What the memory-bound kernels of calibrate-gpu compute, run on the host, against plain loops in
// double; gradients against central differences of the forward pass.
#include "harness_kernels_host.h"
// The kernels come after what stands in for CUDA's own names.
#include <cstdint>
#include <functional>
#include <random>

#include "catch.hpp"
#include "cuda/memory_elements.cuh"
#include "cuda/memory_rows.cuh"

using namespace stepcast::harness::cuda;

namespace {

template <typename T>
double tolerance() {
  return sizeof(T) == 2 ? 1.0 / 128 : 1e-4;  // a bf16 has 8 bits, and results are rounded once
}

// Random numbers as the element type holds them; 16-byte aligned as device memory is.
template <typename T>
struct Vector {
  explicit Vector(std::size_t size) : packs((size + kPack<T> - 1) / kPack<T>), count(size) {}
  Vector(std::size_t size, unsigned seed, double scale = 1) : Vector(size) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(0, scale);
    for (std::size_t i = 0; i < size; ++i) {
      from_float(static_cast<float>(normal(random)), data()[i]);
    }
  }
  T* data() { return packs.data()->at; }
  double operator[](std::size_t i) const {
    return static_cast<double>(to_float(packs[i / kPack<T>].at[i % kPack<T>]));
  }
  std::vector<double> doubles() const {
    std::vector<double> result;
    for (std::size_t i = 0; i < count; ++i) {
      result.push_back((*this)[i]);
    }
    return result;
  }
  std::vector<Pack<T>> packs;
  std::size_t count;
};

template <typename T>
void compare(const Vector<T>& found, const std::vector<double>& expected) {
  double scale = 0;
  for (const double x : expected) {
    scale = std::max(scale, std::abs(x));
  }
  double worst = 0;
  REQUIRE(found.count == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(std::isfinite(found[i]));
    // Relative to the element, or to a thousandth of the largest for those near zero.
    worst = std::max(
        worst, std::abs(found[i] - expected[i]) / std::max(std::abs(expected[i]), scale * 1e-3));
  }
  CHECK(worst < tolerance<T>());
}

// d loss / d x by central differences.
std::vector<double> gradient(std::vector<double> x,
                             const std::function<double(const std::vector<double>&)>& loss) {
  std::vector<double> result;
  for (double& element : x) {
    const double kept = element;
    const double step = 1e-4;
    element = kept + step;
    const double above = loss(x);
    element = kept - step;
    const double below = loss(x);
    element = kept;
    result.push_back((above - below) / (2 * step));
  }
  return result;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

std::vector<double> rms_norm(const std::vector<double>& x, const std::vector<double>& weight) {
  std::vector<double> y(x.size());
  const std::size_t width = weight.size();
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) {
      squares += x[row * width + i] * x[row * width + i];
    }
    const double rms = std::sqrt(squares / static_cast<double>(width) + 1e-5);
    for (std::size_t i = 0; i < width; ++i) {
      y[row * width + i] = x[row * width + i] / rms * weight[i];
    }
  }
  return y;
}

template <typename T>
void check_norm(unsigned rows, int width) {
  const std::size_t columns = static_cast<std::size_t>(width);
  Vector<T> x(rows * columns, 1);
  Vector<T> weight(columns, 2);
  Vector<T> y(rows * columns);
  std::vector<float> inverse(rows);
  const RowSplit s = split<T>(width);
  with_count(s.each, [&]<int N>() {
    on_host::run(rows, s.threads, 1, [&] {
      rms_norm_kernel<T, N>(x.data(), weight.data(), y.data(), inverse.data(), width);
    });
  });
  compare(y, rms_norm(x.doubles(), weight.doubles()));
}

template <typename T>
void check_norm_backward(unsigned rows, int width, unsigned blocks) {
  const std::size_t columns = static_cast<std::size_t>(width);
  Vector<T> x(rows * columns, 1);
  Vector<T> weight(columns, 2);
  Vector<T> dy(rows * columns, 3);
  Vector<T> y(rows * columns);
  Vector<T> dx(rows * columns);
  Vector<T> dweight(columns);
  std::vector<float> inverse(rows);
  std::vector<float> partial(blocks * columns);
  const RowSplit s = split<T>(width);
  with_count(s.each, [&]<int N>() {
    on_host::run(rows, s.threads, 1, [&] {
      rms_norm_kernel<T, N>(x.data(), weight.data(), y.data(), inverse.data(), width);
    });
    on_host::run(blocks, s.threads, 1, [&] {
      rms_norm_backward_kernel<T, N>(dy.data(), x.data(), weight.data(), inverse.data(), dx.data(),
                                     partial.data(), rows, width);
    });
  });
  on_host::run(static_cast<unsigned>((width + 31) / 32), 32, 32, [&] {
    sum_columns_kernel(partial.data(), dweight.data(), static_cast<int>(blocks), width);
  });
  const auto d = dy.doubles();
  compare(dx, gradient(x.doubles(), [&](const std::vector<double>& at) {
            return dot(rms_norm(at, weight.doubles()), d);
          }));
  compare(dweight, gradient(weight.doubles(), [&](const std::vector<double>& at) {
            return dot(rms_norm(x.doubles(), at), d);
          }));
}

double log_sum_exp(const std::vector<double>& logits, std::size_t first, std::size_t width) {
  double highest = logits[first];
  for (std::size_t i = 0; i < width; ++i) {
    highest = std::max(highest, logits[first + i]);
  }
  double sum = 0;
  for (std::size_t i = 0; i < width; ++i) {
    sum += std::exp(logits[first + i] - highest);
  }
  return highest + std::log(sum);
}

template <typename T>
void check_cross_entropy(unsigned rows, int width, double scale) {
  const std::size_t columns = static_cast<std::size_t>(width);
  Vector<T> logits(rows * columns, 4, scale);
  Vector<T> dlogits(rows * columns);
  std::vector<std::int64_t> labels(rows, -1);
  std::vector<float> loss(rows);
  std::vector<float> log_sum(rows);
  on_host::run(1, 256, 1, [&] { labels_kernel(labels.data(), rows, width); });
  for (const std::int64_t label : labels) {
    REQUIRE(label >= 0);
    REQUIRE(label < width);
  }
  on_host::run(rows, kLossThreads, 1, [&] {
    cross_entropy_kernel(logits.data(), labels.data(), loss.data(), log_sum.data(), width);
  });
  on_host::run(rows, kLossThreads, 1, [&] {
    cross_entropy_backward_kernel(logits.data(), labels.data(), log_sum.data(), dlogits.data(),
                                  width, 1.0f / static_cast<float>(rows));
  });
  const auto at = logits.doubles();
  std::vector<double> expected;
  for (std::size_t row = 0; row < rows; ++row) {
    const double total = log_sum_exp(at, row * columns, columns);
    const std::size_t label = static_cast<std::size_t>(labels[row]);
    CHECK(static_cast<double>(log_sum[row]) == Approx(total).epsilon(1e-5));
    CHECK(static_cast<double>(loss[row]) ==
          Approx(total - at[row * columns + label]).epsilon(1e-5).margin(1e-4));
    for (std::size_t i = 0; i < columns; ++i) {
      const double softmax = std::exp(at[row * columns + i] - total);
      expected.push_back((softmax - (i == label ? 1 : 0)) / rows);
    }
  }
  compare(dlogits, expected);
}

std::vector<double> swiglu(const std::vector<double>& gate_up, std::size_t width) {
  std::vector<double> y;
  for (std::size_t row = 0; row < gate_up.size() / (2 * width); ++row) {
    for (std::size_t i = 0; i < width; ++i) {
      const double gate = gate_up[row * 2 * width + i];
      y.push_back(gate / (1 + std::exp(-gate)) * gate_up[row * 2 * width + width + i]);
    }
  }
  return y;
}

template <typename T>
void check_swiglu(unsigned rows, int width) {
  const std::size_t columns = static_cast<std::size_t>(width);
  Vector<T> gate_up(rows * 2 * columns, 5);
  Vector<T> dy(rows * columns, 6);
  Vector<T> y(rows * columns);
  Vector<T> dgate_up(rows * 2 * columns);
  on_host::run(rows, kThreads, 1, [&] { swiglu_kernel(gate_up.data(), y.data(), width); });
  compare(y, swiglu(gate_up.doubles(), columns));
  on_host::run(rows, kThreads, 1,
               [&] { swiglu_backward_kernel(gate_up.data(), dy.data(), dgate_up.data(), width); });
  compare(dgate_up, gradient(gate_up.doubles(), [&](const std::vector<double>& at) {
            return dot(swiglu(at, columns), dy.doubles());
          }));
}

template <typename T, int N>
void check_copy_and_add(std::size_t packs) {
  const std::size_t elements = packs * kPack<T>;
  Vector<T> x(elements, 7);
  Vector<T> y(elements, 8);
  Vector<T> copied(elements);
  Vector<T> sum(elements);
  const unsigned blocks = blocks_for(packs, N);
  on_host::run(blocks, kThreads, 1, [&] { copy_kernel<T, N>(x.data(), copied.data(), packs); });
  on_host::run(blocks, kThreads, 1,
               [&] { add_kernel<T, N>(x.data(), y.data(), sum.data(), packs); });
  CHECK(copied.doubles() == x.doubles());
  std::vector<double> expected;
  for (std::size_t i = 0; i < elements; ++i) {
    expected.push_back(x[i] + y[i]);
  }
  compare(sum, expected);
}

}  // namespace

TEST_CASE("RMSNorm on the host as a plain loop has it, rows of any multiple of 16 bytes") {
  check_norm<__nv_bfloat16>(3, 8);
  check_norm<__nv_bfloat16>(2, 264);
  check_norm<__nv_bfloat16>(2, 4096);
  check_norm<__half>(2, 1032);
  check_norm<float>(2, 8192);
}

TEST_CASE("RMSNorm's gradients are the derivatives of its forward pass") {
  check_norm_backward<float>(5, 68, 2);
  check_norm_backward<__nv_bfloat16>(5, 72, 3);
  check_norm_backward<float>(1, 4, 1);
  check_norm_backward<float>(2, 520, 2);  // two packs a thread
}

TEST_CASE("Cross-entropy and its gradient, logits of any size") {
  check_cross_entropy<__nv_bfloat16>(2, 8, 1);  // most threads see nothing
  check_cross_entropy<__nv_bfloat16>(2, 4096 * 8 + 8, 1);
  check_cross_entropy<float>(2, 5000, 100);  // exponentials far beyond fp32
}

TEST_CASE("SwiGLU and its gradient") {
  check_swiglu<float>(2, 36);
  check_swiglu<__nv_bfloat16>(1, 264);
}

TEST_CASE("Copy and add reach every element, whole blocks or not") {
  check_copy_and_add<__nv_bfloat16, 1>(1);
  check_copy_and_add<__nv_bfloat16, 4>(2 * 4 * kThreads + 3);
  check_copy_and_add<float, 4>(4 * kThreads);
  check_copy_and_add<float, 1>(kThreads + 1);
}

TEST_CASE("Adam steps every parameter once, over tensors of several chunks") {
  const std::size_t elements = 3 * kAdamChunk + 2 * 40;
  Vector<float> gradient(elements, 9);
  Vector<float> master(elements, 10);
  Vector<float> m(elements, 11);
  Vector<float> v(elements, 12);
  on_host::run(3, 256, 1, [&] { square_kernel(v.data(), elements); });
  const auto p0 = master.doubles();
  const auto m0 = m.doubles();
  const auto v0 = v.doubles();
  Vector<__nv_bfloat16> parameter(elements);
  int launches = 0;
  adam_lists(gradient.data(), master.data(), m.data(), v.data(), parameter.data(), elements,
             kAdamChunk + 40, [&](const AdamList& list, int blocks) {
               ++launches;
               on_host::run(static_cast<unsigned>(blocks), kAdamThreads, 1,
                            [&] { adam_kernel<__nv_bfloat16, true>(list, AdamStep{}); });
             });
  CHECK(launches == 1);
  std::vector<double> p1;
  std::vector<double> m1;
  std::vector<double> v1;
  for (std::size_t i = 0; i < elements; ++i) {
    REQUIRE(v0[i] >= 0);
    m1.push_back(0.9 * m0[i] + 0.1 * gradient[i]);
    v1.push_back(0.95 * v0[i] + 0.05 * gradient[i] * gradient[i]);
    p1.push_back(p0[i] - 1e-4 * (m1[i] / (std::sqrt(v1[i]) + 1e-8) + 0.1 * p0[i]));
  }
  compare(master, p1);
  compare(m, m1);
  compare(v, v1);
  compare(parameter, p1);
}

TEST_CASE("Lists of tensors cover each chunk once, however many launches they take") {
  // 700 small tensors, and one larger than a whole launch.
  const struct {
    std::size_t elements, tensor, launches;
  } cases[] = {{700 * 1024, 1024, 24},
               {std::size_t{kAdamChunk} * (kAdamBlocks + 5), std::size_t{1} << 30, 2},
               {std::size_t{kAdamChunk} * 700, std::size_t{kAdamChunk} * 100, 3}};
  for (const auto& c : cases) {
    std::vector<float> memory(c.elements);
    std::vector<char> seen(c.elements / 1024);
    std::size_t launches = 0;
    adam_lists(
        memory.data(), memory.data(), memory.data(), memory.data(), static_cast<float*>(nullptr),
        c.elements, c.tensor, [&](const AdamList& list, int blocks) {
          ++launches;
          for (int b = 0; b < blocks; ++b) {
            const std::size_t first = static_cast<std::size_t>(list.chunk[b]) * kAdamChunk;
            const std::size_t start =
                static_cast<std::size_t>(list.gradient[list.tensor[b]] - memory.data());
            const std::size_t end = std::min(first + kAdamChunk, list.elements[list.tensor[b]]);
            REQUIRE(first < end);
            for (std::size_t i = start + first; i < start + end; i += 1024) {
              ++seen[i / 1024];
            }
          }
        });
    CHECK(launches == c.launches);
    CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<std::ptrdiff_t>(seen.size()));
  }
}
