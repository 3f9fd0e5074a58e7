// Values of a recipe: literals, sums, lists, dictionaries, names and what follows them.
#include "recipe_evaluator.h"
#include "recipe_truth.h"

namespace stepcast::interop::launch {

using Kind = PythonToken::Kind;

ItemPtr Evaluator::expression(Names& names) {
  for (;;) {
    const Origin where = token().origin;
    const std::size_t begin = at_;
    skip_to([&] { return is("if") || is("else") || is("for") || is(":"); });
    if (!is("if")) {
      at_ = begin;
      return alternatives(names);
    }
    ++at_;
    const Verdict which = condition(names);
    if (!is("else")) {
      skip_to([] { return false; });
      return item(Item::Type::unknown, where);
    }
    ++at_;
    if (which == Verdict::no) {
      continue;
    }
    const std::size_t otherwise = at_;
    ItemPtr out = item(Item::Type::unknown, where);
    if (which == Verdict::yes) {
      at_ = begin;
      out = alternatives(names);
      at_ = otherwise;
    }
    skip_to([&] { return is("for") || is(":"); });
    return out;
  }
}

ItemPtr Evaluator::alternatives(Names& names) {
  const Origin where = token().origin;
  ItemPtr out = sum(names);
  while (is("or")) {
    ++at_;
    const Verdict filled = truth_of(*out);
    if (filled == Verdict::yes) {
      skip_to([&] { return is("or") || is("if") || is("else") || is("for") || is(":"); });
      continue;
    }
    const ItemPtr other = sum(names);
    out = filled == Verdict::no ? other : item(Item::Type::unknown, where);
  }
  if (!ends() && !is(",") && !is(")") && !is("]") && !is("}") && !is(":") && !is("if") &&
      !is("else") && !is("for")) {
    skip_to([] { return false; });
    return item(Item::Type::unknown, where);
  }
  return out;
}

ItemPtr Evaluator::sum(Names& names) {
  const Origin where = token().origin;
  ItemPtr out = product(names);
  while (is("+") || is("-")) {
    const std::string sign = token().text;
    ++at_;
    out = computed(*out, sign, *product(names), where);
    work(out->items.size());
  }
  return out;
}

ItemPtr Evaluator::product(Names& names) {
  const Origin where = token().origin;
  ItemPtr out = primary(names);
  while (is("*") || is("/")) {
    const std::string sign = token().text;
    ++at_;
    const bool whole = sign == "/" && is("/");
    at_ += whole ? 1 : 0;
    out = computed(*out, whole ? "//" : sign, *primary(names), where);
    work(out->items.size());
  }
  return out;
}

ItemPtr Evaluator::primary(Names& names) {
  const PythonToken& t = token();
  work();
  if (++depth_ > kDeepestRecipe) {
    throw InputError(Fault{t.origin, "the recipe is nested too deeply; expected 16 levels"});
  }
  ItemPtr out;
  if (t.kind == Kind::number || t.kind == Kind::text) {
    std::string text = t.text;
    ++at_;
    while (t.kind == Kind::text && token().kind == Kind::text) {
      text += token().text;
      ++at_;
    }
    out = item(Item::Type::scalar, t.origin, std::move(text));
    out->quoted = t.kind == Kind::text;
  } else if (is("-") && file_->module.tokens[at_ + 1].kind == Kind::number) {
    out = item(Item::Type::scalar, t.origin, "-" + file_->module.tokens[at_ + 1].text);
    at_ += 2;
  } else if (is("(") || is("[")) {
    out = list(names);
  } else if (is("{")) {
    out = dictionary(names);
  } else if (t.kind == Kind::name) {
    out = reference(names);
  } else {
    out = item(Item::Type::unknown, t.origin);
    skip_to([] { return false; });
  }
  --depth_;
  return out;
}

ItemPtr Evaluator::list(Names& names) {
  const Origin where = token().origin;
  std::vector<ItemPtr> out;
  const bool round = is("(");
  bool comma = false;
  ++at_;
  while (!ends() && !is(")") && !is("]")) {
    const bool unpacked = is("*");
    at_ += unpacked ? 1 : 0;
    const std::size_t begin = at_;
    const ItemPtr one = expression(names);
    if (is("for")) {
      return comprehension(begin, names);
    }
    if (unpacked && one->type == Item::Type::list) {
      work(one->items.size());
      out.insert(out.end(), one->items.begin(), one->items.end());
    } else {
      out.push_back(unpacked ? item(Item::Type::unknown, one->origin) : one);
    }
    if (is(",")) {
      comma = true;
      ++at_;
    } else if (!ends() && !is(")") && !is("]")) {
      ++at_;  // a sign that nothing of a list begins with
    }
  }
  at_ += ends() ? 0 : 1;
  return round && !comma && out.size() == 1 ? out.front() : list_of(std::move(out), where);
}

ItemPtr Evaluator::comprehension(std::size_t begin, Names& names) {
  const Origin where = token().origin;
  ++at_;
  const std::string name = token().text;
  at_ += file_->module.tokens[at_ + 1].is("in") ? 2 : 0;
  const ItemPtr among = expression(names);
  const bool read = among->type == Item::Type::list && is("]");
  std::vector<ItemPtr> out;
  skip_to([] { return false; });
  const std::size_t end = at_ + (ends() ? 0 : 1);
  for (std::size_t i = 0; read && i < among->items.size(); ++i) {
    names[name] = among->items[i];
    at_ = begin;
    out.push_back(expression(names));
  }
  at_ = end;
  return read ? list_of(std::move(out), where) : item(Item::Type::unknown, where);
}

ItemPtr Evaluator::global(const std::string& name) {
  LoadedModule* in = file_;
  std::string own = name;
  for (std::size_t hops = 0; in != nullptr && hops < kMostImports; ++hops) {
    const auto found = in->globals.find(own);
    if (found != in->globals.end()) {
      return found->second;
    }
    in = is("(") ? nullptr : behind_import(*in, own);
  }
  for (auto given = given_.rbegin(); given != given_.rend(); ++given) {
    const auto known = (*given)->globals.find(name);
    if (known != (*given)->globals.end()) {
      return known->second;
    }
  }
  return nullptr;
}

ItemPtr Evaluator::dictionary(Names& names) {
  ItemPtr out = item(Item::Type::object, token().origin);
  ++at_;
  while (!ends() && !is("}")) {
    if (is("*")) {
      Arguments unpacked;
      unpack(unpacked, names);
      for (auto& [name, value] : unpacked.named) {
        work(out->fields.size() / kFieldsOfWork);
        put_field(*out, name, value);
      }
      if (unpacked.open || !unpacked.positional.empty()) {
        out->items.push_back(item(Item::Type::unknown, out->origin));
      }
      at_ += is("}") || ends() ? 0 : 1;
      continue;
    }
    const ItemPtr key = expression(names);
    if (is(":")) {
      ++at_;
      put_field(*out, key_of(*key), expression(names));
    } else {
      skip_to([] { return false; });
      out->items.push_back(item(Item::Type::unknown, key->origin));  // keys that are not known
    }
    at_ += is("}") || ends() ? 0 : 1;
  }
  at_ += ends() ? 0 : 1;
  return out;
}

ItemPtr Evaluator::reference(Names& names) {
  const Origin where = token().origin;
  std::string path = token().text;
  ++at_;
  if (path == "True" || path == "False") {
    return item(Item::Type::scalar, where, path == "True" ? "true" : "false");
  }
  if (path == "None") {
    return item(Item::Type::none, where);
  }
  ItemPtr out;
  if (const auto local = names.find(path); local != names.end()) {
    out = local->second;
  } else {
    out = global(path);
  }
  for (;;) {
    if (is(".") && file_->module.tokens[at_ + 1].kind == Kind::name) {
      const std::string& name = file_->module.tokens[at_ + 1].text;
      path += "." + name;
      at_ += 2;
      if (out != nullptr && !is("(")) {
        work(out->fields.size() / kFieldsOfWork);
        const ItemPtr below = field_of(*out, name);
        out = below != nullptr ? below : item(Item::Type::unknown, where);
      }
    } else if (is("(")) {
      out = called(out, path, where, names);
    } else if (is("[")) {
      const ItemPtr key = list(names);
      out = out != nullptr && key->items.size() == 1 ? element(*out, *key->items.front(), where)
                                                     : item(Item::Type::unknown, where);
    } else {
      break;
    }
  }
  return out != nullptr ? out : item(Item::Type::name, where, path);
}

}  // namespace stepcast::interop::launch
