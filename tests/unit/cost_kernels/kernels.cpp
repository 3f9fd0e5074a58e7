#include "stepcast/cost/kernels.h"

#include <cmath>
#include <random>
#include <thread>
#include <utility>

#include "catch.hpp"
#include "cost/attention.h"
#include "cost/datasheet.h"
#include "devices.h"
#include "gemm_figures.h"

using namespace stepcast;
using namespace stepcast::cost;
using namespace stepcast::test;
using job::AttentionKernel;
using job::DType;

namespace {
Kernels made(const job::Device& d, CurveTable& curves, const std::string& library = "cublas") {
  return {d, library, kCalibration, {}, curves};
}
Kernels made(const job::Device& d) {
  CurveTable curves;
  return made(d, curves);
}
const std::vector<job::Device> kDevices = {a100(), a100_pcie(), h100(), h200(),
                                           b200(), gb300(),     l40s(), unheard_of()};
std::vector<model::Gemm> random_shapes(int count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> rows(5, 16);
  std::uniform_real_distribution<double> width(6, 17);
  std::uniform_int_distribution<int> batch(0, 3);
  std::vector<model::Gemm> shapes;
  for (int i = 0; i < count; ++i) {
    shapes.push_back({std::llround(std::exp2(rows(random))), std::llround(std::exp2(width(random))),
                      std::llround(std::exp2(width(random))),
                      batch(random) == 0 ? std::int64_t{16} : std::int64_t{1}});
  }
  return shapes;
}
}  // namespace

TEST_CASE("no GEMM is faster than the data sheet's peak, nor its traffic beyond L2 than HBM") {
  for (const auto& d : kDevices) {
    const auto kernels = made(d);
    for (const auto& g : random_shapes(400, 11)) {
      const double t = in_seconds(kernels.gemm({g, DType::bf16, Layout::forward}));
      CHECK(flops(g) / t <= d.peak.at(DType::bf16).count() * (1 + 1e-6));
      const double bytes = 2.0 * static_cast<double>(g.batch) *
                           static_cast<double>(g.m * g.k + g.k * g.n + g.m * g.n);
      const double beyond = bytes - static_cast<double>(d.l2.count());
      CHECK(beyond / t <= d.memory_bandwidth.count() * (1 + 1e-6));
    }
  }
}

TEST_CASE("twice the batch takes longer, and at most twice as long within quantisation") {
  for (const auto& d : kDevices) {
    const auto kernels = made(d);
    for (auto g : random_shapes(200, 12)) {
      const double once = in_seconds(kernels.gemm({g, DType::bf16, Layout::forward}));
      g.batch *= 2;
      const double twice = in_seconds(kernels.gemm({g, DType::bf16, Layout::forward}));
      INFO(d.name << " " << g.m << " " << g.n << " " << g.k << " x" << g.batch);
      // The slope of the correction may exceed the cost of an idle wave.
      CHECK(twice >= 0.85 * once);
      CHECK(twice <= 2.6 * once);
    }
    const model::Gemm full{4096, 4096, 4096, 8};
    const model::Gemm fuller{4096, 4096, 4096, 16};
    CHECK(in_seconds(kernels.gemm({fuller, DType::bf16, Layout::forward})) /
              in_seconds(kernels.gemm({full, DType::bf16, Layout::forward})) ==
          Approx(2).epsilon(0.04));
  }
}

TEST_CASE("in the shapes of training, twice the work in any direction is never faster") {
  for (const auto& d : kDevices) {
    const auto kernels = made(d);
    for (const std::int64_t m : {1024, 2048, 4096, 8192, 16384}) {
      for (const std::int64_t n : {1024, 2304, 4096, 6144, 12288}) {
        for (const std::int64_t k : {1024, 1536, 4096, 6144, 12288}) {
          const double t = in_seconds(kernels.gemm({{m, n, k, 1}, DType::bf16, Layout::forward}));
          INFO(d.name << " " << m << " " << n << " " << k);
          for (const model::Gemm& more :
               {model::Gemm{2 * m, n, k, 1}, {m, 2 * n, k, 1}, {m, n, 2 * k, 1}}) {
            CHECK(in_seconds(kernels.gemm({more, DType::bf16, Layout::forward})) > t);
          }
        }
      }
    }
  }
}

