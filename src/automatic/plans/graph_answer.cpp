#include "graph_answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "../rules/user_rules.h"
#include "plans.h"
#include "stage_planner.h"

namespace stepcast::automatic {
namespace {

using result::AlgorithmAnswer;
using result::Strategy;

// nnScaler's default (max_pipeline_bubble_ratio).
constexpr double kBubble = 0.2;
// Number of consecutive plans that the engine may find too large.
constexpr int kRounds = 12;
// Fraction of the memory left free in addition to the excess that the forecast of the last plan
// showed.
constexpr double kSpare = 0.005;
constexpr double kGiB = 1024.0 * 1024 * 1024;

UserRules rules_of(const AlgorithmRequest& algorithms, const job::Job& base,
                   const std::filesystem::path& data) {
  if (algorithms.constraints.empty()) {
    return {};
  }
  return read_rules(text::read_yaml(algorithms.constraints), base,
                    GraphModel(base, data).analyse());
}

class GraphAnswerer {
 public:
  GraphAnswerer(const Inputs& in, Algorithm algorithm, UserRules rules, AlgorithmAnswer& out)
      : in_(in),
        algorithm_(algorithm),
        rules_(std::move(rules)),
        out_(out),
        model_(in.base, in.data, allowed(rules_)),
        frame_(frame(rules_)) {}

  void answer() {
    out_.tried_unit = algorithm_ == Algorithm::flexflow ? "moves" : "stages priced";
    const GraphPlan free = plan(nullptr);
    if (free.stages.empty()) {
      out_.why_not = rules_.size() > 0 ? to_relax() : "no cut of the graph fits in memory";
      return;
    }
    out_.predicted = free.latency;
    out_.plan = text_of(free);
    out_.proof = proof_of(free);
    if (!held(forms(rules_, frame_))) {
      if (rules_.size() > 0) {
        out_.losses.push_back(
            "no job can state a plan that keeps the rules: the nearest job does not keep them");
      }
      nearest(free);
      return;
    }
    const double loss = out_.own.step / free.latency - 1;
    if (loss > kSame) {
      for (const std::string& what : represent(in_.base, free).losses) {
        out_.losses.push_back(what);
      }
      out_.losses.push_back(fmt::format(
          "restricted to what a job can state: {:+.1f} % by its own estimate", 100 * loss));
    } else if (loss < -kSame && chunks_ > 1) {
      out_.notes.push_back(fmt::format(
          "virtual stages, which its free plans have none of, bring {:.1f} % by its own estimate",
          -100 * loss));
    }
  }

 private:
  static constexpr double kSame = 1e-3;

  GraphPlan plan(const std::vector<Form>* forms) { return plan(model_, frame_, forms); }

  GraphPlan plan(GraphModel& model, const Frame& frame, const std::vector<Form>* forms) {
    GraphPlan found;
    if (algorithm_ == Algorithm::flexflow) {
      Walk walk;
      walk.seed = in_.algorithms.seed;
      found = plan_by_walk(model, frame, walk, forms);
    } else {
      StageSearch search;
      if (algorithm_ == Algorithm::nnscaler) {
        search.latency = StageProblem::Latency::slowest;
        search.most_bubble = kBubble;
      }
      found = plan_by_ilp(model, frame, search, forms, &model == &model_ ? &memo_ : nullptr);
    }
    out_.tried += found.solved;
    return found;
  }

  std::vector<Form> forms(const UserRules& rules, const Frame& frame) const {
    std::vector<Form> out = forms_of(in_.request.space, in_.base, in_.loader, overrides_of(rules));
    const auto& counts = frame.counts_of_micro_batches;
    std::erase_if(out, [&](const Form& f) {
      return !counts.empty() &&
             std::find(counts.begin(), counts.end(), f.micro_batches) == counts.end();
    });
    return out;
  }

