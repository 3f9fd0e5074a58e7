// Layers, includes, overrides and derived values of a job.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/input/input.h"

using namespace stepcast;
using job::DType;

namespace {

const std::string kJob = R"(model: llama-3-8b
cluster: {use: dgx-h100, nodes: 2}
system: megatron-lm
workload: {sequence_length: 8192, global_batch: 32}
parallelism:
  tensor: 2
)";

config::Loaded parse(const std::string& extra = "",
                     const std::vector<std::string>& overrides = {}) {
  return input::parse(kJob + extra, "job.yaml", overrides);
}

std::vector<Fault> faults(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    input::parse(yaml, "job.yaml", overrides);
  } catch (const InputError& error) {
    return error.faults();
  }
  return {};
}

}  // namespace

TEST_CASE("llama70b.yaml is Llama-3 70B on 64 H100 nodes") {
  const job::Job j = input::load("llama70b.yaml").job;
  CHECK(j.model.name == "llama-3-70b");
  CHECK(j.model.layers == 80);
  CHECK(j.model.hidden == 8192);
  CHECK(j.model.kv_heads == 8);
  CHECK(j.model.ffn == 28672);
  CHECK(j.model.vocab == 128256);
  CHECK(j.model.gated_mlp);
  CHECK_FALSE(j.model.tied_embeddings);
  CHECK(j.cluster.ranks() == 512);
  CHECK(j.cluster.device.name == "h100-sxm");
  CHECK(j.cluster.device.peak.at(job::DType::bf16).count() == 989e12);
  CHECK(j.cluster.node.nic.count() == 50e9);  // 400 Gb/s
  CHECK(j.system.family == "megatron");
}

TEST_CASE("What a system sets gives way where the job rules it out; what the job states stays") {
  const auto dense = parse("", {"system=deepseek", "parallelism.tensor=1"}).job;
  CHECK(dense.memory.recompute.modules == std::vector<std::string>{"norm"});
  CHECK_THROWS_AS(parse("", {"system=deepseek", "parallelism.tensor=1",
                             "memory.recompute={modules: [mla_up_proj]}"}),
                  InputError);

  const std::string whole_sequences = "parallelism.sequence_parallel=false";
  CHECK(parse("", {"system=nemo", "parallelism.sequence_parallel=true"})
            .job.parallelism.overlap.tensor == job::TensorOverlap::ring);
  CHECK(parse("", {"system=nemo", whole_sequences}).job.parallelism.overlap.tensor ==
        job::TensorOverlap::none);
  CHECK(parse("", {"system=nemo", whole_sequences, "parallelism.overlap.tensor=ring"})
            .job.parallelism.overlap.tensor == job::TensorOverlap::ring);

  using job::AttentionKernel;
  const std::string volta = "cluster.device=v100-sxm2-32";
  CHECK(parse("", {"system=deepseek", "parallelism.tensor=1"}).job.kernels.attention ==
        AttentionKernel::flash3);
  CHECK(parse("", {"system=deepseek", "parallelism.tensor=1", "cluster.device=a100-sxm-80"})
            .job.kernels.attention == AttentionKernel::flash2);
  CHECK(parse("", {volta, "workload.precision=fp16"}).job.kernels.attention ==
        AttentionKernel::unfused);
  CHECK(parse("", {volta, "workload.precision=fp16", "kernels.attention=flash2"})
            .job.kernels.attention == AttentionKernel::flash2);
}

TEST_CASE("every ready job loads") {
  const auto jobs = config::list("jobs");
  CHECK(jobs.size() >= 5);
  for (const auto& name : jobs) {
    INFO(name);
    CHECK_NOTHROW(input::load(name));
  }
}

