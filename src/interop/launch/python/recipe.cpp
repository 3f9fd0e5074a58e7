#include "recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "recipe_item.h"
#include "recipe_module.h"
#include "stepcast/base/number.h"
#include "stepcast/text/cells.h"

namespace stepcast::interop::launch {
namespace {

using Kind = PythonToken::Kind;

enum class Verdict { no, yes, unknown };

Verdict opposite_of(Verdict t) {
  return t == Verdict::unknown ? t : t == Verdict::yes ? Verdict::no : Verdict::yes;
}

using Names = std::map<std::string, ItemPtr, std::less<>>;

constexpr int kDeepest = 16;                // calls and brackets within each other
constexpr std::size_t kMostWork = 200'000;  // lines and values
constexpr std::size_t kMostImports = 64;
constexpr std::size_t kFieldsOfWork = 32;  // that are searched, of a value's work
constexpr std::size_t kTokensOfWork = 16;  // that are skipped

// A file, and what its lines outside functions made.
struct Loaded {
  PythonModule module;
  Names globals;
};

// Of what a recipe imports from folders of recipes, that which is part of it: other recipes, what
// they have in common (_pretrain_common, set_pipeline_layout), and constants. Classes and the
// precisions, optimizers and buffers that a recipe names are known by their names.
bool belongs_to_recipes(const PythonImport& import) {
  const std::string& name = import.name;
  const bool constant =
      std::none_of(name.begin(), name.end(), [](unsigned char c) { return std::islower(c) != 0; });
  const bool here = import.dots > 0 || import.module.find("recipes") != std::string::npos;
  return here && (constant || name.starts_with('_') || name.starts_with("set_") ||
                  name.ends_with("_config"));
}

class Evaluator {
 public:
  Evaluator() = default;
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;
  ~Evaluator() {  // objects that hold each other
    for (const ItemPtr& one : changed_) {
      one->fields.clear();
    }
  }

  Loaded& load(const RecipeFile& file) {
    loaded_.push_back(std::make_unique<Loaded>());
    Loaded& out = *loaded_.back();
    out.module = parse_module(file);
    Loaded* const back = file_;
    const std::size_t at = at_;
    file_ = &out;
    for (const std::size_t line : out.module.statements) {
      statement(out.module.lines[line], out.globals);
    }
    file_ = back;
    at_ = at;
    return out;
  }

  // A file of the user's: later ones see its functions.
  void load_given(const RecipeFile& file) {
    given_.push_back(&load(file));
    std::error_code ignored;
    imports_[std::filesystem::absolute(file.name, ignored).lexically_normal().string()] =
        given_.back();
  }

  Recipe run(const std::string& name) {
    file_ = given_.back();
    const auto found = function(name);
    if (found.in == nullptr) {
      std::vector<std::string> shown;
      for (const std::string& f : file_->module.order) {
        if (!f.starts_with('_')) {
          shown.push_back(f);
        }
      }
      for (const auto& [known, import] : file_->module.imports) {
        if (shown.empty() && known.ends_with("_config")) {
          shown.push_back(known);
        }
      }
      throw InputError(Fault{
          {"recipe", 0, 0},
          name.empty() ? fmt::format("is not stated; expected recipe={}", fmt::join(shown, " | "))
                       : fmt::format("'{}' is no function of the recipes; expected {}", name,
                                     fmt::join(shown, " | "))});
    }
    const ItemPtr result = call(found, {});
    if (result != nullptr) {
      write_settings(*result, out_.settings);
    }
    return std::move(out_);
  }

 private:
  // --- lines

  struct Arguments {
    std::vector<ItemPtr> positional;
    std::vector<std::pair<std::string, ItemPtr>> named;
    bool open = false;  // there are others, which are not known
  };

  struct Found {
    Loaded* in = nullptr;
    PythonFunction function;
  };

