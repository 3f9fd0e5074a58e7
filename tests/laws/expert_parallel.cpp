// Laws of expert parallelism: rows are conserved, bytes of every dispatcher follow closed forms,
// parameters are divided, loads and capacities hold. In whole forecasts, free links take no time,
// and the folded equals the full simulation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "../unit/model/models.h"
#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/cost/collectives.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/lower/lower.h"
#include "stepcast/model/experts.h"
#include "stepcast/strategy/plan.h"

using namespace stepcast;
using Dispatcher = job::MoeRuntime::Dispatcher;
using Kind = job::ExpertBalance::Kind;

namespace {

constexpr int kExperts = 16;
constexpr int kTopk = 4;

std::string job_text(int tensor, int expert, int expert_tensor, const std::string& moe,
                     const std::string& more = "") {
  return fmt::format(
      "model: {{layers: 4, hidden: 2048, heads: 16, kv_heads: 16, head_dim: 128, ffn: 8192, vocab: "
      "32000, gated_mlp: true, norm: rms, positions: rotary, moe: {{experts: {}, topk: {}, ffn: "
      "1024}}}}\n"
      "cluster: {{use: dgx-h100, nodes: 2}}\n"
      "system: megatron-lm\n"
      "workload: {{sequence_length: 2048, global_batch: 32, micro_batch: 1}}\n"
      "parallelism: {{tensor: {}, expert: {}, expert_tensor: {}, sequence_parallel: {}, sharding: "
      "zero1{}}}\n"
      "moe: {}\n",
      kExperts, kTopk, tensor, expert, expert_tensor, tensor > 1, more, moe);
}

job::Job job_of(const std::string& text) { return config::parse(text, "expert").job; }

strategy::Plan plan_of(const job::Job& job) {
  auto plan = strategy::resolve(job);
  if (const auto* why = std::get_if<Infeasible>(&plan)) {
    FAIL(why->key << ": " << why->reason);
  }
  return std::get<strategy::Plan>(std::move(plan));
}

result::Report report_of(const job::Job& job, forecast::Fidelity fidelity) {
  forecast::Forecaster forecaster(STEPCAST_SOURCE_DIR);
  forecast::Options options;
  options.fidelity = fidelity;
  auto out = forecaster.forecast(job, options);
  if (const auto* why = std::get_if<Infeasible>(&out)) {
    FAIL(why->key << ": " << why->reason);
  }
  return std::get<result::Report>(std::move(out));
}

model::Shard shard_of(int tensor, int expert, int expert_tensor) {
  model::Shard s;
  s.sequences = 1;
  s.sequence_length = 4096;
  s.tensor = tensor;
  s.sequence_parallel = tensor > 1;
  s.expert = expert;
  s.expert_tensor = expert_tensor;
  return s;
}

}  // namespace

TEST_CASE("Every copy of a token reaches one expert") {
  const auto m = test::moe(test::llama("m", 4, 2048, 16, 16, 8192, 32000), kExperts, kTopk, 1024);
  for (const int t : {1, 2, 4}) {
    for (const int ep : {1, 2, 4, 16}) {
      for (const int et : {1, 2}) {
        const auto rows = model::expert_rows(m, shard_of(t, ep, et), {});
        CHECK(rows.tokens * t == 4096);
        CHECK(rows.sent == rows.tokens * kTopk);
        CHECK(rows.received == rows.sent);       // balanced
        CHECK(rows.computed == rows.sent * et);  // each expert-tensor rank sees the rows of all
        CHECK(rows.gathered == rows.tokens * ep * et);
        // A token is sent to a rank only once: at most one copy per rank, and at most top-k.
        CHECK(rows.distinct <= rows.sent);
        CHECK(rows.distinct <= rows.tokens * ep);
        CHECK(rows.distinct >= rows.tokens);
      }
    }
  }
}

TEST_CASE("Expected groups of a token's experts") {
  CHECK(model::expected_groups(8, 2, 1) == 1.0);
  CHECK(model::expected_groups(8, 8, 4) == Approx(4.0));
  CHECK(model::expected_groups(8, 1, 8) == Approx(1.0));
  // Two of four experts, in two groups: both are in the same group with probability 1/3.
  CHECK(model::expected_groups(4, 2, 2) == Approx(2 - 1.0 / 3));
  CHECK(model::expected_groups(128, 8, 128) == Approx(8.0));
}