  // Names the rules that make every plan impossible, by dropping one at a time.
  std::string to_relax() {
    std::string out;
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      const UserRules others = rules_.without(i);
      GraphModel model(in_.base, in_.data, allowed(others));
      const Frame frame = this->frame(others);
      const auto said = forms(others, frame);
      GraphPlan p = plan(model, frame, &said);
      if (p.stages.empty()) {
        p = plan(model, frame, nullptr);
      }
      if (!p.stages.empty()) {
        out += fmt::format("{}{} ({:.3g} s by its own estimate)", out.empty() ? "" : ", or ",
                           rules_.text(i), p.latency);
      }
    }
    return out.empty() ? "no plan under the rules, nor without any one of them"
                       : "no plan under the rules; relax " + out;
  }

  result::Proof proof_of(const GraphPlan& p) const {
    return algorithm_ == Algorithm::flexflow ? result::Proof::none
           : p.proven                        ? result::Proof::proven
                                             : result::Proof::open;
  }

  // Plans one of the forms until the engine finds that it fits. Returns false if there is no plan
  // at all.
  bool held(const std::vector<Form>& forms) {
    for (int round = 0; round < kRounds; ++round) {
      const GraphPlan p = plan(&forms);
      if (p.stages.empty()) {
        if (round > 0) {
          out_.notes.push_back("with so much left free, nothing fits in the graph");
        }
        return out_.found;
      }
      std::vector<std::string> overrides = p.form->overrides;
      add_layers(p, overrides);
      auto strategy = forecast(in_, overrides, out_.why_not);
      if (!strategy) {
        return out_.found;
      }
      out_.found = true;
      out_.why_not.clear();
      out_.strategy = std::move(*strategy);
      out_.own = own_estimate(p);
      chunks_ = p.form->virtual_stages;
      out_.proof = proof_of(p);
      if (out_.strategy.fits) {
        return true;
      }
      const auto capacity = static_cast<double>(out_.strategy.capacity.count());
      const double over = out_.strategy.peak.value - capacity;
      const double reserve = capacity - out_.own.memory + over + kSpare * capacity;
      out_.notes.push_back(
          fmt::format("{} needs {:.1f} GiB by the engine, {:.1f} by the graph, of {:.1f}: planned "
                      "again with {:.1f} left free",
                      text_of(p), out_.strategy.peak.value / kGiB, out_.own.memory / kGiB,
                      capacity / kGiB, reserve / kGiB));
      frame_.reserve = std::max(reserve, frame_.reserve + kSpare * capacity);
    }
    return true;
  }

  // The job nearest to a plan that no job can express.
  void nearest(const GraphPlan& p) {
    Represented job = represent(in_.base, p);
    out_.losses = std::move(job.losses);
    std::vector<std::string> overrides = overrides_of(rules_);
    for (const std::string& text : job.overrides) {
      const std::string key = text.substr(0, text.find('='));
      if (in_.request.space.find(key) != nullptr || key == "parallelism.layers_per_stage") {
        overrides.push_back(text);
      }
    }
    if (auto strategy = forecast(in_, overrides, out_.why_not)) {
      out_.found = true;
      out_.strategy = std::move(*strategy);
    }
  }

  static void add_layers(const GraphPlan& p, std::vector<std::string>& overrides) {
    const int first = p.stages.front().layers;
    std::string layers;
    bool even = true;
    for (const GraphStage& s : p.stages) {
      layers += fmt::format("{}{}", layers.empty() ? "" : ", ", s.layers);
      even = even && s.layers == first;
    }
    if (!even) {
      overrides.push_back(fmt::format("parallelism.layers_per_stage=[{}]", layers));
    }
  }

  static result::OwnEstimate own_estimate(const GraphPlan& p) {
    result::OwnEstimate out;
    out.step = p.latency;
    const double each = p.micro_batches / static_cast<double>(p.stages.size());
    double busy = 0;
    for (const GraphStage& s : p.stages) {
      out.compute += each * s.compute;
      out.recompute += each * s.recompute;
      busy += each * s.time;
      out.memory = std::max(out.memory, s.memory);
    }
    out.communication = busy - out.compute - out.recompute;
    out.waiting = p.latency - busy;
    return out;
  }

