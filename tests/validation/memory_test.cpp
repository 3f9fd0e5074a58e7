// Published peak memory compared with forecasts: how many rows can be forecast, and with what
// error.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "catch.hpp"
#include "published.h"
#include "stepcast/base/statistics.h"

using namespace stepcast;

namespace {

struct Source {
  const char* file;
  std::size_t forecast;  // rows of peak memory that can be forecast
  double median;         // median absolute error
};

}  // namespace

// The goal is a median of 4 % for each source. The table has what is reached, and its bounds keep
// that from getting worse. Differences that no field of a row states are included: LoRA with and
// without embedding and head (11 of Qwen's rows), versions of litgpt's adapters, torchtune's
// recipes of one model. torchtitan's on B200 were at 4.5 % with norms that no code of its release
// fuses; they are as its code has them since issue 21. torchtitan's other readings were at 7.1 %
// with 1.4 to 2 GiB at the backward pass of the loss that its code does not hold: since allocated
// bytes are those that tests/oracle recorded (0.02 % in the median), the reserved bytes of the
// published runs lie above the forecast by fragmentation and by what torch.compile keeps, of which
// neither is recorded. litgpt's were at 3.6 % without the logits that Fabric widens to fp32, which
// its code holds and recorded steps show. torchtune's were at 9.8 % before results that stand for
// several products and arguments of modules lived as recorded steps have them: 0.2 GiB more.
TEST_CASE("peak memory of published rows of PyTorch systems") {
  const Source sources[] = {
      {"torchtitan-memory.jsonl", 48, 0.107},        {"qwen-memory.jsonl", 40, 0.1},
      {"torchtune-memory.jsonl", 9, 0.113},          {"litgpt-memory.jsonl", 22, 0.055},
      {"torchtitan-qwen3-14b-b200.jsonl", 27, 0.07}, {"megatron-bridge-memory.jsonl", 3, 0.12},
  };
  for (const Source& source : sources) {
    const auto& all = test::forecasts_of(source.file).rows;
    std::vector<double> errors;
    int inside = 0;
    for (const auto& r : all) {
      if (r.metric == "peak_memory" && r.status != "skipped") {
        errors.push_back(std::abs(r.error));
        inside += r.low <= r.published && r.published <= r.high ? 1 : 0;
      }
    }
    INFO(source.file);
    REQUIRE_FALSE(errors.empty());
    fmt::print("{:<34} {:>3} rows, median {:.1f} %, in the interval {} %\n", source.file,
               errors.size(), 100 * median(errors), 100 * inside / static_cast<int>(errors.size()));
    CHECK(errors.size() >= source.forecast);
    CHECK(median(errors) <= source.median);
  }
}

// Measured by this project on an H100 and an H200 (tests/oracle/gpu), so that no job leaves
// anything open. Without torch.compile allocated bytes are right to a quarter of a percent;
// reserved ones depend on the order of every request, and differ by 1 to 7 % where the forecast's
// order does. What torch.compile keeps is its partitioner's choice.
TEST_CASE("memory of steps on our own GPUs") {
  const auto& all = test::forecasts_of("stepcast-gpu.jsonl").rows;
  std::vector<double> others;
  std::size_t allocated = 0;
  std::string last;
  for (const auto& r : all) {
    if (r.metric != "peak_memory") {
      continue;
    }
    INFO(r.id << ", measured " << r.published << ", forecast " << r.predicted);
    REQUIRE(r.status == "ok");
    const double off = std::fabs(r.error);
    const bool first = r.id != last;  // of a run's readings: the allocated bytes
    last = r.id;
    if (r.id.find("compiled") != std::string::npos) {
      CHECK(off <= 0.09);
    } else if (first) {
      ++allocated;
      CHECK(off <= 0.0025);
    } else {
      others.push_back(off);
      CHECK(off <= 0.07);
    }
  }
  CHECK(allocated == 35);
  CHECK(median(others) <= 0.006);
}

TEST_CASE("errors stay within their recorded bands: memory") {
  for (const char* file : {"litgpt-memory.jsonl", "megatron-bridge-memory.jsonl",
                           "qwen-memory.jsonl", "stepcast-gpu.jsonl", "torchtitan-memory.jsonl",
                           "torchtitan-qwen3-14b-b200.jsonl", "torchtune-memory.jsonl"}) {
    test::check_bands(file);
  }
}
