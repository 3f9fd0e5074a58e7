#include "plan_strategies.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <exception>

#include "plan_words.h"
#include "stepcast/config/config.h"
#include "stepcast/input/input.h"
#include "stepcast/search/search.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::planner {
namespace {

// Strategies of one node count that are listed by their bounds.
constexpr int kListed = 300;

// A list of layers is of one number of stages. Where others are tried, embedding and head count as
// layers if the sum has the larger power of two.
std::vector<std::string> stages_anew(const PlanRequest& request, const job::Job& job,
                                     const search::Space& space) {
  const job::Parallelism& p = job.parallelism;
  const bool varied = space.find("parallelism.pipeline") != nullptr ||
                      space.find("parallelism.virtual_pipeline") != nullptr;
  if (!varied || (p.layers_per_stage.empty() && p.layout.empty()) ||
      space.find("parallelism.layers_per_stage") != nullptr ||
      std::any_of(request.overrides.begin(), request.overrides.end(),
                  [](const std::string& text) { return text.starts_with("parallelism.lay"); })) {
    return {};
  }
  std::vector<std::string> out = {p.layout.empty() ? "parallelism.layers_per_stage=[]"
                                                   : "parallelism.layout="};
  const auto layers = static_cast<unsigned>(job.model.layers);
  const bool ends = std::countr_zero(layers + 2) > std::countr_zero(layers);
  for (const char* key : {"embedding_as_layer", "loss_as_layer"}) {
    out.push_back(fmt::format("parallelism.{}={}", key, ends));
  }
  return out;
}

}  // namespace

namespace {

// A name or path as the value of an override, which is YAML: in quotes unless its characters mean
// nothing there.
std::string as_override(const std::string& name) {
  if (std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '.' || c == '/' || c == '-' || c == '_';
      })) {
    return name;
  }
  std::string out = "\"";
  for (const char c : name) {
    out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  }
  return out + "\"";
}

}  // namespace

job::Job on_one_node(const PlanRequest& request, const Offer& offer) {
  job::Job out = input::load(request.config, request.overrides).job;
  out.cluster = input::network(offer.cluster, 1, {}, offer.name).cluster;
  return out;
}

std::string kind_of(const PlanRequest& request, const Offer& offer) {
  job::Job job = on_one_node(request, offer);
  job.cluster.name.clear();
  return config::to_json(job) +
         (offer.slice ? fmt::format(" in slices of {}", offer.slice->value) : "");
}

Strategies::Strategies(const PlanRequest& request, const Offer& offer,
                       forecast::Forecaster& forecaster, std::filesystem::path data_directory)
    : request_(request),
      offer_(offer),
      forecaster_(forecaster),
      data_(std::move(data_directory)),
      job_(on_one_node(request, offer)),
      cuts_(stages_anew(request, job_, space_of(1))) {}

std::vector<std::string> Strategies::fixed(const Offer& offer, int nodes) const {
  std::vector<std::string> out = {"cluster.use=" + as_override(offer.cluster),
                                  fmt::format("cluster.nodes={}", nodes)};
  if (const int slices = offer.slices(nodes).value_or(1); slices > 1) {
    out.push_back(fmt::format("cluster.fabric.slices={}", slices));
  }
  out.insert(out.end(), cuts_.begin(), cuts_.end());
  return out;
}

// Sizes that are rules ("divisors") follow the ranks.
search::Space Strategies::space_of(int nodes) const {
  job::Job job = job_;
  job.cluster.nodes = nodes;
  search::Space space = search::read_space(request_.space, job);
  search::fix(space, request_.overrides);
  return space;
}

std::vector<int> Strategies::counts(int most) const {
  const auto wide = static_cast<int>(std::bit_floor(static_cast<unsigned>(most)));
  std::vector<int> out = node_counts(space_of(wide), job_, job_.cluster.node.gpus, most);
  std::erase_if(out, [this](int nodes) { return !offer_.slices(nodes); });
  return out;
}

std::vector<std::string> Strategies::overrides(int nodes,
                                               const std::vector<std::string>& strategy) const {
  std::vector<std::string> out = request_.overrides;
  const std::vector<std::string> more = fixed(offer_, nodes);
  out.insert(out.end(), more.begin(), more.end());
  out.insert(out.end(), strategy.begin(), strategy.end());
  return out;
}

job::Job Strategies::job_of(int nodes, std::size_t index) {
  return input::load(request_.config, overrides(nodes, on(nodes).overrides[index])).job;
}