  Frame frame(const UserRules& rules) const {
    Frame out;
    apply(rules, out);
    out.micro_batches = {in_.base.workload.micro_batch};
    if (const search::Dimension* d = in_.request.space.find("workload.micro_batch")) {
      out.micro_batches.clear();
      for (const std::string& text : d->values) {
        out.micro_batches.push_back(search::integer_of(*d, text));
      }
    }
    const auto values = [&](const char* key, auto&& take) {
      const search::Dimension* d = in_.request.space.find(key);
      if (d == nullptr) {
        take(in_.base);
        return;
      }
      for (const std::string& text : d->values) {
        auto loaded = in_.loader({fmt::format("{}={}", key, text)});
        if (const auto* job = std::get_if<job::Job>(&loaded)) {
          take(*job);
        }
      }
    };
    values("memory.recompute", [&](const job::Job& job) {
      if (const auto redo = redo_of(job.memory.recompute)) {
        out.redos.push_back(*redo);
      }
    });
    values("parallelism.sharding",
           [&](const job::Job& job) { out.shardings.push_back(job.parallelism.sharding); });
    if (out.redos.empty()) {
      out.redos.push_back(Redo::none);
    }
    return out;
  }

  // True if the space or the job itself uses the feature and the job's system supports it.
  bool runs(const std::string& feature, const char* key, int own) const {
    const auto& cannot = in_.base.system.cannot;
    const bool refused = std::any_of(cannot.begin(), cannot.end(),
                                     [&](const auto& rule) { return rule.first == feature; });
    return !refused && (in_.request.space.find(key) != nullptr || own > 1);
  }

  // Operators may be split only as jobs of the space are. Without context parallelism, the tokens
  // of a sample must be together where weights or other tokens are needed.
  Allowed allowed(const UserRules& rules) const {
    const bool context = runs("context", "parallelism.context", in_.base.parallelism.context);
    const bool expert = runs("expert", "parallelism.expert", in_.base.parallelism.expert);
    return [context, expert, rules](const model::Operator& op, const Splits& splits,
                                    const View& view) {
      if (!allows(rules, op, splits, view)) {
        return false;
      }
      // Operators that sequence parallelism replicates or scatters may still be cut by tokens.
      const bool product = op.attention || (op.gemm && op.tensor != model::TensorRole::none);
      return std::none_of(splits.begin(), splits.end(), [&](Split s) {
        return (!context && product && s == Split::sequence) || (!expert && s == Split::expert);
      });
    };
  }

  static std::string text_of(const GraphPlan& plan) {
    std::string out;
    std::vector<std::pair<std::string, int>> groups;
    for (const GraphStage& s : plan.stages) {
      const std::string one =
          fmt::format("{} layers on {} x {} GPUs", s.layers, s.view.ranks[0], s.view.ranks[1]);
      if (!groups.empty() && groups.back().first == one) {
        ++groups.back().second;
      } else {
        groups.push_back({one, 1});
      }
    }
    for (const auto& [text, times] : groups) {
      out += fmt::format("{}{} x ({})", out.empty() ? "" : ", ", times, text);
    }
    return fmt::format("{} in {} micro-batch{}", out, plan.micro_batches,
                       plan.micro_batches == 1 ? "" : "es");
  }

  const Inputs& in_;
  const Algorithm algorithm_;
  const UserRules rules_;
  AlgorithmAnswer& out_;
  GraphModel model_;
  StageMemo memo_;
  Frame frame_;
  int chunks_ = 1;  // virtual stages of the current plan
};

}  // namespace

void answer_on_graph(const Inputs& in, Algorithm algorithm, AlgorithmAnswer& out) {
  GraphAnswerer(in, algorithm, rules_of(in.algorithms, in.base, in.data), out).answer();
}

void check_constraints(const AlgorithmRequest& algorithms, const job::Job& base,
                       const std::filesystem::path& data_directory) {
  rules_of(algorithms, base, data_directory);
}

}  // namespace stepcast::automatic
