// Conditions of a recipe. Where a part is not known, neither is the whole, unless the other part
// decides.
#include "recipe_evaluator.h"
#include "recipe_truth.h"

namespace stepcast::interop::launch {

Verdict Evaluator::condition(Names& names) {
  Verdict out = conjunction(names);
  while (is("or")) {
    ++at_;
    if (out == Verdict::yes) {
      skip_to([&] { return is("or") || is(":") || is("else"); });
      continue;
    }
    const Verdict other = conjunction(names);
    out = either(out, other);
  }
  if (!is(":") && !is("else") && !is(")")) {
    return Verdict::unknown;
  }
  return out;
}

Verdict Evaluator::conjunction(Names& names) {
  Verdict out = comparison(names);
  while (is("and")) {
    ++at_;
    if (out == Verdict::no) {
      skip_to([&] { return is("and") || is("or") || is(":") || is("else"); });
      continue;
    }
    const Verdict other = comparison(names);
    out = both(out, other);
  }
  return out;
}

Verdict Evaluator::comparison(Names& names) {
  bool opposite = false;
  for (; is("not"); ++at_) {
    opposite = !opposite;
  }
  const Verdict out = relation(names);
  return opposite ? opposite_of(out) : out;
}

Verdict Evaluator::relation(Names& names) {
  const ItemPtr left = sum(names);
  if (is("is") || is("==") || is("!=")) {
    bool differs = is("!=");
    ++at_;
    if (is("not")) {
      differs = true;
      ++at_;
    }
    const Verdict same = equal(*left, *sum(names));
    return differs ? opposite_of(same) : same;
  }
  if (is("and") || is("or") || is(":") || is("else") || is(")")) {
    return truth_of(*left);
  }
  if (is("<") || is(">") || is("<=") || is(">=")) {
    const std::string sign = token().text;
    ++at_;
    return ordered(*left, sign, *sum(names));
  }
  const bool without = is("not") && file_->module.tokens[at_ + 1].is("in");
  if (is("in") || without) {
    at_ += without ? 2 : 1;
    const Verdict there = contains(*sum(names), *left);
    return without ? opposite_of(there) : there;
  }
  skip_to([&] { return is("and") || is("or") || is(":") || is("else"); });
  return Verdict::unknown;
}

}  // namespace stepcast::interop::launch
