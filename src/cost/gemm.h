// LAW     burst: t = fixed + Q + [C^4 + M^4]^(1/4) * exp(g(m, n, k)), what published tables measure
//         C = min over tiles (a x b) and splits s of k:
//             W(ceil(m/a) ceil(n/b) batch s) * 2ab (k/s + prologue)(1 + tile (1/a + 1/b)) *
//             SMs/rate
//             + reduction(s)
//         W(T) = (1 - tail) T/SMs + tail ceil(T/SMs): waves, of which a share `tail` is exposed
//         M = bytes/bandwidth; where the measured loop leaves operands in L2, the share
//         h = 1/(1 + (bytes/resident)^8) of them is read at L2's bandwidth instead
//         g: a smooth shape-dependent efficiency, trilinear in log m, n, k
//         Q = quantise m k batch/bandwidth: below 16 bits, scaling and casting the activations,
//         which the tables include
//         long runs: [t^8 + (FLOPs/cap)^8]^(1/8): the power limit caps the rate that a device
//         sustains and does not slow GEMMs below it. cap: chosen so that the table's fastest GEMMs
//         run at the level measured in long runs. Under a power limit below the board's rating the
//         cap is (limit / rated)^x of that: power is clock x voltage^2, and the voltage falls
//         slower than the clock (x = 1/3 if they were proportional, 1 at the lowest voltage); x is
//         measured on Hopper. Never below FLOPs/peak, nor below (bytes - L2)/data-sheet bandwidth.
// SOURCE  parameters are fitted (gemm_fit.h) to measured points: calibration/*/gemm-*.yaml
// VALID   m 1..32768, n and k 256..65536 in one GEMM; beyond, g keeps its border's value
// COST    no allocation, about 150 ns
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace stepcast::cost {

// g on a regular grid of logarithms. Empty: g = 0.
struct CorrectionGrid {
  struct Axis {
    double first = 0;  // log2 of the first node
    double step = 1;   // in log2
    int nodes = 0;
  };
  std::array<Axis, 3> axes;   // m, n, k
  std::vector<float> values;  // m slowest

  // The eight nodes around a shape and their weights.
  struct Stencil {
    std::array<int, 8> node;
    std::array<double, 8> weight;
  };
  Stencil stencil(double m, double n, double k) const;
  double at(double m, double n, double k) const;
};

// The grid's coordinate of m. Below 64 rows the weights' traffic decides the time and little
// changes with m, so the 1 and 16 rows that tables measure are placed at the neighbouring nodes 16
// and 32.
double grid_rows(double m);

struct GemmLaw {
  double fixed = 2e-6;   // seconds from start to end of a kernel that does nothing
  double rate = 0;       // FLOP/s of all SMs in the inner loop of an infinite tile
  double bandwidth = 0;  // bytes/s
  double prologue = 64;  // time to fill the pipeline and write the tile, in elements of k
  double tile = 16;      // operand traffic of an SM, which grows as the tile's sides shrink
  double tail = 1;       // share of wave quantisation that is exposed
  double quantise = 0;   // bytes moved to cast each element of the left operand
  double resident = 0;   // bytes of one GEMM's operands that stay in L2 between repeats; 0: none do
  double l2_bandwidth = 0;  // bytes/s at which they are read
  int sms = 0;
  CorrectionGrid grid;
};

struct GemmWork {
  double m = 0, n = 0, k = 0, batch = 1;
  double bytes = 0;  // read and written
  // Timed in a loop, so that operands may stay in L2. In a job, other layers' weights replace them.
  bool repeated = false;
};

// Seconds of one GEMM in a short burst, at the highest clock.
double gemm_seconds(const GemmLaw& law, const GemmWork& work);

// The part Q of it.
double quantise_seconds(const GemmLaw& law, const GemmWork& work);

// Seconds in a long run under the power limit; `cap` in FLOP/s, infinite: none.
double sustained_seconds(double burst, double flops, double cap);

// The cap under which a GEMM of rate `burst` runs at `long_run` (FLOP/s, long_run <= burst).
double power_cap(double burst, double long_run);

// The exponent x of a device on which none was measured lies between 1/3 and 1 (above).
inline constexpr double kPowerExponent = 2.0 / 3;
inline constexpr double kPowerExponentResidual = 1.0 / 3;

// Share of the cap that is left under a power limit of `limit` W. It is never above 1: a limit
// beyond its rating does not raise a board's clock.
double power_share(double limit, double rated, double exponent);

// A GEMM's traffic: it reads its operands once and writes the result once; an fp32 accumulation
// reads and writes 4 bytes.
double gemm_bytes(double m, double n, double k, double batch, double in, double out);

}  // namespace stepcast::cost
