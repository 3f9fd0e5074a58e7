// Reader of nccl-tests output. A row is recognised by its own shape, since launchers prefix lines
// ("0:", "[1,0]<stdout>:", "[STAT]:") and documents indent them:
//   size count type [redop] [root] time algbw busbw wrong [time algbw busbw wrong]
// Versions differ in redop and root (2019: no root; 2020: no redop for all_gather) and in the name
// of the last column (error, #wrong).
#include "stepcast/interop/nccl_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "stepcast/text/document.h"

namespace stepcast::interop {
namespace {

namespace fs = std::filesystem;

constexpr double kLongestMicroseconds = 1e9;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 50;
constexpr int kMostRanks = 10'000'000;
constexpr std::uintmax_t kLargestFile = 256u << 20;

[[noreturn]] void fail(const std::string& file, int line, const std::string& message,
                       int column = 1) {
  throw InputError(Fault{{file, line, column}, message});
}

// nccl-tests' names of element types and their bytes (src/common.cu, all versions).
std::optional<int> element_bytes(std::string_view type) {
  static const std::map<std::string_view, int> known{
      {"int8", 1},     {"uint8", 1},  {"char", 1},    {"int32", 4},    {"int", 4},
      {"uint32", 4},   {"int64", 8},  {"uint64", 8},  {"half", 2},     {"float", 4},
      {"double", 8},   {"f8e4m3", 1}, {"f8e5m2", 1},  {"fp8_e4m3", 1}, {"fp8_e5m2", 1},
      {"bfloat16", 2}, {"bf16", 2},   {"float16", 2}, {"float32", 4}};
  const auto found = known.find(type);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

bool is_operator(std::string_view word) {
  static const std::set<std::string_view> known{"sum", "prod",   "max",  "min",
                                                "avg", "mulsum", "none", "all"};
  return known.count(word) > 0;
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> out;
  std::size_t at = 0;
  while (at < line.size()) {
    while (at < line.size() && std::isspace(static_cast<unsigned char>(line[at])) != 0) {
      ++at;
    }
    const std::size_t begin = at;
    while (at < line.size() && std::isspace(static_cast<unsigned char>(line[at])) == 0) {
      ++at;
    }
    if (at > begin) {
      out.push_back(line.substr(begin, at - begin));
    }
  }
  return out;
}

template <class T>
std::optional<T> number(std::string_view word) {
  T value{};
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || stop != word.data() + word.size()) {
    return std::nullopt;
  }
  return value;
}

// "[1,0]<stdout>:8" and "[STAT]:393216" hold the size behind the launcher's prefix.
std::string_view behind_prefix(std::string_view word) {
  const std::size_t colon = word.rfind(':');
  return colon == std::string_view::npos ? word : word.substr(colon + 1);
}

struct Row {
  std::int64_t size = 0, count = 0;
  int element = 0;
  std::string redop;  // "": not printed
  std::optional<int> root;
  double microseconds[2] = {0, 0};  // out of place, in place
  bool has_in_place = false;
  double bus_bandwidth = 0;
  bool in_place_unchecked = false;  // #wrong is N/A in place alone: all-to-all
  bool unchecked = false;           // N/A out of place too
};

enum class Kind { other, header, row, cut };

bool is_header(const std::vector<std::string_view>& w) {
  for (std::size_t i = 0; i + 3 < w.size(); ++i) {
    const std::string_view first = behind_prefix(w[i]);
    if ((first == "size" || first == "#size") && w[i + 1] == "count" && w[i + 2] == "type") {
      return std::find(w.begin(), w.end(), "time") != w.end();
    }
  }
  return false;
}

bool checked_field(std::string_view word) {
  return word == "N/A" || word == "nan" || word == "-nan" || number<double>(word).has_value();
}

// What the open table's header names.
struct Columns {
  bool redop = true;
  std::size_t halves = 2;  // out of place and in place
};

struct Line {
  Kind kind = Kind::other;
  Row row;
  Columns columns;  // of a header
};

// `in_table`: a header came before, so that two whole numbers alone are a row cut short.
Line read_line(std::string_view text, bool in_table, std::size_t halves) {
  Line out;
  const auto w = words(text);
  if (is_header(w)) {
    out.kind = Kind::header;
    out.columns.redop = std::find(w.begin(), w.end(), "redop") != w.end();
    out.columns.halves = w.end() - std::find(w.begin(), w.end(), "time") > 4 ? 2 : 1;
    return out;
  }
  if (std::find(w.begin(), w.end(), "#") != w.end()) {
    return out;
  }
  for (std::size_t i = 0; i + 1 < w.size() && i < 4; ++i) {
    const auto size = number<std::int64_t>(i == 0 ? behind_prefix(w[i]) : w[i]);
    const auto count = number<std::int64_t>(w[i + 1]);
    if (!size || !count || *size < 0 || *count < 0 || *size > kLargestSize) {
      continue;
    }
    if (i + 2 == w.size()) {
      out.kind = in_table ? Kind::cut : Kind::other;
      return out;
    }
    const auto element = element_bytes(w[i + 2]);
    if (!element) {
      // "4096 1024 flo" ends in the middle of a row; prose goes on.
      out.kind = in_table && i + 3 == w.size() ? Kind::cut : Kind::other;
      return out;
    }
    out.kind = Kind::cut;
    Row row;
    row.size = *size;
    row.count = *count;
    row.element = *element;
    std::size_t at = i + 3;
    if (at < w.size() && is_operator(w[at])) {
      row.redop = w[at++];
    }
    const std::size_t left = w.size() - at;
    if (left == 4 * halves + 1) {
      row.root = number<int>(w[at++]);
      if (!row.root) {
        return out;
      }
    } else if (left != 4 * halves) {
      return out;
    }
    for (std::size_t h = 0; h < halves; ++h) {
      const auto time = number<double>(w[at + 4 * h]);
      const auto algorithm = number<double>(w[at + 4 * h + 1]);
      const auto bus = number<double>(w[at + 4 * h + 2]);
      if (!time || !algorithm || !bus || !checked_field(w[at + 4 * h + 3]) ||
          !std::isfinite(*time) || *time < 0 || *time > kLongestMicroseconds) {
        return out;
      }
      row.microseconds[h] = *time;
      const bool unchecked = w[at + 4 * h + 3] == "N/A";
      if (h == 0) {
        row.bus_bandwidth = *bus;
        row.unchecked = unchecked;
      } else {
        row.has_in_place = true;
        row.in_place_unchecked = unchecked && !row.unchecked;
      }
    }
    out.kind = Kind::row;
    out.row = row;
    return out;
  }
  return out;
}

// "all_reduce" in "./build/all_reduce_perf -b 8" or "# Collective test starting: all_reduce_perf".
std::string named_program(std::string_view line) {
  std::string name;
  for (std::size_t at = line.find("_perf"); at != std::string_view::npos;
       at = line.find("_perf", at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(line[begin - 1])) != 0 ||
                         line[begin - 1] == '_')) {
      --begin;
    }
    const std::string found = collective_name(line.substr(begin, at - begin));
    name = found.empty() ? name : found;
  }
  return name;
}

