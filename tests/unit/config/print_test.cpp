// to_json, show and schema use one table, so each knows what the others write.
#include <fstream>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/text/document.h"

using namespace stepcast;
using text::Value;

namespace {

// Every kind of value, different from its default.
const std::string kOdd = R"(model:
  use: mixtral-8x7b
  layers: 8
  biases: {qkv: true, head: true}
  dropout: 0.05
  qk_norm: true
  moe: {topk: 3, shared_experts: 2, shared_ffn: 1024, dense_layers: 1, router_bias: true, shared_gate: true}
cluster:
  use: dgx-a100
  nodes: 4
  gpus_per_node: 4
  device: {use: a100-sxm-80, memory: 96 GB, power: 333.5 W}
  node: {nic_latency: 1.3 us, amd_cpu: false}
  fabric: {kind: fat_tree, oversubscription: 2.5, efficiency: 0.93}
  order: tp-dp-cp-ep-pp
  faults: [{link: node3/nic2, bandwidth: 0.5}]
  overrides: [{first: 1, count: 2, device: h100-sxm}]
system: {use: megatron-lm-2022, launch: 3.7 us, bucket_bytes: 12 MiB, sync_before_optimizer: false}
workload: {sequence_length: 4096, global_batch: 96, micro_batch: 2, precision: fp16, tokens: 1.5e12}
parallelism:
  data: 2
  tensor: 2
  pipeline: 4
  sequence_parallel: true
  sharding: zero2
  shard_size: 2
  schedule: {name: gpipe, extra_warmup: 1}
  layers_per_stage: [1, 3, 3, 1]
  overlap: {grad_reduce: true}
moe: {dispatcher: alltoall, capacity_factor: 1.25}
kernels: {attention: flash3, loss: chunked, compile: true, cuda_graph: true, library: trtllm}
nccl: {algo: Tree, proto: LL128}
memory:
  recompute: {every: 2}
  optimizer: adamw_8bit
  dtypes: {parameters: bf16, gradients: bf16, reduce: bf16, moments: bf16, master: null}
  allocator: expandable_segments
calibration: [a.yaml, b.yaml]
seed: 7
)";

void round_trip(const config::Loaded& loaded) {
  const std::string json = config::to_json(loaded.job);
  CHECK(config::to_json(config::parse(json, "round-trip.json").job) == json);
  CHECK(config::to_json(config::parse(config::show(loaded), "round-trip.yaml").job) == json);
}

// Every key of a written job is a property of the schema, with a description, and no other key is
// allowed.
void check_described(const Value& written, const Value& schema, const std::string& path) {
  const Value* object = &schema;
  if (const Value* any = schema.find("anyOf")) {
    for (const Value& one : any->items) {
      const Value* properties = one.find("properties");
      if (properties != nullptr && properties->find(written.entries.at(0).key) != nullptr) {
        object = &one;
      }
    }
  }
  const Value* properties = object->find("properties");
  if (properties == nullptr) {
    return;  // A word or a list that may also be a map.
  }
  INFO(path);
  REQUIRE(object->find("additionalProperties") != nullptr);
  CHECK(object->find("additionalProperties")->scalar == "false");
  for (const auto& entry : written.entries) {
    INFO(entry.key);
    const Value* property = properties->find(entry.key);
    REQUIRE(property != nullptr);
    const Value* description = property->find("description");
    if (description == nullptr) {
      CHECK(schema.find("anyOf") != nullptr);  // an alternative, described above it
    } else {
      CHECK_FALSE(description->scalar.empty());
    }
    if (entry.value.kind == Value::Kind::map) {
      check_described(entry.value, *property, path + "." + entry.key);
    }
  }
}

}  // namespace

TEST_CASE("a written job reads back as the same job") {
  for (const auto& name : config::list("jobs")) {
    INFO(name);
    round_trip(config::load(name));
  }
  round_trip(config::parse(kOdd, "odd.yaml"));
}

TEST_CASE("the odd job differs from the defaults where it says so") {
  const job::Job j = config::parse(kOdd, "odd.yaml").job;
  CHECK(j.memory.recompute.kind == job::Recompute::Kind::every);
  CHECK(j.parallelism.schedule->extra_warmup == 1);
  CHECK(j.system.launch == Time(3'700'000));
  CHECK(j.cluster.overrides[0].device.name == "h100-sxm");
  CHECK(*j.nccl.algo == "tree");
  CHECK(j.model.moe->shared_ffn == 1024);
  CHECK(j.calibration.size() == 2);
}

TEST_CASE("calibration: auto, a path, a list, and a list with auto in it") {
  const auto given = [](const std::string& value) {
    return config::load("llama70b", {"calibration=" + value}).job.calibration;
  };
  using List = std::vector<std::string>;
  CHECK(given("auto").empty());
  CHECK(given("[auto]").empty());
  CHECK(given("own.yaml") == List{"own.yaml"});
  CHECK(given("[auto,own.yaml]") == List{"auto", "own.yaml"});
  CHECK(given("[own.yaml, folder, auto]") == List{"own.yaml", "folder", "auto"});
  // What is printed can be read back.
  const auto job = config::load("llama70b", {"calibration=[auto,own.yaml]"}).job;
  CHECK_THAT(config::to_json(job), ContainsSubstring("\"auto\""));
}

TEST_CASE("a resolved job has every default filled in") {
  const Value v = text::parse_json(config::to_json(config::load("llama70b").job), "job");
  for (const char* key : {"model", "cluster", "system", "workload", "parallelism", "moe", "kernels",
                          "nccl", "memory", "calibration", "seed"}) {
    INFO(key);
    CHECK(v.find(key) != nullptr);
  }
  CHECK(v.find("parallelism")->find("context")->scalar == "1");
  CHECK(v.find("workload")->find("finetune")->scalar == "none");
  CHECK(v.find("cluster")->find("device")->find("memory")->scalar == "80000000000");
}

TEST_CASE("show tells where each value came from") {
  const std::string text = config::show(config::load("llama70b", {"workload.micro_batch=2"}));
  CHECK_THAT(text, ContainsSubstring("micro_batch: 2"));
  CHECK_THAT(text, ContainsSubstring("# --set workload.micro_batch=2"));
  CHECK_THAT(text, ContainsSubstring("# default"));
  CHECK_THAT(text, ContainsSubstring("configs/llama70b.yaml:"));
}

TEST_CASE("the schema is JSON that describes every key of a job") {
  const Value schema = text::parse_json(config::schema(), "schema");
  CHECK(schema.find("$schema")->scalar == "https://json-schema.org/draft/2020-12/schema");
  CHECK(schema.find("type")->scalar == "object");
  check_described(text::parse_json(config::to_json(config::parse(kOdd, "odd.yaml").job), "job"),
                  schema, "");
  const Value* precision =
      schema.find("properties")->find("workload")->find("properties")->find("precision");
  REQUIRE(precision->find("enum") != nullptr);
  CHECK(precision->find("enum")->items.size() == 9);
  CHECK(precision->find("default")->scalar == "bf16");
}
