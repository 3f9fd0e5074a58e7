// Closed-form volumes of data parallelism: the bytes that a rank's program sends in one step under
// each strategy, counted as NCCL does. P: parameters of the model, d: data-parallel ranks, m:
// micro-batches per rank.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/lower/lower.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

struct Lowered {
  strategy::Plan plan;
  program::World world;
  std::int64_t parameters = 0;
};

std::int64_t parameters(const strategy::Plan& plan) {
  std::int64_t sum = 0;
  const auto add = [&](const model::OperatorGraph& graph) {
    for (const auto& op : graph.operators) {
      sum += op.parameters;
    }
  };
  add(model::build_embedding(plan.model, plan.shard, plan.style));
  add(model::build_head(plan.model, plan.shard, plan.style));
  for (int layer = 0; layer < plan.model.layers; ++layer) {
    add(model::build_layer(plan.model, model::layer_kind(plan.model, layer), plan.shard,
                           plan.style));
  }
  return sum;
}

Lowered lower_job(const std::string& text) {
  INFO(text);
  const job::Job job = config::parse(text, "job").job;
  const auto files = text::data_directory() / "calibration";
  cost::CurveTable curves;
  const cost::Kernels kernels(job.cluster.device, job.kernels.library, files, {}, curves);
  const cost::Collectives collectives(job.cluster, job.nccl, files, {}, curves);
  const auto topology = std::get<cluster::Topology>(cluster::Topology::build(job.cluster));
  lower::Prices prices;
  prices.kernels[job.cluster.device.name] = &kernels;
  prices.collectives = &collectives;
  prices.curves = &curves;
  Lowered out;
  auto plan = strategy::resolve(job);
  if (const auto* why = std::get_if<Infeasible>(&plan)) {
    FAIL(why->key << ": " << why->reason);
  }
  out.plan = std::get<strategy::Plan>(std::move(plan));
  out.world = lower::build_world(out.plan, topology, prices);
  out.parameters = parameters(out.plan);
  return out;
}

// Elements of a unit of Megatron-FSDP, which is padded so that shards end between its longest rows:
// of ffn elements in a layer, of hidden elements outside.
double padded(double elements, double ranks, double row) {
  return std::ceil(elements / (ranks * row)) * ranks * row;
}

// Two sequences per step and rank; 16 GPUs on two nodes.
std::string job_text(const std::string& system, const std::string& parallelism,
                     int micro_batches = 2, int layers = 4) {
  return fmt::format(
      "model: {{layers: {}, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, vocab: "
      "51200, "
      "max_positions: 1024, tied_embeddings: false}}\ncluster: {{use: dgx-a100, nodes: "
      "2}}\nsystem: {}\nworkload: "
      "{{sequence_length: 1024, global_batch: {}}}\nparallelism: {}\n",
      layers, system, 16 * micro_batches, parallelism);
}

struct Traffic {
  int count = 0;
  double bytes = 0;
};

// Traffic of rank 0 by operation and size of the group: "all_gather 16".
std::map<std::string, Traffic> traffic(const program::World& world) {
  std::map<std::string, Traffic> out;
  const program::Rank& rank = world.ranks[0];
  const program::Program& p = world.programs[rank.program];
  for (const program::Task& t : p.tasks) {
    if (t.kind != program::TaskKind::collective || t.category != program::Category::data) {
      continue;
    }
    const auto& c =
        world.communicators[world.communicator_table[rank.first_communicator + t.communicator]];
    const auto& price = world.shapes[c.shape].prices[t.price];
    const std::string& label = world.labels[price.label];
    Traffic& sum = out[fmt::format("{} {}", label.substr(0, label.find(' ')), c.size)];
    ++sum.count;
    sum.bytes += static_cast<double>(price.bytes.count());
  }
  return out;
}

// Every buffer that is not persistent is allocated as often as it is released.
void check_memory_returns(const program::World& world) {
  for (const program::Program& p : world.programs) {
    std::vector<int> balance(p.buffers.size(), 0);
    for (const auto& op : p.host) {
      balance[op.buffer] += op.kind == program::HostKind::allocate  ? 1
                            : op.kind == program::HostKind::release ? -1
                                                                    : 0;
    }
    for (std::size_t i = 0; i < balance.size(); ++i) {
      INFO(p.name << ": " << p.labels[p.buffers[i].label]);
      CHECK(balance[i] == 0);
    }
  }
}

}  // namespace