TEST_CASE("Routing limited to groups reaches fewer nodes, and no more than its groups") {
  const model::Routes free{256, 8};
  const model::Routes limited{256, 8, 8, 4};
  for (const int sets : {1, 2, 4, 8, 16, 64, 256}) {
    INFO(sets);
    CHECK(model::expected_sets(free, sets) == model::expected_groups(256, 8, sets));
    CHECK(model::expected_sets(limited, sets) <= model::expected_sets(free, sets) + 1e-12);
    CHECK(model::expected_sets(limited, sets) <= 8 + 1e-12);
    CHECK(model::expected_sets(limited, sets) >= 1);
  }
  // A node for each group: a token's experts lie in at most its four.
  CHECK(model::expected_sets(limited, 8) < 4);
  CHECK(model::expected_sets(limited, 8) == Approx(model::expected_groups(128, 8, 4)));
  // All groups chosen limit nothing; one group is one node of eight, half a node of four pairs.
  CHECK(model::expected_sets({256, 8, 8, 8}, 8) == model::expected_groups(256, 8, 8));
  CHECK(model::expected_sets({256, 8, 8, 1}, 8) == Approx(1.0));
  CHECK(model::expected_sets({256, 8, 8, 1}, 4) == Approx(1.0));
  // Two groups drawn of four lie in one half of the experts with probability 1/3, and two experts
  // of two groups in one group with probability (e - 1) / (2 e - 1).
  const double one_half = 1.0 / 3 + 2.0 / 3 * (2.0 - 1) / (4.0 - 1);
  CHECK(model::expected_sets({8, 2, 4, 2}, 2) == Approx(2 - one_half));
}

TEST_CASE("Loads of the most loaded rank") {
  const auto load = [](job::ExpertBalance b, int ranks) {
    return model::expert_load(b, kExperts, ranks, 1e5);
  };
  CHECK(load({}, 8) == 1.0);
  CHECK(load({Kind::forced}, 8) > 1.0);
  CHECK(load({Kind::forced}, 8) < 1.03);
  CHECK(load({Kind::forced}, 16) > load({Kind::forced}, 4));
  double last = 0;
  for (const double spread : {1.0, 1.2, 1.5, 2.0, 4.0}) {
    const double now = load({Kind::spread, spread}, 8);
    CHECK(now > last);
    CHECK(load({Kind::spread, spread}, 16) == Approx(spread));  // one expert per rank
    CHECK(load({Kind::spread, spread}, 1) == 1.0);
    last = now;
  }
  job::ExpertBalance shares{Kind::shares, 1, std::vector<double>(kExperts, 1.0)};
  CHECK(load(shares, 4) == Approx(1.0));
  shares.shares[5] = 17;  // of 32 in total: its rank of four takes 20
  CHECK(load(shares, 4) == Approx(20.0 / 8));
  CHECK(load(shares, 16) == Approx(17.0 / 2));
}

TEST_CASE("A capacity cuts the hot experts and nothing else") {
  auto job = job_of(
      job_text(1, 16, 1, "{dispatcher: alltoall, capacity_factor: 1.5, balance: {spread: 3}}"));
  const auto cut = model::routing_of(job);
  CHECK(cut.load == Approx(1.5));
  // 3 becomes 1.5; the other fifteen stay at 13/15.
  CHECK(cut.kept == Approx((1.5 + 13) / 16));
  job.moe.capacity_factor = 4.0;
  const auto whole = model::routing_of(job);
  CHECK(whole.load == Approx(3.0));
  CHECK(whole.kept == Approx(1.0));
}

