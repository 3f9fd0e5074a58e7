// One figure or fact of a result, for all writers: JSON, CSV, tables of the terminal and of
// pages. The fields of a result are listed once, as a Record in reading order, which each writer
// walks.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/result/report.h"

namespace stepcast::report {

struct Field;
class Value;
using Record = std::vector<Field>;  // in reading order

// Seconds that JSON writes with 12 decimals, so that sums are exact to the picosecond.
struct Seconds {
  double value = 0;
};
// A figure with its 90 % interval.
struct Interval {
  result::Estimate estimate;
  bool seconds = false;  // written like Seconds
};
// JSON text that is written as it is, such as a resolved job.
struct Document {
  std::string json;
};
// A list whose items are made when they are written, so that a hundred thousand points are never in
// memory at once.
struct List {
  std::size_t size = 0;
  std::function<Value(std::size_t)> item;
  bool one_line = true;
};
struct Object {
  Record fields;
  bool one_line = true;
};

// One figure, text or container of them. Null when made from nothing or from an empty optional.
class Value {
 public:
  using Kinds = std::variant<std::monostate, bool, std::int64_t, double, std::string, Time, Seconds,
                             Interval, Document, List, Object>;

  Value();
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();
  Value(bool v);          // NOLINT: a flag is a value; so with all that follow
  Value(std::int64_t v);  // NOLINT
  template <std::integral T>
    requires(!std::same_as<T, bool> && !std::same_as<T, std::int64_t>)
  Value(T v) : Value(static_cast<std::int64_t>(v)) {}  // NOLINT
  Value(double v);                                     // NOLINT
  Value(std::string v);                                // NOLINT
  Value(std::string_view v);                           // NOLINT
  Value(const char* v);                                // NOLINT
  Value(Bytes v);                                      // NOLINT
  Value(Time v);                                       // NOLINT
  Value(Seconds v);                                    // NOLINT
  Value(const result::Estimate& v);                    // NOLINT
  Value(Interval v);                                   // NOLINT
  Value(Document v);                                   // NOLINT
  Value(List v);                                       // NOLINT
  Value(Object v);                                     // NOLINT
  Value(const std::vector<std::string>& texts);        // NOLINT: a list on one line
  template <class T>
  Value(const std::optional<T>& v) : Value(v ? Value(*v) : Value()) {}  // NOLINT

  const Kinds& kind() const { return kind_; }

 private:
  Kinds kind_;
};

// The form in which people read a value. Tables align texts to the left and numbers to the right.
enum class Show {
  text,            // as it is
  prose,           // as it is; long, so that a page wraps it
  yes_no,          // true and false
  number,          // shortest digits, or a text that holds a number
  count,           // 1,234,567
  three,           // three significant digits
  four,            // four significant digits
  six,             // at most six digits
  brief,           // at most four digits, with an exponent where that is shorter
  signed_1,        // +1.2
  duration,        // 1.23 s
  percent,         // 41.3 %
  change,          // +2.3 %
  gib,             // 61.2
  size,            // 488 GiB
  rate,            // 215 GB/s
  money,           // 12.3 M
  megawatt_hours,  // 1,234, of joules
  megawatts,       // 12.3, of watts
  tonnes,          // 1,234, of kilograms
  bar,             // markup of a page: a picture as wide as its column
};

// The caption of a column without a heading.
inline constexpr std::string_view kNoHeading = "(none)";

struct Field {
  std::string_view key;  // JSON's and CSV's name; empty: only tables show it
  Value value;
  std::string_view caption = {};  // heading of its column; empty: no table shows it
  Show show = Show::text;
  std::string hint = {};  // shown on hover over the page's cell
  bool bad = false;       // the page's cell is red
};

// An object on one line; without `one_line`, with a line for each field.
Value object(Record fields, bool one_line = true);
// A list of texts, each on a line of its own.
Value lines(const std::vector<std::string>& texts);

// A list on one line of the values that `of` makes of the items. `all` has to outlive the value.
template <class T, class Of>
Value list(const std::vector<T>& all, Of of, bool one_line = true) {
  return List{all.size(), [&all, of](std::size_t i) { return Value(of(all[i])); }, one_line};
}
// A list of objects, each on a line of its own.
template <class T, class Fields>
Value rows(const std::vector<T>& all, Fields fields) {
  return list(
      all, [fields](const T& one) { return object(fields(one)); }, false);
}
// A list of objects with a line for each of their fields.
template <class T, class Fields>
Value blocks(const std::vector<T>& all, Fields fields) {
  return list(
      all, [fields](const T& one) { return object(fields(one), false); }, false);
}
// An object on one line with a field for each pair.
Value named(const std::vector<std::pair<std::string, double>>& numbers);

// The text, or null where it is empty.
Value text_or_null(const std::string& text);
Value if_known(bool known, Value value);
// For tables: the value, or a dash where it is not known.
Value or_dash(bool known, Value value);

void append(Record& record, Record more);

// JSON text that ends with a newline. Keys keep their order; numbers are the shortest text that
// reads back the same; infinity and NaN become null, and invalid UTF-8 is replaced.
std::string json_of(Record fields);

// The value as people read it; null is empty. Bytes and seconds may be whole numbers, times or
// intervals, of which the value is shown.
std::string shown(const Value& value, Show show);
// The number behind a value, where there is one.
std::optional<double> number_of(const Value& value);

}  // namespace stepcast::report
