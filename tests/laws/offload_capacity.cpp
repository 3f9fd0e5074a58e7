// Host memory and drives are capacities of a node: the bytes of all its ranks add up.
#include <fmt/format.h>

#include <variant>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

result::Report report_of(const std::string& node, const std::string& offload,
                         forecast::Fidelity fidelity = forecast::Fidelity::folded) {
  const auto job =
      config::parse(fmt::format("model: llama-3-8b\n"
                                "cluster: {{use: dgx-h100, nodes: 2, node: {{use: hgx-h100{}}}}}\n"
                                "system: deepspeed\n"
                                "workload: {{sequence_length: 2048, global_batch: 16}}\n"
                                "parallelism: {{sharding: zero3}}\n"
                                "memory: {{recompute: full, offload: {}}}\n",
                                node, offload),
                    "job")
          .job;
  forecast::Forecaster forecaster(text::data_directory());
  forecast::Options options;
  options.fidelity = fidelity;
  return std::get<result::Report>(forecaster.forecast(job, options));
}

}  // namespace

TEST_CASE("Ranks of a node fill its host memory and its drives together", "[laws]") {
  const auto here = report_of("", "none");
  CHECK(here.host_used == Bytes(0));
  CHECK(here.nvme_used == Bytes(0));
  constexpr double kParameters = 8.03e9;  // Llama 3 8B; half of them on each of two nodes
  const auto cpu = report_of("", "{optimizer: cpu, parameters: cpu}");
  CHECK(static_cast<double>(cpu.host_used.count()) ==
        Approx(kParameters / 2 * (12 + 2 + 4)).epsilon(0.02));
  CHECK(cpu.fits);
  const auto drives = report_of("", "{optimizer: nvme, gradients: cpu}");
  CHECK(static_cast<double>(drives.nvme_used.count()) ==
        Approx(kParameters / 2 * 12).epsilon(0.02));
  const auto full = report_of("", "{optimizer: cpu, parameters: cpu}", forecast::Fidelity::full);
  CHECK(full.host_used == cpu.host_used);
  CHECK(full.step_time.value == cpu.step_time.value);

  CHECK_FALSE(report_of(", host_memory: 64 GiB", "{optimizer: cpu, parameters: cpu}").fits);
  CHECK_FALSE(report_of(", nvme: 40 GB", "{optimizer: nvme, gradients: cpu}").fits);
  CHECK(report_of(", nvme: 50 GB", "{optimizer: nvme, gradients: cpu}").fits);
  // Activations: the host holds only buffers, and the drives hold the rest.
  const auto saved = report_of("", "{activations: cpu}");
  const auto away = report_of("", "{activations: nvme}");
  CHECK(away.host_used.count() + away.nvme_used.count() >= saved.host_used.count());
  CHECK(2 * away.host_used.count() < saved.host_used.count());
  CHECK(away.fits);
  CHECK_FALSE(report_of(", nvme: 1 GB", "{activations: nvme}").fits);
  // A GPU that is too small is still reported as before.
  CHECK(report_of("", "{optimizer: cpu, parameters: cpu}").peak.value < here.peak.value);
}