  // A function by the name that the present file has for it: its own, one that it imports, else
  // one of the files that were given.
  Found function(const std::string& name) {
    Loaded* in = file_;
    std::string own = name;
    for (std::size_t hops = 0; in != nullptr && hops < kMostImports; ++hops) {
      const auto found = in->module.functions.find(own);
      if (found != in->module.functions.end()) {
        return {in, found->second};
      }
      in = behind_import(*in, own);
    }
    for (auto given = given_.rbegin(); given != given_.rend(); ++given) {
      const auto known = (*given)->module.functions.find(name);
      if (known != (*given)->module.functions.end()) {
        return {*given, known->second};
      }
    }
    return {};
  }

  // The file from which `in` imports a name, which becomes that file's own; nullptr: none.
  Loaded* behind_import(const Loaded& in, std::string& name) {
    const auto found = in.module.imports.find(name);
    if (found == in.module.imports.end() || !belongs_to_recipes(found->second)) {
      return nullptr;
    }
    name = found->second.name;
    return imported(found->second, in);
  }

  // The file that another one imports; nullptr: there is none, or it is being loaded.
  Loaded* imported(const PythonImport& import, const Loaded& by) {
    const std::optional<RecipeFile> file = imported_file(import, by.module.name);
    if (!file) {
      return nullptr;
    }
    const auto [at, fresh] = imports_.try_emplace(file->name, nullptr);
    if (fresh && imports_.size() <= kMostImports) {
      at->second = &load(*file);
    }
    return at->second;
  }

  const PythonToken& token() const { return file_->module.tokens[at_]; }
  const PythonToken& token_of(const PythonLine& line) const {
    return file_->module.tokens[line.begin];
  }
  bool is(std::string_view text) const { return token().is(text); }
  bool ends() const { return token().kind == Kind::line_end || token().kind == Kind::end; }

  void work(std::size_t values = 1) {
    work_ += values;
    if (work_ > kMostWork) {
      throw InputError(Fault{token().origin,
                             "the recipe takes too long to evaluate; expected a "
                             "list of settings"});
    }
  }

  void not_read(const PythonLine& line, const char* why) {
    out_.remarks.push_back(
        {file_->module.tokens[line.begin].origin, fmt::format("is not read: {}", why)});
  }