TEST_CASE("every file of configs can be used by its name") {
  for (const auto& name : config::list("models")) {
    INFO(name);
    CHECK(config::model(name).layers > 0);
  }
  for (const auto& name : config::list("devices")) {
    INFO(name);
    const job::Device d = config::device(name);
    CHECK(d.memory_bandwidth.count() > 0);
    CHECK(d.usable_memory.count() > 0);
    CHECK_FALSE(d.source.empty());
  }
  for (const auto& name : config::list("systems")) {
    INFO(name);
    CHECK_FALSE(config::system(name).generation.empty());
  }
  for (const auto& name : config::list("clusters")) {
    INFO(name);
    const std::string precision = name.starts_with("tpu") ? "bf16" : "fp16";
    const job::Job j =
        parse("", {"cluster.use=" + name, "parallelism.tensor=1", "cluster.gpus_per_node=4",
                   "workload.precision=" + precision, "kernels.attention=unfused"})
            .job;
    CHECK(j.cluster.name == name);
    CHECK_FALSE(j.cluster.device.source.empty());
  }
}

TEST_CASE("aliases and spellings name the same device") {
  CHECK(config::device("h100").name == "h100-sxm");
  CHECK(config::device("H100_SXM").name == "h100-sxm");
  CHECK(config::device("a100_sxm_80").memory.count() == 80'000'000'000);
}

TEST_CASE("a system's defaults lie below the job, options above it") {
  const auto plain = parse();
  CHECK(plain.job.parallelism.sharding == job::Sharding::none);
  CHECK_FALSE(plain.job.parallelism.overlap.grad_reduce);
  const auto nemo = parse("", {"system=nemo"});
  CHECK(nemo.job.system.name == "nemo");
  CHECK(nemo.job.parallelism.sharding == job::Sharding::zero1);
  CHECK(nemo.job.parallelism.overlap.grad_reduce);
  CHECK(nemo.job.parallelism.overlap.pipeline);  // of megatron-lm, which nemo builds on
  const auto job_wins = parse("  overlap: {grad_reduce: false}\n", {"system=nemo"});
  CHECK_FALSE(job_wins.job.parallelism.overlap.grad_reduce);
  CHECK(job_wins.job.parallelism.overlap.param_gather);
  const auto option_wins =
      parse("  overlap: {grad_reduce: false}\n",
            {"system=nemo", "parallelism.overlap.grad_reduce=true", "parallelism.tensor=4"});
  CHECK(option_wins.job.parallelism.overlap.grad_reduce);
  CHECK(option_wins.job.parallelism.tensor == 4);
}

TEST_CASE("a size of context ranks keeps the kind of the system, and a kind the size") {
  const auto context = [](const std::string& system, const std::vector<std::string>& options) {
    const job::Parallelism p =
        config::parse("model: llama-3-8b\ncluster: {use: dgx-h100, nodes: 1}\nsystem: " + system +
                          "\nworkload: {sequence_length: 8192, global_batch: 8}\n"
                          "parallelism: {context: 2}\n",
                      "job.yaml", options)
            .job.parallelism;
    return std::pair(p.context, p.context_kind);
  };
  using job::ContextKind;
  CHECK(context("torchtitan", {}) == std::pair(2, ContextKind::all_gather));
  CHECK(context("torchtitan", {"parallelism.context=4"}) == std::pair(4, ContextKind::all_gather));
  CHECK(context("torchtitan", {"parallelism.context.kind=p2p"}) == std::pair(2, ContextKind::p2p));
  CHECK(context("deepspeed", {}) == std::pair(2, ContextKind::a2a));
  CHECK(context("megatron-lm", {}) == std::pair(2, ContextKind::p2p));
  for (const std::string system : {"torchtitan", "megatron-lm"}) {
    CHECK_THROWS_AS(context(system, {"parallelism.context=[1, 2]"}), InputError);
    CHECK_THROWS_AS(context(system, {"parallelism.context=two"}), InputError);
  }
}

TEST_CASE("origins tell where each value was set") {
  const auto loaded = parse("  pipeline: 2\n", {"workload.micro_batch=2"});
  CHECK(to_string(loaded.origins.at("parallelism.tensor")) == "job.yaml:6:11");
  CHECK(to_string(loaded.origins.at("workload.micro_batch")) == "--set workload.micro_batch=2");
  CHECK(loaded.origins.at("cluster.device.memory").file.find("configs/devices/h100-sxm.yaml") !=
        std::string::npos);
  CHECK(loaded.origins.at("system.family").file.find("configs/systems/megatron-lm.yaml") !=
        std::string::npos);
  CHECK(loaded.origins.count("parallelism.data") == 0);
}

TEST_CASE("an impossible plan is blamed on the key, or on the nearest key above it") {
  const auto loaded = parse();
  CHECK(to_string(config::fault_of(loaded, {"parallelism.tensor", "why"})) ==
        "job.yaml:6:11: error: why");
  CHECK(to_string(config::fault_of(loaded, {"parallelism.expert", "why"})) ==
        "job.yaml:6:3: error: why");
  CHECK(to_string(config::fault_of(loaded, {"nccl.algo", "why"})) == "job.yaml:1:1: error: why");
}

TEST_CASE("an option may name a section, a name or a part of one") {
  CHECK(parse("", {"cluster.nodes=4"}).job.cluster.nodes == 4);
  CHECK(parse("", {"model.layers=16"}).job.model.layers == 16);
  CHECK(parse("", {"model.layers=16"}).job.model.hidden == 4096);
  CHECK(parse("", {"model=llama-3-70b"}).job.model.layers == 80);
  CHECK(parse("", {"memory={recompute: {every: 2}}"}).job.memory.recompute.layers == 2);
  CHECK(parse("memory: {recompute: full}\n", {"memory.recompute.block=3"})
            .job.memory.recompute.kind == job::Recompute::Kind::block);
  CHECK(parse("memory: {recompute: {every: 4}}\n", {"memory.recompute.block=3"})
            .job.memory.recompute.kind == job::Recompute::Kind::block);
  CHECK(parse("", {"cluster.device=h200-sxm"}).job.cluster.device.name == "h200-sxm");
  CHECK(parse("", {"cluster.device.power=500 W"}).job.cluster.device.power.count() == 500);
}

TEST_CASE("a job may start from another") {
  const auto folder = std::filesystem::temp_directory_path() / "stepcast_config_load_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "base.yaml") << kJob;
  std::ofstream(folder / "job.yaml") << "use: ./base.yaml\nworkload: {global_batch: 64}\n";
  const auto loaded = input::load((folder / "job.yaml").string());
  CHECK(loaded.job.workload.global_batch == 64);
  CHECK(loaded.job.workload.sequence_length == 8192);
  CHECK(loaded.origins.at("workload.sequence_length").file == (folder / "base.yaml").string());
  std::filesystem::remove_all(folder);
}

TEST_CASE("whole numbers may be written with an exponent") {
  CHECK(parse("", {"workload.tokens=15e12"}).job.workload.tokens == 15e12);
  CHECK(parse("", {"workload.global_batch=1e3", "cluster.nodes=1", "parallelism.tensor=8"})
            .job.workload.global_batch == 1000);
}

TEST_CASE("memory overrides: as sold keeps the usable share, as shown is usable") {
  const auto as_sold = parse("", {"cluster.device.memory=96 GB"}).job.cluster.device;
  CHECK(as_sold.memory.count() == 96'000'000'000);
  CHECK(as_sold.usable_memory / as_sold.memory == Approx(84'932'978'278.0 / 80e9));
  const auto as_shown = parse("", {"cluster.device.memory=95 GiB"}).job.cluster.device;
  CHECK(as_shown.usable_memory.count() == 0);
  CHECK(as_shown.memory.count() == 95LL << 30);
}

TEST_CASE("a cluster is a node count and overrides of its parts") {
  const auto c =
      parse("", {"cluster={use: dgx-a100, nodes: 4, gpus_per_node: 4, device: h100-sxm, "
                 "fabric: {kind: fat_tree, oversubscription: 2}, order: tp-dp-cp-ep-pp, "
                 "faults: [{link: node3/nic2, bandwidth: 0.5}], "
                 "overrides: [{first: 0, count: 1, device: {use: h100-sxm, power: 500 W}}]}"})
          .job.cluster;
  CHECK(c.ranks() == 16);
  CHECK(c.device.name == "h100-sxm");
  CHECK(c.node.name == "dgx-a100");
  CHECK(c.fabric.kind == job::Fabric::Kind::fat_tree);
  CHECK(c.fabric.oversubscription == 2);
  REQUIRE(c.faults.size() == 1);
  CHECK(c.faults[0].target == "node3/nic2");
  CHECK(c.faults[0].bandwidth == 0.5);
  REQUIRE(c.overrides.size() == 1);
  CHECK(c.overrides[0].device.power.count() == 500);
}

TEST_CASE("formats of the training state follow precision and framework") {
  using job::DType;
  const auto types = [](const std::vector<std::string>& overrides) {
    return parse("", overrides).job.memory.dtypes;
  };
  CHECK(types({}).parameters == DType::bf16);
  CHECK(types({}).gradients == DType::fp32);
  CHECK(types({}).master == DType::fp32);
  CHECK(types({"workload.precision=fp16"}).gradients == DType::fp16);
  CHECK(types({"workload.precision=fp16", "memory.dtypes.gradients=fp32"}).gradients ==
        DType::fp32);
  CHECK(types({"workload.precision=fp32"}).parameters == DType::fp32);
  CHECK_FALSE(types({"workload.precision=fp32"}).master.has_value());
  CHECK(types({"system=deepspeed"}).reduce == DType::bf16);
  CHECK(types({"system=pytorch-fsdp"}).parameters == DType::fp32);
  CHECK_FALSE(types({"system=pytorch-fsdp"}).master.has_value());
  CHECK(types({"system=pytorch-fsdp"}).moments == DType::fp32);
  // torch's optimizers make their states like the parameters, and fully_shard casts what it
  // reduced.
  const auto narrow = types({"system=pytorch-fsdp2", "memory.dtypes.parameters=bf16"});
  CHECK(narrow.gradients == DType::bf16);
  CHECK(narrow.moments == DType::bf16);
  CHECK(narrow.reduce == DType::fp32);
  CHECK(types({"system=deepspeed", "memory.dtypes.parameters=bf16"}).moments == DType::fp32);
}

TEST_CASE("litgpt ties no embeddings, whatever the model") {
  const auto tied = [](const char* system) {
    return parse("",
                 {"model=gemma-2b", system, "workload.sequence_length=512", "parallelism.tensor=1"})
        .job.model.tied_embeddings;
  };
  CHECK(tied("system=torchtune"));
  CHECK_FALSE(tied("system=litgpt"));
  CHECK_FALSE(tied("system=litgpt-fsdp"));
}

TEST_CASE("Transformers 5 trains weights as their checkpoint stores them, 4 in fp32") {
  using job::DType;
  const auto types = [](std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), {"model=llama-3.1-8b", "workload.sequence_length=512",
                                         "parallelism.tensor=1"});
    return parse("", overrides).job.memory.dtypes;
  };
  const auto stored = types({"system=transformers"});
  CHECK(stored.parameters == DType::bf16);
  CHECK(stored.gradients == DType::bf16);
  CHECK(stored.reduce == DType::bf16);
  CHECK(stored.moments == DType::bf16);
  CHECK_FALSE(stored.master.has_value());
  const auto before = types({"system=transformers-4"});
  CHECK(before.parameters == DType::fp32);
  CHECK(before.moments == DType::fp32);
  CHECK(parse("", {"model=mixtral-8x7b", "system=transformers"}).job.moe.grouped);
  CHECK_FALSE(parse("", {"model=mixtral-8x7b", "system=transformers-4"}).job.moe.grouped);
  // What the job states, and a checkpoint in fp32.
  CHECK(types({"system=transformers", "memory.dtypes.parameters=fp32"}).moments == DType::fp32);
  CHECK(types({"system=transformers", "workload.precision=fp32"}).parameters == DType::fp32);
  CHECK(types({"model=gpt2-xl", "system=transformers"}).parameters == DType::fp32);
  CHECK(types({"model=bert-large", "system=transformers"}).parameters == DType::fp32);
  CHECK(types({"model=gpt2-xl", "model.checkpoint=bf16", "system=transformers"}).parameters ==
        DType::bf16);
  // PEFT widens what stays in 16 bits of a base in 4.
  CHECK(types({"system=transformers", "workload.finetune=lora"}).parameters == DType::bf16);
  CHECK(types({"system=transformers", "workload.finetune=qlora"}).parameters == DType::fp32);
  // Accelerate widens what FSDP shards and trains.
  for (const char* system : {"system=transformers", "system=transformers-fsdp2"}) {
    CHECK(types({system, "parallelism.sharding=zero3"}).parameters == DType::fp32);
    CHECK(types({system, "parallelism.sharding=zero3",
                 "workload.finetune={lora: {rank: 8, targets: [q, v]}}"})
              .parameters == DType::bf16);
  }
}

TEST_CASE("Transformer Engine takes FlashAttention before Hopper, cuDNN's kernel from it on") {
  using job::AttentionKernel;
  const auto kernel = [](const char* device, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"system=megatron-lm", std::string("cluster.device=") + device});
    return parse("", more).job.kernels.attention;
  };
  CHECK(kernel("a100-sxm-80") == AttentionKernel::flash2);
  CHECK(kernel("l40s") == AttentionKernel::flash2);
  CHECK(kernel("h100-sxm") == AttentionKernel::cudnn);
  CHECK(kernel("b200-sxm") == AttentionKernel::cudnn);
  CHECK(kernel("v100-sxm2-32", {"workload.precision=fp16"}) == AttentionKernel::unfused);
  // A learned logit in the softmax is cuDNN's alone; what a job states stays; PyTorch's own choice.
  CHECK(kernel("a100-sxm-80", {"model.sinks=true"}) == AttentionKernel::cudnn);
  CHECK(kernel("a100-sxm-80", {"kernels.attention=cudnn"}) == AttentionKernel::cudnn);
  CHECK(kernel("a100-sxm-80", {"system=torchtitan-2025"}) == AttentionKernel::cudnn);
}

