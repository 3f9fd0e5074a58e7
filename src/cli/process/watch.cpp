#include "watch.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../output/output.h"
#include "stepcast/text/opened.h"

namespace stepcast::cli {
namespace {

using Files = std::map<std::string, text::FileState>;
using ListFile = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// How often files are looked at. Looking at a hundred takes far less than a millisecond.
constexpr timespec kBetweenLooks = {0, 200'000'000};

// SIGINT, SIGTERM and the end of a child wait until they are asked for.
class HeldSignals {
 public:
  HeldSignals() {
    ::sigemptyset(&held_);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) {
      ::sigaddset(&held_, signal);
    }
    ::sigprocmask(SIG_BLOCK, &held_, &before_);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() { release(); }
  void release() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  // The next signal; 0 when `wait` has passed without one.
  int next(const timespec* wait) const {
    int signal = 0;
    do {
      signal = ::sigtimedwait(&held_, nullptr, wait);
    } while (signal < 0 && errno == EINTR);
    return std::max(signal, 0);
  }

 private:
  sigset_t held_{}, before_{};
};

bool is_end(int signal) { return signal == SIGINT || signal == SIGTERM; }

// A line for each file: its state, then its name up to the end of the line.
void write_list(std::FILE* out, const Files& files) {
  for (const auto& [name, state] : files) {
    if (name.find('\n') == std::string::npos) {
      fmt::print(out, "{} {} {} {} {}\n", state.device, state.inode, state.size, state.modified,
                 name);
    }
  }
  std::fflush(out);
}

Files read_list(std::FILE* in) {
  std::rewind(in);
  Files files;
  std::string line;
  for (int c = std::fgetc(in); c != EOF; c = std::fgetc(in)) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    char* at = line.data();
    text::FileState state;
    state.device = std::strtoull(at, &at, 10);
    state.inode = std::strtoull(at, &at, 10);
    state.size = std::strtoull(at, &at, 10);
    state.modified = std::strtoll(at, &at, 10);
    files[at + 1] = state;
    line.clear();
  }
  return files;
}

// What the child does; it leaves nothing to the parent's destructors and handlers.
[[noreturn]] void run_child(const std::function<int()>& run, std::FILE* list) {
  text::remember_opened();
  const int status = with_faults(run);
  std::fflush(stdout);
  write_list(list, text::opened_files());
  ::_exit(status);
}

struct Ran {
  bool ended = false;  // by the user
  int status = done;
  Files files;
};

Ran run_once(const std::function<int()>& run, const HeldSignals& signals) {
  const ListFile list(std::tmpfile(), &std::fclose);
  if (!list) {
    throw std::runtime_error("--watch: no temporary file can be made");
  }
  std::fflush(stdout);
  std::fflush(stderr);
  const pid_t child = ::fork();
  if (child < 0) {
    throw std::runtime_error("--watch: no process can be started");
  }
  if (child == 0) {
    signals.release();
    run_child(run, list.get());
  }
  Ran out;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (is_end(signals.next(nullptr))) {
      ::kill(child, SIGTERM);
      ::waitpid(child, &status, 0);
      out.ended = true;
      return out;
    }
  }
  out.ended = WIFSIGNALED(status) && is_end(WTERMSIG(status));
  out.status = WIFEXITED(status) ? WEXITSTATUS(status) : cannot_run;
  out.files = read_list(list.get());
  return out;
}

bool has_changed(const Files& files) {
  return std::any_of(files.begin(), files.end(),
                     [](const auto& one) { return !(text::state_of(one.first) == one.second); });
}

}  // namespace

int watch(const std::function<int()>& run) {
  const HeldSignals signals;
  Files known;
  for (;;) {
    if (::isatty(STDOUT_FILENO) == 1) {
      write_stdout("--watch", "\033[H\033[2J");  // to the top left, and all before is gone
    }
    Ran ran = run_once(run, signals);
    if (ran.ended) {
      return done;
    }
    // A run that failed early may not have opened all files that matter to it.
    for (auto& [name, state] : known) {
      ran.files.emplace(name, text::state_of(name));
    }
    known = std::move(ran.files);
    const auto regular = std::count_if(known.begin(), known.end(), [](const auto& one) {
      return !(one.second == text::FileState{});
    });
    if (regular == 0) {
      return ran.status;
    }
    write_stderr(fmt::format("watching {} files; Ctrl-C ends\n", regular));
    while (!has_changed(known)) {
      if (is_end(signals.next(&kBetweenLooks))) {
        return done;
      }
    }
  }
}

}  // namespace stepcast::cli
