#include "recipe_item.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "stepcast/base/number.h"
#include "stepcast/text/cells.h"

namespace stepcast::interop::launch {

ItemPtr item(Item::Type type, const Origin& origin, std::string text) {
  constexpr std::size_t kMostText = 1000;
  if (text.size() > kMostText && type != Item::Type::object) {
    return item(Item::Type::unknown, origin);
  }
  text.resize(std::min(text.size(), kMostText));
  auto out = std::make_shared<Item>();
  out->type = type;
  out->text = std::move(text);
  out->origin = origin;
  return out;
}

namespace {

constexpr std::size_t kMostItems = 10'000;
constexpr int kDeepestValue = 16;  // objects and lists within each other

// Hands over what an item holds.
void move_held(Item& from, std::vector<ItemPtr>& to) {
  for (ItemPtr& one : from.items) {
    to.push_back(std::move(one));
  }
  for (auto& [name, value] : from.fields) {
    to.push_back(std::move(value));
  }
  from.items.clear();
  from.fields.clear();
}

}  // namespace

Item::~Item() {
  std::vector<ItemPtr> held;
  move_held(*this, held);
  while (!held.empty()) {
    const ItemPtr last = std::move(held.back());
    held.pop_back();
    if (last.use_count() == 1) {
      move_held(*last, held);
    }
  }
}

ItemPtr list_of(std::vector<ItemPtr> items, const Origin& origin) {
  ItemPtr out = item(Item::Type::list, origin);
  for (const ItemPtr& one : items) {
    out->size += one->size;
    out->depth = std::max(out->depth, one->depth + 1);
  }
  if (out->size > kMostItems || out->depth >= kDeepestValue) {
    return item(Item::Type::unknown, origin);
  }
  out->items = std::move(items);
  return out;
}

bool is_dictionary(const Item& of) { return of.type == Item::Type::object && of.text.empty(); }

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
  std::erase_if(to.doubts, [&](const auto& one) { return one.first == name; });
  for (auto& [key, known] : to.fields) {
    if (key == name) {
      known = std::move(value);
      return;
    }
  }
  to.fields.emplace_back(name, std::move(value));
}

