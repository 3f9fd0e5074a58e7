// Of each option the last setting counts, whatever its value: a later file's, or NAME=VALUE's.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "stepcast/config/job_file.h"
#include "stepcast/input/input.h"
#include "stepcast/interop/launch.h"

using namespace stepcast;
using interop::Launch;
using interop::LaunchRequest;

namespace {

const std::string kMegatron =
    "torchrun pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 "
    "--seq-length 2048 --max-position-embeddings 2048 --vocab-size 32000 --micro-batch-size 1 "
    "--global-batch-size 64 --bf16 ";
const std::string kTorchtitan =
    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\nseq_len = "
    "2048\n[parallelism]\ntensor_parallel_degree = 2\n";
const std::string kTrainer =
    "model_name_or_path: meta-llama/Llama-3.1-8B\nbf16: true\nper_device_train_batch_size: 1\n"
    "max_length: 2048\n";

struct Read {
  Launch launch;
  job::Job job;
};

Read read(const std::string& system, const std::string& name, const std::string& text,
          const std::vector<std::string>& arguments = {}) {
  LaunchRequest r;
  r.system = system;
  r.texts = {{name, text}};
  r.inputs = arguments;
  r.cluster = "dgx-h100";
  r.nodes = 1;
  Read out;
  out.launch = interop::read_launch(r);
  CHECK(out.launch.unknown.empty());
  out.job = input::parse(out.launch.job).job;
  return out;
}

// Reads the same with and without what a file says, which arguments take back.
void check_taken_back(const std::string& system, const std::string& name, const std::string& base,
                      const std::string& more, const std::vector<std::string>& arguments) {
  INFO(system << ": " << more);
  const job::Job plain = read(system, name, base).job;
  const job::Job set = read(system, name, base + more).job;
  const job::Job back = read(system, name, base + more, arguments).job;
  const job::Job said = read(system, name, base, arguments).job;
  const auto same = [](const job::Job& one, const job::Job& other) {
    return config::differences(one, other).empty();
  };
  CHECK_FALSE(same(set, plain));
  CHECK(same(back, plain));
  CHECK(same(said, plain));
}

}  // namespace

TEST_CASE("A later argument switches off what a script switches on") {
  const auto check = [](const std::string& more, const std::vector<std::string>& arguments) {
    check_taken_back("megatron", "train.sh", kMegatron, more, arguments);
  };
  check("--use-distributed-optimizer --overlap-param-gather",
        {"use-distributed-optimizer=false", "overlap_param_gather=false"});
  check("--cross-entropy-loss-fusion", {"cross-entropy-loss-fusion=false"});
  check("--use-torch-fsdp2", {"--use-torch-fsdp2=0"});
  check("--recompute-activations", {"recompute_activations=off"});
  check("--recompute-granularity full", {"recompute-granularity=null"});
  check("--optimizer-cpu-offload", {"optimizer-cpu-offload=false"});
  check("--tensor-model-parallel-size 2 --sequence-parallel --tp-comm-overlap",
        {"tensor-model-parallel-size=1", "sequence-parallel=false", "tp-comm-overlap=no"});
  check("--group-query-attention --num-query-groups 4", {"group-query-attention=false"});
  check("--swiglu", {"swiglu=false"});
}

TEST_CASE("A later argument takes back what a document sets, and null is as if it did not") {
  check_taken_back("torchtitan", "train.toml", kTorchtitan,
                   "[activation_checkpoint]\nmode = \"full\"\n",
                   {"activation_checkpoint.mode=null"});
  const std::string compiled = "enable_async_tensor_parallel = true\n[compile]\nenable = true\n";
  CHECK(read("torchtitan", "t.toml", kTorchtitan + compiled).job.parallelism.overlap.tensor ==
        job::TensorOverlap::async);
  for (const char* name : {"parallelism", "compile"}) {  // 0.3 has it in another section
    CHECK(read("torchtitan", "t.toml", kTorchtitan + compiled,
               {std::string(name) + ".enable_async_tensor_parallel=false"})
              .job.parallelism.overlap.tensor == job::TensorOverlap::none);
  }
  check_taken_back("transformers", "t.yaml", kTrainer, "gradient_checkpointing: true\n",
                   {"gradient_checkpointing=false"});
  check_taken_back("transformers", "t.yaml", kTrainer, "fsdp: full_shard\n", {"fsdp="});
  check_taken_back("transformers", "t.yaml", kTrainer, "use_peft: true\nlora_r: 8\n",
                   {"use_peft=false"});
  check_taken_back("accelerate", "t.yaml", kTrainer, "distributed_type: FSDP\n",
                   {"distributed_type=NO"});
  const std::string axolotl = "base_model: meta-llama/Llama-3.1-8B\n";
  check_taken_back("axolotl", "t.yaml", axolotl, "gradient_checkpointing: true\n",
                   {"gradient_checkpointing=false"});
  check_taken_back("axolotl", "t.yaml", axolotl, "eager_attention: true\n",
                   {"eager_attention=false"});
  check_taken_back("axolotl", "t.yaml", axolotl, "adapter: lora\nlora_r: 8\n", {"adapter=null"});
}

