#include "gemm.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stepcast::cost {
namespace {

struct Tile {
  int a_shift, b_shift;  // log2 of the sides
};
// The output tiles that cuBLAS's and CUTLASS's tensor-core kernels commonly use (CUTLASS profiler's
// list).
constexpr std::array kTiles = {Tile{8, 7}, Tile{7, 8}, Tile{7, 7}, Tile{7, 6},
                               Tile{6, 7}, Tile{6, 6}, Tile{8, 6}, Tile{6, 8}};
// Tiles of few rows, from the 16 of one tensor-core instruction.
constexpr std::array kSkinny = {Tile{4, 6}, Tile{4, 7}, Tile{4, 8}, Tile{5, 6}, Tile{5, 7}};
constexpr std::int64_t kSkinnyRows = 32;
// Partial sums of a split k are written and read back in fp32, mostly within L2, whose bandwidth is
// about three times that of HBM on these devices; the second kernel or semaphore costs about a
// microsecond.
constexpr double kReductionBytes = 8;
constexpr double kReductionSpeed = 3;
constexpr double kReductionStart = 1e-6;
constexpr int kMaxSplit = 16;
constexpr double kMinSplitK = 256;

double waves(double tiles, double sms, double tail) {
  const double exact = tiles / sms;
  const double whole = static_cast<double>(static_cast<std::int64_t>(exact + (1 - 1e-12)));
  return exact + tail * (whole - exact);
}

double compute_seconds(const GemmLaw& law, const GemmWork& w) {
  const auto m = static_cast<std::int64_t>(w.m);
  const auto n = static_cast<std::int64_t>(w.n);
  const double sms = law.sms;
  const double per_sm = law.rate / sms;
  double best = 1e300;
  const auto consider = [&](const Tile t) {
    const std::int64_t rows = (m + (1LL << t.a_shift) - 1) >> t.a_shift;
    const std::int64_t columns = (n + (1LL << t.b_shift) - 1) >> t.b_shift;
    const double tiles = static_cast<double>(rows * columns) * w.batch;
    const double a = 1 << t.a_shift;
    const double b = 1 << t.b_shift;
    const double per_k = 2 * a * b * (1 + law.tile * (1 / a + 1 / b)) / per_sm;
    best = std::min(best, waves(tiles, sms, law.tail) * per_k * (w.k + law.prologue));
    for (int s = 2; s <= kMaxSplit && tiles * s <= 2 * sms && w.k >= kMinSplitK * s; s *= 2) {
      const double reduction = kReductionStart + s * w.m * w.n * w.batch * kReductionBytes /
                                                     (kReductionSpeed * law.bandwidth);
      best = std::min(
          best, waves(tiles * s, sms, law.tail) * per_k * (w.k / s + law.prologue) + reduction);
    }
  };
  if (m <= kSkinnyRows) {
    std::for_each(kSkinny.begin(), kSkinny.end(), consider);
  } else {
    std::for_each(kTiles.begin(), kTiles.end(), consider);
  }
  return best;
}

}  // namespace

CorrectionGrid::Stencil CorrectionGrid::stencil(double m, double n, double k) const {
  const std::array<double, 3> x = {std::log2(m), std::log2(n), std::log2(k)};
  std::array<int, 3> low{};
  std::array<double, 3> part{};
  for (int d = 0; d < 3; ++d) {
    const Axis& axis = axes[d];
    const double place = std::clamp((x[d] - axis.first) / axis.step, 0.0, axis.nodes - 1.0);
    low[d] = std::min(static_cast<int>(place), axis.nodes - 2);
    part[d] = place - low[d];
  }
  Stencil s{};
  for (int corner = 0; corner < 8; ++corner) {
    int node = 0;
    double weight = 1;
    for (int d = 0; d < 3; ++d) {
      const int up = (corner >> d) & 1;
      node = node * axes[d].nodes + low[d] + up;
      weight *= up ? part[d] : 1 - part[d];
    }
    s.node[corner] = node;
    s.weight[corner] = weight;
  }
  return s;
}

double CorrectionGrid::at(double m, double n, double k) const {
  if (values.empty()) {
    return 0;
  }
  const Stencil s = stencil(m, n, k);
  double sum = 0;
  for (int corner = 0; corner < 8; ++corner) {
    sum += s.weight[corner] * static_cast<double>(values[s.node[corner]]);
  }
  return sum;
}

double grid_rows(double m) {
  return m >= 64   ? m
         : m >= 16 ? 32 * std::sqrt(m / 16)
                   : 16 * std::sqrt(std::sqrt(std::max(m, 1.0)));
}

double gemm_bytes(double m, double n, double k, double batch, double in, double out) {
  return batch * (in * (m * k + k * n) + out * m * n);
}

double quantise_seconds(const GemmLaw& law, const GemmWork& work) {
  return law.quantise * work.m * work.k * work.batch / law.bandwidth;
}

double gemm_seconds(const GemmLaw& law, const GemmWork& work) {
  const double c = compute_seconds(law, work);
  double mem = work.bytes / law.bandwidth;
  if (work.repeated && law.resident > 0) {
    const double over2 = (work.bytes / law.resident) * (work.bytes / law.resident);
    const double over8 = over2 * over2 * over2 * over2;
    mem *= 1 - (1 - law.bandwidth / law.l2_bandwidth) / (1 + over8);
  }
  const double c2 = c * c;
  const double m2 = mem * mem;
  const double both = std::sqrt(std::sqrt(c2 * c2 + m2 * m2));
  // A batched GEMM fills the device like one GEMM with batch times as many rows.
  return law.fixed + quantise_seconds(law, work) +
         both * std::exp(law.grid.at(grid_rows(work.m * work.batch), work.n, work.k));
}

double sustained_seconds(double burst, double flops, double cap) {
  const double ratio = flops / (cap * burst);
  const double r2 = ratio * ratio;
  const double r4 = r2 * r2;
  return burst * std::sqrt(std::sqrt(std::sqrt(1 + r4 * r4)));
}

double power_cap(double burst, double long_run) {
  const double excess = std::pow(burst / long_run, 8) - 1;
  return excess > 0 ? burst / std::pow(excess, 1.0 / 8) : std::numeric_limits<double>::infinity();
}

double power_share(double limit, double rated, double exponent) {
  return limit > 0 && limit < rated ? std::pow(limit / rated, exponent) : 1;
}

}  // namespace stepcast::cost