// What a table's columns say by themselves; several where they cannot tell. One rank's share is the
// whole.
std::set<std::string> possible(const std::vector<Row>& rows, bool redop_column, bool one_rank) {
  std::set<std::string> all(collective_names().begin(), collective_names().end());
  const auto keep = [&](const std::set<std::string>& these) {
    std::set<std::string> both;
    std::set_intersection(all.begin(), all.end(), these.begin(), these.end(),
                          std::inserter(both, both.begin()));
    all = both;
  };
  for (const Row& r : rows) {
    if (r.size == 0) {
      continue;
    }
    const bool reduces = !r.redop.empty() && r.redop != "none";
    const bool rooted = r.root && *r.root >= 0;
    if (reduces) {
      keep({"all_reduce", "reduce", "reduce_scatter"});
    } else {
      keep({"all_gather", "alltoall", "broadcast", "gather", "hypercube", "scatter", "sendrecv"});
    }
    if (r.root) {
      keep(rooted ? std::set<std::string>{"broadcast", "gather", "reduce", "scatter"}
                  : std::set<std::string>{"all_gather", "all_reduce", "alltoall", "hypercube",
                                          "reduce_scatter", "sendrecv"});
    } else if (reduces) {
      keep({"all_reduce", "reduce_scatter"});  // reduce always printed its root
    } else if (!redop_column) {
      keep({"all_gather"});  // all others had the column, though empty
    } else if (r.redop.empty()) {
      keep({"alltoall", "hypercube", "sendrecv"});
    }
    // Whole buffers count all their elements, sharded ones a rank's share of them.
    if (!one_rank) {
      keep(r.size % r.element == 0 && r.count == r.size / r.element
               ? std::set<std::string>{"all_reduce", "broadcast", "reduce", "sendrecv"}
               : std::set<std::string>{"all_gather", "alltoall", "gather", "hypercube",
                                       "reduce_scatter", "scatter"});
    }
    if (r.in_place_unchecked) {
      keep({"alltoall", "sendrecv", "hypercube"});  // in place they have no meaning
    }
  }
  return all;
}

