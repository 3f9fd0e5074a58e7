// Users' rules on plans: each rule holds in the answer, no rule makes a plan faster, and on a small
// graph the answer is that of brute force.
#include "automatic/rules/user_rules.h"

#include <algorithm>
#include <limits>

#include "automatic/choice/choice.h"
#include "automatic/choice/ilp.h"
#include "catch.hpp"
#include "stepcast/config/config.h"

namespace stepcast::automatic {
namespace {

constexpr const char* kJob = R"(
model: {layers: 4, hidden: 1024, heads: 16, ffn: 4096, vocab: 32000, positions: rotary}
cluster: {use: dgx-a100, nodes: 1}
system: megatron-lm
workload: {sequence_length: 1024, global_batch: 16, micro_batch: 1}
)";

job::Job small_job() { return config::parse(kJob, "job").job; }

UserRules rules(const std::string& yaml, const job::Job& job) {
  const auto data = text::data_directory();
  return read_rules(text::parse_yaml(yaml, "rules"), job, GraphModel(job, data).analyse());
}

Frame frame_under(const UserRules& user) {
  Frame out;
  out.micro_batches = {1};
  out.redos = {Redo::none};
  out.shardings = {job::Sharding::zero1};
  apply(user, out);
  return out;
}

GraphPlan plan_under(const UserRules& user, const job::Job& job) {
  GraphModel model(job, text::data_directory(),
                   [&](const auto& op, const auto& splits, const auto& view) {
                     return allows(user, op, splits, view);
                   });
  return plan_by_ilp(model, frame_under(user), {});
}

TEST_CASE("rules hold in plans, and no rule makes a plan faster") {
  if (!have_ilp_solver()) {
    WARN("no solver of integer programs in this build");
    return;
  }
  const job::Job job = small_job();
  const GraphPlan free = plan_under({}, job);
  REQUIRE(!free.stages.empty());
  for (const char* split : {"batch", "hidden", "none", "sequence"}) {
    const UserRules user =
        rules(std::string("op_trans: [{op: mlp.fc1, split: ") + split + "}]", job);
    const GraphPlan held = plan_under(user, job);
    INFO(split);
    REQUIRE(!held.stages.empty());
    CHECK(held.latency >= free.latency * (1 - 1e-9));
    for (const GraphStage& s : held.stages) {
      for (std::size_t i = 0; i < s.meanings.size(); ++i) {
        if (s.meanings[i].name != "fc1") {
          continue;
        }
        const Splits& cut = s.meanings[i].options[static_cast<std::size_t>(s.choice[i])].splits;
        for (std::size_t a = 0; a < 2; ++a) {
          const std::string name = to_string(cut[a]);
          if (s.view.ranks[a] > 1) {
            CHECK((std::string(split) == "batch"  ? name == "batch"
                   : std::string(split) == "none" ? name == "replicate"
                   : std::string(split) == "sequence"
                       ? name == "sequence"
                       : name.starts_with("column") || name.starts_with("row")));
          }
        }
      }
    }
  }
  const GraphPlan assigned = plan_under(
      rules("op_assign: [{layers: 0..2, stage: 0}, {layers: 3..3, stage: 1}]", job), job);
  REQUIRE(assigned.stages.size() == 2);
  CHECK(assigned.stages[0].layers == 3);
  CHECK(assigned.stages[1].first_layer == 3);
  CHECK(assigned.latency >= free.latency * (1 - 1e-9));
  const GraphPlan ordered = plan_under(rules("op_order: {micro_batches: 4}", job), job);
  CHECK(ordered.micro_batches == 4);
  CHECK(ordered.latency >= free.latency * (1 - 1e-9));
}

TEST_CASE("under rules, a small graph's answer is that of brute force over what they allow") {
  const job::Job job = small_job();
  // Enough operators are fixed for all combinations of the others to be listed.
  const UserRules user = rules(
      "op_trans:\n"
      "  - {op: attention_norm, split: batch}\n"
      "  - {op: rotary, split: [batch, hidden]}\n"
      "  - {op: core_attention, split: [batch, feature]}\n"
      "  - {op: attention_residual, split: batch}\n"
      "  - {op: mlp_norm, split: batch}\n"
      "  - {op: activation, split: [batch, hidden]}\n"
      "  - {op: qkv, split: [batch, column]}\n"
      "  - {op: fc1, split: [batch, column]}\n",
      job);
  const auto data = text::data_directory();
  GraphModel free_model(job, data);
  GraphModel held_model(job, data, [&](const auto& op, const auto& splits, const auto& view) {
    return allows(user, op, splits, view);
  });
  StageAsk ask;
  ask.layers = 1;
  ask.first_layer = 1;
  ask.view = {{1, 4}};
  ask.micro_batches = 1;
  const StageGraph all = free_model.stage(ask);
  const StageGraph held = held_model.stage(ask);
  const auto found = choose_by_elimination(held.problem);
  REQUIRE(found);
  REQUIRE(found->feasible);
  // The options of the free graph that the rules allow, by the name of the split.
  std::vector<std::vector<int>> open(all.problem.nodes.size());
  double combinations = 1;
  for (std::size_t i = 0; i < open.size(); ++i) {
    const std::string& name = all.meanings[i].name;
    const auto& options = all.meanings[i].options;
    for (std::size_t c = 0; c < options.size(); ++c) {
      const std::string cut = to_string(options[c].splits[1]);
      const auto is = [&](std::initializer_list<const char*> names) {
        return std::any_of(names.begin(), names.end(), [&](const char* n) { return cut == n; });
      };
      const bool norm =
          name == "attention_norm" || name == "attention_residual" || name == "mlp_norm";
      const bool light = name == "rotary" || name == "activation" || name == "core_attention";
      const bool first = name == "qkv" || name == "fc1";
      if ((norm && !is({"batch"})) || (light && !is({"batch", "feature"})) ||
          (first && !is({"batch", "column"}))) {
        continue;
      }
      open[i].push_back(static_cast<int>(c));
    }
    combinations *= static_cast<double>(open[i].size());
  }
  REQUIRE(combinations > 100);
  REQUIRE(combinations < 2e6);
  double best = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> at(open.size(), 0);
  std::vector<int> choice(open.size());
  for (bool more = true; more;) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      choice[i] = open[i][at[i]];
    }
    best = std::min(best, cost_of(all.problem, choice));
    more = false;
    for (std::size_t i = 0; i < at.size() && !more; ++i) {
      more = ++at[i] < open[i].size();
      at[i] = more ? at[i] : 0;
    }
  }
  CHECK(found->cost == Approx(best).epsilon(1e-9));
  const auto unheld = choose_by_elimination(all.problem);
  REQUIRE(unheld);
  CHECK(unheld->cost <= found->cost * (1 + 1e-9));
}

TEST_CASE("rules that cannot be are refused, one line each") {
  const job::Job job = small_job();
  const auto faults = [&](const std::string& yaml) {
    try {
      rules(yaml, job);
    } catch (const InputError& error) {
      return error.faults().size();
    }
    return std::size_t{0};
  };
  CHECK(faults("op_trans: [{op: fc1, split: hidden}]") == 0);
  CHECK(faults("op_trans: [{op: fc9, split: hidden}, {op: fc1, split: wide}]") == 2);
  CHECK(faults("op_trans: [{op: fc1, split: batch}, {op: mlp.fc1, split: hidden}]") == 1);
  CHECK(faults("op_trans: [{op: fc1, split: batch, axis: data}, "
               "{op: fc1, split: hidden, axis: tensor}]") == 0);
  CHECK(faults("op_assign: [{layers: 0..4, stage: 0}]") == 1);
  CHECK(faults("op_assign: [{layers: 0..1, stage: 1}, {layers: 2..3, stage: 0}]") == 1);
  CHECK(faults("op_order: {schedule: 1f1b, virtual_pipeline: 2}") == 1);
  CHECK(faults("[]") == 1);
}

}  // namespace
}  // namespace stepcast::automatic
