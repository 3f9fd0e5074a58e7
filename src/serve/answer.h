#pragma once

#include <string>

namespace stepcast::serve {

struct Answer {
  int status = 200;
  std::string json;
  double milliseconds = 0;  // time that this answer took to compute; 0: it was remembered
};

}  // namespace stepcast::serve
