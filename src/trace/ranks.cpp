// Ranks beside each other: who waited for whom.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "stepcast/base/diagnostics.h"
#include "stepcast/trace/profile.h"

namespace stepcast::trace {
namespace {

using result::TraceRank;

// Operations in which no rank is done before all have begun. Sends and receives bind pairs, which
// a trace does not name.
bool synchronises(std::string_view key) {
  constexpr std::string_view kOperations[] = {"all_reduce", "all_gather", "reduce_scatter",
                                              "all_to_all", "barrier"};
  const std::string_view operation = key.substr(0, key.find('\n'));
  return std::find(std::begin(kOperations), std::end(kOperations), operation) !=
         std::end(kOperations);
}

// The calls of one key on one rank.
struct Calls {
  std::size_t rank = 0;
  std::vector<const RankCall*> calls;
};

std::string rank_name(const TraceRank& rank) {
  return rank.rank >= 0 ? fmt::format("rank {}", rank.rank) : rank.file;
}

}  // namespace

void compare_ranks(std::vector<TraceRank>& ranks, const std::vector<RankCalls>& calls) {
  std::map<std::string, std::vector<Calls>> by_key;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    std::vector<std::vector<const RankCall*>> lists(calls[rank].keys.size());
    for (const RankCall& call : calls[rank].calls) {
      lists[call.key].push_back(&call);
    }
    for (std::size_t key = 0; key < lists.size(); ++key) {
      if (synchronises(calls[rank].keys[key])) {
        by_key[calls[rank].keys[key]].push_back({rank, std::move(lists[key])});
      }
    }
  }
  struct Shortest {
    std::int64_t count = 0;
    Time time{0};
  };
  std::map<std::pair<std::size_t, std::uint32_t>, Shortest> shortest;  // by rank and size
  for (const auto& [key, members] : by_key) {
    const std::size_t count = members.front().calls.size();
    if (members.size() < 2 || std::any_of(members.begin(), members.end(), [&](const Calls& m) {
          return m.calls.size() != count;
        })) {
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      Time shortest_of = Time::max();
      for (const Calls& member : members) {
        shortest_of = std::min(shortest_of, member.calls[i]->duration);
      }
      for (const Calls& member : members) {
        const RankCall& call = *member.calls[i];
        result::TraceCommunication& row = ranks[member.rank].communication[call.row];
        ++row.compared;
        row.waiting += call.duration - shortest_of;
        row.compared_time += call.duration;
        if (call.size != kNone) {
          Shortest& sum = shortest[{member.rank, call.size}];
          ++sum.count;
          sum.time += shortest_of;
        }
      }
    }
  }
  for (const auto& [key, sum] : shortest) {
    result::TraceCollective& row = ranks[key.first].collectives[key.second];
    if (sum.count == row.count) {
      row.compared = true;
      row.transfer = sum.time / sum.count;
    }
  }
}

result::TraceProfile profile_files(const std::vector<std::filesystem::path>& files) {
  result::TraceProfile out;
  std::vector<RankCalls> calls;
  for (const auto& file : files) {
    Trace trace = read(file);
    calls.emplace_back();
    out.ranks.push_back(profile(trace, calls.back()));
  }
  for (std::size_t i = 0; i < out.ranks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (out.ranks[i].rank >= 0 && out.ranks[i].rank == out.ranks[j].rank) {
        throw InputError(Fault{{out.ranks[i].file, 0, 0},
                               fmt::format("is of {}, as {} is; expected files of different ranks",
                                           rank_name(out.ranks[i]), out.ranks[j].file)});
      }
    }
  }
  compare_ranks(out.ranks, calls);
  const bool communicates = std::any_of(out.ranks.begin(), out.ranks.end(), [](const TraceRank& r) {
    return !r.communication.empty();
  });
  const bool compared = std::any_of(out.ranks.begin(), out.ranks.end(), [](const TraceRank& r) {
    return std::any_of(r.communication.begin(), r.communication.end(),
                       [](const auto& row) { return row.compared > 0; });
  });
  if (communicates && out.ranks.size() < 2) {
    out.notes.emplace_back(
        "communication includes waiting for other ranks: give the files of several ranks to tell "
        "it "
        "apart");
  } else if (communicates && !compared) {
    out.notes.emplace_back(
        "no collective of these ranks could be matched: communication includes waiting");
  }
  return out;
}

}  // namespace stepcast::trace
