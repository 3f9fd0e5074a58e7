// Every form of recomputation: what it drops and what it costs, in programs and as simulated.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"
#include "support/lowered.h"
#include "support/run_world.h"

using namespace stepcast;
using program::Category;
using support::Lowered;
using support::run;

namespace {

constexpr std::int64_t kTokens = 1024;
constexpr std::int64_t kHidden = 2048;
constexpr std::int64_t kFfn = 8192;

std::string job_of(const std::string& memory, int pipeline = 1, int layers = 4,
                   const std::string& parallelism = "", int micro_batches = 8) {
  return fmt::format(
      "model: {{layers: {}, hidden: {}, heads: 16, kv_heads: 16, head_dim: 128, ffn: {}, "
      "vocab: 32000, max_positions: {}}}\n"
      "cluster: {{use: dgx-a100, nodes: 1}}\n"
      "workload: {{sequence_length: {}, global_batch: {}, micro_batch: 1}}\n"
      "parallelism: {{data: 1, tensor: {}, pipeline: {}{}}}\nmemory: {}\n",
      layers, kHidden, kFfn, kTokens, kTokens, micro_batches, 8 / pipeline, pipeline, parallelism,
      memory);
}

// A mixture of experts with latent attention, in which every module has something to recompute.
std::string experts_of(const std::string& memory) {
  return fmt::format(
      "model: {{layers: 4, hidden: 1024, heads: 16, ffn: 4096, vocab: 32000, positions: rotary, "
      "norm: rms, gated_mlp: true, moe: {{experts: 16, topk: 2, ffn: 1024, shared_experts: 1}}, "
      "mla: {{q_lora_rank: 512, kv_lora_rank: 256, qk_nope_dim: 64, qk_rope_dim: 32, v_dim: "
      "64}}}}\n"
      "cluster: {{use: dgx-h100, nodes: 1}}\nsystem: megatron-lm\n"
      "workload: {{sequence_length: 1024, global_batch: 16, micro_batch: 1}}\n"
      "parallelism: {{expert: 4, expert_tensor: 1, pipeline: 2}}\nmemory: {}\n",
      memory);
}

std::int64_t peak(const program::Timeline& t) {
  std::int64_t most = 0;
  for (const auto& r : t.ranks) {
    most = std::max(most, r.peak_allocated.count());
  }
  return most;
}

// Time of the kernels of one name and category in rank 0's step.
std::int64_t time_of(const Lowered& l, const std::string& name, Category category) {
  std::int64_t out = 0;
  const program::Program& p = l.program();
  for (const program::Task& t : p.tasks) {
    out += t.kind == program::TaskKind::kernel && t.category == category &&
                   (name.empty() || p.labels[t.label] == name)
               ? t.duration.count()
               : 0;
  }
  return out;
}

// Bytes that one layer keeps for one micro-batch.
std::int64_t kept(const Lowered& l) {
  std::map<std::int64_t, int> sizes;
  for (const program::Buffer& b : l.program().buffers) {
    if (l.program().labels[b.label] == "activations") {
      ++sizes[b.bytes.count()];
    }
  }
  REQUIRE(!sizes.empty());
  return std::max_element(sizes.begin(), sizes.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

const std::vector<std::string> kForms = {
    "{recompute: none}",
    "{recompute: selective}",
    "{recompute: full}",
    "{recompute: {every: 2}}",
    "{recompute: {uniform: 2}}",
    "{recompute: {block: 1}}",
    "{recompute: {modules: [core_attn, mlp]}}",
    "{recompute: {modules: [layernorm, act]}}",
    "{recompute: {per_op: sac}}",
    "{recompute: {per_op: products}}",
    "{recompute: full, whole_micro_batches: 1}",
    "{recompute: selective, whole_micro_batches: 2}",
    "{recompute: {optimal: {budget: 6 GB}}}",
};

void agree(const std::string& text) {
  INFO(text);
  Lowered lowered(text, true);
  const auto full = run(lowered.world);
  const auto folded = lower::fold(lowered.world);
  REQUIRE(folded);
  const auto small = run(folded->world);
  CHECK(full.period == small.period);
  for (std::size_t r = 0; r < full.ranks.size(); ++r) {
    const auto& x = full.ranks[r];
    const auto& y = small.ranks[folded->class_of[r]];
    REQUIRE(x.breakdown == y.breakdown);
    REQUIRE(x.peak_allocated == y.peak_allocated);
  }
  for (const program::Program& program : lowered.world.programs) {
    std::map<std::uint32_t, int> live;
    for (const program::HostOp& op : program.host) {
      live[op.buffer] += op.kind == program::HostKind::allocate  ? 1
                         : op.kind == program::HostKind::release ? -1
                                                                 : 0;
    }
    for (const auto& [buffer, count] : live) {
      REQUIRE(count == 0);
    }
  }
}

}  // namespace

TEST_CASE("With every form of recomputation folded is full and memory returns",
          "[agree][recompute]") {
  std::mt19937 random(7);
  const std::vector<std::string> schedules = {"1f1b", "gpipe", "zb_h1", "zb_v"};
  for (const std::string& form : kForms) {
    const std::string& schedule =
        schedules[std::uniform_int_distribution<std::size_t>(0, schedules.size() - 1)(random)];
    agree(job_of(form, 4, 8, ", schedule: " + schedule));
    agree(job_of(form, 2, 8, ", virtual_pipeline: 2", 8));
  }
  for (const char* modules : {"moe", "moe_act, layernorm", "mla_up_proj", "shared_experts"}) {
    agree(experts_of(fmt::format("{{recompute: {{modules: [{}]}}}}", modules)));
  }
  agree(experts_of("{recompute: {per_op: sac}}"));
  agree(job_of("{recompute: {memory_budget: 0.4}}", 2, 8) + "kernels: {compile: true}\n");
}

TEST_CASE("A module drops the bytes that it saves and runs its forward pass again",
          "[agree][recompute]") {
  const Lowered none(job_of("{recompute: none}"));
  const auto drops = [&](const std::string& modules) {
    const Lowered l(job_of(fmt::format("{{recompute: {{modules: [{}]}}}}", modules)));
    return kept(none) - kept(l);
  };
  // For one tensor rank of eight in 16 bits: the input of the second product; for the whole MLP
  // also the input of the activation.
  const std::int64_t wide = 2 * kTokens * kFfn / 8;
  CHECK(drops("act") == wide);
  CHECK(drops("mlp") >= 2 * wide);
  CHECK(drops("mlp, core_attn") == drops("mlp") + drops("core_attn"));

  const Lowered act(job_of("{recompute: {modules: [act]}}"));
  const std::int64_t forward = time_of(none, "activation", Category::compute);
  CHECK(forward > 0);
  CHECK(time_of(act, "activation", Category::compute) == forward);
  CHECK(time_of(act, "", Category::recompute) == forward);
  CHECK(time_of(none, "", Category::recompute) == 0);
  const Lowered mlp(job_of("{recompute: {modules: [mlp]}}"));
  for (const char* name : {"fc1", "activation", "fc2"}) {
    CHECK(time_of(mlp, name, Category::recompute) == time_of(none, name, Category::compute));
  }
  // Reductions over tensor ranks are repeated as well.
  const auto sums = [](const Lowered& l) { return l.sent(Category::tensor, "fc2").count; };
  CHECK(sums(mlp) > sums(none));
}

TEST_CASE("The selective policy redoes every second product and no attention",
          "[agree][recompute]") {
  const Lowered none(job_of("{recompute: none}"));
  const Lowered sac(job_of("{recompute: {per_op: sac}}"));
  const Lowered full(job_of("{recompute: full}"));
  // Products in order: qkv, out, fc1, fc2.
  CHECK(time_of(sac, "qkv", Category::recompute) == 0);
  CHECK(time_of(sac, "out", Category::recompute) == time_of(none, "out", Category::compute));
  CHECK(time_of(sac, "fc1", Category::recompute) == 0);
  CHECK(time_of(sac, "core_attention", Category::recompute) == 0);
  CHECK(kept(sac) < kept(none));
  CHECK(kept(sac) > kept(full));
}

TEST_CASE("A policy that keeps all products redoes none of them", "[agree][recompute]") {
  const Lowered none(job_of("{recompute: none}"));
  const Lowered products(job_of("{recompute: {per_op: products}}"));
  const Lowered sac(job_of("{recompute: {per_op: sac}}"));
  for (const char* product : {"qkv", "out", "fc1", "fc2", "core_attention"}) {
    CHECK(time_of(products, product, Category::recompute) == 0);
  }
  CHECK(time_of(products, "activation", Category::recompute) ==
        time_of(none, "activation", Category::compute));
  CHECK(kept(products) < kept(none));
  CHECK(kept(products) > kept(sac));
}

TEST_CASE("Within a budget of memory more stays and less runs again the larger it is",
          "[agree][recompute]") {
  const std::string compiled = "kernels: {compile: true}\n";
  const auto within = [&](double budget) {
    return Lowered(job_of(fmt::format("{{recompute: {{memory_budget: {}}}}}", budget)) + compiled);
  };
  const Lowered none(job_of("{recompute: none}") + compiled);
  const Lowered products(job_of("{recompute: {per_op: products}}") + compiled);
  const auto redone = [](const Lowered& l) {
    std::int64_t out = 0;
    for (const char* product : {"qkv", "out", "fc1", "fc2", "core_attention"}) {
      out += time_of(l, product, Category::recompute);
    }
    return out;
  };
  std::int64_t before = 0;
  for (const double budget : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8}) {
    INFO(budget);
    const Lowered l = within(budget);
    CHECK(kept(l) >= before);
    CHECK(kept(l) < kept(none));
    before = kept(l);
  }
  CHECK(redone(within(0.1)) > redone(within(0.3)));
  CHECK(redone(within(0.3)) > 0);
  CHECK(redone(within(0.9)) == 0);
  CHECK(kept(within(0.9)) == kept(products));
}

TEST_CASE("Micro-batches that keep all redo nothing, so many of those in flight",
          "[agree][recompute]") {
  const auto redone = [](int whole) {
    const std::string memory = fmt::format("{{recompute: full, whole_micro_batches: {}}}", whole);
    const Lowered l(job_of(memory, 4, 8));
    return std::pair(time_of(l, "", Category::recompute), peak(run(l.world)));
  };
  // Stage 0 of four has four micro-batches in flight, of eight.
  const auto [all, least] = redone(0);
  for (int whole = 1; whole <= 4; ++whole) {
    const auto [time, bytes] = redone(whole);
    CHECK(time == all * (4 - whole) / 4);
    CHECK(bytes > least);
  }
}

// A GPT of 8 layers on one and four stages, and Llama-3 8B.
TEST_CASE("Optimal recomputation keeps its budget and is never slower than groups or first layers",
          "[agree][recompute]") {
  const auto llama = [](const std::string& memory) {
    return fmt::format(
        "model: llama-3-8b\ncluster: {{use: dgx-h100, nodes: 1}}\nsystem: megatron-lm\n"
        "workload: {{sequence_length: 8192, global_batch: 4, micro_batch: 1}}\n"
        "parallelism: {{tensor: 4, sharding: zero1}}\nmemory: {}\n",
        memory);
  };
  const std::vector<std::pair<std::string, std::function<std::string(const std::string&)>>> jobs = {
      {"one stage", [](const std::string& memory) { return job_of(memory, 1, 8); }},
      {"four stages", [](const std::string& memory) { return job_of(memory, 4, 8); }},
      {"llama-3-8b", llama}};
  for (const auto& [name, text] : jobs) {
    std::vector<std::pair<std::int64_t, std::int64_t>> others;  // peak, period
    for (const char* form : {"full", "{uniform: 2}", "{uniform: 4}", "{block: 1}", "{block: 4}"}) {
      const Lowered l(text(fmt::format("{{recompute: {}}}", form)));
      const auto t = run(l.world);
      others.emplace_back(peak(t), t.period.count());
    }
    std::sort(others.begin(), others.end());
    std::int64_t before = 0;
    for (const auto& [bytes, period] : others) {
      INFO(name << ", " << bytes << " bytes");
      const Lowered l(text(fmt::format("{{recompute: {{optimal: {{budget: {}}}}}}}", bytes)));
      const auto t = run(l.world);
      CHECK(peak(t) <= bytes);
      CHECK(t.period.count() <= period);
      CHECK((before == 0 || t.period.count() <= before));
      before = t.period.count();
    }
  }
}
