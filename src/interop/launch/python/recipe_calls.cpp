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

// What makes an object: the class or function, of X.Config(...) with X's name (torchtitan), but the
// bare Config of a module such as run.Config (NeMo).
std::string maker_of(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  const std::string last = last_part(path);
  if (last != "Config" || dot == std::string::npos) {
    return last;
  }
  const std::string of = last_part(path.substr(0, dot));
  return std::isupper(static_cast<unsigned char>(of.front())) != 0 ? of + "." + last : last;
}

// isinstance(of, name). A class may have others below it.
ItemPtr instance(const Item& of, const std::string& name, const Origin& where) {
  const bool text = of.type == Item::Type::scalar && of.quoted;
  const bool plain = of.type == Item::Type::none || text;
  const bool is =
      (text && name == "str") || (of.type == Item::Type::object && of.text == last_part(name));
  if (is || plain || (name == "str" && of.type != Item::Type::unknown)) {
    return item(Item::Type::scalar, where, is ? "true" : "false");
  }
  return item(Item::Type::unknown, where);
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

// Megatron-Bridge 0.6.2: training/flex_dispatcher_backend.py:33, utils/cuda_graph.py:81.
bool Evaluator::set_by_package(const std::string& path, const std::vector<ItemPtr>& given,
                               const Origin& where) {
  if (given.empty() || given[0]->type != Item::Type::object) {
    return false;
  }
  const auto set = [&](const char* name, const char* word, bool quoted) {
    const ItemPtr value = item(Item::Type::scalar, where, word);
    value->quoted = quoted;
    put(given[0], name, value);
  };
  constexpr std::string_view kSet = "set_";
  if (path == "set_full_iteration_cuda_graph") {
    set("cuda_graph_impl", "full_iteration", true);
    put(given[0], "cuda_graph_modules", list_of({}, where));
    put(given[0], "cuda_graph_scope", item(Item::Type::none, where));
  } else if (path == "apply_flex_dispatcher_backend" && given.size() == 2) {
    if (given[1]->type == Item::Type::scalar) {
      set("moe_token_dispatcher_type", "flex", true);
      set("moe_shared_expert_overlap", "false", false);
      put(given[0], "moe_flex_dispatcher_backend", given[1]);
    }
  } else if (path == "set_deepseek_v4_pipeline_model_parallel_layout") {
    return true;  // megatron_bridge.cpp lays out its stages
  } else if (path.starts_with(kSet) && given.size() == 2) {
    put(given[0], path.substr(kSet.size()), given[1]);
  } else {
    return false;
  }
  return true;
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
  if (path == "cast" && positional.size() == 2) {  // typing.cast
    return positional[1];
  }
  if (path == "dict") {
    return updated(item(Item::Type::object, where), arguments);
  }
  if ((path == "getattr" || path == "hasattr") && positional.size() >= 2) {
    return attribute(positional, path == "hasattr", where);
  }
  if (path == "isinstance" && positional.size() == 2 && positional[1]->type == Item::Type::name) {
    return instance(*positional[0], positional[1]->text, where);
  }
  if (const Found own = function(path); own.in != nullptr) {
    LoadedModule* const back = file_;
    const std::size_t at = at_;
    ItemPtr out = call(own, arguments);
    file_ = back;
    at_ = at;
    return out != nullptr ? out : item(Item::Type::none, where);
  }
  if (set_by_package(path, positional, where)) {
    return item(Item::Type::none, where);
  }
  ItemPtr out = item(Item::Type::object, where, maker_of(path));
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
