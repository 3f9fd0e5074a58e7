#include "recipe_truth.h"

#include <algorithm>
#include <cstdint>

#include "stepcast/text/cells.h"

namespace stepcast::interop::launch {
namespace {

bool simple(const Item& x) { return x.type == Item::Type::none || x.type == Item::Type::scalar; }

}  // namespace

Verdict truth_of(const Item& x) {
  switch (x.type) {
    case Item::Type::none:
      return Verdict::no;
    case Item::Type::scalar:
      return x.text.empty() || (!x.quoted && (x.text == "false" || x.text == "0")) ? Verdict::no
                                                                                   : Verdict::yes;
    case Item::Type::list:
      return x.items.empty() ? Verdict::no : Verdict::yes;
    default:
      return Verdict::unknown;
  }
}

Verdict equal(const Item& a, const Item& b) {
  if (a.type == Item::Type::unknown || b.type == Item::Type::unknown) {
    return Verdict::unknown;
  }
  if (simple(a) && simple(b)) {
    return a.type == b.type && a.quoted == b.quoted && a.text == b.text ? Verdict::yes
                                                                        : Verdict::no;
  }
  const bool none = a.type == Item::Type::none || b.type == Item::Type::none;
  return none ? Verdict::no : Verdict::unknown;
}

Verdict ordered(const Item& a, const std::string& sign, const Item& b) {
  const auto x = text::number<std::int64_t>(a.text);
  const auto y = text::number<std::int64_t>(b.text);
  const bool numbers = a.type == Item::Type::scalar && b.type == Item::Type::scalar && !a.quoted &&
                       !b.quoted && x && y;
  if (!numbers) {
    return Verdict::unknown;
  }
  const bool holds = sign == "<"    ? *x < *y
                     : sign == ">"  ? *x > *y
                     : sign == "<=" ? *x <= *y
                                    : *x >= *y;
  return holds ? Verdict::yes : Verdict::no;
}

Verdict contains(const Item& among, const Item& x) {
  const bool known = simple(x) || (x.type == Item::Type::list &&
                                   std::all_of(x.items.begin(), x.items.end(),
                                               [](const ItemPtr& one) { return simple(*one); }));
  if (known && is_dictionary(among)) {
    return field_of(among, key_of(x)) != nullptr ? Verdict::yes
           : among.items.empty()                 ? Verdict::no
                                                 : Verdict::unknown;
  }
  if (!known || among.type != Item::Type::list) {
    return Verdict::unknown;
  }
  Verdict out = Verdict::no;
  for (const ItemPtr& one : among.items) {
    const Verdict same = equal(*one, x);
    out = same == Verdict::yes ? same : out == Verdict::no ? same : out;
  }
  return out;
}

}  // namespace stepcast::interop::launch
