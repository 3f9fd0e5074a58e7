#include "field.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <stdexcept>
#include <type_traits>

#include "adapter_text.h"
#include "stepcast/base/number.h"

namespace stepcast::config {

const Spec* Spec::child(std::string_view name) const {
  for (const Spec& c : children) {
    if (c.key == name) {
      return &c;
    }
  }
  return nullptr;
}

Row::Row(Spec what, Reads reader, Writes writer)
    : spec(std::move(what)), read(std::move(reader)), write(std::move(writer)) {}
Row::Row(const Row&) = default;
Row::Row(Row&&) noexcept = default;
Row::~Row() = default;

void read_rows(Reader& reader, const Value& value, const std::vector<Row>& rows, void* into,
               std::string_view skip) {
  if (value.kind != Value::Kind::map) {
    reader.expected(value, "a map of keys");
    return;
  }
  for (const auto& entry : value.entries) {
    const auto known = [&](const Row& row) { return row.spec.key == entry.key; };
    if (entry.key != skip && std::none_of(rows.begin(), rows.end(), known)) {
      std::vector<std::string> keys;
      for (const Row& row : rows) {
        keys.push_back(row.spec.key);
      }
      reader.unknown(entry, keys);
    }
  }
  // In the table's order, not the file's: `node` fills what `gpus_per_node` then overrides.
  for (const Row& row : rows) {
    for (const auto& entry : value.entries) {
      if (entry.key == row.spec.key && entry.key != skip) {
        Reader::Scope scope(reader, entry.key);
        reader.record(entry.value.origin);
        row.read(reader, entry.value, into);
      }
    }
  }
}

Value write_rows(const std::vector<Row>& rows, const void* from) {
  Value out = tree::map();
  for (const Row& row : rows) {
    if (auto value = row.write(from)) {
      tree::put(out, row.spec.key, std::move(*value));
    }
  }
  return out;
}

std::vector<Spec> specs_of(const std::vector<Row>& rows, const void* defaults) {
  std::vector<Spec> out;
  for (const Row& row : rows) {
    out.push_back(row.spec);
    const auto value = row.write(defaults);
    const bool leaf = value && value->kind == Value::Kind::scalar && !value->scalar.empty();
    // A default below the minimum only marks a key without a default.
    const Value* least = out.back().schema.find("minimum");
    const bool allowed =
        least == nullptr || !leaf || std::stod(value->scalar) >= std::stod(least->scalar);
    if (leaf && allowed && !row.spec.section) {
      tree::put(out.back().schema, "default", *value);
    }
  }
  return out;
}

Value type_schema(std::string_view type) {
  Value v = tree::map();
  tree::put(v, "type", tree::string(std::string(type)));
  return v;
}

Value integer_schema(std::int64_t low) {
  Value v = type_schema("integer");
  tree::put(v, "minimum", tree::number(low));
  return v;
}

Value array_schema(Value item) {
  Value v = type_schema("array");
  tree::put(v, "items", std::move(item));
  return v;
}

Value map_schema(Value item) {
  Value v = type_schema("object");
  tree::put(v, "additionalProperties", std::move(item));
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

namespace {
// "4k" as well as 4096. Throws InputError or std::invalid_argument.
std::int64_t whole(const Value& value) {
  const auto scaled = parse_scaled(value.scalar);
  if (!scaled) {
    return text::to_integer(value);
  }
  constexpr double kExact = 9e15;  // whole numbers below it are doubles
  if (!(std::abs(*scaled) < kExact) || *scaled != std::floor(*scaled)) {
    throw std::invalid_argument("no whole number");
  }
  return static_cast<std::int64_t>(*scaled);
}
}  // namespace

std::optional<std::int64_t> read_integer(Reader& reader, const Value& value, std::int64_t low,
                                         std::int64_t high) {
  const std::string what = fmt::format("an integer from {} to {}", low, high);
  try {
    if (value.kind == Value::Kind::scalar && !value.quoted) {
      const std::int64_t x = whole(value);
      if (x >= low && x <= high) {
        return x;
      }
    }
  } catch (const InputError&) {
    // Reported below, with the range.
  } catch (const std::invalid_argument&) {
    // The same.
  }
  reader.expected(value, what);
  return std::nullopt;
}

std::optional<double> read_number(Reader& reader, const Value& value, double low, double high) {
  try {
    if (value.kind == Value::Kind::scalar && !value.quoted) {
      const auto scaled = parse_scaled(value.scalar);
      const double x = scaled ? *scaled : text::to_number(value);
      if (std::isfinite(x) && x >= low && x <= high) {
        return x;
      }
    }
  } catch (const InputError&) {
    // Reported below, with the range.
  } catch (const std::invalid_argument&) {
    // The same.
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
    // Reported below.
  }
  reader.expected(value, "true or false");
  return std::nullopt;
}

std::optional<std::string> read_string(Reader& reader, const Value& value, std::string_view what) {
  if (value.kind == Value::Kind::scalar && !value.scalar.empty()) {
    if (printable(value.scalar) == value.scalar) {
      return value.scalar;
    }
    reader.fault(value, fmt::format("{} is '{}', with characters that control a terminal; expected "
                                    "printable text on one line",
                                    reader.path(), printable(value.scalar).substr(0, 60)));
    return std::nullopt;
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

// A bare number is parsed as "80 GB" is, so that units are known in one place.
template <class Q, class Parse>
std::optional<Q> parsed(Reader& reader, const Value& value, Parse parse, std::string_view what) {
  if (value.kind == Value::Kind::scalar && describe(value).find("octal") == std::string::npos) {
    try {
      const Q q = parse(value.scalar);
      if (q >= Q{}) {
        return q;
      }
    } catch (const std::invalid_argument&) {
      // Reported below.
    } catch (const std::overflow_error&) {
      // Reported below.
    } catch (const std::out_of_range&) {
      // Reported below.
    }
  }
  reader.expected(value, what);
  return std::nullopt;
}

}  // namespace

namespace {

// What machines have, with room on both sides: beyond, a unit was forgotten or is wrong. Zero means
// "none" or "by device", where it is allowed.
template <class Q>
struct Range {
  Q least;
  Q most;
  const char* unit;  // that a bare number may have meant
  double factor;     // of that unit over the base unit
};

template <class Q>
std::optional<Q> within(Reader& reader, const Value& value, std::optional<Q> q,
                        const Range<Q>& range) {
  if (!q || *q == Q{} || (*q >= range.least && *q <= range.most)) {
    return q;
  }
  const bool low = *q < range.least;
  const double count = static_cast<double>(q->count()) * range.factor;
  const bool forgotten = number_length(value.scalar) == value.scalar.size() &&
                         count >= static_cast<double>(range.least.count()) &&
                         count <= static_cast<double>(range.most.count());
  const std::string meant = fmt::format("{} {}", value.scalar, range.unit);
  reader.fault(value, fmt::format("{} is {}; expected at {} {}{}", reader.path(), to_string(*q),
                                  low ? "least" : "most", to_string(low ? range.least : range.most),
                                  forgotten ? fmt::format(", such as '{}'", meant) : ""));
  return std::nullopt;
}

bool names(const Reader& reader, std::string_view key) {
  const std::string& path = reader.path();
  return path == key || path.ends_with("." + std::string(key));
}

}  // namespace

std::optional<Time> read_quantity(Reader& reader, const Value& value, Time) {
  constexpr Range<Time> kRange = {Time(0), Time(1'000'000'000'000), "us", 1e-6};
  return within(
      reader, value,
      parsed<Time>(reader, value, parse_time, "a time such as '1.5 us' (a bare number is seconds)"),
      kRange);
}
std::optional<Bytes> read_quantity(Reader& reader, const Value& value, Bytes) {
  return parsed<Bytes>(reader, value, parse_bytes,
                       "a size such as '80 GB' or '40 MiB' (a bare number is bytes)");
}
std::optional<Bandwidth> read_quantity(Reader& reader, const Value& value, Bandwidth) {
  const Range<Bandwidth> range = {Bandwidth(1e6), Bandwidth(1e20),
                                  names(reader, "nic") ? "Gb/s" : "GB/s",
                                  names(reader, "nic") ? 1.25e8 : 1e9};
  if (names(reader, "nic") && value.kind == Value::Kind::scalar) {
    const AdapterText adapter = read_adapter(value.scalar);
    if (!adapter.fault.empty()) {
      reader.fault(value,
                   fmt::format("{} is '{}': {}", reader.path(), value.scalar, adapter.fault));
      return std::nullopt;
    }
    if (adapter.rate) {
      return within(reader, value, adapter.rate, range);
    }
  }
  return within(
      reader, value,
      parsed<Bandwidth>(
          reader, value, parse_bandwidth,
          "a bandwidth such as '400 Gb/s' or '3350 GB/s' (a bare number is bytes per second)"),
      range);
}
std::optional<FlopRate> read_quantity(Reader& reader, const Value& value, FlopRate) {
  constexpr Range<FlopRate> kRange = {FlopRate(1e9), FlopRate(1e24), "TFLOP/s", 1e12};
  return within(reader, value,
                parsed<FlopRate>(reader, value, parse_flop_rate,
                                 "a rate such as '312 TFLOP/s' (a bare number is FLOP/s)"),
                kRange);
}
std::optional<Power> read_quantity(Reader& reader, const Value& value, Power) {
  return parsed<Power>(reader, value, parse_power,
                       "a power such as '700 W' (a bare number is watts)");
}

// Divided, not multiplied by 1e-12: 5 us prints as 5e-06.
Value write_quantity(Time t) { return tree::number(static_cast<double>(t.count()) / 1e12); }
Value write_quantity(Bytes b) { return tree::number(b.count()); }
Value write_quantity(Bandwidth b) { return tree::number(b.count()); }
Value write_quantity(FlopRate f) { return tree::number(f.count()); }
Value write_quantity(Power p) { return tree::number(p.count()); }

namespace {

constexpr std::string_view unit_of(Time) { return "seconds"; }
constexpr std::string_view unit_of(Bytes) { return "bytes"; }
constexpr std::string_view unit_of(Bandwidth) { return "bytes per second"; }
constexpr std::string_view unit_of(FlopRate) { return "FLOP/s"; }
constexpr std::string_view unit_of(Power) { return "watts"; }

template <class N>
Value range_schema(std::string_view type, N low, N high) {
  Value v = type_schema(type);
  tree::put(v, "minimum", tree::number(low));
  tree::put(v, "maximum", tree::number(high));
  return v;
}

// The value of type T that lies `at` bytes into a struct.
template <class T>
T& value_at(void* into, std::size_t at) {
  return *reinterpret_cast<T*>(static_cast<char*>(into) + at);
}
template <class T>
const T& value_at(const void* from, std::size_t at) {
  return *reinterpret_cast<const T*>(static_cast<const char*>(from) + at);
}

// A row of a value of type T, from its reader (a value, or nothing after a fault) and its writer.
template <class T, class ReadValue, class WriteValue>
Row row_of(std::size_t at, const char* key, const char* description, Value schema, ReadValue read,
           WriteValue write) {
  return {Spec{key, description, std::move(schema)},
          [=](Reader& r, const Value& v, void* into) {
            if (const auto x = read(r, v)) {
              value_at<T>(into, at) = static_cast<T>(*x);
            }
          },
          [=](const void* from) -> std::optional<Value> { return write(value_at<T>(from, at)); }};
}

// The same of a value that may be left out, as null or as the word `absent`.
template <class T, class ReadValue>
Row optional_row(std::size_t at, const char* key, const char* description, Value schema,
                 const std::string& absent, ReadValue read) {
  Value other = absent.empty() ? type_schema("null") : enum_schema({absent});
  return {Spec{key, description, any_of({std::move(schema), std::move(other)})},
          [=](Reader& r, const Value& v, void* into) {
            auto& value = value_at<std::optional<T>>(into, at);
            if (is_null(v) || (!absent.empty() && is_word(v, absent))) {
              value = std::nullopt;
            } else if (const auto x = read(r, v)) {
              value = static_cast<T>(*x);
            }
          },
          [=](const void* from) -> std::optional<Value> {
            if (const auto& value = value_at<std::optional<T>>(from, at)) {
              using Number =
                  typename std::invoke_result_t<ReadValue, Reader&, const Value&>::value_type;
              if constexpr (std::is_same_v<Number, bool>) {
                return tree::boolean(*value);
              } else {
                return tree::number(static_cast<Number>(*value));
              }
            }
            return absent.empty() ? tree::null() : tree::string(absent);
          }};
}

}  // namespace

template <class I>
Row integer_row(std::size_t at, const char* key, std::int64_t low, std::int64_t high,
                const char* description) {
  return row_of<I>(
      at, key, description, range_schema("integer", low, high),
      [=](Reader& r, const Value& v) { return read_integer(r, v, low, high); },
      [](I x) { return tree::number(static_cast<std::int64_t>(x)); });
}
template Row integer_row<int>(std::size_t, const char*, std::int64_t, std::int64_t, const char*);
template Row integer_row<std::int64_t>(std::size_t, const char*, std::int64_t, std::int64_t,
                                       const char*);
template Row integer_row<std::uint64_t>(std::size_t, const char*, std::int64_t, std::int64_t,
                                        const char*);

Row optional_integer_row(std::size_t at, const char* key, std::string absent, std::int64_t low,
                         std::int64_t high, const char* description) {
  return optional_row<int>(
      at, key, description, range_schema("integer", low, high), absent,
      [=](Reader& r, const Value& v) { return read_integer(r, v, low, high); });
}

Row number_row(std::size_t at, const char* key, double low, double high, const char* description) {
  return row_of<double>(
      at, key, description, range_schema("number", low, high),
      [=](Reader& r, const Value& v) { return read_number(r, v, low, high); },
      [](double x) { return tree::number(x); });
}

Row optional_number_row(std::size_t at, const char* key, double low, double high,
                        const char* description) {
  return optional_row<double>(
      at, key, description, range_schema("number", low, high), "",
      [=](Reader& r, const Value& v) { return read_number(r, v, low, high); });
}

Row boolean_row(std::size_t at, const char* key, const char* description) {
  return row_of<bool>(at, key, description, type_schema("boolean"), read_boolean, tree::boolean);
}

Row optional_boolean_row(std::size_t at, const char* key, const char* description) {
  return optional_row<bool>(at, key, description, type_schema("boolean"), "", read_boolean);
}

Row string_row(std::size_t at, const char* key, const char* description) {
  return row_of<std::string>(
      at, key, description, type_schema("string"),
      [](Reader& r, const Value& v) { return read_string(r, v); },
      [](const std::string& text) {
        return text.empty() ? std::nullopt : std::optional(tree::string(text));
      });
}

template <class Q>
Row quantity_row(std::size_t at, const char* key, bool positive, const char* description) {
  return row_of<Q>(
      at, key, description, quantity_schema(unit_of(Q{})),
      [=](Reader& r, const Value& v) -> std::optional<Q> {
        const auto x = read_quantity(r, v, Q{});
        if (x && positive && *x == Q{}) {
          r.expected(v, "a value above zero");
          return std::nullopt;
        }
        return x;
      },
      [](Q x) { return write_quantity(x); });
}
template Row quantity_row<Time>(std::size_t, const char*, bool, const char*);
template Row quantity_row<Bytes>(std::size_t, const char*, bool, const char*);
template Row quantity_row<Bandwidth>(std::size_t, const char*, bool, const char*);
template Row quantity_row<FlopRate>(std::size_t, const char*, bool, const char*);
template Row quantity_row<Power>(std::size_t, const char*, bool, const char*);

Row choice_row(std::size_t at, const char* key, Choice choice, const char* description) {
  std::vector<std::string> names;
  for (const auto& [word, value] : choice.words) {
    names.push_back(word);
  }
  Value schema = enum_schema(names);
  if (choice.optional) {
    schema = any_of({std::move(schema), type_schema("null")});
  }
  return {Spec{key, description, std::move(schema)},
          [=](Reader& r, const Value& v, void* into) {
            if (choice.optional && is_null(v)) {
              choice.put(&value_at<char>(into, at), std::nullopt);
            } else if (const auto i = read_word(r, v, names, {})) {
              choice.put(&value_at<char>(into, at), choice.words[*i].second);
            }
          },
          [=](const void* from) -> std::optional<Value> {
            const std::optional<int> x = choice.get(&value_at<char>(from, at));
            if (!x) {
              return tree::null();
            }
            for (const auto& [word, value] : choice.words) {
              if (value == *x) {
                return tree::string(word);
              }
            }
            return tree::string("");
          }};
}

Row custom_row(const char* key, const char* description, Value schema, Row::Reads read,
               Row::Writes write) {
  return {Spec{key, description, std::move(schema)}, std::move(read), std::move(write)};
}

Row section_row(std::size_t at, const char* key, const std::vector<Row>& rows,
                std::vector<Spec> children, const char* description) {
  return {Spec{key, description, {}, true, false, std::move(children)},
          [=, below = &rows](Reader& r, const Value& v, void* into) {
            read_rows(r, v, *below, &value_at<char>(into, at));
          },
          [=, below = &rows](const void* from) -> std::optional<Value> {
            return write_rows(*below, &value_at<char>(from, at));
          }};
}

Row optional_section_row(std::size_t at, const char* key, Box box, const std::vector<Row>& rows,
                         std::vector<Spec> children, const char* description) {
  return {Spec{key, description, {}, true, false, std::move(children)},
          [=, below = &rows](Reader& r, const Value& v, void* into) {
            void* inside = &value_at<char>(into, at);
            if (is_null(v)) {
              box.clear(inside);
            } else {
              read_rows(r, v, *below, box.fill(inside));
            }
          },
          [=, below = &rows](const void* from) -> std::optional<Value> {
            const void* value = box.get(&value_at<char>(from, at));
            return value != nullptr ? write_rows(*below, value) : tree::null();
          }};
}

}  // namespace stepcast::config