TEST_CASE("A step sends what the strategy's closed form says", "[laws]") {
  struct Case {
    const char* why;
    const char* system;
    const char* parallelism;
    int micro_batches;
    std::map<std::string, double> volumes;  // bytes per parameter
  };
  const Case cases[] = {
      {"one all-reduce of fp32 gradients, however many micro-batches",
       "pytorch-ddp",
       "{}",
       2,
       {{"all_reduce 16", 4}}},
      {"no accumulation without communication: m all-reduces",
       "pytorch-ddp",
       "{accumulation: {reduce: each}}",
       3,
       {{"all_reduce 16", 12}}},
      {"ZeRO-1: gradients scattered, parameters gathered",
       "megatron-lm",
       "{sharding: zero1}",
       2,
       {{"reduce_scatter 16", 4}, {"all_gather 16", 2}}},
      {"and with overlap",
       "megatron-lm",
       "{sharding: zero1, overlap: {grad_reduce: true, param_gather: true}}",
       2,
       {{"reduce_scatter 16", 4}, {"all_gather 16", 2}}},
      {"several optimizer instances: shards of 8 ranks, reduced over 2",
       "megatron-lm",
       "{sharding: zero1, shard_size: 8}",
       2,
       {{"reduce_scatter 8", 4}, {"all_reduce 2", 4.0 / 8}, {"all_gather 8", 2}}},
      {"ZeRO-2 reduces every micro-batch",
       "megatron-llama",
       "{}",
       3,
       {{"reduce_scatter 16", 12}, {"all_gather 16", 2}}},
      {"FSDP: two gathers and a reduction a micro-batch; embedding and head are gathered once",
       "pytorch-fsdp2",
       "{}",
       2,
       {{"all_gather 16", 0}, {"reduce_scatter 16", 8}}},
      {"HSDP: the shard's gradients are summed over copies",
       "pytorch-fsdp2",
       "{sharding: hsdp, shard_size: 8}",
       2,
       {{"all_gather 8", 0}, {"reduce_scatter 8", 8}, {"all_reduce 2", 1}}},
      {"Colossal-AI's stage 1 all-reduces",
       "colossal-ai",
       "{sharding: zero1}",
       2,
       {{"all_reduce 16", 2}, {"all_gather 16", 2}}},
      {"Whole parameters belong to ranks",
       "paddlenlp",
       "{sharding: zero1}",
       2,
       {{"reduce 16", 2}, {"broadcast 16", 2}}},
      {"Horovod", "horovod", "{}", 2, {{"all_reduce 16", 4}}},
      {"in the node, between hosts, in the node",
       "{use: horovod, hierarchical_all_reduce: true}",
       "{}",
       2,
       {{"reduce_scatter 8", 4}, {"all_reduce 2", 0.5}, {"all_gather 8", 4}}},
  };
  for (const Case& c : cases) {
    INFO(c.why);
    const Lowered l = lower_job(job_text(c.system, c.parallelism, c.micro_batches));
    auto sent = traffic(l.world);
    for (const auto& [key, bytes] : c.volumes) {
      INFO(key);
      REQUIRE(sent.count(key) == 1);
      if (bytes > 0) {  // each operation's bytes are rounded down
        CHECK(sent[key].bytes == Approx(bytes * static_cast<double>(l.parameters)).epsilon(1e-6));
      }
    }
    CHECK(sent.size() == c.volumes.size());
    check_memory_returns(l.world);
  }
}

