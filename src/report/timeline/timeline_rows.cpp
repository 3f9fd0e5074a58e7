#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "timeline_data.h"

namespace stepcast::report {
namespace {

using program::Category;
using program::Slice;

constexpr std::int64_t kMaxTasks = 400'000;  // about 4 MB of a page

Time busy(const program::RankResult& r) {
  const auto of = [&](Category c) { return r.breakdown[static_cast<std::size_t>(c)]; };
  return of(Category::compute) + of(Category::recompute) + of(Category::optimizer);
}

// The rank of each stage that computes for longest.
std::map<int, std::uint32_t> busiest_ranks(const result::Report::Trace& trace) {
  std::map<int, std::uint32_t> rank_of;  // by stage
  for (std::uint32_t r = 0; r < trace.world.ranks.size(); ++r) {
    const auto [it, fresh] = rank_of.try_emplace(program_of(trace, r).stage, r);
    if (!fresh && busy(trace.timeline.ranks[r]) > busy(trace.timeline.ranks[it->second])) {
      it->second = r;
    }
  }
  return rank_of;
}

// Of these ranks, evenly spread ones that together have few enough tasks.
std::set<std::uint32_t> kept_ranks(const result::Report::Trace& trace,
                                   const std::map<int, std::uint32_t>& rank_of) {
  std::set<std::uint32_t> shown;
  for (const auto& [stage, rank] : rank_of) {
    shown.insert(rank);
  }
  const std::int64_t all = std::count_if(trace.timeline.slices.begin(), trace.timeline.slices.end(),
                                         [&](const Slice& s) { return shown.count(s.rank) > 0; });
  const auto every = static_cast<std::size_t>((all + kMaxTasks - 1) / kMaxTasks);
  std::set<std::uint32_t> kept;
  std::size_t n = 0;
  for (const auto& [stage, rank] : rank_of) {
    if (every <= 1 || n % every == 0) {
      kept.insert(rank);
    }
    ++n;
  }
  return kept;
}

// Leaves the tasks that arrive first, where there are more than a page should hold.
void shorten_rows(const result::Report::Trace& trace, TimelineRows& out) {
  if (out.tasks <= kMaxTasks) {
    return;
  }
  std::vector<Time> arrivals;
  for (const TimelineRow& row : out.rows) {
    for (const std::uint32_t i : row.slices) {
      arrivals.push_back(trace.timeline.slices[i].arrive);
    }
  }
  const auto last = arrivals.begin() + kMaxTasks;
  std::nth_element(arrivals.begin(), last, arrivals.end());
  out.until = std::max(Time{1}, *last);
  out.tasks =
      std::count_if(arrivals.begin(), arrivals.end(), [&](Time t) { return t < out.until; });
}

}  // namespace

const program::Program& program_of(const result::Report::Trace& t, std::uint32_t rank) {
  return t.world.programs[t.world.ranks[rank].program];
}

TimelineRows timeline_rows(const result::Report::Trace& trace) {
  const std::map<int, std::uint32_t> rank_of = busiest_ranks(trace);
  const std::set<std::uint32_t> kept = kept_ranks(trace, rank_of);
  TimelineRows out;
  out.stages = static_cast<int>(kept.size());
  out.left_out = static_cast<int>(rank_of.size() - kept.size());
  std::map<std::tuple<int, program::RankId, program::StreamIndex>, std::vector<std::uint32_t>> rows;
  for (std::uint32_t i = 0; i < trace.timeline.slices.size(); ++i) {
    const Slice& s = trace.timeline.slices[i];
    if (kept.count(s.rank) > 0) {
      const program::Program& p = program_of(trace, s.rank);
      rows[{p.stage, s.rank, p.tasks[s.task].stream}].push_back(i);
      ++out.tasks;
    }
  }
  for (auto& [key, slices] : rows) {
    std::sort(slices.begin(), slices.end(), [&](std::uint32_t a, std::uint32_t b) {
      const Slice &x = trace.timeline.slices[a], &y = trace.timeline.slices[b];
      return std::tie(x.arrive, x.task) < std::tie(y.arrive, y.task);
    });
    out.rows.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), std::move(slices)});
  }
  shorten_rows(trace, out);
  return out;
}

}  // namespace stepcast::report