const Strategies::Listed& Strategies::on(int nodes) {
  const auto [at, fresh] = listed_.try_emplace(nodes);
  Listed& out = at->second;
  if (!fresh) {
    return out;
  }
  search::Request request;
  request.space = space_of(nodes);
  request.ranking = kListed;
  const auto loader =
      [&](const std::vector<std::string>& more) -> std::variant<job::Job, Infeasible> {
    try {
      return input::load(request_.config, overrides(nodes, more)).job;
    } catch (const InputError& error) {
      const Fault& first = error.faults().front();
      return Infeasible{to_string(first.where), first.message};
    }
  };
  const result::Search found = search::search_bounds(request, loader, data_, false);
  out.bounded = found.counts.bounded;
  out.nearest = found.found ? "" : found.nearest;
  out.all = static_cast<int>(found.ranking.size()) < kListed;
  for (const result::Strategy& s : found.ranking) {
    out.overrides.push_back(s.overrides);
    out.step.push_back(s.step_time.value);
  }
  return out;
}

const Strategies::Refined& Strategies::refined(int nodes, std::size_t index) {
  const Key key{nodes, index};
  if (const auto at = refined_.find(key); at != refined_.end()) {
    return at->second;
  }
  const auto refine = [&]() -> Refined {
    const double least = on(nodes).step[index];
    const job::Job job = job_of(nodes, index);
    const auto plan = strategy::resolve(job);
    if (const auto* why = std::get_if<Infeasible>(&plan)) {
      return *why;
    }
    auto bounds = forecaster_.bounds(job);
    if (const auto* why = std::get_if<Infeasible>(&bounds)) {
      return *why;
    }
    auto& bound = std::get<forecast::Forecaster::Bounds>(bounds).of;
    const auto candidate = bound::candidate_of(std::get<strategy::Plan>(plan));
    if (!bound.evaluate(candidate).feasible) {
      return least;
    }
    bound::Refined found = bound.refine(candidate);
    if (found.refused) {
      return std::move(*found.refused);
    }
    return std::max(least, to_seconds(found.step));
  };
  const auto refined = [&]() -> Refined {
    try {
      return refine();
    } catch (const InputError& error) {  // what bounds allow and no job may state
      const Fault& first = error.faults().front();
      return Infeasible{to_string(first.where), first.message};
    }
  };
  return refined_.emplace(key, refined()).first->second;
}

Trial Strategies::trial_of(const job::Job& job, const result::Report& report, bool exact) const {
  Trial out;
  out.exact = exact;
  out.mfu = report.mfu.value;
  out.bubble_fraction = report.bubble_fraction;
  out.capacity = report.capacity;
  out.peak = {exact ? report.peak.value : report.peak.low, report.peak.low, report.peak.high};
  out.fits = report.fits;
  out.pace = pace_of(job, report, request_.operations);
  out.basis = basis_of(report);
  return out;
}

void Strategies::run(int nodes, std::size_t index, const WantsExact& wants_exact, Tried& out) {
  const auto fail = [&](std::string why) {
    (out.by_rule ? out.exact : out.by_rule) = std::move(why);
  };
  try {
    const job::Job job = job_of(nodes, index);
    bool exact = true;
    forecast::Options options;
    if (!out.by_rule) {
      options.replay_if = [&](const result::Report& by_rule) {
        out.by_rule = trial_of(job, by_rule, false);
        exact = wants_exact(std::get<Trial>(*out.by_rule));
        return exact;
      };
    }
    const auto outcome = forecaster_.forecast(job, options);
    if (const auto* why = std::get_if<Infeasible>(&outcome)) {
      fail(fmt::format("{}: {}", why->key, why->reason));
    } else if (exact) {
      out.exact = trial_of(job, std::get<result::Report>(outcome), true);
    }
  } catch (const std::exception& error) {
    fail(fmt::format("the forecast failed: {}", error.what()));
  }
}

const Strategies::Outcome& Strategies::tried(int nodes, std::size_t index,
                                             const WantsExact& wants_exact) {
  Tried& known = tried_[{nodes, index}];
  if (!known.by_rule) {
    run(nodes, index, wants_exact, known);
  }
  const auto* by_rule = std::get_if<Trial>(&*known.by_rule);
  if (by_rule == nullptr || !wants_exact(*by_rule)) {
    return *known.by_rule;
  }
  if (!known.exact) {
    run(nodes, index, wants_exact, known);
  }
  return *known.exact;
}

}  // namespace stepcast::planner