TEST_CASE("a weight gradient accumulated in fp32 pays 6 bytes more an element of the result") {
  const auto d = a100();
  const auto kernels = made(d);
  // For a short k memory is the bottleneck.
  const model::Gemm g{16384, 16384, 64, 1};
  const double plain = in_seconds(kernels.gemm({g, DType::bf16, Layout::weight_grad}));
  const double accumulated = in_seconds(kernels.gemm({g, DType::bf16, Layout::weight_grad, true}));
  const double extra = 6.0 * 16384 * 16384 / d.memory_bandwidth.count();
  CHECK(accumulated - plain > 0.7 * extra);
  CHECK(accumulated - plain < 2.5 * extra);
  // For a long k compute hides the memory time.
  const model::Gemm deep{8192, 8192, 8192, 1};
  CHECK(in_seconds(kernels.gemm({deep, DType::bf16, Layout::weight_grad, true})) /
            in_seconds(kernels.gemm({deep, DType::bf16, Layout::weight_grad})) <
        1.03);
}

TEST_CASE("kernels that add to fp32 gradients behind their products pay its traffic in full") {
  const auto d = h100();
  const auto kernels = made(d);
  const model::Gemm deep{8192, 8192, 8192, 1};
  const auto extra = [&](DType dtype) {
    return in_seconds(kernels.gemm({deep, dtype, Layout::weight_grad, true})) -
           in_seconds(kernels.gemm({deep, dtype, Layout::weight_grad}));
  };
  const double traffic = 8.0 * 8192 * 8192 / d.memory_bandwidth.count();
  CHECK(extra(DType::fp8_block) >= traffic);
  CHECK(extra(DType::fp8_block) < 2 * traffic);
  CHECK(extra(DType::bf16) < 0.5 * traffic);  // hidden by the products
}

TEST_CASE("experts in one launch cost their tiles, not a launch each") {
  const auto kernels = made(h100());
  const model::Gemm each{512, 14336, 4096, 1};
  const double grouped = in_seconds(kernels.grouped_gemm({each, DType::bf16, Layout::forward}, 8));
  const double one = in_seconds(kernels.gemm({each, DType::bf16, Layout::forward}));
  const double dense =
      in_seconds(kernels.gemm({{512 * 8, 14336, 4096, 1}, DType::bf16, Layout::forward}));
  CHECK(grouped >= dense);
  CHECK(grouped <= 8 * 1.15 * one);
}

TEST_CASE("the two matrix products of unfused attention are bound by their traffic") {
  // A100, 12 heads of 128 over 2048 tokens: writing 100 MB of scores takes at least 50 us.
  const auto kernels = made(a100());
  const double qk = in_seconds(kernels.gemm({{2048, 2048, 128, 12}, DType::fp16, Layout::forward}));
  CHECK(qk > 55e-6);
  CHECK(qk < 150e-6);
}

TEST_CASE(
    "heads whose rows are no multiple of 16 bytes cost more than the next wider aligned ones") {
  for (const auto& d : {a100(), a100_pcie(), h100(), h200()}) {
    const auto kernels = made(d);
    const auto time = [&](std::int64_t n, std::int64_t k) {
      return in_seconds(kernels.gemm({{2048, n, k, 32}, DType::bf16, Layout::forward}));
    };
    for (const auto& [head, aligned] : {std::pair{108, 112}, {150, 152}, {225, 232}}) {
      INFO(d.name << " " << head);
      CHECK(time(2048, head) > 1.5 * time(2048, aligned));  // scores
      CHECK(time(head, 2048) > 1.5 * time(aligned, 2048));  // context
    }
  }
}

