#include "plan_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <queue>

#include "plan_rank.h"
#include "plan_words.h"
#include "stepcast/config/config.h"
#include "stepcast/search/search.h"

namespace stepcast::planner {
namespace {

using result::Estimate;
using result::PlannedCluster;
using result::Report;

constexpr double kDay = 86400;
// Strategies of one node count that are listed by their bounds.
constexpr int kListed = 300;
// Simulated runs that give a strategy's effective time.
constexpr int kRuns = 40;

// Something that may hold the answer: all strategies of a node count, one of them, or what its list
// left out.
struct Open {
  enum class Kind { count, strategy, rest } kind = Kind::count;
  Rank least;
  int nodes = 0;
  std::size_t index = 0;  // of the strategy
};
struct Later {
  bool operator()(const Open& a, const Open& b) const {
    return std::tie(a.least, a.nodes, a.index) > std::tie(b.least, b.nodes, b.index);
  }
};

// One that ran.
struct Found {
  Rank rank;
  std::vector<std::string> overrides;
  int nodes = 0;
  Report report;
  Pace pace;
};

class ClusterSearch {
 public:
  ClusterSearch(const PlanRequest& request, const Offer& offer, forecast::Forecaster& forecaster,
                const std::filesystem::path& data_directory)
      : request_(request),
        offer_(offer),
        forecaster_(forecaster),
        data_(data_directory),
        ranking_(request, offer, stated(request, offer)),
        job_(ranking_.job()) {
    fixed_ = request.overrides;
    fixed_.push_back("cluster.use=" + offer.cluster);
    cut_stages_anew();
    describe();
  }

  PlannedCluster run() {
    if (request_.objective == PlanObjective::carbon && !ranking_.rates().site.carbon) {
      out_.shortfalls.push_back(
          {"strategy", 0, fmt::format("the site {} states no carbon intensity", offer_.site)});
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
      next.kind == Open::Kind::count ? expand(next.nodes) : simulate(next);
    }
    out_.proven = best_.has_value();
    return conclude();
  }

 private:
  // The job on one node of the offer's cluster.
  static job::Job stated(const PlanRequest& request, const Offer& offer) {
    job::Job out = config::load(request.config, request.overrides).job;
    out.cluster = config::network(offer.cluster, 1, {}, offer.name).cluster;
    return out;
  }

  // A list of layers is of one number of stages. Where others are tried, embedding and head count
  // as layers if the sum has the larger power of two.
  void cut_stages_anew() {
    const job::Parallelism& p = job_.parallelism;
    const search::Space space = space_of(1);
    const bool varied = space.find("parallelism.pipeline") != nullptr ||
                        space.find("parallelism.virtual_pipeline") != nullptr;
    if (!varied || (p.layers_per_stage.empty() && p.layout.empty()) ||
        space.find("parallelism.layers_per_stage") != nullptr ||
        std::any_of(fixed_.begin(), fixed_.end(),
                    [](const std::string& text) { return text.starts_with("parallelism.lay"); })) {
      return;
    }
    const auto layers = static_cast<unsigned>(job_.model.layers);
    const bool ends = std::countr_zero(layers + 2) > std::countr_zero(layers);
    fixed_.push_back(p.layout.empty() ? "parallelism.layers_per_stage=[]" : "parallelism.layout=");
    for (const char* key : {"embedding_as_layer", "loss_as_layer"}) {
      fixed_.push_back(fmt::format("parallelism.{}={}", key, ends));
    }
  }

  void describe() {
    out_.name = offer_.name;
    out_.cluster = offer_.cluster;
    out_.device = job_.cluster.device.name;
    out_.site = offer_.site;
    out_.available = offer_.available;
    out_.nodes_offered = static_cast<int>(offer_.nodes.value);
    out_.bought = offer_.purchase.has_value();
    out_.wait_days = ranking_.wait_days();
    out_.figures = figures(ranking_.rates(), request_.catalogue.currency);
  }

  int gpus() const { return ranking_.gpus(); }

  // Sizes that are rules ("divisors") follow the ranks.
  search::Space space_of(int nodes) const {
    job::Job job = job_;
    job.cluster.nodes = nodes;
    search::Space space = search::read_space(request_.space, job);
    search::fix(space, request_.overrides);
    return space;
  }

