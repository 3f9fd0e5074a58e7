// What is wrong with a launch file, and what it leaves open, is a line with its place.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/interop/launch.h"

using namespace stepcast;
using interop::Launch;
using interop::LaunchRequest;

namespace {

// A file of its own, removed afterwards; fault lines show it as FILE.
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

Outcome read(const std::string& system, const std::string& name, const std::string& text,
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
    config::parse(out.launch.job, request.overrides);
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
  const Outcome r = read("megatron", "train.sh",
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
  const Outcome r =
      read("megatron", "train.sh", "torchrun pretrain.py " + kModel + " --delay-wgrad-compute\n");
  REQUIRE(r.warnings.size() == 1);
  CHECK(r.warnings[0].find("warning: --delay-wgrad-compute is not modelled: ") !=
        std::string::npos);
  CHECK(interop::as_faults(r.launch).size() == 1);
}

TEST_CASE("A value of the wrong type is a fault at its flag") {
  const Outcome r = read("megatron", "a.args", kModel + "\n--tensor-model-parallel-size eight\n");
  CHECK(r.faults == Lines{"FILE:2:1: error: parallelism.tensor is 'eight'; expected an integer "
                          "from 1 to 10000000"});
  const Outcome k =
      read("megatron", "a.args", kModel + "\n--cp-comm-type circle --context-parallel-size 2\n");
  CHECK(k.faults == Lines{"FILE:2:1: error: --cp-comm-type is 'circle'; expected p2p | all_gather "
                          "| a2a | a2a+p2p"});
  const Outcome z = read("deepspeed", "ds.json",
                         "{\"zero_optimization\": {\"stage\": 4},\n \"train_batch_size\": 8}",
                         [](LaunchRequest& q) {
                           q.model = "gpt2";
                           q.overrides = {"workload.sequence_length=512"};
                         });
  CHECK(z.faults == Lines{"FILE:1:24: error: zero_optimization.stage is '4'; expected 0 to 3"});
}

TEST_CASE("Sizes that contradict each other are a fault at the flag") {
  const Outcome v = read(
      "megatron", "a.args",
      kModel + "\n--pipeline-model-parallel-size 4\n--num-layers-per-virtual-pipeline-stage 5\n");
  CHECK(v.faults == Lines{"FILE:3:1: error: 24 layers do not divide into 4 stages with chunks of "
                          "--num-layers-per-virtual-pipeline-stage 5; expected a divisor"});
  const Outcome b = read("deepspeed", "ds.json",
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
  const Outcome t = read("megatron", "a.args", kModel + "\n--tensor-model-parallel-size 3\n");
  REQUIRE(t.faults.size() >= 1);
  CHECK(t.faults[0].rfind("FILE:2:1: error: ", 0) == 0);
}

TEST_CASE("What a script leaves open names the option that gives it") {
  const std::string script =
      "torchrun pretrain.py " + kModel + " --tensor-model-parallel-size $TP\n";
  CHECK(read("megatron", "train.sh", script)
            .faults.at(0)
            .find("--tensor-model-parallel-size is left open by $TP; expected --define TP=VALUE or "
                  "--set "
                  "parallelism.tensor=VALUE") != std::string::npos);
  const Outcome defined =
      read("megatron", "train.sh", script, [](LaunchRequest& q) { q.variables = {"TP=4"}; });
  CHECK(defined.faults.empty());
  const Outcome set = read("megatron", "train.sh", script,
                           [](LaunchRequest& q) { q.overrides = {"parallelism.tensor=4"}; });
  CHECK(set.faults.empty());
}

TEST_CASE("What no file says names the option that does") {
  const Outcome r =
      read("deepspeed", "ds.json", "{\"train_batch_size\": 32, \"bf16\": {\"enabled\": true}}",
           [](LaunchRequest& q) {
             q.cluster.clear();
             q.nodes = 0;
           });
  CHECK(r.faults == Lines{"--model: error: FILE names no model; expected --model NAME, or --set "
                          "model.layers=N and so on",
                          "--cluster: error: FILE names no cluster; expected --cluster NAME "
                          "(simulate --list shows the "
                          "names)",
                          "--set workload.sequence_length: error: FILE does not say the sequence "
                          "length; expected --set "
                          "workload.sequence_length=N"});
  const Outcome n = read("megatron", "a.args", kModel, [](LaunchRequest& q) { q.nodes = 0; });
  CHECK(n.faults ==
        Lines{"--nodes: error: FILE does not say the number of nodes; expected --nodes N"});
  const Outcome m = read("torchtitan", "t.toml",
                         "[model]\nname = \"llama3\"\nflavor = \"3T\"\n[training]\nseq_len = "
                         "64\nlocal_batch_size = 1\n");
  CHECK(m.faults == Lines{"FILE:3:1: error: model.flavor 'llama3_3T' is no model of "
                          "configs/models; expected --model NAME"});
}

TEST_CASE("A flag that asks for what Stepcast refuses is an error at the flag") {
  const Outcome r = read("megatron", "a.args",
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
            .rfind("--from: error: 'megatronn' is no system whose files are read; expected "
                   "megatron | deepspeed",
                   0) == 0);
  CHECK(fault("megatronn", {"x"}).find("(did you mean 'megatron'?)") != std::string::npos);
  CHECK(fault("megatron", {}) ==
        "--from megatron: error: no file follows; expected --from SYSTEM FILE");
  CHECK(fault("megatron", {"no-such.sh"}).find("no such file") != std::string::npos);
  const Outcome empty = read("megatron", "a.args", "\n\n");
  CHECK(empty.faults == Lines{"FILE:1:1: error: no option of megatron is in it; expected some"});
  CHECK(read("deepspeed", "ds.json", "{\"a\": }")
            .faults.at(0)
            .rfind("FILE:1:7: error: malformed JSON", 0) == 0);
  CHECK(read("torchtitan", "t.toml", "[a\n").faults.at(0).find("malformed TOML") !=
        std::string::npos);
}

TEST_CASE("Each option's place and keys are told") {
  const Outcome r = read("megatron", "a.args",
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