std::string most_likely(const std::set<std::string>& names, const std::vector<Row>& rows) {
  if (names.size() == 1) {
    return *names.begin();
  }
  // A checked all-to-all prints N/A in place; hypercube is not run in practice.
  const bool checked = std::any_of(rows.begin(), rows.end(),
                                   [](const Row& r) { return r.has_in_place && !r.unchecked; });
  const bool in_place_checked = checked && std::none_of(rows.begin(), rows.end(), [](const Row& r) {
                                  return r.in_place_unchecked;
                                });
  if (in_place_checked && names.count("all_gather") > 0) {
    return "all_gather";
  }
  if (checked && !in_place_checked && names.count("alltoall") > 0) {
    return "alltoall";
  }
  return "";
}

// "all_gather" of "a100-40g-1n8-superbench-allgather.txt".
std::string named_in(const std::string& file) {
  std::string flat;
  for (const char c : fs::path(file).stem().string()) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      flat += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  std::string best;
  std::size_t longest = 0;
  for (const std::string& name : collective_names()) {
    std::string plain = name;
    std::erase(plain, '_');
    if (flat.find(plain) != std::string::npos && plain.size() > longest) {
      best = name;
      longest = plain.size();
    }
  }
  return best;
}

// The list of devices above a table: "#  Rank  3 Group  0 Pid 12 on host1 device  3 [0x1a] ...".
struct Devices {
  std::vector<std::string> hosts;  // in order of appearance
  std::map<std::string, std::map<int, int>> ranks;
  int listed = 0;
  int highest = -1;

  void read(std::string_view line) {
    const auto w = words(line);
    for (std::size_t i = 0; i + 1 < w.size(); ++i) {
      if (w[i] != "Rank") {
        continue;
      }
      const auto rank = number<int>(w[i + 1]);
      const auto on = std::find(w.begin() + static_cast<std::ptrdiff_t>(i), w.end(), "on");
      if (!rank || *rank < 0 || *rank >= kMostRanks || w.end() - on < 4 || on[2] != "device") {
        return;
      }
      const std::string host(on[1]);
      if (ranks.count(host) == 0) {
        hosts.push_back(host);
      }
      ++ranks[host][number<int>(on[3]).value_or(0)];
      ++listed;
      highest = std::max(highest, *rank);
      return;
    }
  }

  // Ranks of each node. One name may stand for several nodes (containers): a device that comes
  // twice is on another.
  std::vector<int> per_node() const {
    if (listed == 0 || highest + 1 != listed) {
      return {};
    }
    std::vector<int> out;
    for (const std::string& host : hosts) {
      const auto& devices = ranks.at(host);
      int copies = 0;
      for (const auto& [device, times] : devices) {
        copies = std::max(copies, times);
      }
      for (int c = 0; c < copies; ++c) {
        out.push_back(static_cast<int>(std::count_if(devices.begin(), devices.end(),
                                                     [&](const auto& d) { return d.second > c; })));
      }
    }
    return out;
  }
};

