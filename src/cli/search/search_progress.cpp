#include "search_progress.h"

#include <fmt/format.h>

#include <algorithm>

namespace stepcast::cli {
namespace {

std::string line_of(const search::Progress& p) {
  std::string out = fmt::format("{:.1f} s: {}: {} tried", p.seconds, p.stage, p.counts.simulated);
  if (p.open < 0) {
    return out + ", none fits yet";
  }
  out += fmt::format(", {:.5g} found, gap {:.2f} %, at most {} more", p.best, 100 * p.gap, p.open);
  return p.seconds_left < 0 ? out : out + fmt::format(" ({})", brief(p.seconds_left));
}

std::string last_line(const search::Progress& p) {
  const result::SearchCounts& c = p.counts;
  const auto all = static_cast<double>(std::max<std::int64_t>(1, c.candidates));
  // Where time ran out, the least times were not all compared.
  const std::int64_t pruned =
      p.stopped ? c.memory_pruned : c.candidates - c.impossible - c.alike - c.simulated;
  return fmt::format(
      "{} candidates in {:.2f} s, {:.0f} a second: {:.4g} % impossible, {:.4g} % pruned{}, {} "
      "simulated; {} evaluations, {:.0f} "
      "a second, {} more from the store\n",
      c.candidates, p.seconds, all / std::max(p.seconds, 1e-9),
      100 * static_cast<double>(c.impossible) / all, 100 * static_cast<double>(pruned) / all,
      p.stopped ? " by memory before the time limit" : "", c.simulated, p.computed,
      static_cast<double>(p.computed) / std::max(p.seconds, 1e-9), p.reused);
}

}  // namespace

void SearchProgress::show(const search::Progress& p) {
  if (p.finished) {
    line_.finish(last_line(p));
  } else {
    line_.show(p.seconds, line_of(p));
  }
}

}  // namespace stepcast::cli
