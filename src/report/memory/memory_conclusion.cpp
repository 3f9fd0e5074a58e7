#include "memory_conclusion.h"

#include <fmt/format.h>

#include <algorithm>

#include "../text/format.h"
#include "../words/fit_words.h"
#include "memory_chart.h"

namespace stepcast::report {

std::string conclusion(const result::MemoryTimeline& memory) {
  if (memory.stages.empty()) {
    return "Nothing is held.";
  }
  const result::StageTimeline& most = fullest(memory);
  const auto largest = std::max_element(most.peak.begin(), most.peak.end());
  std::string what;
  if (*largest > 0 && most.allocated.count() > 0) {
    const auto category = static_cast<program::MemoryCategory>(largest - most.peak.begin());
    what = fmt::format(
        " ({} % {})",
        significant(100.0 * static_cast<double>(*largest) / bytes_of(most.allocated), 2),
        to_string(category));
  }
  return fmt::format("Memory peaks at {} of {} GiB on stage {}{}; {}.",
                     gibibytes(bytes_of(most.process)), gibibytes(bytes_of(memory.capacity)),
                     most.stage, what, fit_clause(memory.fits));
}

}  // namespace stepcast::report