// Whether the bus bandwidth that the table printed is that of so many ranks; documents leave out
// device lines. Not over algbw: early versions printed it with the factor in it.
bool plausible(const std::string& collective, int ranks, const std::vector<Row>& rows) {
  const Row* largest = nullptr;
  for (const Row& r : rows) {
    if (r.bus_bandwidth >= 1 && r.microseconds[0] > 0 &&
        (largest == nullptr || r.bus_bandwidth > largest->bus_bandwidth)) {
      largest = &r;
    }
  }
  const double n = ranks;
  const bool all_reduce = collective == "all_reduce";
  if (largest == nullptr || ranks < 1 ||
      (!all_reduce && collective != "all_gather" && collective != "reduce_scatter" &&
       collective != "alltoall")) {
    return true;
  }
  const double factor = (all_reduce ? 2 : 1) * (n - 1) / n;
  const double rate = static_cast<double>(largest->size) / largest->microseconds[0] * 1e-3;
  constexpr double kRounding = 0.01;  // of both columns
  return std::abs(largest->bus_bandwidth / rate - factor) <= 2 * kRounding;
}

// What "# nThread 1 nGpus 8 minBytes 8 maxBytes 1024 step: 2(factor)" promises.
struct Promise {
  std::int64_t most = 0;
  double factor = 0;
  std::int64_t step = 0;

  void read(std::string_view line) {
    const auto w = words(line);
    for (std::size_t i = 0; i + 1 < w.size(); ++i) {
      if (w[i] == "maxBytes") {
        most = number<std::int64_t>(w[i + 1]).value_or(0);
      } else if (w[i] == "step:") {
        const std::string_view value = w[i + 1].substr(0, w[i + 1].find('('));
        const auto amount = number<double>(value).value_or(0);
        const bool times = w[i + 1].find("factor") != std::string_view::npos;
        factor = times ? amount : 0;
        step = times ? 0 : static_cast<std::int64_t>(amount);
      }
    }
  }
  // Whether a size is still to come after `last`. Sharded operations round sizes down: just below
  // the most, the next one may have been beyond it.
  bool goes_on(std::int64_t last) const {
    constexpr double kRounding = 0.98;
    const double now = static_cast<double>(last);
    const double end = static_cast<double>(most);
    const double next = factor > 1 ? now * factor : step > 0 ? now + static_cast<double>(step) : 0;
    return next > 0 && (next == end || next <= kRounding * end);
  }
};

class Parser {
 public:
  Parser(std::string_view text, std::string name) : text_(text), file_(std::move(name)) {}