TEST_CASE("Sizes that say nothing of themselves take back those that did") {
  const std::string experts = "--num-experts 8 --moe-layer-freq \"([0]*3+[1]*21)\" ";
  const auto moe = [&](const std::string& script, const std::vector<std::string>& arguments) {
    return *read("megatron", "train.sh", kMegatron + script, arguments).job.model.moe;
  };
  CHECK(moe(experts, {}).dense_layers == 3);
  CHECK(moe(experts, {"moe-layer-freq=1"}).dense_layers == 0);
  CHECK(moe("--num-experts 8 --moe-layer-freq 2", {"moe_layer_freq=([0]*3+[1]*21)"}).every == 1);
  CHECK_FALSE(
      read("megatron", "train.sh", kMegatron + experts, {"num-experts=null"}).job.model.moe);
  const job::Job one =
      read("megatron", "train.sh", kMegatron + "--moe-expert-capacity-factor 1.25 --num-experts 8",
           {"moe-expert-capacity-factor=-1"})
          .job;
  CHECK_FALSE(one.moe.capacity_factor.has_value());
}

TEST_CASE("Spellings of one option override each other, options of two sections do not") {
  CHECK(read("megatron", "train.sh", kMegatron, {"batch-size=2"}).job.workload.micro_batch == 2);
  CHECK(read("megatron", "train.sh", kMegatron + "--fp8-format hybrid", {"fp8=none"})
            .job.workload.precision == DType::bf16);
  CHECK(read("transformers", "t.yaml", kTrainer, {"per_gpu_train_batch_size=4"})
            .job.workload.micro_batch == 4);
  CHECK(read("colossalai", "a.args",
             "--pretrained meta-llama/Llama-2-7b-hf --max_length 2048 --batch_size 1 "
             "--grad_checkpoint",
             {"g=false", "b=2"})
            .job.memory.recompute.kind == job::Recompute::Kind::none);
  // megatron-bridge's ddp and optimizer both have the distributed optimizer: both are on where
  // either is.
  const std::string bridge =
      "recipe: llama3_8b_pretrain_config\ntrain: {micro_batch_size: 1, global_batch_size: 32}\n"
      "dataset: {seq_length: 2048}\nddp: {use_distributed_optimizer: true}\n"
      "model: {pipeline_model_parallel_size: 2, virtual_pipeline_model_parallel_size: 4}\n";
  const auto sharding = [&](const std::vector<std::string>& arguments, std::size_t remarks) {
    const Read r = read("megatron-bridge", "job.yaml", bridge, arguments);
    CHECK(r.launch.remarks.size() == remarks + 1);  // of the recipe's own values
    return r.job.parallelism.sharding;
  };
  CHECK(sharding({}, 0) == job::Sharding::zero1);
  CHECK(sharding({"ddp.use_distributed_optimizer=false"}, 1) == job::Sharding::zero1);
  CHECK(
      sharding({"ddp.use_distributed_optimizer=false", "optimizer.use_distributed_optimizer=false"},
               0) == job::Sharding::none);
  CHECK(sharding({"use_distributed_optimizer=false"}, 0) == job::Sharding::none);
  for (const char* null : {"null", "None", "~"}) {
    CHECK(read("megatron-bridge", "job.yaml", bridge,
               {std::string("model.virtual_pipeline_model_parallel_size=") + null})
              .job.parallelism.virtual_pipeline == 1);
  }
  CHECK(read("megatron-bridge", "job.yaml", bridge, {"model.cross_entropy_loss_fusion=false"})
            .job.kernels.loss == job::LossKernel::vocab_parallel);
}

