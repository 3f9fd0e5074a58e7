// From a row of published data to a job: what is read, what is skipped and why, and which columns
// are never used.
#include <algorithm>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/interop/published_rows.h"

namespace {

using namespace stepcast;
using interop::RowJob;
using interop::Skipped;

// A row as in the SC21 table, with parts to replace.
std::string row_text(const std::string& more_job = "", const std::string& more_parallel = "",
                     const std::string& more = "") {
  return R"({"id": "x", "source": "s", "framework": "Megatron-LM", "year": 2021, "num_gpus": 64,
    "gpus_per_node": 8, "inter_node": "8x200Gb/s HDR InfiniBand HCAs per node",
    "model": {"name": "m", "arch": "gpt", "layers": 30, "hidden": 3072, "heads": 32, "vocab": 51200},
    "seq_len": 2048, "global_batch": 512, "micro_batch": 16,
    "parallel": {"dp": 32, "tp": 2, "pp": 1, "cp": 1, "ep": 1, "zero_stage": 0)" +
         more_parallel + R"(}, "job": {"device": "a100-sxm-80", "precision": "fp16",
    "recompute": "full", "attention": "unfused", "flops": "sc21_hardware")" +
         more_job + R"(}, "metric": "tflops_per_gpu", "value": 138, "notes": "n",
    "other_metrics": {"hfu": 0.44, "mfu": null})" +
         more + "}";
}

interop::PublishedRow parse(const std::string& text) {
  return interop::take_apart(text::parse_json(text, "rows"), "rows");
}

job::Job job_of(const std::string& text) {
  const auto built = interop::job_of(parse(text).configuration);
  REQUIRE(std::holds_alternative<RowJob>(built));
  return config::parse(std::get<RowJob>(built).yaml, "row").job;
}

std::string reason(const std::string& text) {
  const auto built = interop::job_of(parse(text).configuration);
  REQUIRE(std::holds_alternative<Skipped>(built));
  return std::string(std::get<Skipped>(built).kind);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a row becomes the job that it states") {
  const job::Job job = job_of(row_text());
  CHECK(job.model.layers == 30);
  CHECK(job.model.hidden == 3072);
  CHECK(job.model.ffn == 4 * 3072);
  CHECK(job.model.vocab == 51200);
  CHECK(job.model.tied_embeddings);
  CHECK(job.model.positions == job::Positions::learned);
  CHECK(job.model.max_positions == 2048);
  CHECK(job.model.dropout == Approx(0.1));
  CHECK(job.cluster.ranks() == 64);
  CHECK(job.cluster.nodes == 8);
  CHECK(job.cluster.node.nics == 8);
  CHECK(job.cluster.node.nic.count() == Approx(25e9));
  CHECK(job.cluster.device.name == "a100-sxm-80");
  CHECK(job.parallelism.tensor == 2);
  CHECK(job.parallelism.sharding == job::Sharding::none);
  CHECK(job.workload.global_batch == 512);
  CHECK(job.workload.micro_batch == 16);
  CHECK(job.workload.precision == job::DType::fp16);
  CHECK(job.memory.recompute.kind == job::Recompute::Kind::full);
  CHECK(job.kernels.attention == job::AttentionKernel::unfused);
  CHECK(job.system.name == "megatron-lm-2021");
}

TEST_CASE("network cards are read from prose, in bits or bytes, per card, GPU or node") {
  struct Case {
    const char* text;
    int nics;
    double bytes_per_second;
  };
  for (const Case& c :
       {Case{"4 x 100 Gb RoCE per node", 4, 12.5e9},
        Case{"Omni-Path (4 OPA links per node, 100 Gb/s each)", 4, 12.5e9},
        Case{"InfiniBand 400 Gb/s per GPU (Eos DGX H100)", 8, 50e9},
        Case{"InfiniBand 8x50 GB/s", 8, 50e9}, Case{"1600 Gbps node-node RoCE", 8, 25e9},
        Case{"800 Gb/s per node (config 800)", 8, 12.5e9},
        Case{"Storage: 2x ConnectX-7 IB NDR 400Gb/s, Compute: 8x ConnectX-7 IB NDR "
             "400Gb/s, Management: 100Gb/s",
             8, 50e9}}) {
    const job::Job job =
        job_of(replaced(row_text(), "8x200Gb/s HDR InfiniBand HCAs per node", c.text));
    INFO(c.text);
    CHECK(job.cluster.node.nics == c.nics);
    CHECK(job.cluster.node.nic.count() == Approx(c.bytes_per_second));
  }
}