  CollectiveLog run() {
    CollectiveLog log;
    log.file = file_;
    int line = 0;
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      ++line;
      one(text_.substr(at, end - at), line, log);
      at = end + 1;
    }
    finish(log, std::max(line, 1), false);
    if (log.runs.empty()) {
      fail(file_, 1, "there is no nccl-tests table; expected lines of size, count, type, time...");
    }
    return log;
  }

 private:
  void one(std::string_view text, int line, CollectiveLog& log) {
    const Line parsed = read_line(text, in_table(), in_table() ? columns_.halves : 2);
    switch (parsed.kind) {
      case Kind::header:
        finish(log, line, true);
        header_ = line;
        columns_ = parsed.columns;
        ended_ = false;
        return;
      case Kind::row:
        if (header_ == 0 || ended_) {  // an excerpt without its header
          finish(log, line, true);
          header_ = line;
          columns_ = {};
          ended_ = false;
        }
        rows_.push_back(parsed.row);
        lines_.push_back(line);
        return;
      case Kind::cut:
        fail(file_, line,
             "the row is cut short or no row of nccl-tests; expected size, count, type, redop, "
             "root, time, algbw, busbw and #wrong");
      case Kind::other:
        break;
    }
    if (text.find("minBytes") != std::string_view::npos &&
        text.find("nThread") != std::string_view::npos) {
      finish(log, line, true);
      devices_ = {};
      promise_ = {};
      promise_.read(text);
    } else if (text.find("Rank") != std::string_view::npos && !in_table()) {
      devices_.read(text);
    } else if (text.find("Out of bounds values") != std::string_view::npos ||
               text.find("Avg bus bandwidth") != std::string_view::npos ||
               text.find("```") != std::string_view::npos) {
      ended_ = ended_ || !rows_.empty();
      complete_ = complete_ || text.find("```") == std::string_view::npos;
    }
    // Prose behind a table speaks of the program too; a table is named above it, or by the line
    // that starts the next.
    if (!in_table()) {
      if (const std::string name = named_program(text); !name.empty()) {
        program_ = name;
      }
    }
  }

  bool in_table() const { return header_ > 0 && !ended_; }

  void finish(CollectiveLog& log, int line, bool more) {
    if (header_ > 0 && rows_.empty()) {
      fail(file_, header_, "the table has no rows; expected at least one behind its header");
    }
    if (rows_.empty()) {
      return;
    }
    if (!more && !complete_ && promise_.goes_on(rows_.back().size)) {
      fail(file_, line,
           fmt::format("the log ends at {} bytes; expected sizes to {}", rows_.back().size,
                       promise_.most));
    }
    CollectiveRun run;
    run.line = header_;
    run.ranks_per_node = devices_.per_node();
    const auto names = possible(rows_, columns_.redop, run.ranks_per_node == std::vector<int>{1});
    std::string name = program_;
    if (names.count(name) == 0) {
      name = most_likely(names, rows_);
      const std::string from_file = named_in(file_);
      if (names.count(from_file) > 0) {
        name = from_file;
      }
    }
    int ranks = 0;
    for (const int n : run.ranks_per_node) {
      ranks += n;
    }
    if (!plausible(name, ranks, rows_)) {
      run.ranks_per_node.clear();
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Row& r = rows_[i];
      if (r.size == 0) {
        continue;  // too small for one element a rank: nothing was sent
      }
      run.points.push_back({name, r.size, r.microseconds[0] * 1e-6, false, lines_[i]});
      if (r.has_in_place) {
        run.points.push_back({name, r.size, r.microseconds[1] * 1e-6, true, lines_[i]});
      }
    }
    log.runs.push_back(std::move(run));
    rows_.clear();
    lines_.clear();
    header_ = 0;
    ended_ = complete_ = false;
  }

  std::string_view text_;
  std::string file_;
  std::string program_;
  Columns columns_;
  Devices devices_;
  Promise promise_;
  std::vector<Row> rows_;
  std::vector<int> lines_;
  int header_ = 0;  // line of the open table's header
  bool ended_ = false;
  bool complete_ = false;
};

std::string read_text(const fs::path& path) {
  const std::string file = path.string();
  std::error_code error;
  if (fs::is_directory(path, error)) {
    fail(file, 1, "is a directory; expected nccl-tests output or CSV");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    fail(file, 1, "cannot be read; expected nccl-tests output or CSV");
  }
  if (const auto size = fs::file_size(path, error); !error && size > kLargestFile) {
    fail(file, 1, "is larger than 256 MiB; expected nccl-tests output or CSV");
  }
  std::ostringstream all;
  all << in.rdbuf();
  return std::move(all).str();
}

// Control characters that no log has: terminals' colours are ESC.
void check_is_text(std::string_view text, const std::string& file) {
  int line = 1;
  int column = 1;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == '\n') {
      ++line;
      column = 0;
    } else if (byte < 0x20 && byte != '\t' && byte != '\r' && byte != '\f' && byte != 0x1b) {
      fail(file, line,
           fmt::format("the byte 0x{:02x} is no text; expected nccl-tests output or CSV", byte),
           column);
    }
    ++column;
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    fail(file, 1, "is empty; expected nccl-tests output or CSV");
  }
}

