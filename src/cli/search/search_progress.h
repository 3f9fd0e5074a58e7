// Progress of a search on standard error.
#pragma once

#include "../output/progress_line.h"
#include "stepcast/search/search.h"

namespace stepcast::cli {

class SearchProgress {
 public:
  explicit SearchProgress(store::Store* store) : line_("search", store) {}
  void show(const search::Progress& p);

 private:
  ProgressLine line_;
};

}  // namespace stepcast::cli
