// Calls in a recipe: its own functions, and the few of Python and of other packages that recipes
// use.
#include <algorithm>
#include <cctype>

#include "recipe_evaluator.h"

namespace stepcast::interop::launch {

namespace {

// Another module's method gives its object back.
ItemPtr method(const ItemPtr& on, const std::string& name, const std::vector<ItemPtr>& given,
               const Origin& where) {
  if (is_dictionary(*on) && name == "get" && !given.empty()) {
    const ItemPtr found = field_of(*on, key_of(*given[0]));
    return found != nullptr    ? found
           : on->items.empty() ? given.size() > 1 ? given[1] : item(Item::Type::none, where)
                               : item(Item::Type::unknown, where);
  }
  if (on->type == Item::Type::scalar && name == "lower") {
    ItemPtr out = item(Item::Type::scalar, where, on->text);
    out->quoted = true;
    std::transform(out->text.begin(), out->text.end(), out->text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
  }
  return on->type == Item::Type::object ? on : item(Item::Type::unknown, where);
}

// What getattr or hasattr gives. An attribute that nothing has set may have its class's value;
// the recipe's own default stands for that.
ItemPtr attribute(const std::vector<ItemPtr>& of, bool asks, const Origin& where) {
  ItemPtr found = field_of(*of[0], of[1]->text);
  if (asks) {
    return found != nullptr ? item(Item::Type::scalar, where, "true")
                            : item(Item::Type::unknown, where);
  }
  if (found == nullptr && of.size() > 2 && of[0]->type != Item::Type::unknown) {
    found = of[2];
  }
  return found != nullptr ? found : item(Item::Type::unknown, where);
}

}  // namespace

using Kind = PythonToken::Kind;

ItemPtr Evaluator::updated(const ItemPtr& to, const Arguments& with) {
  bool known = !with.open;
  for (const ItemPtr& other : with.positional) {
    known = known && is_dictionary(*other) && other->items.empty();
    const auto fields = other->fields;  // which may be those of `to`
    for (const auto& [name, value] : fields) {
      put(to, name, value);
    }
  }
  for (const auto& [name, value] : with.named) {
    put(to, name, value);
  }
  if (!known) {  // keys that are not known
    to->items.push_back(item(Item::Type::unknown, to->origin));
  }
  return to;
}

ItemPtr Evaluator::called(const ItemPtr& on, const std::string& path, const Origin& where,
                          Names& names) {
  Arguments arguments;
  auto& [positional, named, open] = arguments;
  ++at_;
  while (!ends() && !is(")")) {
    if (is("*")) {
      unpack(arguments, names);
      at_ += is(")") || ends() ? 0 : 1;
      continue;
    }
    const bool keyword = token().kind == Kind::name && file_->module.tokens[at_ + 1].is("=");
    const std::string name = keyword ? token().text : "";
    at_ += keyword ? 2 : 0;
    ItemPtr value = expression(names);
    if (keyword) {
      named.emplace_back(name, std::move(value));
    } else {
      positional.push_back(std::move(value));
    }
    at_ += is(")") || ends() ? 0 : 1;
  }
  at_ += ends() ? 0 : 1;
  if (on != nullptr) {
    return last_part(path) == "update" && is_dictionary(*on)
               ? updated(on, arguments)
               : method(on, last_part(path), positional, where);
  }
  if (path == "list" && positional.size() == 1) {
    return positional[0]->type == Item::Type::list ? std::make_shared<Item>(*positional[0])
                                                   : item(Item::Type::unknown, where);
  }
  if (path == "dict") {
    return updated(item(Item::Type::object, where), arguments);
  }
  if ((path == "getattr" || path == "hasattr") && positional.size() >= 2) {
    return attribute(positional, path == "hasattr", where);
  }
  if (path == "isinstance" && positional.size() == 2 && positional[1]->text == "str") {
    const bool text = positional[0]->quoted;
    return positional[0]->type == Item::Type::unknown
               ? item(Item::Type::unknown, where)
               : item(Item::Type::scalar, where, text ? "true" : "false");
  }
  if (const Found own = function(path); own.in != nullptr) {
    LoadedModule* const back = file_;
    const std::size_t at = at_;
    ItemPtr out = call(own, arguments);
    file_ = back;
    at_ = at;
    return out != nullptr ? out : item(Item::Type::none, where);
  }
  // A setter of another package sets the attribute that it is named after.
  constexpr std::string_view kSet = "set_";
  if (path.starts_with(kSet) && positional.size() == 2 &&
      positional[0]->type == Item::Type::object) {
    put(positional[0], path.substr(kSet.size()), positional[1]);
    return item(Item::Type::none, where);
  }
  ItemPtr out = item(Item::Type::object, where, last_part(path));
  out->items = std::move(positional);
  out->fields = std::move(named);
  if (open) {
    out->items.push_back(item(Item::Type::unknown, where));
  }
  return out;
}

void Evaluator::unpack(Arguments& to, Names& names) {
  ++at_;
  const bool named = is("*");
  at_ += named ? 1 : 0;
  const ItemPtr value = expression(names);
  work(value->items.size() + value->fields.size());
  if (!named && value->type == Item::Type::list) {
    to.positional.insert(to.positional.end(), value->items.begin(), value->items.end());
  } else if (named && is_dictionary(*value) && value->items.empty()) {
    to.named.insert(to.named.end(), value->fields.begin(), value->fields.end());
  } else {
    to.open = true;
  }
}

}  // namespace stepcast::interop::launch