void doubt_field(Item& to, const std::string& name, const Doubt& doubt) {
  std::erase_if(to.doubts, [&](const auto& one) { return one.first == name; });
  to.doubts.emplace_back(name, doubt);
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

std::string key_of(const Item& key) {
  if (key.type != Item::Type::list) {
    return key.text;
  }
  std::vector<std::string> parts;
  for (const ItemPtr& one : key.items) {
    parts.push_back(key_of(*one));
  }
  return fmt::format("({})", fmt::join(parts, ", "));
}

ItemPtr element(const Item& of, const Item& key, const Origin& where) {
  ItemPtr out;
  if (of.type == Item::Type::object) {
    out = field_of(of, key_of(key));
  } else if (const auto place = text::number<std::size_t>(key.text);
             of.type == Item::Type::list && place && *place < of.items.size()) {
    out = of.items[*place];
  }
  return out != nullptr ? out : item(Item::Type::unknown, where);
}

namespace {

ItemPtr joined_lists(const Item& a, const std::string& sign, const Item& b, const Origin& where) {
  std::vector<ItemPtr> out;
  const auto times = text::number<std::size_t>(b.text);
  if (sign == "+" && b.type == Item::Type::list) {
    out = a.items;
    out.insert(out.end(), b.items.begin(), b.items.end());
  } else if (sign == "*" && b.type == Item::Type::scalar && !b.quoted && times &&
             (a.items.empty() || *times <= kMostItems / a.items.size())) {
    for (std::size_t n = 0; !a.items.empty() && n < *times; ++n) {
      out.insert(out.end(), a.items.begin(), a.items.end());
    }
  } else {
    return item(Item::Type::unknown, where);
  }
  return list_of(std::move(out), where);
}

}  // namespace

ItemPtr computed(const Item& a, const std::string& sign, const Item& b, const Origin& where) {
  if (a.type == Item::Type::list) {
    return joined_lists(a, sign, b, where);
  }
  const auto x = text::number<std::int64_t>(a.text);
  const auto y = text::number<std::int64_t>(b.text);
  constexpr std::int64_t kMost = 1'000'000'000;
  const auto small = [](const std::optional<std::int64_t>& n) {
    return n && *n > -kMost && *n < kMost;
  };
  if (a.type != Item::Type::scalar || b.type != Item::Type::scalar || a.quoted || b.quoted ||
      !small(x) || !small(y) || (sign == "//" && *y <= 0) || sign == "/") {
    return item(Item::Type::unknown, where);
  }
  const std::int64_t out = sign == "*"   ? *x * *y
                           : sign == "+" ? *x + *y
                           : sign == "-" ? *x - *y
                                         : *x / *y;
  return item(Item::Type::scalar, where, fmt::format("{}", out));
}

namespace {

constexpr std::size_t kMostValues = 200'000;  // values

// torch.bfloat16 as command lines spell it.
std::string name_of(const std::string& path) {
  static const std::map<std::string, std::string> formats = {
      {"torch.float32", "fp32"}, {"torch.float", "fp32"}, {"torch.bfloat16", "bf16"},
      {"torch.float16", "fp16"}, {"torch.half", "fp16"},  {"torch.uint8", "fp8"},
      {"torch.int8", "int8"}};
  const auto found = formats.find(path);
  return found != formats.end() ? found->second : last_part(path);
}

constexpr std::string_view kConfig = ".Config";

// X of an object that X.Config(...) made.
std::string class_of(const Item& of) {
  return of.text.ends_with(kConfig) ? of.text.substr(0, of.text.size() - kConfig.size()) : of.text;
}

Value value_of(const Item& of) {
  Value v;
  v.origin = of.origin;
  if (of.type == Item::Type::list) {
    v.kind = Value::Kind::sequence;
    for (const ItemPtr& one : of.items) {
      v.items.push_back(value_of(*one));
    }
    return v;
  }
  v.kind = Value::Kind::scalar;
  v.scalar = of.type == Item::Type::none     ? "null"
             : of.type == Item::Type::name   ? name_of(of.text)
             : of.type == Item::Type::object ? class_of(of)
                                             : of.text;
  return v;
}

// Lists are known where all of their items are.
bool is_known(const Item& of) {
  return of.type != Item::Type::unknown &&
         (of.type != Item::Type::list ||
          std::all_of(of.items.begin(), of.items.end(),
                      [&](const ItemPtr& one) { return is_known(*one); }));
}

class Flattener {
 public:
  Flattener(std::vector<Setting>& out, std::vector<Setting>& doubts) : out_(out), doubts_(doubts) {}

  void write(const Item& of, const std::string& path) {
    work_ += of.size;
    if (work_ > kMostValues) {
      throw InputError(Fault{of.origin,
                             "the recipe takes too long to evaluate; expected a "
                             "list of settings"});
    }
    if (++depth_ > kDeepestValue) {  // an object that holds itself
      --depth_;
      return;
    }
    if (of.type == Item::Type::object) {
      write_object(of, path);
    } else if (is_known(of)) {
      add(path, of, value_of(of));
      write_items(of, path);
    } else if (!path.empty()) {
      add(path, of, {});
      out_.back().value.kind = Value::Kind::scalar;
      out_.back().open = {"`Python`"};
    }
    --depth_;
  }

 private:
  void add(const std::string& path, const Item& from, Value value) {
    Setting s{canonical(path), path, from.origin, std::move(value), {}};
    s.value.origin = from.origin;
    out_.push_back(std::move(s));
  }

  // What is stated of the objects in a list, below the names of their classes.
  void write_items(const Item& of, const std::string& path) {
    for (const ItemPtr& one : of.items) {
      if (one->type == Item::Type::object && !one->text.empty()) {
        for (const auto& [name, value] : one->fields) {
          write(*value, path + "." + class_of(*one) + "." + name);
        }
      }
    }
  }

  // An object's own value is what it was made of: Config(Llama3Config70B) is Llama3Config70B,
  // from_hf_pretrained("a/b") is a/b, bf16_mixed() is bf16_mixed, whatever is set on it behind. A
  // class with named arguments is these, X.Config(...) is X and these, and a dictionary what is in
  // it.
  void write_object(const Item& of, const std::string& path) {
    const bool from_first = !of.items.empty() && (of.items.front()->type == Item::Type::name ||
                                                  of.items.front()->type == Item::Type::scalar);
    const bool function =
        !of.text.empty() && std::islower(static_cast<unsigned char>(of.text.front())) != 0;
    if (!path.empty() && !of.text.empty() &&
        (from_first || function || of.fields.empty() || of.text.ends_with(kConfig))) {
      Value made;
      made.kind = Value::Kind::scalar;
      made.scalar = from_first ? value_of(*of.items.front()).scalar : class_of(of);
      add(path, of, std::move(made));
    }
    const std::string above = path.empty() ? path : path + ".";
    for (const auto& [name, value] : of.fields) {
      write(*value, above + name);
    }
    for (const auto& [name, doubt] : of.doubts) {
      Value value;
      value.kind = Value::Kind::scalar;
      value.scalar = doubt.off ? "null" : "";
      doubts_.push_back({canonical(above + name), above + name, doubt.origin, value, {}});
    }
  }

  std::vector<Setting>& out_;
  std::vector<Setting>& doubts_;
  int depth_ = 0;
  std::size_t work_ = 0;
};

}  // namespace

void write_settings(const Item& of, std::vector<Setting>& out, std::vector<Setting>& doubts) {
  Flattener(out, doubts).write(of, "");
}

}  // namespace stepcast::interop::launch