TEST_CASE("Parameters of sharded units are gathered as reshard_after_forward says", "[laws]") {
  struct Case {
    const char* system;
    const char* parallelism;
    double layers;  // gathers of a layer's parameters per step, over all ranks
    double part;    // the same inside the partition of 8
  };
  // Two micro-batches.
  const Case cases[] = {
      {"pytorch-fsdp2", "{}", 4, 0},
      {"pytorch-fsdp1", "{}", 4, 0},
      {"pytorch-fsdp2", "{reshard_after_forward: false}", 2, 0},
      {"pytorch-fsdp2", "{sharding: zero2}", 2, 0},  // SHARD_GRAD_OP
      {"pytorch-fsdp2", "{reshard_after_forward: 8}", 2, 2},
      // What it gathers ahead of the backward pass stays from the forward pass.
      {"{use: deepspeed, persistent_elements: 0, reuse_elements: 0, forward_prefetch: none, "
       "backward_prefetch: none}",
       "{sharding: zero3}", 4, 0},
      {"{use: deepspeed, persistent_elements: 0, reuse_elements: 0}",
       "{sharding: zero3, zeropp: {partition: 8}}", 2, 2},
      {"{use: deepspeed, persistent_elements: 0, reuse_elements: 0}",
       "{sharding: zero3, zeropp: {weights: int8, partition: 8}}", 1, 2},
  };
  for (const Case& c : cases) {
    INFO(c.system << " " << c.parallelism);
    const Lowered four = lower_job(job_text(c.system, c.parallelism));
    const Lowered eight = lower_job(job_text(c.system, c.parallelism, 2, 8));
    const auto layers = static_cast<double>(eight.parameters - four.parameters);
    auto a = traffic(four.world);
    auto b = traffic(eight.world);
    CHECK(b["all_gather 16"].bytes - a["all_gather 16"].bytes ==
          Approx(c.layers * 2 * layers).epsilon(1e-6));
    CHECK(b["all_gather 8"].bytes - a["all_gather 8"].bytes ==
          Approx(c.part * 2 * layers).epsilon(1e-6));
    check_memory_returns(four.world);
  }
}

// Megatron-FSDP. r: parameters of embedding and head, u: of a layer, of which there are four. What
// is no layer is gathered once a step. Ahead of each module outside of layers, the norm behind them
// among these, first layers are gathered up to half of unit_buffer_elements. If all of them are
// fewer, the backward pass finds them; if one is more, that one is given up unread, and the
// backward pass gathers all four.
TEST_CASE("Units in buffers are gathered ahead by elements, and the rest once a step", "[laws]") {
  for (const int micro_batches : {1, 3}) {
    for (const bool all : {true, false}) {
      for (const bool two : {true, false}) {
        const std::string system =
            fmt::format("{{use: megatron-fsdp, unit_buffer_elements: {}, double_buffers: {}}}",
                        all ? 0 : 2, two && !all);
        INFO(system << " " << micro_batches);
        const Lowered four = lower_job(job_text(system, "{}", micro_batches));
        const Lowered five = lower_job(job_text(system, "{}", micro_batches, 5));
        const auto layer = static_cast<double>(five.parameters - four.parameters);
        const double u = padded(layer, 16, 4096);
        const double r = padded(static_cast<double>(four.parameters) - 4 * layer, 16, 1024);
        const int gathers = micro_batches * (4 + (all ? 4 : 1 + 4));
        auto sent = traffic(four.world);
        CHECK(sent["all_gather 16"].count == 1 + gathers);
        CHECK(sent["all_gather 16"].bytes == Approx(2 * (r + gathers * u)).epsilon(1e-6));
        CHECK(sent["reduce_scatter 16"].count == micro_batches * 5);
        CHECK(sent["reduce_scatter 16"].bytes ==
              Approx(2.0 * micro_batches * (r + 4 * u)).epsilon(1e-6));
        check_memory_returns(four.world);
      }
    }
  }
}

// The same where stages have parts of the model, and chunks too: nothing is given up twice.
TEST_CASE("Stages and chunks give up their units in buffers", "[laws]") {
  for (const char* layout : {"{pipeline: 2}", "{pipeline: 2, virtual_pipeline: 2}",
                             "{pipeline: 4, virtual_pipeline: 1}"}) {
    INFO(layout);
    const Lowered l =
        lower_job(job_text("{use: megatron-fsdp, unit_buffer_elements: 2}", layout, 4, 8));
    check_memory_returns(l.world);
    const Lowered zero2 = lower_job(
        job_text("megatron-fsdp", std::string(layout).insert(1, "sharding: zero2, "), 4, 8));
    check_memory_returns(zero2.world);
  }
}