TEST_CASE("rows that are not modelled are skipped with an accepted reason") {
  CHECK(reason(row_text(R"(, "finetune": "lora")")) == "finetune");
  CHECK(reason(replaced(row_text(), "\"a100-sxm-80\"", "null")) == "no device");
  CHECK(reason(replaced(row_text(), "\"gpt\"", "\"bert\"")) == "architecture");
  CHECK(reason(replaced(row_text(), "\"full\"", R"({"per_tensor": "x"})")) == "recompute");
  for (const auto& known : interop::skip_reasons()) {
    CHECK_FALSE(known.meaning.empty());
  }
}

TEST_CASE("adapters take the framework's own rank and modules, and widen memory's interval") {
  const auto tuned = [](const char* framework, const char* kind) {
    std::string text = replaced(row_text(), "Megatron-LM", framework);
    text = replaced(text, "\"tp\": 2", "\"tp\": 1");
    text = replaced(text, "\"dp\": 32", "\"dp\": 64");
    text = replaced(text, "\"micro_batch\": 16", "\"micro_batch\": 8");
    return replaced(text, "\"recompute\"",
                    std::string("\"finetune\": \"") + kind + "\", \"recompute\"");
  };
  using Kind = job::Finetune::Kind;
  const auto litgpt = job_of(tuned("litgpt", "lora")).workload.finetune;
  CHECK(litgpt.kind == Kind::lora);
  CHECK(litgpt.rank == 8);
  CHECK(litgpt.targets == std::vector<std::string>{"q", "v"});
  CHECK(litgpt.dropout == 0.05);
  const auto qwen = job_of(tuned("HF Trainer + DeepSpeed", "qlora"));
  CHECK(qwen.workload.finetune.kind == Kind::qlora);
  CHECK(qwen.workload.finetune.rank == 64);
  CHECK(qwen.workload.finetune.targets.size() == 7);
  CHECK(qwen.system.name == "transformers-deepspeed");
  CHECK(job_of(tuned("torchtune", "adapter")).workload.finetune.kind == Kind::adapter);
  CHECK(reason(tuned("Megatron-LM", "lora")) == "finetune");
  CHECK(reason(tuned("litgpt", "prefix")) == "finetune");
  const auto row = std::get<RowJob>(interop::job_of(parse(tuned("litgpt", "lora")).configuration));
  CHECK(row.memory_half_width() > row.half_width());
}

TEST_CASE("context parallelism and the short names of schedules become keys of a job") {
  const std::string half = replaced(row_text(), "\"dp\": 32", "\"dp\": 16");
  const job::Job ring = job_of(replaced(half, "\"cp\": 1", "\"cp\": 2"));
  CHECK(ring.parallelism.context == 2);
  CHECK(ring.parallelism.context_kind == job::ContextKind::p2p);
  const auto staged = [&](const char* schedule) {
    std::string text = replaced(half, "\"pp\": 1", "\"pp\": 2");
    text = replaced(text, "Megatron-LM", "sail-sg/zero-bubble");
    text.insert(text.rfind("\"job\": {") + 8, std::string("\"schedule\": \"") + schedule + "\", ");
    return job_of(text).parallelism;
  };
  CHECK(staged("zb_auto_2p").schedule->name == "zb_auto");
  CHECK(staged("zb_auto_2p").schedule->memory_limit == 2);
  CHECK(staged("vocab_1").schedule->vocabulary == "vocab_1");
  CHECK(staged("vocab_1+v_half").schedule->name == "v_half");
  CHECK(staged("1f1b_redis").redistribute);
}

TEST_CASE("what a row leaves open takes its default and widens the interval") {
  const auto known = std::get<RowJob>(interop::job_of(parse(row_text()).configuration));
  const auto open = std::get<RowJob>(interop::job_of(
      parse(replaced(replaced(row_text(), "\"micro_batch\": 16", "\"micro_batch\": null"),
                     "\"attention\": \"unfused\"", "\"attention\": null"))
          .configuration));
  CHECK(known.half_width() == 0);
  CHECK(open.half_width() > 0);
  CHECK(open.micro_batch_open);
  CHECK(open.sequences_per_rank == 16);
}

TEST_CASE("the micro-batch follows from batch and accumulation") {
  const job::Job job = job_of(
      replaced(row_text(), "\"micro_batch\": 16", "\"micro_batch\": null, \"grad_accum\": 4"));
  CHECK(job.workload.micro_batch == 4);
}

