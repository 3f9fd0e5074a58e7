#include "fold_classes.h"

#include <utility>

#include "stepcast/program/program.h"

namespace stepcast::lower {
namespace {

using program::kNone;

// Dense class numbers, in order of first appearance. There are few classes of very many members, so
// the table grows with the classes: it stays in the caches, and little is cleared.
class ClassNumbers {
 public:
  ClassNumbers() { make_room(kFirst); }

  std::uint32_t number(Colour c) {
    const std::size_t i = place_of(c);
    if (values_[i] != kNone) {
      return values_[i];
    }
    keys_[i] = c;
    values_[i] = count_++;
    const std::uint32_t out = values_[i];
    if (2 * std::size_t{count_} > keys_.size()) {
      make_room(2 * keys_.size());
    }
    return out;
  }

 private:
  static constexpr std::size_t kFirst = 256;  // a power of two, as all sizes

  std::size_t place_of(Colour c) const {
    std::size_t i = c & (keys_.size() - 1);
    while (values_[i] != kNone && keys_[i] != c) {
      i = (i + 1) & (keys_.size() - 1);
    }
    return i;
  }
  void make_room(std::size_t size) {
    const std::vector<Colour> keys = std::exchange(keys_, std::vector<Colour>(size));
    const auto values = std::exchange(values_, std::vector<std::uint32_t>(size, kNone));
    for (std::size_t k = 0; k < keys.size(); ++k) {
      if (values[k] != kNone) {
        const std::size_t i = place_of(keys[k]);
        keys_[i] = keys[k];
        values_[i] = values[k];
      }
    }
  }

  std::vector<Colour> keys_;
  std::vector<std::uint32_t> values_;
  std::uint32_t count_ = 0;
};

}  // namespace

Classes classes_of(const std::vector<Colour>& colours) {
  ClassNumbers n;
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
