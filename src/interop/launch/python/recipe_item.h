// Values of a recipe's Python, and the settings that they come to.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../options/setting.h"

namespace stepcast::interop::launch {

struct Item;
using ItemPtr = std::shared_ptr<Item>;

// Whether a field is set here depends on a condition that is not known.
struct Doubt {
  Origin origin;
  bool off = false;  // it is set to False or None
};

// A value of the program; objects are shared, as in Python. A dictionary is an object that nothing
// made.
struct Item {
  enum class Type { unknown, none, scalar, name, list, object };

  Item() = default;
  Item(const Item&) = default;
  Item& operator=(const Item&) = default;
  ~Item();  // of what it alone holds, without recursion: a file may nest values deeply

  Type type = Type::unknown;
  std::string text;  // of a scalar or of a name of another module; of an object: what made it
  std::vector<ItemPtr> items;
  std::vector<std::pair<std::string, ItemPtr>> fields;
  std::vector<std::pair<std::string, Doubt>> doubts;
  Origin origin;
  bool quoted = false;   // a text, and no number or truth
  std::size_t size = 1;  // values of a list, those within others counted as often as they occur
  int depth = 0;         // of lists within each other
};

// Not known where the text has more than 1,000 characters.
ItemPtr item(Item::Type type, const Origin& origin, std::string text = "");

// A list; not known where it has more than 10,000 values or lists too deep within each other.
ItemPtr list_of(std::vector<ItemPtr> items, const Origin& origin);

bool is_dictionary(const Item& of);  // an object that nothing made

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

// Notes a doubt, which a later put_field ends.
void doubt_field(Item& to, const std::string& name, const Doubt& doubt);

// Adds a setting for each value below `of`. One that is no literal is an open setting. `doubts`:
// settings that conditions may set, to null (False or None) or to something.
void write_settings(const Item& of, std::vector<Setting>& out, std::vector<Setting>& doubts);

}  // namespace stepcast::interop::launch
