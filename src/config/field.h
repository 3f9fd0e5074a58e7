// One row of the option table serves reading, writing and the schema: a key, what it accepts, and
// the field of the job struct that it fills.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reader.h"
#include "stepcast/base/quantity.h"
#include "stepcast/base/spelling.h"
#include "tree.h"

namespace stepcast::config {

// What is known of a key apart from the type of the struct that it fills.
struct Spec {
  std::string key;
  std::string description;
  Value schema;          // JSON Schema of the value, without description and default
  bool section = false;  // layers merge key by key; else a later layer replaces the whole value
  bool named = false;    // a bare name is short for {use: NAME}
  std::vector<Spec> children;  // of a section
  bool one_of = false;         // a map with one key of several: setting another replaces it
  const Spec* child(std::string_view name) const;
};

template <class S>
struct Field {
  Spec spec;
  std::function<void(Reader&, const Value&, S&)> read;
  std::function<std::optional<Value>(const S&)> write;  // nothing: the key is left out
};

template <class S>
using Table = std::vector<Field<S>>;

template <class S>
std::vector<std::string> keys(const Table<S>& table) {
  std::vector<std::string> out;
  for (const auto& field : table) {
    out.push_back(field.spec.key);
  }
  return out;
}

// Reads the entries of a map into a struct. `skip` was read before ("use").
template <class S>
void read_table(Reader& reader, const Value& value, const Table<S>& table, S& out,
                std::string_view skip = "") {
  if (value.kind != Value::Kind::map) {
    reader.expected(value, "a map of keys");
    return;
  }
  for (const auto& entry : value.entries) {
    const auto known = [&](const Field<S>& field) { return field.spec.key == entry.key; };
    if (entry.key != skip && std::none_of(table.begin(), table.end(), known)) {
      reader.unknown(entry, keys(table));
    }
  }
  // In the table's order, not the file's: `node` fills what `gpus_per_node` then overrides.
  for (const auto& field : table) {
    for (const auto& entry : value.entries) {
      if (entry.key == field.spec.key && entry.key != skip) {
        Reader::Scope scope(reader, entry.key);
        reader.record(entry.value.origin);
        field.read(reader, entry.value, out);
      }
    }
  }
}

template <class S>
Value write_table(const Table<S>& table, const S& from) {
  Value out = tree::map();
  for (const auto& field : table) {
    if (auto value = field.write(from)) {
      tree::put(out, field.spec.key, std::move(*value));
    }
  }
  return out;
}

template <class S>
std::vector<Spec> specs(const Table<S>& table) {
  std::vector<Spec> out;
  const S defaults{};
  for (const auto& field : table) {
    out.push_back(field.spec);
    const auto value = field.write(defaults);
    const bool leaf = value && value->kind == Value::Kind::scalar && !value->scalar.empty();
    // A default below the least value only marks a key that has none.
    const Value* least = out.back().schema.find("minimum");
    const bool allowed =
        least == nullptr || !leaf || std::stod(value->scalar) >= std::stod(least->scalar);
    if (leaf && allowed && !field.spec.section) {
      tree::put(out.back().schema, "default", *value);
    }
  }
  return out;
}

// JSON Schema of a map with these keys and no others.
Value object_schema(const std::vector<Spec>& children);
Value type_schema(std::string_view type);
Value any_of(std::vector<Value> alternatives);
Value enum_schema(const std::vector<std::string>& values);

// ---------------------------------------------------------------- scalars

std::optional<std::int64_t> read_integer(Reader& reader, const Value& value, std::int64_t low,
                                         std::int64_t high);
std::optional<double> read_number(Reader& reader, const Value& value, double low, double high);
std::optional<bool> read_boolean(Reader& reader, const Value& value);
std::optional<std::string> read_string(Reader& reader, const Value& value,
                                       std::string_view what = "a string");

inline bool is_word(const Value& value, std::string_view word) {
  return value.kind == Value::Kind::scalar && value.scalar == word;
}
inline bool is_null(const Value& value) { return value.kind == Value::Kind::null; }

// "WHAT is not modelled yet; expected …".
void not_modelled(Reader& reader, const Value& value, std::string_view what,
                  std::string_view expected);

constexpr std::int64_t kManyLayers = 100'000;
constexpr std::int64_t kManyRanks = 10'000'000;
constexpr std::int64_t kWide = 100'000'000;
constexpr std::int64_t kManyBatches = 100'000'000;

template <class S, class I>
Field<S> integer(std::string key, I S::*member, std::int64_t low, std::int64_t high,
                 std::string description) {
  Field<S> f;
  Value schema = type_schema("integer");
  tree::put(schema, "minimum", tree::number(low));
  tree::put(schema, "maximum", tree::number(high));
  f.spec = {std::move(key), std::move(description), std::move(schema), false, false, {}};
  f.read = [=](Reader& r, const Value& v, S& s) {
    if (const auto x = read_integer(r, v, low, high)) {
      s.*member = static_cast<I>(*x);
    }
  };
  f.write = [=](const S& s) { return tree::number(static_cast<std::int64_t>(s.*member)); };
  return f;
}

// Left out, null or `absent` ("auto"): the default is derived.
template <class S, class I>
Field<S> optional_integer(std::string key, std::optional<I> S::*member, std::string absent,
                          std::int64_t low, std::int64_t high, std::string description) {
  Field<S> f;
  Value schema = type_schema("integer");
  tree::put(schema, "minimum", tree::number(low));
  tree::put(schema, "maximum", tree::number(high));
  Value other = absent.empty() ? type_schema("null") : enum_schema({absent});
  f.spec = {std::move(key), std::move(description), any_of({schema, other}), false, false, {}};
  f.read = [=](Reader& r, const Value& v, S& s) {
    if (is_null(v) || (!absent.empty() && is_word(v, absent))) {
      s.*member = std::nullopt;
    } else if (const auto x = read_integer(r, v, low, high)) {
      s.*member = static_cast<I>(*x);
    }
  };
  f.write = [=](const S& s) -> std::optional<Value> {
    if (s.*member) {
      return tree::number(static_cast<std::int64_t>(*(s.*member)));
    }
    return absent.empty() ? tree::null() : tree::string(absent);
  };
  return f;
}

template <class S>
Field<S> number(std::string key, double S::*member, double low, double high,
                std::string description) {
  Field<S> f;
  Value schema = type_schema("number");
  tree::put(schema, "minimum", tree::number(low));
  tree::put(schema, "maximum", tree::number(high));
  f.spec = {std::move(key), std::move(description), std::move(schema), false, false, {}};
  f.read = [=](Reader& r, const Value& v, S& s) {
    if (const auto x = read_number(r, v, low, high)) {
      s.*member = *x;
    }
  };
  f.write = [=](const S& s) { return tree::number(s.*member); };
  return f;
}

template <class S>
Field<S> optional_number(std::string key, std::optional<double> S::*member, double low, double high,
                         std::string description) {
  Field<S> f;
  Value schema = type_schema("number");
  tree::put(schema, "minimum", tree::number(low));
  tree::put(schema, "maximum", tree::number(high));
  f.spec = {std::move(key),
            std::move(description),
            any_of({schema, type_schema("null")}),
            false,
            false,
            {}};
  f.read = [=](Reader& r, const Value& v, S& s) {
    if (is_null(v)) {
      s.*member = std::nullopt;
    } else if (const auto x = read_number(r, v, low, high)) {
      s.*member = *x;
    }
  };
  f.write = [=](const S& s) { return s.*member ? tree::number(*(s.*member)) : tree::null(); };
  return f;
}

template <class S>
Field<S> boolean(std::string key, bool S::*member, std::string description) {
  Field<S> f;
  f.spec = {std::move(key), std::move(description), type_schema("boolean"), false, false, {}};
  f.read = [=](Reader& r, const Value& v, S& s) {
    if (const auto x = read_boolean(r, v)) {
      s.*member = *x;
    }
  };
  f.write = [=](const S& s) { return tree::boolean(s.*member); };
  return f;
}

template <class S>
Field<S> string(std::string key, std::string S::*member, std::string description) {
  Field<S> f;
  f.spec = {std::move(key), std::move(description), type_schema("string"), false, false, {}};
  f.read = [=](Reader& r, const Value& v, S& s) {
    if (const auto x = read_string(r, v)) {
      s.*member = *x;
    }
  };
  f.write = [=](const S& s) -> std::optional<Value> {
    if ((s.*member).empty()) {
      return std::nullopt;
    }
    return tree::string(s.*member);
  };
  return f;
}

// ---------------------------------------------------------------- words

// The words of an enumeration in reading order; the first of equal values is the one written.
// `later` are words of the documented interface that the engine does not model yet: an error that
// names them.
template <class E>
struct Words {
  std::vector<std::pair<std::string, E>> words;
  std::vector<std::string> later;

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& w : words) {
      out.push_back(w.first);
    }
    return out;
  }
  std::string name(E value) const {
    for (const auto& w : words) {
      if (w.second == value) {
        return w.first;
      }
    }
    return "";
  }
};