TEST_CASE("PyTorch's own attention is cuDNN's on Hopper and Blackwell, where nothing is dropped") {
  using job::AttentionKernel;
  const auto kernel = [](const char* device, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"system=transformers", std::string("cluster.device=") + device});
    return parse("", more).job.kernels.attention;
  };
  CHECK(kernel("h100-sxm") == AttentionKernel::cudnn);
  CHECK(kernel("b200-sxm") == AttentionKernel::cudnn);
  CHECK(kernel("a100-sxm-80") == AttentionKernel::flash2);
  CHECK(kernel("l40s") == AttentionKernel::flash2);
  CHECK(kernel("h100-sxm", {"model.dropout=0.1"}) == AttentionKernel::flash2);
  CHECK(kernel("h100-sxm", {"kernels.attention=flash2"}) == AttentionKernel::flash2);
  CHECK(kernel("h100-sxm", {"system=transformers-4"}) == AttentionKernel::flash2);
  CHECK(kernel("h100-sxm", {"system.scaled_dot_product=false"}) == AttentionKernel::flash2);
}

TEST_CASE("Transformers 4 leaves caps on scores out, 5 does not fuse what has them") {
  using job::AttentionKernel;
  const auto kernel = [](const char* system) {
    return parse("", {std::string("system=") + system, "model.attention_softcap=true",
                      "model.modules.eager_attention=true"})
        .job.kernels.attention;
  };
  CHECK(kernel("transformers") == AttentionKernel::unfused);
  CHECK(kernel("transformers-4") == AttentionKernel::flash2);
}

