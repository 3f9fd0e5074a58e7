// Whether a job's memory is enough, as a probability.
#pragma once

#include <array>
#include <optional>

#include "stepcast/base/quantity.h"
#include "stepcast/base/spelling.h"
#include "stepcast/result/estimate.h"

namespace stepcast::result {

enum class Verdict {
  yes,         // probability of at least 95 %: the whole 90 % interval of memory fits
  likely,      // at least 70 %
  borderline,  // 30 to 70 %
  unlikely,    // below 30 %
  no,          // below 5 %
  possible,    // only a lower bound of memory is known, and that fits
};

constexpr auto spellings(Verdict) {
  return std::to_array<Spelling<Verdict>>({{Verdict::yes, "yes"},
                                           {Verdict::likely, "likely"},
                                           {Verdict::borderline, "borderline"},
                                           {Verdict::unlikely, "unlikely"},
                                           {Verdict::no, "no"},
                                           {Verdict::possible, "possible"}});
}

struct Fit {
  bool fits = false;                  // at the forecast value: with a probability of at least 50 %
  std::optional<double> probability;  // nothing: only a lower bound of memory is known
  // Of the GPU, or of the node's memory or drives, that has least: what the process leaves. Negative: what is missing even
  // when the allocator has given back its cache.
  Bytes spare;
  // The least memory in which the job runs, in bytes, on the GPU least likely to have it: an allocator gives back its cached
  // blocks before an allocation fails. LAW: `probability` is that of it being at most the capacity, so the verdict is "yes"
  // exactly where its whole interval fits. Nothing: as `probability`.
  std::optional<Estimate> needed = {};
  // The allocator must give back cached blocks, or the verdict would be another if it gave back none: the interval of the
  // process's memory, which holds the cache, then says something else than `needed`.
  bool frees_cache = false;

  explicit operator bool() const { return fits; }
};

constexpr Verdict verdict_of(const Fit& fit) {
  if (!fit.probability) {
    return fit.fits ? Verdict::possible : Verdict::no;
  }
  const double p = *fit.probability;
  return p >= 0.95   ? Verdict::yes
         : p >= 0.7  ? Verdict::likely
         : p >= 0.3  ? Verdict::borderline
         : p >= 0.05 ? Verdict::unlikely
                     : Verdict::no;
}

}  // namespace stepcast::result
