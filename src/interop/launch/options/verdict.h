// Truth of a condition in a file that is not run: it may be unknown.
#pragma once

namespace stepcast::interop::launch {

enum class Verdict { no, yes, unknown };

constexpr Verdict verdict(bool holds) { return holds ? Verdict::yes : Verdict::no; }

constexpr Verdict opposite_of(Verdict v) {
  return v == Verdict::unknown ? v : v == Verdict::yes ? Verdict::no : Verdict::yes;
}

// One unknown part leaves the whole unknown, unless the other part decides alone.
constexpr Verdict both(Verdict a, Verdict b) {
  return a == Verdict::no || b == Verdict::no     ? Verdict::no
         : a == Verdict::yes && b == Verdict::yes ? Verdict::yes
                                                  : Verdict::unknown;
}
constexpr Verdict either(Verdict a, Verdict b) {
  return opposite_of(both(opposite_of(a), opposite_of(b)));
}

}  // namespace stepcast::interop::launch
