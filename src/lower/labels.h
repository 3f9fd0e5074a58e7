// Labels of tasks and tensors, numbered in the order in which they are first used.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace stepcast::lower {

class Labels {
 public:
  // The number of a text; a new one where the text is new.
  std::uint32_t id(const std::string& text);
  const std::vector<std::string>& all() const { return labels_; }

 private:
  std::vector<std::string> labels_;
  std::unordered_map<std::string, std::uint32_t> ids_;
};

}  // namespace stepcast::lower
