// Files that options name, such as DeepSpeed's JSON, are read where they lie, or are faults.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "stepcast/input/input.h"
#include "stepcast/interop/launch.h"

using namespace stepcast;
using interop::LaunchRequest;

namespace {

namespace fs = std::filesystem;

// A folder with files, which goes when the test ends.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("stepcast-named-" + std::to_string(::getpid()))) {}
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }
  void remove(const std::string& name) const { fs::remove(path_ / name); }

 private:
  fs::path path_;
};

const std::string kZero3 =
    "{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\"}},\n"
    " \"gradient_accumulation_steps\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\",\n"
    " \"bf16\": {\"enabled\": \"auto\"}}\n";
const std::string kTrainerArguments =
    "model_name_or_path: meta-llama/Llama-3.1-8B\nbf16: true\nper_device_train_batch_size: 2\n"
    "gradient_accumulation_steps: 8\nmodel_max_length: 2048\n";
const std::string kScript =
    "torchrun --nproc_per_node 8 train.py --model_name_or_path meta-llama/Llama-3.1-8B --bf16 True "
    "--per_device_train_batch_size 2 --gradient_accumulation_steps 8 --model_max_length 2048 \\\n"
    "  --deepspeed ds.json\n";

job::Job job_of(const std::string& system, const std::vector<std::string>& inputs) {
  LaunchRequest r;
  r.system = system;
  r.inputs = inputs;
  r.cluster = "dgx-h100";
  r.nodes = 1;
  return input::parse(interop::read_launch(r).job).job;
}

std::string fault_of(const std::string& system, const std::vector<std::string>& inputs) {
  try {
    job_of(system, inputs);
  } catch (const InputError& error) {
    CHECK(error.faults().size() == 1);
    return to_string(error.faults().front());
  }
  return "";
}

void check_zero3(const job::Job& job) {
  CHECK(job.system.name == "deepspeed");
  CHECK(job.parallelism.sharding == job::Sharding::zero3);
  CHECK(job.memory.offload.optimizer.to == job::OffloadTarget::cpu);
  CHECK(job.workload.global_batch == 128);  // "auto" is the trainer's own
  CHECK(job.workload.precision == DType::bf16);
}

}  // namespace

TEST_CASE("DeepSpeed's JSON beside the file that names it is read as if it were handed over") {
  const Folder folder;
  const std::string ds = folder.write("ds.json", kZero3);
  const std::string script = folder.write("train.sh", kScript);
  check_zero3(job_of("transformers", {script}));
  check_zero3(job_of("transformers", {script, ds}));
  const std::string renamed = folder.write("other.json", kZero3);
  folder.remove("ds.json");
  check_zero3(job_of("transformers", {script, renamed}));  // whatever its name
}

TEST_CASE("Every trainer reads the JSON that its file names") {
  const Folder folder;
  const std::string ds = folder.write("deepspeed/ds.json", kZero3);
  const std::string named = "deepspeed: deepspeed/ds.json\n";
  check_zero3(job_of(
      "llamafactory",
      {folder.write("train_full/lf.yaml", kTrainerArguments + named + "finetuning_type: full\n")}));
  check_zero3(job_of(
      "llamafactory",
      {folder.write("lf.yaml",
                    kTrainerArguments + "finetuning_type: full\ndeepspeed: elsewhere.json\n"),
       ds}));
  check_zero3(job_of("axolotl", {folder.write("ax.yaml",
                                              "base_model: meta-llama/Llama-3.1-8B\n"
                                              "micro_batch_size: 2\n"
                                              "gradient_accumulation_steps: 8\n" +
                                                  named)}));
  const std::string accelerate =
      "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: "
      "deepspeed/ds.json\n";
  check_zero3(job_of("accelerate", {folder.write("acc.yaml", accelerate),
                                    folder.write("args.yaml", kTrainerArguments)}));
  // A script names accelerate's file, and that the JSON.
  check_zero3(job_of("accelerate",
                     {folder.write("run.sh",
                                   "accelerate launch --config_file acc.yaml train.py "
                                   "--model_name_or_path meta-llama/Llama-3.1-8B --bf16 True "
                                   "--per_device_train_batch_size 2 "
                                   "--gradient_accumulation_steps 8 --model_max_length 2048\n")}));
  // An argument names it from where the program runs; what is handed over behind overrides it.
  CHECK(job_of("transformers", {folder.write("t.yaml", kTrainerArguments), "deepspeed=" + ds,
                                "zero_optimization.offload_optimizer.device=none"})
            .memory.offload.optimizer.to == job::OffloadTarget::none);
  CHECK(job_of("transformers", {folder.write("t.yaml", kTrainerArguments), "deepspeed=" + ds,
                                "zero_optimization.offload_optimizer.device=none"})
            .parallelism.sharding == job::Sharding::zero3);
}