TEST_CASE("fp8 is faster than bf16, bf16 than fp32, for large products") {
  const model::Gemm g{8192, 8192, 8192, 1};
  for (const auto& d : {h100(), b200()}) {
    const auto kernels = made(d);
    CHECK(kernels.gemm({g, DType::fp8, Layout::forward}).time <
          kernels.gemm({g, DType::bf16, Layout::forward}).time);
    CHECK(kernels.gemm({g, DType::bf16, Layout::forward}).time <
          kernels.gemm({g, DType::fp32, Layout::forward}).time);
  }
}

TEST_CASE("every price names a curve with device, file, provenance and residual") {
  for (const auto& d : kDevices) {
    CurveTable curves;
    const auto kernels = made(d, curves);
    const auto check = [&](const Priced& p) {
      REQUIRE(p.curve < curves.curves().size());
      const Curve& c = curves.curves()[p.curve];
      CHECK(c.device == d.name);
      CHECK(c.residual > 0);
      CHECK(c.residual < 0.5);
      CHECK_FALSE(c.provenance.empty());
      CHECK_FALSE(c.file.empty());
      CHECK((c.file == "datasheet") == (c.file.find(".yaml") == std::string::npos));
    };
    for (const DType t : {DType::fp32, DType::tf32, DType::bf16, DType::fp16, DType::fp8}) {
      check(kernels.gemm({{1024, 1024, 1024, 1}, t, Layout::forward}));
    }
    for (const auto k :
         {AttentionKernel::efficient, AttentionKernel::flash1, AttentionKernel::flash2,
          AttentionKernel::flash3, AttentionKernel::cudnn}) {
      check(kernels.attention({{1, 4096, 4096, 16, 16, 128, 128, true}, k, DType::bf16, false}));
    }
    for (const auto op :
         {MemoryOp::copy, MemoryOp::norm, MemoryOp::softmax, MemoryOp::activation,
          MemoryOp::dropout, MemoryOp::elementwise, MemoryOp::embedding, MemoryOp::cross_entropy,
          MemoryOp::optimizer, MemoryOp::permute, MemoryOp::fused_permute}) {
      check(kernels.memory(op, Bytes(1 << 20)));
    }
  }
}

TEST_CASE("rows that kernels move by a map take no longer than those that operators index") {
  for (const auto& d : kDevices) {
    INFO(d.name);
    const auto kernels = made(d);
    const Bytes moved(1 << 28);
    const double fused = in_seconds(kernels.memory(MemoryOp::fused_permute, moved));
    CHECK(fused <= in_seconds(kernels.memory(MemoryOp::permute, moved)));
    // A copy reads and writes its rows in order.
    CHECK(fused >= in_seconds(kernels.memory(MemoryOp::copy, moved)));
  }
}

TEST_CASE("a device without files is priced from its data sheet, with a wider residual") {
  CurveTable curves;
  const auto kernels = made(unheard_of(), curves);
  const Curve& c =
      curves.curves()[kernels.gemm({{4096, 4096, 4096, 1}, DType::bf16, Layout::forward}).curve];
  CHECK(c.file == "datasheet");
  CHECK(c.residual >= 0.15);
  // The share of the peak that a large GEMM reaches is that of the measured devices: 0.7 to 0.85.
  const model::Gemm g{8192, 8192, 8192, 1};
  const double share =
      flops(g) / in_seconds(kernels.gemm({g, DType::bf16, Layout::forward})) / 1000e12;
  CHECK(share > 0.65);
  CHECK(share < 0.85);
}

