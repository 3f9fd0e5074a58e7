// fit_kernels recovers the laws that made the points, refuses parameters that the points do not
// determine, and writes files that price like the fits.
#include "stepcast/cost/kernel_fit.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "catch.hpp"
#include "cost/attention.h"
#include "cost/calibration_file.h"
#include "cost/calibration_write.h"
#include "cost/copy_fit.h"
#include "cost/gemm.h"
#include "cost/memory_fit.h"
#include "cost/overlap_fit.h"
#include "devices.h"
#include "gemm_figures.h"

using namespace stepcast;
using namespace stepcast::cost;
using namespace stepcast::test;
using job::AttentionKernel;
using job::DType;

namespace {

constexpr double kNoise = 0.02;

// Multiplies by e^x, where x is normal with deviation 2 %.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : random_(seed) {}
  double operator()(double x) { return x * std::exp(kNoise * normal_(random_)); }
  std::int64_t size(double low_log2, double high_log2, std::int64_t multiple) {
    std::uniform_real_distribution<double> d(low_log2, high_log2);
    const auto whole = static_cast<std::int64_t>(std::exp2(d(random_)));
    return std::max<std::int64_t>(multiple, whole / multiple * multiple);
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

GemmLaw true_law() {
  GemmLaw law;
  law.sms = 132;
  law.fixed = 3e-6;
  law.rate = 8e14;
  law.bandwidth = 2.9e12;
  law.prologue = 90;
  law.tile = 8;
  law.tail = 0.7;
  return law;
}

double product_seconds(const model::Gemm& g, double out = 2) {
  const auto m = static_cast<double>(g.m);
  const auto n = static_cast<double>(g.n);
  const auto k = static_cast<double>(g.k);
  const auto batch = static_cast<double>(g.batch);
  return gemm_seconds(true_law(), {m, n, k, batch, gemm_bytes(m, n, k, batch, 2, out)});
}

constexpr double kInputGrad = 1.06;
constexpr double kWeightGrad = 1.12;
constexpr double kGrouped = 1.2;
constexpr double kCap = 6.6e14;

std::vector<GemmSample> products(int count, std::uint64_t seed) {
  Noise noise(seed);
  std::vector<GemmSample> all;
  for (int i = 0; i < count; ++i) {
    GemmSample s;
    s.shape = {noise.size(7, 14, 64), noise.size(9, 14, 64), noise.size(9, 14, 64), 1};
    const double t = product_seconds(s.shape);
    s.seconds = noise(t);
    all.push_back(s);
    if (i % 4 == 0) {
      s.layout = Layout::input_grad;
      s.seconds = noise(kInputGrad * t);
      all.push_back(s);
      s.layout = Layout::weight_grad;
      s.accumulate_fp32 = true;
      s.seconds = noise(kWeightGrad * product_seconds(s.shape, 8));
      all.push_back(s);
      s.accumulate_fp32 = false;
      s.layout = Layout::forward;
      s.groups = 8;
      model::Gemm tiles = s.shape;
      tiles.batch = 8;
      s.seconds = noise(kGrouped * product_seconds(tiles));
      all.push_back(s);
      s.groups = 1;
      if (flops(s.shape) > 1e11) {
        s.sustained = true;
        s.seconds = noise(sustained_seconds(t, flops(s.shape), kCap));
        all.push_back(s);
      }
    }
  }
  return all;
}

const FittedFile& file_named(const KernelFit& fit, const std::string& name) {
  const auto it = std::find_if(fit.files.begin(), fit.files.end(),
                               [&](const FittedFile& f) { return f.name == name; });
  REQUIRE(it != fit.files.end());
  return *it;
}

const FitRow& row_named(const KernelFit& fit, const std::string& curve, const std::string& size) {
  const auto it = std::find_if(fit.rows.begin(), fit.rows.end(),
                               [&](const FitRow& r) { return r.curve == curve && r.size == size; });
  INFO(curve << ", " << size);
  REQUIRE(it != fit.rows.end());
  return *it;
}

std::filesystem::path on_disk(const KernelFit& fit, const std::string& name) {
  static int count = 0;
  const auto folder = std::filesystem::temp_directory_path() / "stepcast-kernel-fit";
  std::filesystem::create_directories(folder);
  const auto path = folder / (std::to_string(++count) + "-" + name);
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << file_named(fit, name).yaml;
  return path;
}

model::AttentionShape self_attention(std::int64_t sequences, std::int64_t length, int heads,
                                     int kv_heads, int dim, bool causal) {
  model::AttentionShape s;
  s.sequences = sequences;
  s.query_length = s.key_length = length;
  s.heads = heads;
  s.kv_heads = kv_heads;
  s.qk_dim = s.v_dim = dim;
  s.causal = causal;
  return s;
}

std::vector<model::AttentionShape> attention_shapes() {
  std::vector<model::AttentionShape> all;
  for (const std::int64_t length : {1024, 2048, 4096, 8192, 16384, 32768}) {
    for (const int dim : {64, 128}) {
      for (const int heads : {8, 32}) {
        for (const bool causal : {true, false}) {
          all.push_back(self_attention(1, length, heads, heads / 4, dim, causal));
          all.push_back(self_attention(4, length, heads, heads, dim, causal));
        }
      }
    }
  }
  return all;
}

AttentionPass true_pass(double rate) {
  AttentionPass p;
  p.fixed = 7e-6;
  p.prologue = 300;
  p.tail = 0.6;
  p.full = 0.92;
  p.rate = {{64, 0.75 * rate}, {128, rate}};
  return p;
}

}  // namespace

TEST_CASE("fit_kernels finds the GEMM law, its layouts, groups and level of long runs") {
  KernelSamples samples;
  samples.gemm[DType::bf16] = products(240, 1);
  const auto fit = fit_kernels(h100(), "cublas", samples, "a test: made points");
  CHECK(fit.refused.empty());
  CHECK(row_named(fit, "gemm bf16", "from 1 GFLOP").median < 1.5 * kNoise);
  CHECK(row_named(fit, "gemm bf16", "above 50 us").p95 < 5 * kNoise);
  CHECK(row_named(fit, "gemm bf16", "accumulated in fp32").median < 1.5 * kNoise);
  const auto path = on_disk(fit, "gemm-cublas.yaml");
  const auto file = read_calibration(path);
  CHECK(file->devices == std::vector<std::string>{"h100-sxm"});
  CHECK(file->source == "a test: made points");
  const GemmCurve& c = file->gemm.at(DType::bf16);
  CHECK(c.input_grad == Approx(kInputGrad).epsilon(0.01));
  CHECK(c.weight_grad == Approx(kWeightGrad).epsilon(0.01));
  CHECK(c.grouped == Approx(kGrouped).epsilon(0.02));
  CHECK(c.cap == Approx(kCap).epsilon(0.02));
  CHECK(c.residual == Approx(kNoise).margin(0.02));

  CurveTable curves;
  const Kernels kernels(h100(), "cublas", "/nonexistent", {path.string()}, curves);
  const model::Gemm any{4096, 4096, 4096, 1};
  const auto residual = [&](Layout layout) {
    return curves.curves()[kernels.gemm({any, DType::bf16, layout}).curve].residual;
  };
  CHECK(residual(Layout::weight_grad) ==
        Approx(std::hypot(c.weight_grad_residual, c.long_run_deviation)));
  CHECK(residual(Layout::input_grad) ==
        Approx(std::hypot(c.input_grad_residual, c.long_run_deviation)));
  CHECK(c.weight_grad_residual == Approx(kNoise).margin(0.02));

  Noise noise(77);
  std::vector<double> off;
  for (int i = 0; i < 200; ++i) {
    const model::Gemm g{noise.size(8, 14, 64), noise.size(9, 14, 64), noise.size(9, 14, 64), 1};
    const double want = sustained_seconds(product_seconds(g), flops(g), kCap);
    off.push_back(
        std::abs(to_seconds(kernels.gemm({g, DType::bf16, Layout::forward}).time) / want - 1));
  }
  std::sort(off.begin(), off.end());
  CHECK(off[100] < kNoise);
  CHECK(off[190] < 4 * kNoise);
}

TEST_CASE("rows of fewer than 16 bytes have a factor of their own and move no other figure") {
  constexpr double kOdd = 5;
  KernelSamples samples;
  samples.gemm[DType::bf16] = products(240, 1);
  const auto plain = fit_kernels(h100(), "cublas", samples, "a test");
  Noise noise(5);
  for (int i = 0; i < 40; ++i) {
    GemmSample s;
    s.shape = {noise.size(10, 14, 8), noise.size(10, 14, 8), noise.size(10, 14, 8), 1};
    // Odd lengths of rows, and an odd number of rows, which matters to none.
    s.layout = i % 2 == 0 ? Layout::forward : Layout::weight_grad;
    ++(i % 2 == 0 ? s.shape.n : s.shape.m);
    const double layout = i % 2 == 0 ? 1 : kWeightGrad;
    s.seconds = noise(kOdd * layout * product_seconds(s.shape));
    samples.gemm[DType::bf16].push_back(s);
  }
  const auto fit = fit_kernels(h100(), "cublas", samples, "a test");
  const auto path = on_disk(fit, "gemm-cublas.yaml");
  const GemmCurve c = read_calibration(path)->gemm.at(DType::bf16);
  const GemmCurve without =
      read_calibration(on_disk(plain, "gemm-cublas.yaml"))->gemm.at(DType::bf16);
  CHECK(c.unaligned.at(2) == Approx(kOdd).epsilon(0.03));
  CHECK(without.unaligned.empty());
  CHECK(c.weight_grad == without.weight_grad);
  CHECK(c.residual == without.residual);

  CurveTable curves;
  const Kernels kernels(h100(), "cublas", "/nonexistent", {path.string()}, curves);
  const auto time = [&](std::int64_t m, std::int64_t n, std::int64_t k, Layout layout) {
    return to_seconds(
        kernels.gemm({{m, n, k, 1}, DType::bf16, layout, false, false, Pace::burst}).time);
  };
  using enum Layout;
  for (const Layout layout : {forward, input_grad}) {
    CHECK(time(4097, 4096, 4096, layout) < 1.2 * time(4096, 4096, 4096, layout));
    CHECK(time(4096, 4097, 4096, layout) > 4 * time(4096, 4096, 4096, layout));
    CHECK(time(4096, 4096, 4097, layout) > 4 * time(4096, 4096, 4096, layout));
  }
  CHECK(time(4096, 4096, 4097, weight_grad) < 1.2 * time(4096, 4096, 4096, weight_grad));
  CHECK(time(4097, 4096, 4096, weight_grad) > 4 * time(4096, 4096, 4096, weight_grad));
  CHECK(time(4096, 50257, 4096, forward) > 4 * time(4096, 50304, 4096, forward));
}

TEST_CASE("products that lack a layout, long runs or groups say so in the file") {
  KernelSamples samples;
  for (const GemmSample& s : products(120, 2)) {
    if (s.layout == Layout::forward && s.groups == 1 && !s.sustained) {
      samples.gemm[DType::bf16].push_back(s);
    }
  }
  const auto committed = fit_kernels(h100(), "cublas", samples, "a test");
  const std::string& yaml = file_named(committed, "gemm-cublas.yaml").yaml;
  CHECK_THAT(yaml, ContainsSubstring("input_grad: not measured (0 points), a factor of 1 is used"));
  CHECK_THAT(yaml,
             ContainsSubstring("not measured (0 points): priced as the same tiles in one GEMM"));
  // The ratio of the device's own committed file.
  CHECK_THAT(yaml, ContainsSubstring("no long runs were measured: the ratio of h100-sxm/"));
  const auto unheard = fit_kernels(unheard_of(), "cublas", samples, "a test");
  CHECK_THAT(file_named(unheard, "gemm-cublas.yaml").yaml,
             ContainsSubstring("the measured devices' ratio"));
  const auto c = read_calibration(on_disk(unheard, "gemm-cublas.yaml"))->gemm.at(DType::bf16);
  CHECK(c.long_run < c.burst);
  CHECK(c.long_run_deviation >= 0.1);
}

TEST_CASE("one long run gives the level, less surely than many") {
  KernelSamples samples;
  int longs = 0;
  for (const GemmSample& s : products(240, 12)) {
    if (!s.sustained || longs++ == 0) {
      samples.gemm[DType::bf16].push_back(s);
    }
  }
  const auto path = on_disk(fit_kernels(h100(), "cublas", samples, "a test"), "gemm-cublas.yaml");
  const auto c = read_calibration(path)->gemm.at(DType::bf16);
  CHECK(c.cap == Approx(kCap).epsilon(0.06));
  CHECK(c.long_run_deviation >= 0.05);
}

TEST_CASE("8-bit products timed alone get their casts in a job, not in a comparison") {
  KernelSamples samples;
  for (const GemmSample& s : products(120, 3)) {
    if (s.layout == Layout::forward && s.groups == 1 && !s.sustained) {
      samples.gemm[DType::fp8].push_back(s);
    }
  }
  const auto path = on_disk(fit_kernels(h100(), "cublas", samples, "a test"), "gemm-cublas.yaml");
  CHECK(read_calibration(path)->gemm.at(DType::fp8).casts > 0);
  CurveTable curves;
  const Kernels kernels(h100(), "cublas", "/nonexistent", {path.string()}, curves);
  const model::Gemm g{16384, 512, 4096, 1};
  const double alone =
      to_seconds(kernels.gemm({.shape = g, .dtype = DType::fp8, .pace = Pace::burst}).time);
  const double job = to_seconds(kernels.gemm({g, DType::fp8, Layout::forward}).time);
  const double cast = 4.0 * 16384 * 4096 / h100().memory_bandwidth.count();
  CHECK(job > alone + 0.9 * cast);
}

TEST_CASE("too few products, or all of one size, are refused with what is missing") {
  KernelSamples few;
  few.gemm[DType::bf16] = products(20, 4);
  auto fit = fit_kernels(h100(), "cublas", few, "a test");
  CHECK(fit.files.empty());
  REQUIRE(fit.refused.size() == 1);
  CHECK_THAT(fit.refused[0], ContainsSubstring("gemm bf16: 20 shapes"));
  CHECK_THAT(fit.refused[0], ContainsSubstring("at least 40"));

  KernelSamples same;
  for (int i = 0; i < 100; ++i) {
    GemmSample s;
    s.shape = {4096, 4096, 4096 + 8 * i, 1};
    s.seconds = product_seconds(s.shape);
    same.gemm[DType::bf16].push_back(s);
  }
  fit = fit_kernels(h100(), "cublas", same, "a test");
  REQUIRE(fit.refused.size() == 1);
  CHECK_THAT(fit.refused[0], ContainsSubstring("nearly one size"));

  // One shape measured a hundred times counts as one shape.
  KernelSamples repeated;
  repeated.gemm[DType::bf16].assign(100, same.gemm[DType::bf16].front());
  fit = fit_kernels(h100(), "cublas", repeated, "a test");
  REQUIRE(fit.refused.size() == 1);
  CHECK_THAT(fit.refused[0], ContainsSubstring("1 shapes"));
  CHECK(fit_kernels(h100(), "cublas", {}, "a test").files.empty());
}

TEST_CASE("attention: both passes are found, the backward by rates of its own where it has them") {
  const AttentionDevice device{132, 2.7e12};
  const AttentionPass forward = true_pass(6e14);
  AttentionPass backward = true_pass(4.5e14);
  backward.rate[64] = 4e14;  // nearly the rate of 128, so no single ratio matches both
  backward.fixed = 20e-6;
  backward.full = 1.1;
  Noise noise(5);
  KernelSamples samples;
  auto& all = samples.attention[AttentionKernel::cudnn];
  for (const auto& shape : attention_shapes()) {
    all.push_back({shape, false, noise(pass_seconds(forward, shape, false, 1, device, 2))});
    all.push_back({shape, true, noise(pass_seconds(backward, shape, true, 1, device, 2))});
  }
  const auto fit = fit_kernels(h100(), "cublas", samples, "a test");
  CHECK(fit.refused.empty());
  CHECK(row_named(fit, "attention cudnn forward", "all").median < 2 * kNoise);
  const auto& own = row_named(fit, "attention cudnn backward, by rates of its own", "all");
  CHECK(own.median < 2 * kNoise);
  CHECK(own.held_out == own.points);
  CHECK(row_named(fit, "attention cudnn backward, by one ratio", "all").median > 2 * own.median);

  const auto path = on_disk(fit, "attention.yaml");
  CurveTable curves;
  const Kernels kernels(h100(), "cublas", "/nonexistent", {path.string()}, curves);
  for (const auto& shape :
       {self_attention(2, 4096, 32, 8, 128, true), self_attention(1, 16384, 16, 16, 64, false)}) {
    const Priced f = kernels.attention({shape, AttentionKernel::cudnn, DType::bf16, false});
    const Priced b = kernels.attention({shape, AttentionKernel::cudnn, DType::bf16, true});
    CHECK(to_seconds(f.time) ==
          Approx(pass_seconds(forward, shape, false, 1, device, 2)).epsilon(0.06));
    CHECK(to_seconds(b.time) ==
          Approx(pass_seconds(backward, shape, true, 1, device, 2)).epsilon(0.06));
    // Each pass has its own residual.
    CHECK(f.curve != b.curve);
    CHECK(curves.curves()[b.curve].residual < 4 * kNoise);
    CHECK(curves.curves()[b.curve].residual > kNoise / 4);
  }
}

TEST_CASE("a paged cache in the times is found, and left out of prices; no cache is invented") {
  const AttentionDevice device{132, 2.7e12};
  AttentionPass truth = true_pass(6e14);
  Noise noise(15);
  const auto fitted = [&] {
    KernelSamples samples;
    for (const auto& shape : attention_shapes()) {
      const double t =
          pass_seconds(truth, shape, false, 1, device, 2) + cache_seconds(truth, shape, device, 2);
      samples.attention[AttentionKernel::flash3].push_back({shape, false, noise(t)});
    }
    return on_disk(fit_kernels(h100(), "cublas", samples, "a test"), "attention.yaml");
  };
  const auto plain = read_calibration(fitted());
  CHECK(plain->attention.at(AttentionKernel::flash3).cache.empty());
  truth.cache = {{64, 7}, {128, 3.5}};
  const auto path = fitted();
  const auto paged = read_calibration(path);
  const auto& found = paged->attention.at(AttentionKernel::flash3).cache;
  REQUIRE(found.size() == 2);
  CHECK(found.at(64) == Approx(7).epsilon(0.25));
  CHECK(found.at(128) == Approx(3.5).epsilon(0.25));
  CurveTable curves;
  const Kernels kernels(h100(), "cublas", "/nonexistent", {path.string()}, curves);
  const auto shape = self_attention(4, 2048, 32, 32, 128, true);
  const double alone = pass_seconds(truth, shape, false, 1, device, 2);
  CHECK(to_seconds(kernels.attention({shape, AttentionKernel::flash3, DType::bf16, false}).time) ==
        Approx(alone).epsilon(0.06));
  CHECK(to_seconds(
            kernels
                .attention({.shape = shape, .kernel = AttentionKernel::flash3, .paged_cache = true})
                .time) == Approx(alone + cache_seconds(truth, shape, device, 2)).epsilon(0.06));
}

TEST_CASE("attention without a backward pass keeps a published ratio; too few points are refused") {
  const AttentionDevice device{132, 2.7e12};
  KernelSamples samples;
  auto& all = samples.attention[AttentionKernel::flash3];
  for (const auto& shape : attention_shapes()) {
    all.push_back({shape, false, pass_seconds(true_pass(6e14), shape, false, 1, device, 2)});
  }
  auto fit = fit_kernels(h100(), "cublas", samples, "a test");
  REQUIRE(fit.refused.size() == 1);
  CHECK_THAT(fit.refused[0], ContainsSubstring("attention flash3 backward: 0 points"));
  CHECK_THAT(file_named(fit, "attention.yaml").yaml,
             ContainsSubstring("backward pass not measured"));

  all.resize(10);
  fit = fit_kernels(h100(), "cublas", samples, "a test");
  CHECK(fit.files.empty());
  CHECK_THAT(fit.refused.at(0), ContainsSubstring("10 points are too few"));

  all.assign(40, all.front());
  fit = fit_kernels(h100(), "cublas", samples, "a test");
  CHECK(fit.files.empty());
  CHECK_THAT(fit.refused.at(0), ContainsSubstring("nearly one size"));
}

TEST_CASE("memory-bound kernels: fixed time, rate, ramp and L2 are told apart where they exist") {
  const double bandwidth = h100().memory_bandwidth.count();
  const auto l2 = static_cast<double>(h100().l2.count());
  const auto made = [&](const MemoryCurve& truth, std::uint64_t seed) {
    Noise noise(seed);
    std::vector<MemorySample> all;
    for (double bytes = 4096; bytes < 4e9; bytes *= 1.6) {
      all.push_back({std::round(bytes), noise(memory_seconds(truth, bandwidth, bytes))});
    }
    return all;
  };
  MemoryCurve plain;
  plain.fixed = 2.2e-6;
  plain.share = 0.85;
  MemoryCurve ramped = plain;
  ramped.ramp = 3;
  MemoryCurve resident = plain;
  resident.resident = 0.6 * l2;
  resident.gain = 3;
  KernelSamples samples;
  samples.memory[MemoryOp::copy] = made(plain, 6);
  samples.memory[MemoryOp::norm] = made(ramped, 7);
  samples.memory[MemoryOp::activation] = made(resident, 8);
  const auto fit = fit_kernels(h100(), "cublas", samples, "a test");
  CHECK(fit.refused.empty());
  const auto file = read_calibration(on_disk(fit, "memory.yaml"));
  const auto& found = file->memory;
  CHECK(found.at(MemoryOp::copy).share == Approx(0.85).epsilon(0.02));
  CHECK(found.at(MemoryOp::copy).fixed == Approx(2.2e-6).epsilon(0.05));
  CHECK(found.at(MemoryOp::copy).resident == 0);
  CHECK(found.at(MemoryOp::norm).ramp == Approx(3).epsilon(0.3));
  CHECK(found.at(MemoryOp::activation).gain > 2);
  CHECK(found.at(MemoryOp::activation).resident == Approx(0.6 * l2).epsilon(0.4));
  for (const auto& [op, truth] : {std::pair{MemoryOp::copy, plain},
                                  {MemoryOp::norm, ramped},
                                  {MemoryOp::activation, resident}}) {
    for (double bytes = 10000; bytes < 3e9; bytes *= 7) {
      CHECK(memory_seconds(found.at(op), bandwidth, bytes) ==
            Approx(memory_seconds(truth, bandwidth, bytes)).epsilon(0.06));
    }
    CHECK(found.at(op).residual < 0.05);
  }
}

TEST_CASE("memory-bound kernels: what few SMs move at first is found, and passes are told apart") {
  const double bandwidth = h100().memory_bandwidth.count();
  // A block of 65,536 elements of an optimizer at what one SM moves, beside the transfer; partial
  // sums of a norm's gradients before it.
  MemoryCurve blocks;
  blocks.fixed = 3e-6;
  blocks.share = 0.8;
  blocks.ramp = 4;
  blocks.start = 1.9e6;
  blocks.start_rate = 4.7e10;
  MemoryCurve plain;
  plain.fixed = 2.5e-6;
  plain.share = 0.87;
  MemoryCurve sums = plain;
  sums.start = 2.8e7;
  sums.start_rate = 6e11;
  KernelSamples samples;
  Noise noise(21);
  for (double bytes = 4096; bytes < 8e9; bytes *= 1.7) {
    const double b = std::round(bytes);
    samples.memory[MemoryOp::optimizer].push_back({b, noise(memory_seconds(blocks, bandwidth, b))});
    samples.memory[MemoryOp::norm].push_back({b, noise(memory_seconds(plain, bandwidth, b))});
    samples.memory[MemoryOp::norm].push_back({b, noise(memory_seconds(sums, bandwidth, b)), true});
  }
  const auto fit = fit_kernels(h100(), "cublas", samples, "a test");
  CHECK(fit.refused.empty());
  const auto found = read_calibration(on_disk(fit, "memory.yaml"))->memory;
  const MemoryCurve& norm = found.at(MemoryOp::norm);
  CHECK(norm.share == Approx(0.87).epsilon(0.03));
  REQUIRE(norm.backward_pass);
  CHECK(row_named(fit, "memory norm backward", "all").median < 0.05);
  for (double bytes = 1e5; bytes < 5e9; bytes *= 5) {
    CHECK(memory_seconds(*norm.backward_pass, bandwidth, bytes) ==
          Approx(memory_seconds(sums, bandwidth, bytes)).epsilon(0.07));
    CHECK(memory_seconds(found.at(MemoryOp::optimizer), bandwidth, bytes) ==
          Approx(memory_seconds(blocks, bandwidth, bytes)).epsilon(0.07));
  }
}

TEST_CASE("a causal softmax's rows: what their registers cost is found, and is paid by rows") {
  constexpr double kBandwidth = 2e12;
  MemoryCurve truth;
  truth.fixed = 3e-6;
  truth.share = 0.8;
  truth.row = 1536;
  truth.moved = 0.75;
  truth.wide = 0.4;
  Noise noise(9);
  std::vector<MemoryPoint> points;
  for (double row = 512; row <= 4096; row += 64) {
    for (double rows = 4096; rows < 2e6; rows *= 3) {
      const double bytes = 4 * row * rows;
      points.push_back({bytes, noise(memory_seconds(truth, kBandwidth, bytes, row)), row});
    }
  }
  const MemoryFit fit = fit_memory(points, kBandwidth, 0.75);
  CHECK(fit.curve.share == Approx(0.8).epsilon(0.02));
  CHECK(fit.curve.wide == Approx(0.4).epsilon(0.1));
  CHECK(fit.held_out.median < 0.05);
  points.front().row = 0;
  CHECK_THROWS_WITH(fit_memory(points, kBandwidth, 0.75), ContainsSubstring("states no row"));

  // Equal bytes in rows of 1,024 elements, and of one more: another 128 are loaded, and registers
  // of 2,048 are looped over.
  truth.fixed = 0;
  const double narrow = memory_seconds(truth, kBandwidth, 1024 * 1e6, 1024);
  const double wide = memory_seconds(truth, kBandwidth, 1025 * 1e6, 1025);
  CHECK(wide / narrow == Approx((0.75 * 1152 + 0.4 * 1024) / (0.75 * 1024)));
  CHECK(memory_seconds(truth, kBandwidth, 1e9) == memory_seconds(truth, kBandwidth, 1e9, 1536));
}

TEST_CASE("memory-bound kernels grow with their bytes, whatever the regime") {
  MemoryCurve c;
  for (const double ramp : {1.0, 2.5, 8.0}) {
    for (const double gain : {1.0, 4.0}) {
      c.ramp = ramp;
      c.gain = gain;
      c.resident = 3e7;
      double before = 0;
      for (double bytes = 1; bytes < 1e11; bytes *= 1.3) {
        const double t = memory_seconds(c, 3e12, bytes);
        // Equal within rounding far below the fixed time; strictly ordered where the transfer
        // counts.
        CHECK((bytes > 1e6 ? t > before : t >= before));
        CHECK(t >= c.fixed);
        before = t;
      }
    }
  }
}

TEST_CASE("a kernel or copy of one size, or of few, is refused") {
  KernelSamples samples;
  for (int i = 0; i < 20; ++i) {
    samples.memory[MemoryOp::copy].push_back({1e8 + 1000.0 * i, 1e-4});
    samples.memory[MemoryOp::norm].push_back({1e6 * (1 + i % 3), 1e-5});
    samples.copies.push_back({CopyDirection::host_to_device, true, 1e8 + 1000.0 * i, 4e-3});
  }
  const auto fit = fit_kernels(h100(), "cublas", samples, "a test");
  CHECK(fit.files.empty());
  REQUIRE(fit.refused.size() == 3);
  CHECK_THAT(fit.refused[0], ContainsSubstring("memory copy: sizes from 1e+08"));
  CHECK_THAT(fit.refused[1], ContainsSubstring("memory norm: 3 sizes are too few"));
  CHECK_THAT(fit.refused[2], ContainsSubstring("copy h2d: sizes from"));
}

TEST_CASE("copies: latency and bandwidth by direction; outliers are counted and do not pull") {
  Noise noise(9);
  KernelSamples samples;
  for (const auto& [direction, rate] : {std::pair{CopyDirection::host_to_device, 55e9},
                                        {CopyDirection::device_to_host, 52e9},
                                        {CopyDirection::both, 40e9},
                                        {CopyDirection::device_to_device, 1.4e12}}) {
    for (const bool pinned : {true, false}) {
      if (!pinned && direction == CopyDirection::device_to_device) {
        continue;
      }
      for (double bytes = 4096; bytes < 2e9; bytes *= 4) {
        const double t = 9e-6 + bytes / (pinned ? rate : rate / 3);
        samples.copies.push_back({direction, pinned, bytes, noise(t)});
      }
    }
  }
  samples.copies[4].seconds *= 5;
  const auto fit = fit_kernels(h100(), "cublas", samples, "a test");
  CHECK(fit.refused.empty());
  CHECK(row_named(fit, "copy h2d", "all").outliers == 1);
  CHECK(row_named(fit, "copy d2h", "all").outliers == 0);
  const auto path = on_disk(fit, "copy.yaml");
  CurveTable curves;
  const Kernels kernels(h100(), "cublas", "/nonexistent", {path.string()}, curves);
  const auto rate = [&](CopyDirection d, bool pinned) {
    return 1e9 / to_seconds(kernels.copy(d, pinned, Bytes(1'000'000'000)).time);
  };
  CHECK(rate(CopyDirection::host_to_device, true) == Approx(55e9).epsilon(0.03));
  CHECK(rate(CopyDirection::device_to_host, true) == Approx(52e9).epsilon(0.03));
  CHECK(rate(CopyDirection::both, true) == Approx(40e9).epsilon(0.03));
  CHECK(rate(CopyDirection::host_to_device, false) == Approx(55e9 / 3).epsilon(0.03));
  CHECK(rate(CopyDirection::device_to_device, true) == Approx(1.4e12).epsilon(0.03));
  CHECK(rate(CopyDirection::device_to_device, false) ==
        rate(CopyDirection::device_to_device, true));
  CHECK(to_seconds(kernels.copy(CopyDirection::host_to_device, true, Bytes(64)).time) ==
        Approx(9e-6).epsilon(0.1));
  CHECK(kernels.copy(CopyDirection::host_to_device, true, Bytes(0)).time.count() == 0);
}

TEST_CASE("points that follow no law are refused, not written with a wide residual") {
  KernelSamples samples;
  double bytes = 4096;
  for (int i = 0; i < 10; ++i, bytes *= 4) {
    samples.copies.push_back(
        {CopyDirection::host_to_device, false, bytes, i % 2 == 0 ? 1e-7 : 1e-6 + bytes / 20e9});
  }
  const auto fit = fit_kernels(h100(), "cublas", samples, "a test");
  CHECK(fit.files.empty());
  REQUIRE(fit.refused.size() == 1);
  CHECK(fit.refused[0].find("copy h2d_pageable: points scatter about the fit by a factor of") !=
        std::string::npos);
}

TEST_CASE("overlap: coefficients of both kinds of kernels, and what the collective loses") {
  Noise noise(10);
  KernelSamples samples;
  for (const int sms : {4, 8, 16, 24, 32}) {
    const double share = sms / 132.0;
    samples.overlap.push_back({false, sms, 0.1, noise(1 / (1 - 1.3 * share)), noise(1 / 0.8)});
    const double h = 0.02 * sms;
    samples.overlap.push_back({true, sms, h, noise(1 / (1 - 0.6 * h)), noise(1 / 0.8)});
  }
  auto fit = fit_kernels(h100(), "cublas", samples, "a test");
  CHECK(fit.refused.empty());
  const auto path = on_disk(fit, "overlap.yaml");
  const auto file = read_calibration(path);
  REQUIRE(file->overlap.has_value());
  CHECK(file->overlap->arithmetic == Approx(1.3).epsilon(0.15));
  CHECK(file->overlap->memory == Approx(0.6).epsilon(0.15));
  CHECK(file->overlap->collective == Approx(0.2).epsilon(0.15));
  CHECK(file->overlap->arithmetic_residual < 0.5);
  CurveTable curves;
  const Kernels kernels(h100(), "cublas", "/nonexistent", {path.string()}, curves);
  CHECK(kernels.overlap().measured);
  CHECK(kernels.overlap().arithmetic == file->overlap->arithmetic);
  CHECK(curves.curves()[kernels.overlap().memory_curve].residual == file->overlap->memory_residual);

  samples.overlap.resize(3);
  fit = fit_kernels(h100(), "cublas", samples, "a test");
  CHECK(fit.files.empty());
  CHECK(fit.refused.size() == 3);

  CurveTable none;
  const Kernels unmeasured(unheard_of(), "cublas", "/nonexistent", {}, none);
  CHECK_FALSE(unmeasured.overlap().measured);
  CHECK(unmeasured.overlap().arithmetic == 1);
}

TEST_CASE("launches are read back as written") {
  KernelSamples samples;
  samples.launch = 3.7e-6;
  samples.graph_kernel = 1.4e-6;
  const auto path = on_disk(fit_kernels(h100(), "cublas", samples, "a test"), "launch.yaml");
  CurveTable curves;
  const Kernels kernels(h100(), "cublas", "/nonexistent", {path.string()}, curves);
  CHECK(kernels.launch().host == seconds(3.7e-6));
  CHECK(kernels.launch().graph == seconds(1.4e-6));
}

TEST_CASE("a fit is the same every time") {
  KernelSamples samples;
  samples.gemm[DType::bf16] = products(100, 11);
  const auto a = fit_kernels(h100(), "cublas", samples, "a test");
  const auto b = fit_kernels(h100(), "cublas", samples, "a test");
  REQUIRE(a.files.size() == b.files.size());
  CHECK(a.files[0].yaml == b.files[0].yaml);
}

TEST_CASE("a source with quotes and backslashes is written so that it reads back") {
  KernelSamples samples;
  samples.launch = 1e-6;
  const std::string source = R"(a "quoted" \ source: with, [brackets] # and more)";
  const auto fit = fit_kernels(h100(), "cublas", samples, source);
  CHECK(read_calibration(on_disk(fit, "launch.yaml"))->source == source);
}
