#include "stepcast/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <thread>

#include "enumerate.h"
#include "explain.h"
#include "objective.h"

namespace stepcast::search {
namespace {

using result::Strategy;
using Clock = std::chrono::steady_clock;

// Candidates that the engine runs between two looks at the best so far: the same for every number
// of threads, so that what is run is too.
constexpr std::size_t kBatch = 16;
// Strategies beyond the GPU's memory are bounded as well, to say what more of it would bring.
constexpr double kMoreMemory = 1.5;

// What the engine found of a candidate. `exact`: its peak comes from the allocator's replay; else
// from a rule of thumb, which is enough for one that is too slow or far too large anyway.
struct Outcome {
  Strategy strategy;
  bool ran = false;
  bool exact = false;
  Infeasible why;
};

class Runner {
 public:
  Runner(const Request& request, const JobLoader& loader, const std::filesystem::path& data)
      : request_(request), loader_(loader), start_(Clock::now()) {
    for (int i = 0; i < std::max(1, request.threads); ++i) {
      forecasters_.emplace_back(data);
    }
    all_ = enumerate(request, loader, forecasters_.front(), kMoreMemory);
  }

  // The best strategy of at most `memory` bytes. `left`: the least bound that was not looked at,
  // where time ran out.
  const Outcome* best_within(double memory, double& left) {
    std::vector<std::size_t> order;
    const Outcome* best = nullptr;
    std::size_t next = 0;
    left = all_.complete_below;
    while (next < all_.items.size()) {
      const double limit =
          best == nullptr ? std::numeric_limits<double>::infinity() : best->strategy.objective;
      std::vector<std::size_t> batch;
      while (next < all_.items.size() && batch.size() < kBatch && all_.items[next].bound < limit) {
        if (all_.items[next].memory <= memory) {
          batch.push_back(next);
        }
        ++next;
      }
      if (batch.empty()) {
        break;
      }
      if (out_of_time()) {
        left = std::min(left, all_.items[batch.front()].bound);
        break;
      }
      run(batch, limit, memory);
      for (const std::size_t i : batch) {
        const Outcome& o = outcomes_.at(i);
        if (o.ran && o.exact && o.strategy.peak.value <= memory &&
            (best == nullptr || o.strategy.objective < best->strategy.objective)) {
          best = &o;
        }
      }
      report_progress(best, next);
    }
    return best;
  }

