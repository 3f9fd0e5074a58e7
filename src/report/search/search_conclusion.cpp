#include "search_conclusion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "../text/format.h"
#include "../words/fit_words.h"
#include "../words/sentences.h"

namespace stepcast::report {
namespace {

// The overrides of the best strategy in which the ranked ones differ.
std::vector<std::string> choices(const result::Search& s) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < s.best.overrides.size(); ++i) {
    const bool varies =
        std::any_of(s.ranking.begin(), s.ranking.end(), [&](const result::Strategy& other) {
          return i < other.overrides.size() && other.overrides[i] != s.best.overrides[i];
        });
    if (varies) {
      const std::string& key = s.best.overrides[i];
      const auto equals = key.find('=');
      out.push_back(key.substr(key.rfind('.', equals) + 1));
    }
  }
  constexpr std::size_t kMost = 5;
  out.resize(std::min(out.size(), kMost));
  return out;
}

}  // namespace

bool none_possible(const result::Search& s) {
  return !s.found && !s.stopped && s.counts.candidates == s.counts.impossible;
}

std::string conclusion(const result::Search& s) {
  const std::size_t n = static_cast<std::size_t>(s.counts.candidates - s.counts.impossible);
  if (none_possible(s)) {
    return fmt::format("No combination of the space is possible for this job{}{}.",
                       s.nearest.empty() ? "" : ": ", s.nearest);
  }
  if (!s.found) {
    return fmt::format(
        "{} of the {} runs within memory{}{}.",
        s.stopped ? "Within the time limit no strategy was found that" : "None",
        s.stopped ? "space"
                  : fmt::format("{} possible strategies", thousands(static_cast<std::int64_t>(n))),
        s.nearest.empty() ? "" : ": ", s.nearest);
  }
  const std::vector<std::string> chosen = choices(s);
  std::string out =
      fmt::format("{} is {} of {} possible: {}{} a step",
                  chosen.empty() ? "This strategy" : fmt::format("{}", fmt::join(chosen, " ")),
                  s.bounds_only             ? "the one of the least bound"
                  : s.objective == "cost"   ? "the cheapest"
                  : s.objective == "energy" ? "the one of least energy"
                                            : "the fastest",
                  thousands(static_cast<std::int64_t>(n)), s.bounds_only ? "at least " : "",
                  duration(s.best.step_time.value));
  if (s.best.mfu > 0 && !s.bounds_only) {
    out += fmt::format(" at {} MFU", percent(s.best.mfu));
  }
  if (s.stated > 0 && !s.bounds_only) {
    const char* const noun = s.objective == "cost"     ? "cost "
                             : s.objective == "energy" ? "energy "
                                                       : "time ";
    out += ", " + beside(s.best.objective, s.stated, noun, "the job as given");
  }
  if (s.bounds_only) {
    return out + "; nothing was simulated.";
  }
  out += "; " + fit_clause(s.best.fits);
  return out + (s.gap > 0 ? fmt::format("; another may be up to {:.2f} % better.", 100 * s.gap)
                          : "; no other is better.");
}

}  // namespace stepcast::report
