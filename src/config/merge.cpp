#include "merge.h"

#include <string>
#include <unordered_map>

namespace stepcast::config {

namespace {

// A value alone in its long form; a map as it is.
Value as_map(const Value& value, const std::string& key) {
  if (value.kind == Value::Kind::map) {
    return value;
  }
  Value map = tree::map();
  map.origin = value.origin;
  if (value.kind == Value::Kind::scalar) {
    tree::put(map, key, value);
  }
  return map;
}

}  // namespace

Value merge(const Value& lower, const Value& upper, const Spec& spec) {
  const bool mixed = (lower.kind == Value::Kind::map && upper.kind == Value::Kind::scalar) ||
                     (lower.kind == Value::Kind::scalar && upper.kind == Value::Kind::map);
  if (!spec.short_for.empty() && mixed) {
    return merge(as_map(lower, spec.short_for), as_map(upper, spec.short_for), spec);
  }
  if (!spec.section || upper.kind != Value::Kind::map) {
    return upper;
  }
  if (spec.named && upper.find("use") != nullptr) {
    return upper;
  }
  Value out = lower;
  if (lower.kind != Value::Kind::map) {
    if (!spec.named || lower.kind != Value::Kind::scalar) {
      return upper;
    }
    out = as_map(lower, "use");
  }
  out.origin = upper.origin;
  // By number: a hostile file has 200,000 keys, and entries move while others are added.
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < out.entries.size(); ++i) {
    places.emplace(out.entries[i].key, i);
  }
  for (const auto& entry : upper.entries) {
    const auto [at, fresh] = places.emplace(entry.key, out.entries.size());
    if (fresh) {
      out.entries.push_back(entry);
      continue;
    }
    const Spec* child = spec.child(entry.key);
    Value& below = out.entries[at->second].value;
    below = child != nullptr ? merge(below, entry.value, *child) : entry.value;
  }
  return out;
}

void set_path(Value& doc, const std::string& path, Value value, const Spec& root) {
  Value* at = &doc;
  const Spec* spec = &root;
  std::size_t begin = 0;
  while (true) {
    const std::size_t dot = path.find('.', begin);
    const std::string key = path.substr(begin, dot == std::string::npos ? dot : dot - begin);
    spec = spec != nullptr ? spec->child(key) : nullptr;
    if (at->kind != Value::Kind::map) {
      at->kind = Value::Kind::map;
    }
    Value* next = tree::find(*at, key);
    if (next == nullptr) {
      Value fresh = tree::map();
      fresh.origin = value.origin;
      at->entries.push_back({key, value.origin, std::move(fresh)});
      next = &at->entries.back().value;
    }
    if (dot == std::string::npos) {
      *next = std::move(value);
      return;
    }
    if (next->kind != Value::Kind::map || (spec != nullptr && spec->one_of)) {
      // A bare name becomes {use: NAME}; a word gives way to a map such as {every: 2}.
      const std::string word = spec == nullptr ? "" : spec->named ? "use" : spec->short_for;
      *next = !word.empty() ? as_map(*next, word) : tree::map();
      next->origin = value.origin;
    }
    at = next;
    begin = dot + 1;
  }
}

}  // namespace stepcast::config
