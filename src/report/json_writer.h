// JSON as text, key by key, so that the bytes are ours: integer picoseconds become seconds with
// exactly 12 decimals, other numbers the shortest text that reads back the same, and keys keep the
// order in which they are written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/quantity.h"

namespace stepcast::report {

class JsonWriter {
 public:
  // `flat`: the whole container on one line.
  JsonWriter& object(bool flat = false) { return open('{', '}', flat); }
  JsonWriter& array(bool flat = false) { return open('[', ']', flat); }
  JsonWriter& close();

  JsonWriter& key(std::string_view name);
  JsonWriter& text(std::string_view value);
  JsonWriter& integer(std::int64_t value);
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  JsonWriter& number(double value);         // NaN and infinities have no JSON: null
  JsonWriter& fixed_seconds(double value);  // 12 decimals
  JsonWriter& time(Time value);             // 12 decimals, exact
  JsonWriter& bytes(Bytes value) { return integer(value.count()); }
  JsonWriter& document(std::string_view json);  // another JSON text, indented to fit

  std::string finish() &&;  // all containers closed; ends with a newline

 private:
  struct Level {
    char closing;
    bool flat;
    bool empty = true;
  };
  JsonWriter& open(char opening, char closing, bool flat);
  void value_follows();
  void line_break();

  std::string out_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

}  // namespace stepcast::report
