#include "harness/plan.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "harness/estimate.h"
#include "stepcast/base/splitmix.h"

namespace stepcast::harness {
namespace {

constexpr double kOfMemory = 0.6;     // of the device that one case may hold
constexpr double kLongestOnce = 0.5;  // s, one execution

std::uint64_t mix(std::uint64_t z) { return splitmix(z + kSplitMixStep); }

std::uint64_t hash(const std::string& text, std::uint64_t seed) {
  std::uint64_t h = mix(seed);
  for (const char c : text) {
    h = mix(h ^ static_cast<unsigned char>(c));
  }
  return h;
}

void append(std::vector<Strand>& to, std::vector<Strand> from) {
  for (Strand& strand : from) {
    to.push_back(std::move(strand));
  }
}

}  // namespace

std::string_view kind_of(const interop::GpuCase& what) { return kKinds.at(what.index()); }

void shuffle(std::vector<interop::GpuCase>& cases, std::uint64_t seed) {
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    order.emplace_back(hash(interop::to_string(cases[i]), seed), i);
  }
  std::sort(order.begin(), order.end());
  std::vector<interop::GpuCase> shuffled;
  shuffled.reserve(cases.size());
  for (const auto& [key, i] : order) {
    shuffled.push_back(std::move(cases[i]));
  }
  cases = std::move(shuffled);
}

std::vector<Planned> interleave(const std::vector<Strand>& strands, const Abilities& on,
                                const Policy& policy) {
  struct Ready {  // what of a strand can be measured, and how far it is
    std::vector<Planned> cases;
    std::size_t next = 0;
    double spent = 0;
  };
  const auto most = static_cast<std::int64_t>(kOfMemory * static_cast<double>(on.memory));
  std::set<std::string> seen;
  std::vector<Ready> ready(strands.size());
  std::size_t left = 0;
  for (std::size_t s = 0; s < strands.size(); ++s) {
    for (const interop::GpuCase& what : strands[s].cases) {
      std::string key = interop::to_string(what);
      if (memory_of(what) <= most && seconds_once(what, on) <= kLongestOnce &&
          seen.insert(key).second) {
        ready[s].cases.push_back({what, std::move(key), estimate(what, on, policy)});
        ++left;
      }
    }
  }
  std::vector<Planned> plan;
  for (; left > 0; --left) {
    // The strand whose next case would end first if each ran at its share: long cases wait until
    // the others have had as much (fair queueing: Demers, Keshav, Shenker 1989).
    std::size_t best = strands.size();
    double earliest = 0;
    for (std::size_t s = 0; s < strands.size(); ++s) {
      if (ready[s].next == ready[s].cases.size()) {
        continue;
      }
      const double end =
          (ready[s].spent + ready[s].cases[ready[s].next].seconds) / strands[s].share;
      if (best == strands.size() || end < earliest) {
        best = s;
        earliest = end;
      }
    }
    Planned& planned = ready[best].cases[ready[best].next++];
    ready[best].spent += planned.seconds;
    plan.push_back(std::move(planned));
  }
  return plan;
}

std::vector<Planned> make_plan(const Abilities& on, const PlanOptions& options) {
  const auto wants = [&](std::string_view kind) {
    return options.only.empty() ||
           std::find(options.only.begin(), options.only.end(), kind) != options.only.end();
  };
  std::vector<Strand> strands;
  if (wants("launch")) {
    append(strands, launch_strands());
  }
  if (wants("gemm")) {
    append(strands, gemm_strands(on, options));
  }
  if (wants("attention")) {
    append(strands, attention_strands(on, options));
  }
  if (wants("memory")) {
    append(strands, memory_strands(on, options));
  }
  if (wants("copy")) {
    append(strands, copy_strands());
  }
  if (wants("collective") || (wants("overlap") && on.gpus * on.nodes > 1)) {
    append(strands, collective_strands(on, wants("collective"), wants("overlap")));
  }
  if (wants("overlap")) {
    append(strands, overlap_strands());
  }
  if (wants("layer")) {
    append(strands, layer_strands(on, options));
  }
  return interleave(strands, on, options.policy);
}

}  // namespace stepcast::harness