// The index of the word, or nothing after a fault.
std::optional<std::size_t> read_word(Reader& reader, const Value& value,
                                     const std::vector<std::string>& names,
                                     const std::vector<std::string>& later);

// The words of an enum as its table of spellings has them: all, or some in the order given.
template <Spelled E>
Words<E> all_words() {
  Words<E> out;
  for (const Spelling<E>& s : spellings(E{})) {
    out.words.emplace_back(s.word, s.value);
  }
  return out;
}

template <Spelled E>
Words<E> some_words(std::initializer_list<E> values) {
  Words<E> out;
  for (const E value : values) {
    out.words.emplace_back(to_string(value), value);
  }
  return out;
}

template <class E>
std::optional<E> read_word(Reader& reader, const Value& value, const Words<E>& words) {
  if (const auto i = read_word(reader, value, words.names(), words.later)) {
    return words.words[*i].second;
  }
  return std::nullopt;
}

template <class S, class E>
Field<S> choice(std::string key, E S::*member, Words<E> words, std::string description) {
  Field<S> f;
  f.spec = {std::move(key), std::move(description), enum_schema(words.names()), false, false, {}};
  f.read = [=](Reader& r, const Value& v, S& s) {
    if (const auto x = read_word(r, v, words)) {
      s.*member = *x;
    }
  };
  f.write = [=](const S& s) { return tree::string(words.name(s.*member)); };
  return f;
}