TEST_CASE("Which kernel a fused loss of Megatron-LM is follows from a second option") {
  using job::LossKernel;
  const auto loss = [](const char* options) {
    return read("megatron", "run.sh", kMegatron + options + "\n").job.kernels.loss;
  };
  CHECK(loss("") == LossKernel::vocab_parallel);
  CHECK(loss("--cross-entropy-loss-fusion") == LossKernel::vocab_parallel_fused);
  CHECK(loss("--cross-entropy-loss-fusion --cross-entropy-fusion-impl native") ==
        LossKernel::vocab_parallel_fused);
  CHECK(loss("--cross-entropy-fusion-impl te --cross-entropy-loss-fusion") == LossKernel::fused);
  CHECK(loss("--cross-entropy-fusion-impl te") == LossKernel::vocab_parallel);
  // Megatron-Bridge's recipes take Transformer Engine's.
  const std::string bridge =
      "recipe: llama3_8b_pretrain_config\ntrain: {micro_batch_size: 1, global_batch_size: 32}\n"
      "dataset: {seq_length: 2048}\n";
  const auto of_bridge = [&](const std::vector<std::string>& arguments) {
    return read("megatron-bridge", "job.yaml", bridge, arguments).job.kernels.loss;
  };
  CHECK(of_bridge({"model.cross_entropy_loss_fusion=true"}) == LossKernel::fused);
  CHECK(of_bridge({"model.cross_entropy_fusion_impl=native"}) == LossKernel::vocab_parallel_fused);
}

TEST_CASE("The end of a path of sections names the same option") {
  const std::string primus =
      "modules:\n  pre_trainer:\n    framework: megatron\n    model: llama3.1_8B.yaml\n"
      "    overrides:\n      seq_length: 2048\n      micro_batch_size: 1\n"
      "      global_batch_size: 32\n      use_distributed_optimizer: true\n";
  for (const char* name : {"modules.pre_trainer.overrides.", "overrides.", ""}) {
    CHECK(
        read("primus", "exp.yaml", primus, {std::string(name) + "use_distributed_optimizer=false"})
            .job.parallelism.sharding == job::Sharding::none);
  }
}

TEST_CASE("A null of a section takes what lies below it away") {
  const std::string bridge =
      "recipe: llama3_8b_pretrain_config\ntrain: {micro_batch_size: 1, global_batch_size: 32}\n"
      "dataset: {seq_length: 2048}\nmodel: {tensor_model_parallel_size: 2, sequence_parallel: "
      "true}\ncomm_overlap: {tp_comm_overlap: true}\n";
  CHECK(read("megatron-bridge", "job.yaml", bridge).job.parallelism.overlap.tensor !=
        job::TensorOverlap::none);
  CHECK(read("megatron-bridge", "job.yaml", bridge, {"comm_overlap=null"})
            .job.parallelism.overlap.tensor == job::TensorOverlap::none);
}

TEST_CASE("What is overridden is told with what overrides it") {
  const Read r = read("megatron", "train.sh", kMegatron + "--tensor-model-parallel-size $TP",
                      {"tensor-model-parallel-size=2"});
  CHECK(r.job.parallelism.tensor == 2);  // nor is a variable missed that no longer counts
  const std::string told = interop::describe(r.launch);
  CHECK(told.find("overridden by tensor-model-parallel-size=2") != std::string::npos);
}

TEST_CASE("Flags in a file behind a script override it, those ahead of it do not") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("stepcast-override-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  };
  LaunchRequest r;
  r.system = "megatron";
  r.cluster = "dgx-h100";
  r.nodes = 1;
  const std::string script = write("train.sh", kMegatron + "--use-distributed-optimizer\n");
  const std::string flags = write("more.args", "--use-distributed-optimizer=false\n");
  r.inputs = {script, flags};
  CHECK(input::parse(interop::read_launch(r).job).job.parallelism.sharding == job::Sharding::none);
  r.inputs = {flags, script};
  CHECK(input::parse(interop::read_launch(r).job).job.parallelism.sharding == job::Sharding::zero1);
  std::filesystem::remove_all(folder);
}
