// The files written for a training system, and jobs that are refused because the system cannot
// express them.
#include "stepcast/interop/launch_file.h"

#include <optional>

#include "catch.hpp"
#include "stepcast/config/job_file.h"
#include "stepcast/input/input.h"
#include "stepcast/interop/launch.h"

using namespace stepcast;

namespace {

using Overrides = std::vector<std::string>;

interop::LaunchFile write(const std::string& config, const std::string& target,
                          const Overrides& overrides = {}) {
  return interop::launch_file(input::load(config, overrides), target);
}

// The message of the only fault.
std::string fault(const std::string& config, const std::string& target,
                  const Overrides& overrides = {}) {
  try {
    write(config, target, overrides);
  } catch (const InputError& error) {
    REQUIRE(error.faults().size() == 1);
    return to_string(error.faults().front());
  }
  FAIL("was written");
  return "";
}

}  // namespace

TEST_CASE("torchtitan's file, word for word") {
  const auto file = write(
      "llama8b-fsdp", "torchtitan",
      {"system=torchtitan", "model=llama-3.1-70b", "cluster.nodes=16", "parallelism.tensor=4",
       "parallelism.pipeline=4", "parallelism.virtual_pipeline=2", "workload.global_batch=64"});
  CHECK(file.text ==
        "# torchtitan's TOML of this job; it is read back by\n"
        "#   simulate --from torchtitan FILE --cluster dgx-h100 --nodes 16 --model llama-3.1-70b\n"
        "[model]\nname = \"llama3\"\nflavor = \"70B\"\n\n"
        "[training]\nseq_len = 8192\nlocal_batch_size = 8\nglobal_batch_size = 64\n"
        "mixed_precision_param = \"bfloat16\"\nmixed_precision_reduce = \"float32\"\n\n"
        "[parallelism]\ndata_parallel_replicate_degree = 1\ndata_parallel_shard_degree = 8\n"
        "fsdp_reshard_after_forward = \"never\"\ntensor_parallel_degree = 4\n"
        "enable_async_tensor_parallel = false\n"
        "pipeline_parallel_degree = 4\npipeline_parallel_microbatch_size = 2\n"
        "pipeline_parallel_schedule = \"Interleaved1F1B\"\n"
        "pipeline_parallel_layers_per_stage = 11\n"
        "pipeline_parallel_first_stage_less_layers = 1\n"
        "pipeline_parallel_last_stage_less_layers = 1\ncontext_parallel_degree = 1\n\n"
        "[activation_checkpoint]\nmode = \"full\"\n\n[compile]\nenable = false\n\n"
        "[optimizer]\nname = \"AdamW\"\n");
  CHECK(file.beside == std::vector<std::string>{"--model llama-3.1-70b"});
}

TEST_CASE("DeepSpeed's JSON: nested sections, and beside it what the script says") {
  const auto file =
      write("llama8b-fsdp", "deepspeed",
            {"system=deepspeed", "memory.offload={optimizer: nvme, parameters: nvme, prefetch: 1}",
             "parallelism.zeropp={weights: int8, partition: 8}"});
  const text::Value json = text::parse_json(file.text, "ds.json");
  const text::Value* zero = json.find("zero_optimization");
  REQUIRE(zero != nullptr);
  CHECK(zero->find("stage")->scalar == "3");
  CHECK(zero->find("offload_optimizer")->find("device")->scalar == "nvme");
  CHECK(zero->find("offload_param")->find("device")->scalar == "nvme");
  CHECK(zero->find("zero_quantized_weights")->scalar == "true");
  CHECK(json.find("optimizer")->find("type")->scalar == "AdamW");
  CHECK(file.beside == std::vector<std::string>{"--model llama-3-8b",
                                                "--set workload.sequence_length=8192",
                                                "--set memory.recompute=full"});
}

TEST_CASE("What a format cannot say is a fault at its place, by name") {
  CHECK(fault("llama70b", "megatron", {"memory.recompute={every: 2}"}) ==
        "--set memory.recompute={every: 2}: error: Megatron-LM's arguments cannot express "
        "memory.recompute: {every: 2}; expected none, or another --to");
  CHECK(fault("llama70b", "megatron", {"cluster.order=tp-dp-cp-ep-pp"})
            .find("cannot express cluster.order: tp-dp-cp-ep-pp") != std::string::npos);
  CHECK(
      fault("llama70b", "megatron", {"workload.micro_batches={h100-sxm: 32}"}) ==
      "--set workload.micro_batches={h100-sxm: 32}: error: Megatron-LM's arguments cannot express "
      "workload.micro_batches: all data-parallel ranks run the same number; expected even");
  CHECK(fault("llama70b", "megatron", {"kernels.compile=true"}).find("kernels.compile") !=
        std::string::npos);
  CHECK(fault("llama70b", "megatron", {"model.sinks=true"}).find("model.sinks") !=
        std::string::npos);
  CHECK(fault("llama8b-fsdp", "accelerate", {"parallelism.accumulation.reduce=last"})
            .find("parallelism.accumulation.reduce: last") != std::string::npos);
  CHECK(fault("llama8b-fsdp", "torchtitan", {"system=torchtitan", "memory.optimizer=adafactor"})
            .find("memory.optimizer: adafactor") != std::string::npos);
  CHECK(
      fault("llama8b-fsdp", "nnscaler", {"system=nnscaler"}).find("parallelism.sharding: zero3") !=
      std::string::npos);
  CHECK(fault("llama8b-fsdp", "deepspeed",
              {"system=deepspeed", "parallelism.sharding=zero1", "parallelism.pipeline=2",
               "parallelism.layers_per_stage=[15, 17]"})
            .find("parallelism.layers_per_stage: [15, 17]") != std::string::npos);
}