TEST_CASE("DeepSpeed's sizes may be 'auto', as transformers fills it in from the hidden size") {
  const auto job =
      parse("", {"system=deepspeed", "model.hidden=1000", "system.bucket_elements=auto",
                 "system.prefetch_elements=auto", "system.persistent_elements=auto"})
          .job;
  CHECK(job.system.bucket_elements == 1'000'000);
  CHECK(job.system.prefetch_elements == 900'000);
  CHECK(job.system.persistent_elements == 10'000);
}

TEST_CASE("PyTorch's own attention is fused on Volta too, by its memory-efficient kernel") {
  using job::AttentionKernel;
  const auto kernel = [](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"cluster.device=v100-sxm2-32", "workload.precision=fp16", "parallelism.tensor=1"});
    return parse("", more).job.kernels.attention;
  };
  CHECK(kernel({"system=pytorch-ddp"}) == AttentionKernel::efficient);
  CHECK(kernel({"system=transformers"}) == AttentionKernel::efficient);
  CHECK(kernel({"system=megatron-lm"}) == AttentionKernel::unfused);
  CHECK(kernel({"system=llm-foundry"}) == AttentionKernel::unfused);  // flash-attn's kernel
  CHECK(kernel({"kernels.attention=efficient"}) == AttentionKernel::efficient);
}

