#include "fit_words.h"

#include <fmt/format.h>

namespace stepcast::report {

Value fit_value(const result::Fit& fit) {
  return object({{"verdict", std::string(to_string(result::verdict_of(fit)))},
                 {"probability", fit.probability},
                 {"spare", fit.spare}});
}

std::string fit_verdict(const result::Fit& fit) {
  const result::Verdict verdict = result::verdict_of(fit);
  return verdict == result::Verdict::no ? "NO" : std::string(to_string(verdict));
}

std::string chance(double probability) {
  return probability >= 0.995  ? "over 99 %"
         : probability < 0.005 ? "under 1 %"
                               : fmt::format("{:.0f} %", 100 * probability);
}

bool is_in_doubt(const result::Fit& fit) {
  const result::Verdict verdict = result::verdict_of(fit);
  return fit.probability && verdict != result::Verdict::yes && verdict != result::Verdict::no;
}

std::string fit_words(const result::Fit& fit) {
  return is_in_doubt(fit) ? fmt::format("{} {}", fit_verdict(fit), chance(*fit.probability))
                          : fit_verdict(fit);
}

}  // namespace stepcast::report