// Shards of eight ranks on two nodes: replicas add them up once a step.
TEST_CASE("Replicas of units in buffers are reduced with the last micro-batch", "[laws]") {
  const Lowered l = lower_job(job_text("megatron-fsdp", "{shard_size: 8}", 3));
  const Lowered five = lower_job(job_text("megatron-fsdp", "{shard_size: 8}", 3, 5));
  const auto layer = static_cast<double>(five.parameters - l.parameters);
  const double all =
      padded(static_cast<double>(l.parameters) - 4 * layer, 8, 1024) + 4 * padded(layer, 8, 4096);
  auto sent = traffic(l.world);
  CHECK(sent["reduce_scatter 8"].count == 3 * 5);
  CHECK(sent["all_reduce 2"].count == 5);
  CHECK(sent["all_reduce 2"].bytes == Approx(2.0 * all / 8).epsilon(1e-6));
}

TEST_CASE("A gather in 8 bits brings a byte for each weight of a product", "[laws]") {
  // torchao 0.14.1, float8/fsdp_utils.py: fsdp_pre_all_gather. One micro-batch gathers twice.
  const auto gathered = [](const char* how, int layers) {
    std::string text = job_text(
        "torchtitan", fmt::format("{{sharding: zero3, float8_all_gather: {}}}", how), 1, layers);
    text.replace(text.find("dgx-a100"), 8, "dgx-h100");
    text.insert(text.find("global_batch"), "precision: fp8, ");
    text.insert(text.find("layers"),
                "norm: rms, biases: false, gated_mlp: true, positions: rotary, ");
    const Lowered l = lower_job(text);
    check_memory_returns(l.world);
    return std::pair{traffic(l.world), l.parameters};
  };
  const auto layers = [&](const char* how, const char* what) {
    return gathered(how, 8).first[what].bytes - gathered(how, 4).first[what].bytes;
  };
  const auto parameters =
      static_cast<double>(gathered("none", 8).second - gathered("none", 4).second);
  const double norms = 4 * 2 * 1024;  // of four layers
  CHECK(layers("none", "all_gather 16") == Approx(2 * 2 * parameters).epsilon(1e-6));
  const double expected = 2 * ((parameters - norms) + 2 * norms);
  CHECK(layers("precomputed", "all_gather 16") == Approx(expected).epsilon(1e-6));
  CHECK(layers("dynamic", "all_gather 16") == Approx(expected).epsilon(1e-6));
  // The maxima: one all-reduce a step of four bytes a weight, or one of four bytes for each weight
  // ahead of each gather.
  auto none = gathered("none", 4).first, ahead = gathered("precomputed", 4).first,
       each = gathered("dynamic", 4).first;
  const int weights = 4 * 5;  // qkv, output, gate, up, down
  CHECK(ahead["all_reduce 16"].count - none["all_reduce 16"].count == 1);
  CHECK(ahead["all_reduce 16"].bytes - none["all_reduce 16"].bytes == Approx(4.0 * weights));
  CHECK(each["all_reduce 16"].count - none["all_reduce 16"].count == 2 * weights);
}

TEST_CASE("Experts are gathered in 16 bits where other weights are in 8", "[laws]") {
  const auto bytes = [](const char* how, int experts) {
    std::string text =
        job_text("torchtitan", fmt::format("{{sharding: zero3, float8_all_gather: {}}}", how), 1);
    text.replace(text.find("dgx-a100"), 8, "dgx-h100");
    text.insert(text.find("global_batch"), "precision: fp8, ");
    text.insert(text.find("layers"),
                fmt::format("norm: rms, biases: false, gated_mlp: true, positions: rotary, moe: "
                            "{{experts: {}, topk: 2, ffn: 512}}, ",
                            experts));
    const Lowered l = lower_job(text);
    check_memory_returns(l.world);
    return traffic(l.world)["all_gather 16"].bytes;
  };
  CHECK(bytes("precomputed", 4) < bytes("none", 4));
  const double wide = bytes("none", 8) - bytes("none", 4);
  const double narrow = bytes("precomputed", 8) - bytes("precomputed", 4);
  CHECK(wide == Approx(narrow).epsilon(1e-6));
}

