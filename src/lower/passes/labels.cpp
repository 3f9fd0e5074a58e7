#include "labels.h"

namespace stepcast::lower {

program::LabelIndex Labels::id(std::string_view text) {
  const auto place = reinterpret_cast<std::uintptr_t>(text.data()) / sizeof(void*) % kPlaces;
  program::LabelIndex& probable = at_place_[place];
  if (probable < labels_.size() && labels_[probable] == text) {
    return probable;
  }
  const auto [known, fresh] =
      ids_.try_emplace(std::string(text), program::LabelIndex::at(labels_.size()));
  if (fresh) {
    labels_.emplace_back(text);
  }
  return probable = known->second;
}

}  // namespace stepcast::lower