template <class S, Spelled E>
Field<S> choice(std::string key, E S::*member, std::string description) {
  return choice(std::move(key), member, all_words<E>(), std::move(description));
}

template <class S, class E>
Field<S> optional_choice(std::string key, std::optional<E> S::*member, Words<E> words,
                         std::string description) {
  Field<S> f;
  f.spec = {std::move(key),
            std::move(description),
            any_of({enum_schema(words.names()), type_schema("null")}),
            false,
            false,
            {}};
  f.read = [=](Reader& r, const Value& v, S& s) {
    if (is_null(v)) {
      s.*member = std::nullopt;
    } else if (const auto x = read_word(r, v, words)) {
      s.*member = *x;
    }
  };
  f.write = [=](const S& s) {
    return s.*member ? tree::string(words.name(*(s.*member))) : tree::null();
  };
  return f;
}

// A key of the documented interface that has only one value so far. It stands in no struct.
template <class S>
Field<S> only(std::string key, std::string value, std::string feature, std::string description) {
  Field<S> f;
  f.spec = {std::move(key), std::move(description), enum_schema({value}), false, false, {}};
  f.read = [=](Reader& r, const Value& v, S&) {
    if (!is_word(v, value)) {
      not_modelled(r, v, feature, value);
    }
  };
  f.write = [=](const S&) { return tree::string(value); };
  return f;
}

// ---------------------------------------------------------------- quantities

std::optional<Time> read_quantity(Reader& reader, const Value& value, Time);
std::optional<Bytes> read_quantity(Reader& reader, const Value& value, Bytes);
std::optional<Bandwidth> read_quantity(Reader& reader, const Value& value, Bandwidth);
std::optional<FlopRate> read_quantity(Reader& reader, const Value& value, FlopRate);
std::optional<Power> read_quantity(Reader& reader, const Value& value, Power);

// Divided, not multiplied by 1e-12: 5 us prints as 5e-06.
inline Value write_quantity(Time t) { return tree::number(static_cast<double>(t.count()) / 1e12); }
inline Value write_quantity(Bytes b) { return tree::number(b.count()); }
template <class Tag>
Value write_quantity(Quantity<Tag, double> q) {
  return tree::number(q.count());
}

Value quantity_schema(std::string_view unit);
constexpr std::string_view unit_of(Time) { return "seconds"; }
constexpr std::string_view unit_of(Bytes) { return "bytes"; }
constexpr std::string_view unit_of(Bandwidth) { return "bytes per second"; }
constexpr std::string_view unit_of(FlopRate) { return "FLOP/s"; }
constexpr std::string_view unit_of(Power) { return "watts"; }

// `positive`: zero is a fault; otherwise zero means "none" or "by device", as the description says.
template <class S, class Q>
Field<S> quantity(std::string key, Q S::*member, bool positive, std::string description) {
  Field<S> f;
  f.spec = {
      std::move(key), std::move(description), quantity_schema(unit_of(Q{})), false, false, {}};
  f.read = [=](Reader& r, const Value& v, S& s) {
    const auto x = read_quantity(r, v, Q{});
    if (!x) {
      return;
    }
    if (positive && *x == Q{}) {
      r.expected(v, "a value above zero");
      return;
    }
    s.*member = *x;
  };
  f.write = [=](const S& s) { return write_quantity(s.*member); };
  return f;
}

// ---------------------------------------------------------------- nested

template <class S, class T>
Field<S> section(std::string key, T S::*member, const Table<T>& table, std::string description) {
  Field<S> f;
  f.spec = {std::move(key), std::move(description), {}, true, false, specs(table)};
  const Table<T>* rows = &table;
  f.read = [=](Reader& r, const Value& v, S& s) { read_table(r, v, *rows, s.*member); };
  f.write = [=](const S& s) { return write_table(*rows, s.*member); };
  return f;
}

template <class S, class T>
Field<S> optional_section(std::string key, std::optional<T> S::*member, const Table<T>& table,
                          std::string description) {
  Field<S> f;
  f.spec = {std::move(key), std::move(description), {}, true, false, specs(table)};
  const Table<T>* rows = &table;
  f.read = [=](Reader& r, const Value& v, S& s) {
    if (is_null(v)) {
      s.*member = std::nullopt;
      return;
    }
    if (!(s.*member)) {
      s.*member = T{};
    }
    read_table(r, v, *rows, *(s.*member));
  };
  f.write = [=](const S& s) { return s.*member ? write_table(*rows, *(s.*member)) : tree::null(); };
  return f;
}

}  // namespace stepcast::config
