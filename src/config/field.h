// One row of the option table serves reading, writing and the schema: a key, what it accepts, and
// the field of the job struct that it fills.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
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
  std::string key = {};
  std::string description = {};
  Value schema = {};     // JSON Schema of the value, without description and default
  bool section = false;  // layers merge key by key; else a later layer replaces the whole value
  bool named = false;    // a bare name is short for {use: NAME}
  std::vector<Spec> children = {};  // of a section
  bool one_of = false;              // a map with one key of several: setting another replaces it
  std::string short_for = {};       // a value alone is short for {short_for: value}, and leaves the
                                    // other keys of a layer below
  const Spec* child(std::string_view name) const;
};

// A row without the type of its struct: readers and writers are compiled once for each type of
// value (field.cpp), not once for each table. So are a row's constructors and destructor, of which
// a table has hundreds.
struct Row {
  using Reads = std::function<void(Reader&, const Value&, void* into)>;
  using Writes = std::function<std::optional<Value>(const void* from)>;

  Row(Spec what, Reads reader, Writes writer);
  Row(const Row&);
  Row(Row&&) noexcept;
  Row& operator=(const Row&) = delete;
  ~Row();

  Spec spec;
  Reads read;
  Writes write;  // nothing: the key is left out
};

template <class S>
using Read = std::function<void(Reader&, const Value&, S&)>;
template <class S>
using Write = std::function<std::optional<Value>(const S&)>;

// A row of the table of struct S.
template <class S>
struct Field : Row {
  void reads(Read<S> how) { read = untyped(std::move(how)); }
  void writes(Write<S> how) { write = untyped(std::move(how)); }

  static Reads untyped(Read<S> how) {
    return [how = std::move(how)](Reader& r, const Value& v, void* s) {
      how(r, v, *static_cast<S*>(s));
    };
  }
  static Writes untyped(Write<S> how) {
    return [how = std::move(how)](const void* s) { return how(*static_cast<const S*>(s)); };
  }
};

template <class S>
struct Table {
  Table(std::initializer_list<Field<S>> fields) {
    rows.reserve(fields.size());
    for (const Field<S>& field : fields) {
      rows.push_back(field);
    }
  }
  std::vector<Row> rows;
};

// Reads the entries of a map into a struct. `skip` was read before ("use").
void read_rows(Reader& reader, const Value& value, const std::vector<Row>& rows, void* into,
               std::string_view skip = "");
Value write_rows(const std::vector<Row>& rows, const void* from);
std::vector<Spec> specs_of(const std::vector<Row>& rows, const void* defaults);

template <class S>
void read_table(Reader& reader, const Value& value, const Table<S>& table, S& out,
                std::string_view skip = "") {
  read_rows(reader, value, table.rows, &out, skip);
}

template <class S>
Value write_table(const Table<S>& table, const S& from) {
  return write_rows(table.rows, &from);
}

template <class S>
const S& defaults_of() {
  static const S defaults{};
  return defaults;
}

template <class S>
std::vector<Spec> specs(const Table<S>& table) {
  return specs_of(table.rows, &defaults_of<S>());
}

// Where a member lies in its struct, in bytes.
template <class S, class T>
std::size_t offset_of(T S::*member) {
  const S& s = defaults_of<S>();
  return static_cast<std::size_t>(reinterpret_cast<const char*>(&(s.*member)) -
                                  reinterpret_cast<const char*>(&s));
}

// ---------------------------------------------------------------- JSON Schema

// Of a map with these keys and no others.
Value object_schema(const std::vector<Spec>& children);
Value type_schema(std::string_view type);
Value integer_schema(std::int64_t low);
Value array_schema(Value item);
Value map_schema(Value item);
Value any_of(std::vector<Value> alternatives);
Value enum_schema(const std::vector<std::string>& values);
Value quantity_schema(std::string_view unit);

// ---------------------------------------------------------------- values

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

// The index of the word, or nothing after a fault. `later` are words of the documented interface
// that the engine does not model yet: an error that names them.
std::optional<std::size_t> read_word(Reader& reader, const Value& value,
                                     const std::vector<std::string>& names,
                                     const std::vector<std::string>& later);