  void open_counts() {
    const int most = out_.nodes_offered;
    const auto wide = static_cast<int>(std::bit_floor(static_cast<unsigned>(most)));
    for (const int nodes : node_counts(space_of(wide), job_, gpus(), most)) {
      ++out_.counts_possible;
      open_.push({Open::Kind::count, ranking_.least_rank(nodes, ranking_.roof(nodes)), nodes, 0});
    }
    if (out_.counts_possible == 0) {
      why_ = fmt::format("no node count up to {} divides into the space's sizes", most);
    }
  }

  std::vector<std::string> overrides_for(int nodes, const std::vector<std::string>& more) const {
    std::vector<std::string> out = fixed_;
    out.push_back(fmt::format("cluster.nodes={}", nodes));
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }

  void expand(int nodes) {
    search::Request request;
    request.space = space_of(nodes);
    request.ranking = kListed;
    const auto loader =
        [&](const std::vector<std::string>& more) -> std::variant<job::Job, Infeasible> {
      try {
        return config::load(request_.config, overrides_for(nodes, more)).job;
      } catch (const InputError& error) {
        const Fault& first = error.faults().front();
        return Infeasible{to_string(first.where), first.message};
      }
    };
    const result::Search found = search::search_bounds(request, loader, data_, false);
    out_.bounded += found.counts.bounded;
    if (!found.found) {
      why_ = found.nearest;
      return;
    }
    auto& listed = listed_[nodes];
    for (const result::Strategy& s : found.ranking) {
      open_.push({Open::Kind::strategy, ranking_.least_rank(nodes, s.step_time.value), nodes,
                  listed.size()});
      listed.push_back(s.overrides);
    }
    if (static_cast<int>(listed.size()) >= kListed) {
      const double last = found.ranking.back().step_time.value;
      open_.push({Open::Kind::rest, ranking_.least_rank(nodes, last), nodes, listed.size()});
    }
  }

  void simulate(const Open& one) {
    ++out_.engine_runs;
    const std::vector<std::string>& strategy = listed_[one.nodes][one.index];
    try {
      const job::Job job = config::load(request_.config, overrides_for(one.nodes, strategy)).job;
      // First with reserved memory by a rule: enough for what is too slow or far too large.
      for (const auto allocator : {forecast::Allocator::rule, forecast::Allocator::replay}) {
        forecast::Options options;
        options.allocator = allocator;
        auto outcome = forecaster_.forecast(job, options);
        if (const auto* why = std::get_if<Infeasible>(&outcome)) {
          why_ = fmt::format("{}: {}", why->key, why->reason);
          return;
        }
        auto& report = std::get<Report>(outcome);
        // Failures are simulated of what could be the best by their formula.
        if (best_ && counts_.find(one.nodes) != counts_.end() &&
            !(ranking_.least_rank(one.nodes, report.step_time.value) < best_->rank)) {
          return;
        }
        const bool exact = allocator == forecast::Allocator::replay;
        Found found = judged(job, std::move(report), one.nodes, strategy, exact);
        const bool better = !best_ || found.rank < best_->rank;
        if (exact || found.rank.misfit > 0 || !better) {
          note(found);
          if (better) {
            best_ = std::move(found);
          }
          return;
        }
      }
    } catch (const std::exception& error) {
      why_ = fmt::format("the forecast failed: {}", error.what());
    }
  }

  // `exact`: with reserved memory as the allocator leaves it; else by tensors alone, the least.
  Found judged(const job::Job& job, Report report, int nodes,
               const std::vector<std::string>& strategy, bool exact) const {
    Found out;
    out.pace.step = report.step_time;
    out.pace.effective = {1, 1, 1};
    shares_of(report, out.pace);
    if (request_.operations != nullptr) {
      GoodputRequest runs;
      runs.runs = kRuns;
      const result::Goodput g = goodput(job, report, *request_.operations, runs);
      out.pace.effective = g.effective;
      out.pace.active = g.effective.value;
      for (const auto& [name, share] : g.losses) {
        if (name == "work done again" || name == "slowed by stragglers") {
          out.pace.active += share;
        }
      }
    }
    const double peak = exact ? report.peak.value : report.peak.low;
    const double misfit = std::max(0.0, peak / static_cast<double>(report.capacity.count()) - 1);
    out.rank = ranking_.rank_of(ranking_.bill_of(out.pace, nodes), misfit);
    out.nodes = nodes;
    out.overrides = strategy;
    report.peak = {peak, report.peak.low, report.peak.high};
    out.report = std::move(report);
    return out;
  }

