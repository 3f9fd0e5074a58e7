#include "harness/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace stepcast::harness {
namespace {

constexpr double kEvery = 30;  // s between lines where there is no terminal
constexpr int kBar = 24;       // columns

}  // namespace

std::string minutes(double seconds) {
  const long whole = std::lround(std::max(seconds, 0.0));
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

Progress::Progress(std::ostream& out, Style style, std::size_t total, double budget, int width)
    : out_(out), style_(style), total_(total), budget_(budget), width_(width) {}

Progress::~Progress() { clear(); }

void Progress::start(std::size_t done, double elapsed, const std::string& key) {
  if (style_ == Style::lines && elapsed - last_ >= kEvery) {
    last_ = elapsed;
    out_ << fmt::format("calibrate-gpu: {} of {} measured, {} of {} min\n", done, total_,
                        minutes(elapsed), minutes(budget_))
         << std::flush;
  }
  if (style_ != Style::bar) {
    return;
  }
  const double share = std::clamp(
      std::max(elapsed / std::max(budget_, 1.0),
               static_cast<double>(done) / static_cast<double>(std::max(total_, done + 1))),
      0.0, 1.0);
  const auto full = static_cast<int>(share * kBar);
  std::string line =
      fmt::format("[{}{}] {}/{}  {}/{}  {}", std::string(full, '#'), std::string(kBar - full, '.'),
                  done, total_, minutes(elapsed), minutes(budget_), key);
  line.resize(std::min<std::size_t>(line.size(), std::max(width_ - 1, 1)));
  out_ << "\r\x1b[K" << line << std::flush;
  drawn_ = true;
}

void Progress::note(const std::string& line) {
  clear();
  if (style_ != Style::none) {
    out_ << line << "\n" << std::flush;
  }
}

void Progress::clear() {
  if (drawn_) {
    out_ << "\r\x1b[K" << std::flush;
    drawn_ = false;
  }
}

}  // namespace stepcast::harness
