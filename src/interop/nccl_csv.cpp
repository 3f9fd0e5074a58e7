// Reads files of measured collectives: detects their kind (a log, CSV, lines of calibrate-gpu), and
// reads CSV and the YAML beside a file.
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "gpu_collectives.h"
#include "nccl_line.h"
#include "nccl_parse.h"
#include "stepcast/interop/nccl_log.h"
#include "stepcast/text/document.h"

namespace stepcast::interop {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLargestLog = 256u << 20;

[[noreturn]] void fail(const std::string& file, int line, const std::string& message) {
  throw InputError(Fault{{file, line, 1}, message});
}

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
  if (const auto size = fs::file_size(path, error); !error && size > kLargestLog) {
    fail(file, 1, "is larger than 256 MiB; expected nccl-tests output or CSV");
  }
  std::ostringstream all;
  all << in.rdbuf();
  return std::move(all).str();
}

CollectiveLog read_csv(const fs::path& path) {
  const text::Table table = text::read_csv(path);
  const int collective = table.column("collective");
  const int size = table.column("size_bytes");
  const int time = table.column("time_us");
  const int in_place = table.column("inplace");
  const int type = table.column("dtype");
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
  constexpr std::size_t kMaxFaults = 20;
  for (std::size_t i = 0; i < table.rows.size() && faults.size() < kMaxFaults; ++i) {
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
      wrong = fmt::format("'{}' is not a collective; expected one such as all_reduce",
                          cell(collective));
    } else if (!bytes || *bytes < 0 || *bytes > kLargestSize) {
      wrong = fmt::format("'{}' is not a size in bytes; expected a whole number", cell(size));
    } else if (!microseconds || !std::isfinite(*microseconds) || *microseconds < 0 ||
               *microseconds > kLongestMicroseconds) {
      wrong = fmt::format("'{}' is not a time; expected microseconds", cell(time));
    }
    if (!wrong.empty()) {
      faults.push_back({{table.file, line, 1}, wrong});
    } else if (*bytes > 0) {
      interop::CollectivePoint p;
      p.collective = name;
      p.bytes = *bytes;
      p.seconds = *microseconds * 1e-6;
      p.in_place = in_place >= 0 && (cell(in_place) == "1" || cell(in_place) == "true");
      p.line = line;
      p.type = type >= 0 ? cell(type) : "";
      run.points.push_back(std::move(p));
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

struct Beside {
  std::vector<int> ranks_per_node;
  std::string nccl_version;
  std::string device;
};

// The YAML beside a file: `nodes` and `gpus_per_node` (else `nranks`), `nccl_version`, `gpu`. A
// calibration file that was fitted to a log is not a description of the log.
Beside facts_beside(const fs::path& path) {
  fs::path yaml = path;
  yaml.replace_extension(".yaml");
  std::error_code error;
  if (yaml == path || !fs::is_regular_file(yaml, error)) {
    return {};
  }
  const text::Value doc = text::read_yaml(yaml);
  if (doc.kind != text::Value::Kind::map || doc.find("kind") != nullptr) {
    return {};
  }
  Beside out;
  const auto word = [&](const char* key) {
    const text::Value* v = doc.find(key);
    return v != nullptr && v->kind == text::Value::Kind::scalar ? v->scalar : std::string();
  };
  out.nccl_version = version_name(word("nccl_version"));
  out.device = word("gpu");
  const auto whole = [&](const char* key) -> std::int64_t {
    const text::Value* v = doc.find(key);
    if (v == nullptr || v->kind == text::Value::Kind::null) {
      return 0;
    }
    const std::int64_t n = text::to_integer(*v);
    if (n < 1 || n > kMaxRanks) {
      throw InputError(
          Fault{v->origin, fmt::format("{} is {}; expected 1 to {}", key, n, kMaxRanks)});
    }
    return n;
  };
  const std::int64_t nodes = whole("nodes");
  const std::int64_t ranks = whole("nranks");
  std::int64_t each = whole("gpus_per_node");
  if (nodes > 0 && each == 0 && ranks % nodes == 0) {
    each = ranks / nodes;
  }
  if (nodes > 0 && each > 0 && nodes * each <= kMaxRanks) {
    out.ranks_per_node.assign(static_cast<std::size_t>(nodes), static_cast<int>(each));
  }
  return out;
}

}  // namespace

CollectiveLog read_collectives(const fs::path& file) {
  const std::string text = read_text(file);
  check_is_text(text, file.string());
  if (is_json_lines(text)) {
    return collectives_of(parse_gpu_measurements(text, file.string()));
  }
  const std::string_view first = std::string_view(text).substr(0, text.find('\n'));
  const bool csv =
      first.find(',') != std::string_view::npos &&
      (file.extension() == ".csv" || first.find("size_bytes") != std::string_view::npos);
  CollectiveLog log = csv ? read_csv(file) : parse_nccl_log(text, file.string());
  const Beside beside = facts_beside(file);
  for (CollectiveRun& run : log.runs) {
    if (run.ranks_per_node.empty()) {
      run.ranks_per_node = beside.ranks_per_node;
    }
    if (run.nccl_version.empty()) {
      run.nccl_version = beside.nccl_version;
    }
    if (run.devices.empty() && !beside.device.empty()) {
      run.devices = {beside.device};
    }
  }
  return log;
}

}  // namespace stepcast::interop
