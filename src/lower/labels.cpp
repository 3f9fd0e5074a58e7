#include "labels.h"

namespace stepcast::lower {

program::LabelIndex Labels::id(std::string_view text) {
  const auto known = ids_.find(text);
  if (known != ids_.end()) {
    return known->second;
  }
  const auto id = program::LabelIndex::at(labels_.size());
  labels_.emplace_back(text);
  ids_.emplace(text, id);
  return id;
}

}  // namespace stepcast::lower
