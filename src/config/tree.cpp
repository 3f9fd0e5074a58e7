#include "tree.h"

#include <fmt/core.h>

namespace stepcast::config::tree {

Value null() { return {}; }

Value string(std::string text) {
  Value v;
  v.kind = Value::Kind::scalar;
  v.scalar = std::move(text);
  v.quoted = true;
  return v;
}

namespace {
Value bare(std::string text) {
  Value v = string(std::move(text));
  v.quoted = false;
  return v;
}
}  // namespace

// fmt prints the shortest text that reads back as the same double.
Value number(double x) { return bare(fmt::format("{}", x)); }
Value number(std::int64_t x) { return bare(fmt::format("{}", x)); }
Value boolean(bool x) { return bare(x ? "true" : "false"); }

Value list(std::vector<Value> items) {
  Value v;
  v.kind = Value::Kind::sequence;
  v.items = std::move(items);
  return v;
}

Value strings(const std::vector<std::string>& items) {
  Value v = list({});
  for (const std::string& item : items) {
    v.items.push_back(string(item));
  }
  return v;
}

Value map() {
  Value v;
  v.kind = Value::Kind::map;
  return v;
}

void put(Value& map, std::string key, Value value) {
  if (Value* old = find(map, key)) {
    *old = std::move(value);
    return;
  }
  Origin where = value.origin;
  map.entries.push_back({std::move(key), std::move(where), std::move(value)});
}

Value* find(Value& map, std::string_view key) {
  for (auto& entry : map.entries) {
    if (entry.key == key) {
      return &entry.value;
    }
  }
  return nullptr;
}

void relocate(Value& value, const Origin& where) {
  value.origin = where;
  for (Value& item : value.items) {
    relocate(item, where);
  }
  for (auto& entry : value.entries) {
    entry.origin = where;
    relocate(entry.value, where);
  }
}

namespace {

void write_string(std::string& out, const std::string& text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

bool flat(const Value& v) {
  for (const Value& item : v.items) {
    if (item.kind == Value::Kind::map || item.kind == Value::Kind::sequence) {
      return false;
    }
  }
  return true;
}

void write(std::string& out, const Value& v, int depth) {
  const auto indent = [&](int n) { out.append(static_cast<std::size_t>(2 * n), ' '); };
  switch (v.kind) {
    case Value::Kind::null:
      out += "null";
      return;
    case Value::Kind::scalar:
      if (v.quoted) {
        write_string(out, v.scalar);
      } else {
        out += v.scalar;
      }
      return;
    case Value::Kind::sequence:
      if (v.items.empty()) {
        out += "[]";
        return;
      }
      out += '[';
      for (std::size_t i = 0; i < v.items.size(); ++i) {
        if (flat(v)) {
          out += i == 0 ? "" : ", ";
        } else {
          out += i == 0 ? "\n" : ",\n";
          indent(depth + 1);
        }
        write(out, v.items[i], depth + 1);
      }
      if (!flat(v)) {
        out += '\n';
        indent(depth);
      }
      out += ']';
      return;
    case Value::Kind::map:
      if (v.entries.empty()) {
        out += "{}";
        return;
      }
      out += "{\n";
      for (std::size_t i = 0; i < v.entries.size(); ++i) {
        indent(depth + 1);
        write_string(out, v.entries[i].key);
        out += ": ";
        write(out, v.entries[i].value, depth + 1);
        out += i + 1 < v.entries.size() ? ",\n" : "\n";
      }
      indent(depth);
      out += '}';
      return;
  }
}

}  // namespace

std::string to_json(const Value& value) {
  std::string out;
  write(out, value, 0);
  return out;
}

}  // namespace stepcast::config::tree