TEST_CASE("Buffers that masks fill are computed whole, and filled and emptied by products") {
  auto job =
      job_of(job_text(1, 1, 1, "{dispatcher: alltoall, capacity_factor: 1.25, one_hot: true}"));
  const auto plan = plan_of(job);
  const auto graph = [&](const model::Style& style) {
    return model::build_layer(job.model, model::layer_kind(job.model, 0), shard_of(1, 1, 1), style);
  };
  const auto find = [](const model::OperatorGraph& g, const std::string& name) {
    const auto at = std::find_if(g.operators.begin(), g.operators.end(),
                                 [&](const model::Operator& op) { return op.name == name; });
    REQUIRE(at != g.operators.end());
    return *at;
  };
  const auto masked = graph(plan.style);
  const double tokens = 4096;
  const double slots = tokens * kTopk * 1.25;
  const double product = 2 * tokens * slots * 2048;
  CHECK(find(masked, "dispatch").forward.count() == Approx(product));
  CHECK(find(masked, "dispatch").input_grad.count() == Approx(product));
  CHECK(find(masked, "combine").forward.count() == Approx(product));
  CHECK(find(masked, "combine").input_grad.count() == Approx(2 * product));
  auto dropless = plan.style;
  dropless.routing = {};
  CHECK(find(masked, "expert_fc1").forward.count() ==
        Approx(1.25 * find(graph(dropless), "expert_fc1").forward.count()));
  // What came makes no difference.
  job.moe.balance = {Kind::spread, 3, {}};
  CHECK(plan_of(job).style.routing.load == Approx(1.25));
}

namespace {

constexpr std::int64_t kLayers = 4;
constexpr std::int64_t kTokens = 2048;
constexpr std::int64_t kHidden = 2048;

// Bytes per rank and step of one operation in the traffic of a group.
std::int64_t traffic(const result::Report& report, const std::string& group,
                     const std::string& op) {
  std::int64_t bytes = 0;
  for (const auto& t : report.traffic) {
    bytes += t.group == group && t.op.rfind(op, 0) == 0 ? t.bytes.count() : 0;
  }
  return bytes;
}

Time exposed(const result::Report& report) { return report.breakdown.front().expert; }

}  // namespace

TEST_CASE("Bytes of every dispatcher are the closed forms") {
  // Two tensor ranks share a sequence; 16 ranks and 32 sequences make 4 micro-batches.
  const std::int64_t times = kLayers * 4;
  const std::int64_t row = kHidden * 2;
  const std::int64_t copies = kTokens / 2 * kTopk;
  SECTION(
      "all-to-all: copies and their 16-bit probabilities there and back, and the gradients of "
      "both") {
    const auto r =
        report_of(job_of(job_text(2, 8, 1, "{dispatcher: alltoall}")), forecast::Fidelity::folded);
    CHECK(traffic(r, "expert", "all_to_all") == times * (4 * copies * row + 2 * copies * 2));
  }
  SECTION("tokens in a latent space travel in its width") {
    auto job = job_of(job_text(2, 8, 1, "{dispatcher: alltoall}"));
    job.model.moe->latent = 512;
    const auto r = report_of(job, forecast::Fidelity::folded);
    CHECK(traffic(r, "expert", "all_to_all") == times * (4 * copies * 512 * 2 + 2 * copies * 2));
  }
  SECTION("expert-tensor ranks gather what each received and reduce what each made") {
    const auto r =
        report_of(job_of(job_text(2, 4, 2, "{dispatcher: alltoall}")), forecast::Fidelity::folded);
    CHECK(traffic(r, "expert", "all_to_all") == times * (4 * copies * row + 2 * copies * 2));
    CHECK(traffic(r, "expert tensor", "all_gather") == times * (2 * copies) * (2 * row + 2));
    CHECK(traffic(r, "expert tensor", "reduce_scatter") == times * (2 * copies) * (2 * row + 2));
  }
  SECTION("all-gather: tokens of all ranks of the group, whatever the top-k") {
    const auto r =
        report_of(job_of(job_text(2, 4, 2, "{dispatcher: allgather}")), forecast::Fidelity::folded);
    const std::int64_t gathered = kTokens / 2 * 8;
    CHECK(traffic(r, "tensor expert", "reduce_scatter") ==
          times * gathered * (2 * row + kExperts * 2));
    CHECK(traffic(r, "tensor expert", "all_gather") ==
          times * (2 * gathered * row + gathered * kExperts * 3));
  }
  SECTION("DeepEP: a token once, however many experts it wants") {
    const auto r =
        report_of(job_of(job_text(1, 8, 1, "{dispatcher: deepep}")), forecast::Fidelity::folded);
    CHECK(traffic(r, "expert", "tokens") == kLayers * 2 * 4 * kTokens * row);
  }
}

