// Lines of a recipe: assignments, blocks under conditions, returns.
#include <fmt/format.h>

#include <algorithm>

#include "recipe_evaluator.h"

namespace stepcast::interop::launch {

namespace {

constexpr std::size_t kMostWork = 200'000;  // lines and values

}  // namespace

using Kind = PythonToken::Kind;

void Evaluator::work(std::size_t values) {
  work_ += values;
  if (work_ > kMostWork) {
    throw InputError(Fault{token().origin,
                           "the recipe takes too long to evaluate; expected a "
                           "list of settings"});
  }
}

void Evaluator::not_read(const PythonLine& line, const char* why) {
  out_.remarks.push_back(
      {file_->module.tokens[line.begin].origin, fmt::format("is not read: {}", why)});
}

bool Evaluator::block(std::size_t from, std::size_t to, Names& names, ItemPtr& result) {
  const PythonModule& s = file_->module;
  Verdict decided = Verdict::no;  // whether a branch of the present if was taken
  for (std::size_t n = from; n < to;) {
    const PythonLine& line = s.lines[n];
    const PythonToken& first = s.tokens[line.begin];
    const std::size_t next = std::min(behind_block(s, n), to);
    if (first.is("if") || first.is("elif") || first.is("else")) {
      decided = first.is("if") ? Verdict::no : decided;
      Verdict taken = opposite_of(decided);
      at_ = line.begin + 1;
      if (taken != Verdict::no && !first.is("else")) {
        taken = both(taken, condition(names));
      }
      const bool whole = is(":") && file_->module.tokens[at_ + 1].kind == Kind::line_end;
      decided = either(decided, taken);
      if (taken == Verdict::unknown && (!whole || !doubt(n + 1, next, names))) {
        not_read(line, "its condition is no literal");
      } else if (taken == Verdict::yes && next == n + 1 && !whole) {
        not_read(line, "a block on the line of its condition");
      } else if (taken == Verdict::yes) {
        if (block(n + 1, next, names, result)) {
          return true;
        }
      }
    } else if (first.is("return")) {
      at_ = line.begin + 1;
      result = ends() ? nullptr : expression(names);
      return true;
    } else if (next > n + 1) {
      not_read(line, "loops and other blocks");
    } else {
      statement(line, names);
    }
    n = next;
  }
  return false;
}

bool Evaluator::doubt(std::size_t from, std::size_t to, Names& names) {
  bool sets = true;
  for (std::size_t n = from; n < to; ++n) {
    work();
    const PythonLine& line = file_->module.lines[n];
    at_ = line.begin;
    if (is("if") || is("elif") || is("else") || is("raise") || is("pass") ||
        token().kind == Kind::text) {
      continue;
    }
    const Origin where = token().origin;
    const std::vector<std::string> to_set = path();
    const auto base = names.find(to_set.front());
    const bool local = to_set.size() == 1;
    const bool known = local || (base != names.end() && base->second != nullptr &&
                                 base->second->type == Item::Type::object);
    if (!is("=") || !known) {
      sets = false;
    } else if (local) {
      names[to_set.front()] = item(Item::Type::unknown, where);
    } else {
      const PythonToken& value = file_->module.tokens[at_ + 1];
      const ItemPtr of = holder(base->second, to_set, where);
      work(1 + of->doubts.size() / kFieldsOfWork);
      doubt_field(*of, to_set.back(), {where, value.is("False") || value.is("None")});
    }
  }
  return sets;
}

std::vector<std::string> Evaluator::path() {
  std::vector<std::string> out = {token().text};
  ++at_;
  while (is(".") && file_->module.tokens[at_ + 1].kind == Kind::name) {
    out.push_back(file_->module.tokens[at_ + 1].text);
    at_ += 2;
  }
  return out;
}

void Evaluator::statement(const PythonLine& line, Names& names) {
  work();
  at_ = line.begin;
  if (token().kind != Kind::name) {
    return;
  }
  const std::vector<std::string> path = this->path();
  if (is("(")) {  // what is called may set attributes of what it is given
    at_ = line.begin;
    const ItemPtr made = expression(names);
    const bool of_other_package = path.size() == 1 && made->type == Item::Type::object &&
                                  !made->items.empty() &&
                                  made->items.front()->type == Item::Type::object;
    if (of_other_package) {
      not_read(line, "what a function of another file sets");
    }
    return;
  }
  if (is(",")) {
    several(line, names);
    return;
  }
  if (is("[")) {
    put_element(line, path, names);
    return;
  }
  if (is(":")) {  // an annotation
    while (!ends() && !is("=")) {
      ++at_;
    }
  }
  const bool changes = is("+=") || is("-=") || is("*=") || is("/=");
  if (!is("=") && !changes) {
    if (path.front() == "raise") {
      not_read(line, "an exception");
    }
    return;
  }
  const std::string sign = token().text.substr(0, 1);
  ++at_;
  const Origin where = token_of(line).origin;
  ItemPtr value = expression(names);
  if (!ends()) {
    value = item(Item::Type::unknown, where);
  }
  if (changes) {
    const ItemPtr before = known(path, names);
    value = before != nullptr ? computed(*before, sign, *value, where)
                              : item(Item::Type::unknown, where);
    work(value->items.size());
  }
  assign(path, std::move(value), where, names);
}

void Evaluator::put(const ItemPtr& to, const std::string& name, ItemPtr value) {
  work(1 + to->fields.size() / kFieldsOfWork);
  changed_.push_back(to);
  put_field(*to, name, std::move(value));
}

ItemPtr Evaluator::known(const std::vector<std::string>& path, const Names& names) const {
  const auto base = names.find(path.front());
  ItemPtr at = base != names.end() ? base->second : nullptr;
  for (std::size_t i = 1; at != nullptr && i < path.size(); ++i) {
    at = field_of(*at, path[i]);
  }
  return at;
}

void Evaluator::assign(const std::vector<std::string>& path, ItemPtr value, const Origin& where,
                       Names& names) {
  if (value->type != Item::Type::object) {  // an object keeps the place where it was made
    value = std::make_shared<Item>(*value);
    work(value->items.size());
    value->origin = where;
  }
  if (path.size() == 1) {
    names[path.front()] = std::move(value);
    return;
  }
  ItemPtr& base = names[path.front()];
  if (base == nullptr) {
    base = item(Item::Type::object, where);
  }
  put(holder(base, path, where), path.back(), std::move(value));
}

ItemPtr Evaluator::holder(ItemPtr at, const std::vector<std::string>& path, const Origin& where) {
  for (std::size_t i = 1; i + 1 < path.size(); ++i) {
    ItemPtr below = field_of(*at, path[i]);
    if (below == nullptr) {
      below = item(Item::Type::object, where);
      put(at, path[i], below);
    }
    at = below;
  }
  return at;
}

void Evaluator::put_element(const PythonLine& line, const std::vector<std::string>& path,
                            Names& names) {
  const ItemPtr of = known(path, names);
  const ItemPtr key = list(names);
  if (!is("=")) {
    return;
  }
  if (of == nullptr || of->type != Item::Type::object || key->items.size() != 1) {
    not_read(line, "a part of a list is set");
    return;
  }
  ++at_;
  ItemPtr value = expression(names);
  put(of, key_of(*key->items.front()), ends() ? value : item(Item::Type::unknown, token().origin));
}

void Evaluator::several(const PythonLine& line, Names& names) {
  std::vector<std::vector<std::string>> targets;
  bool fresh = true;
  for (at_ = line.begin; !ends() && !is("="); ++at_) {
    if (token().kind == Kind::name && fresh) {
      targets.push_back({token().text});
    } else if (token().kind == Kind::name) {
      targets.back().push_back(token().text);
    }
    fresh = !is(".");
  }
  if (ends()) {
    return;
  }
  ++at_;
  const Origin where = token_of(line).origin;
  const ItemPtr value = expression(names);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const bool list = value->type == Item::Type::list && value->items.size() == targets.size();
    const bool made = value->type == Item::Type::object && !value->text.empty();
    assign(targets[i],
           list   ? value->items[i]
           : made ? item(Item::Type::object, where, value->text)
                  : item(Item::Type::unknown, where),
           where, names);
  }
}

}  // namespace stepcast::interop::launch
