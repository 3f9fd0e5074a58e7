// Labels of tasks and tensors, numbered in the order in which they are first used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stepcast/program/program.h"

namespace stepcast::lower {

class Labels {
 public:
  // The number of a text; a new one where the text is new.
  program::LabelIndex id(std::string_view text);
  const std::vector<std::string>& all() const { return labels_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  // Most texts are literals, asked for again and again: where one lies says which it may be.
  static constexpr std::size_t kPlaces = 64;
  std::array<program::LabelIndex, kPlaces> at_place_{};
  std::vector<std::string> labels_;
  std::unordered_map<std::string, program::LabelIndex, Hash, std::equal_to<>> ids_;
};

}  // namespace stepcast::lower