TEST_CASE("experts are split by the dense tensor size") {
  const auto moe = parse("", {"model=mixtral-8x7b", "parallelism.tensor=4"}).job;
  CHECK(moe.parallelism.expert_tensor == 4);
  CHECK(parse().job.parallelism.expert_tensor == 1);
  // torchtitan's are whole, where expert ranks divide them.
  const auto cut = [](const char* expert) {
    return parse("", {"model=mixtral-8x7b", "system=torchtitan", "parallelism.tensor=4", expert})
        .job.parallelism.expert_tensor;
  };
  CHECK(cut("parallelism.expert=2") == 1);
  CHECK(cut("parallelism.expert=1") == 4);
}

TEST_CASE("all faults of a file come at once, in its order, options last") {
  const auto all =
      faults("workload: {sequence_length: -1, global_batch: x}\nmodel: llama-3-9b\ntypo: 1\n",
             {"parallelism.tensor=0"});
  REQUIRE(all.size() == 5);
  CHECK(all[0].where.line == 1);
  CHECK(all[1].where.line == 1);
  CHECK(all[1].where.column > all[0].where.column);
  CHECK(all[2].where.line == 2);
  CHECK(all[3].where.line == 3);
  CHECK(all[4].where.file == "--set parallelism.tensor=0");
}

