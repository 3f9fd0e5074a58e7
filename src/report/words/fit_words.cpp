#include "fit_words.h"

#include <fmt/format.h>

#include <cmath>

#include "../text/format.h"

namespace stepcast::report {

Value fit_value(const result::Fit& fit) {
  return object({{"verdict", std::string(to_string(result::verdict_of(fit)))},
                 {"probability", fit.probability},
                 {"spare", fit.spare},
                 {"needed", fit.needed},
                 {"frees_cache", fit.frees_cache}});
}

std::string fit_verdict(const result::Fit& fit) {
  const result::Verdict verdict = result::verdict_of(fit);
  return verdict == result::Verdict::no ? "NO" : std::string(to_string(verdict));
}

std::string chance(double probability) {
  // Rounded down, as verdicts begin at whole per cents: 69.6 % is not yet "likely".
  constexpr double kRounding = 1e-9;
  return probability >= 0.995  ? "over 99 %"
         : probability < 0.005 ? "under 1 %"
                               : fmt::format("{:.0f} %", std::floor(100 * probability + kRounding));
}

bool is_in_doubt(const result::Fit& fit) {
  const result::Verdict verdict = result::verdict_of(fit);
  return fit.probability && verdict != result::Verdict::yes && verdict != result::Verdict::no;
}

std::string fit_words(const result::Fit& fit) {
  return fit_verdict(fit) + (is_in_doubt(fit) ? " " + chance(*fit.probability) : "") +
         (fit.frees_cache ? " if cache is freed" : "");
}

std::string cache_clause(const result::Fit& fit) {
  return fit.frees_cache && fit.needed
             ? fmt::format("it runs in {} GiB, with the allocator giving back its cache",
                           gibibytes(fit.needed->value))
             : "";
}

std::string fit_remark(const result::Fit& fit) {
  const auto spare = static_cast<double>(fit.spare.count());
  std::string out =
      fmt::format("{} GiB {}", gibibytes(std::abs(spare)), spare >= 0 ? "to spare" : "too much");
  if (fit.probability) {
    out = fmt::format("{}, {}", chance(*fit.probability), out);
  }
  const std::string cache = cache_clause(fit);
  return cache.empty() ? out : out + "; " + cache;
}

std::string fit_clause(const result::Fit& fit) {
  const double bytes = std::abs(static_cast<double>(fit.spare.count()));
  if (!fit && fit.spare.count() >= 0) {
    return "it does not fit: a node's host memory or drives are too small";
  }
  const std::string cache = cache_clause(fit);
  const std::string doubt = fmt::format(
      "{}, {} GiB {}{}{}", chance(fit.probability.value_or(0)), gibibytes(bytes),
      fit.spare.count() >= 0 ? "to spare" : "too much", cache.empty() ? "" : "; ", cache);
  switch (result::verdict_of(fit)) {
    case result::Verdict::yes:
      return fmt::format("it fits with {} GiB to spare{}", gibibytes(bytes),
                         cache.empty() ? "" : fmt::format(" ({})", cache));
    case result::Verdict::possible:
      return "it may fit";
    case result::Verdict::no:
      return fmt::format("it does not fit: {} GiB too much", gibibytes(bytes));
    case result::Verdict::likely:
      return fmt::format("it likely fits ({})", doubt);
    case result::Verdict::borderline:
      return fmt::format("it may or may not fit ({})", doubt);
    case result::Verdict::unlikely:
      return fmt::format("it is unlikely to fit ({})", doubt);
  }
  return "";
}

}  // namespace stepcast::report
