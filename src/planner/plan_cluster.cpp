#include "plan_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <queue>

#include "plan_rank.h"
#include "plan_words.h"
#include "stepcast/base/calendar.h"
#include "stepcast/hardware/hardware.h"

namespace stepcast::planner {
namespace {

using result::Estimate;
using result::PlannedCluster;

// An item of the queue that may hold the answer: all strategies of a node count, one strategy by
// its first bound or by its refined one, or the strategies that the list left out.
struct Open {
  enum class Kind { count, listed, refined, rest } kind = Kind::count;
  Rank least;
  int nodes = 0;
  std::size_t index = 0;  // of the strategy
};
struct Later {
  bool operator()(const Open& a, const Open& b) const {
    return std::tie(a.least, a.nodes, a.index) > std::tie(b.least, b.nodes, b.index);
  }
};

// A strategy that the engine ran.
struct Found {
  Rank rank;
  int nodes = 0;
  std::size_t index = 0;
  Trial trial;
};

class ClusterSearch {
 public:
  ClusterSearch(const PlanRequest& request, const Offer& offer, Strategies& strategies)
      : request_(request),
        offer_(offer),
        strategies_(strategies),
        ranking_(request, offer, on_one_node(request, offer)) {
    describe();
  }

  PlannedCluster run() {
    if (request_.objective == PlanObjective::carbon && !ranking_.rates().site.carbon) {
      out_.shortfalls.push_back(
          {result::PlanLimit::strategy, 0,
           fmt::format("the site {} states no carbon intensity", offer_.site)});
      return std::move(out_);
    }
    open_counts();
    while (!open_.empty() && (!best_ || open_.top().least < best_->rank)) {
      if (open_.top().kind == Open::Kind::rest || out_.engine_runs >= request_.engine_runs) {
        stop(open_.top().least);
        return conclude();
      }
      const Open next = open_.top();
      open_.pop();
      switch (next.kind) {
        case Open::Kind::count:
          expand(next.nodes);
          break;
        case Open::Kind::listed:
          refine(next);
          break;
        default:
          simulate(next);
      }
    }
    out_.proven = best_.has_value();
    return conclude();
  }

 private:
  void describe() {
    out_.name = offer_.name;
    out_.cluster = offer_.cluster;
    out_.device = ranking_.job().cluster.device.name;
    out_.chips = hardware::vendor_of(ranking_.job().cluster.device) == hardware::Vendor::google;
    out_.site = offer_.site;
    out_.available = offer_.available;
    out_.nodes_offered = static_cast<int>(offer_.nodes.value);
    out_.bought = offer_.purchase.has_value();
    out_.priced = offer_.unpriced.empty();
    out_.wait_days = ranking_.wait_days();
    out_.figures = figures(ranking_.rates(), request_.catalogue.currency);
  }

  int gpus() const { return ranking_.gpus(); }

  void open_counts() {
    const int most = out_.nodes_offered;
    for (const int nodes : strategies_.counts(most)) {
      ++out_.counts_possible;
      open_.push({Open::Kind::count, ranking_.least_rank(nodes, ranking_.roof(nodes)), nodes, 0});
    }
    if (out_.counts_possible == 0) {
      why_ = fmt::format("no node count up to {} divides into the space's sizes", most);
    }
  }

  void expand(int nodes) {
    const Strategies::Listed& listed = strategies_.on(nodes);
    out_.bounded += listed.bounded;
    if (listed.step.empty()) {
      why_ = listed.nearest;
      return;
    }
    for (std::size_t i = 0; i < listed.step.size(); ++i) {
      open_.push({Open::Kind::listed, ranking_.least_rank(nodes, listed.step[i]), nodes, i});
    }
    if (!listed.all) {
      open_.push({Open::Kind::rest, ranking_.least_rank(nodes, listed.step.back()), nodes,
                  listed.step.size()});
    }
  }

  void refine(const Open& one) {
    const Strategies::Refined& bound = strategies_.refined(one.nodes, one.index);
    if (const auto* why = std::get_if<Infeasible>(&bound)) {
      why_ = fmt::format("{}: {}", why->key, why->reason);
      return;
    }
    open_.push({Open::Kind::refined, ranking_.least_rank(one.nodes, std::get<double>(bound)),
                one.nodes, one.index});
  }

  void simulate(const Open& one) {
    ++out_.engine_runs;
    const auto better = [&](const Found& found) { return !best_ || found.rank < best_->rank; };
    const auto promising = [&](const Trial& by_rule) {
      const Found found = judged(one, by_rule);
      return found.rank.misfit <= 0 && better(found);
    };
    const Strategies::Outcome& outcome = strategies_.tried(one.nodes, one.index, promising);
    if (const auto* why = std::get_if<std::string>(&outcome)) {
      why_ = *why;
      return;
    }
    Found found = judged(one, std::get<Trial>(outcome));
    note(found);
    if (better(found)) {
      best_ = std::move(found);
    }
  }

