#include "graph_answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "plans.h"

namespace stepcast::search {
namespace {

using result::AlgorithmAnswer;

// nnScaler's default (max_pipeline_bubble_ratio).
constexpr double kBubble = 0.2;

class GraphAnswerer {
 public:
  GraphAnswerer(const Request& request, const AlgorithmRequest& algorithms, const job::Job& base,
                const JobLoader& loader, const std::filesystem::path& data,
                const ForecastOf& forecast)
      : request_(request),
        algorithms_(algorithms),
        base_(base),
        loader_(loader),
        data_(data),
        forecast_(forecast) {}

  Frame frame() const {
    Frame out;
    out.micro_batches = {base_.workload.micro_batch};
    if (const Dimension* d = request_.space.find("workload.micro_batch")) {
      out.micro_batches.clear();
      for (const std::string& text : d->values) {
        out.micro_batches.push_back(text::to_integer(
            text::Value{text::Value::Kind::scalar, d->origin, text, false, {}, {}}));
      }
    }
    const auto redo_of = [](const job::Recompute& r) -> std::optional<Redo> {
      switch (r.kind) {
        case job::Recompute::Kind::none:
          return Redo::none;
        case job::Recompute::Kind::selective:
          return Redo::selective;
        case job::Recompute::Kind::full:
          return Redo::full;
        default:
          return std::nullopt;  // what the graph has no word for
      }
    };
    const auto values = [&](const char* key, auto&& take) {
      const Dimension* d = request_.space.find(key);
      if (d == nullptr) {
        take(base_);
        return;
      }
      for (const std::string& text : d->values) {
        auto loaded = loader_({fmt::format("{}={}", key, text)});
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

  // Operators may be cut as the space allows jobs to be.
  Allowed allowed() const {
    const bool context = request_.space.find("parallelism.context") != nullptr;
    const bool expert = request_.space.find("parallelism.expert") != nullptr;
    return [context, expert](const model::Operator& op, const Splits& splits, const View&) {
      return std::none_of(splits.begin(), splits.end(), [&](Split s) {
        return (!context && op.attention && s == Split::sequence) ||
               (!expert && s == Split::expert);
      });
    };
  }

  void answer(AlgorithmAnswer& out) {
    GraphModel model(base_, data_, allowed());
    const Frame frame = this->frame();
    GraphPlan plan;
    if (out.name == "flexflow") {
      Walk walk;
      walk.seed = algorithms_.seed;
      plan = plan_by_walk(model, frame, walk);
      out.tried_unit = "moves";
    } else {
      StageSearch search;
      if (out.name == "nnscaler") {
        search.latency = StageProblem::Latency::slowest;
        search.most_bubble = kBubble;
      }
      plan = plan_by_ilp(model, frame, search);
      out.tried_unit = "stages priced";
    }
    out.tried = plan.solved;
    if (plan.stages.empty()) {
      out.why_not = "no cut of the graph fits in memory";
      return;
    }
    out.predicted = plan.latency;
    out.plan = text_of(plan);
    Represented job = represent(base_, plan);
    out.losses = std::move(job.losses);
    std::vector<std::string> overrides;
    for (const std::string& text : job.overrides) {
      const std::string key = text.substr(0, text.find('='));
      if (request_.space.find(key) != nullptr || key == "parallelism.layers_per_stage") {
        overrides.push_back(text);
      }
    }
    auto strategy = forecast_(overrides, out.why_not);
    if (strategy) {
      out.found = true;
      out.strategy = std::move(*strategy);
    }
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
    return fmt::format("{}; {} micro-batches", out, plan.micro_batches);
  }

  const Request& request_;
  const AlgorithmRequest& algorithms_;
  const job::Job& base_;
  const JobLoader& loader_;
  const std::filesystem::path& data_;
  const ForecastOf& forecast_;
};

}  // namespace

void answer_on_graph(const Request& request, const AlgorithmRequest& algorithms,
                     const job::Job& base, const JobLoader& loader,
                     const std::filesystem::path& data_directory, const ForecastOf& forecast,
                     AlgorithmAnswer& out) {
  GraphAnswerer(request, algorithms, base, loader, data_directory, forecast).answer(out);
}

}  // namespace stepcast::search
