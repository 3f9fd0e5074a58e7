// Files of measured runs: every quantity in SI units, jobs as any job is read, faults with lines.
#include "stepcast/runs/read.h"

#include <fmt/format.h>

#include <functional>

#include "catch.hpp"
#include "support/folder.h"

using stepcast::test::Folder;
using namespace stepcast;

namespace {

const std::string kJob =
    "model: {layers: 4, hidden: 4096, heads: 32, ffn: 16384, vocab: 32000}\n"
    "cluster: {use: dgx-h100, nodes: 1}\n"
    "workload: {sequence_length: 2048, global_batch: 64, micro_batch: 1, precision: bf16}\n";

std::string faults_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& error) {
    std::string all;
    for (const Fault& f : error.faults()) {
      all += to_string(f) + "\n";
    }
    return all;
  }
  return "";
}

}  // namespace

TEST_CASE("a run names a job file or holds its job") {
  const Folder folder;
  folder.write("job.yaml", kJob);
  const auto all = runs::read(folder.write(
      "runs.jsonl",
      R"({"config": "job.yaml", "measured": {"step_time": 0.5}, "date": "2026-03-01"})"
      "\n"
      R"({"config": "job.yaml", "set": ["workload.micro_batch=2"], "measured": {"step_time": [0.5, 0.54, 0.52]}})"
      "\n"
      R"({"id": "inline", "job": {"model": "llama-3-8b", "cluster": {"use": "dgx-h100", "nodes": 2}, )"
      R"("workload": {"sequence_length": 8192, "global_batch": 32, "micro_batch": 1}}, "measured": {"mfu": 0.4}})"
      "\n"));
  REQUIRE(all.size() == 3);
  CHECK(all[0].id == "line 1");
  CHECK(all[0].date == "2026-03-01");
  CHECK(runs::job_of(all[0]).job.workload.micro_batch == 1);
  CHECK(runs::job_of(all[1]).job.workload.micro_batch == 2);
  CHECK(all[1].measured[0].values == std::vector{0.5, 0.54, 0.52});
  CHECK(all[1].measured[0].value() == 0.52);
  CHECK(all[2].id == "inline");
  CHECK(runs::job_of(all[2]).job.cluster.ranks() == 16);
  CHECK(runs::job_of(all[2], {"cluster.nodes=4"}).job.cluster.ranks() == 32);
  CHECK(runs::text_of(all[2], true) != runs::text_of(all[2], false));
}

TEST_CASE("the first quantity is the primary one; memory has kinds, ranks and a beginning") {
  const Folder folder;
  const auto run = runs::read(folder.write(
      "runs.jsonl",
      R"({"config": "llama70b", "flops": "palm", "measured": {"mfu": 0.45, "outcome": "out of memory", )"
      R"("steady_memory": 1e9, "peak_memory": [{"kind": "reserved", "bytes": 7e10}, )"
      R"({"rank": 3, "bytes": 6e10, "since": "start"}]}, "assumed": {"kernels.attention": "not stated"}})"
      "\n"))[0];
  REQUIRE(run.measured.size() == 5);
  CHECK(run.measured[0].quantity == runs::Quantity::mfu);
  CHECK(run.flops == model::FlopConvention::palm);
  CHECK(run.measured[1].value() == 1);
  CHECK(run.measured[2].kind == runs::MemoryKind::allocated);
  CHECK(run.measured[3].kind == runs::MemoryKind::reserved);
  CHECK(run.measured[3].value() == 7e10);
  CHECK_FALSE(run.measured[3].rank);
  CHECK(run.measured[4].rank == 3);
  CHECK(run.measured[4].since_start);
  REQUIRE(run.assumed.size() == 1);
  CHECK(run.assumed[0].key == "kernels.attention");
}

TEST_CASE("bytes may state a unit, and are not gigabytes whose unit was forgotten") {
  const Folder folder;
  const auto read = [&](const std::string& line) {
    return runs::read(folder.write("runs.jsonl", line + "\n"));
  };
  const auto run = read(R"({"config": "j", "measured": {"peak_memory": "64.1 GiB", )"
                        R"("steady_memory": {"kind": "reserved", "bytes": "30 GB"}}})")[0];
  CHECK(run.measured[0].value() == Approx(64.1 * (1 << 30)));
  CHECK(run.measured[1].value() == 30e9);
  CHECK(run.measured[1].kind == runs::MemoryKind::reserved);
  const auto fault = [&](const std::string& memory) {
    const std::string all =
        faults_of([&] { read(R"({"config": "j", "measured": {"peak_memory": )" + memory + "}}"); });
    return all.substr(all.find(":1:"));
  };
  CHECK(fault("64.1") ==
        ":1:45: error: peak_memory is 64.1 bytes, which no training process has; expected bytes "
        "such as 64.1e9, or \"64.1 GiB\"\n");
  CHECK_THAT(fault(R"([{"bytes": 71}])"),
             Catch::Matchers::StartsWith(":1:56: error: peak_memory is 71 b"));
  CHECK_THAT(fault(R"("64.1 Gb")"),
             Catch::Matchers::StartsWith(
                 ":1:45: error: peak_memory: '64.1 Gb' has the unknown unit 'Gb'"));
  CHECK(
      read(
          R"({"operator": {"kernel": "rope", "sizes": {"T": 8}}, "measured": {"peak_memory": 2560}})")
          [0]
              .measured[0]
              .value() == 2560);
}

TEST_CASE("a file without a run is a fault") {
  const Folder folder;
  CHECK_THAT(faults_of([&] { runs::read(folder.write("runs.jsonl", "\n")); }),
             ContainsSubstring("runs.jsonl:1:1: error: holds no measured run; expected "));
}

