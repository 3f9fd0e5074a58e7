// Reads nccl-tests output: from lines to runs. nccl_line.cpp reads a line; this file keeps
// the facts that are printed around a table.
#include "stepcast/interop/nccl_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "nccl_collective.h"
#include "nccl_devices.h"
#include "nccl_line.h"
#include "nccl_parse.h"
#include "stepcast/base/diagnostics.h"

namespace stepcast::interop {
namespace {

[[noreturn]] void fail_at(const std::string& file, int line, const std::string& message,
                          int column = 1) {
  throw InputError(Fault{{file, line, column}, message});
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string lower(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

// The value that a line sets NCCL_ALGO or NCCL_PROTO to: "-x NCCL_ALGO=Ring", "NCCL_ALGO set by
// environment to Ring". Lists and exclusions ("^Tree", "allreduce:tree") are not read.
std::string forced(std::string_view line, std::string_view variable) {
  const std::size_t at = line.find(variable);
  if (at == std::string_view::npos) {
    return "";
  }
  std::string_view rest = line.substr(at + variable.size());
  constexpr std::string_view kSet = " set by environment to ";
  if (rest.starts_with("=")) {
    rest.remove_prefix(1);
  } else if (rest.starts_with(kSet)) {
    rest.remove_prefix(kSet.size());
  } else {
    return "";
  }
  if (rest.starts_with("\"") || rest.starts_with("'")) {
    rest.remove_prefix(1);
  }
  std::size_t end = 0;
  while (end < rest.size() && std::isalnum(static_cast<unsigned char>(rest[end])) != 0) {
    ++end;
  }
  const char next = end < rest.size() ? rest[end] : ' ';
  return next == ',' || next == ':' || next == ';' ? "" : lower(rest.substr(0, end));
}

// The version of NCCL in "NCCL version 2.26.6+cuda12.8", "nccl-library=22807", "nccl-tests
// version 2.17.4 ...".
std::string stated_version(std::string_view line) {
  const auto word_behind = [&](std::string_view mark) -> std::string_view {
    const std::size_t at = line.find(mark);
    if (at == std::string_view::npos) {
      return {};
    }
    const std::string_view rest = line.substr(at + mark.size());
    const Words w = words(rest);
    return w.empty() || w[0].data() != rest.data() ? std::string_view() : w[0];
  };
  std::string_view found = word_behind("nccl-library=");
  if (found.empty()) {
    found = word_behind("NCCL version ");
  }
  // A version begins with a digit and has no quotes, since it is written into files as it is.
  constexpr std::size_t kLongest = 40;
  const bool good =
      !found.empty() && found.size() <= kLongest &&
      std::isdigit(static_cast<unsigned char>(found[0])) != 0 &&
      std::all_of(found.begin(), found.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '+' || c == '-';
      });
  return good ? version_name(found) : "";
}

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
      one(without_escapes(text_.substr(at, end - at)), line, log);
      at = end + 1;
    }
    finish(log, std::max(line, 1), false);
    if (log.runs.empty()) {
      fail_at(file_, 1,
              "there is no nccl-tests table; expected lines of size, count, type, time...");
    }
    return log;
  }

 private:
  bool in_table() const { return header_ > 0 && !ended_; }
  Line read(std::string_view text) const {
    return read_line(text, in_table(), in_table() ? columns_.halves : 2);
  }

  void one(const std::string& text, int line, CollectiveLog& log) {
    if (const auto before = before_message(text)) {
      message(*before, line, log);
      context(text, line, log);
      return;
    }
    if (!begun_.empty()) {  // the rest of a row that messages interrupted
      row_or_fault(read(begun_ + text), begun_line_, log);
      begun_.clear();
      return;
    }
    const Line parsed = read(text);
    switch (parsed.kind) {
      case Kind::header:
        finish(log, line, true);
        open(line, parsed.columns);
        return;
      case Kind::row:
      case Kind::cut:
        row_or_fault(parsed, line, log);
        return;
      case Kind::other:
        break;
    }
    context(text, line, log);
  }

  // A message of NCCL, with the part of a row that was printed before it.
  void message(const std::string& before, int line, CollectiveLog& log) {
    const std::string begun = begun_ + before + " ";
    const Line parsed = read(begun);
    if (parsed.kind == Kind::row) {
      row_or_fault(parsed, begun_.empty() ? line : begun_line_, log);
      begun_.clear();
    } else if (parsed.kind == Kind::cut && in_table()) {
      begun_line_ = begun_.empty() ? line : begun_line_;
      begun_ = begun;
    }
  }

  void open(int line, const Columns& columns) {
    if (columns.cpu_time) {
      fail_at(file_, line,
              "the table gives the host's time (nccl-tests -C 1); expected the default, the GPU's");
    }
    header_ = line;
    columns_ = columns;
    ended_ = false;
  }