TEST_CASE("ZeRO++ sends a quarter of ZeRO-3's bytes between nodes", "[laws]") {
  // Per micro-batch, ZeRO-3 sends three times the 16-bit parameters M between nodes. qwZ halves the
  // forward gather, hpZ keeps the backward gather inside the node, and qgZ reduces the gradients'
  // traffic between nodes to a quarter of M divided by the node's ranks (2306.10209, table 1).
  const Lowered l = lower_job(
      job_text("{use: deepspeed, persistent_elements: 0, reuse_elements: 0}",
               "{sharding: zero3, zeropp: {weights: int8, gradients: int4, partition: 8}}", 1));
  auto sent = traffic(l.world);
  const double m = 2 * static_cast<double>(l.parameters);
  CHECK(sent["all_gather 16"].bytes == Approx(0.5 * m).epsilon(1e-6));
  CHECK(sent["all_gather 8"].bytes == Approx(m).epsilon(1e-6));
  CHECK(sent["all_to_all 8"].bytes == Approx(0.25 * m).epsilon(1e-6));
  CHECK(sent["all_to_all 2"].bytes == Approx(0.25 * m / 8).epsilon(1e-6));
  CHECK(sent.size() == 4);
  check_memory_returns(l.world);
}

TEST_CASE("Stages reduce sharded units once a step", "[laws]") {
  // One gather per step without resharding, and one per micro-batch with it.
  for (const bool reshard : {false, true}) {
    const std::string text =
        job_text("{use: pytorch-fsdp2, cannot: {}, schedules: []}",
                 fmt::format("{{pipeline: 2, reshard_after_forward: {}}}", reshard), 4);
    const Lowered l = lower_job(text);
    auto sent = traffic(l.world);
    INFO("reshard " << reshard);
    REQUIRE(sent.count("reduce_scatter 8") == 1);
    CHECK(sent["reduce_scatter 8"].count == 3);  // embedding and two layers
    CHECK(sent["all_gather 8"].count >= 3);
    CHECK((sent["all_gather 8"].count == 3) == !reshard);
    check_memory_returns(l.world);
  }
}

TEST_CASE("Under no_sync sharded units add up whole gradients and are reduced once", "[laws]") {
  // Four micro-batches; the root of embedding and head, and four layers. FSDP1 joins a unit's
  // gradients in every backward pass, 2 bytes a parameter; the first ones stand until the last.
  for (const bool each : {false, true}) {
    const Lowered l = lower_job(
        job_text("pytorch-fsdp1",
                 fmt::format("{{accumulation: {{reduce: {}}}}}", each ? "each" : "last"), 4));
    auto sent = traffic(l.world);
    INFO("each " << each);
    CHECK(sent["reduce_scatter 16"].count == 5 * (each ? 4 : 1));
    const program::Program& p = l.world.programs[l.world.ranks[0].program];
    double whole = 0;
    for (const program::Buffer& buffer : p.buffers) {
      whole +=
          p.labels[buffer.label] == "flat gradient" ? static_cast<double>(buffer.bytes.count()) : 0;
    }
    CHECK(whole == Approx(4 * 2.0 * static_cast<double>(l.parameters)).epsilon(1e-4));
    check_memory_returns(l.world);
  }
}

TEST_CASE("A flat parameter of frozen and trained parts has a gradient as a whole", "[laws]") {
  // LoRA on queries and values: only of layers, two bytes per frozen or trained parameter.
  const std::string text = job_text("pytorch-fsdp1", "{accumulation: {reduce: last}}", 4);
  const std::string lora =
      std::string(text).replace(text.find("global_batch"), 0, "finetune: {lora: {rank: 8}}, ");
  const Lowered whole = lower_job(text);
  const Lowered l = lower_job(lora);
  double layers =
      static_cast<double>(whole.parameters) - 2.0 * 51200 * 1024 - 1024 * 1024 - 2 * 1024;
  double adapters = static_cast<double>(l.parameters);
  const program::Program& p = l.world.programs[l.world.ranks[0].program];
  double gradients = 0;
  for (const program::Buffer& buffer : p.buffers) {
    gradients +=
        p.labels[buffer.label] == "flat gradient" ? static_cast<double>(buffer.bytes.count()) : 0;
  }
  CHECK(gradients == Approx(4 * 2 * (layers + adapters)).epsilon(1e-4));  // in four passes
  check_memory_returns(l.world);
}

