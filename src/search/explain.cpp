#include "explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "stepcast/search/objective.h"

namespace stepcast::search {
namespace {

using result::Strategy;

// The overrides of `of` that `from` has with another value or not at all.
std::vector<std::string> differing(const Strategy& of, const Strategy& from) {
  std::vector<std::string> out;
  std::copy_if(of.overrides.begin(), of.overrides.end(), std::back_inserter(out),
               [&](const std::string& text) {
                 return std::find(from.overrides.begin(), from.overrides.end(), text) ==
                        from.overrides.end();
               });
  return out;
}

struct Part {
  const char* name;
  Time Strategy::*time;
};
constexpr Part kParts[] = {{"compute", &Strategy::compute},
                           {"recomputation", &Strategy::recompute},
                           {"exposed communication", &Strategy::exposed},
                           {"bubble", &Strategy::bubble},
                           {"host, optimizer and stalls", &Strategy::other}};

// A reason with every number in it alike: combinations are refused by one rule with their own
// sizes.
std::string shape_of(const std::string& reason) {
  std::string out;
  for (const char c : reason) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit || out.empty() || out.back() != '#') {
      out += digit ? '#' : c;
    }
  }
  return out;
}

struct Rule {
  std::string example;  // the reason that the most combinations have
  std::int64_t combinations = 0;
  bool varies = false;
};

// The reasons by what they say but for its numbers, the most frequent first.
std::vector<Rule> rules_of(const std::vector<std::pair<std::string, std::int64_t>>& refusals) {
  std::map<std::string, Rule> by_shape;
  for (const auto& [reason, count] : refusals) {
    Rule& rule = by_shape[shape_of(reason)];
    rule.varies = !rule.example.empty();
    rule.example = rule.example.empty() ? reason : rule.example;
    rule.combinations += count;
  }
  std::vector<Rule> out;
  for (auto& [shape, rule] : by_shape) {
    out.push_back(std::move(rule));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Rule& a, const Rule& b) { return a.combinations > b.combinations; });
  return out;
}

// Which reasons refuse how many combinations, where they refuse all.
std::string refused_by(const result::SearchCounts& counts,
                       const std::vector<std::pair<std::string, std::int64_t>>& refusals) {
  constexpr std::size_t kMost = 3;
  const bool some = counts.asked > 0 && counts.asked < counts.impossible;
  std::string out = some ? fmt::format("of {} that were tried, ", counts.asked) : "";
  std::vector<Rule> rules = rules_of(refusals);
  rules.resize(std::min(rules.size(), kMost));
  for (std::size_t i = 0; i < rules.size(); ++i) {
    out += fmt::format("{}{}{} {}{}", i == 0 ? "" : "; ", rules[i].combinations,
                       i == 0 ? " are refused" : "", rules[i].varies ? "as in: " : "by ",
                       rules[i].example);
  }
  return out;
}

}  // namespace

std::string nothing_fits(const result::SearchCounts& counts,
                         const std::vector<std::pair<std::string, std::int64_t>>& refusals,
                         double least_memory, double capacity) {
  const double gib = 1.0 / (1 << 30);
  // If some combination would fit by the lower bound of its memory, refusals are the reason, not
  // memory.
  if (counts.memory_pruned > 0 && least_memory > capacity) {
    return fmt::format(
        "memory: the smallest needs at least {:.1f} GiB of each GPU, which has {:.1f} GiB: {:.1f} "
        "GiB too much",
        least_memory * gib, capacity * gib, (least_memory - capacity) * gib);
  }
  if (!refusals.empty() && counts.impossible == counts.candidates) {
    return refused_by(counts, refusals);
  }
  if (!refusals.empty()) {
    return fmt::format("every combination is refused, most by {}", refusals.front().first);
  }
  return "sizes: none of the combinations divides the ranks, the layers and the global batch";
}

namespace {

// The parts of the step on which `one` spends more time than `best`, the largest first. Parts below
// a thousandth of the step are left out.
std::string spent_beyond(const Strategy& one, const Strategy& best) {
  std::vector<std::pair<double, std::string>> parts;
  for (const Part& p : kParts) {
    const double more = to_seconds(one.*p.time - best.*p.time);
    if (std::abs(more) > 1e-3 * best.step_time.value) {
      parts.emplace_back(-more, fmt::format("{:+.1f} ms of {}", more * 1e3, p.name));
    }
  }
  std::sort(parts.begin(), parts.end());
  std::vector<std::string> texts;
  for (auto& [order, text] : parts) {
    texts.push_back(std::move(text));
  }
  return texts.empty() ? "no single part differs by a thousandth of the step"
                       : fmt::format("{}", fmt::join(texts, ", "));
}

// Explains how the job as given compares with the best strategy.
void explain_stated(result::Search& search, const Evaluation& evaluation) {
  if (evaluation.impossible) {
    search.against = fmt::format("the job as given is not valid: {}: {}",
                                 evaluation.impossible->key, evaluation.impossible->reason);
    return;
  }
  const Strategy& stated = evaluation.strategy();
  search.stated = stated.objective;
  const double more = 100 * (stated.objective / search.best.objective - 1);
  search.against =
      !stated.fits ? fmt::format("the job as given does not fit: {:.1f} GiB of {:.1f} GiB",
                                 stated.peak.value / (1 << 30),
                                 static_cast<double>(stated.capacity.count()) / (1 << 30))
      : more == 0  ? std::string("the job as given is as good")
                   : fmt::format("the job as given takes {:.2f} % {}: {}", std::abs(more),
                                more > 0 ? "more" : "less, but is not in this space",
                                 spent_beyond(stated, search.best));
}

}  // namespace

void explain(result::Search& search, const Evaluation* stated) {
  const Strategy& best = search.best;
  const auto second =
      std::find_if(search.ranking.begin(), search.ranking.end(),
                   [&](const Strategy& s) { return s.overrides != best.overrides; });
  if (second != search.ranking.end()) {
    search.why = fmt::format(
        "the runner-up ({}) is {:.2f} % worse: {}", fmt::join(differing(*second, best), " "),
        100 * (second->objective / best.objective - 1), spent_beyond(*second, best));
  }
  if (stated != nullptr) {
    explain_stated(search, *stated);
  }
}

void ask_network(result::Search& search, const JobLoader& loader, forecast::Forecaster& forecaster,
                 Objective objective, const Stop& stop) {
  auto loaded = loader(search.best.overrides);
  const auto* job = std::get_if<job::Job>(&loaded);
  if (job == nullptr) {
    return;
  }
  constexpr double kFaster = 2;
  forecast::Options options;
  options.allocator = forecast::Allocator::rule;
  options.stop = &stop;
  const auto ask = [&](const char* what, const job::Job& other) {
    const auto outcome = forecaster.forecast(other, options);
    if (const auto* report = std::get_if<result::Report>(&outcome)) {
      search.what_if.push_back(
          {what, report->step_time.value * per_second(objective, other.cluster)});
    }
  };
  try {
    if (job->cluster.nodes > 1 && job->cluster.node.nic.count() > 0) {
      job::Job faster = *job;
      faster.cluster.node.nic = faster.cluster.node.nic * kFaster;
      ask("twice the network's bandwidth, the same strategy", faster);
    }
    if (job->cluster.device.nvlink.count() > 0) {
      job::Job faster = *job;
      faster.cluster.device.nvlink = faster.cluster.device.nvlink * kFaster;
      ask("twice NVLink's bandwidth, the same strategy", faster);
    }
  } catch (const Stopped&) {  // the answers that were complete before are kept
  }
}

}  // namespace stepcast::search