TEST_CASE("the data sheet alone would price measured devices within its residual") {
  // The same device under an unknown name shows how far the fallback is from the curve.
  for (auto d : {a100(), h100(), h200(), b200(), gb300(), l40s()}) {
    const auto measured = made(d);
    const std::string name = d.name;
    d.name = "unheard-of";
    const auto fallback = made(d);
    double sum = 0;
    int count = 0;
    for (const std::int64_t m : {2048, 4096, 8192}) {
      for (const std::int64_t n : {2304, 6144, 14336}) {
        for (const std::int64_t k : {2048, 4096, 12288}) {
          const double r =
              std::log(in_seconds(fallback.gemm({{m, n, k, 1}, DType::bf16, Layout::forward})) /
                       in_seconds(measured.gemm({{m, n, k, 1}, DType::bf16, Layout::forward})));
          sum += r * r;
          ++count;
        }
      }
    }
    INFO(name << " " << std::sqrt(sum / count));
    CHECK(std::sqrt(sum / count) < kDatasheetGemmResidual);
  }
}

TEST_CASE("a library that was not measured on the device costs residual") {
  CurveTable asked;
  CurveTable measured;
  const auto other = made(gb300(), asked, "cublas");
  const auto own = made(gb300(), measured, "trtllm");
  const model::Gemm g{4096, 4096, 4096, 1};
  const auto a = other.gemm({g, DType::bf16, Layout::forward});
  const auto b = own.gemm({g, DType::bf16, Layout::forward});
  CHECK(a.time == b.time);
  CHECK(asked.curves()[a.curve].residual > measured.curves()[b.curve].residual);
  CHECK(asked.curves()[a.curve].name.find("trtllm") != std::string::npos);
}

TEST_CASE("attention: half for causal, 2.5 products for backward, never above the peak") {
  for (const auto& d : kDevices) {
    const auto kernels = made(d);
    for (const auto kernel :
         {AttentionKernel::efficient, AttentionKernel::flash1, AttentionKernel::flash2,
          AttentionKernel::flash3, AttentionKernel::cudnn}) {
      double last = 0;
      for (const std::int64_t s : {512, 1024, 2048, 4096, 8192, 16384, 32768, 131072}) {
        const model::AttentionShape causal{1, s, s, 32, 8, 128, 128, true};
        auto full = causal;
        full.causal = false;
        const double t = in_seconds(kernels.attention({causal, kernel, DType::bf16, false}));
        const double f = in_seconds(kernels.attention({full, kernel, DType::bf16, false}));
        const double b = in_seconds(kernels.attention({causal, kernel, DType::bf16, true}));
        INFO(d.name << " " << s);
        CHECK(t > last);
        CHECK(f > t);
        CHECK(f < 2 * t + 1e-9);
        CHECK(b > (s < 2048 ? 1.4 : 1.9) * t);  // short ones consist mostly of the fixed part
        CHECK(b < 4 * t);
        const double work = 4.0 * 32 * 128 * static_cast<double>(s) * static_cast<double>(s) / 2;
        CHECK(work / t < d.peak.at(DType::bf16).count());
        last = t;
      }
      const model::AttentionShape long_causal{1, 131072, 131072, 32, 8, 128, 128, true};
      auto long_full = long_causal;
      long_full.causal = false;
      CHECK(in_seconds(kernels.attention({long_full, kernel, DType::bf16, false})) /
                in_seconds(kernels.attention({long_causal, kernel, DType::bf16, false})) ==
            Approx(2).epsilon(0.02));
    }
  }
}

TEST_CASE(
    "attention's backward pass: three products over the queries' width, two over the values'") {
  model::AttentionShape shape{1, 4096, 4096, 128, 128, 192, 128, true};
  CHECK(attention_flops(shape, true) / attention_flops(shape, false) ==
        Approx((3.0 * 192 + 2 * 128) / (192 + 128)));
  shape.v_dim = 192;
  CHECK(attention_flops(shape, true) / attention_flops(shape, false) == Approx(2.5));
}

