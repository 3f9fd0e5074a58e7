// Labels of tasks and tensors, numbered in the order in which they are first used.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "stepcast/program/program.h"

namespace stepcast::lower {

class Labels {
 public:
  // The number of a text; a new one where the text is new.
  program::LabelIndex id(const std::string& text);
  const std::vector<std::string>& all() const { return labels_; }

 private:
  std::vector<std::string> labels_;
  std::unordered_map<std::string, program::LabelIndex> ids_;
};

}  // namespace stepcast::lower