  // The best of each node count, for curves of time and cost.
  void note(const Found& f) {
    const auto at = counts_.find(f.nodes);
    if (at != counts_.end() && !(f.rank < at->second.first)) {
      return;
    }
    const Bill b = ranking_.bill_of(f.pace, f.nodes);
    counts_[f.nodes] = {f.rank,
                        {f.nodes, f.rank.misfit == 0, f.rank.misfit == 0 && f.rank.violation == 0,
                         b.wall.count() / kDay, b.cost(), b.energy, b.peak_power}};
  }

  // Ended before it is known that nothing is better.
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
      out_.shortfalls.push_back({"strategy", 0, why_.empty() ? "no strategy runs" : why_});
      return std::move(out_);
    }
    const Found& f = *best_;
    const Bill b = ranking_.bill_of(f.pace, f.nodes);
    const Pace& p = f.pace;
    const Bill low = ranking_.least_bill(p, f.nodes);
    const Bill high = ranking_.most_bill(p, f.nodes);
    out_.simulated = true;
    out_.nodes = f.nodes;
    out_.gpus = f.nodes * gpus();
    out_.overrides.assign(fixed_.begin() + static_cast<std::ptrdiff_t>(request_.overrides.size()),
                          fixed_.end());
    out_.overrides.push_back(fmt::format("cluster.nodes={}", f.nodes));
    out_.overrides.insert(out_.overrides.end(), f.overrides.begin(), f.overrides.end());
    out_.step_time = f.report.step_time;
    out_.mfu = f.report.mfu.value;
    out_.bubble_fraction = f.report.bubble_fraction;
    out_.peak_memory = f.report.peak;
    out_.capacity = f.report.capacity;
    out_.fits = f.rank.misfit == 0;
    out_.busy = p.busy;
    out_.communicating = p.communicating;
    out_.effective = p.effective;
    out_.days = {b.wall.count() / kDay, low.wall.count() / kDay, high.wall.count() / kDay};
    out_.gpu_hours = {b.gpu_hours, low.gpu_hours, high.gpu_hours};
    out_.cost = {b.cost(), low.cost(), high.cost()};
    out_.rent = b.rent;
    out_.depreciation = b.depreciation;
    out_.electricity = b.electricity;
    out_.capital = b.capital;
    out_.energy = {b.energy, low.energy, high.energy};
    out_.average_power = b.average_power;
    out_.peak_power = b.peak_power;
    if (ranking_.rates().site.carbon) {
      out_.carbon = Estimate{b.carbon, low.carbon, high.carbon};
    }
    out_.objective = f.rank.objective;
    out_.meets = out_.fits && f.rank.violation == 0;
    out_.shortfalls = shortfalls(out_, request_.limits, request_.catalogue.currency);
    return std::move(out_);
  }

  const PlanRequest& request_;
  const Offer& offer_;
  forecast::Forecaster& forecaster_;
  std::filesystem::path data_;
  Ranking ranking_;
  const job::Job& job_;  // as stated, on one node of this cluster
  std::vector<std::string> fixed_;
  std::priority_queue<Open, std::vector<Open>, Later> open_;
  std::map<int, std::vector<std::vector<std::string>>> listed_;  // strategies by node count
  std::map<int, std::pair<Rank, result::PlannedCount>> counts_;
  std::optional<Found> best_;
  std::string why_;  // nothing runs
  PlannedCluster out_;
};

}  // namespace

PlannedCluster plan_cluster(const PlanRequest& request, const Offer& offer,
                            forecast::Forecaster& forecaster,
                            const std::filesystem::path& data_directory) {
  return ClusterSearch(request, offer, forecaster, data_directory).run();
}

}  // namespace stepcast::planner