TEST_CASE("a configuration holds no measured field, no name and no id") {
  const auto row = parse(row_text());
  const auto& fields = row.configuration.fields;
  for (const char* key : {"id", "source", "value", "other_metrics", "notes", "metric", "inferred",
                          "flops_convention", "memory_kind"}) {
    INFO(key);
    CHECK(fields.find(key) == nullptr);
  }
  CHECK(fields.find("model")->find("name") == nullptr);
  CHECK(fields.find("job")->find("flops") == nullptr);
  CHECK(row.output.flops == "sc21_hardware");
}

TEST_CASE("a model without shapes is the published one of its name, which stays outside") {
  const auto text = replaced(
      row_text(),
      R"({"name": "m", "arch": "gpt", "layers": 30, "hidden": 3072, "heads": 32, "vocab": 51200})",
      R"({"name": "StableLM Alpha 3 B", "arch": null, "layers": null, "hidden": null})");
  const auto row = parse(text);
  CHECK(row.configuration.fields.find("model")->find("name") == nullptr);
  const job::Job job = job_of(text);
  CHECK(job.model.layers == 16);
  CHECK(job.model.hidden == 4096);
  CHECK(reason(replaced(text, "StableLM Alpha 3 B", "a model of our own")) == "architecture");
}

TEST_CASE("measured quantities come out in SI units, the row's own first") {
  const auto row = parse(row_text());
  const auto m = interop::measurements(row, RowJob{});
  REQUIRE(m.size() == 2);
  CHECK(m[0].metric == "throughput");
  CHECK(m[0].unit == "flops_per_gpu");
  CHECK(m[0].value == Approx(138e12));
  CHECK(m[0].primary);
  CHECK(m[1].metric == "hfu");
  CHECK(m[1].value == Approx(0.44));
  CHECK_FALSE(m[1].primary);
  // Percent or fraction.
  const auto percent = parse(replaced(row_text(), "0.44", "44"));
  CHECK(interop::measurements(percent, RowJob{})[1].value == Approx(0.44));
}

TEST_CASE("launch flags of functional tests are configuration") {
  std::string text = row_text("", "", R"(, "extra_args": {"transformer-impl": "local",
    "no-gradient-accumulation-fusion": true, "max-position-embeddings": 4096,
    "num-distributed-optimizer-instances": 2, "position-embedding-type": "rope",
    "normalization": "RMSNorm", "recompute-method": "block", "recompute-num-layers": 3},
    "env": {"NCCL_ALGO": "Ring"})");
  text = replaced(text, "\"zero_stage\": 0", "\"zero_stage\": 1");
  const auto built = std::get<RowJob>(interop::job_of(parse(text).configuration));
  CHECK(built.last_stage_only);
  CHECK(built.first_step_counts);
  CHECK_FALSE(built.timed);
  const job::Job job = config::parse(built.yaml, "row").job;
  CHECK_FALSE(job.system.gradient_accumulation_fusion);
  CHECK(job.model.positions == job::Positions::rotary);
  CHECK(job.model.norm == job::Norm::rms);
  CHECK(job.memory.recompute.kind == job::Recompute::Kind::block);
  CHECK(job.memory.recompute.layers == 3);
  CHECK(job.parallelism.shard_size == 16);
  CHECK(job.memory.dtypes.gradients == job::DType::fp16);
  CHECK(job.nccl.algo == "ring");
}

TEST_CASE("what is no row is a located fault") {
  CHECK_THROWS_AS(parse("[1]"), InputError);
  CHECK_THROWS_AS(parse(R"({"id": "x", "model": {}})"), InputError);
  try {
    interop::job_of(
        parse(replaced(row_text(), "\"hidden\": 3072", "\"hidden\": \"wide\"")).configuration);
    FAIL("a text as hidden size was accepted");
  } catch (const InputError& error) {
    CHECK(error.faults().front().where.file == "rows");
    CHECK(error.faults().front().where.line > 0);
  }
}

