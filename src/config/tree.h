// Small builders of text::Value trees: what the option table writes, and what schema() is made of.
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
Value map();
void put(Value& map, std::string key, Value value);

// The entry of a map, or nullptr.
Value* find(Value& map, std::string_view key);
// Every origin below becomes `where`.
void relocate(Value& value, const Origin& where);

std::string to_json(const Value& value);

}  // namespace stepcast::config::tree