std::optional<Time> read_quantity(Reader& reader, const Value& value, Time);
std::optional<Bytes> read_quantity(Reader& reader, const Value& value, Bytes);
std::optional<Bandwidth> read_quantity(Reader& reader, const Value& value, Bandwidth);
std::optional<FlopRate> read_quantity(Reader& reader, const Value& value, FlopRate);
std::optional<Power> read_quantity(Reader& reader, const Value& value, Power);

Value write_quantity(Time t);
Value write_quantity(Bytes b);
Value write_quantity(Bandwidth b);
Value write_quantity(FlopRate f);
Value write_quantity(Power p);

constexpr std::int64_t kManyLayers = 10'000;
constexpr std::int64_t kManyRanks = 10'000'000;
constexpr std::int64_t kWide = 100'000'000;
constexpr std::int64_t kManyBatches = 100'000'000;

// ---------------------------------------------------------------- words

// The words of an enumeration in reading order; the first of equal values is the one written.
template <class E>
struct Words {
  std::vector<std::pair<std::string, E>> words;

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& w : words) {
      out.push_back(w.first);
    }
    return out;
  }
};

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
  if (const auto i = read_word(reader, value, words.names(), {})) {
    return words.words[*i].second;
  }
  return std::nullopt;
}

// ---------------------------------------------------------------- rows
// The value of a row of type ..._row lies `at` bytes into the struct. Values are of the types that
// field.cpp instantiates.

template <class I>
Row integer_row(std::size_t at, const char* key, std::int64_t low, std::int64_t high,
                const char* description);
Row optional_integer_row(std::size_t at, const char* key, std::string absent, std::int64_t low,
                         std::int64_t high, const char* description);
Row number_row(std::size_t at, const char* key, double low, double high, const char* description);
Row optional_boolean_row(std::size_t at, const char* key, const char* description);
Row optional_number_row(std::size_t at, const char* key, double low, double high,
                        const char* description);
Row boolean_row(std::size_t at, const char* key, const char* description);
Row string_row(std::size_t at, const char* key, const char* description);
template <class Q>
Row quantity_row(std::size_t at, const char* key, bool positive, const char* description);

template <class S, class I>
Field<S> integer(const char* key, I S::*member, std::int64_t low, std::int64_t high,
                 const char* description) {
  return {integer_row<I>(offset_of(member), key, low, high, description)};
}

// Left out, null or `absent` ("auto"): the default is derived.
template <class S>
Field<S> optional_integer(const char* key, std::optional<int> S::*member, const char* absent,
                          std::int64_t low, std::int64_t high, const char* description) {
  return {optional_integer_row(offset_of(member), key, absent, low, high, description)};
}

template <class S>
Field<S> number(const char* key, double S::*member, double low, double high,
                const char* description) {
  return {number_row(offset_of(member), key, low, high, description)};
}

template <class S>
Field<S> optional_number(const char* key, std::optional<double> S::*member, double low, double high,
                         const char* description) {
  return {optional_number_row(offset_of(member), key, low, high, description)};
}

template <class S>
Field<S> boolean(const char* key, bool S::*member, const char* description) {
  return {boolean_row(offset_of(member), key, description)};
}

// Left out or null: the default is derived.
template <class S>
Field<S> optional_boolean(const char* key, std::optional<bool> S::*member,
                          const char* description) {
  return {optional_boolean_row(offset_of(member), key, description)};
}

template <class S>
Field<S> string(const char* key, std::string S::*member, const char* description) {
  return {string_row(offset_of(member), key, description)};
}

// `positive`: zero is a fault; otherwise zero means "none" or "by device", as the description says.
template <class S, class Q>
Field<S> quantity(const char* key, Q S::*member, bool positive, const char* description) {
  return {quantity_row<Q>(offset_of(member), key, positive, description)};
}

// A choice without the type of its enum: the words, and how a value is put and got. nullopt: null.
struct Choice {
  std::vector<std::pair<std::string, int>> words;
  std::optional<int> (*get)(const void* from);
  void (*put)(void* into, std::optional<int> value);
  bool optional = false;
};
Row choice_row(std::size_t at, const char* key, Choice choice, const char* description);