TEST_CASE("the cuBLAS workspace of the environment is that of one handle") {
  const std::string text =
      row_text("", "", R"(, "extra_args": {"transformer-impl": "transformer_engine"},
    "env": {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"})");
  CHECK(job_of(text).system.gemm_workspace.count() == std::int64_t{32} << 20);
}

TEST_CASE("sharded states of an unknown number of ranks cannot be forecast") {
  std::string text = replaced(row_text(), "\"num_gpus\": 64", "\"num_gpus\": null");
  text = replaced(text, "\"global_batch\": 512", "\"global_batch\": null");
  CHECK(reason(replaced(text, "\"zero_stage\": 0", "\"zero_stage\": 1")) == "incomplete");
}

TEST_CASE(
    "layers that do not divide: embedding and loss count as one each, else the surplus comes "
    "early") {
  std::string text =
      replaced(row_text(), "\"dp\": 32, \"tp\": 2, \"pp\": 1", "\"dp\": 8, \"tp\": 1, \"pp\": 8");
  CHECK(job_of(text).parallelism.layers_per_stage == std::vector<int>{3, 4, 4, 4, 4, 4, 4, 3});
  text = replaced(text, "\"layers\": 30", "\"layers\": 34");
  CHECK(job_of(text).parallelism.layers_per_stage == std::vector<int>{4, 5, 5, 4, 4, 4, 4, 4});
  text = replaced(text, "\"layers\": 34", "\"layers\": 32");
  CHECK(job_of(text).parallelism.layers_per_stage.empty());
}

TEST_CASE("torchtitan's rows: what is compiled, how 8-bit operands are scaled, what overlaps") {
  const auto titan = [](const std::string& more_job, const std::string& more) {
    return job_of(replaced(replaced(row_text(more_job, "", more), "Megatron-LM", "torchtitan"),
                           "\"recompute\": \"full\"", "\"recompute\": \"none\""));
  };
  const std::string on = R"(, "compile": true)";
  const auto eight = [&](const std::string& year, const std::string& words,
                         const std::string& lines = "") {
    const std::string row =
        replaced(replaced(row_text(on, "", R"(, "precision": ")" + words + "\"" + lines),
                          "a100-sxm-80", "h100-sxm"),
                 "Megatron-LM", "torchtitan");
    return job_of(replaced(replaced(row, "\"fp16\"", "\"fp8\""), "2021", year));
  };
  const auto by_rows = [&](const std::string& year, const std::string& words) {
    return eight(year, words).workload.precision == job::DType::fp8_block;
  };
  CHECK_FALSE(by_rows("2024", "float8 tensorwise dynamic linears"));
  CHECK(by_rows("2024", "float8 rowwise dynamic linears"));
  CHECK(by_rows("2026", "compute bf16 + float8/quant"));
  const std::string loss = R"(, "compile": ["Compiling the loss function with torch.compile")";
  const std::string block = R"(, "Compiling each TransformerBlock with torch.compile"])";
  CHECK_FALSE(eight("2026", "float8/quant", loss + "]").kernels.compile);
  CHECK(eight("2026", "float8/quant", loss + block).kernels.compile);
  const job::Overlap apart = titan("", R"(, "overlap": "none")").parallelism.overlap;
  CHECK(apart.tensor == job::TensorOverlap::none);
  CHECK(apart.param_gather);  // fully_shard always overlaps
  CHECK(titan("", R"(, "overlap": "AsyncTP")").parallelism.overlap.tensor ==
        job::TensorOverlap::async);
}

TEST_CASE("BLOOM's rows in bf16 sum gradients in fp32 once both ends count as layers") {
  const auto row = [](const std::string& layers, const std::string& precision) {
    std::string text = replaced(row_text(), "Megatron-LM", "Megatron-DeepSpeed");
    text = replaced(text, "\"layers\": 30", "\"layers\": " + layers);
    text = replaced(text, "\"dp\": 32, \"tp\": 2, \"pp\": 1", "\"dp\": 4, \"tp\": 2, \"pp\": 8");
    text = replaced(text, "\"zero_stage\": 0", "\"zero_stage\": 1");
    text = replaced(text, "\"precision\": \"fp16\"", "\"precision\": \"bf16\"");
    text = replaced(text, "\"seq_len\"", "\"precision\": \"" + precision + "\", \"seq_len\"");
    return job_of(text).memory.dtypes.gradients;
  };
  CHECK(row("30", "bf16") == job::DType::fp32);  // 32 (30 + 2) is divisible by 8, but 30 is not
  CHECK(row("32", "bf16") == job::DType::bf16);
  CHECK(row("32", "bf16, fp32 gradient accumulation") == job::DType::fp32);
  CHECK(row("30", "bf16 without fp32 accumulation") == job::DType::bf16);
}
