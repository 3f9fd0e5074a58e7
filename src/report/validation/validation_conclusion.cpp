#include "validation_conclusion.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "../text/format.h"
#include "../words/sentences.h"
#include "stepcast/base/statistics.h"

namespace stepcast::report {

std::string conclusion(const result::Validation& v) {
  std::vector<double> errors;
  const result::ValidationRow* worst = nullptr;
  std::size_t inside = 0;
  std::size_t left = 0;
  std::size_t too_large = 0;
  std::size_t open = 0;  // fit with full recomputation alone, which their sources do not state
  for (const result::ValidationRow& r : v.rows) {
    if (!r.primary) {
      continue;
    }
    left += r.status == "skipped" ? 1 : 0;
    too_large += r.status == "oom" ? 1 : 0;
    open += r.status == "open" ? 1 : 0;
    if (r.status != "ok") {
      continue;
    }
    errors.push_back(std::abs(r.error));
    inside += r.published >= r.low && r.published <= r.high ? 1 : 0;
    if (worst == nullptr || std::abs(r.error) > std::abs(worst->error)) {
      worst = &r;
    }
  }
  if (errors.empty()) {
    return fmt::format("None of the {} could be forecast.", counted(v.rows.size(), "measurement"));
  }
  std::string out = fmt::format(
      "Half of the {} are forecast within {}, {} inside their 90 % interval; the worst is {} ({})",
      counted(errors.size(), "measurement"), percent(median(errors)),
      percent(static_cast<double>(inside) / static_cast<double>(errors.size())), worst->id,
      signed_percent(worst->error));
  if (left + too_large + open > 0) {
    out += fmt::format("; {} left out, {} called too large", left, too_large);
  }
  if (open > 0) {
    out += fmt::format(", {} too large unless recomputed in full, which {} not state", open,
                       open == 1 ? "its source does" : "their sources do");
  }
  return out + ".";
}

}  // namespace stepcast::report
