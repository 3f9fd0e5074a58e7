#include "fold_classes.h"

#include "stepcast/program/program.h"

namespace stepcast::lower {
namespace {

using program::kNone;

// Dense class numbers, in order of first appearance.
class ClassNumbers {
 public:
  explicit ClassNumbers(std::size_t most) {
    std::size_t size = 16;
    while (size < 2 * most) {
      size *= 2;
    }
    keys_.resize(size);
    values_.assign(size, kNone);
  }
  std::uint32_t number(Colour c) {
    std::size_t i = c & (keys_.size() - 1);
    while (values_[i] != kNone && keys_[i] != c) {
      i = (i + 1) & (keys_.size() - 1);
    }
    if (values_[i] == kNone) {
      keys_[i] = c;
      values_[i] = count_++;
    }
    return values_[i];
  }

 private:
  std::vector<Colour> keys_;
  std::vector<std::uint32_t> values_;
  std::uint32_t count_ = 0;
};

}  // namespace

Classes classes_of(const std::vector<Colour>& colours) {
  ClassNumbers n(colours.size());
  Classes c;
  c.of.reserve(colours.size());
  for (std::uint32_t i = 0; i < colours.size(); ++i) {
    c.of.push_back(n.number(colours[i]));
    if (c.of.back() == c.first.size()) {
      c.first.push_back(i);
    }
  }
  return c;
}

}  // namespace stepcast::lower
