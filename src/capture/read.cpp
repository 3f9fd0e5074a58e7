#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "read_tasks.h"
#include "stepcast/capture/capture.h"
#include "stepcast/text/map.h"

namespace stepcast::capture {
namespace {

using text::need;
using text::Value;

constexpr std::size_t kBiggest = std::size_t{1} << 28;  // of the text
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
constexpr int kMostRanks = 1 << 20;
constexpr int kMostStreams = 255;
constexpr int kMostExperts = 1 << 20;

std::int64_t amount(const Value& map, std::string_view key) {
  const Value* v = map.find(key);
  return v == nullptr ? 0 : whole(*v, 0, kMostBytes, "an amount");
}

std::string word(const Value& map, std::string_view key) {
  const Value* v = map.find(key);
  return v == nullptr ? "" : text::to_string(*v);
}

std::vector<std::int64_t> amounts(const Value& v, std::size_t count, std::int64_t least) {
  const Value& list = text::expect_list(v, "expected a list of whole numbers");
  if (list.items.size() != count) {
    text::fault(v.origin, fmt::format("{} numbers; expected {}", list.items.size(), count));
  }
  std::vector<std::int64_t> out;
  for (const Value& one : list.items) {
    out.push_back(whole(one, least, std::int64_t{1} << 40, "a size"));
  }
  return out;
}

Product read_product(const Value& v, const Value& of) {
  const std::vector<std::int64_t> n = amounts(v, 4, 1);
  const std::string order = word(of, "order");
  return {n[0],
          n[1],
          n[2],
          n[3],
          order.starts_with("t"),
          order.ends_with("t"),
          amount(of, "grouped") == 1};
}

Attention read_attention(const Value& v, const Value& of) {
  const std::vector<std::int64_t> n = amounts(v, 8, 0);
  Attention out = {
      n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7] == 1, amount(of, "backward") == 1};
  if (const Value* kernel = of.find("kernel")) {
    const auto known = stepcast::parse<AttentionKernel>(text::to_string(*kernel));
    if (!known || *known == AttentionKernel::unfused) {
      text::fault(kernel->origin,
                  fmt::format("kernel is '{}'; expected efficient, flash1, flash2, flash3 or cudnn",
                              kernel->scalar));
    }
    out.kernel = *known;
  }
  return out;
}

Operator read_operator(const Value& v) {
  text::expect_map(v, "expected an operator, which is a map");
  Operator out;
  out.name = text::to_string(need(v, "name"));
  out.type = word(v, "type");
  out.bytes = amount(v, "bytes");
  if (const Value* routed = v.find("routed")) {
    const auto known = stepcast::parse<Routed>(text::to_string(*routed));
    if (!known) {
      text::fault(routed->origin,
                  fmt::format("routed is '{}'; expected rows or sum", routed->scalar));
    }
    out.routed = *known;
  }
  if (const Value* sizes = v.find("gemm")) {
    out.product = read_product(*sizes, v);
  } else if (const Value* shape = v.find("attention")) {
    out.attention = read_attention(*shape, v);
  }
  return out;
}

Group read_group(const Value& v, int world) {
  Group out;
  out.name = text::to_string(need(v, "name"));
  for (const Value& one : text::expect_list(need(v, "ranks"), "expected a list of ranks").items) {
    out.ranks.push_back(static_cast<int>(whole(one, 0, world - 1, "a rank")));
  }
  if (out.ranks.empty()) {
    text::fault(v.origin, "a group without ranks");
  }
  if (std::set<int>(out.ranks.begin(), out.ranks.end()).size() < out.ranks.size()) {
    text::fault(v.origin, "a group that has a rank twice");
  }
  if (const Value* routed = v.find("routed")) {
    const std::vector<std::int64_t> n = amounts(*routed, 2, 1);
    const auto ranks = static_cast<std::int64_t>(out.ranks.size());
    if (n[0] > kMostExperts || n[0] % ranks != 0) {
      text::fault(routed->origin,
                  fmt::format("{} experts of {} ranks; expected a multiple, up to {}", n[0], ranks,
                              kMostExperts));
    }
    out.routed = RoutedExperts{static_cast<int>(n[0]), n[1]};
  }
  return out;
}

Memory read_memory(const Value& v) {
  return {.first_peak = amount(v, "first_peak"),
          .peak = amount(v, "peak"),
          .reserved = amount(v, "reserved"),
          .between = amount(v, "between"),
          .parameters = amount(v, "parameters"),
          .gradients = amount(v, "gradients"),
          .optimizer = amount(v, "optimizer"),
          .trained = amount(v, "trained")};
}

// Waits name tasks that the rank has.
void check_waits(const Rank& rank, const Value& tasks) {
  std::vector<int> issued(rank.streams.size(), 0);
  for (const Task& task : rank.tasks) {
    if (task.kind != TaskKind::sync && task.kind != TaskKind::host) {
      ++issued[static_cast<std::size_t>(task.stream)];
    }
  }
  for (std::size_t i = 0; i < rank.tasks.size(); ++i) {
    for (const Wait& wait : rank.tasks[i].waits) {
      if (const int most = issued[static_cast<std::size_t>(wait.stream)]; wait.position > most) {
        text::fault(tasks.items[i].origin,
                    fmt::format("waits for task {} of stream {}, which has {}", wait.position,
                                wait.stream, most));
      }
    }
  }
}

Rank read_rank(const Value& v, int world) {
  Rank out;
  out.rank = static_cast<int>(whole(need(v, "rank"), 0, world - 1, "rank"));
  const Value& streams = text::expect_list(need(v, "streams"), "expected a list of streams");
  if (streams.items.empty() || streams.items.size() > kMostStreams) {
    text::fault(streams.origin,
                fmt::format("{} streams; expected 1 to {}", streams.items.size(), kMostStreams));
  }
  for (const Value& one : streams.items) {
    out.streams.push_back(text::to_string(one));
  }
  for (const Value& one : text::expect_list(need(v, "groups"), "expected a list of groups").items) {
    out.groups.push_back(read_group(one, world));
  }
  for (const Value& one :
       text::expect_list(need(v, "operators"), "expected a list of operators").items) {
    out.operators.push_back(read_operator(one));
  }
  const Value& tasks = text::expect_list(need(v, "tasks"), "expected a list of tasks");
  out.tasks.reserve(tasks.items.size());
  for (const Value& one : tasks.items) {
    out.tasks.push_back(read_task(one, out));
  }
  check_waits(out, tasks);
  out.memory = read_memory(text::expect_map(need(v, "memory"), "expected a map of bytes"));
  if (const Value* remarks = v.find("remarks")) {
    for (const Value& one : text::expect_list(*remarks, "expected a list of remarks").items) {
      out.remarks.push_back(printable(text::to_string(one)));
    }
  }
  return out;
}

void check_header(const Value& head) {
  text::expect_map(head, "expected the header of a program file, which is a map");
  const Value* format = head.find("format");
  if (format == nullptr || format->scalar != "stepcast-program") {
    text::fault(head.origin, "is no program file; expected one that simulate capture wrote");
  }
  const Value& version = need(head, "version");
  if (const std::int64_t v = text::to_integer(version); v != kVersion) {
    text::fault(
        version.origin,
        fmt::format("version {} of the format; expected {}: capture it again", v, kVersion));
  }
}

// Another file is named for what it is not, ahead of faults of its JSON.
void check_kind(std::string_view text, const std::string& name) {
  const std::string_view first = text.substr(0, text.find('\n'));
  if (!text.empty() && first.find("stepcast-program") == std::string_view::npos) {
    text::fault({name, 1, 1}, "is no program file; expected one that simulate capture wrote");
  }
}

}  // namespace

