#include "memory_conclusion.h"

#include <fmt/format.h>

#include <algorithm>

#include "../text/format.h"
#include "../words/fit_words.h"

namespace stepcast::report {

std::string conclusion(const result::MemoryTimeline& memory) {
  if (memory.stages.empty()) {
    return "Nothing is held.";
  }
  const auto most = std::max_element(
      memory.stages.begin(), memory.stages.end(),
      [](const auto& a, const auto& b) { return a.process.count() < b.process.count(); });
  const auto largest = std::max_element(most->peak.begin(), most->peak.end());
  std::string what;
  if (*largest > 0 && most->allocated.count() > 0) {
    const auto category = static_cast<program::MemoryCategory>(largest - most->peak.begin());
    what = fmt::format(" ({} % {})",
                       significant(100.0 * static_cast<double>(*largest) /
                                       static_cast<double>(most->allocated.count()),
                                   2),
                       to_string(category));
  }
  return fmt::format("Memory peaks at {} of {} GiB on stage {}{}; {}.",
                     gibibytes(static_cast<double>(most->process.count())),
                     gibibytes(static_cast<double>(memory.capacity.count())), most->stage, what,
                     fit_clause(memory.fits));
}

}  // namespace stepcast::report
