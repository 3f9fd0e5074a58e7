// Faults in the user's input, each with the place it came from.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

// Where a value was written. Lines and columns count from 1; line 0 means "not from a file": `file` then holds the
// name of the command-line option ("--set parallelism.tensor=3").
struct Origin {
  std::string file;
  int line = 0;
  int column = 0;
};

// "FILE:LINE:COLUMN" or the option's name.
std::string to_string(const Origin& where);

struct Fault {
  Origin where;
  std::string message;  // what is wrong; what was expected (did you mean 'x'?)
};

// "FILE:LINE:COLUMN: error: MESSAGE".
std::string to_string(const Fault& fault);

// All faults of one input, in file order. Caught only by `cli`, which prints one line each and exits 2.
class InputError : public std::runtime_error {
 public:
  explicit InputError(std::vector<Fault> faults);
  explicit InputError(Fault fault);
  const std::vector<Fault>& faults() const { return faults_; }

 private:
  std::vector<Fault> faults_;
};

// The text with control characters as "\n" and "\x1b".
std::string printable(std::string_view text);

// The reason that a job cannot run. It is returned and not thrown, since a search meets it a million times. `key` is the
// job's key at fault ("parallelism.tensor").
struct Infeasible {
  std::string key;
  std::string reason;
};

// The candidate nearest to `word` in edit distance, or "" when none is near enough to suggest.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// Reports a bug of this program by throwing. The check stays on in release builds.
[[noreturn]] void fail_check(const char* condition, const char* file, int line, const std::string& what);

}  // namespace stepcast

#define STEPCAST_CHECK(condition, what)                               \
  do {                                                                \
    if (!(condition)) {                                               \
      ::stepcast::fail_check(#condition, __FILE__, __LINE__, (what)); \
    }                                                                 \
  } while (false)
