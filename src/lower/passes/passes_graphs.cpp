// Modules of a layer that are launched as CUDA graphs (megatron-core 0.19.2,
// transformer/transformer_config.py:1047, cuda_graph_modules): the host launches a graph where it
// launched the module's kernels, forward and back. Neighbours in a layer share one graph. The
// layer's other work on the host (HostModel::layer_overhead) is spread over all its launches, so
// that the share of those inside graphs is saved with them.
#include <algorithm>
#include <string_view>

#include "pass_feature.h"

namespace stepcast::lower {
namespace {

using model::Module;
using model::Operator;

bool attends(const Operator& op) {
  return op.module == Module::attention || op.module == Module::core_attention;
}

class Graphs : public PassFeature {
 public:
  explicit Graphs(PassState& state) : state_(state) {
    const auto& operators = state.graph.operators;
    const auto has = [&](std::string_view module) {
      const auto& modules = state.plan.host.graphed_modules;
      return std::find(modules.begin(), modules.end(), module) != modules.end();
    };
    const bool mamba = state.graph.kind.mixer == model::LayerKind::Mixer::mamba;
    bool router = true;  // up to the choice of experts
    for (auto op = operators.begin(); op != operators.end(); ++op) {
      const bool shared = op->module == Module::shared_expert;
      const bool experts = op->module == Module::moe || shared;
      // Shared experts beside the exchange of tokens are not part of the router's graph.
      const bool routes = (op->module == Module::moe && router) ||
                          (shared && !state.plan.style.routing.shared_beside);
      inside_.push_back((attends(*op) && has(mamba ? "mamba" : "attn")) ||
                        (op->module == Module::mlp && has("mlp")) || (experts && has("moe")) ||
                        (routes && has("moe_router")));
      // The rows' order is made by the preprocessing, ahead of their exchange.
      sorts_.push_back(op->expert == model::ExpertRole::dispatch && has("moe_preprocess") &&
                       !inside_.back());
      router = router && op->expert != model::ExpertRole::choose;
    }
  }

  void before_forward(std::size_t i) override { open(i); }
  void after_forward(std::size_t i) override { close(i); }
  void before_backward(std::size_t i) override { open(i); }
  void after_backward(std::size_t i) override { close(i); }

 private:
  void open(std::size_t i) {
    if (inside_[i] || sorts_[i]) {
      from_ = state_.out->size();
    }
  }

  void close(std::size_t i) {
    if (!inside_[i] && !sorts_[i]) {
      return;
    }
    bool launched = state_.out == pass_ && from_ == until_;  // the graph of what ran before goes on
    for (std::size_t at = from_; at < state_.out->size(); ++at) {
      Item& item = (*state_.out)[at];
      const int launches = item.kernels + item.more;
      if (launches == 0 || (sorts_[i] && item.kind != Item::Kind::kernel)) {
        continue;
      }
      item.kernels = launched ? 0 : 1;
      item.more = 0;
      item.graphed = static_cast<std::uint16_t>(launches - item.kernels);
      launched = true;
    }
    pass_ = state_.out;
    until_ = state_.out->size();
  }

  PassState& state_;
  std::vector<bool> inside_;
  std::vector<bool> sorts_;
  std::size_t from_ = 0;
  const std::vector<Item>* pass_ = nullptr;  // where the last graph stands, and its end
  std::size_t until_ = 0;
};

}  // namespace

std::unique_ptr<PassFeature> make_graphs(PassState& state) {
  if (state.plan.host.graphed_modules.empty()) {
    return nullptr;
  }
  return std::make_unique<Graphs>(state);
}

}  // namespace stepcast::lower