TEST_CASE("Gathered logits travel whole, a sharded loss sends three numbers a token", "[laws]") {
  for (const auto& [loss, gathered] :
       {std::pair{"loss: eager", true}, std::pair{"loss: vocab_parallel", false},
        std::pair{"loss: eager, loss_parallel: true", false}}) {
    std::string text = job_text("megatron-lm-2023", "{tensor: 4}");
    text += fmt::format("kernels: {{{}}}\n", loss);
    const Lowered l = lower_job(text);
    double bytes = 0;
    for (const auto& shape : l.world.shapes) {
      for (const auto& price : shape.prices) {
        bytes += l.world.labels[price.label].find("all_gather") == 0 &&
                         price.bytes.count() == std::int64_t{2} * 1024 * 51200
                     ? static_cast<double>(price.bytes.count())
                     : 0;
      }
    }
    CHECK((bytes > 0) == gathered);
  }
}

TEST_CASE("A bucket holds whole parameters", "[laws]") {
  // DeepSpeed sends a bucket before a parameter would overfill it, DDP after a parameter fills it.
  const auto sizes = [](const Lowered& l) {
    std::vector<std::int64_t> out;
    const program::Rank& rank = l.world.ranks[0];
    for (const program::Task& t : l.world.programs[rank.program].tasks) {
      if (t.kind == program::TaskKind::collective && t.category == program::Category::data) {
        const auto& c = l.world.communicators[l.world.communicator_table[rank.first_communicator +
                                                                         t.communicator]];
        out.push_back(l.world.shapes[c.shape].prices[t.price].bytes.count());
      }
    }
    return out;
  };
  const std::int64_t head = 51200LL * 1024;
  // The head's weight alone exceeds the first bucket of 1 MiB.
  CHECK(sizes(lower_job(job_text("pytorch-ddp", "{}"))).front() == head * 4);
  const Lowered deepspeed =
      lower_job(job_text("{use: deepspeed, bucket_elements: 1000000, bucket_before_overflow: true}",
                         "{sharding: none}"));
  const auto sent = sizes(deepspeed);
  CHECK(sent.front() == head * 2);
  for (std::size_t i = 1; i < sent.size(); ++i) {
    // A message exceeds the bucket only if a single parameter does: weights of 3, 4 and 1 times
    // hidden squared, and the tables.
    const std::int64_t h2 = 2 * 1024 * 1024;
    const bool alone =
        sent[i] == 3 * h2 || sent[i] == 4 * h2 || sent[i] == h2 || sent[i] >= head * 2;
    INFO(i << ": " << sent[i]);
    CHECK((sent[i] <= 2'000'000 || alone));
  }
}

TEST_CASE(
    "Experts are reduced among the ranks that hold the same ones, dense parameters over data and "
    "context",
    "[laws]") {
  // 16 ranks as context 2 x data 8 with expert parallelism 4: each expert is on 4 ranks.
  const std::string text =
      "model: {layers: 2, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, vocab: "
      "51200, positions: "
      "rotary, norm: rms, gated_mlp: true, tied_embeddings: false, moe: {experts: 8, topk: 2, ffn: "
      "2048}}\ncluster: {use: "
      "dgx-a100, nodes: 2}\nsystem: megatron-lm\nworkload: {sequence_length: 1024, global_batch: "
      "16}\nparallelism: "
      "{context: 2, expert: 4, sharding: zero1}\n";
  const Lowered l = lower_job(text);
  auto sent = traffic(l.world);
  const double experts = 2.0 * 2 * 3 * 1024 * 2048;  // layers, experts per rank, gate, up and down
  const double dense = static_cast<double>(l.parameters) - experts;
  CHECK(sent["reduce_scatter 16"].bytes == Approx(4 * dense).epsilon(1e-6));
  CHECK(sent["reduce_scatter 4"].bytes == Approx(4 * experts).epsilon(1e-6));
  // Both optimizers gather both (gathers_for_each_optimizer).
  CHECK(sent["all_gather 16"].bytes == Approx(2 * 2 * dense).epsilon(1e-6));
  CHECK(sent["all_gather 4"].bytes == Approx(2 * 2 * experts).epsilon(1e-6));
  CHECK(sent.size() == 4);
  // 6 + 12/d bytes per parameter, where d is the number of ranks that share it.
  double states = 0;
  for (const auto& b : l.world.programs[0].buffers) {
    using M = program::MemoryCategory;
    const bool state =
        b.category == M::parameters || b.category == M::gradients || b.category == M::optimizer;
    states += state ? static_cast<double>(b.bytes.count()) : 0;
  }
  CHECK(states == Approx(dense * (6 + 12.0 / 16) + experts * (6 + 12.0 / 4)).epsilon(1e-6));
}

