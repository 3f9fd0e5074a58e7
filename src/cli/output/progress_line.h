// Progress of long work on standard error, and the message when it is ended from outside.
#pragma once

#include <string>

#include "stepcast/store/store.h"

namespace stepcast::cli {

// "42 s", "3 min", "1.5 h".
std::string brief(double seconds);

class ProgressLine {
 public:
  // `what`: "search". `store`: null, or the store of its results; trouble with it is reported once.
  ProgressLine(const char* what, store::Store* store);
  // On a terminal one line that is rewritten, else a line now and then. `seconds`: since it began.
  void show(double seconds, const std::string& line);
  void finish(const std::string& line);

 private:
  void report_trouble();
  const char* what_;
  store::Store* store_;
  bool terminal_ = false;
  bool reported_trouble_ = false;
  double next_ = 0;  // seconds: when the next line is due
};

// From now on an interrupt, or the signal that mpirun sends when another process has died, prints
// one line about what `store` (a file name, or "") keeps, and then ends the process as usual.
// Exceeding a limit on file sizes becomes a failed write instead of a signal.
void say_when_ended(const char* what, const std::string& store, int processes);

}  // namespace stepcast::cli
