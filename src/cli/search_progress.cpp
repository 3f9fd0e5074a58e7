#include "search_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "output.h"

namespace stepcast::cli {
namespace {

// On no terminal, a line each so much of the time that has passed: a short search says what it
// does, a long one does not fill a log.
constexpr double kShare = 0.05;

std::string brief(double seconds) {
  if (seconds < 90) {
    return fmt::format("{:.0f} s", seconds);
  }
  return seconds < 5400 ? fmt::format("{:.0f} min", seconds / 60)
                        : fmt::format("{:.1f} h", seconds / 3600);
}

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
      p.stopped ? c.memory_pruned : c.candidates - c.impossible - c.simulated;
  return fmt::format(
      "{} candidates in {:.2f} s, {:.0f} a second: {:.4g} % impossible, {:.4g} % pruned{}, {} "
      "simulated; {} evaluations, {:.0f} "
      "a second, {} more from the store\n",
      c.candidates, p.seconds, all / std::max(p.seconds, 1e-9),
      100 * static_cast<double>(c.impossible) / all, 100 * static_cast<double>(pruned) / all,
      p.stopped ? " by memory before the time ran out" : "", c.simulated, p.computed,
      static_cast<double>(p.computed) / std::max(p.seconds, 1e-9), p.reused);
}

// For the handler, which may do little more than write them.
std::string& last_words() {
  static std::string one;
  return one;
}

void ended(int signal) {
  const std::string& text = last_words();
  static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

SearchProgress::SearchProgress(store::Store* store)
    : store_(store), terminal_(::isatty(STDERR_FILENO) == 1) {}

void SearchProgress::tell_trouble() {
  if (store_ != nullptr && !told_trouble_ && !store_->trouble().empty()) {
    told_trouble_ = true;
    write_stderr(fmt::format(
        "{}--store: error: {}; the search goes on, and what it evaluates waits in memory\n",
        terminal_ ? "\r\x1b[K" : "", store_->trouble()));
  }
}

void SearchProgress::show(const search::Progress& p) {
  tell_trouble();
  if (p.finished) {
    write_stderr((terminal_ ? "\r\x1b[K" : "") + last_line(p));
  } else if (terminal_) {
    write_stderr("\r\x1b[K" + line_of(p));
  } else if (p.seconds >= next_) {
    write_stderr(line_of(p) + "\n");
    next_ = p.seconds * (1 + kShare);
  }
}

void say_when_ended(const std::string& store, int processes) {
  const std::string who = processes > 1 ? "stopped, or a process died" : "stopped";
  last_words() = fmt::format(
      "simulate: the search was {}: {}\n", who,
      store.empty()
          ? "nothing is kept without --store"
          : fmt::format("what was evaluated is in '{}', and the same command goes on from it",
                        store));
  std::signal(SIGINT, ended);
  std::signal(SIGTERM, ended);
}

}  // namespace stepcast::cli