  Found judged(const Open& one, const Trial& trial) const {
    Found out{{}, one.nodes, one.index, trial};
    const auto capacity = static_cast<double>(trial.capacity.count());
    double misfit = std::max(0.0, trial.peak.value / capacity - 1);
    if (trial.exact && !trial.fits) {  // a node's memory or drives may be what is too small
      misfit = std::max(misfit, static_cast<double>(-trial.fits.spare.count()) / capacity);
    }
    out.rank = ranking_.rank_of(ranking_.bill_of(trial.pace, one.nodes), misfit);
    return out;
  }

  // Whether it fits; memory by the rule of thumb alone was enough where it is far too large.
  static result::Fit fit_of(const Found& f) {
    result::Fit out = f.trial.fits;
    out.fits = out.fits && f.rank.misfit == 0;
    return out;
  }

  // The best of each node count, for curves of time and cost.
  void note(const Found& f) {
    const auto at = counts_.find(f.nodes);
    if (at != counts_.end() && !(f.rank < at->second.first)) {
      return;
    }
    const Bill b = ranking_.bill_of(f.trial.pace, f.nodes);
    counts_[f.nodes] = {f.rank,
                        {f.nodes, fit_of(f), f.rank.misfit == 0 && f.rank.violation == 0,
                         b.wall.count() / kDay, b.cost(), b.energy, b.peak_power}};
  }

  // The search ended before the answer was proven.
  void stop(const Rank& left) {
    if (best_ && best_->rank.misfit == 0 && best_->rank.violation == 0 &&
        best_->rank.objective > 0) {
      out_.gap = std::max(0.0, 1 - left.objective / best_->rank.objective);
    }
  }

  PlannedCluster conclude() {
    for (const auto& [nodes, one] : counts_) {
      out_.counts.push_back(one.second);
    }
    if (!best_) {
      out_.shortfalls.push_back(
          {result::PlanLimit::strategy, 0, why_.empty() ? "no strategy runs" : why_});
      return std::move(out_);
    }
    const Found& f = *best_;
    const Bill b = ranking_.bill_of(f.trial.pace, f.nodes);
    const Pace& p = f.trial.pace;
    const Bill low = ranking_.least_bill(p, f.nodes);
    const Bill high = ranking_.most_bill(p, f.nodes);
    out_.simulated = true;
    out_.nodes = f.nodes;
    out_.gpus = f.nodes * gpus();
    out_.overrides = strategies_.fixed(offer_, f.nodes);
    const std::vector<std::string>& strategy = strategies_.on(f.nodes).overrides[f.index];
    out_.overrides.insert(out_.overrides.end(), strategy.begin(), strategy.end());
    out_.step_time = p.step;
    out_.mfu = f.trial.mfu;
    out_.bubble_fraction = f.trial.bubble_fraction;
    out_.peak_memory = f.trial.peak;
    out_.capacity = f.trial.capacity;
    out_.fits = fit_of(f);
    out_.busy = p.busy;
    out_.communicating = p.communicating;
    out_.effective = p.effective;
    out_.days = {b.wall.count() / kDay, low.wall.count() / kDay, high.wall.count() / kDay};
    out_.gpu_hours = {b.gpu_hours, low.gpu_hours, high.gpu_hours};
    out_.cost = {b.cost(), low.cost(), high.cost()};
    out_.expenses = b.expenses;
    out_.capital = b.capital;
    out_.energy = {b.energy, low.energy, high.energy};
    out_.average_power = b.average_power;
    out_.peak_power = b.peak_power;
    if (ranking_.rates().site.carbon) {
      out_.carbon = Estimate{b.carbon, low.carbon, high.carbon};
    }
    out_.basis = f.trial.basis;
    out_.objective = f.rank.objective;
    out_.meets = out_.fits && f.rank.violation == 0;
    out_.shortfalls = shortfalls(out_, request_.limits, request_.catalogue.currency);
    return std::move(out_);
  }

  const PlanRequest& request_;
  const Offer& offer_;
  Strategies& strategies_;
  Ranking ranking_;
  std::priority_queue<Open, std::vector<Open>, Later> open_;
  std::map<int, std::pair<Rank, result::PlannedCount>> counts_;
  std::optional<Found> best_;
  std::string why_;  // reason why nothing runs
  PlannedCluster out_;
};

}  // namespace

PlannedCluster plan_cluster(const PlanRequest& request, const Offer& offer,
                            Strategies& strategies) {
  return ClusterSearch(request, offer, strategies).run();
}

}  // namespace stepcast::planner
