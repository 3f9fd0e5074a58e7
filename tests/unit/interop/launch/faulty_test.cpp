// Every fault of a launch file, and every option that it leaves open, is reported on a line with
// its position.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "stepcast/input/input.h"
#include "stepcast/interop/launch.h"

using namespace stepcast;
using interop::Launch;
using interop::LaunchRequest;

namespace {

// A temporary file; fault lines show it as FILE.
class File {
 public:
  File(const std::string& name, const std::string& text)
      : folder_(std::filesystem::temp_directory_path() /
                ("stepcast-launch-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    path_ = folder_ / name;
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove_all(folder_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path folder_, path_;
};

std::string shortened(std::string line, const std::string& path) {
  for (std::size_t at = line.find(path); at != std::string::npos; at = line.find(path)) {
    line.replace(at, path.size(), "FILE");
  }
  return line;
}

struct Outcome {
  std::vector<std::string> faults, warnings;
  Launch launch;
};

Outcome outcome_of(const std::string& system, const std::string& name, const std::string& text,
                   void (*change)(LaunchRequest&) = nullptr) {
  const File file(name, text);
  LaunchRequest request;
  request.system = system;
  request.inputs = {file.path()};
  request.cluster = "dgx-h100";
  request.nodes = 2;
  if (change != nullptr) {
    change(request);
  }
  Outcome out;
  try {
    out.launch = interop::read_launch(request);
    for (const std::string& line : interop::warnings(out.launch)) {
      out.warnings.push_back(shortened(line, file.path()));
    }
    input::parse(out.launch.job, request.overrides);
  } catch (const InputError& error) {
    for (const Fault& fault : error.faults()) {
      out.faults.push_back(shortened(to_string(fault), file.path()));
    }
  }
  return out;
}

const std::string kModel =
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 "
    "--vocab-size 50257 --micro-batch-size 1 --global-batch-size 64 --bf16";

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("Unknown flags are listed with their place, and nothing else is lost") {
  const Outcome r =
      outcome_of("megatron", "train.sh",
                 "torchrun pretrain.py " + kModel + " \\\n  --tensor-paralel 8 --lr 1\n");
  CHECK(r.faults.empty());
  CHECK(r.warnings ==
        Lines{"FILE:2:3: warning: unknown flag --tensor-paralel: ignored in the forecast"});
  REQUIRE(r.launch.unknown.size() == 1);
  CHECK(r.launch.unknown[0].value == "8");
  const auto strict = interop::as_faults(r.launch);
  REQUIRE(strict.size() == 1);
  CHECK(strict[0].message.rfind("unknown flag --tensor-paralel; ", 0) == 0);
}

TEST_CASE("Flags that matter and are not modelled are said to be") {
  const Outcome r = outcome_of("megatron", "train.sh",
                               "torchrun pretrain.py " + kModel + " --delay-wgrad-compute\n");
  REQUIRE(r.warnings.size() == 1);
  CHECK(r.warnings[0].find("warning: --delay-wgrad-compute is not modelled: ") !=
        std::string::npos);
  CHECK(interop::as_faults(r.launch).size() == 1);
  const Outcome more = outcome_of("megatron", "train.sh",
                                  "torchrun pretrain.py " + kModel +
                                      " --delay-wgrad-compute --no-align-grad-reduce "
                                      "--no-align-param-gather --ddp-num-buckets 4 "
                                      "--ddp-average-in-collective\n");
  REQUIRE(more.warnings.size() == 1);
  CHECK(more.warnings[0].find("warning: 5 options are not modelled (--show-job says why): "
                              "--delay-wgrad-compute, --no-align-grad-reduce, ") !=
        std::string::npos);
  CHECK(interop::as_faults(more.launch).size() == 5);
}

TEST_CASE("A value of the wrong type is a fault at its flag") {
  const Outcome r =
      outcome_of("megatron", "a.args", kModel + "\n--tensor-model-parallel-size eight\n");
  CHECK(r.faults == Lines{"FILE:2:1: error: parallelism.tensor is 'eight'; expected an integer "
                          "from 1 to 10000000"});
  const Outcome k = outcome_of("megatron", "a.args",
                               kModel + "\n--cp-comm-type circle --context-parallel-size 2\n");
  CHECK(k.faults == Lines{"FILE:2:1: error: --cp-comm-type is 'circle'; expected p2p | all_gather "
                          "| a2a | a2a+p2p"});
  const Outcome z = outcome_of("deepspeed", "ds.json",
                               "{\"zero_optimization\": {\"stage\": 4},\n \"train_batch_size\": 8}",
                               [](LaunchRequest& q) {
                                 q.model = "gpt2";
                                 q.overrides = {"workload.sequence_length=512"};
                               });
  CHECK(z.faults == Lines{"FILE:1:24: error: zero_optimization.stage is '4'; expected 0 to 3"});
}

TEST_CASE("Sizes that contradict each other are a fault at the flag") {
  const Outcome v = outcome_of(
      "megatron", "a.args",
      kModel + "\n--pipeline-model-parallel-size 4\n--num-layers-per-virtual-pipeline-stage 5\n");
  CHECK(v.faults == Lines{"FILE:3:1: error: 24 layers do not divide into 4 stages with chunks of "
                          "--num-layers-per-virtual-pipeline-stage 5; expected a divisor"});
  const Outcome b =
      outcome_of("deepspeed", "ds.json",
                 "{\"train_batch_size\": 100,\n \"train_micro_batch_size_per_gpu\": 2,\n"
                 " \"gradient_accumulation_steps\": 4, \"bf16\": {\"enabled\": true}}",
                 [](LaunchRequest& q) {
                   q.model = "gpt2";
                   q.overrides = {"workload.sequence_length=512"};
                 });
  CHECK(b.faults ==
        Lines{"FILE:1:2: error: train_batch_size is 100, but train_micro_batch_size_per_gpu 2 x "
              "gradient_accumulation_steps 4 x 16 data-parallel ranks are 128; expected sizes that "
              "agree"});
  const Outcome t = outcome_of("megatron", "a.args", kModel + "\n--tensor-model-parallel-size 3\n");
  REQUIRE(t.faults.size() >= 1);
  CHECK(t.faults[0].rfind("FILE:2:1: error: ", 0) == 0);
}

TEST_CASE("What a script leaves open names the option that gives it") {
  const std::string script =
      "torchrun pretrain.py " + kModel + " --tensor-model-parallel-size $TP\n";
  CHECK(outcome_of("megatron", "train.sh", script)
            .faults.at(0)
            .find("--tensor-model-parallel-size depends on $TP, which has no known value; expected "
                  "--define TP=VALUE or "
                  "--set "
                  "parallelism.tensor=VALUE") != std::string::npos);
  const Outcome defined =
      outcome_of("megatron", "train.sh", script, [](LaunchRequest& q) { q.variables = {"TP=4"}; });
  CHECK(defined.faults.empty());
  const Outcome set = outcome_of("megatron", "train.sh", script,
                                 [](LaunchRequest& q) { q.overrides = {"parallelism.tensor=4"}; });
  CHECK(set.faults.empty());
}

TEST_CASE("What no file says names the option that does") {
  const Outcome r =
      outcome_of("deepspeed", "ds.json",
                 "{\"train_batch_size\": 32, \"bf16\": {\"enabled\": true}}", [](LaunchRequest& q) {
                   q.cluster.clear();
                   q.nodes = 0;
                 });
  CHECK(r.faults == Lines{"--model: error: FILE names no model; expected --model NAME, or --set "
                          "model.layers=N and so on",
                          "--cluster: error: FILE names no cluster; expected --cluster NAME "
                          "(simulate --list shows the "
                          "names)",
                          "--set workload.sequence_length: error: FILE does not state the sequence "
                          "length; expected --set "
                          "workload.sequence_length=N"});
  const Outcome n = outcome_of("megatron", "a.args", kModel, [](LaunchRequest& q) { q.nodes = 0; });
  CHECK(n.faults ==
        Lines{"--nodes: error: FILE does not state the number of nodes; expected --nodes N"});
  const Outcome m = outcome_of("torchtitan", "t.toml",
                               "[model]\nname = \"llama3\"\nflavor = \"3T\"\n[training]\nseq_len = "
                               "64\nlocal_batch_size = 1\n");
  CHECK(m.faults == Lines{"FILE:3:1: error: model.flavor 'llama3_3T' is not a model of "
                          "configs/models; expected --model NAME"});
}

TEST_CASE("A flag that asks for what Stepcast refuses is an error at the flag") {
  const Outcome r = outcome_of("megatron", "a.args",
                               kModel +
                                   "\n--pipeline-model-parallel-size 2\n--use-torch-fsdp2\n"
                                   "--optimizer nonesuch\n");
  REQUIRE_FALSE(r.faults.empty());
  CHECK(r.faults[0].rfind("FILE:4:1: error: memory.optimizer is 'nonesuch'; expected ", 0) == 0);
}

TEST_CASE("Systems and files that are none") {
  const auto fault = [](const std::string& system, const std::vector<std::string>& inputs) {
    LaunchRequest request;
    request.system = system;
    request.inputs = inputs;
    try {
      interop::read_launch(request);
    } catch (const InputError& error) {
      return to_string(error.faults().front());
    }
    return std::string();
  };
  CHECK(fault("megatronn", {"x"})
            .rfind("--from: error: 'megatronn' is not a system whose files are read; expected "
                   "megatron | deepspeed",
                   0) == 0);
  CHECK(fault("megatronn", {"x"}).find("(did you mean 'megatron'?)") != std::string::npos);
  CHECK(fault("megatron", {}) ==
        "--from megatron: error: no file follows; expected --from SYSTEM FILE");
  CHECK(fault("megatron", {"no-such.sh"}).find("no such file") != std::string::npos);
  const Outcome empty = outcome_of("megatron", "a.args", "\n\n");
  CHECK(empty.faults == Lines{"FILE:1:1: error: no option of megatron is in it; expected some"});
  CHECK(outcome_of("deepspeed", "ds.json", "{\"a\": }")
            .faults.at(0)
            .rfind("FILE:1:7: error: malformed JSON", 0) == 0);
  CHECK(outcome_of("torchtitan", "t.toml", "[a\n").faults.at(0).find("malformed TOML") !=
        std::string::npos);
}

TEST_CASE("Each option's place and keys are told") {
  const Outcome r = outcome_of("megatron", "a.args",
                               kModel +
                                   "\n--recompute-granularity full --recompute-method block\n"
                                   "--recompute-num-layers 3\n--lr 1e-4\n");
  CHECK(r.faults.empty());
  const std::string text = interop::describe(r.launch);
  CHECK(text.find("--recompute-num-layers 3") != std::string::npos);
  CHECK(text.find("-> memory.recompute.block") != std::string::npos);
  CHECK(text.find("--lr 1e-4") != std::string::npos);
  CHECK(text.find("unknown launch options: none") != std::string::npos);
}

TEST_CASE("Megatron-LM's flags in YAML, with sections or without") {
  const Outcome r = outcome_of(
      "megatron", "c.yaml",
      "language_model:\n  num_layers: 24\n  hidden_size: 2048\n  num_attention_heads: 16\n"
      "  swiglu: true\n  ffn_hidden_size: 5632\n  disable_bias_linear: false\n"
      "model_parallel:\n  tensor_model_parallel_size: 8\n  sequence_parallel: false\n"
      "  tp_comm_overlap: false\n  nonesuch: 3\n"
      "seq_length: 2048\nmicro_batch_size: 1\nbf16: true\nvocab_size: 32000\nlr: 1e-4\n");
  CHECK(r.faults.empty());
  CHECK(r.warnings ==
        Lines{"FILE:12:3: warning: unknown flag model_parallel.nonesuch: ignored in the forecast"});
  const auto loaded = input::parse(r.launch.job);
  CHECK(loaded.job.parallelism.tensor == 8);
  CHECK_FALSE(loaded.job.parallelism.sequence_parallel);
  CHECK(loaded.job.model.gated_mlp);
  CHECK(loaded.job.model.biases.mlp);
  CHECK(loaded.job.parallelism.overlap.tensor == job::TensorOverlap::none);
  CHECK(loaded.job.workload.global_batch == 2);
  CHECK(loaded.job.workload.precision == job::DType::bf16);
}

TEST_CASE("Sizes beyond any cluster are faults, and their products are bounded") {
  const auto faults_of = [](const std::string& more) {
    return outcome_of("megatron", "a.args", kModel + "\n" + more + "\n").faults;
  };
  CHECK(faults_of("--pipeline-model-parallel-size 4294967296 "
                  "--num-layers-per-virtual-pipeline-stage 4294967296") ==
        Lines{"FILE:2:43: error: 24 layers do not divide into 4294967296 stages with chunks of "
              "--num-layers-per-virtual-pipeline-stage 4294967296; expected a divisor"});
  CHECK(faults_of("--pipeline-model-parallel-size 1000000000 "
                  "--decoder-first-pipeline-num-layers 24") ==
        Lines{"FILE:2:43: error: 24 layers do not fill 1000000000 stages; expected at most 24"});
  const Lines window = faults_of("--window-size 9223372036854775807");
  REQUIRE(window.size() == 1);
  CHECK(window.front() ==
        "FILE:2:1: error: --window-size is '9223372036854775807'; expected a window such as "
        "4096,0");
  CHECK_FALSE(
      faults_of("--tensor-model-parallel-size 4294967296 --context-parallel-size 4294967296 "
                "--pipeline-model-parallel-size 4294967296")
          .empty());
}

TEST_CASE("Megatron-LM's flags of uneven stages, layouts, experts and schedules") {
  const auto job_of = [](const std::string& more) {
    const Outcome r = outcome_of("megatron", "a.args", kModel + "\n" + more + "\n");
    INFO(more);
    for (const std::string& line : r.faults) {
      UNSCOPED_INFO(line);
    }
    REQUIRE(r.faults.empty());
    CHECK(r.launch.unknown.empty());
    return input::parse(r.launch.job).job;
  };
  const auto uneven = job_of(
      "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 5 "
      "--decoder-last-pipeline-num-layers 3");
  CHECK(uneven.parallelism.layers_per_stage == std::vector<int>{5, 8, 8, 3});
  const auto counted = job_of(
      "--pipeline-model-parallel-size 2 --num-layers 23 --account-for-loss-in-pipeline-split");
  CHECK(counted.parallelism.loss_as_layer);
  CHECK_FALSE(counted.parallelism.embedding_as_layer);
  const auto layout = job_of(
      "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout \"Et*6|t*6|t*6|t*6L\"");
  CHECK(layout.parallelism.layout == "Et*6|t*6|t*6|t*6L");
  const auto chunked =
      job_of("--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3");
  CHECK(chunked.parallelism.virtual_pipeline == 2);
  const auto context = job_of(
      "--context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2");
  CHECK(context.parallelism.context == 4);
  CHECK(context.parallelism.context_kind == job::ContextKind::hierarchical);
  CHECK(context.parallelism.context_inner == 2);
  const auto experts = job_of(
      "--num-experts 16 --moe-router-topk 4 --moe-ffn-hidden-size 1024 --moe-layer-freq "
      "([0]*3+[1]*21) --moe-shared-expert-intermediate-size 2048 --expert-model-parallel-size 8 "
      "--moe-token-dispatcher-type flex --moe-expert-capacity-factor 1.25");
  REQUIRE(experts.model.moe);
  CHECK(experts.model.moe->dense_layers == 3);
  CHECK(experts.model.moe->shared_ffn == 2048);
  CHECK(experts.parallelism.expert == 8);
  CHECK(experts.moe.dispatcher == job::MoeRuntime::Dispatcher::deepep);
  CHECK(experts.moe.capacity_factor == 1.25);
  const auto mla = job_of("--multi-latent-attention --kv-lora-rank 256 --kv-channels 128");
  REQUIRE(mla.model.mla);
  CHECK(mla.model.mla->kv_lora_rank == 256);
  CHECK(mla.model.mla->qk_rope_dim == 64);
  const auto bubble = job_of(
      "--pipeline-model-parallel-size 4 --enable-zero-bubble --zero-bubble-max-pending-backward 8");
  REQUIRE(bubble.parallelism.schedule);
  CHECK(bubble.parallelism.schedule->name == "zb_auto");
  CHECK(bubble.parallelism.schedule->memory_limit == 2);
  CHECK_FALSE(bubble.system.optimizer_post_validation);
  const auto half = job_of(
      "--pipeline-model-parallel-size 4 --zero-bubble-v-schedule "
      "--zero-bubble-v-schedule-mem-setup half");
  CHECK(half.parallelism.schedule->name == "v_half");
  const auto layers = job_of("--cpu-offloading-num-layers 6");
  CHECK(layers.memory.offload.activations.to == job::OffloadTarget::cpu);
  CHECK(layers.memory.offload.activation_layers == 6);
  const auto share =
      job_of("--fine-grained-activation-offloading --activation-offload-fraction 0.5");
  CHECK(share.memory.offload.activations.to == job::OffloadTarget::cpu);
  CHECK(share.memory.offload.activations.ratio == 0.5);
  const auto pairs =
      job_of("--pipeline-model-parallel-size 4 --kaimm-offload-activation-ratio 0.63");
  CHECK(pairs.memory.offload.activations.ratio == 0.63);
  CHECK(pairs.system.activation_offload == job::System::ActivationOffload::pairs);
  const auto instances =
      job_of("--use-distributed-optimizer --num-distributed-optimizer-instances 4");
  CHECK(instances.parallelism.shard_size == 4);
}

TEST_CASE("States that options put outside the GPU") {
  using job::OffloadTarget;
  const auto with_model = [](LaunchRequest& q) {
    q.model = "gpt2";
    q.overrides = {"workload.sequence_length=512"};
  };
  const auto offload_of = [&](const std::string& zero) {
    const Outcome r =
        outcome_of("deepspeed", "ds.json",
                   "{\"zero_optimization\": {\"stage\": 3, " + zero +
                       "},\n \"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": 1, "
                       "\"fp16\": {\"enabled\": true}}",
                   with_model);
    INFO(zero);
    for (const std::string& line : r.faults) {
      UNSCOPED_INFO(line);
    }
    REQUIRE(r.faults.empty());
    CHECK(r.launch.unknown.empty());
    return input::parse(r.launch.job, {"workload.sequence_length=512"}).job.memory.offload;
  };
  const auto shared = offload_of("\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.4}");
  CHECK(shared.optimizer.to == OffloadTarget::cpu);
  CHECK(shared.optimizer.ratio == 0.4);
  CHECK(shared.gradients.ratio == 0.4);
  CHECK(shared.parameters.to == OffloadTarget::none);
  const auto infinity = offload_of(
      "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": false, \"buffer_count\": 4}, "
      "\"offload_param\": {\"device\": \"cpu\"}, \"sub_group_size\": 1e8");
  CHECK(infinity.parameters.to == OffloadTarget::cpu);
  CHECK_FALSE(infinity.pinned);
  CHECK(infinity.chunk == Bytes(200'000'000));

  const Outcome m = outcome_of("megatron", "a.args",
                               kModel +
                                   "\n--use-distributed-optimizer --optimizer-cpu-offload "
                                   "--optimizer-offload-fraction 0.5\n");
  for (const std::string& line : m.faults) {
    UNSCOPED_INFO(line);
  }
  REQUIRE(m.faults.empty());
  const auto megatron = input::parse(m.launch.job).job.memory.offload;
  CHECK(megatron.optimizer.to == OffloadTarget::cpu);
  CHECK(megatron.optimizer.ratio == 0.5);
  CHECK(megatron.gradients.to == OffloadTarget::none);  // its main gradients stay on the device
}

TEST_CASE(
    "DeepSpeed's limits of gathered parameters are read, and 'auto' leaves them or fills them in") {
  const auto system_of = [](const std::string& limits) {
    const Outcome r = outcome_of("deepspeed", "ds.json",
                                 "{\"zero_optimization\": {\"stage\": 3" + limits +
                                     "},\n \"train_batch_size\": 16, "
                                     "\"train_micro_batch_size_per_gpu\": 1, "
                                     "\"bf16\": {\"enabled\": true}}",
                                 [](LaunchRequest& q) {
                                   q.model = "gpt2";
                                   q.overrides = {"workload.sequence_length=512"};
                                 });
    INFO(limits);
    CHECK(r.faults == Lines{});
    CHECK(r.warnings == Lines{});
    return input::parse(r.launch.job, {"workload.sequence_length=512"}).job.system;
  };
  const job::System preset = system_of("");
  const job::System stated = system_of(
      ", \"stage3_max_live_parameters\": 3e8, \"stage3_max_reuse_distance\": 2e7, "
      "\"stage3_prefetch_bucket_size\": 1e6, \"stage3_param_persistence_threshold\": 0, "
      "\"memory_efficient_linear\": false");
  CHECK(stated.live_elements == 300'000'000);
  CHECK(stated.reuse_elements == 20'000'000);
  CHECK(stated.prefetch_elements == 1'000'000);
  CHECK(stated.persistent_elements == 0);
  CHECK(preset.memory_efficient_linear);
  CHECK(!stated.memory_efficient_linear);
  CHECK(preset.live_elements != stated.live_elements);
  CHECK(preset.reuse_elements != stated.reuse_elements);
  const job::System open = system_of(
      ", \"stage3_max_live_parameters\": \"auto\", \"stage3_max_reuse_distance\": \"auto\", "
      "\"stage3_prefetch_bucket_size\": \"auto\", \"reduce_bucket_size\": \"auto\"");
  CHECK(open.live_elements == preset.live_elements);
  CHECK(open.reuse_elements == preset.reuse_elements);
  constexpr std::int64_t kHidden = 768;  // gpt2's, from which transformers fills these in
  CHECK(open.bucket_elements == kHidden * kHidden);
  CHECK(open.prefetch_elements == kHidden * kHidden * 9 / 10);
  const Outcome word = outcome_of("deepspeed", "ds.json",
                                  "{\"zero_optimization\": {\"stage\": 3,\n"
                                  " \"stage3_max_live_parameters\": \"many\"}, "
                                  "\"train_batch_size\": 16, \"bf16\": {\"enabled\": true}}",
                                  [](LaunchRequest& q) {
                                    q.model = "gpt2";
                                    q.overrides = {"workload.sequence_length=512"};
                                  });
  REQUIRE(word.faults.size() == 1);
  CHECK(word.faults[0].starts_with("FILE:2:"));
}

TEST_CASE("torchtitan's schedules, replicas and command line") {
  const std::string base =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 4096\nlocal_batch_size = "
      "8\n[parallelism]\n";
  const auto job_of = [&](const std::string& more) {
    const Outcome r = outcome_of("torchtitan", "t.toml", base + more);
    for (const std::string& line : r.faults) {
      UNSCOPED_INFO(line);
    }
    REQUIRE(r.faults.empty());
    return input::parse(r.launch.job).job;
  };
  const auto hsdp =
      job_of("data_parallel_replicate_degree = 2\nfsdp_reshard_after_forward = \"never\"\n");
  CHECK(hsdp.parallelism.shard_size == 8);
  CHECK_FALSE(hsdp.parallelism.reshard_after_forward);
  CHECK(hsdp.workload.global_batch == 128);
  // The ranks of a sequence share a copy of the parameters.
  const auto both = job_of("data_parallel_replicate_degree = 2\ncontext_parallel_degree = 4\n");
  CHECK(both.parallelism.shard_size == 8);
  const auto alone = job_of(
      "data_parallel_replicate_degree = 4\ndata_parallel_shard_degree = 1\n"
      "context_parallel_degree = 4\n");
  CHECK(alone.parallelism.sharding == job::Sharding::zero3);
  CHECK(alone.parallelism.shard_size == 4);
  const auto staged =
      job_of("pipeline_parallel_degree = 4\npipeline_parallel_schedule = \"Interleaved1F1B\"\n");
  CHECK(staged.parallelism.virtual_pipeline == 2);
  CHECK(staged.workload.micro_batch == 1);
  CHECK(staged.workload.global_batch == 32);
  CHECK(staged.parallelism.loss_as_layer);
  const auto folded =
      job_of("pipeline_parallel_degree = 4\npipeline_parallel_schedule = \"ZBVZeroBubble\"\n");
  CHECK(folded.parallelism.schedule->name == "zb_v");
  const auto budget = [&](const char* share) {
    return job_of(fmt::format("[compile]\nenable = true\n[activation_checkpoint]\n"
                              "mode = \"memory_budget\"\n{}",
                              share))
        .memory.recompute;
  };
  CHECK(budget("memory_budget = 0.8\n").share == 0.8);
  CHECK(budget("").share == 0.5);
  CHECK(budget("memory_budget = 1.0\n").kind == RecomputeKind::none);
  CHECK(budget("memory_budget = 0\n").kind == RecomputeKind::full);
  const auto gathered = job_of("tensor_parallel_degree = 4\ndisable_loss_parallel = true\n");
  CHECK(gathered.kernels.loss_parallel == false);
  CHECK(gathered.kernels.loss == LossKernel::eager);
  CHECK_FALSE(job_of("tensor_parallel_degree = 4\n").kernels.loss_parallel.has_value());
  const auto context =
      job_of("context_parallel_degree = 4\ncontext_parallel_rotate_method = \"alltoall\"\n");
  CHECK(context.parallelism.context == 4);
  CHECK(context.parallelism.context_kind == job::ContextKind::p2p);
  // Left out, keys and values are gathered, in every release.
  CHECK(job_of("context_parallel_degree = 4\n").parallelism.context_kind ==
        job::ContextKind::all_gather);
  const std::string async = "tensor_parallel_degree = 4\nenable_async_tensor_parallel = true\n";
  CHECK(job_of(async + "[compile]\nenable = true\n").parallelism.overlap.tensor ==
        job::TensorOverlap::async);

  const Outcome line = outcome_of(
      "torchtitan", "train.sh",
      "torchrun --nproc_per_node 8 -m torchtitan.train --model.name llama3 --model.flavor 8B "
      "--training.seq_len 2048 --training.local_batch_size 2 "
      "--parallelism.tensor_parallel_degree 4\n");
  REQUIRE(line.faults.empty());
  CHECK(input::parse(line.launch.job).job.parallelism.tensor == 4);
}

TEST_CASE("What torchtitan refuses is a fault at the option") {
  const auto faults_of = [](const std::string& more) {
    return outcome_of("torchtitan", "t.toml",
                      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 4096\n"
                      "local_batch_size = 8\n" +
                          more)
        .faults;
  };
  const std::string async =
      "[parallelism]\ntensor_parallel_degree = 4\nenable_async_tensor_parallel = true\n";
  const Lines compiled = {
      "FILE:9:1: error: parallelism.enable_async_tensor_parallel is of compiled models alone, and "
      "torchtitan refuses it without; expected compile.enable=true with \"model\" in "
      "compile.components"};
  CHECK(faults_of(async) == compiled);
  CHECK(faults_of(async + "[compile]\nenable = false\n") == compiled);
  CHECK(faults_of(async + "[compile]\nenable = true\ncomponents = [\"loss\"]\n") == compiled);
  CHECK(faults_of(async + "[compile]\nenable = true\ncomponents = [\"model\"]\n").empty());
  // Without tensor ranks nothing asks for it.
  CHECK(faults_of("[parallelism]\nenable_async_tensor_parallel = true\n").empty());
  const std::string steps = "[optimizer]\nearly_step_in_backward = true\n[parallelism]\n";
  CHECK(faults_of(steps + "pipeline_parallel_degree = 2\n") ==
        Lines{"FILE:8:1: error: torchtitan refuses optimizer.early_step_in_backward with stages; "
              "expected false"});
}

TEST_CASE("Trainers by name: models, adapters, sharding words") {
  const Outcome r = outcome_of(
      "transformers", "args.json",
      "{\"model_name_or_path\": \"meta-llama/Llama-3.1-8B\", \"max_seq_length\": 4096,\n"
      " \"per_device_train_batch_size\": 2, \"gradient_accumulation_steps\": 4, \"bf16\": true,\n"
      " \"fsdp\": \"shard_grad_op auto_wrap\", \"gradient_checkpointing\": true,\n"
      " \"lora_r\": 8, \"lora_target_modules\": [\"q_proj\", \"v_proj\"], "
      "\"lora_modules_to_save\": \"embed_tokens,lm_head\"}");
  for (const std::string& line : r.faults) {
    UNSCOPED_INFO(line);
  }
  REQUIRE(r.faults.empty());
  CHECK(r.launch.unknown.empty());
  const auto job = input::parse(r.launch.job).job;
  CHECK(job.workload.global_batch == 128);
  CHECK(job.parallelism.sharding == job::Sharding::zero3);
  CHECK_FALSE(job.parallelism.reshard_after_forward);
  CHECK(job.memory.recompute.kind == job::Recompute::Kind::full);
  CHECK(job.workload.finetune.kind == job::Finetune::Kind::lora);
  CHECK(job.workload.finetune.rank == 8);
  CHECK(job.workload.finetune.targets == std::vector<std::string>{"q", "v"});
  CHECK(job.workload.finetune.modules_to_save == std::vector<std::string>{"embedding", "head"});
}
