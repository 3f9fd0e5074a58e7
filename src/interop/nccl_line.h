// Parses one line of nccl-tests output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/text/cells.h"

namespace stepcast::interop {

inline constexpr double kLongestMicroseconds = 1e9;
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 50;
inline constexpr int kMaxRanks = 10'000'000;

using Words = std::vector<std::string_view>;
using text::number;
Words words(std::string_view line);

// The line without a terminal's escape sequences (ESC [ ... m and similar).
std::string without_escapes(std::string_view line);

struct Row {
  std::int64_t size = 0, count = 0;
  int element = 0;  // bytes
  std::string type;
  std::string redop;  // "": not printed
  std::optional<int> root;
  double microseconds[2] = {0, 0};  // out of place, in place
  bool has_in_place = false;
  double bus_bandwidth = 0;
  std::optional<double> wrong[2];
  bool in_place_unchecked = false;  // #wrong is N/A only in place, as in all-to-all
  bool unchecked = false;           // #wrong is N/A also out of place
  std::string date;                 // of a time stamp after the row
};

// The columns that a table's header names.
struct Columns {
  bool redop = true;
  std::size_t halves = 2;  // out of place and in place
  bool cpu_time = false;   // -C 1: the time column is the host's time
};

enum class Kind { other, header, row, cut };

struct Line {
  Kind kind = Kind::other;
  Row row;
  Columns columns;  // for a header
  std::string why;  // for a cut row, a further fault
};

// `in_table`: there was a header before, so that two whole numbers alone are a row that is cut
// short.
Line read_line(std::string_view text, bool in_table, std::size_t halves);

// NCCL's own messages (NCCL_DEBUG) can be in the middle of a row, which nccl-tests prints in
// pieces. Returns the text before "host:pid:tid [0] NCCL INFO ..." on the line, or nullopt where
// the line has no such message.
std::optional<std::string> before_message(std::string_view text);

}  // namespace stepcast::interop
