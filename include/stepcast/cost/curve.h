// The curves that tasks are priced by. Each has a name, provenance and residual, from a calibration file or a data sheet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/base/id.h"
#include "stepcast/base/quantity.h"

namespace stepcast::cost {

using stepcast::CurveId;

// A factor that all curves of its kind share at one site, and that can be fitted to measured steps (site.h).
enum class Common : std::uint8_t { none, clock, fabric };

// The kind of operation whose time a curve gives. exact: a time that rests on no measurement.
enum class CurveKind : std::uint8_t { exact, gemm, grouped, attention, memory, copy, overlap, network };

struct Curve {
  std::string name;  // "gemm bf16 a100-sxm-80 cublas"
  std::string file;  // calibration file's name, or "datasheet"
  std::string device;
  std::string provenance;  // one line: library, version, date, source
  double residual = 0;     // relative standard deviation of prediction against held-out measurements
  Common common = Common::none;
  double shared = 0;  // fabric: the part of `residual` that a site's operations share
  CurveKind kind = CurveKind::exact;
  bool of_kind = false;     // of all systems of this kind: none of this system was measured
  std::string scaled = {};  // what a reader must know: the curve was measured at another rate than the job states

  bool operator==(const Curve&) const = default;
};

// All curves of a forecaster's jobs, in order of first use; id 0 is "exact" with no residual.
class CurveTable {
 public:
  CurveTable();
  // The id of an equal one, or a new one. Equal as a whole: the same file stands for a system that
  // was measured and, in another job, for one of its kind.
  CurveId add(const Curve& curve);
  const std::vector<Curve>& curves() const { return curves_; }

 private:
  std::vector<Curve> curves_;
};

struct Priced {
  Time time{0};
  CurveId curve;
};

}  // namespace stepcast::cost