TEST_CASE("A script's TOML or YAML is read where it names it") {
  const Folder folder;
  folder.write("configs/titan.toml",
               "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\n"
               "seq_len = 2048\n");
  const std::string script = folder.write(
      "run/train.sh",
      "torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file ./configs/titan.toml "
      "--training.local_batch_size 2\n");
  const job::Job titan = job_of("torchtitan", {script});
  CHECK(titan.workload.sequence_length == 2048);
  CHECK(titan.workload.micro_batch == 2);  // a command line overrides the file that it names
  const std::string recipe =
      "model: {_component_: torchtune.models.llama3_1.llama3_1_8b}\nbatch_size: 2\n"
      "tokenizer: {max_seq_len: 1024}\n";
  folder.write("mine.yaml", recipe);
  CHECK(job_of("torchtune", {folder.write("tune.sh",
                                          "tune run --nproc_per_node 8 full_finetune_distributed "
                                          "--config mine.yaml\n")})
            .workload.sequence_length == 1024);
  // Without an ending it names a recipe of the package, which has to be handed over.
  CHECK(job_of("torchtune", {folder.write("built-in.sh",
                                          "tune run full_finetune_distributed --config "
                                          "llama3_1/8B_full\n"),
                             folder.write("theirs.yaml", recipe)})
            .workload.micro_batch == 2);
}

TEST_CASE("A file that is named and not there is a fault at its option") {
  const Folder folder;
  const std::string script = folder.write("train.sh", kScript);
  CHECK(fault_of("transformers", {script}) ==
        script +
            ":2:3: error: --deepspeed names ds.json, which is not among the inputs, nor found from "
            "the folder of this file or above; expected that file behind this one");
  CHECK(fault_of("transformers",
                 {folder.write("t.yaml", kTrainerArguments), "deepspeed=none.json"}) ==
        "deepspeed=none.json: error: deepspeed names none.json, which is not among the inputs and "
        "is not there; expected that file behind this one");
  const std::string accelerate = folder.write(
      "acc.yaml",
      "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: gone.json\n");
  CHECK(
      fault_of("accelerate", {accelerate, folder.write("args.yaml", kTrainerArguments)})
          .starts_with(accelerate + ":3:3: error: deepspeed_config.deepspeed_config_file names "));
  // Where arguments state what it would, or it is taken back, it is not missed.
  CHECK(job_of("transformers", {script, "zero_optimization.stage=2"}).parallelism.sharding ==
        job::Sharding::zero2);
  CHECK(job_of("transformers", {script, "deepspeed=null"}).system.name == "transformers");
  // A damaged file is a fault in that file.
  const std::string damaged = folder.write("ds.json", "{\"zero_optimization\": }");
  CHECK(fault_of("transformers", {script}).find("ds.json:1:23: error: ") != std::string::npos);
  CHECK(fault_of("transformers", {script, damaged}).find("ds.json:1:23: error: ") !=
        std::string::npos);
}

TEST_CASE("No file is looked for beside a text in memory, and JSON may be the option's value") {
  LaunchRequest r;
  r.system = "transformers";
  r.cluster = "dgx-h100";
  r.nodes = 1;
  r.texts = {{"t.yaml", kTrainerArguments + "deepspeed: /etc/hostname\n"}};
  CHECK_THROWS_AS(interop::read_launch(r), InputError);
  r.texts = {
      {"t.yaml", kTrainerArguments + "deepspeed: '{\"zero_optimization\": {\"stage\": 2}}'\n"}};
  CHECK(input::parse(interop::read_launch(r).job).job.parallelism.sharding == job::Sharding::zero2);
}
