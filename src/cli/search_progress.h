// What a search says on standard error while it runs, and when it is ended from outside.
#pragma once

#include <string>

#include "stepcast/search/search.h"
#include "stepcast/store/store.h"

namespace stepcast::cli {

class SearchProgress {
 public:
  explicit SearchProgress(store::Store* store);
  // On a terminal one line that is rewritten, else a line now and then; rates and shares at the
  // end.
  void show(const search::Progress& p);

 private:
  void tell_trouble();
  store::Store* store_;
  bool terminal_ = false;
  bool told_trouble_ = false;
  double next_ = 0;  // seconds: when the next line is due
};

// From now on an interrupt, or the signal that mpirun sends when another process has died, leaves
// one line: what is kept in `store` (a file name, or ""). The process ends as the signal would have
// ended it.
void say_when_ended(const std::string& store, int processes);

}  // namespace stepcast::cli