TEST_CASE(
    "kernels that draw less power than products leave the products among them a higher clock") {
  CurveTable curves;
  const Kernels kernels(h100(), "cublas", kCalibration, {}, curves);
  const Time products = seconds(0.01);
  CHECK(kernels.relief(products, Time{0}) == 1);
  const double some = kernels.relief(products, seconds(0.005));
  CHECK(some > 1);
  CHECK(kernels.relief(products, seconds(0.01)) > some);
  // Never above a burst's, and the level itself where there is nothing between.
  const auto time = [&](Pace pace, double relief) {
    return kernels.gemm({.shape = {8192, 14336, 4096}, .pace = pace, .relief = relief}).time;
  };
  CHECK(time(Pace::training, some) < time(Pace::training, 1));
  CHECK(time(Pace::training, 100) >= time(Pace::burst, 1));
  CHECK(time(Pace::sustained, some) == time(Pace::sustained, 1));

  SECTION("a lower limit leaves less to them") {
    job::Device capped = h100();
    capped.power = Power(600);
    const Kernels at_less(capped, "cublas", kCalibration, {}, curves);
    CHECK(at_less.relief(products, products) < kernels.relief(products, products));
    CHECK(at_less.relief(products, products) >= 1);
  }
  SECTION("where no step of one GPU was measured, products keep the level") {
    const Kernels other(a100(), "cublas", kCalibration, {}, curves);
    CHECK(other.relief(products, products) == 1);
  }
}

TEST_CASE("attention in a step of training runs under the power limit, where its curve says so") {
  const auto kernels = made(h100());
  const model::AttentionShape shape{1, 8192, 8192, 32, 32, 128, 128, true};
  for (const bool backward : {false, true}) {
    const auto time = [&](bool training) {
      return in_seconds(kernels.attention({.shape = shape,
                                           .kernel = AttentionKernel::flash3,
                                           .dtype = DType::bf16,
                                           .backward = backward,
                                           .training = training}));
    };
    CHECK(time(true) >= time(false));
    CHECK(time(true) < 1.3 * time(false));
  }
}

TEST_CASE("backward passes of memory-bound kernels by curves of their own, where measured") {
  const auto a = made(a100());
  const Bytes bytes(100'000'000);
  CHECK(a.memory(MemoryOp::activation, bytes, true).curve !=
        a.memory(MemoryOp::activation, bytes).curve);
  CHECK(a.memory(MemoryOp::copy, bytes, true).time == a.memory(MemoryOp::copy, bytes).time);
}