template <class E>
Choice choice_of(const Words<E>& words) {
  Choice out{
      {},
      [](const void* from) -> std::optional<int> {
        return static_cast<int>(*static_cast<const E*>(from));
      },
      [](void* into, std::optional<int> x) { *static_cast<E*>(into) = static_cast<E>(x.value()); }};
  for (const auto& [word, value] : words.words) {
    out.words.emplace_back(word, static_cast<int>(value));
  }
  return out;
}

template <class S, class E>
Field<S> choice(const char* key, E S::*member, const Words<E>& words, const char* description) {
  return {choice_row(offset_of(member), key, choice_of(words), description)};
}

template <class S, Spelled E>
Field<S> choice(const char* key, E S::*member, const char* description) {
  return choice(key, member, all_words<E>(), description);
}

template <class S, class E>
Field<S> optional_choice(const char* key, std::optional<E> S::*member, const Words<E>& words,
                         const char* description) {
  using Slot = std::optional<E>;
  Choice choice = choice_of(words);
  choice.get = [](const void* from) -> std::optional<int> {
    const Slot& value = *static_cast<const Slot*>(from);
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
  };
  choice.put = [](void* into, std::optional<int> x) {
    *static_cast<Slot*>(into) = x ? Slot(static_cast<E>(*x)) : std::nullopt;
  };
  choice.optional = true;
  return {choice_row(offset_of(member), key, std::move(choice), description)};
}

// A row with a reader and a writer of its own.
Row custom_row(const char* key, const char* description, Value schema, Row::Reads read,
               Row::Writes write);

template <class S>
Field<S> custom(const char* key, const char* description, Value schema, Read<S> read,
                Write<S> write) {
  return {custom_row(key, description, std::move(schema), Field<S>::untyped(std::move(read)),
                     Field<S>::untyped(std::move(write)))};
}

// A list of words out of `names`; `example` shows one in the message to a user.
template <class S>
Field<S> some_of(const char* key, std::vector<std::string> S::*member,
                 std::vector<std::string> names, const char* example, const char* description) {
  return custom<S>(
      key, description, array_schema(enum_schema(names)),
      [=](Reader& r, const Value& v, S& into) {
        if (v.kind != Value::Kind::sequence) {
          r.expected(v, example);
          return;
        }
        (into.*member).clear();
        for (const Value& one : v.items) {
          if (read_word(r, one, names, {})) {
            (into.*member).push_back(one.scalar);
          }
        }
      },
      [=](const S& from) { return tree::strings(from.*member); });
}

// ---------------------------------------------------------------- nested

Row section_row(std::size_t at, const char* key, const std::vector<Row>& rows,
                std::vector<Spec> children, const char* description);

template <class S, class T>
Field<S> section(const char* key, T S::*member, const Table<T>& table, const char* description) {
  return {section_row(offset_of(member), key, table.rows, specs(table), description)};
}

// A section that may be null, without its type.
struct Box {
  const void* (*get)(const void* box);  // nullptr: null
  void* (*fill)(void* box);             // what is in it, made where it is null
  void (*clear)(void* box);
};
Row optional_section_row(std::size_t at, const char* key, Box box, const std::vector<Row>& rows,
                         std::vector<Spec> children, const char* description);

template <class S, class T>
Field<S> optional_section(const char* key, std::optional<T> S::*member, const Table<T>& table,
                          const char* description) {
  using Slot = std::optional<T>;
  constexpr Box box = {[](const void* at) -> const void* {
                         const Slot& value = *static_cast<const Slot*>(at);
                         return value ? &*value : nullptr;
                       },
                       [](void* at) -> void* {
                         Slot& value = *static_cast<Slot*>(at);
                         return value ? &*value : &value.emplace();
                       },
                       [](void* at) { static_cast<Slot*>(at)->reset(); }};
  return {optional_section_row(offset_of(member), key, box, table.rows, specs(table), description)};
}

}  // namespace stepcast::config
