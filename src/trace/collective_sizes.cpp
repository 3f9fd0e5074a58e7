#include "collective_sizes.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "shapes.h"

namespace stepcast::trace {
namespace {

// "[0, 1, 2]"; nothing where the list was cut: "[0, 1, ..., 7]".
std::vector<int> parse_ranks(std::string_view text, int size) {
  std::vector<int> out;
  while (!text.empty()) {
    const auto from = text.find_first_of("0123456789");
    if (from == text.npos) {
      break;
    }
    int rank = 0;
    const auto [end, error] = std::from_chars(text.data() + from, text.data() + text.size(), rank);
    if (error != std::errc()) {
      return {};
    }
    out.push_back(rank);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  std::sort(out.begin(), out.end());
  return static_cast<int>(out.size()) == size ? out : std::vector<int>();
}

// What the fastest quarter of the calls stays below.
Time fast_quarter(std::vector<Time>& durations) {
  const auto at = static_cast<std::ptrdiff_t>((durations.size() - 1) / 4);
  std::nth_element(durations.begin(), durations.begin() + at, durations.end());
  return durations[static_cast<std::size_t>(at)];
}

}  // namespace

std::int64_t bytes_of(const CollectiveCall& call) {
  const std::int64_t elements = std::max(call.in_elements, call.out_elements);
  std::int64_t bytes = 0;
  return __builtin_mul_overflow(elements, bytes_of_type(call.dtype), &bytes) ? 0 : bytes;
}

std::uint32_t CollectiveSizes::add(const std::string& operation, const CollectiveCall& call,
                                   std::int64_t bytes, Time duration) {
  const auto [at, is_new] = numbers_.try_emplace({operation, call.group, call.ranks, bytes},
                                                 static_cast<std::uint32_t>(rows_.size()));
  if (is_new) {
    result::TraceCollective row;
    row.operation = operation;
    row.group = call.group;
    row.group_size = call.group_size;
    row.ranks = parse_ranks(call.ranks, call.group_size);
    row.bytes = bytes;
    rows_.push_back(std::move(row));
    durations_.emplace_back();
  }
  result::TraceCollective& row = rows_[at->second];
  ++row.count;
  row.time += duration;
  durations_[at->second].push_back(duration);
  return at->second;
}

void CollectiveSizes::finish(result::TraceRank& rank, RankCalls& calls) {
  std::vector<std::uint32_t> order(rows_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return rows_[a].time > rows_[b].time; });
  std::vector<std::uint32_t> place(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    rows_[order[i]].transfer = fast_quarter(durations_[order[i]]);
    rank.collectives.push_back(std::move(rows_[order[i]]));
  }
  for (RankCall& call : calls.calls) {
    call.size = call.size == kNone ? kNone : place[call.size];
  }
}

}  // namespace stepcast::trace
