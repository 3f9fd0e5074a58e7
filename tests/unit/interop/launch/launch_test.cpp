// Genuine files of each system: the job that results, with every option in exactly one list.
#include "stepcast/interop/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "catch.hpp"
#include "stepcast/input/input.h"
#include "stepcast/job/facts.h"

using namespace stepcast;
using interop::Launch;
using interop::LaunchOption;
using interop::LaunchRequest;
using text::Value;

namespace {

const std::string kFolder = STEPCAST_SOURCE_DIR "/tests/unit/interop/launch/examples/";

struct Example {
  std::string name;  // of the expected result
  LaunchRequest request;
};

LaunchRequest request(std::string system, std::vector<std::string> files, std::string cluster,
                      int nodes, std::vector<std::string> variables = {},
                      std::vector<std::string> overrides = {}, std::string model = "") {
  LaunchRequest r;
  r.system = std::move(system);
  for (const std::string& file : files) {
    r.inputs.push_back(file.find('=') == std::string::npos ? kFolder + file : file);
  }
  r.cluster = std::move(cluster);
  r.nodes = nodes;
  r.variables = std::move(variables);
  r.overrides = std::move(overrides);
  r.model = std::move(model);
  return r;
}

const std::vector<Example>& examples() {
  static const std::vector<Example> list = {
      {"megatron-gpt3-175b", request("megatron", {"megatron-gpt3-175b.args"}, "dgx-h100", 128)},
      {"megatron-sc21",
       request("megatron", {"megatron-sc21.args"}, "dgx-a100", 4,
               {"TP=8", "PP=4", "MBS=1", "GBS=32", "NLS=64", "HS=8192", "NAH=64"})},
      {"megatron-mixtral-8x7b", request("megatron", {"megatron-mixtral-8x7b.args"}, "dgx-h100", 4)},
      {"megatron-llama3-8b-fsdp-fp8",
       request("megatron", {"megatron-llama3-8b-fsdp-fp8.args"}, "dgx-h100", 1,
               {"NUM_LAYERS=32", "SEQ_LENGTH=8192", "MAX_POSITION_EMBEDDINGS=8192",
                "MICRO_BATCH_SIZE=1", "GLOBAL_BATCH_SIZE=128",
                "SHARDING_STRATEGY=optim_grads_params", "TP_SIZE=1", "CP_SIZE=1"})},
      {"megatron-llama-13b-slurm",
       request("megatron", {"megatron-llama-13b-slurm.args"}, "dgx-a100", 4,
               {"TP_SIZE=2", "PP_SIZE=1", "MICRO_BATCH_SIZE=1", "GLOBAL_BATCH_SIZE=2048"},
               {"model.vocab=32000"})},
      {"megatron-llama-13b-standalone",
       request("megatron", {"megatron-llama-13b-standalone.args"}, "dgx-a100", 1,
               {"TP_SIZE=2", "PP_SIZE=1", "MICRO_BATCH_SIZE=1", "GLOBAL_BATCH_SIZE=2048"},
               {"model.vocab=32000"})},
      {"yuan-pretrain-llama",
       request("megatron", {"yuan-pretrain-llama.args"}, "dgx-h100", 32,
               {"NUM_QUERY_GROUPS=96", "NUM_LAYERS=96", "HIDDEN_SIZE=12288",
                "NUM_ATTENTION_HEADS=96", "FFN_HIDDEN_SIZE=32768", "SEQ_LENGTH=4096",
                "GLOBAL_BATCH_SIZE=256", "TP=2", "PP=8", "PP_l=2", "CP=2", "OFFLOAD_ALPHA=0"})},
      {"zero-bubble-pretrain",
       request(
           "megatron", {"zero-bubble-pretrain.args"}, "dgx-a100", 1,
           {"TP_SIZE=1", "PIPELINE_SIZE=8", "LAYERS=64", "HIDDEN_SIZE=4096", "ATTENTION_HEADS=32",
            "MICRO_BATCH_SIZE=1", "GLOBAL_BATCH_SIZE=64", "GQA=8", "ZERO_BUBBLE_MEM_LIMIT=16"},
           {"model.vocab=50304"})},
      {"megatron-deepspeed-175b",
       request("deepspeed", {"megatron-deepspeed-175b.args"}, "dgx-a100", 128,
               {"TP=8", "PP=16", "NLAYERS=96", "HIDDEN=12288", "HEADS=96", "SEQ=2048",
                "MICRO_BATCH=1", "GLOBAL_BATCH=1536", "ZERO_STAGE=1"})},
      {"deepspeed-z3", request("deepspeed", {"deepspeed-z3.json"}, "dgx-a100", 1, {},
                               {"workload.sequence_length=2048"}, "llama-2-7b")},
      {"deepspeed-zero1", request("deepspeed", {"deepspeed-zero1.json"}, "dgx-a100", 8, {},
                                  {"workload.sequence_length=1024"}, "gpt2-xl")},
      {"deepspeed-zero2-template",
       request("deepspeed", {"deepspeed-zero2-template.json"}, "dgx-a100", 1,
               {"CONFIG_BATCH_SIZE=256", "CONFIG_MBSIZE=4", "CONFIG_FP16_ENABLED=true",
                "CONFIG_BF16_ENABLED=false"},
               {"workload.sequence_length=1024"}, "gpt2-xl")},
      {"torchtitan-llama3-8b", request("torchtitan", {"torchtitan-llama3-8b.toml"}, "dgx-a100", 8)},
      {"torchtitan-llama3-405b",
       request("torchtitan", {"torchtitan-llama3-405b.toml"}, "dgx-h100", 16)},
      {"torchtitan-deepseek-v3-671b",
       request("torchtitan",
               {"torchtitan-deepseek-v3-671b.toml", "parallelism.expert_parallel_degree=32"},
               "dgx-h100", 64)},
      {"axolotl-fft-8b", request("axolotl", {"axolotl-fft-8b.yaml"}, "dgx-h100", 1)},
      {"axolotl-qlora-fsdp-70b",
       request("axolotl", {"axolotl-qlora-fsdp-70b.yaml"}, "dgx-h100", 1, {}, {}, "llama-3-70b")},
      {"llamafactory-full-zero3",
       request("llamafactory", {"llamafactory-full-zero3.yaml", "llamafactory-ds-z3-config.json"},
               "dgx-h100", 1, {}, {}, "qwen3-8b")},
      {"llamafactory-qlora-8b",
       request("llamafactory", {"llamafactory-qlora-8b.yaml"}, "dgx-h100", 1)},
      {"megatron-bridge-llama3-70b",
       request("megatron-bridge",
               {"megatron-bridge-llama3-70b.py", "recipe=llama3_70b_pretrain_config",
                "train.global_batch_size=256"},
               "dgx-h100", 8)},
      {"nemo-llama3-70b", request("nemo", {"nemo-llama3-70b.py"}, "dgx-h100", 8)},
      {"nanotron-llama-1b", request("nanotron", {"nanotron-llama-1b.yaml"}, "dgx-h100", 1)},
      {"torchtune-llama3.1-8b-full",
       request("torchtune", {"torchtune-llama3.1-8b-full.yaml", "tokenizer.max_seq_len=4096"},
               "dgx-h100", 1)},
      {"torchtune-llama3.1-70b-lora",
       request("torchtune", {"torchtune-llama3.1-70b-lora.yaml"}, "dgx-h100", 1, {},
               {"workload.sequence_length=2048"})},
      {"accelerate-fsdp",
       request("accelerate", {"accelerate-fsdp.yaml", "per_device_train_batch_size=1"}, "dgx-a100",
               0, {}, {"workload.sequence_length=1024"}, "gpt2-xl")},
      {"accelerate-latest-fsdp",
       request("accelerate", {"accelerate-latest-fsdp.yaml", "per_device_train_batch_size=1"},
               "dgx-a100", 0, {}, {"workload.sequence_length=1024"}, "gpt2")},
      {"accelerate-tp-hsdp",
       request("accelerate", {"accelerate-tp-hsdp.yaml", "per_device_train_batch_size=1"},
               "dgx-a100", 0, {}, {"workload.sequence_length=2048"}, "llama-3.1-8b")},
      {"accelerate-sp-alst",
       request("accelerate",
               {"accelerate-sp-alst.json", "parallelism_config_sp_size=1",
                "distributed_type=DEEPSPEED", "per_device_train_batch_size=1"},
               "dgx-h100", 1, {}, {"workload.sequence_length=8192"}, "llama-3.1-8b")},
      {"alignment-fsdp",
       request("accelerate",
               {"alignment-fsdp.yaml", "model_name_or_path=mistralai/Mistral-7B-v0.1",
                "max_seq_length=2048", "per_device_train_batch_size=4",
                "gradient_accumulation_steps=2", "gradient_checkpointing=true"},
               "dgx-a100", 0)},
      {"alignment-zero3",
       request("accelerate",
               {"alignment-zero3.yaml", "model_name_or_path=mistralai/Mistral-7B-v0.1",
                "max_seq_length=2048", "per_device_train_batch_size=8", "bf16=true"},
               "dgx-a100", 0)},
      {"trl-sft-full", request("trl", {"trl-sft-full.sh", "trl-fsdp2.yaml"}, "dgx-h100", 0)},
      {"trl-sft-lora", request("trl", {"trl-sft-lora.sh"}, "dgx-h100", 1)},
      {"trl-sft-zero3", request("trl", {"trl-sft-full.sh", "trl-zero3.yaml"}, "dgx-h100", 0)},
      {"composer-mpt-7b", request("composer", {"composer-mpt-7b.yaml"}, "dgx-a100", 8)},
      {"composer-mpt-30b", request("composer", {"composer-mpt-30b.yaml"}, "dgx-a100", 32)},
      {"horovodrun", request("horovod", {"horovodrun.yaml"}, "dgx-a100", 2, {},
                             {"workload.sequence_length=1024", "workload.global_batch=128",
                              "workload.micro_batch=8"},
                             "gpt2")},
      {"nnscaler-nanogpt",
       request("nnscaler", {"nnscaler-nanogpt.yaml"}, "dgx-a100", 1, {}, {"model.vocab=65"})},
      {"nnscaler-moe-constraints",
       request("nnscaler", {"nnscaler-moe-constraints.yaml"}, "dgx-a100", 1, {},
               {"workload.sequence_length=1024", "workload.global_batch=64"}, "gpt2")},
      {"paddlenlp-llama", request("paddlenlp", {"paddlenlp-llama.json"}, "dgx-a100", 1)},
      {"fleetx-175b", request("paddlenlp", {"fleetx-175b.yaml"}, "dgx-a100", 16)},
      {"maxtext-llama3.1-405b",
       request("maxtext",
               {"maxtext-llama3.1-405b.yml", "ici_fsdp_parallelism=8", "dcn_fsdp_parallelism=16"},
               "dgx-h100", 16)},
      {"maxtext-offload",
       request("maxtext",
               {"maxtext-llama3.1-405b.yml", "ici_fsdp_parallelism=8", "dcn_fsdp_parallelism=16",
                "remat_policy=custom", "decoder_layer_input=offload"},
               "dgx-h100", 16)},
      {"maxtext-a3-405b",
       request("maxtext", {"maxtext-a3-405b.args", "per_device_batch_size=1"}, "dgx-h100", 128, {},
               {"workload.sequence_length=8192"}, "llama-3.1-405b")},
      {"lightseq-deepspeed",
       request("lightseq", {"lightseq-deepspeed.json", "lightseq-wmt14.args"}, "dgx-a100", 1, {},
               {"workload.sequence_length=32", "model.vocab=40480"})},
      {"colossalai-llama",
       request("colossalai",
               {"colossalai-llama.args", "micro_batch_size=8", "max_length=4096",
                "mixed_precision=bf16", "use_grad_checkpoint=true"},
               "dgx-a100", 1, {"PRETRAINED_MODEL_PATH=meta-llama/Llama-2-7b-hf"})},
      {"patrickstar",
       request("patrickstar", {"patrickstar.args", "batch_size=8", "use_fp16=1", "use_ckp=1"},
               "dgx-a100", 1, {}, {"workload.sequence_length=1024"}, "gpt2-xl")},
  };
  return list;
}

void keys_of(const Value& value, const std::string& path, std::vector<std::string>& out) {
  switch (value.kind) {
    case Value::Kind::map:
      for (const auto& entry : value.entries) {
        keys_of(entry.value, path.empty() ? entry.key : path + "." + entry.key, out);
      }
      return;
    case Value::Kind::sequence: {
      std::string items;
      for (const Value& item : value.items) {
        items += (items.empty() ? "" : ", ") + item.scalar;
      }
      out.push_back("job " + path + " = [" + items + "]");
      return;
    }
    case Value::Kind::scalar:
      out.push_back("job " + path + " = " + value.scalar);
      return;
    case Value::Kind::null:
      out.push_back("job " + path + " = null");
      return;
  }
}

// Sorted, so that only the content is compared and not the order in the file.
std::string result_of(const Launch& launch) {
  std::vector<std::string> lines;
  keys_of(launch.job, "", lines);
  std::sort(lines.begin(), lines.end());
  const auto add = [&](const char* word, const std::vector<LaunchOption>& options) {
    std::vector<std::string> names;
    for (const LaunchOption& option : options) {
      names.push_back(std::string(word) + " " + option.name);
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    lines.insert(lines.end(), names.begin(), names.end());
  };
  add("translated", launch.translated);
  add("meaningless", launch.meaningless);
  add("unmodelled", launch.unmodelled);
  add("unknown", launch.unknown);
  std::string out;
  for (const std::string& line : lines) {
    out += line + "\n";
  }
  return out;
}

std::string file_text(const std::string& name) {
  std::ostringstream out;
  out << std::ifstream(name).rdbuf();
  return out.str();
}

}  // namespace

TEST_CASE("Genuine files are read without loss") {
  for (const Example& example : examples()) {
    INFO(example.name);
    Launch launch;
    try {
      launch = interop::read_launch(example.request);
    } catch (const InputError& error) {
      for (const Fault& fault : error.faults()) {
        UNSCOPED_INFO(to_string(fault));
      }
      CHECK(false);
      continue;
    }
    for (const LaunchOption& option : launch.unknown) {
      UNSCOPED_INFO(option.name);
    }
    CHECK(launch.unknown.empty());
    const std::string expected = kFolder + example.name + ".expected";
    if (std::getenv("STEPCAST_UPDATE") != nullptr) {
      std::ofstream(expected) << result_of(launch);
    }
    CHECK(result_of(launch) == file_text(expected));
    // The job passes every check of a job file.
    try {
      const auto loaded = input::parse(launch.job, example.request.overrides);
      CHECK(loaded.job.model.layers > 0);
    } catch (const InputError& error) {
      for (const Fault& fault : error.faults()) {
        UNSCOPED_INFO(to_string(fault));
      }
      CHECK(false);
    }
  }
}

namespace {

// The job that a text in memory gives, as a resolved one.
job::Job job_in(const std::string& system, const std::string& text,
                const char* cluster = "dgx-h100") {
  LaunchRequest r;
  r.system = system;
  r.texts = {{"job.yaml", text}};
  r.cluster = cluster;
  r.nodes = 1;
  return input::parse(interop::read_launch(r).job).job;
}

}  // namespace

TEST_CASE("What an Axolotl file leaves out has Axolotl's defaults") {
  const std::string base = "base_model: meta-llama/Llama-3.1-8B\n";
  const job::Job plain = job_in("axolotl", base);
  CHECK(plain.workload.sequence_length == 512);
  CHECK(plain.workload.micro_batch == 1);
  CHECK(plain.workload.global_batch == 8);  // one sequence on each GPU
  CHECK(plain.workload.finetune.kind == job::Finetune::Kind::none);
  CHECK(plain.memory.dtypes.parameters == DType::bf16);
  // FSDP keeps fp32 weights.
  CHECK(job_in("axolotl", base + "fsdp: [full_shard, auto_wrap]\n").parallelism.sharding ==
        job_in("axolotl", base + "fsdp_version: 2\n").parallelism.sharding);
  const job::Job adapted =
      job_in("axolotl", base +
                            "adapter: qlora\nload_in_4bit: true\nlora_r: 32\n"
                            "lora_target_modules: [self_attn.q_proj, q_proj, down_proj]\n");
  CHECK(adapted.workload.finetune.kind == job::Finetune::Kind::qlora);
  CHECK(adapted.workload.finetune.rank == 32);
  CHECK(adapted.workload.finetune.targets == std::vector<std::string>{"q", "down"});
}

TEST_CASE("What a LLaMA-Factory file leaves out has LLaMA-Factory's defaults") {
  const std::string base =
      "model_name_or_path: meta-llama/Llama-3.1-8B\nbf16: true\n"
      "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\n";
  const job::Job plain = job_in("llamafactory", base);
  CHECK(plain.workload.sequence_length == 2048);
  CHECK(plain.workload.global_batch == 64);
  CHECK(plain.workload.finetune.kind == job::Finetune::Kind::lora);
  CHECK(plain.workload.finetune.rank == 8);
  CHECK(plain.memory.recompute.kind == job::Recompute::Kind::full);
  const job::Job whole =
      job_in("llamafactory",
             base + "finetuning_type: full\nlora_rank: 8\ndisable_gradient_checkpointing: true\n");
  CHECK(whole.workload.finetune.kind == job::Finetune::Kind::none);
  CHECK(whole.memory.recompute.kind == job::Recompute::Kind::none);
  CHECK_THROWS_AS(job_in("llamafactory", base + "finetuning_type: oft\n"), InputError);
  // A key without a value is left out.
  const job::Job valueless =
      job_in("llamafactory", base + "lora_rank: null\nlora_target:\nadditional_target: null\n");
  CHECK(valueless.workload.finetune.rank == 8);
  CHECK(valueless.workload.finetune.targets == plain.workload.finetune.targets);
}

namespace {

struct Formats {
  DType parameters, gradients, reduce, moments, trained;
};

void check_formats(const job::Job& job, const Formats& formats) {
  CHECK(job.memory.dtypes.parameters == formats.parameters);
  CHECK(job.memory.dtypes.gradients == formats.gradients);
  CHECK(job.memory.dtypes.reduce == formats.reduce);
  CHECK(job.memory.dtypes.moments == formats.moments);
  CHECK(job::trained_format(job) == formats.trained);
  CHECK_FALSE(job.memory.dtypes.master.has_value());
}

constexpr DType b = DType::bf16, f = DType::fp32, h = DType::fp16;
constexpr Formats kWide = {f, f, f, f, f};
constexpr Formats kNarrow = {b, b, b, b, b};
constexpr Formats kFrozen = {b, f, f, f, f};  // a base in 16 bits, PEFT's adapters in fp32

}  // namespace

TEST_CASE("LLaMA-Factory loads weights in 16 bits and widens what it trains") {
  const std::string base =
      "model_name_or_path: meta-llama/Llama-3.1-8B\nper_device_train_batch_size: 2\n";
  const std::string mixed = base + "bf16: true\n";
  const std::string full = "finetuning_type: full\n";
  const std::string pure = "pure_bf16: true\n";
  check_formats(job_in("llamafactory", mixed), kFrozen);
  check_formats(job_in("llamafactory", mixed + "quantization_bit: 4\n"), kFrozen);
  check_formats(job_in("llamafactory", mixed + pure), kFrozen);
  check_formats(job_in("llamafactory", mixed + full), kWide);
  check_formats(job_in("llamafactory", base + full + pure), kNarrow);
  check_formats(job_in("llamafactory", mixed + full + "pure_bf16: false\n"), kWide);
  // Without autocast products are in the format of what they read.
  CHECK(job_in("llamafactory", base).workload.precision == DType::bf16);
  CHECK(job_in("llamafactory", base + full).workload.precision == DType::fp32);
  CHECK(job_in("llamafactory", base + full + pure).workload.precision == DType::bf16);
  // DeepSpeed has formats of its own, and refuses pure_bf16 with ZeRO-3.
  const std::string zero = "deepspeed: '{\"zero_optimization\": {\"stage\": 3}}'\n";
  CHECK(job_in("llamafactory", mixed + full + zero).memory.dtypes.master == DType::fp32);
  CHECK_THROWS_AS(job_in("llamafactory", mixed + full + zero + pure), InputError);
}

TEST_CASE("Axolotl loads weights in the format that trains, a frozen base too") {
  const std::string base = "base_model: meta-llama/Llama-3.1-8B\n";
  const std::string adapter = "adapter: lora\nlora_r: 8\n";
  check_formats(job_in("axolotl", base + "bf16: true\n"), kNarrow);
  check_formats(job_in("axolotl", base + "bf16: true\n" + adapter), kFrozen);
  check_formats(job_in("axolotl", base + "bf16: auto\n" + adapter), kFrozen);
  check_formats(job_in("axolotl", base + "fp16: true\n" + adapter), {h, f, f, f, f});
  check_formats(job_in("axolotl", base + "bf16: false\n" + adapter), kWide);
  const job::Job sharded = job_in("axolotl", base + adapter + "fsdp: [full_shard, auto_wrap]\n");
  CHECK(sharded.memory.dtypes.parameters == DType::bf16);  // FSDP widens what is trained alone
  CHECK(job::trained_format(sharded) == DType::fp32);
  CHECK(job_in("axolotl", base + "fsdp: [full_shard, auto_wrap]\n").memory.dtypes.parameters ==
        DType::fp32);
}

TEST_CASE("Trainer keeps weights in the format that from_pretrained loads them in") {
  const std::string base =
      "model_name_or_path: meta-llama/Llama-3.1-8B\nper_device_train_batch_size: 1\n"
      "max_length: 2048\n";
  const std::string mixed = base + "bf16: true\n";
  check_formats(job_in("transformers", mixed), kNarrow);  // that of the checkpoint
  for (const char* name :
       {"torch_dtype: bfloat16", "dtype: bfloat16", "dtype: torch.bfloat16", "dtype: auto"}) {
    check_formats(job_in("transformers", mixed + name + "\n"), kNarrow);
  }
  check_formats(job_in("transformers", mixed + "dtype: float32\n"), kWide);
  check_formats(job_in("transformers", mixed + "dtype: bfloat16\nuse_peft: true\n"), kFrozen);
  check_formats(job_in("transformers", mixed + "use_peft: true\n"), kFrozen);
  // Without autocast products are in the weights' format.
  CHECK(job_in("transformers", base).workload.precision == DType::bf16);
  CHECK(job_in("transformers", base + "dtype: float32\n").workload.precision == DType::fp32);
  CHECK(job_in("transformers", base + "dtype: bfloat16\n").workload.precision == DType::bf16);
  // Under FSDP, Accelerate widens what is trained beside mixed precision.
  const std::string sharded = "dtype: bfloat16\nfsdp: full_shard\n";
  CHECK(job_in("transformers", mixed + sharded).memory.dtypes.parameters == DType::fp32);
  CHECK(job_in("transformers", base + sharded).memory.dtypes.parameters == DType::bf16);
  CHECK(job_in("transformers", mixed + "fsdp: full_shard\n").memory.dtypes.parameters ==
        DType::fp32);
  // GPT-2's checkpoint is in fp32.
  const std::string gpt2 = "model_name_or_path: gpt2\nper_device_train_batch_size: 1\n";
  check_formats(job_in("transformers", gpt2 + "max_length: 1024\nbf16: true\n"), kWide);
  CHECK(job_in("transformers", gpt2 + "max_length: 1024\n").workload.precision == DType::fp32);
  CHECK(job_in("transformers", gpt2 + "max_length: 1024\ndtype: auto\n").workload.precision ==
        DType::fp32);
  CHECK(job_in("accelerate",
               "distributed_type: MULTI_GPU\nmixed_precision: bf16\n" + base + "dtype: bfloat16\n")
            .memory.dtypes.moments == DType::bf16);
  CHECK_THROWS_AS(job_in("transformers", mixed + "dtype: int8\n"), InputError);
}

TEST_CASE("A size of DDP's buckets that Trainer states is the first bucket's too") {
  const std::string base =
      "model_name_or_path: meta-llama/Llama-3.1-8B\nper_device_train_batch_size: 1\n"
      "max_length: 2048\nbf16: true\n";
  const job::System usual = job_in("transformers", base).system;
  CHECK(usual.bucket_bytes == Bytes(25 << 20));
  CHECK(usual.first_bucket_bytes == Bytes(1 << 20));
  const job::System stated = job_in("transformers", base + "ddp_bucket_cap_mb: 100\n").system;
  CHECK(stated.bucket_bytes == Bytes(100 << 20));
  CHECK(stated.first_bucket_bytes == Bytes(0));
}

TEST_CASE("A flag of Megatron-LM that a file sets to false is as one that it leaves out") {
  const std::string base =
      "num_layers: 24\nhidden_size: 1024\nnum_attention_heads: 16\nseq_length: 1024\n"
      "vocab_size: 32000\nmicro_batch_size: 1\nglobal_batch_size: 64\nbf16: true\n";
  const job::Job plain = job_in("megatron", base);
  const job::Job off = job_in("megatron", base +
                                              "swiglu: false\nno_position_embedding: false\n"
                                              "is_hybrid_model: false\nnum_experts: null\n"
                                              "zero_bubble_v_schedule: false\n"
                                              "enable_zb_runtime: false\n");
  CHECK(off.model.ffn == plain.model.ffn);
  CHECK(off.model.ffn == 4096);
  CHECK(off.model.positions == plain.model.positions);
  CHECK_FALSE(off.model.moe.has_value());
  CHECK(off.system.optimizer_post_validation == plain.system.optimizer_post_validation);
  const job::Job gated = job_in("megatron", base + "swiglu: true\n");
  CHECK(gated.model.ffn == 2688);
}

TEST_CASE("Overrides of a Megatron-Bridge recipe are read by section, as YAML and as arguments") {
  const std::string file =
      "recipe: llama3_70b_pretrain_config\n"
      "model: {tensor_model_parallel_size: 4, pipeline_model_parallel_size: 2, "
      "virtual_pipeline_model_parallel_size: 5, context_parallel_size: 1, sequence_parallel: "
      "true}\n"
      "train: {micro_batch_size: 1, global_batch_size: 32, train_iters: 100}\n"
      "dataset: {seq_length: 8192, num_workers: 2}\n"
      "ddp: {grad_reduce_in_fp32: true, overlap_grad_reduce: false}\n"
      "mixed_precision: bf16_with_fp8_subchannel_scaling_mixed\n"
      "checkpoint: {save: nowhere}\nlogger: {log_interval: 1}\n";
  LaunchRequest r;
  r.system = "megatron-bridge";
  r.texts = {{"overrides.yaml", file}};
  r.inputs = {"model.pipeline_model_parallel_size=1",
              "model.virtual_pipeline_model_parallel_size=null"};
  r.cluster = "dgx-h100";
  r.nodes = 1;
  const Launch launch = interop::read_launch(r);
  CHECK(launch.unknown.empty());
  CHECK(launch.unmodelled.empty());
  CHECK(launch.remarks.size() == 1);  // the recipe's own values
  const job::Job job = job_in("megatron-bridge", file);
  CHECK(job.model.name == "llama-3-70b");
  CHECK(job.system.name == "megatron-bridge");
  CHECK(job.parallelism.tensor == 4);
  CHECK(job.parallelism.pipeline == 2);
  CHECK(job.parallelism.virtual_pipeline == 5);
  CHECK(job.workload.global_batch == 32);
  CHECK(job.workload.sequence_length == 8192);
  CHECK(job.workload.precision == DType::fp8_block);
  CHECK(job.memory.dtypes.reduce == DType::fp32);
  CHECK_FALSE(job.parallelism.overlap.grad_reduce);
  CHECK(job.memory.dtypes.parameters == DType::bf16);
  CHECK_THROWS_AS(job_in("megatron-bridge", file + "unread: [\n"), InputError);
}

TEST_CASE("mixed_precision of Megatron-Bridge overwrites what ddp says of gradients") {
  const auto gradients = [](const std::string& more) {
    const job::Job job =
        job_in("megatron-bridge",
               "recipe: llama3_8b_pretrain_config\n"
               "train: {micro_batch_size: 1, global_batch_size: 8}\ndataset: {seq_length: 2048}\n" +
                   more);
    CHECK(job.memory.dtypes.gradients == job.memory.dtypes.reduce);
    return job.memory.dtypes.gradients;
  };
  CHECK(gradients("") == DType::fp32);  // bf16_mixed's own
  CHECK(gradients("ddp: {grad_reduce_in_fp32: false}\n") == DType::fp32);
  CHECK(gradients("mixed_precision.grad_reduce_in_fp32: false\n") == DType::bf16);
  CHECK(gradients("mixed_precision: null\nddp: {grad_reduce_in_fp32: false}\n") == DType::bf16);
  CHECK(gradients("mixed_precision: fp16_mixed\n") == DType::fp16);
}

TEST_CASE("What a Megatron-Bridge recipe sets on mixed_precision, comm_overlap and stages") {
  const auto job = [](const std::string& more) {
    return job_in("megatron-bridge",
                  "recipe: llama3_8b_pretrain_config\n"
                  "train: {micro_batch_size: 1, global_batch_size: 32}\n"
                  "dataset: {seq_length: 2048}\n" +
                      more,
                  "dgx-b200");
  };
  const std::string eight = "mixed_precision: bf16_with_fp8_current_scaling_mixed\n";
  CHECK(job(eight + "mixed_precision.fp8_recipe: blockwise\n").workload.precision ==
        DType::fp8_block);
  CHECK(job(eight + "mixed_precision.fp8: null\n").workload.precision == DType::bf16);
  CHECK(job(eight + "mixed_precision.fp8_param_gather: false\n").memory.dtypes.parameters ==
        DType::bf16);
  const std::string four = "mixed_precision: bf16_with_nvfp4_mixed\n";
  CHECK(job(four + "mixed_precision.fp4_param_gather: true\n").memory.dtypes.parameters ==
        DType::nvfp4);
  CHECK(job(four + "mixed_precision.fp4_param_gather: false\n").memory.dtypes.parameters ==
        DType::bf16);
  CHECK(job("mixed_precision.fp4_param_gather: true\n").memory.dtypes.parameters == DType::bf16);
  CHECK(job(eight + "mixed_precision.fp8_dot_product_attention: true\n").kernels.fp8_attention);
  CHECK(job("mixed_precision.fp8_recipe: mxfp8\n").workload.precision == DType::bf16);
  CHECK_FALSE(job("ddp: {overlap_grad_reduce: true}\ncomm_overlap.overlap_grad_reduce: false\n")
                  .parallelism.overlap.grad_reduce);
  const auto stages =
      job("model: {pipeline_model_parallel_size: 4, num_layers_in_first_pipeline_stage: 7, "
          "num_layers_in_last_pipeline_stage: 7}\n");
  CHECK(stages.parallelism.layers_per_stage == std::vector<int>{7, 9, 9, 7});
}

TEST_CASE("What a Megatron-Bridge recipe may set is named where a forecast depends on it") {
  LaunchRequest r;
  r.system = "megatron-bridge";
  r.texts = {{"recipe.py",
              "def recipe():\n"
              "    cfg = Config()\n"
              "    cfg.model = AutoBridge.from_hf_pretrained('meta-llama/Meta-Llama-3-8B')\n"
              "    cfg.dataset.seq_length = 2048\n"
              "    cfg.train.global_batch_size = 8\n"
              "    if cfg.model.unknown:\n"
              "        cfg.rng.te_rng_tracker = True\n"
              "        cfg.model.use_transformer_engine_op_fuser = False\n"
              "        cfg.model.sequence_parallel = True\n"
              "    return cfg\n"}};
  r.inputs = {"recipe=recipe"};
  r.cluster = "dgx-h100";
  r.nodes = 1;
  const Launch launch = interop::read_launch(r);
  REQUIRE(launch.remarks.size() == 1);
  CHECK(launch.remarks[0].where.line == 9);
}

TEST_CASE("Megatron-Bridge: a tokenizer's words, layers on the host, and DeepSeek-V4's stages") {
  const auto job = [](const std::string& text) {
    return job_in("megatron-bridge",
                  "train: {micro_batch_size: 1, global_batch_size: 32}\n"
                  "dataset: {seq_length: 2048}\n" +
                      text);
  };
  const std::string sizes =
      "model: {num_layers: 2, hidden_size: 512, num_attention_heads: 8, num_moe_experts: 8, "
      "moe_router_topk: 2, moe_ffn_hidden_size: 256}\n";
  const std::string nano =
      "tokenizer: {tokenizer_model: nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16";
  CHECK(job(sizes + nano + "}\n").model.vocab == 131072);
  CHECK(job(sizes + nano + "}\n").model.moe->experts == 8);
  CHECK(job(sizes + nano + ", tokenizer_type: NullTokenizer, vocab_size: 4096}\n").model.vocab ==
        4096);

  const std::string llama = "recipe: llama3_8b_pretrain_config\n";
  const std::string layers = "model.cpu_offloading_num_layers: 4\n";
  CHECK(job(llama + layers).memory.offload.activation_layers == 0);
  CHECK(job(llama + layers + "model.cpu_offloading: true\n").memory.offload.activation_layers == 4);

  const auto v4 = [&](const std::string& more) {
    return job(
        "model: {pipeline_model_parallel_size: 4, recompute_granularity: selective, "
        "recompute_modules: [mla_up_proj]" +
        more + "}\nrecipe: deepseek-v4-flash\n");
  };
  CHECK(v4("").parallelism.layers_per_stage == std::vector<int>{11, 11, 11, 10});
  CHECK(v4("").memory.recompute.kind == job::Recompute::Kind::none);
  CHECK(v4("").model.mtp_layers == 1);
  CHECK(v4(", mtp_num_layers: null").model.mtp_layers == 0);
}

TEST_CASE("NeMo AutoModel's YAML: sizes, formats, adapters and losses") {
  const auto job = [](const std::string& more) {
    return job_in("nemo-automodel",
                  "step_scheduler: {global_batch_size: 64, local_batch_size: 2, max_steps: 9}\n"
                  "model: {_target_: a.b.from_pretrained, torch_dtype: auto,\n"
                  "  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B}\n"
                  "dataset: {seq_length: 2048, split: train}\n"
                  "optimizer: {_target_: torch.optim.AdamW, lr: 1.0e-5}\n" +
                      more);
  };
  const job::Job plain = job("distributed: {dp_size: none, tp_size: 2}\n");
  CHECK(plain.model.name == "llama-3.1-8b");
  CHECK(plain.parallelism.tensor == 2);
  CHECK(plain.parallelism.sharding == job::Sharding::zero3);
  CHECK(plain.workload.global_batch == 64);
  CHECK(plain.workload.micro_batch == 2);
  CHECK(plain.workload.sequence_length == 2048);
  CHECK(plain.workload.finetune.kind == job::Finetune::Kind::none);

  CHECK(job("distributed: {strategy: ddp}\n").parallelism.sharding == job::Sharding::none);
  CHECK(job("distributed: {activation_checkpointing: true}\n").memory.recompute.kind ==
        job::Recompute::Kind::full);
  CHECK(job("distributed: {activation_checkpointing: selective}\n").memory.recompute.kind ==
        job::Recompute::Kind::per_op);
  CHECK(plain.system.checkpoints_blocks);
  CHECK_FALSE(job("model.force_hf: true\n").system.checkpoints_blocks);
  CHECK_FALSE(job("compile: {enabled: true}\n").kernels.compile);
  CHECK(job("distributed: {enable_compile: true}\n").kernels.compile);
  CHECK(job("distributed: {strategy: ddp}\ncompile: {enabled: true}\n").kernels.compile);
  CHECK(job("packed_sequence: {packed_sequence_size: 4096}\n").workload.sequence_length == 4096);
  CHECK(job("fp8: {enabled: true, recipe_name: rowwise}\n").workload.precision == DType::fp8_block);
  CHECK(job("loss_fn: {_target_: a.FusedLinearCrossEntropy}\n").kernels.loss ==
        job::LossKernel::chunked);
  const auto adapters = job("peft: {_target_: a.PeftConfig, dim: 16, target_modules: [q_proj, "
                            "v_proj]}\n")
                            .workload.finetune;
  CHECK(adapters.kind == job::Finetune::Kind::lora);
  CHECK(adapters.rank == 16);
  CHECK(adapters.targets == std::vector<std::string>{"q", "v"});
  const auto all = job("peft: {match_all_linear: true}\n").workload.finetune;
  CHECK(all.rank == 8);
  CHECK(all.targets.size() == 7);  // every product of a layer
  CHECK(job("peft: {target_modules: '*_proj'}\n").workload.finetune.targets == all.targets);
  CHECK(job("model.backend: {attn: te}\n").kernels.attention == job::AttentionKernel::cudnn);
  CHECK_THROWS_AS(job("model.backend: {attn: fast}\n"), InputError);
  CHECK(job("optimizer.exp_avg_dtype: torch.float32\n").memory.dtypes.moments == DType::fp32);
}

TEST_CASE("torchtitan's functions in Python: flavours, classes, converters and CUDA graphs") {
  const auto read = [](const std::string& more, const std::vector<std::string>& arguments = {}) {
    LaunchRequest r;
    r.system = "torchtitan";
    r.texts = {{"models/qwen3/config_registry.py",
                "from . import model_registry\n"
                "def plain() -> Trainer.Config:\n"
                "    model_spec = model_registry('30B-A3B', moe_comm_backend='hybridep')\n"
                "    return Trainer.Config(\n"
                "        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config()),\n"
                "        model_spec=model_spec,\n"
                "        optimizer=default_adamw(lr=8e-4),\n"
                "        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=2),\n"
                "        training=TrainingConfig(local_batch_size=2, seq_len=4096),\n"
                "        parallelism=ParallelismConfig(expert_parallel_degree=4),\n"
                "        checkpoint=CheckpointManager.Config(interval=10),\n"
                "        activation_checkpoint=FullAC.Config(preserve_rng_state=False),\n"
                "        compile=CompileConfig(enable=True, components=['loss']),\n"
                "    )\n"
                "def changed():\n"
                "    config = plain()\n" +
                    more + "    return config\n"}};
    r.inputs = {"config=changed"};
    r.inputs.insert(r.inputs.end(), arguments.begin(), arguments.end());
    r.cluster = "dgx-b200";
    r.nodes = 1;
    return interop::read_launch(r);
  };
  const auto job = [&](const std::string& more, const std::vector<std::string>& arguments = {}) {
    const Launch launch = read(more, arguments);
    CHECK(launch.unknown.empty());
    return input::parse(launch.job, {}).job;
  };
  const job::Job plain = job("");
  CHECK(plain.model.name == "qwen3-30b-a3b");
  CHECK(plain.system.name == "torchtitan");
  CHECK(plain.workload.sequence_length == 4096);
  CHECK(plain.workload.micro_batch == 2);
  CHECK(plain.workload.global_batch == 16);
  CHECK(plain.parallelism.expert == 4);
  CHECK(plain.memory.recompute.kind == job::Recompute::Kind::full);
  CHECK(plain.kernels.loss == job::LossKernel::chunked);
  CHECK_FALSE(plain.kernels.compile);
  CHECK(plain.kernels.cuda_graph);
  CHECK(read("").unmodelled.size() == 1);  // its compiled loss beside eager layers

  CHECK_FALSE(job("    config.training.disable_cuda_graphs = True\n").kernels.cuda_graph);
  CHECK(job("    config.loss = CrossEntropyLoss.Config()\n").kernels.loss ==
        job::LossKernel::eager);
  CHECK(job("    config.activation_checkpoint = None\n").memory.recompute.kind ==
        job::Recompute::Kind::none);
  CHECK(job("    config.activation_checkpoint = SelectiveAC.Config()\n").memory.recompute.kind ==
        job::Recompute::Kind::per_op);
  CHECK(job("", {"training.local_batch_size=4"}).workload.micro_batch == 4);
  const std::string eight =
      "    config.model_spec = model_registry('30B-A3B', moe_comm_backend='hybridep', converters=[";
  CHECK(job(eight + "Float8LinearConverter.Config(recipe_name='rowwise')])\n").workload.precision ==
        DType::fp8_block);
  CHECK(job(eight + "MXFP8LinearConverter.Config(fqns=['layers'])])\n").workload.precision ==
        DType::mxfp8);
  CHECK(job(eight + "Float8LinearConverter.Config(recipe_name='rowwise', "
                    "filter_fqns=['auto_filter_small_kn'])])\n")
            .workload.precision == DType::bf16);
  CHECK_THROWS_AS(read(eight + "LoRAConverter.Config(rank=8)])\n"), InputError);
  CHECK_THROWS_AS(read("    config.model_spec = model_registry('debugmodel')\n"), InputError);
  const Launch standard =
      read("    config.model_spec = model_registry('30B-A3B', moe_comm_backend='standard')\n");
  CHECK(standard.remarks.size() == 1);  // torchtitan refuses graphs beside it
}

TEST_CASE("A loss is compiled with its model where the framework does so") {
  const auto titan = [](const std::string& components) {
    return job_in("torchtitan",
                  "model: {name: llama3, flavor: 8B}\n"
                  "training: {local_batch_size: 1, seq_len: 4096}\n"
                  "compile: {enable: true" +
                      components + "}\n")
        .system.compiles_loss;
  };
  CHECK(titan(""));
  CHECK(titan(", components: [model, loss]"));
  CHECK_FALSE(titan(", components: [model]"));
  const auto tune = [](const std::string& loss) {
    return job_in("torchtune",
                  "model: {_component_: torchtune.models.llama3_1.llama3_1_8b}\n"
                  "tokenizer: {max_seq_len: 4096}\nbatch_size: 2\ncompile: true\n"
                  "loss: {_component_: torchtune.modules.loss." +
                      loss + "}\n")
        .system.compiles_loss;
  };
  CHECK(tune("CEWithChunkedOutputLoss"));
  CHECK_FALSE(tune("CrossEntropyLoss"));
}

TEST_CASE("torchtitan divides experts among expert ranks alone, unless it is told otherwise") {
  const auto cut = [](const std::string& more) {
    return job_in("torchtitan",
                  "model: {name: qwen3, flavor: 30B-A3B}\n"
                  "training: {local_batch_size: 1, seq_len: 4096}\n"
                  "parallelism: {tensor_parallel_degree: 2" +
                      more + "}\n")
        .parallelism.expert_tensor;
  };
  CHECK(cut(", expert_parallel_degree: 4") == 1);
  CHECK(cut(", expert_parallel_degree: 4, expert_tensor_parallel_degree: 2") == 2);
  CHECK(cut("") == 2);
  CHECK(cut(", expert_tensor_parallel_degree: 1") == 2);  // without effect
}

TEST_CASE("The output projection's weight gradient waits where the options say so, up to a limit") {
  const auto waits = [](const std::string& more) {
    return job_in("megatron-bridge",
                  "recipe: llama3_8b_pretrain_config\n"
                  "train: {micro_batch_size: 1, global_batch_size: 32}\n"
                  "dataset: {seq_length: 2048}\n"
                  "model: {pipeline_model_parallel_size: 2}\n" +
                      more)
        .parallelism.deferred_head_wgrad;
  };
  const std::string on = "comm_overlap.defer_embedding_wgrad_compute: true\n";
  CHECK(waits(on + "comm_overlap.wgrad_deferral_limit: 22\n") == 22);
  CHECK(waits(on) == job::Parallelism::kAllMicroBatches);
  CHECK(waits("comm_overlap.wgrad_deferral_limit: 22\n") == 0);
}

TEST_CASE("Adapters of Megatron-Bridge have rank 32 where their modules alone are stated") {
  const auto finetune = [](const std::string& peft) {
    return job_in("megatron-bridge",
                  "recipe: llama3_8b_sft_config\n"
                  "train: {micro_batch_size: 1, global_batch_size: 8}\n"
                  "dataset: {seq_length: 2048}\n" +
                      peft)
        .workload.finetune;
  };
  CHECK(finetune("peft: lora\n").rank == 32);
  CHECK(finetune("peft.target_modules: [linear_qkv]\n").rank == 32);
  CHECK(finetune("peft.target_modules: [linear_qkv]\npeft.dim: 8\n").rank == 8);
  CHECK(finetune("peft.dim: 8\npeft.target_modules: [linear_qkv]\n").rank == 8);
}

TEST_CASE("Modules whose activations Megatron-LM offloads") {
  const auto modules = [](const std::string& more) {
    return job_in("megatron-bridge",
                  "recipe: llama3_8b_pretrain_config\n"
                  "train: {micro_batch_size: 1, global_batch_size: 8}\n"
                  "dataset: {seq_length: 2048}\n" +
                      more)
        .memory.offload.activation_modules;
  };
  const std::string on = "model.fine_grained_activation_offloading: true\n";
  CHECK(modules(on + "model.offload_modules: [core_attn, attn_proj]\n") ==
        std::vector<std::string>{"core_attn", "attn_proj"});
  CHECK(modules(on + "model.offload_modules: [fused_group_mlp]\n").empty());
  CHECK(modules("model.offload_modules: [core_attn]\n").empty());
}

TEST_CASE("Transformers recomputes by the new name of its option, every n-th layer, on the host") {
  const auto memory = [](const std::string& more) {
    return job_in("transformers",
                  "model_name_or_path: meta-llama/Llama-3.1-8B\nbf16: true\nmax_length: 2048\n"
                  "per_device_train_batch_size: 1\n" +
                      more)
        .memory;
  };
  using Kind = job::Recompute::Kind;
  CHECK(memory("").recompute.kind == Kind::none);
  CHECK(memory("gradient_checkpointing: true\n").recompute.kind == Kind::full);
  CHECK(memory("activation_checkpointing: true\n").recompute.kind == Kind::full);
  CHECK(memory("activation_checkpointing: false\ngradient_checkpointing: true\n").recompute.kind ==
        Kind::none);
  const auto some = memory(
      "activation_checkpointing: true\n"
      "activation_checkpointing_kwargs: {every_n_layers: 2, offload: true}\n");
  CHECK(some.recompute.kind == Kind::every);
  CHECK(some.recompute.layers == 2);
  CHECK(some.offload.activations.to == job::OffloadTarget::cpu);
  CHECK(memory("activation_checkpointing_kwargs: {offload: true}\n").offload.activations.to ==
        job::OffloadTarget::none);
}

TEST_CASE("torchtune steps weights in the backward pass of one rank and one micro-batch") {
  const auto in_backward = [](const std::string& more, int gpus) {
    LaunchRequest r;
    r.system = "torchtune";
    r.texts = {{"recipe.yaml",
                "model: {_component_: torchtune.models.llama3_1.llama3_1_8b}\nbatch_size: 2\n"
                "tokenizer: {max_seq_len: 2048}\noptimizer_in_bwd: True\n" +
                    more}};
    r.cluster = "dgx-h100";
    r.nodes = 1;
    r.overrides = {fmt::format("cluster.gpus_per_node={}", gpus)};
    const Launch launch = interop::read_launch(r);
    return launch.unmodelled.empty();
  };
  CHECK(in_backward("", 1));
  CHECK_FALSE(in_backward("", 8));
  CHECK_FALSE(in_backward("gradient_accumulation_steps: 2\n", 1));
}

TEST_CASE("torchtitan steps weights in the backward pass, which frees gradients of one rank") {
  const auto read = [](int gpus, const char* early) {
    LaunchRequest r;
    r.system = "torchtitan";
    r.texts = {{"t.toml", fmt::format("[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\n"
                                      "seq_len = 2048\nlocal_batch_size = 1\n[optimizer]\n"
                                      "early_step_in_backward = {}\n",
                                      early)}};
    r.cluster = "dgx-h100";
    r.nodes = 1;
    r.overrides = {fmt::format("cluster.gpus_per_node={}", gpus)};
    return interop::read_launch(r);
  };
  const auto in_backward = [](const Launch& launch) {
    return input::parse(launch.job, {"cluster.gpus_per_node=1"}).job.memory.optimizer_in_backward;
  };
  CHECK(in_backward(read(1, "true")));
  CHECK_FALSE(in_backward(read(1, "false")));
  const Launch many = read(8, "true");
  REQUIRE(many.unmodelled.size() == 1);
  CHECK(many.unmodelled.front().name == "optimizer.early_step_in_backward");
}

TEST_CASE("A pattern of Megatron-LM names each layer's mixer or MLP, and prediction layers") {
  const auto job = [](const std::string& more) {
    LaunchRequest r;
    r.system = "megatron";
    r.texts = {{"job.args",
                "--num-layers 7 --hidden-size 1024 --num-attention-heads 16 --seq-length 4096 "
                "--micro-batch-size 1 --global-batch-size 8 --vocab-size 32000 --bf16 "
                "--position-embedding-type none --num-experts 8 --moe-ffn-hidden-size 512 " +
                    more}};
    r.cluster = "dgx-h100";
    r.nodes = 1;
    return input::parse(interop::read_launch(r).job).job;
  };
  const job::Model m = job("--hybrid-layer-pattern MEM*-E/*E/*E --mamba-state-dim 64").model;
  CHECK(m.layers == 6);
  CHECK(m.mixers == "m-ma--");
  CHECK(m.mlps == "-e--de");
  CHECK(m.mtp_layers == 2);
  CHECK_FALSE(m.mtp_repeated);
  REQUIRE(m.mamba);
  CHECK(*m.mamba == job::Mamba{32, 64, 64, 8, 4, 128});
  const job::Model older =
      job("--is-hybrid-model --hybrid-override-pattern M-M* --mamba-num-heads 8 "
          "--mamba-head-dim 128 --mtp-num-layers 1 --mtp-use-repeated-layer")
          .model;
  CHECK(older.mlps == "-d-");
  CHECK(job("--hybrid-layer-pattern M-M-M-").model.mixers == "m-");
  CHECK(*older.mamba == job::Mamba{8, 128, 128, 8, 4, 128});
  CHECK(older.mtp_layers == 1);
  CHECK_FALSE(job("--hybrid-layer-pattern *-*-").model.mamba);
  for (const char* bad : {"--hybrid-layer-pattern MG", "--hybrid-layer-pattern /*E",
                          "--hybrid-layer-pattern M*/M", "--is-hybrid-model"}) {
    INFO(bad);
    CHECK_THROWS_AS(job(bad), InputError);
  }
}

TEST_CASE("What CUDA graphs capture is the step, whole layers or the modules that are named") {
  using Modules = std::vector<std::string>;
  const auto kernels = [](const std::string& model) {
    return job_in("megatron-bridge", "recipe: llama3_70b_pretrain_config\nmodel: {" + model +
                                         "}\ntrain: {micro_batch_size: 1, global_batch_size: 32}\n"
                                         "dataset: {seq_length: 8192}\n")
        .kernels;
  };
  const Modules layer = {"attn", "mamba", "mlp", "moe"};
  struct Case {
    const char* model;
    bool graph;
    Modules modules;
  };
  const std::vector<Case> cases = {
      {"cuda_graph_impl: none, cuda_graph_scope: full", false, {}},
      {"cuda_graph_impl: local, cuda_graph_scope: full_iteration", true, {}},
      {"cuda_graph_impl: full_iteration", true, {}},
      {"cuda_graph_impl: full_iteration, cuda_graph_modules: []", true, {}},
      {"cuda_graph_impl: local", true, layer},
      {"cuda_graph_impl: transformer_engine, cuda_graph_scope: full", true, layer},
      {"cuda_graph_impl: transformer_engine, cuda_graph_scope: [attn, moe_router]",
       true,
       {"attn", "moe_router"}},
      {"cuda_graph_impl: local, cuda_graph_scope: [attn, moe_router, mlp]",
       true,
       {"attn", "moe_router", "mlp", "moe_preprocess"}},
      {"cuda_graph_impl: transformer_engine, cuda_graph_modules: \"attn,mlp\"",
       true,
       {"attn", "mlp"}},
  };
  for (const Case& c : cases) {
    INFO(c.model);
    const job::Kernels k = kernels(c.model);
    CHECK(k.cuda_graph == c.graph);
    CHECK(k.cuda_graph_modules == c.modules);
  }
  CHECK_THROWS_AS(kernels("cuda_graph_impl: local, cuda_graph_scope: [attention]"), InputError);
  CHECK_THROWS_AS(kernels("cuda_graph_impl: whole_step"), InputError);
}

TEST_CASE("A recipe under Megatron-FSDP has units in buffers, sharded as it says") {
  const auto job = [](const std::string& ddp) {
    return job_in("megatron-bridge",
                  "recipe: llama3_70b_pretrain_config\nmodel: {tensor_model_parallel_size: 2}\n"
                  "dataset: {seq_length: 8192}\ntrain: {micro_batch_size: 1, global_batch_size: "
                  "32}\nddp: {" +
                      ddp + "}\n");
  };
  const job::Job whole = job("use_megatron_fsdp: true, fsdp_double_buffer: true");
  CHECK(whole.system.name == "megatron-bridge");
  CHECK(whole.system.unit_buffers);
  CHECK(whole.system.double_buffers);
  CHECK(whole.parallelism.sharding == job::Sharding::zero3);
  const job::Job states =
      job("use_megatron_fsdp: true, data_parallel_sharding_strategy: optim, nccl_ub: true, "
          "megatron_fsdp_main_grads_dtype: fp32, suggested_communication_unit_size: 4000000");
  CHECK(states.parallelism.sharding == job::Sharding::zero1);
  CHECK(states.system.double_buffers);
  CHECK(states.memory.dtypes.gradients == DType::fp32);
  CHECK(states.memory.dtypes.reduce == DType::fp32);  // as the gradients, unless it is stated
  const auto types = [&](const std::string& more) {
    return job("use_megatron_fsdp: true, " + more).memory.dtypes;
  };
  CHECK(types("megatron_fsdp_grad_comm_dtype: auto, megatron_fsdp_main_grads_dtype: fp32").reduce ==
        DType::fp32);
  CHECK(types("megatron_fsdp_grad_comm_dtype: bf16, megatron_fsdp_main_grads_dtype: fp32").reduce ==
        DType::bf16);
  // Without Megatron-FSDP its formats, which a configuration written out states too, say nothing.
  CHECK(job("use_megatron_fsdp: false, megatron_fsdp_main_grads_dtype: fp16")
            .memory.dtypes.gradients == job("use_megatron_fsdp: false").memory.dtypes.gradients);
  CHECK(states.system.unit_buffer_elements == 4'000'000);
  CHECK_FALSE(job("use_megatron_fsdp: false").system.unit_buffers);
}

TEST_CASE("Recipes of 8-bit products keep weights in 8 bits, those of blocks do not") {
  const auto parameters = [](const std::string& more) {
    return job_in("megatron-bridge",
                  "recipe: llama3_70b_pretrain_config\nmodel: {tensor_model_parallel_size: 8}\n"
                  "dataset: {seq_length: 8192}\ntrain: {micro_batch_size: 1, global_batch_size: "
                  "32}\n" +
                      more)
        .memory.dtypes.parameters;
  };
  CHECK(parameters("mixed_precision: bf16_with_fp8_current_scaling_mixed\n") == DType::fp8);
  CHECK(parameters("mixed_precision: bf16_with_fp8_delayed_scaling_mixed\n") == DType::fp8);
  CHECK(parameters("mixed_precision: bf16_with_fp8_subchannel_scaling_mixed\n") == DType::bf16);
  CHECK(parameters("mixed_precision: bf16_mixed\n") == DType::bf16);
  CHECK(parameters("mixed_precision: bf16_with_fp8_current_scaling_mixed\n"
                   "ddp: {fp8_param_gather: false}\n") == DType::bf16);
}

TEST_CASE("Layers at both ends stay in 16 bits as options, recipes and what overrides them say") {
  using Layers = std::pair<int, int>;
  const auto layers = [](const char* system, const std::string& text) {
    const job::Job job = job_in(system, text, "dgx-b200");
    return Layers{job.model.bf16_start_layers, job.model.bf16_end_layers};
  };
  const auto bridge = [&](const std::string& precision, const std::string& more = "") {
    return layers("megatron-bridge",
                  "recipe: llama3_70b_pretrain_config\ndataset: {seq_length: 8192}\n"
                  "train: {micro_batch_size: 1, global_batch_size: 32}\nmixed_precision: " +
                      precision + "\nmodel: {tensor_model_parallel_size: 8" + more + "}\n");
  };
  const std::string scaled = "bf16_with_fp8_current_scaling_mixed";
  CHECK(bridge(scaled) == Layers{1, 1});
  CHECK(bridge("nemotron_h_" + scaled) == Layers{2, 2});
  CHECK(bridge("nemotron_3_super_bf16_with_nvfp4_mixed") == Layers{0, 14});
  CHECK(bridge("bf16_with_mxfp8_mixed") == Layers{0, 0});
  CHECK(bridge(scaled, ", first_last_layers_bf16: false") == Layers{0, 0});
  CHECK(bridge(scaled, ", num_layers_at_end_in_bf16: 3") == Layers{1, 3});

  const auto megatron = [&](const std::string& more) {
    return layers("megatron",
                  "num_layers: 32\nhidden_size: 4096\nnum_attention_heads: 32\n"
                  "seq_length: 4096\nmax_position_embeddings: 4096\n"
                  "micro_batch_size: 1\nglobal_batch_size: 8\nvocab_size: 32000\n"
                  "bf16: true\n" +
                      more);
  };
  const std::string eight = "fp8_format: hybrid\nfp8_recipe: tensorwise\n";
  CHECK(megatron(eight + "first_last_layers_bf16: true\n") == Layers{1, 1});
  CHECK(megatron(eight + "first_last_layers_bf16: true\nnum_layers_at_start_in_bf16: 0\n"
                         "num_layers_at_end_in_bf16: 4\n") == Layers{0, 4});
  CHECK(megatron(eight + "num_layers_at_end_in_bf16: 4\n") == Layers{0, 0});
  CHECK(megatron("first_last_layers_bf16: true\n") == Layers{0, 0});
}

TEST_CASE("Megatron-Bridge's pipeline layouts are lists of chunks, each a list of layers") {
  const auto stages = [](const std::string& layout) {
    return job_in("megatron-bridge",
                  "recipe: llama3_8b_pretrain_config\ndataset: {seq_length: 8192}\n"
                  "train: {micro_batch_size: 1, global_batch_size: 32}\n"
                  "model: {pipeline_model_parallel_size: 2, pipeline_model_parallel_layout: " +
                      layout + "}\n")
        .parallelism.layout;
  };
  std::string first = "[embedding", second = "[";
  for (int layer = 0; layer < 15; ++layer) {
    first += ", decoder";
    second += "decoder, ";
  }
  first += "]";
  second += "decoder, decoder, loss]";
  CHECK(stages("[" + first + ", " + second + "]") ==
        "E" + std::string(15, 't') + "|" + std::string(17, 't') + "L");
  CHECK_THROWS_WITH(stages("[" + first + ", loss]"), ContainsSubstring("in place of a chunk"));
  CHECK_THROWS_WITH(stages("[" + first + ", [head]]"), ContainsSubstring("a layer 'head'"));
}

TEST_CASE("AMD's Primus: an experiment names a model and overrides Megatron-LM's arguments") {
  const std::string file =
      "work_group: ${PRIMUS_TEAM:amd}\nexp_name: llama3.1_8B-pretrain\nworkspace: ./output\n"
      "modules:\n  pre_trainer:\n    framework: megatron\n    config: pre_trainer.yaml\n"
      "    model: llama3.1_8B.yaml\n    overrides:\n"
      "      log_avg_skip_iterations: 2\n      train_iters: 50\n"
      "      micro_batch_size: 2\n      global_batch_size: 128\n      seq_length: 8192\n"
      "      tensor_model_parallel_size: ${PRIMUS_TP:2}\n      pipeline_model_parallel_size: "
      "${PRIMUS_PP:1}\n"
      "      overlap_grad_reduce: true\n      overlap_param_gather: true\n"
      "      use_distributed_optimizer: true\n      gradient_accumulation_fusion: false\n"
      "      mock_data: true\n      fp8: hybrid\n      enable_primus_turbo: true\n"
      "      use_turbo_attention: true\n      bf16: true\n";
  LaunchRequest r;
  r.system = "primus";
  r.texts = {{"llama.yaml", file}};
  r.cluster = "amd-mi300x";
  r.nodes = 1;
  const Launch launch = interop::read_launch(r);
  CHECK(launch.unknown.empty());
  CHECK(launch.unmodelled.size() == 2);  // Turbo's kernels
  r.variables = {"PRIMUS_TP=4"};
  CHECK(interop::read_launch(r).unknown.empty());
  const job::Job job = job_in("primus", file);
  CHECK(job.model.name == "llama-3.1-8b");
  CHECK(job.system.name == "megatron-lm");
  CHECK(job.parallelism.tensor == 2);
  CHECK(job.workload.global_batch == 128);
  CHECK(job.workload.micro_batch == 2);
  CHECK(job.workload.sequence_length == 8192);
  CHECK(job.workload.precision == DType::fp8);
  CHECK(to_string(job.parallelism.sharding) == std::string("zero1"));
  CHECK(job.parallelism.overlap.grad_reduce);
  CHECK_FALSE(job.system.gradient_accumulation_fusion);
  CHECK_THROWS_AS(job_in("primus", "modules: {pre_trainer: {framework: torchtitan, model: x}}\n"),
                  InputError);
}

TEST_CASE("MaxText on several slices: sharded inside each, replicated between them") {
  LaunchRequest r;
  r.system = "maxtext";
  r.texts = {{"run.yml",
              "model_name: llama3.1-70b\nper_device_batch_size: 2\nmax_target_length: 8192\n"
              "num_slices: 2\nici_fsdp_parallelism: -1\ndcn_data_parallelism: -1\n"}};
  r.cluster = "tpu-v5p";
  r.nodes = 64;
  const Launch launch = interop::read_launch(r);
  CHECK(launch.unknown.empty());
  const job::Job job = input::parse(launch.job).job;
  CHECK(job.cluster.fabric.slices == 2);
  CHECK(job.cluster.fabric.torus_block == 4);  // of the fabric that the cluster names
  CHECK(job.cluster.nodes == 64);
  CHECK(job.parallelism.shard_size == 128);
  r.texts = {{"run.yml",
              "model_name: llama3.1-70b\nper_device_batch_size: 2\nmax_target_length: 8192\n"
              "num_slices: 2\ndcn_fsdp_parallelism: 2\n"}};
  CHECK_FALSE(input::parse(interop::read_launch(r).job).job.parallelism.shard_size.has_value());
}

TEST_CASE("MaxText's blocks of attention and buffers of experts") {
  LaunchRequest r;
  r.system = "maxtext";
  r.cluster = "tpu-v6e";
  r.nodes = 64;
  const std::string common =
      "model_name: mixtral-8x7b\nper_device_batch_size: 2\nmax_target_length: 4096\n";
  const auto job_of = [&](const std::string& more) {
    r.texts = {{"run.yml", common + more}};
    const Launch launch = interop::read_launch(r);
    CHECK(launch.unknown.empty());
    return input::parse(launch.job).job;
  };
  const job::Job dense = job_of(
      "sparse_matmul: false\ncapacity_factor: 1.25\nsa_block_q: 1024\nsa_block_kv: 512\n"
      "sa_block_kv_dkv: 2048\nsa_use_fused_bwd_kernel: true\n");
  CHECK(dense.moe.one_hot);
  CHECK(dense.moe.capacity_factor == 1.25);
  CHECK(dense.kernels.splash.block == 1024);
  CHECK(dense.kernels.splash.backward_block == 2048);
  CHECK(dense.kernels.splash.fused_backward);
  const job::Job sparse = job_of("sparse_matmul: true\ncapacity_factor: 1.25\n");
  CHECK_FALSE(sparse.moe.one_hot);
  CHECK_FALSE(sparse.moe.capacity_factor.has_value());
}

TEST_CASE("Every genuine file stands in an example") {
  std::vector<std::string> used;
  for (const Example& example : examples()) {
    for (const std::string& input : example.request.inputs) {
      used.push_back(std::filesystem::path(input).filename().string());
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".expected" && name != "README.md") {
      INFO(name);
      CHECK(std::find(used.begin(), used.end(), name) != used.end());
    }
  }
}

TEST_CASE("Damaged files are faults or read, never a crash") {
  std::uint64_t state = 7;
  const auto draw = [&](std::size_t below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>(state >> 33) % below;
  };
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("stepcast-damaged-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  int read = 0;
  int refused = 0;
  for (const Example& example : examples()) {
    const std::filesystem::path original = example.request.inputs.front();
    const std::string text = file_text(original.string());
    constexpr int kTimes = 12;
    for (int i = 0; i < kTimes; ++i) {
      std::string damaged = text;
      const std::size_t at = draw(damaged.size());
      switch (draw(4)) {
        case 0:
          damaged.erase(at, 1 + draw(9));
          break;
        case 1:
          damaged.insert(at, 1, "\"'${}()[]|&;\\=:-#\n9"[draw(19)]);
          break;
        case 2:
          damaged[at] = "x0-\" \n"[draw(6)];
          break;
        default:
          damaged.resize(at);
      }
      LaunchRequest request = example.request;
      // Some are scripts without their extension.
      const std::string name =
          draw(4) == 0 ? original.stem().string() : original.filename().string();
      request.inputs.front() = (folder / name).string();
      std::ofstream(request.inputs.front()) << damaged;
      try {
        interop::read_launch(request);
        ++read;
      } catch (const InputError& error) {
        CHECK_FALSE(error.faults().empty());
        ++refused;
      }
    }
  }
  std::filesystem::remove_all(folder);
  CHECK(read > 50);
  CHECK(refused > 50);
}

TEST_CASE("TRL's defaults are its own, and Accelerate's version of FSDP chooses the system") {
  const std::string base =
      "model_name_or_path: meta-llama/Llama-3.1-8B\nper_device_train_batch_size: 2\n";
  const job::Job plain = job_in("trl", base);
  CHECK(plain.workload.precision == DType::bf16);
  CHECK(plain.workload.sequence_length == 1024);
  CHECK(plain.memory.recompute.kind == job::Recompute::Kind::full);
  CHECK(plain.memory.dtypes.parameters == DType::fp32);
  CHECK(plain.parallelism.sharding == job::Sharding::none);
  const job::Job stated = job_in("trl", base +
                                            "gradient_checkpointing: false\nmax_length: 4096\n"
                                            "dtype: bfloat16\nuse_peft: true\n"
                                            "activation_offloading: true\n");
  CHECK(stated.memory.recompute.kind == job::Recompute::Kind::none);
  CHECK(stated.workload.sequence_length == 4096);
  CHECK(stated.memory.dtypes.parameters == DType::bf16);
  CHECK(stated.workload.finetune.rank == 16);
  CHECK(stated.memory.offload.activations.to == job::OffloadTarget::cpu);
  for (const char* sharded : {"fsdp1", "fsdp2", "zero3"}) {
    const job::Job job = job_in("trl", base + "accelerate_config: " + sharded + "\n");
    CHECK(job.parallelism.sharding == job::Sharding::zero3);
    CHECK(job.kernels.loss == LossKernel::tiled_linear);
    CHECK(job.system.flat_parameters == (std::string_view(sharded) == "fsdp1"));
  }
}

TEST_CASE("Trainers' switches of Liger-Kernel are its operators in the job") {
  using Names = std::vector<std::string>;
  const Names usual = {"rope", "rms_norm", "glu", "fused_linear_cross_entropy"};
  const std::string llama =
      "model_name_or_path: meta-llama/Llama-3.1-8B\nper_device_train_batch_size: 1\n";
  const job::Job factory = job_in("llamafactory", llama + "enable_liger_kernel: true\n");
  CHECK(factory.kernels.liger == usual);
  CHECK(factory.kernels.loss == LossKernel::fused_linear);
  CHECK(job_in("llamafactory", llama + "enable_liger_kernel: false\n").kernels.liger.empty());

  const std::string arguments = llama + "bf16: true\nmax_length: 4096\n";
  CHECK(job_in("transformers", arguments + "use_liger_kernel: true\n").kernels.liger == usual);
  const std::string some =
      "liger_kernel_config:\n  rope: false\n  cross_entropy: true\n"
      "  fused_linear_cross_entropy: false\n";
  CHECK(job_in("transformers", arguments + "use_liger_kernel: true\n" + some).kernels.liger ==
        Names{"rms_norm", "glu", "cross_entropy"});
  CHECK(job_in("transformers", arguments + some).kernels.liger.empty());

  const job::Job axolotl =
      job_in("axolotl",
             "base_model: meta-llama/Llama-3.1-8B\nmicro_batch_size: 1\nliger_rms_norm: true\n"
             "liger_glu_activation: true\nliger_rope: false\n");
  CHECK(axolotl.kernels.liger == Names{"rms_norm", "glu"});
  CHECK(axolotl.kernels.loss == LossKernel::eager);
  const auto plugins = [](const std::string& names) {
    LaunchRequest r;
    r.system = "axolotl";
    r.texts = {{"job.yaml",
                "base_model: meta-llama/Llama-3.1-8B\nmicro_batch_size: 1\n"
                "plugins: [" +
                    names + "]\n"}};
    r.cluster = "dgx-h100";
    r.nodes = 1;
    return warnings(interop::read_launch(r)).size();
  };
  CHECK(plugins("axolotl.integrations.liger.LigerPlugin") == 0);
  CHECK(plugins("axolotl.integrations.liger.LigerPlugin, axolotl.integrations.kd.KDPlugin") == 1);
}