TEST_CASE("Tokens by DeepEP cross the network once a node, NVLink once a rank") {
  auto job = job_of(job_text(1, 16, 1, "{dispatcher: deepep}"));
  cost::CurveTable curves;
  const cost::Collectives prices(job.cluster, job.nccl,
                                 std::string(STEPCAST_SOURCE_DIR) + "/calibration", {}, curves);
  const auto topology = std::get<cluster::Topology>(cluster::Topology::build(job.cluster));
  std::vector<int> ranks(16);
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto both = topology.shape(ranks);
  ranks.resize(8);
  const auto one = topology.shape(ranks);
  const cost::TokenExchange tokens{Bytes(1LL << 26), kExperts, kTopk, 1};
  const auto within = prices.exchange(tokens, one);
  CHECK(within.nic.count() == 0);
  const auto copies = model::expected_groups(kExperts, kTopk, 8);
  CHECK(static_cast<double>(within.nvlink.count()) ==
        Approx((1LL << 26) * copies * 7 / 8).epsilon(1e-6));
  const auto across = prices.exchange(tokens, both);
  const auto nodes = model::expected_groups(kExperts, kTopk, 2);
  CHECK(static_cast<double>(across.nic.count()) == Approx((1LL << 26) * nodes / 2).epsilon(1e-6));
  // Copies to every expert's rank would cross 8/15 of top-k times.
  CHECK(across.nic.count() < (1LL << 26) * kTopk * 8 / 16);
  CHECK(across.fluid > within.fluid);
  auto hot = tokens;
  hot.load = 2;
  CHECK(prices.exchange(hot, both).fluid > across.fluid);
}

TEST_CASE("Over free links bytes to experts take no time") {
  const auto fast = [](int topk) {
    auto job = job_of(job_text(1, 16, 1, "{dispatcher: alltoall}"));
    job.model.moe->topk = topk;
    job.cluster.device.nvlink = job.cluster.device.nvlink * 1e4;
    job.cluster.device.pcie = job.cluster.device.pcie * 1e4;  // between a GPU and its NIC
    job.cluster.node.nic = job.cluster.node.nic * 1e4;
    return report_of(job, forecast::Fidelity::folded);
  };
  const double few = to_seconds(exposed(fast(1)));
  const double many = to_seconds(exposed(fast(8)));
  CHECK(many < 1.1 * few + 1e-4);
  auto real = job_of(job_text(1, 16, 1, "{dispatcher: alltoall}"));
  real.model.moe->topk = 8;
  CHECK(to_seconds(exposed(report_of(real, forecast::Fidelity::folded))) > 2 * many);
}

TEST_CASE("Experts are divided by expert and expert-tensor ranks, and nothing else is") {
  const auto parameters = [](int tensor, int expert, int expert_tensor) {
    const auto plan =
        plan_of(job_of(job_text(tensor, expert, expert_tensor, "{dispatcher: alltoall}")));
    std::int64_t experts = 0;
    std::int64_t rest = 0;
    const auto graph =
        model::build_layer(plan.model, model::LayerKind::moe, plan.shard, plan.style);
    for (const auto& op : graph.operators) {
      (op.expert_parameters ? experts : rest) += op.parameters;
    }
    return std::pair(experts, rest);
  };
  const auto [whole, dense] = parameters(1, 1, 1);
  CHECK(whole == kExperts * 3 * kHidden * 1024);
  for (const int ep : {2, 4, 8, 16}) {
    CHECK(parameters(1, ep, 1) == std::pair(whole / ep, dense));
  }
  CHECK(parameters(1, 4, 2) == std::pair(whole / 8, dense));
  CHECK(parameters(2, 8, 1).first == whole / 8);
  CHECK(parameters(2, 8, 1).second < dense);
}

