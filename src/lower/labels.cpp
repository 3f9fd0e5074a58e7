#include "labels.h"

namespace stepcast::lower {

program::LabelIndex Labels::id(const std::string& text) {
  const auto [it, fresh] = ids_.try_emplace(text, program::LabelIndex::at(labels_.size()));
  if (fresh) {
    labels_.push_back(text);
  }
  return it->second;
}

}  // namespace stepcast::lower
