#include "program.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "../command_line/command_line.h"
#include "stepcast/capture/capture.h"
#include "stepcast/input/input.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

// The cluster, with as many nodes as the captured ranks need where nobody says how many.
input::Network network_of(const std::string& cluster, int nodes,
                          const std::vector<std::string>& overrides,
                          const capture::Capture& capture) {
  input::Network network = input::network(cluster, std::max(1, nodes), overrides);
  const int each = network.cluster.node.gpus;
  if (nodes > 0 || capture.world_size % each != 0) {
    return network;
  }
  return input::network(cluster, capture.world_size / each, overrides);
}

}  // namespace

void add_program_options(Command& app, ProgramOptions& given) {
  app.add_option("--program", given.file,
                 "forecast a program that simulate capture recorded, on --cluster and --nodes")
      .type_name("FILE");
  app.add_option("--tokens", given.tokens,
                 "with --program: tokens of a step, all ranks together, for the throughput")
      .type_name("N");
  app.add_option("--host-scale", given.host_scale,
                 "with --program: take the captured host times by this factor, 1 where the "
                 "training node's CPU is as fast as the one that captured (left out: each launch "
                 "takes what it takes in jobs)")
      .type_name("X");
}

void refuse_without_program(const ProgramOptions& given) {
  for (const auto& [option, value] :
       {std::pair{"--tokens", &given.tokens}, std::pair{"--host-scale", &given.host_scale}}) {
    if (!value->empty()) {
      throw option_fault(option, "goes with --program; expected both");
    }
  }
}

CapturedForecast forecast_program(const ProgramOptions& given, const std::string& cluster,
                                  int nodes, const std::vector<std::string>& overrides,
                                  const forecast::Options& options) {
  if (cluster.empty()) {
    throw option_fault("--cluster", "missing; expected a cluster such as dgx-h100");
  }
  if (options.fidelity == forecast::Fidelity::bound) {
    throw option_fault("--fidelity",
                       "a captured program has no closed form; expected folded or full");
  }
  capture::Capture capture = capture::read(given.file);
  if (!given.host_scale.empty()) {
    const double factor = number_list("--host-scale", given.host_scale, 1).front();
    if (factor > 1000) {
      throw option_fault("--host-scale", "expected a factor from 0 to 1000");
    }
    capture.host_scale = factor;
  }
  for (const std::string& set : overrides) {
    if (!set.starts_with("cluster") && !set.starts_with("nccl") &&
        !set.starts_with("moe.balance")) {
      throw option_fault(
          "--set " + set,
          "a captured program has its model and job in it; expected a key of cluster "
          "or nccl, or moe.balance");
    }
  }
  // Of a job's other keys, a program takes the one on what no capture knows.
  std::vector<std::string> of_cluster = overrides;
  const auto load =
      std::stable_partition(of_cluster.begin(), of_cluster.end(),
                            [](const std::string& set) { return !set.starts_with("moe.balance"); });
  const std::vector<std::string> of_experts(load, of_cluster.end());
  of_cluster.erase(load, of_cluster.end());
  const input::Network network = network_of(cluster, nodes, of_cluster, capture);
  CapturedForecast out;
  for (const capture::Rank& rank : capture.ranks) {
    out.recorded.push_back(rank.rank);
  }
  out.on.job.cluster = network.cluster;
  out.on.job.nccl = network.nccl;
  out.on.job.moe.balance = config::expert_balance(of_experts);
  forecast::Forecaster forecaster(text::data_directory());
  const int tokens = integer_option("--tokens", given.tokens, 1, 0);
  auto outcome = forecaster.forecast(capture, out.on.job, tokens, options);
  if (const auto* why = std::get_if<Infeasible>(&outcome)) {
    throw option_fault(why->key == "cluster.nodes" ? "--nodes"
                       : why->key == "moe.balance" ? "--set moe.balance"
                                                   : "--program",
                       why->reason);
  }
  out.report = std::move(std::get<result::Report>(outcome));
  return out;
}

}  // namespace stepcast::cli