TEST_CASE("what was switched off may be said") {
  CHECK_NOTHROW(
      parse("", {"model.mtp_layers=0", "model.sliding_window=null", "parallelism.context=1",
                 "memory.offload=none", "workload.finetune=none",
                 "parallelism.accumulation.reduce=last", "moe.balance=forced", "nccl.algo=Ring"}));
}

TEST_CASE("keys that a job leaves to its training system are assumed, unless it lists what is") {
  using Keys = std::vector<std::string>;
  CHECK(parse().job.assumed == Keys{"kernels.attention", "memory.recompute"});
  CHECK(parse("", {"kernels.attention=flash3"}).job.assumed == Keys{"memory.recompute"});
  CHECK(parse("", {"memory.recompute={every: 2}"}).job.assumed == Keys{"kernels.attention"});
  CHECK(parse("assumed: [model.vocab, model.vocab]\n").job.assumed == Keys{"model.vocab"});
  CHECK(parse("assumed: []\n").job.assumed.empty());
  // What is printed is read as the same job.
  const job::Job j = parse().job;
  CHECK(input::parse(config::to_json(j), "job.json").job.assumed == j.assumed);
  CHECK(faults(kJob + "assumed: kernels.attention\n").size() == 1);
}

TEST_CASE("an adapter's rate is read as people write it") {
  struct Case {
    const char* text;
    double gigabits;
  };
  const Case cases[] = {{"400 Gb/s", 400},
                        {"50 GB/s", 400},
                        {"400Gbps", 400},
                        {"400G", 400},
                        {"1.6T", 1600},
                        {"1.6 Tbps", 1600},
                        {"25GbE", 25},
                        {"100 GbE", 100},
                        {"HDR", 200},
                        {"hdr", 200},
                        {"HDR100", 100},
                        {"100 Gb/s HDR100", 100},
                        {"HDR 100 Gb/s", 100},
                        {"HDR200 InfiniBand", 200},
                        {"InfiniBand NDR", 400},
                        {"NDR400", 400},
                        {"NDR200 IB", 200},
                        {"NDR 200 Gb/s", 200},
                        {"EDR", 100},
                        {"FDR", 56},
                        {"XDR", 800},
                        {"Slingshot-11", 200},
                        {"Slingshot 11", 200},
                        {"Slingshot-10", 100},
                        {"400G RoCE", 400},
                        {"400 Gb/s RoCEv2 Ethernet", 400},
                        {"100GbE RoCE", 100},
                        {"TCP over 100GbE", 100},
                        {"100 Gb/s IPoIB", 100},
                        {"TCP over 200 Gb/s InfiniBand", 200},
                        {"EFA (100 Gb/s)", 100},
                        {"400 Gb/s Spectrum-X", 400},
                        {"100 Gb/s Omni-Path", 100},
                        {"GPUDirect-TCPX 200 Gb/s", 200}};
  for (const Case& c : cases) {
    INFO(c.text);
    const auto loaded = parse("", {"cluster.node.nic=" + std::string(c.text)});
    CHECK(loaded.job.cluster.node.nic.count() == Approx(c.gigabits * 1e9 / 8));
  }
}