TEST_CASE("a job is bad input or cannot run: the first is told apart") {
  const Folder folder;
  const auto all = runs::read(folder.write(
      "runs.jsonl",
      R"({"config": "llama8b-fsdp", "set": ["tensor=3"], "measured": {"step_time": 1}})"
      "\n"
      R"({"config": "llama8b-fsdp", "set": ["tensor=x"], "measured": {"step_time": 1}})"
      "\n"));
  CHECK(runs::stated_job(all[0]).job.parallelism.tensor == 3);
  CHECK_THAT(faults_of([&] { runs::job_of(all[0]); }),
             ContainsSubstring(":1:12: error: tensor 3 "));
  CHECK_THAT(faults_of([&] { runs::stated_job(all[1]); }),
             ContainsSubstring(":2:12: error: parallelism.tensor is 'x'"));
}

TEST_CASE("a job without a micro-batch that says so leaves it open") {
  const Folder folder;
  const std::string job =
      R"("job": {"model": "llama-3-8b", "cluster": {"use": "dgx-h100", "nodes": 1}, "workload": {"sequence_length": 2048, "global_batch": 64}}, )"
      R"("measured": {"mfu": 0.4})";
  const auto all = runs::read(folder.write(
      "runs.jsonl",
      fmt::format("{{{}, \"assumed\": {{\"workload.micro_batch\": \"not stated\"}}}}\n{{{}}}\n",
                  job, job)));
  CHECK(all[0].micro_batch_open());
  CHECK(runs::job_of(all[0]).job.workload.micro_batch == 1);
  CHECK(runs::job_of(all[0], {"workload.micro_batch=4"}).job.workload.micro_batch == 4);
  CHECK_FALSE(all[1].micro_batch_open());
}

TEST_CASE("every faulty line is reported at its place") {
  const Folder folder;
  folder.write("job.yaml", kJob);
  const std::string faults = faults_of([&] {
    runs::read(folder.write(
        "bad.jsonl",
        R"({"config": "job.yaml", "measured": {"step_time": 0}})"
        "\n"
        R"({"config": "job.yaml"})"
        "\n"
        R"({"config": "job.yaml", "measured": {"step_tme": 1}})"
        "\n"
        R"({"config": "job.yaml", "job": {}, "measured": {"step_time": 1}})"
        "\n"
        R"({"config": "job.yaml", "measured": {"step_time": []}})"
        "\n"
        R"({"config": "job.yaml", "measured": {"step_time": "fast"}})"
        "\n"
        R"({"config": "job.yaml", "measured": {}})"
        "\n"
        R"({"measured": {"step_time": 1}})"
        "\n"
        R"({"config": "job.yaml", "measured": {"mfu": 41}})"
        "\n"
        R"({"config": "job.yaml", "measured": {"outcome": "crashed"}})"
        "\n"
        R"({"config": "job.yaml", "measured": {"peak_memory": {"bytes": 1, "kind": "resident"}}})"
        "\n"
        R"({"config": "job.yaml", "step_time": 1, "flops": "mine", "measured": {"step_time": 1}})"
        "\n3\n"));
  });
  INFO(faults);
  const auto has = [&](const std::string& text) {
    INFO(text);
    CHECK(faults.find(text) != std::string::npos);
  };
  has(":1:50: error: step_time is 0; expected a number above 0");
  has(":2:1: error: key 'measured' is missing; expected {\"config\": \"job.yaml\", ");
  has("unknown key 'step_tme' of measured quantities (did you mean 'step_time'?)");
  has(":4:1: error: more than one of 'job', 'config' and 'operator'; expected one");
  has(":5:50: error: step_time is an empty list; expected measured values");
  has(":6:50: error: ");
  has(":7:36: error: nothing was measured; expected a quantity such as step_time");
  has(":8:1: error: no job; expected 'config'");
  has(":9:44: error: mfu is 41; expected a fraction of at most 1");
  has("outcome is 'crashed'; expected ran or out of memory");
  has("kind is 'resident'; expected allocated, active, reserved or process");
  has("unknown key 'step_time'; expected a key of a measured run");
  has("flops is 'mine'; expected megatron_causal, ");
  has(":13:1: error: not a measured run; expected {");
}

TEST_CASE("faults of a run's job have lines") {
  const Folder folder;
  const auto all = runs::read(folder.write(
      "runs.jsonl",
      R"({"config": "none.yaml", "measured": {"step_time": 1}})"
      "\n"
      R"({"config": "llama70b", "set": ["workload.micro_btch=2"], "measured": {"step_time": 1}})"
      "\n"
      R"({"job": {"model": "llama-3-8b", "cluster": {"use": "dgx-h100", "nodes": 1}, "workload": {"sequence_length": 0, "global_batch": 8}}, )"
      R"("measured": {"step_time": 1}})"
      "\n"));
  const auto faults = [&](std::size_t i) { return faults_of([&] { runs::job_of(all[i]); }); };
  CHECK(faults(0).find(":1:12: error: there is no file 'none.yaml'") != std::string::npos);
  CHECK(faults(1).find("micro_btch") != std::string::npos);
  CHECK(faults(2).find("runs.jsonl:3:") != std::string::npos);
}

TEST_CASE("a file without the run that is asked for is an error") {
  const Folder folder;
  const auto file = folder.write(
      "runs.jsonl", "{\"id\": \"a\", \"config\": \"llama70b\", \"measured\": {\"mfu\": 0.4}}\n");
  CHECK(runs::find(file, "a").measured[0].value() == 0.4);
  CHECK(faults_of([&] { runs::find(file, "b"); }).find("no run 'b'") != std::string::npos);
}
