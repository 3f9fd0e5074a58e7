// `simulate --from` as a process, with files of training systems.
#include <fstream>

#include "run.h"

using stepcast::test::check_refused;
using stepcast::test::Result;
using stepcast::test::run;

namespace {

const std::string kExamples = "tests/unit/interop/launch/examples/";

}  // namespace

TEST_CASE("Megatron-LM's example of GPT-3 175B is forecast from its flags") {
  const Result r =
      run("--from megatron " + kExamples +
          "megatron-gpt3-175b.args --cluster dgx-h100 --nodes 128 --set memory.recompute=full");
  INFO(r.err);
  CHECK(r.status == 0);
  CHECK(r.out.find("(1024 GPUs)") != std::string::npos);
  CHECK(r.out.find("tensor 8, pipeline 16, data 8") != std::string::npos);
  CHECK(r.err.find("warning") == std::string::npos);
}

TEST_CASE("--show-job stands beside the launch options") {
  const Result r = run("--from torchtitan " + kExamples +
                       "torchtitan-llama3-8b.toml --cluster dgx-a100 --nodes 8 --show-job");
  CHECK(r.status == 0);
  CHECK(r.out.find("training.seq_len") != std::string::npos);
  CHECK(r.out.find("torchtitan-llama3-8b.toml:23:1 training.local_batch_size") !=
        std::string::npos);
  CHECK(r.out.find("# launch options without meaning for a forecast:") != std::string::npos);
  CHECK(r.out.find("# unknown launch options: none") != std::string::npos);
}

TEST_CASE("Unknown flags warn, and are errors with --strict") {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("from-" + std::to_string(::getpid()) + ".sh"))
          .string();
  std::ofstream(file)
      << "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 16 \\\n"
         "  --seq-length 1024 --max-position-embeddings 1024 --vocab-size 50257 --bf16 \\\n"
         "  --global-batch-size 16 --tensor-paralel 2\n";
  const std::string command = "--from megatron " + file + " --cluster dgx-h100 --nodes 1";
  const Result r = run(command);
  CHECK(r.status == 0);
  CHECK(r.err.rfind(
            file + ":3:26: warning: unknown flag --tensor-paralel: ignored in the forecast\n", 0) ==
        0);
  check_refused(command + " --strict", file + ":3:26: error: unknown flag --tensor-paralel");
  std::filesystem::remove(file);
}

TEST_CASE("A file that an option names and that is not there ends with status 2, at its place") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("from-named-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "hf.sh").string();
  std::ofstream(file)
      << "torchrun train.py --model_name_or_path meta-llama/Llama-3.1-8B --bf16 True "
         "--per_device_train_batch_size 2 --model_max_length 2048 \\\n"
         "  --deepspeed ds.json\n";
  const std::string command = "--from transformers " + file + " --cluster dgx-h100 --nodes 1";
  check_refused(command, file +
                             ":2:3: error: --deepspeed names ds.json, which is not among the "
                             "inputs");
  std::ofstream(folder / "ds.json") << "{\"zero_optimization\": {\"stage\": 3}}";
  const Result r = run(command);
  CHECK(r.status <= 1);
  CHECK(r.out.find("deepspeed, bf16; data 8, zero3") != std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_CASE("Options of --from without it, and --from without what it needs") {
  check_refused("--config llama8b-fsdp --nodes 3",
                "--nodes: error: goes with --from; expected --set cluster.nodes=N");
  check_refused("--config llama8b-fsdp --cluster dgx-h100",
                "--cluster: error: goes with --from; expected --set cluster=dgx-h100");
  check_refused("--config llama8b-fsdp --strict", "--strict: error: goes with --from");
  check_refused("--config llama8b-fsdp --from megatron x.sh", "--config: error: given with --from");
  check_refused("--from megatron",
                "--from megatron: error: no file follows; expected --from SYSTEM FILE");
  check_refused("--from megatronn x.sh",
                "--from: error: 'megatronn' is not a system whose files are read");
  check_refused("--from megatron no-such.sh --cluster dgx-h100 --nodes 1",
                "no-such.sh:1:1: error: no such file");
}
