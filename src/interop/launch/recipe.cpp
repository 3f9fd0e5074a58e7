#include "recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "python_lexer.h"
#include "stepcast/base/number.h"
#include "stepcast/text/cells.h"

namespace stepcast::interop::launch {
namespace {

using Kind = PythonToken::Kind;

struct Item;
using ItemPtr = std::shared_ptr<Item>;

// A value of the program; objects are shared, as in Python.
struct Item {
  enum class Type { unknown, none, scalar, name, list, object };
  Type type = Type::unknown;
  std::string text;  // of a scalar or of a name of another module; of an object: what made it
  std::vector<ItemPtr> items;
  std::vector<std::pair<std::string, ItemPtr>> fields;
  Origin origin;
};

ItemPtr item(Item::Type type, const Origin& origin, std::string text = "") {
  auto out = std::make_shared<Item>();
  out->type = type;
  out->text = std::move(text);
  out->origin = origin;
  return out;
}

ItemPtr field_of(const Item& of, const std::string& name) {
  for (const auto& [key, value] : of.fields) {
    if (key == name) {
      return value;
    }
  }
  return nullptr;
}

void put_field(Item& to, const std::string& name, ItemPtr value) {
  to.type = to.type == Item::Type::unknown ? Item::Type::object : to.type;
  for (auto& [key, known] : to.fields) {
    if (key == name) {
      known = std::move(value);
      return;
    }
  }
  to.fields.emplace_back(name, std::move(value));
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

enum class Verdict { no, yes, unknown };

Verdict opposite_of(Verdict t) {
  return t == Verdict::unknown ? t : t == Verdict::yes ? Verdict::no : Verdict::yes;
}

struct Line {
  std::size_t begin = 0;  // of its tokens
  std::size_t end = 0;    // its line_end
  int column = 0;
};

struct Source {
  std::vector<PythonToken> tokens;
  std::vector<Line> lines;
};

struct Function {
  const Source* source = nullptr;
  std::size_t line = 0;  // of its def
  std::size_t end = 0;   // line behind its body
};

using Names = std::map<std::string, ItemPtr, std::less<>>;

constexpr int kDeepest = 16;        // calls and brackets within each other
constexpr int kMostWork = 200'000;  // lines and values

class Evaluator {
 public:
  void load(const RecipeFile& file) {
    sources_.push_back(std::make_unique<Source>());
    Source& s = *sources_.back();
    s.tokens = python_tokens(file.text, file.name);
    std::size_t begin = 0;
    for (std::size_t i = 0; i < s.tokens.size(); ++i) {
      if (s.tokens[i].kind == Kind::line_end) {
        s.lines.push_back({begin, i, s.tokens[begin].origin.column});
        begin = i + 1;
      }
    }
    last_.clear();
    for (std::size_t n = 0; n < s.lines.size();) {
      const std::size_t next = behind_block(s, n);
      const PythonToken& first = s.tokens[s.lines[n].begin];
      if (first.is("def") && s.lines[n].begin + 1 < s.lines[n].end) {
        const std::string& name = s.tokens[s.lines[n].begin + 1].text;
        functions_[name] = {&s, n, next};
        last_.push_back(name);
      } else if (next == n + 1) {
        source_ = &s;
        statement(s.lines[n], globals_);
      }
      n = next;
    }
  }

  Recipe run(const std::string& name) {
    const auto found = functions_.find(name);
    if (found == functions_.end()) {
      std::vector<std::string> shown;
      for (const std::string& f : last_) {
        if (!f.starts_with('_')) {
          shown.push_back(f);
        }
      }
      throw InputError(Fault{
          {"recipe", 0, 0},
          name.empty() ? fmt::format("is not stated; expected recipe={}", fmt::join(shown, " | "))
                       : fmt::format("'{}' is no function of the recipes; expected {}", name,
                                     fmt::join(shown, " | "))});
    }
    const ItemPtr result = call(found->second, {}, {});
    if (result != nullptr) {
      flatten(*result, "");
    }
    return std::move(out_);
  }

 private:
  // --- lines

  static std::size_t behind_block(const Source& s, std::size_t line) {
    std::size_t n = line + 1;
    while (n < s.lines.size() && s.lines[n].column > s.lines[line].column) {
      ++n;
    }
    return n;
  }

  const PythonToken& token() const { return source_->tokens[at_]; }
  bool is(std::string_view text) const { return token().is(text); }
  bool ends() const { return token().kind == Kind::line_end || token().kind == Kind::end; }

  void work() {
    if (++work_ > kMostWork) {
      throw InputError(Fault{token().origin,
                             "the recipe takes too long to evaluate; expected a "
                             "list of settings"});
    }
  }

  void not_read(const Line& line, const char* why) {
    out_.remarks.push_back(
        {source_->tokens[line.begin].origin, fmt::format("is not read: {}", why)});
  }

  // Runs lines [from, to) of a block; true when it returned.
  bool block(std::size_t from, std::size_t to, Names& names, ItemPtr& result) {
    const Source& s = *source_;
    bool decided = false;  // a branch of the present if
    for (std::size_t n = from; n < to;) {
      const Line& line = s.lines[n];
      const PythonToken& first = s.tokens[line.begin];
      const std::size_t next = std::min(behind_block(s, n), to);
      if (first.is("if") || first.is("elif") || first.is("else")) {
        Verdict taken = first.is("if") || !decided ? Verdict::yes : Verdict::no;
        decided = first.is("if") ? false : decided;
        if (taken == Verdict::yes && !first.is("else")) {
          at_ = line.begin + 1;
          taken = condition(names);
        }
        const bool whole = is(":") && source_->tokens[at_ + 1].kind == Kind::line_end;
        if (taken == Verdict::unknown || (taken == Verdict::yes && next == n + 1 && !whole)) {
          not_read(line, taken == Verdict::unknown ? "its condition is no literal"
                                                   : "a block on the line of its condition");
        } else if (taken == Verdict::yes) {
          decided = true;
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

  // name = value, a.b.c = value; anything else changes no setting.
  void statement(const Line& line, Names& names) {
    work();
    at_ = line.begin;
    if (token().kind != Kind::name) {
      return;
    }
    std::vector<std::string> path = {token().text};
    ++at_;
    while (is(".") && source_->tokens[at_ + 1].kind == Kind::name) {
      path.push_back(source_->tokens[at_ + 1].text);
      at_ += 2;
    }
    if (is(",")) {  // a, b = f(): what they are is not known
      names[path.front()] = item(Item::Type::unknown, token().origin);
      while (!ends() && !is("=")) {
        if (token().kind == Kind::name) {
          names[token().text] = item(Item::Type::unknown, token().origin);
        }
        ++at_;
      }
      return;
    }
    if (is(":")) {  // an annotation
      while (!ends() && !is("=")) {
        ++at_;
      }
    }
    if (!is("=")) {
      return;
    }
    ++at_;
    const Origin where = source_->tokens[line.begin].origin;
    ItemPtr value = expression(names);
    if (!ends()) {
      value = item(Item::Type::unknown, where);
    }
    if (value->type != Item::Type::object) {  // an object keeps the place where it was made
      value = std::make_shared<Item>(*value);
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
    ItemPtr at = base;
    for (std::size_t i = 1; i + 1 < path.size(); ++i) {
      ItemPtr below = field_of(*at, path[i]);
      if (below == nullptr) {
        below = item(Item::Type::object, where);
        put_field(*at, path[i], below);
      }
      at = below;
    }
    put_field(*at, path.back(), std::move(value));
  }

  // --- conditions

  Verdict condition(Names& names) {
    Verdict out = conjunction(names);
    while (is("or")) {
      ++at_;
      const Verdict other = conjunction(names);
      out = out == Verdict::yes || other == Verdict::yes ? Verdict::yes
            : out == Verdict::no && other == Verdict::no ? Verdict::no
                                                         : Verdict::unknown;
    }
    if (!is(":") && !is("else") && !is(")")) {
      return Verdict::unknown;
    }
    return out;
  }

  Verdict conjunction(Names& names) {
    Verdict out = comparison(names);
    while (is("and")) {
      ++at_;
      const Verdict other = comparison(names);
      out = out == Verdict::no || other == Verdict::no     ? Verdict::no
            : out == Verdict::yes && other == Verdict::yes ? Verdict::yes
                                                           : Verdict::unknown;
    }
    return out;
  }

  static Verdict truth_of(const Item& x) {
    switch (x.type) {
      case Item::Type::none:
        return Verdict::no;
      case Item::Type::scalar:
        return x.text == "false" || x.text == "0" || x.text.empty() ? Verdict::no : Verdict::yes;
      case Item::Type::list:
        return x.items.empty() ? Verdict::no : Verdict::yes;
      default:
        return Verdict::unknown;
    }
  }

  Verdict comparison(Names& names) {
    if (is("not")) {
      ++at_;
      return opposite_of(comparison(names));
    }
    const ItemPtr left = primary(names);
    const bool known = left->type == Item::Type::none || left->type == Item::Type::scalar;
    if (is("is") || is("==") || is("!=")) {
      bool differs = is("!=");
      ++at_;
      if (is("not")) {
        differs = true;
        ++at_;
      }
      const ItemPtr right = primary(names);
      if (!known || (right->type != Item::Type::none && right->type != Item::Type::scalar)) {
        return Verdict::unknown;
      }
      const bool same = left->type == right->type && left->text == right->text;
      return same != differs ? Verdict::yes : Verdict::no;
    }
    if (is("and") || is("or") || is(":") || is("else") || is(")")) {
      return truth_of(*left);
    }
    if (is("in")) {
      ++at_;
      const ItemPtr among = primary(names);
      if (!known || among->type != Item::Type::list) {
        return Verdict::unknown;
      }
      const bool there = std::any_of(
          among->items.begin(), among->items.end(),
          [&](const ItemPtr& x) { return x->type == left->type && x->text == left->text; });
      return there ? Verdict::yes : Verdict::no;
    }
    skip_to([&] { return is("and") || is("or") || is(":") || is("else"); });
    return Verdict::unknown;
  }

  // --- values

  // Up to a token outside brackets that ends a value, or that `stops`.
  template <class F>
  void skip_to(F&& stops) {
    int depth = 0;
    while (!ends()) {
      if (depth == 0 && (stops() || is(",") || is(")") || is("]") || is("}"))) {
        return;
      }
      depth += is("(") || is("[") || is("{") ? 1 : is(")") || is("]") || is("}") ? -1 : 0;
      ++at_;
    }
  }

  ItemPtr expression(Names& names) {
    work();
    const Origin where = token().origin;
    ItemPtr out = primary(names);
    while (is("*") || is("+") || is("-") || is("/")) {
      const std::string sign = token().text;
      ++at_;
      const bool whole = sign == "/" && is("/");
      at_ += whole ? 1 : 0;
      out = computed(*out, whole ? "//" : sign, *primary(names), where);
    }
    if (is("if")) {
      ++at_;
      const Verdict which = condition(names);
      if (!is("else")) {
        skip_to([] { return false; });
        return item(Item::Type::unknown, where);
      }
      ++at_;
      const ItemPtr other = expression(names);
      return which == Verdict::yes  ? out
             : which == Verdict::no ? other
                                    : item(Item::Type::unknown, where);
    }
    if (!ends() && !is(",") && !is(")") && !is("]") && !is("}") && !is(":") && !is("else")) {
      skip_to([] { return false; });
      return item(Item::Type::unknown, where);
    }
    return out;
  }

  static ItemPtr computed(const Item& a, const std::string& sign, const Item& b,
                          const Origin& where) {
    const auto x = text::number<std::int64_t>(a.text);
    const auto y = text::number<std::int64_t>(b.text);
    constexpr std::int64_t kMost = 1'000'000'000;
    const bool small = x && y && std::abs(*x) < kMost && std::abs(*y) < kMost;
    if (a.type != Item::Type::scalar || b.type != Item::Type::scalar || !small ||
        (sign == "//" && *y <= 0) || sign == "/") {
      return item(Item::Type::unknown, where);
    }
    const std::int64_t out = sign == "*"   ? *x * *y
                             : sign == "+" ? *x + *y
                             : sign == "-" ? *x - *y
                                           : *x / *y;
    return item(Item::Type::scalar, where, fmt::format("{}", out));
  }

  ItemPtr primary(Names& names) {
    const PythonToken& t = token();
    if (++depth_ > kDeepest) {
      throw InputError(Fault{t.origin, "the recipe is nested too deeply; expected 16 levels"});
    }
    ItemPtr out;
    if (t.kind == Kind::number || t.kind == Kind::text) {
      out = item(Item::Type::scalar, t.origin, t.text);
      ++at_;
      while (t.kind == Kind::text && token().kind == Kind::text) {
        out->text += token().text;
        ++at_;
      }
    } else if (is("-") && source_->tokens[at_ + 1].kind == Kind::number) {
      out = item(Item::Type::scalar, t.origin, "-" + source_->tokens[at_ + 1].text);
      at_ += 2;
    } else if (is("(") || is("[")) {
      out = list(names);
    } else if (t.kind == Kind::name) {
      out = reference(names);
    } else {
      out = item(Item::Type::unknown, t.origin);
      skip_to([] { return false; });
    }
    --depth_;
    return out;
  }

  ItemPtr list(Names& names) {
    ItemPtr out = item(Item::Type::list, token().origin);
    const bool round = is("(");
    bool comma = false;
    ++at_;
    while (!ends() && !is(")") && !is("]")) {
      out->items.push_back(expression(names));
      if (is(",")) {
        comma = true;
        ++at_;
      } else if (!is(")") && !is("]")) {
        ++at_;  // a sign that nothing of a list begins with
      }
    }
    at_ += ends() ? 0 : 1;
    return round && !comma && out->items.size() == 1 ? out->items.front() : out;
  }

  // name, name.attribute, name(...), and chains of them.
  ItemPtr reference(Names& names) {
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
    } else if (const auto global = globals_.find(path); global != globals_.end()) {
      out = global->second;
    }
    for (;;) {
      if (is(".") && source_->tokens[at_ + 1].kind == Kind::name) {
        const std::string& name = source_->tokens[at_ + 1].text;
        path += "." + name;
        at_ += 2;
        if (out != nullptr && !is("(")) {
          const ItemPtr below = field_of(*out, name);
          out = below != nullptr ? below : item(Item::Type::unknown, where);
        }
      } else if (is("(")) {
        out = called(out, path, where, names);
      } else if (is("[")) {
        list(names);
        out = item(Item::Type::unknown, where);
      } else {
        break;
      }
    }
    return out != nullptr ? out : item(Item::Type::name, where, path);
  }

  // Another module's method gives its object back.
  static ItemPtr method(const ItemPtr& on, const std::string& name, const Origin& where) {
    if (on->type == Item::Type::scalar && name == "lower") {
      ItemPtr out = item(Item::Type::scalar, where, on->text);
      std::transform(out->text.begin(), out->text.end(), out->text.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      return out;
    }
    return on->type == Item::Type::object ? on : item(Item::Type::unknown, where);
  }

  // A call. `on`: what it is a method of.
  ItemPtr called(const ItemPtr& on, const std::string& path, const Origin& where, Names& names) {
    std::vector<ItemPtr> positional;
    std::vector<std::pair<std::string, ItemPtr>> named;
    ++at_;
    while (!ends() && !is(")")) {
      const bool keyword = token().kind == Kind::name && source_->tokens[at_ + 1].is("=");
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
      return method(on, last_part(path), where);
    }
    if (path == "isinstance" && positional.size() == 2 && positional[1]->text == "str") {
      const bool text = positional[0]->type == Item::Type::scalar;
      return positional[0]->type == Item::Type::unknown
                 ? item(Item::Type::unknown, where)
                 : item(Item::Type::scalar, where, text ? "true" : "false");
    }
    if (const auto own = functions_.find(path); own != functions_.end()) {
      const Source* const back = source_;
      const std::size_t at = at_;
      ItemPtr out = call(own->second, positional, named);
      source_ = back;
      at_ = at;
      return out != nullptr ? out : item(Item::Type::none, where);
    }
    ItemPtr out = item(Item::Type::object, where, last_part(path));
    out->items = std::move(positional);
    out->fields = std::move(named);
    return out;
  }

  ItemPtr call(const Function& f, const std::vector<ItemPtr>& positional,
               const std::vector<std::pair<std::string, ItemPtr>>& named) {
    work();
    if (++calls_ > kDeepest) {
      throw InputError(Fault{f.source->tokens[f.source->lines[f.line].begin].origin,
                             "functions call each other too deeply; expected 16 levels"});
    }
    source_ = f.source;
    const Line& def = f.source->lines[f.line];
    Names names;
    at_ = def.begin + 2;
    std::size_t place = 0;
    for (at_ += is("(") ? 1 : 0; !ends() && !is(")");) {
      if (token().kind != Kind::name) {  // *, **
        ++at_;
        continue;
      }
      const std::string name = token().text;
      ++at_;
      skip_to([&] { return is("="); });
      ItemPtr value = item(Item::Type::unknown, token().origin);
      if (is("=")) {
        ++at_;
        value = expression(globals_);
      }
      names[name] = place < positional.size() ? positional[place] : value;
      ++place;
      at_ += is(",") ? 1 : 0;
    }
    for (const auto& [name, value] : named) {
      names[name] = value;
    }
    ItemPtr result;
    block(f.line + 1, f.end, names, result);
    --calls_;
    return result;
  }

  // --- settings

  void add(const std::string& path, const Item& from, Value value) {
    Setting s{canonical(path), path, from.origin, std::move(value), {}};
    s.value.origin = from.origin;
    out_.settings.push_back(std::move(s));
  }

  // torch.bfloat16 as command lines spell it.
  static std::string name_of(const std::string& path) {
    static const std::map<std::string, std::string> formats = {
        {"torch.float32", "fp32"}, {"torch.float", "fp32"}, {"torch.bfloat16", "bf16"},
        {"torch.float16", "fp16"}, {"torch.half", "fp16"},  {"torch.uint8", "fp8"},
        {"torch.int8", "int8"}};
    const auto found = formats.find(path);
    return found != formats.end() ? found->second : last_part(path);
  }

  static Value scalar_value(const Item& of) {
    Value v;
    v.kind = Value::Kind::scalar;
    v.scalar = of.type == Item::Type::none   ? "null"
               : of.type == Item::Type::name ? name_of(of.text)
                                             : of.text;
    return v;
  }

  void flatten(const Item& of, const std::string& path) {
    work();
    if (++depth_ > kDeepest) {  // an object that holds itself
      --depth_;
      return;
    }
    switch (of.type) {
      case Item::Type::unknown:
        if (!path.empty()) {
          add(path, of, {});
          out_.settings.back().value.kind = Value::Kind::scalar;
          out_.settings.back().open = {"`Python`"};
        }
        break;
      case Item::Type::none:
      case Item::Type::scalar:
      case Item::Type::name:
        add(path, of, scalar_value(of));
        break;
      case Item::Type::list: {
        Value v;
        v.kind = Value::Kind::sequence;
        for (const ItemPtr& one : of.items) {
          v.items.push_back(scalar_value(*one));
        }
        add(path, of, std::move(v));
        break;
      }
      case Item::Type::object:
        flatten_object(of, path);
        break;
    }
    --depth_;
  }

  // An object's own value is what it was made of: Config(Llama3Config70B) is Llama3Config70B,
  // from_hf_pretrained("a/b") is a/b, bf16_mixed() is bf16_mixed. A class with named arguments is
  // these.
  void flatten_object(const Item& of, const std::string& path) {
    const bool from_first = !of.items.empty() && (of.items.front()->type == Item::Type::name ||
                                                  of.items.front()->type == Item::Type::scalar);
    if (!path.empty() && !of.text.empty() && (from_first || of.fields.empty())) {
      Value made;
      made.kind = Value::Kind::scalar;
      made.scalar = from_first ? scalar_value(*of.items.front()).scalar : of.text;
      add(path, of, std::move(made));
    }
    for (const auto& [name, value] : of.fields) {
      flatten(*value, path.empty() ? name : path + "." + name);
    }
  }

  std::vector<std::unique_ptr<Source>> sources_;
  std::map<std::string, Function, std::less<>> functions_;
  std::vector<std::string> last_;  // names of the last file's functions
  Names globals_;
  const Source* source_ = nullptr;
  std::size_t at_ = 0;
  int depth_ = 0;
  int calls_ = 0;
  int work_ = 0;
  Recipe out_;
};

}  // namespace

Recipe read_recipe(const std::vector<RecipeFile>& files, const std::string& function) {
  Evaluator evaluator;
  for (const RecipeFile& file : files) {
    evaluator.load(file);
  }
  return evaluator.run(function);
}

}  // namespace stepcast::interop::launch