TEST_CASE(
    "Frozen parameters take no gradient and no optimizer state, and are gathered with the units",
    "[laws]") {
  const auto with = [](const char* system, const char* parallelism) {
    return lower_job(job_text(system, parallelism) + "");
  };
  const Lowered whole = with("pytorch-fsdp2", "{}");
  std::string text = job_text("pytorch-fsdp2", "{}");
  const auto at = text.find("workload: {");
  text.insert(at + std::string("workload: {").size(),
              "finetune: {lora: {rank: 8, targets: [q, v]}}, ");
  const Lowered lora = lower_job(text);
  auto all = traffic(whole.world);
  auto few = traffic(lora.world);
  // Adapters of two products per layer: rank x (in + out) each.
  const double adapters = 4.0 * 2 * 8 * (1024 + 1024);
  CHECK(few["reduce_scatter 16"].bytes == Approx(2 * 4 * adapters).epsilon(1e-6));
  CHECK(few["all_gather 16"].bytes > all["all_gather 16"].bytes);
}

TEST_CASE("Frozen parameters are gathered in the products' format, whatever they are held in",
          "[laws]") {
  // MixedPrecision.param_dtype casts every flat parameter (torch 2.15, distributed/fsdp).
  std::map<std::string, double> sent;
  for (const std::string held : {"fp32", "bf16"}) {
    std::string text =
        job_text("pytorch-fsdp1", "{}") + "memory: {dtypes: {parameters: " + held + "}}\n";
    text.insert(text.find("global_batch"), "finetune: {lora: {rank: 8}}, ");
    const Lowered l = lower_job(text);
    sent[held] = traffic(l.world)["all_gather 16"].bytes;
    check_memory_returns(l.world);
  }
  CHECK(sent["fp32"] > 0);
  CHECK(sent["fp32"] == Approx(sent["bf16"]).epsilon(1e-9));
}

TEST_CASE("Interleaved stages reduce and gather chunk by chunk, however they align", "[laws]") {
  for (const bool align : {false, true}) {
    const Lowered l = lower_job(fmt::format(
        "model: {{layers: 16, hidden: 1024, heads: 16, kv_heads: 16, "
        "head_dim: 64, ffn: 4096, vocab: 51200, "
        "max_positions: 1024, tied_embeddings: false}}\ncluster: {{use: "
        "dgx-a100, nodes: 2}}\nsystem: {{use: megatron-lm, "
        "bucket_elements: 10000000, align_grad_reduce: {0}, align_param_gather: {0}}}\nworkload: "
        "{{sequence_length: 1024, global_batch: "
        "32}}\nparallelism: {{pipeline: 4, virtual_pipeline: 4, sharding: "
        "zero1, overlap: {{grad_reduce: true, "
        "param_gather: true}}}}\n",
        align));
    for (const program::Program& p : l.world.programs) {
      std::map<std::string, int> count;
      for (const program::Task& t : p.tasks) {
        if (t.kind == program::TaskKind::collective && t.category == program::Category::data) {
          ++count[p.labels[t.label]];
        }
      }
      INFO(p.name << " aligned " << align);
      CHECK(count["gradients reduce_scatter"] ==
            (p.stage == 0 ? 5 : 4));  // the first chunk has two buckets
      CHECK(count["parameters all_gather"] >= 4);
    }
  }
}