TEST_CASE("memory-bound operators: a fixed part and a constant rate below the data sheet's") {
  for (const auto& d : kDevices) {
    const auto kernels = made(d);
    for (const auto op : {MemoryOp::copy, MemoryOp::norm, MemoryOp::optimizer}) {
      CHECK(kernels.memory(op, Bytes(0)).time == Time{0});
      const double one = in_seconds(kernels.memory(op, Bytes(1'000'000'000)));
      const double two = in_seconds(kernels.memory(op, Bytes(2'000'000'000)));
      const double three = in_seconds(kernels.memory(op, Bytes(3'000'000'000)));
      // A start that the transfer overlaps vanishes slowly.
      CHECK(three - two == Approx(two - one).epsilon(2e-3));
      CHECK(1e9 / (two - one) < d.memory_bandwidth.count());
      CHECK(1e9 / (two - one) > 0.5 * d.memory_bandwidth.count());
      CHECK(in_seconds(kernels.memory(op, Bytes(1))) > 1e-6);
    }
  }
}

TEST_CASE("nothing costs nothing") {
  const auto kernels = made(a100());
  CHECK(kernels.gemm({{0, 128, 128, 1}, DType::bf16, Layout::forward}).time == Time{0});
  CHECK(kernels.gemm({{128, 128, 128, 0}, DType::bf16, Layout::forward}).time == Time{0});
  CHECK(kernels.grouped_gemm({{128, 128, 128, 1}, DType::bf16, Layout::forward}, 0).time ==
        Time{0});
}

TEST_CASE("threads that build kernels at once get the same prices") {
  const auto expected =
      made(h100()).gemm({{4096, 6144, 4096, 1}, DType::bf16, Layout::forward}).time;
  std::vector<Time> got(8);
  std::vector<std::thread> threads;
  for (auto& t : got) {
    threads.emplace_back([&t] {
      t = made(h100()).gemm({{4096, 6144, 4096, 1}, DType::bf16, Layout::forward}).time;
    });
  }
  for (auto& t : threads) {
    t.join();
  }
  for (const auto& t : got) {
    CHECK(t == expected);
  }
}

TEST_CASE("copies: never faster than the link or the memory, from a file or a data sheet") {
  constexpr double kBytes = 1e10;
  const auto rate = [&](const Kernels& k, CopyDirection d, bool pinned) {
    return kBytes / in_seconds(k.copy(d, pinned, Bytes(static_cast<std::int64_t>(kBytes))));
  };
  struct Linked {
    job::Device device;
    double link;
    const char* file;
  };
  for (auto [d, link, file] :
       {Linked{a100(), 31.5e9, "a100-sxm-80/copy.yaml"}, Linked{h200(), 63e9, "h200-sxm/copy.yaml"},
        Linked{b200(), 63e9, "datasheet"}, Linked{unheard_of(), 450e9, "datasheet"}}) {
    d.pcie = Bandwidth(link);
    CurveTable curves;
    const auto k = made(d, curves);
    INFO(d.name);
    const auto h2d = k.copy(CopyDirection::host_to_device, true, Bytes(1));
    CHECK(curves.curves()[h2d.curve].file == file);
    CHECK(curves.curves()[h2d.curve].residual > 0);
    for (const CopyDirection way :
         {CopyDirection::host_to_device, CopyDirection::device_to_host, CopyDirection::both}) {
      CHECK(rate(k, way, true) < link);
      CHECK(rate(k, way, true) > 0.3 * link);
      CHECK(rate(k, way, false) < rate(k, way, true));
    }
    CHECK(rate(k, CopyDirection::both, true) < rate(k, CopyDirection::host_to_device, true));
    CHECK(rate(k, CopyDirection::device_to_device, true) < d.memory_bandwidth.count() / 2);
    CHECK(k.copy(CopyDirection::host_to_device, true, Bytes(1'000'000)).time <
          k.copy(CopyDirection::host_to_device, true, Bytes(2'000'000)).time);
  }
  // A host link that is not stated has no assumed rate.
  CHECK_THROWS(made(unheard_of()).copy(CopyDirection::host_to_device, true, Bytes(1)));
}

TEST_CASE("a published backward pass of its own meets the published rates from 512 tokens on") {
  model::AttentionShape s;
  s.causal = false;
  const auto tflops = [&](const Kernels& k, AttentionKernel kernel, std::int64_t length, int dim) {
    s.query_length = s.key_length = length;
    s.qk_dim = s.v_dim = dim;
    s.sequences = 16384 / length;
    s.heads = s.kv_heads = 2048 / dim;
    const double flops = 2.5 * 4.0 * static_cast<double>(s.sequences) * s.heads *
                         static_cast<double>(length) * static_cast<double>(length) * dim;
    return flops / in_seconds(k.attention({s, kernel, DType::bf16, true})) * 1e-12;
  };
  // FlashAttention-2 on H100, head dimension 64, no mask (flash-attention PR 2688).
  const auto hopper = made(h100());
  for (const auto& [length, measured] :
       {std::pair{512, 189.9}, {1024, 238.8}, {2048, 263.7}, {4096, 279.8}, {8192, 299.2}}) {
    CHECK(tflops(hopper, AttentionKernel::flash2, length, 64) == Approx(measured).epsilon(0.08));
  }
}

TEST_CASE("attention of an inference engine's table is priced without its cache") {
  // FlashAttention-2 on A100, causal, 32 heads of 128: 156 (32 key heads) and 159 TFLOP/s (8) at
  // 4k, 144 and 141 in 16 sequences of 1k (liangan1/GPU_travel performance/flash-attn). The number
  // of key heads hardly matters there, while it does in vLLM's table.
  const auto ampere = made(a100());
  for (const auto& [sequences, length, kv, measured] : {std::tuple{1, 4096, 32, 156.3},
                                                        {1, 4096, 8, 159.4},
                                                        {16, 1024, 32, 143.7},
                                                        {16, 1024, 8, 140.6}}) {
    model::AttentionShape s;
    s.sequences = sequences;
    s.query_length = s.key_length = length;
    s.heads = 32;
    s.kv_heads = kv;
    s.qk_dim = s.v_dim = 128;
    const double flops = 2.0 * sequences * 32 * 128 * static_cast<double>(length) * length;
    const double t = in_seconds(ampere.attention({s, AttentionKernel::flash2, DType::bf16, false}));
    INFO(length << " " << kv << ": " << flops / t * 1e-12);
    CHECK(flops / t * 1e-12 == Approx(measured).epsilon(0.1));
    const double paged = in_seconds(ampere.attention({.shape = s, .paged_cache = true}));
    const double written = 2.0 * 2 * 2 * sequences * length * kv * 128;
    CHECK(paged - t > written / a100().memory_bandwidth.count());
    CHECK(paged - t < 4 * written / a100().memory_bandwidth.count());
  }
}

TEST_CASE("Under a power limit long products slow down, bursts and small products do not") {
  job::Device limited = h100();
  limited.power = Power(500.0);
  const auto rated = made(h100());
  const auto under = made(limited);
  const model::Gemm large{16384, 8192, 8192, 1};
  const model::Gemm small{64, 1024, 1024, 1};
  const auto slower = [&](const model::Gemm& g) {
    return in_seconds(under.gemm({g, DType::bf16, Layout::forward})) /
           in_seconds(rated.gemm({g, DType::bf16, Layout::forward}));
  };
  CHECK(slower(large) > 1.1);
  CHECK(slower(large) < 700.0 / 500);  // the slowdown cannot exceed that of the power
  CHECK(slower(small) < 1.001);
  CHECK(in_seconds(under.gemm({.shape = large, .pace = Pace::burst})) ==
        in_seconds(rated.gemm({.shape = large, .pace = Pace::burst})));
}

TEST_CASE("A power limit holds on devices on which none was measured") {
  const model::Gemm large{16384, 8192, 8192, 1};
  const model::AttentionShape shape{1, 8192, 8192, 32, 8, 128, 128, true};
  for (auto device : {a100(), b200(), gb300()}) {
    CurveTable curves;
    const auto rated = made(device, curves);
    device.power = Power(250.0);
    const auto under = made(device, curves);
    const GemmQuery query{.shape = large, .pace = Pace::training};
    CHECK(in_seconds(under.gemm(query)) > 1.15 * in_seconds(rated.gemm(query)));
    const AttentionQuery attention{.shape = shape, .training = true};
    CHECK(in_seconds(under.attention(attention)) > 1.05 * in_seconds(rated.attention(attention)));
    // How far is not known.
    const auto residual = [&](const Priced& p) { return curves.curves()[p.curve].residual; };
    CHECK(residual(under.gemm(query)) > 1.5 * residual(rated.gemm(query)));
  }
}

TEST_CASE("A data sheet's chip runs training steps at the level of its generation and its power") {
  const GemmQuery query{.shape = {16384, 8192, 8192, 1}, .pace = Pace::training};
  job::Device unmeasured = h100();
  unmeasured.name = "another-hopper";
  unmeasured.power = Power(700.0);
  const double as_h100 = in_seconds(made(unmeasured).gemm(query));
  CHECK(as_h100 == Approx(in_seconds(made(h100()).gemm(query))).epsilon(0.1));
  unmeasured.power = Power(350.0);
  CHECK(in_seconds(made(unmeasured).gemm(query)) ==
        Approx(std::pow(2, 2.0 / 3) * as_h100).epsilon(0.05));
  // One with little arithmetic for its power, as H20, never meets the limit.
  unmeasured.peak[DType::bf16] = FlopRate(148e12);
  const double limited = in_seconds(made(unmeasured).gemm(query));
  unmeasured.power = Power(0);
  CHECK(limited == in_seconds(made(unmeasured).gemm(query)));
}

TEST_CASE("attention in 8 bits: its products run at the other peak, the rest stays") {
  // FlashAttention-3 (arXiv 2407.08608, abstract), H100: 740 TFLOP/s in FP16, close to 1.2 PFLOP/s
  // in FP8.
  const double flops = 1e12;
  const double narrow = narrow_attention_seconds(flops / 740e12, flops, 989.4e12, 1978.9e12);
  CHECK(flops / narrow == Approx(1.2e15).epsilon(0.03));
  // A device without an 8-bit peak, and a pass that its products do not bound.
  CHECK(narrow_attention_seconds(1, 1e12, 312e12, 0) == 1);
  CHECK(narrow_attention_seconds(1, 1, 989.4e12, 1978.9e12) == Approx(1));
  const model::AttentionShape shape{1, 8192, 8192, 64, 8, 128, 128, true};
  for (const auto& d : {h100(), b200()}) {
    const auto kernels = made(d);
    for (const bool backward : {false, true}) {
      const double wide =
          in_seconds(kernels.attention({shape, AttentionKernel::cudnn, DType::bf16, backward}));
      const double half =
          in_seconds(kernels.attention({shape, AttentionKernel::cudnn, DType::fp8, backward}));
      CHECK(half < wide);
      CHECK(half > wide / 2);
    }
  }
}

TEST_CASE(
    "MI300X: 8 bits from the blocks that were measured, 16 bits and attention by data sheet") {
  job::Device d = device("mi300x", 0, 304, 1307, 163.4, 5300, 32);
  d.vendor = hardware::Vendor::amd;
  d.peak[DType::fp8] = d.peak[DType::fp8_block] = FlopRate(2614e12);
  CurveTable curves;
  const Kernels kernels(d, "cublas", kCalibration, {}, curves);
  const model::Gemm large{8192, 8192, 8192, 1};
  const auto curve = [&](DType t) {
    return curves.curves()[kernels.gemm({large, t, Layout::forward}).curve];
  };
  CHECK(curve(DType::fp8_block).file == "mi300x/gemm-aiter.yaml");
  CHECK(curve(DType::fp8).file == "mi300x/gemm-aiter.yaml");
  CHECK(curve(DType::fp8).provenance.find("fp8 measured as fp8_block") != std::string::npos);
  CHECK(curve(DType::fp8).residual > curve(DType::fp8_block).residual);
  CHECK(curve(DType::bf16).file == "datasheet");
  // What rests on a data sheet says so by its deviation.
  CHECK(curve(DType::bf16).residual > curve(DType::fp8_block).residual);
  const model::AttentionShape shape{1, 8192, 8192, 64, 8, 128, 128, true};
  CHECK(curves
            .curves()[kernels.attention({shape, job::AttentionKernel::flash2, DType::bf16, false})
                          .curve]
            .residual >= 0.35);
}

TEST_CASE("Elements taken one by one last as long as their multiprocessors need, bytes among it") {
  const Kernels kernels = made(h100());
  constexpr std::int64_t elements = std::int64_t{1} << 30;
  const MemoryOp op = MemoryOp::elementwise;
  const double clock = 67e12 / (2 * 128 * 132);  // two FLOPs a lane
  const double least =
      static_cast<double>(elements) / (kernels.software().single_elements * h100().sms * clock);
  for (const std::int64_t width : {1, 2, 4}) {
    const Bytes moved(width * elements);
    const Time further = kernels.single_elements(op, elements, moved, false);
    CHECK(to_seconds(kernels.memory(op, moved).time + further) == Approx(least));
  }
  // Of wide elements the bytes alone take longer.
  CHECK(kernels.single_elements(op, elements, Bytes(32 * elements), false) == Time{0});
  CHECK(kernels.single_elements(op, 0, Bytes(elements), false) == Time{0});
}
