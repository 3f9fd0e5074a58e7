// What long work says on standard error while it runs, and when it is ended from outside.
#pragma once

#include <string>

#include "stepcast/store/store.h"

namespace stepcast::cli {

// "42 s", "3 min", "1.5 h".
std::string brief(double seconds);

class ProgressLine {
 public:
  // `what`: "search". `store`: null, or what keeps its results: trouble with it is told once.
  ProgressLine(const char* what, store::Store* store);
  // On a terminal one line that is rewritten, else a line now and then. `seconds`: since it began.
  void show(double seconds, const std::string& line);
  void finish(const std::string& line);

 private:
  void tell_trouble();
  const char* what_;
  store::Store* store_;
  bool terminal_ = false;
  bool told_trouble_ = false;
  double next_ = 0;  // seconds: when the next line is due
};

// From now on an interrupt, or the signal that mpirun sends when another process has died, leaves
// one line: what is kept in `store` (a file name, or ""). The process ends as the signal would have
// ended it. A limit on the size of files is a write that fails, not an end.
void say_when_ended(const char* what, const std::string& store, int processes);

}  // namespace stepcast::cli