Capture read(const std::filesystem::path& file) {
  const std::string name = file.string();
  const std::string text = text::read_packed_text(file, kBiggest);
  check_kind(text, name);
  const std::vector<Value> lines = text::parse_json_lines(text, name);
  if (lines.empty()) {
    text::fault({name, 1, 1}, "is empty; expected a program file of simulate capture");
  }
  const Value& head = lines.front();
  check_header(head);
  Capture out;
  out.file = name;
  out.world_size = static_cast<int>(whole(need(head, "world_size"), 1, kMostRanks, "world_size"));
  out.command = printable(word(head, "command"));
  out.torch = printable(word(head, "torch"));
  out.host = printable(word(head, "host"));
  for (std::size_t i = 1; i < lines.size(); ++i) {
    text::expect_map(lines[i], "expected a rank, which is a map");
    out.ranks.push_back(read_rank(lines[i], out.world_size));
    if (out.ranks.back().rank <= (i > 1 ? out.ranks[i - 2].rank : -1)) {
      text::fault(lines[i].origin, "ranks are not in order");
    }
  }
  if (out.ranks.empty() || out.ranks.front().rank != 0) {
    text::fault({name, 1, 1}, "does not hold rank 0; expected it first");
  }
  return out;
}

int recorded_for(const Capture& capture, int rank) {
  const auto above =
      std::upper_bound(capture.ranks.begin(), capture.ranks.end(), rank,
                       [](int r, const Rank& recorded) { return r < recorded.rank; });
  return static_cast<int>(above - capture.ranks.begin()) - 1;
}

}  // namespace stepcast::capture