TEST_CASE("One GPU of a pair that NVLink joins is a domain of its own") {
  for (const int gpus : {1, 2, 4}) {
    const auto loaded = config::parse(
        fmt::format("model: llama-3.2-1b\nsystem: pytorch-fsdp2\n"
                    "cluster: {{use: h100-nvl-pairs, nodes: 1, gpus_per_node: {}}}\n"
                    "workload: {{sequence_length: 2048, global_batch: 4, micro_batch: 1}}\n",
                    gpus),
        "job.yaml", {});
    CHECK(loaded.job.cluster.fabric.nvlink_domain_gpus == std::min(2, gpus));
  }
}

TEST_CASE("Weights stand in 8 bits under the products of which a system's recipes say so") {
  const auto parameters = [](const std::string& system, const std::string& precision,
                             const std::string& more = "") {
    return config::parse(fmt::format("model: llama-3-8b\ncluster: {{use: dgx-b200, nodes: 1}}\n"
                                     "system: {}\nworkload: {{sequence_length: 4096, global_batch: "
                                     "8, micro_batch: 1, precision: {}}}\n{}",
                                     system, precision, more),
                         "job.yaml")
        .job.memory.dtypes.parameters;
  };
  CHECK(parameters("megatron-bridge", "fp8") == DType::fp8);
  CHECK(parameters("megatron-bridge", "mxfp8") == DType::fp8);
  CHECK(parameters("megatron-bridge", "fp8_block") == DType::bf16);
  CHECK(parameters("megatron-bridge", "nvfp4") == DType::nvfp4);
  CHECK(parameters("megatron-bridge-2026-04", "nvfp4") == DType::bf16);
  CHECK(parameters("megatron-bridge", "bf16") == DType::bf16);
  CHECK(parameters("megatron-bridge", "fp8", "memory: {dtypes: {parameters: bf16}}\n") ==
        DType::bf16);
  CHECK(parameters("nemo-2025-04", "mxfp8") == DType::bf16);
  CHECK(parameters("nemo-2024", "fp8") == DType::fp8);
  CHECK(parameters("nemo-launcher-2024", "fp8") == DType::bf16);
  CHECK(parameters("megatron-lm", "fp8") == DType::bf16);
}
