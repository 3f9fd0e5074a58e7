// From genuine logs, healthy and faulty (logs/README.md), to a calibration file that can be read
// back.
#include "stepcast/calibrate/nccl.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "catch.hpp"
#include "stepcast/base/diagnostics.h"
#include "stepcast/input/input.h"
#include "stepcast/text/document.h"

namespace {

using namespace stepcast;
namespace fs = std::filesystem;
using result::Health;

const fs::path kLogs = fs::path(STEPCAST_SOURCE_DIR) / "tests/unit/calibrate/logs";
const fs::path kCalibration = fs::path(STEPCAST_SOURCE_DIR) / "calibration";

// A calibration folder that contains nothing.
class EmptyCalibration {
 public:
  explicit EmptyCalibration(const std::string& name)
      : path_(fs::temp_directory_path() /
              ("stepcast-calibrate-" + name + "-" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_ / "nccl");
  }
  ~EmptyCalibration() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::vector<interop::CollectiveLog> logs(const std::vector<std::string>& names) {
  std::vector<interop::CollectiveLog> out;
  for (const auto& name : names) {
    out.push_back(interop::read_collectives(kLogs / name));
  }
  return out;
}

result::Calibration calibrate_(const std::string& cluster, int nodes,
                               const std::vector<std::string>& names,
                               calibrate::NcclOptions options = {},
                               const fs::path& calibration = kCalibration) {
  options.system = "test";
  return calibrate::calibrate_nccl(input::network(cluster, nodes).cluster, logs(names), options,
                                   calibration);
}

std::map<std::string, Health> verdicts(const result::Calibration& c) {
  std::map<std::string, Health> out;
  for (const auto& s : c.series) {
    const std::string key = fs::path(s.file).filename().string() + " " + s.op;
    out[key] = s.health;
    INFO(key);
    CHECK(s.fitted == (s.health != Health::degraded));
    CHECK(s.reasons.empty() == (s.health == Health::healthy));
  }
  return out;
}

}  // namespace

TEST_CASE("Polaris: logs without the fabric's plug-in are recognised alone, by the model") {
  for (const char* degraded : {"polaris-default.csv", "polaris-collnet.csv"}) {
    const auto found = calibrate_("polaris", 2, {degraded});
    for (const auto& [log, health] : verdicts(found)) {
      INFO(log);
      CHECK(health == Health::degraded);
    }
    CHECK(found.files.empty());
  }
  for (const char* healthy : {"polaris-plugin.csv", "polaris-plugin-again.csv"}) {
    const auto found = calibrate_("polaris", 2, {healthy});
    for (const auto& [log, health] : verdicts(found)) {
      INFO(log);
      CHECK(health == Health::healthy);
    }
    CHECK(found.files.size() == 1);
  }
}

TEST_CASE("Polaris as a machine that no calibration knows: its logs judge each other") {
  const EmptyCalibration empty("none");
  const auto found = calibrate_("polaris", 2,
                                {"polaris-default.csv", "polaris-plugin.csv", "polaris-collnet.csv",
                                 "polaris-plugin-again.csv"},
                                {}, empty.path());
  const auto health = verdicts(found);
  REQUIRE(health.size() == 12);
  for (const auto& [log, h] : health) {
    INFO(log);
    CHECK((h == Health::degraded) == (log.find("plugin") == std::string::npos));
  }
  // The fit uses only the healthy logs.
  for (const auto& curve : found.curves) {
    if (curve.op == "all_reduce") {
      CHECK(curve.bus_bandwidth == Approx(36e9).epsilon(0.05));
    }
  }
  const auto kept = [&] {
    calibrate::NcclOptions options;
    options.keep_degraded = true;
    return calibrate_("polaris", 2, {"polaris-default.csv"}, options, empty.path());
  }();
  REQUIRE(kept.series.size() == 3);
  CHECK(kept.series[0].fitted);
}

TEST_CASE("Alps: sockets in place of Slingshot, and results that came out wrong") {
  const auto found = calibrate_(
      "alps", 8, {"alps-slingshot.txt", "alps-sockets.csv", "alps-wrong-results.txt"}, [] {
        calibrate::NcclOptions options;
        options.ranks_per_node = std::vector<int>(8, 4);
        return options;
      }());
  const auto health = verdicts(found);
  CHECK(health.at("alps-slingshot.txt all_reduce") == Health::healthy);
  CHECK(health.at("alps-sockets.csv all_reduce") == Health::degraded);
  CHECK(health.at("alps-wrong-results.txt all_reduce") == Health::suspect);
  CHECK(found.series[2].wrong == 1);
  for (const auto& p : found.series[2].points) {
    CHECK(p.bytes != 33554432);  // 288 wrong elements
  }
}

TEST_CASE("the file: curves, residuals and what they rest on; the same bytes every time") {
  const auto found = calibrate_("dgx-a100", 1, {"a100-node-all-reduce.txt"});
  REQUIRE(found.files.size() == 1);
  CHECK(found.files[0].scope == "domain");
  const std::string& yaml = found.files[0].yaml;
  const text::Value root = text::parse_yaml(yaml, "test.yaml");
  CHECK(text::to_string(*root.find("kind")) == "nccl");
  CHECK(text::to_string(*root.find("system")) == "test");
  REQUIRE(root.find("measured") != nullptr);
  const text::Value& log = root.find("measured")->items.at(0);
  CHECK(text::to_string(*log.find("log")) == "a100-node-all-reduce");
  CHECK(text::to_integer(*log.find("gpus_per_node")) == 8);
  CHECK(text::to_integer(log.find("sizes")->items.at(1)) == 8589934592);
  CHECK(text::to_string(*log.find("health")) == "healthy");
  CHECK(log.find("nccl") == nullptr);  // the log does not state it
  CHECK(log.find("date") == nullptr);
  CHECK(yaml.find(STEPCAST_SOURCE_DIR) == std::string::npos);  // no folder names of this machine
  CHECK(calibrate_("dgx-a100", 1, {"a100-node-all-reduce.txt"}).files[0].yaml == yaml);

  REQUIRE(found.curves.size() == 1);
  CHECK(found.curves[0].size == 8);
  CHECK(found.curves[0].bus_bandwidth == Approx(235e9).epsilon(0.02));  // as in the log
  CHECK(found.curves[0].latency == Approx(36e-6).epsilon(0.05));
  CHECK(found.series[0].error < 0.03);
}

TEST_CASE("both scopes make two files; a scope asked for leaves the other out") {
  const auto both = calibrate_("polaris", 2, {"polaris-plugin.csv", "polaris-plugin-again.csv"});
  CHECK(both.files.size() == 1);
  calibrate::NcclOptions inside;
  inside.scope = cost::NcclScope::domain;
  const auto none = calibrate_("polaris", 2, {"polaris-plugin.csv"}, inside);
  CHECK(none.files.empty());
  CHECK(none.series.at(0).left_out == "across domains (--scope domain)");
}

TEST_CASE("a log of other GPUs is not taken in silence") {
  const auto found = calibrate_("dgx-h100", 1, {"a100-node-all-reduce.txt"});
  REQUIRE(found.series.size() == 1);
  CHECK(found.series[0].health != Health::healthy);
  CHECK(found.series[0].reasons.back() == "its GPUs are A100-SXM4-40GB, the cluster's h100-sxm");
}

TEST_CASE("what NCCL was forced to run: an algorithm is fitted as that, a protocol not at all") {
  const auto log = [](const std::string& command) {
    std::ifstream in(kLogs / "alps-slingshot.txt");
    std::stringstream text;
    text << command << "\n" << in.rdbuf();
    return interop::parse_nccl_log(text.str(), "alps-slingshot.txt");
  };
  calibrate::NcclOptions options;
  options.system = "test";
  const auto cluster = input::network("alps", 2).cluster;
  const auto ring = calibrate::calibrate_nccl(
      cluster, {log("srun -x NCCL_ALGO=Ring all_reduce_perf")}, options, kCalibration);
  REQUIRE(ring.series.size() == 1);
  CHECK(ring.series[0].algorithm == "ring");
  CHECK(ring.series[0].fitted);
  const auto protocol = calibrate::calibrate_nccl(
      cluster, {log("srun -x NCCL_PROTO=LL all_reduce_perf")}, options, kCalibration);
  CHECK_FALSE(protocol.series.at(0).fitted);
  CHECK(protocol.series[0].left_out.find("NCCL_PROTO=ll was forced") == 0);
}

TEST_CASE("several logs of one name are told apart; the order of logs changes no curve") {
  const auto cluster = input::network("polaris", 2).cluster;
  auto one = interop::read_collectives(kLogs / "polaris-plugin.csv");
  auto two = interop::read_collectives(kLogs / "polaris-plugin-again.csv");
  one.file = "a/run.csv";
  two.file = "b/run.csv";
  calibrate::NcclOptions options;
  options.system = "test";
  const auto found = calibrate::calibrate_nccl(cluster, {one, two}, options, kCalibration);
  CHECK(found.series[0].name == "run");
  CHECK(found.series[3].name == "run.2");
  REQUIRE(found.files.size() == 1);
  CHECK_NOTHROW(text::parse_yaml(found.files[0].yaml, "test.yaml"));
  const auto turned = calibrate::calibrate_nccl(cluster, {two, one}, options, kCalibration);
  REQUIRE(turned.curves.size() == found.curves.size());
  for (std::size_t i = 0; i < found.curves.size(); ++i) {
    CHECK(turned.curves[i].bus_bandwidth == Approx(found.curves[i].bus_bandwidth).epsilon(1e-6));
  }
}

TEST_CASE("what does not fit the cluster, or does not tell, is a fault at its table") {
  const auto fault = [](const std::string& cluster, const std::string& name) -> std::string {
    try {
      calibrate_(cluster, 1, {name});
    } catch (const InputError& error) {
      return to_string(error.faults().front());
    }
    return "none";
  };
  CHECK(
      fault("polaris", "a100-node-all-reduce.txt")
          .find(
              "txt:14:1: error: 8 GPUs of a node ran it; a node of polaris has 4; expected another "
              "--cluster") != std::string::npos);
  CHECK(fault("alps", "alps-wrong-results.txt")
            .find("txt:1:1: error: the log does not list its devices in full; expected --nodes and "
                  "--gpus-per-node") != std::string::npos);
}
