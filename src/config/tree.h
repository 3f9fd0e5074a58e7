// Builders of text::Value trees, for what the option table writes and for schema().
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "stepcast/text/document.h"

namespace stepcast::config::tree {

using text::Value;

Value null();
Value string(std::string text);
Value number(double x);
Value number(std::int64_t x);
Value boolean(bool x);
Value list(std::vector<Value> items);
Value strings(const std::vector<std::string>& items);
template <class N>
Value integers(const std::vector<N>& items) {
  Value v = list({});
  for (const N x : items) {
    v.items.push_back(number(std::int64_t{x}));
  }
  return v;
}
Value map();
void put(Value& map, std::string key, Value value);

// The entry of a map, or nullptr.
Value* find(Value& map, std::string_view key);
// Sets the origin of a value and of everything below it.
void relocate(Value& value, const Origin& where);

std::string to_json(const Value& value);

}  // namespace stepcast::config::tree