TEST_CASE("A hot expert slows the step and fills memory, more the hotter") {
  double time = 0;
  std::int64_t activations = 0;
  for (const char* spread : {"1", "1.5", "2.5"}) {
    const auto r = report_of(
        job_of(job_text(1, 16, 1,
                        fmt::format("{{dispatcher: alltoall, balance: {{spread: {}}}}}", spread))),
        forecast::Fidelity::folded);
    CHECK(r.step_time.value > time);
    CHECK(r.memory.front().activations.count() > activations);
    time = r.step_time.value;
    activations = r.memory.front().activations.count();
  }
}

TEST_CASE("The folded world of experts is the full one") {
  for (const auto& [tensor, expert, expert_tensor, moe] :
       {std::tuple(1, 8, 1, "{dispatcher: alltoall}"),
        std::tuple(2, 8, 1, "{dispatcher: alltoall}"),
        std::tuple(2, 4, 2, "{dispatcher: allgather}"),
        std::tuple(4, 2, 2, "{dispatcher: alltoall}"), std::tuple(1, 16, 1, "{dispatcher: deepep}"),
        std::tuple(2, 4, 1, "{dispatcher: hybridep}")}) {
    const auto job = job_of(job_text(tensor, expert, expert_tensor, moe));
    INFO(tensor << " " << expert << " " << expert_tensor << " " << moe);
    const auto folded = report_of(job, forecast::Fidelity::folded);
    const auto full = report_of(job, forecast::Fidelity::full);
    CHECK(folded.step_time.value == Approx(full.step_time.value).epsilon(1e-9));
    CHECK(folded.peak.value == full.peak.value);
  }
}

TEST_CASE("Shared experts beside the dispatch hide it") {
  const auto time = [](bool beside) {
    auto job = job_of(job_text(1, 16, 1, "{dispatcher: alltoall}"));
    job.model.moe->shared_experts = 1;
    job.model.moe->shared_ffn = 8192;
    job.parallelism.overlap.shared_expert = beside;
    return report_of(job, forecast::Fidelity::folded);
  };
  const auto apart = time(false);
  const auto beside = time(true);
  CHECK(beside.step_time.value < apart.step_time.value);
  CHECK(exposed(beside) < exposed(apart));
  CHECK(traffic(beside, "expert", "all_to_all") == traffic(apart, "expert", "all_to_all"));
}

TEST_CASE("Experts one by one hold no workspace of grouped products, and are never faster") {
  const auto grouped =
      report_of(job_of(job_text(2, 4, 1, "{grouped: true}")), forecast::Fidelity::folded);
  const auto apart =
      report_of(job_of(job_text(2, 4, 1, "{grouped: false}")), forecast::Fidelity::folded);
  // get_multi_stream_cublas_workspace: four streams of 32 MiB on Hopper.
  CHECK(grouped.memory.front().workspace - apart.memory.front().workspace ==
        Bytes(std::int64_t{4 * 32} << 20));
  CHECK(apart.step_time.value > grouped.step_time.value);
}

TEST_CASE("Experts in no sharded unit keep 16-bit gradients and are not copied") {
  const auto report = [](bool outside) {
    std::string text = job_text(1, 16, 1, "{dispatcher: alltoall}");
    text.replace(
        text.find("system: megatron-lm"), 19,
        fmt::format("system: {{use: nemo-automodel-moe, experts_outside_units: {}}}", outside));
    text.replace(text.find("sharding: zero1"), 15, "sharding: zero3");
    return report_of(job_of(text), forecast::Fidelity::folded);
  };
  const auto inside = report(false);
  const auto outside = report(true);
  // One expert of three matrices a layer. Its gradient waits for the last micro-batch in the format
  // of the reduction, fp32, or is the parameters' own, bf16; either has no collective.
  const Bytes expert(std::int64_t{4} * 3 * 2048 * 1024);  // elements
  CHECK(inside.memory.front().gradients - outside.memory.front().gradients ==
        Bytes(2 * expert.count()));
  CHECK(outside.memory.front().parameters == inside.memory.front().parameters);
  CHECK(inside.peak.value > outside.peak.value);
}
