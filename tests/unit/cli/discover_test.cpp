// `simulate discover` on fake hosts: the drivers of tests/support/fake_driver replace NVIDIA's.
#include <cstdlib>
#include <map>
#include <string>

#include "catch.hpp"
#include "support/folder.h"
#include "unit/cli/run.h"

namespace {

using stepcast::test::Folder;
using stepcast::test::Result;
using stepcast::test::run;

using Variables = std::map<std::string, std::string>;

// Output of `discover` on a host whose fake drivers read these variables.
Result discover(Variables variables, const std::string& options = "") {
  variables["LD_LIBRARY_PATH"] = STEPCAST_FAKE_DRIVER;
  for (const auto& [name, value] : variables) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  Result out = run("discover " + options);
  for (const auto& [name, value] : variables) {
    ::unsetenv(name.c_str());
  }
  return out;
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("NVML's GPUs behind switches are the cluster that has them, and a job runs on it") {
  const Result r =
      discover({{"FAKE_WIRES", "switch"}, {"FAKE_PRODUCT", "NVIDIA H100 80GB HBM3"}}, "--nodes 64");
  INFO(r.err);
  REQUIRE(r.status == 0);
  CHECK(has(r.out, "NVML of this host"));
  CHECK(has(r.out, "use: dgx-h100"));
  CHECK(!has(r.out, "intra:"));
  const Folder folder;
  const Result job = run("--config llama70b --fidelity bound --set cluster=" +
                         folder.write("cluster.yaml", r.out));
  INFO(job.err);
  CHECK(job.status == 0);
  CHECK(has(job.out, "512 GPUs"));
}

TEST_CASE("NVML's links between GPUs make a mesh") {
  const Result r = discover({{"FAKE_WIRES", "pairs"}, {"FAKE_PRODUCT", "NVIDIA A100 80GB PCIe"}});
  INFO(r.err);
  REQUIRE(r.status == 0);
  CHECK(has(r.out, "nvlink_links: [[0, 1, 12], [2, 3, 12]]"));
}

TEST_CASE("where NVML does not start, the CUDA driver is asked") {
  const Result r = discover({{"FAKE_GPUS", "8"}, {"FAKE_PRODUCT", "NVIDIA A100-SXM4-40GB"}});
  INFO(r.err);
  REQUIRE(r.status == 0);
  CHECK(has(r.out, "the CUDA driver of this host"));
  CHECK(has(r.out, "use: aws-p4d"));
  CHECK(has(r.err, "NVML does not start"));
  const Result none = discover({});
  CHECK(none.status == 2);
  CHECK(none.out.empty());
  CHECK(has(none.err, "the CUDA driver knows no GPU on this host; expected --nccl-topo"));
}

TEST_CASE("a product of none of configs/devices is named") {
  const Result r = discover({{"FAKE_GPUS", "2"}, {"FAKE_PRODUCT", "NVIDIA X1"}});
  CHECK(r.status == 2);
  CHECK(has(r.err, "the product 'NVIDIA X1' is none of configs/devices; expected --device NAME"));
}