TEST_CASE("A file launches its own system, and formats have names") {
  CHECK(fault("llama8b-fsdp", "megatron")
            .find("cannot launch pytorch-fsdp2; expected --set "
                  "system=megatron-lm | ") != std::string::npos);
  CHECK(fault("llama70b", "megatrn")
            .find("'megatrn' is not a format that is written; expected megatron | deepspeed | "
                  "torchtitan | accelerate | nnscaler (did you mean 'megatron'?)") !=
        std::string::npos);
}

namespace {

// A word as a shell reads it that quotes with apostrophes.
std::string unquoted(std::string word) {
  if (!word.starts_with('\'')) {
    return word;
  }
  word = word.substr(1, word.size() - 2);
  const std::string escaped = "'\\''";
  for (std::size_t at = word.find(escaped); at != std::string::npos; at = word.find(escaped, at)) {
    word.replace(at++, escaped.size(), "'");
  }
  return word;
}

}  // namespace

// For every job, a written file expresses exactly this job without warnings, or a fault names a
// key. The text is read back from memory as `beside` says, and every key is compared.
TEST_CASE("Over many jobs, what is written is the job or a fault names why not") {
  const std::vector<Overrides> shapes = {
      {},
      {"parallelism.tensor=2"},
      {"parallelism.tensor=2", "parallelism.pipeline=2"},
      {"parallelism.pipeline=4", "parallelism.virtual_pipeline=2"},
      {"parallelism.pipeline=2", "parallelism.deferred_head_wgrad=3"},
      {"parallelism.context={size: 2, kind: a2a}"},
      {"parallelism.context={size: 2, kind: all_gather}"},
      {"parallelism.tensor=4", "parallelism.sequence_parallel=true"},
      {"parallelism.pipeline=2", "parallelism.layers_per_stage=[15, 17]"}};
  const std::vector<Overrides> states = {
      {"parallelism.sharding=none"},
      {"parallelism.sharding=zero1"},
      {"parallelism.sharding=zero2", "parallelism.overlap.grad_reduce=true"},
      {"parallelism.sharding=zero3"},
      {"parallelism.sharding=zero3", "parallelism.reshard_after_forward=false"},
      {"parallelism.sharding=zero3", "parallelism.shard_size=8"}};
  const std::vector<Overrides> kept = {
      {"memory.recompute=none"},
      {"memory.recompute=selective"},
      {"memory.recompute=full"},
      {"memory.recompute={every: 2}"},
      {"memory.recompute={block: 2}"},
      {"memory.recompute={modules: [core_attn, mlp]}", "workload.precision=fp16"},
      {"memory.offload={optimizer: cpu}", "workload.precision=fp8"},
      {"memory.recompute=full", "workload.precision=fp8_block"},
      {"memory.optimizer=muon", "workload.precision=fp32"},
      {"parallelism.float8_all_gather=dynamic", "workload.precision=fp8"}};
  const std::vector<std::pair<std::string, std::string>> systems = {
      {"megatron-lm", "megatron"},     {"megatron-lm-2022", "megatron"},
      {"megatron-fsdp", "megatron"},   {"zero-bubble", "megatron"},
      {"deepspeed", "deepspeed"},      {"torchtitan", "torchtitan"},
      {"pytorch-fsdp1", "accelerate"}, {"transformers", "accelerate"},
      {"nnscaler", "nnscaler"}};
  int written = 0;
  int refused = 0;
  for (const auto& [system, target] : systems) {
    for (std::size_t i = 0; i < shapes.size() * states.size(); ++i) {
      Overrides overrides = {"system=" + system, "cluster.nodes=4", "workload.global_batch=256"};
      for (const Overrides* part :
           {&shapes[i % shapes.size()], &states[i / shapes.size()], &kept[i * 7 % kept.size()]}) {
        overrides.insert(overrides.end(), part->begin(), part->end());
      }
      std::optional<config::Loaded> loaded;
      try {
        loaded = input::load("llama8b-fsdp", overrides);
      } catch (const InputError&) {
        continue;  // not a valid job
      }
      std::string all;
      for (const std::string& option : overrides) {
        all += " " + option;
      }
      INFO(target << all);
      interop::LaunchFile file;
      try {
        file = interop::launch_file(*loaded, target);
      } catch (const InputError& error) {
        ++refused;
        for (const Fault& f : error.faults()) {
          CHECK(f.message.find(" cannot express ") != std::string::npos);
        }
        continue;
      }
      ++written;
      interop::LaunchRequest request;
      request.system = target;
      request.texts = {{"launch" + file.extension, file.text}};
      request.inputs = file.arguments;
      request.cluster = "dgx-h100";
      request.nodes = 4;
      for (const std::string& option : file.beside) {
        const std::string value = option.substr(option.find(' ') + 1);
        if (option.starts_with("--model ")) {
          request.model = value;
        } else {
          request.overrides.push_back(unquoted(value));
        }
      }
      const interop::Launch launch = interop::read_launch(request);
      CHECK(interop::warnings(launch).empty());
      const job::Job read = input::parse(launch.job, request.overrides).job;
      for (const config::Difference& d : config::differences(loaded->job, read)) {
        const bool respelled = target == "megatron" && (d.key == "memory.recompute" ||
                                                        d.key == "parallelism.layers_per_stage");
        INFO(d.key << ": " << d.wanted << " became " << d.found);
        // A launch file leaves nothing open.
        CHECK((respelled || d.key == "model.name" || d.key == "assumed"));
      }
    }
  }
  CHECK(written > 60);
  CHECK(refused > 60);
}