  bool out_of_time() const { return request_.time_limit > 0 && seconds() >= request_.time_limit; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  const Enumerated& all() const { return all_; }
  const std::map<std::size_t, Outcome>& outcomes() const { return outcomes_; }
  forecast::Forecaster& forecaster() { return forecasters_.front(); }

 private:
  // Whether a candidate must be run (again) to be judged against `limit` within `memory`.
  bool open(std::size_t i, double limit, double memory) const {
    const auto at = outcomes_.find(i);
    if (at == outcomes_.end()) {
      return true;
    }
    const Outcome& o = at->second;
    return o.ran && !o.exact && o.strategy.objective < limit && least_peak(o) <= memory;
  }
  // Tensors alone, which the rule of thumb knows exactly: reserved memory is never less.
  static double least_peak(const Outcome& o) { return o.strategy.peak.low; }

  Outcome evaluate(forecast::Forecaster& forecaster, std::size_t i, double limit, double memory) {
    Outcome out;
    const std::vector<std::string> overrides = all_.overrides(all_.items[i]);
    auto loaded = loader_(overrides);
    if (auto* why = std::get_if<Infeasible>(&loaded)) {
      out.why = *why;
      return out;
    }
    const auto& job = std::get<job::Job>(loaded);
    for (const auto allocator : {forecast::Allocator::rule, forecast::Allocator::replay}) {
      forecast::Options options;
      options.allocator = allocator;
      auto outcome = forecaster.forecast(job, options);
      if (auto* why = std::get_if<Infeasible>(&outcome)) {
        out.why = *why;
        return out;
      }
      out.ran = true;
      out.exact = allocator == forecast::Allocator::replay;
      out.strategy = strategy_of(std::get<result::Report>(outcome), job, overrides,
                                 request_.objective, out.exact);
      if (out.strategy.objective >= limit || least_peak(out) > memory) {
        break;
      }
    }
    return out;
  }

  void run(const std::vector<std::size_t>& batch, double limit, double memory) {
    std::vector<std::size_t> todo;
    for (const std::size_t i : batch) {
      if (open(i, limit, memory)) {
        todo.push_back(i);
      }
    }
    std::vector<Outcome> found(todo.size());
    std::vector<std::exception_ptr> errors(todo.size());
    std::atomic<std::size_t> next{0};
    const auto work = [&](forecast::Forecaster& forecaster) {
      for (std::size_t k = next++; k < todo.size(); k = next++) {
        try {
          found[k] = evaluate(forecaster, todo[k], limit, memory);
        } catch (...) {
          errors[k] = std::current_exception();
        }
      }
    };
    std::vector<std::thread> threads;
    for (std::size_t t = 1; t < forecasters_.size(); ++t) {
      threads.emplace_back(work, std::ref(forecasters_[t]));
    }
    work(forecasters_.front());
    for (std::thread& t : threads) {
      t.join();
    }
    for (std::size_t k = 0; k < todo.size(); ++k) {
      if (errors[k]) {
        std::rethrow_exception(errors[k]);
      }
      outcomes_[todo[k]] = std::move(found[k]);
    }
  }

  void report_progress(const Outcome* best, std::size_t next) const {
    if (!request_.progress) {
      return;
    }
    Progress p;
    p.counts = all_.counts;
    p.counts.simulated = static_cast<std::int64_t>(outcomes_.size());
    p.best = best == nullptr ? 0 : best->strategy.objective;
    if (best != nullptr) {
      const double bound = next < all_.items.size() ? all_.items[next].bound : p.best;
      p.gap = std::max(0.0, 1 - bound / p.best);
    }
    p.seconds = seconds();
    request_.progress(p);
  }

  const Request& request_;
  const JobLoader& loader_;
  Clock::time_point start_;
  std::vector<forecast::Forecaster> forecasters_;
  Enumerated all_;
  std::map<std::size_t, Outcome> outcomes_;  // by place in the list
};

// What no strategy keeps to, and by how much.
std::string nearest_of(const Runner& runner) {
  const Enumerated& all = runner.all();
  const double gib = 1.0 / (1 << 30);
  const Strategy* smallest = nullptr;
  for (const auto& [i, o] : runner.outcomes()) {
    if (o.ran && (smallest == nullptr || o.strategy.peak.value < smallest->peak.value)) {
      smallest = &o.strategy;
    }
  }
  if (smallest != nullptr) {
    return fmt::format("memory: the smallest needs {:.1f} GiB of each GPU, which has {:.1f} GiB",
                       smallest->peak.value * gib, all.capacity * gib);
  }
  if (all.counts.memory_pruned > 0) {
    return fmt::format(
        "memory: the smallest needs at least {:.1f} GiB of each GPU, which has {:.1f} GiB",
        all.least_memory * gib, all.capacity * gib);
  }
  if (!all.refusals.empty()) {
    return fmt::format("every combination is refused, most by {}", all.refusals.front().first);
  }
  return "sizes: none of the combinations divides the ranks, the layers and the global batch";
}

}  // namespace

result::Search search(const Request& request, const JobLoader& loader,
                      const std::filesystem::path& data_directory) {
  Runner runner(request, loader, data_directory);
  result::Search out;
  out.objective = to_string(request.objective);
  const double capacity = runner.all().capacity;
  double left = 0;
  const Outcome* best = runner.best_within(capacity, left);
  if (best != nullptr) {
    out.found = true;
    out.best = best->strategy;
    out.gap = std::max(0.0, 1 - left / best->strategy.objective);
    for (const double share : request.front) {
      double unused = 0;
      if (const Outcome* o = runner.best_within(share * capacity, unused)) {
        if (out.front.empty() || o->strategy.objective < out.front.back().best.objective) {
          out.front.push_back({share * capacity, o->strategy});
        }
      }
    }
    if (out.front.empty() || out.best.objective < out.front.back().best.objective) {
      out.front.push_back({capacity, out.best});
    }
    double unused = 0;
    if (const Outcome* more = runner.best_within(kMoreMemory * capacity, unused)) {
      out.what_if.push_back(
          {fmt::format("{:.0f} % more memory on each GPU", 100 * kMoreMemory - 100),
           more->strategy.objective});
    }
  }
  std::map<std::string, std::int64_t> refused(runner.all().refusals.begin(),
                                              runner.all().refusals.end());
  out.counts = runner.all().counts;
  for (const auto& [i, o] : runner.outcomes()) {
    if (!o.ran) {
      ++out.counts.impossible;
      ++refused[fmt::format("{}: {}", o.why.key, o.why.reason)];
      continue;
    }
    ++out.counts.simulated;
    const bool fits = o.strategy.peak.value <= capacity;
    out.counts.misfit += fits ? 0 : 1;
    if (fits) {
      out.ranking.push_back(o.strategy);
    }
  }
  out.counts.time_pruned = out.counts.candidates - out.counts.impossible -
                           out.counts.memory_pruned - out.counts.simulated;
  std::stable_sort(out.ranking.begin(), out.ranking.end(),
                   [](const Strategy& a, const Strategy& b) { return a.objective < b.objective; });
  if (static_cast<int>(out.ranking.size()) > request.ranking) {
    out.ranking.resize(static_cast<std::size_t>(request.ranking));
  }
  out.refusals.assign(refused.begin(), refused.end());
  std::stable_sort(out.refusals.begin(), out.refusals.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (out.found) {
    explain(out, loader, runner.forecaster(), request.objective);
  } else {
    out.nearest = nearest_of(runner);
  }
  return out;
}

}  // namespace stepcast::search