  void row_or_fault(const Line& parsed, int line, CollectiveLog& log) {
    if (parsed.kind != Kind::row) {
      fail_at(file_, line,
              (parsed.why.empty() ? std::string("the row is cut short or no row of nccl-tests")
                                  : parsed.why) +
                  "; expected size, count, type, redop, root, time, algbw, busbw and #wrong");
    }
    if (header_ == 0 || ended_) {  // an excerpt without its header
      finish(log, line, true);
      open(line, {});
    }
    rows_.push_back(parsed.row);
    lines_.push_back(line);
  }

  // Reads the text around tables.
  void context(std::string_view text, int line, CollectiveLog& log) {
    if (std::string version = stated_version(text); !version.empty()) {
      version_ = std::move(version);
    }
    if (has(text, "minBytes") && has(text, "nThread")) {
      finish(log, line, true);
      devices_ = {};
      promise_ = {};
      promise_.read(text);
    } else if (has(text, "Rank") && !in_table()) {
      devices_.read(text);
    } else if (has(text, "Out of bounds values") || has(text, "Avg bus bandwidth") ||
               has(text, "```")) {
      ended_ = ended_ || !rows_.empty();
      complete_ = complete_ || !has(text, "```");
    }
    if (in_table()) {
      return;
    }
    // Text after a table may also name the program. A table's collective is named above it, or by
    // the line that starts the next one.
    if (const std::string name = named_program(text); !name.empty()) {
      program_ = name;
    }
    const auto force = [&](std::string_view variable, std::string& kept) {
      if (std::string value = forced(text, variable); !value.empty()) {
        kept = std::move(value);
      }
    };
    force("NCCL_ALGO", algorithm_);
    force("NCCL_PROTO", protocol_);
  }

  void finish(CollectiveLog& log, int line, bool more) {
    if (!begun_.empty()) {
      row_or_fault({}, begun_line_, log);
    }
    if (header_ > 0 && rows_.empty()) {
      fail_at(file_, header_, "the table has no rows; expected at least one after its header");
    }
    if (rows_.empty()) {
      return;
    }
    if (!more && !complete_ && promise_.goes_on(rows_.back().size)) {
      fail_at(file_, line,
              fmt::format("the log ends at {} bytes; expected sizes up to {}", rows_.back().size,
                          promise_.most()));
    }
    log.runs.push_back(run_of_table());
    rows_.clear();
    lines_.clear();
    header_ = 0;
    ended_ = complete_ = false;
    // The variable is assumed to be set for one command (mpirun -x NCCL_ALGO=Ring).
    algorithm_.clear();
    protocol_.clear();
  }

  CollectiveRun run_of_table() const {
    CollectiveRun run;
    run.line = header_;
    run.ranks_per_node = devices_.per_node();
    run.devices = devices_.names();
    run.nccl_version = version_;
    run.algorithm = algorithm_;
    run.protocol = protocol_;
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
      if (run.date.empty()) {
        run.date = r.date;
      }
      if (r.size == 0) {
        continue;  // less than one element per rank: nothing was sent
      }
      for (const bool in_place : {false, true}) {
        if (in_place && !r.has_in_place) {
          continue;
        }
        const std::size_t half = in_place ? 1 : 0;
        run.points.push_back({name, r.size, r.microseconds[half] * 1e-6, in_place, lines_[i],
                              r.type, r.wrong[half]});
      }
    }
    return run;
  }

  std::string_view text_;
  std::string file_;
  std::string program_, version_, algorithm_, protocol_;
  Columns columns_;
  Devices devices_;
  Promise promise_;
  std::vector<Row> rows_;
  std::vector<int> lines_;
  int header_ = 0;  // line of the open table's header
  bool ended_ = false;
  bool complete_ = false;
  std::string begun_;  // the beginning of a row that a message interrupted
  int begun_line_ = 0;
};

}  // namespace

void check_is_text(std::string_view text, const std::string& file) {
  int line = 1;
  int column = 1;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == '\n') {
      ++line;
      column = 0;
    } else if (byte < 0x20 && byte != '\t' && byte != '\r' && byte != '\f' && byte != 0x1b) {
      fail_at(file, line,
              fmt::format("the byte 0x{:02x} is not text; expected nccl-tests output or CSV", byte),
              column);
    }
    ++column;
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    fail_at(file, 1, "is empty; expected nccl-tests output or CSV");
  }
}

std::string version_name(std::string_view code) {
  const auto n = number<int>(code);
  constexpr int kFirst = 20900;  // from 2.9 on; versions before are X * 1000 + Y * 100 + Z
  return n && *n >= kFirst && *n < 100 * kFirst
             ? fmt::format("{}.{}.{}", *n / 10000, *n / 100 % 100, *n % 100)
             : std::string(code);
}

CollectiveLog parse_nccl_log(std::string_view text, const std::string& name) {
  check_is_text(text, name);
  return Parser(text, name).run();
}

}  // namespace stepcast::interop