  // Runs lines [from, to) of a block; true when it returned.
  bool block(std::size_t from, std::size_t to, Names& names, ItemPtr& result) {
    const PythonModule& s = file_->module;
    bool decided = false;  // a branch of the present if
    for (std::size_t n = from; n < to;) {
      const PythonLine& line = s.lines[n];
      const PythonToken& first = s.tokens[line.begin];
      const std::size_t next = std::min(behind_block(s, n), to);
      if (first.is("if") || first.is("elif") || first.is("else")) {
        Verdict taken = first.is("if") || !decided ? Verdict::yes : Verdict::no;
        decided = first.is("if") ? false : decided;
        if (taken == Verdict::yes && !first.is("else")) {
          at_ = line.begin + 1;
          taken = condition(names);
        }
        const bool whole = is(":") && file_->module.tokens[at_ + 1].kind == Kind::line_end;
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
  void statement(const PythonLine& line, Names& names) {
    work();
    at_ = line.begin;
    if (token().kind != Kind::name) {
      return;
    }
    std::vector<std::string> path = {token().text};
    ++at_;
    while (is(".") && file_->module.tokens[at_ + 1].kind == Kind::name) {
      path.push_back(file_->module.tokens[at_ + 1].text);
      at_ += 2;
    }
    if (is("(")) {  // what is called may set attributes of what it is given
      at_ = line.begin;
      expression(names);
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

  // Sets a field of an object that the program may hold elsewhere: of each circle of objects one
  // was made so.
  void put(const ItemPtr& to, const std::string& name, ItemPtr value) {
    work(1 + to->fields.size() / kFieldsOfWork);
    changed_.push_back(to);
    put_field(*to, name, std::move(value));
  }

  // What a path of names and attributes holds; nullptr: nothing has set it.
  ItemPtr known(const std::vector<std::string>& path, const Names& names) const {
    const auto base = names.find(path.front());
    ItemPtr at = base != names.end() ? base->second : nullptr;
    for (std::size_t i = 1; at != nullptr && i < path.size(); ++i) {
      at = field_of(*at, path[i]);
    }
    return at;
  }

  void assign(const std::vector<std::string>& path, ItemPtr value, const Origin& where,
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
    ItemPtr at = base;
    for (std::size_t i = 1; i + 1 < path.size(); ++i) {
      ItemPtr below = field_of(*at, path[i]);
      if (below == nullptr) {
        below = item(Item::Type::object, where);
        put(at, path[i], below);
      }
      at = below;
    }
    put(at, path.back(), std::move(value));
  }

  // a.b[key] = value
  void put_element(const PythonLine& line, const std::vector<std::string>& path, Names& names) {
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
    put(of, key_of(*key->items.front()),
        ends() ? value : item(Item::Type::unknown, token().origin));
  }

  // a, b.c = f(): the parts of a list, or of what a function of another package makes.
  void several(const PythonLine& line, Names& names) {
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

  // --- conditions

  Verdict condition(Names& names) {
    Verdict out = conjunction(names);
    while (is("or")) {
      ++at_;
      if (out == Verdict::yes) {
        skip_to([&] { return is("or") || is(":") || is("else"); });
        continue;
      }
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
      if (out == Verdict::no) {
        skip_to([&] { return is("and") || is("or") || is(":") || is("else"); });
        continue;
      }
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
        return x.text.empty() || (!x.quoted && (x.text == "false" || x.text == "0")) ? Verdict::no
                                                                                     : Verdict::yes;
      case Item::Type::list:
        return x.items.empty() ? Verdict::no : Verdict::yes;
      default:
        return Verdict::unknown;
    }
  }

  static bool simple(const Item& x) {
    return x.type == Item::Type::none || x.type == Item::Type::scalar;
  }

  static Verdict equal(const Item& a, const Item& b) {
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

  // What is in a list, or among the keys of a dictionary of which every key is known.
  static Verdict contains(const Item& among, const Item& x) {
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

  Verdict comparison(Names& names) {
    bool opposite = false;
    for (; is("not"); ++at_) {
      opposite = !opposite;
    }
    const Verdict out = relation(names);
    return opposite ? opposite_of(out) : out;
  }

  Verdict relation(Names& names) {
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
    const bool without = is("not") && file_->module.tokens[at_ + 1].is("in");
    if (is("in") || without) {
      at_ += without ? 2 : 1;
      const Verdict there = contains(*sum(names), *left);
      return without ? opposite_of(there) : there;
    }
    skip_to([&] { return is("and") || is("or") || is(":") || is("else"); });
    return Verdict::unknown;
  }

  // --- values

  // Up to a token outside brackets that ends a value, or that `stops`.
  template <class F>
  void skip_to(F&& stops) {
    int depth = 0;
    for (std::size_t n = 1; !ends(); ++n) {
      work(n % kTokensOfWork == 0 ? 1 : 0);
      if (depth == 0 && (stops() || is(",") || is(")") || is("]") || is("}"))) {
        return;
      }
      depth += is("(") || is("[") || is("{") ? 1 : is(")") || is("]") || is("}") ? -1 : 0;
      ++at_;
    }
  }

  // value, or value if condition else value, of which only the one that counts is evaluated.
  ItemPtr expression(Names& names) {
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

  // value or value: the first that is not empty.
  ItemPtr alternatives(Names& names) {
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

  ItemPtr sum(Names& names) {
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

  ItemPtr product(Names& names) {
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

  ItemPtr primary(Names& names) {
    const PythonToken& t = token();
    work();
    if (++depth_ > kDeepest) {
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

  ItemPtr list(Names& names) {
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

  // [value for name in list], of which `begin` is the value's first token.
  ItemPtr comprehension(std::size_t begin, Names& names) {
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

  // A value that a file's lines outside functions made; nullptr: there is none of this name.
  ItemPtr global(const std::string& name) {
    Loaded* in = file_;
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

  // {a: b, **c}; what is unpacked into it may not be known, and a set is not.
  ItemPtr dictionary(Names& names) {
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

  // name, name.attribute, name(...), name[...], and chains of them.
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

  static bool is_dictionary(const Item& x) {
    return x.type == Item::Type::object && x.text.empty();
  }

  // A dictionary with the parts of others.
  ItemPtr updated(const ItemPtr& to, const Arguments& with) {
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

  // Another module's method gives its object back.
  static ItemPtr method(const ItemPtr& on, const std::string& name,
                        const std::vector<ItemPtr>& given, const Origin& where) {
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
  static ItemPtr attribute(const std::vector<ItemPtr>& of, bool asks, const Origin& where) {
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

  // A call. `on`: what it is a method of.
  ItemPtr called(const ItemPtr& on, const std::string& path, const Origin& where, Names& names) {
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
      Loaded* const back = file_;
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

  // *list, **dictionary
  void unpack(Arguments& to, Names& names) {
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

  ItemPtr call(const Found& f, const Arguments& arguments) {
    const auto& [positional, named, open] = arguments;
    work();
    file_ = f.in;
    const PythonLine& def = file_->module.lines[f.function.line];
    if (++calls_ > kDeepest) {
      throw InputError(
          Fault{token_of(def).origin, "functions call each other too deeply; expected 16 levels"});
    }
    Names names;
    at_ = def.begin + 2;
    std::size_t place = 0;
    int stars = 0;              // ahead of the present parameter
    bool by_name_only = false;  // what comes behind * or *rest
    for (at_ += is("(") ? 1 : 0; !ends() && !is(")");) {
      if (token().kind != Kind::name) {
        stars = is("*") ? stars + 1 : 0;
        by_name_only = by_name_only || stars > 0;
        ++at_;
        continue;
      }
      const std::string name = token().text;
      ++at_;
      skip_to([&] { return is("="); });
      ItemPtr value = item(Item::Type::unknown, token().origin);
      if (stars == 1 && !open) {
        const std::size_t used = std::min(place, positional.size());
        value = list_of({positional.begin() + static_cast<std::ptrdiff_t>(used), positional.end()},
                        token().origin);
      } else if (stars == 2 && !open) {
        value = item(Item::Type::object, token().origin);
        for (const auto& [other, given] : named) {
          if (!names.contains(other)) {
            put_field(*value, other, given);
          }
        }
      } else if (is("=")) {
        ++at_;
        if (!open) {
          value = expression(file_->globals);
        } else {
          skip_to([] { return false; });
        }
      }
      names[name] = place < positional.size() && !by_name_only ? positional[place] : value;
      ++place;
      stars = 0;
      at_ += is(",") ? 1 : 0;
    }
    for (const auto& [name, value] : named) {
      names[name] = value;
    }
    ItemPtr result;
    block(f.function.line + 1, f.function.end, names, result);
    --calls_;
    return result;
  }

  std::vector<std::unique_ptr<Loaded>> loaded_;
  std::vector<Loaded*> given_;
  std::map<std::string, Loaded*> imports_;  // by the file's name
  Loaded* file_ = nullptr;                  // whose lines are evaluated
  std::size_t at_ = 0;
  int depth_ = 0;
  int calls_ = 0;
  std::size_t work_ = 0;
  std::vector<ItemPtr> changed_;
  Recipe out_;
};

}  // namespace

Recipe read_recipe(const std::vector<RecipeFile>& files, const std::string& function) {
  Evaluator evaluator;
  for (const RecipeFile& file : files) {
    evaluator.load_given(file);
  }
  return evaluator.run(function);
}

}  // namespace stepcast::interop::launch
