#include "progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>

#include "../command_line/terminal.h"
#include "stepcast/base/calendar.h"

namespace stepcast::cli {
namespace {

// Without a terminal, lines are printed at intervals of this share of the elapsed time, so that a
// short search shows progress and a long one does not fill a log.
constexpr double kShare = 0.05;

// Text for the signal handler, which may only write it.
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

std::string brief(double seconds) {
  if (seconds < 90) {
    return fmt::format("{:.0f} s", seconds);
  }
  return seconds < 5400 ? fmt::format("{:.0f} min", seconds / kMinute)
                        : fmt::format("{:.1f} h", seconds / kHour);
}

ProgressLine::ProgressLine(const char* what, store::Store* store)
    : what_(what), store_(store), terminal_(::isatty(STDERR_FILENO) == 1) {}

void ProgressLine::report_trouble() {
  if (store_ != nullptr && !reported_trouble_ && !store_->trouble().empty()) {
    reported_trouble_ = true;
    write_stderr(
        fmt::format("{}--store: error: {}; the {} continues, and its results are kept in memory\n",
                    terminal_ ? "\r\x1b[K" : "", store_->trouble(), what_));
  }
}

void ProgressLine::show(double seconds, const std::string& line) {
  report_trouble();
  if (terminal_) {
    write_stderr("\r\x1b[K" + line);
  } else if (seconds >= next_) {
    write_stderr(line + "\n");
    next_ = seconds * (1 + kShare);
  }
}

void ProgressLine::finish(const std::string& line) {
  report_trouble();
  write_stderr((terminal_ ? "\r\x1b[K" : "") + line);
}

void say_when_ended(const char* what, const std::string& store, int processes) {
  const std::string who = processes > 1 ? "stopped, or a process died" : "stopped";
  last_words() = fmt::format(
      "simulate: the {} was {}: {}\n", what, who,
      store.empty()
          ? "without --store nothing is kept"
          : fmt::format("the results so far are in '{}', and the same command continues from there",
                        store));
  std::signal(SIGINT, ended);
  std::signal(SIGTERM, ended);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace stepcast::cli
