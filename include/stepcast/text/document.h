// A located document: what YAML, JSON, TOML and CSV readers give, with line and column of every value. No other room
// includes a parser's header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/quantity.h"

namespace stepcast::text {

// A value with its place. Scalars keep their text as written; `quoted` scalars are strings whatever they look like.
struct Value {
  enum class Kind { null, scalar, sequence, map } kind = Kind::null;
  Origin origin;
  std::string scalar;
  bool quoted = false;
  std::vector<Value> items;  // sequence
  struct Entry;
  std::vector<Entry> entries;                     // map, in file order; duplicates are InputError
  const Value* find(std::string_view key) const;  // nullptr when absent
};

struct Value::Entry {
  std::string key;
  Origin origin;  // of the key
  Value value;
};

// Throw InputError (missing file, directory, binary garbage, malformed text, duplicate keys, depth beyond 64).
// A value takes some 40 times the memory of its text: what a person writes is far below `most` bytes.
constexpr std::size_t kBiggestText = std::size_t{1} << 30;
Value read_yaml(const std::filesystem::path& file, std::size_t most = kBiggestText);
Value parse_yaml(std::string_view text, const std::string& name);
Value read_json(const std::filesystem::path& file, std::size_t most = kBiggestText);  // keeps line and column
Value parse_json(std::string_view text, const std::string& name);
Value read_toml(const std::filesystem::path& file);
Value parse_toml(std::string_view text, const std::string& name);
std::string read_text(const std::filesystem::path& file);  // the whole of a text file
std::vector<Value> read_json_lines(const std::filesystem::path& file);
std::vector<Value> parse_json_lines(std::string_view text, const std::string& name);
// The whole of a file that may be compressed by gzip (a build with zlib); of at most `most` bytes once it is unpacked.
std::string read_packed_text(const std::filesystem::path& file, std::size_t most = kBiggestText);

struct Table {
  std::string file;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // row i is line i + 2
  int column(std::string_view name) const;     // -1 when absent
};
// Comma-separated with one header line and RFC 4180 quotes; a row of another width is InputError.
Table read_csv(const std::filesystem::path& file);

// Typed views of a scalar; InputError names what was expected. Integers may be written 15e12 and 1_000; octal-looking
// numbers (010) are faults, as are NaN, infinities and numbers beyond range.
double to_number(const Value& v);
std::int64_t to_integer(const Value& v);
bool to_bool(const Value& v);
Bandwidth to_bandwidth(const Value& v);  // "400 Gb/s"
const std::string& to_string(const Value& v);

// The folder that holds configs/ and calibration/: $STEPCAST_DATA, beside the binary (../share/stepcast), or the source
// tree it was built from. Throws InputError when there is none.
std::filesystem::path data_directory();

}  // namespace stepcast::text
