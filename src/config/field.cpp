#include "field.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <stdexcept>

namespace stepcast::config {

const Spec* Spec::child(std::string_view name) const {
  for (const Spec& c : children) {
    if (c.key == name) {
      return &c;
    }
  }
  return nullptr;
}

Value type_schema(std::string_view type) {
  Value v = tree::map();
  tree::put(v, "type", tree::string(std::string(type)));
  return v;
}

Value any_of(std::vector<Value> alternatives) {
  Value v = tree::map();
  tree::put(v, "anyOf", tree::list(std::move(alternatives)));
  return v;
}

Value enum_schema(const std::vector<std::string>& values) {
  std::vector<Value> items;
  for (const auto& value : values) {
    items.push_back(tree::string(value));
  }
  Value v = tree::map();
  tree::put(v, "enum", tree::list(std::move(items)));
  return v;
}

Value object_schema(const std::vector<Spec>& children) {
  Value properties = tree::map();
  for (const Spec& c : children) {
    Value one = c.schema;
    if (one.kind == Value::Kind::null) {
      one = object_schema(c.children);
    }
    if (c.named) {
      one = any_of({type_schema("string"), one});
    }
    tree::put(one, "description", tree::string(c.description));
    tree::put(properties, c.key, std::move(one));
  }
  Value v = type_schema("object");
  tree::put(v, "properties", std::move(properties));
  tree::put(v, "additionalProperties", tree::boolean(false));
  return v;
}

Value quantity_schema(std::string_view unit) {
  Value text = type_schema("string");
  Value bare = type_schema("number");
  tree::put(bare, "minimum", tree::number(std::int64_t{0}));
  tree::put(bare, "$comment", tree::string(fmt::format("in {}", unit)));
  return any_of({std::move(bare), std::move(text)});
}

std::optional<std::int64_t> read_integer(Reader& reader, const Value& value, std::int64_t low,
                                         std::int64_t high) {
  const std::string what = fmt::format("an integer from {} to {}", low, high);
  try {
    if (value.kind == Value::Kind::scalar && !value.quoted) {
      const std::int64_t x = text::to_integer(value);
      if (x >= low && x <= high) {
        return x;
      }
    }
  } catch (const InputError&) {
    // Said below, with the range.
  }
  reader.expected(value, what);
  return std::nullopt;
}

std::optional<double> read_number(Reader& reader, const Value& value, double low, double high) {
  try {
    if (value.kind == Value::Kind::scalar && !value.quoted) {
      const double x = text::to_number(value);
      if (std::isfinite(x) && x >= low && x <= high) {
        return x;
      }
    }
  } catch (const InputError&) {
    // Said below, with the range.
  }
  reader.expected(value, fmt::format("a number from {} to {}", low, high));
  return std::nullopt;
}

std::optional<bool> read_boolean(Reader& reader, const Value& value) {
  try {
    if (value.kind == Value::Kind::scalar && !value.quoted) {
      return text::to_bool(value);
    }
  } catch (const InputError&) {
    // Said below.
  }
  reader.expected(value, "true or false");
  return std::nullopt;
}

std::optional<std::string> read_string(Reader& reader, const Value& value, std::string_view what) {
  if (value.kind == Value::Kind::scalar && !value.scalar.empty()) {
    return value.scalar;
  }
  reader.expected(value, what);
  return std::nullopt;
}

void not_modelled(Reader& reader, const Value& value, std::string_view what,
                  std::string_view expected) {
  reader.fault(value, fmt::format("{} is not modelled yet; expected {}", what, expected));
}

std::optional<std::size_t> read_word(Reader& reader, const Value& value,
                                     const std::vector<std::string>& names,
                                     const std::vector<std::string>& later) {
  std::string all;
  for (const auto& name : names) {
    all += (all.empty() ? "" : " | ") + name;
  }
  if (value.kind == Value::Kind::scalar) {
    const auto at = std::find(names.begin(), names.end(), value.scalar);
    if (at != names.end()) {
      return static_cast<std::size_t>(at - names.begin());
    }
    if (std::find(later.begin(), later.end(), value.scalar) != later.end()) {
      not_modelled(reader, value, fmt::format("'{}'", value.scalar), all);
      return std::nullopt;
    }
    std::vector<std::string> known = names;
    known.insert(known.end(), later.begin(), later.end());
    all += suggestion(value.scalar, known);
  }
  reader.expected(value, all);
  return std::nullopt;
}

namespace {

// Bare numbers go through the same parser as "80 GB": the units are the base room's.
template <class Q, class Parse>
std::optional<Q> parsed(Reader& reader, const Value& value, Parse parse, std::string_view what) {
  if (value.kind == Value::Kind::scalar && describe(value).find("octal") == std::string::npos) {
    try {
      const Q q = parse(value.scalar);
      if (q >= Q{}) {
        return q;
      }
    } catch (const std::invalid_argument&) {
      // Said below.
    } catch (const std::overflow_error&) {
      // Said below.
    } catch (const std::out_of_range&) {
      // Said below.
    }
  }
  reader.expected(value, what);
  return std::nullopt;
}

}  // namespace

std::optional<Time> read_quantity(Reader& reader, const Value& value, Time) {
  return parsed<Time>(reader, value, parse_time,
                      "a time such as '1.5 us' (a bare number is seconds)");
}
std::optional<Bytes> read_quantity(Reader& reader, const Value& value, Bytes) {
  return parsed<Bytes>(reader, value, parse_bytes,
                       "a size such as '80 GB' or '40 MiB' (a bare number is bytes)");
}
std::optional<Bandwidth> read_quantity(Reader& reader, const Value& value, Bandwidth) {
  return parsed<Bandwidth>(
      reader, value, parse_bandwidth,
      "a bandwidth such as '400 Gb/s' or '3350 GB/s' (a bare number is bytes per second)");
}
std::optional<FlopRate> read_quantity(Reader& reader, const Value& value, FlopRate) {
  return parsed<FlopRate>(reader, value, parse_flop_rate,
                          "a rate such as '312 TFLOP/s' (a bare number is FLOP/s)");
}
std::optional<Power> read_quantity(Reader& reader, const Value& value, Power) {
  return parsed<Power>(reader, value, parse_power,
                       "a power such as '700 W' (a bare number is watts)");
}

}  // namespace stepcast::config
