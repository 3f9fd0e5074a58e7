#include "stepcast/lower/captured.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "../passes/slowdown.h"
#include "../world/collective_price.h"
#include "captured_draft.h"

namespace stepcast::lower {
namespace {

bool on_compute_stream(const capture::Task& task) {
  return task.stream == 0 && task.kind != capture::TaskKind::sync &&
         task.kind != capture::TaskKind::host;
}

std::optional<Infeasible> unfit(const capture::Capture& capture,
                                const cluster::Topology& topology) {
  if (topology.devices() != capture.world_size) {
    return Infeasible{"cluster.nodes",
                      fmt::format("the capture is of {} rank{} and the cluster has {} GPUs; "
                                  "expected as many: other --nodes, --set cluster.node.gpus={} for "
                                  "a part of one node, or a capture with --world-size {}",
                                  capture.world_size, capture.world_size == 1 ? "" : "s",
                                  topology.devices(), capture.world_size, topology.devices())};
  }
  for (const capture::Rank& rank : capture.ranks) {
    if (std::none_of(rank.tasks.begin(), rank.tasks.end(), on_compute_stream)) {
      return Infeasible{
          "program",
          fmt::format("rank {} was recorded without a task on its compute stream", rank.rank)};
    }
  }
  for (int r = 1; r < topology.devices(); ++r) {
    if (topology.device(r).name != topology.device(0).name) {
      return Infeasible{"cluster",
                        "devices that differ from each other are not forecast from a capture"};
    }
  }
  return std::nullopt;
}

void make_captured_slowdowns(CapturedDraft& w) {
  const cost::Overlap overlap = w.kernels.overlap();
  auto curves = w.prices.collectives->slowdown_curves();
  if (overlap.measured) {
    curves = {overlap.arithmetic_curve, overlap.memory_curve};
  }
  w.out.world.slowdowns.resize(3);
  w.out.world.slowdowns[0].speed = {1'000'000};
  for (const auto& [row, kind, curve] :
       {std::tuple{kCapturedArithmetic, kArithmeticBound, curves.sms},
        std::tuple{kCapturedMemory, kMemoryBound, curves.memory}}) {
    w.out.world.slowdowns[row] = slowdown_of(w.topology.device(0), kind, overlap);
    w.out.world.slowdowns[row].curve = curve;
  }
}

// Names of operators that are priced by their bytes alone, those of most time first.
std::vector<std::string> longest(const std::map<std::string, Time>& by_bytes) {
  std::vector<std::pair<Time, std::string>> order;
  for (const auto& [name, time] : by_bytes) {
    order.emplace_back(time, name);
  }
  std::sort(order.begin(), order.end(), std::greater<>());
  std::vector<std::string> out;
  for (const auto& [time, name] : order) {
    out.push_back(name);
  }
  return out;
}

}  // namespace

std::variant<CapturedWorld, Infeasible> build_world(const capture::Capture& capture,
                                                    const cluster::Topology& topology,
                                                    const Prices& prices, Time launch,
                                                    std::vector<double> loads) {
  if (auto why = unfit(capture, topology)) {
    return *why;
  }
  CapturedDraft w{capture, topology, prices, *prices.kernels.at(topology.device(0).name), launch};
  w.loads = std::move(loads);
  for (const capture::Rank& rank : capture.ranks) {
    w.out.world.programs.push_back(captured_program(w, rank));
  }
  if (auto why = captured_groups(w)) {
    return *why;
  }
  widen_capacities(w.out.world);
  make_captured_slowdowns(w);
  w.out.world.labels = w.labels.all();
  for (program::Program& p : w.out.world.programs) {
    p.labels = w.out.world.labels;
  }
  for (const cost::Curve& c : prices.curves->curves()) {
    w.out.world.curves.push_back({c.name, c.file, c.residual, {}});
  }
  w.out.loads = w.loads;
  w.out.operators = longest(w.by_bytes);
  return std::move(w.out);
}

}  // namespace stepcast::lower
