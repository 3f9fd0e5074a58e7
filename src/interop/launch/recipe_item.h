// Values of a recipe's Python, and the settings that they come to.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "setting.h"

namespace stepcast::interop::launch {

struct Item;
using ItemPtr = std::shared_ptr<Item>;

// A value of the program; objects are shared, as in Python. A dictionary is an object that nothing
// made.
struct Item {
  enum class Type { unknown, none, scalar, name, list, object };
  Type type = Type::unknown;
  std::string text;  // of a scalar or of a name of another module; of an object: what made it
  std::vector<ItemPtr> items;
  std::vector<std::pair<std::string, ItemPtr>> fields;
  Origin origin;
};

ItemPtr item(Item::Type type, const Origin& origin, std::string text = "");

// nullptr: it has no such field.
ItemPtr field_of(const Item& of, const std::string& name);
void put_field(Item& to, const std::string& name, ItemPtr value);

// The field of a dictionary that a key names.
std::string key_of(const Item& key);
// of[key]
ItemPtr element(const Item& of, const Item& key, const Origin& where);
// Whole numbers; lists that are joined or repeated.
ItemPtr computed(const Item& a, const std::string& sign, const Item& b, const Origin& where);

// The last part of a dotted name.
std::string last_part(const std::string& path);

// Adds a setting for each value below `of`. One that is no literal is an open setting.
void write_settings(const Item& of, std::vector<Setting>& out);

}  // namespace stepcast::interop::launch
