#include "labels.h"

namespace stepcast::lower {

std::uint32_t Labels::id(const std::string& text) {
  const auto [it, fresh] = ids_.try_emplace(text, static_cast<std::uint32_t>(labels_.size()));
  if (fresh) {
    labels_.push_back(text);
  }
  return it->second;
}

}  // namespace stepcast::lower