CollectiveLog read_csv(const fs::path& path) {
  const text::Table table = text::read_csv(path);
  const int collective = table.column("collective");
  const int size = table.column("size_bytes");
  const int time = table.column("time_us");
  const int in_place = table.column("inplace");
  for (const auto& [column, name] :
       {std::pair{collective, "collective"}, {size, "size_bytes"}, {time, "time_us"}}) {
    if (column < 0) {
      fail(
          table.file, 1,
          fmt::format("column '{}' is missing; expected collective, size_bytes and time_us", name));
    }
  }
  CollectiveLog log;
  log.file = table.file;
  CollectiveRun run;
  run.line = 1;
  std::vector<Fault> faults;
  constexpr std::size_t kMostFaults = 20;
  for (std::size_t i = 0; i < table.rows.size() && faults.size() < kMostFaults; ++i) {
    const auto& row = table.rows[i];
    const int line = static_cast<int>(i) + 2;
    const auto cell = [&](int column) -> const std::string& {
      return row[static_cast<std::size_t>(column)];
    };
    const std::string name = collective_name(cell(collective));
    const auto bytes = number<std::int64_t>(cell(size));
    const auto microseconds = number<double>(cell(time));
    std::string wrong;
    if (name.empty()) {
      wrong =
          fmt::format("'{}' is no collective; expected one such as all_reduce", cell(collective));
    } else if (!bytes || *bytes < 0 || *bytes > kLargestSize) {
      wrong = fmt::format("'{}' is no size in bytes; expected a whole number", cell(size));
    } else if (!microseconds || !std::isfinite(*microseconds) || *microseconds < 0 ||
               *microseconds > kLongestMicroseconds) {
      wrong = fmt::format("'{}' is no time; expected microseconds", cell(time));
    }
    if (!wrong.empty()) {
      faults.push_back({{table.file, line, 1}, wrong});
    } else if (*bytes > 0) {
      run.points.push_back({name, *bytes, *microseconds * 1e-6,
                            in_place >= 0 && (cell(in_place) == "1" || cell(in_place) == "true"),
                            line});
    }
  }
  if (!faults.empty()) {
    throw InputError(std::move(faults));
  }
  if (run.points.empty()) {
    fail(table.file, 1, "there are no rows; expected one measurement each");
  }
  log.runs.push_back(std::move(run));
  return log;
}

// `nodes` and `gpus_per_node` (else `nranks`) of the YAML beside a file.
std::vector<int> placement_beside(const fs::path& path) {
  fs::path yaml = path;
  yaml.replace_extension(".yaml");
  std::error_code error;
  if (yaml == path || !fs::is_regular_file(yaml, error)) {
    return {};
  }
  const text::Value doc = text::read_yaml(yaml);
  if (doc.kind != text::Value::Kind::map) {
    return {};
  }
  const auto whole = [&](const char* key) -> std::int64_t {
    const text::Value* v = doc.find(key);
    if (v == nullptr || v->kind == text::Value::Kind::null) {
      return 0;
    }
    const std::int64_t n = text::to_integer(*v);
    if (n < 1 || n > kMostRanks) {
      throw InputError(
          Fault{v->origin, fmt::format("{} is {}; expected 1 to {}", key, n, kMostRanks)});
    }
    return n;
  };
  const std::int64_t nodes = whole("nodes");
  const std::int64_t ranks = whole("nranks");
  std::int64_t each = whole("gpus_per_node");
  if (nodes > 0 && each == 0 && ranks % nodes == 0) {
    each = ranks / nodes;
  }
  if (nodes == 0 || each == 0 || nodes * each > kMostRanks) {
    return {};
  }
  return std::vector<int>(static_cast<std::size_t>(nodes), static_cast<int>(each));
}

}  // namespace

const std::vector<std::string>& collective_names() {
  static const std::vector<std::string> names{
      "all_gather", "all_reduce", "alltoall",       "broadcast", "gather",
      "hypercube",  "reduce",     "reduce_scatter", "scatter",   "sendrecv"};
  return names;
}

std::string collective_name(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  if (plain.ends_with("perf")) {
    plain.resize(plain.size() - 4);
  }
  for (const std::string& name : collective_names()) {
    std::string other = name;
    std::erase(other, '_');
    if (plain == other) {
      return name;
    }
  }
  return "";
}

CollectiveLog parse_nccl_log(std::string_view text, const std::string& name) {
  check_is_text(text, name);
  return Parser(text, name).run();
}

CollectiveLog read_collectives(const fs::path& file) {
  const std::string text = read_text(file);
  check_is_text(text, file.string());
  const std::string_view first = std::string_view(text).substr(0, text.find('\n'));
  const bool csv =
      first.find(',') != std::string_view::npos &&
      (file.extension() == ".csv" || first.find("size_bytes") != std::string_view::npos);
  CollectiveLog log = csv ? read_csv(file) : Parser(text, file.string()).run();
  const std::vector<int> beside = placement_beside(file);
  for (CollectiveRun& run : log.runs) {
    if (run.ranks_per_node.empty()) {
      run.ranks_per_node = beside;
    }
  }
  return log;
}

}  // namespace stepcast::interop
