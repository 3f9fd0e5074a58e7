// From points of nccl-tests logs to a calibration file: what each point's group offers, the curves
// (collective/fit.h), and how well they predict logs that they did not see.
#include "stepcast/cost/nccl_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "collective/fit.h"
#include "nccl_match.h"

namespace stepcast::cost {
namespace {

[[noreturn]] void fail(const std::string& message) { throw InputError(Fault{{}, message}); }

int algorithm_of(const std::string& name) {
  for (int a = 0; a < static_cast<int>(algorithms().size()); ++a) {
    if (!name.empty() && normal_name(name) == algorithms()[static_cast<std::size_t>(a)].nccl_name) {
      return a;
    }
  }
  return -1;
}

struct Placed {
  int op = 0;
  int size = 0;  // ranks of the domain, or domains of the network
  Point point;
};

Placed place(const NcclSystem& system, const NcclLog& log, const NcclPoint& p) {
  Placed placed;
  placed.op = op_of(p.collective);
  if (placed.op < 0) {
    fail(fmt::format("{}: no collective is named '{}'", log.name, p.collective));
  }
  job::Cluster cluster = system.cluster;
  cluster.nodes = p.nodes;
  auto made = cluster::Topology::build(cluster);
  if (const auto* no = std::get_if<Infeasible>(&made)) {
    fail(fmt::format("{}: {}", log.name, no->reason));
  }
  const auto& topology = std::get<cluster::Topology>(made);
  placed.point.bytes = static_cast<double>(p.size.count());
  placed.point.seconds = to_seconds(p.time);
  placed.point.log = p.log;
  if (!(placed.point.seconds > 0) || p.gpus_per_node < 1 || p.gpus_per_node > cluster.node.gpus) {
    fail(fmt::format("{}: a time above 0 and at most {} GPUs a node expected", log.name,
                     cluster.node.gpus));
  }
  std::vector<int> slots;
  std::set<int> domains;
  for (int node = 0; node < p.nodes; ++node) {
    for (int g = 0; g < p.gpus_per_node; ++g) {
      slots.push_back(node * cluster.node.gpus + g);
      domains.insert(topology.domain_of(slots.back()));
    }
  }
  if (slots.size() < 2) {
    fail(fmt::format("{}: a collective of one rank", log.name));
  }
  const bool network = system.scope == NcclScope::network;
  if (placed.op == kSend) {
    const int to = p.nodes > 1 ? cluster.node.gpus : 1;
    placed.point.offer.add(direct_line(topology.path(0, to), cluster.device.compute_capability));
    placed.size = 2;
  } else {
    placed.point.offer = offer(situate(topology.shape(slots)), static_cast<Collective>(placed.op),
                               {algorithm_of(log.algo), -1});
    placed.size = static_cast<int>(network ? domains.size() : slots.size());
  }
  return placed;
}

std::vector<double> predictions(const std::vector<Point>& points, const Fit& fit) {
  std::vector<double> all;
  for (const Point& p : points) {
    all.push_back(predict(p.offer, fit, p.bytes).total());
  }
  return all;
}

// A class that a series does not measure takes the other's spread, and at least twice the usual
// one.
double spread(const NcclDeviation& own, const NcclDeviation& other) {
  constexpr double kUsual = 0.1;
  return own.points >= 4 ? own.spread : std::max(2 * kUsual, other.spread);
}

std::string join(const std::vector<std::string>& names) {
  std::string s;
  for (const auto& n : names) {
    s += (s.empty() ? "" : ", ") + n;
  }
  return s;
}

std::string heading(const NcclSystem& system, const std::vector<NcclLog>& logs) {
  std::set<std::string> versions;
  for (const auto& log : logs) {
    versions.insert(log.nccl.empty() ? "not stated" : log.nccl);
  }
  const std::string provenance =
      fmt::format("{} nccl-tests logs; NCCL {}", logs.size(),
                  join(std::vector<std::string>(versions.begin(), versions.end())));
  const job::Cluster& c = system.cluster;
  const int ports = std::max(1, std::min(c.node.nics, c.node.gpus));
  return fmt::format(
      "# Written from nccl-tests logs; do not edit. The law: src/cost/collective/predict.h.\n"
      "kind: nccl\nsystem: {}\nscope: {}\ndevices: [{}]\nnodes: [{}]\nfabrics: [{}]\n"
      "compute_capability: {:g}\nnvlink: {}\nnic: {:g} GB/s\nprovenance: \"{}\"\n"
      "knots: {{first: {}, step: {}}}  # x = log2(bytes / (best bandwidth * least latency))\n",
      system.name, system.scope == NcclScope::network ? "network" : "domain", join(system.devices),
      join(system.nodes), join(system.fabrics), c.device.compute_capability,
      c.device.nvlink.count() > 0, c.node.nic.count() * c.node.nics / ports / 1e9, provenance,
      kFirst, kStep);
}

}  // namespace

NcclFitted fit_nccl(const NcclSystem& system, const std::vector<NcclLog>& logs,
                    const std::vector<NcclPoint>& points, const std::filesystem::path&) {
  std::map<std::pair<int, int>, std::vector<Point>> series;         // (op, size)
  std::map<std::pair<int, int>, std::vector<std::size_t>> indices;  // into `points`
  for (std::size_t i = 0; i < points.size(); ++i) {
    const NcclPoint& p = points[i];
    const Placed at = place(system, logs.at(static_cast<std::size_t>(p.log)), p);
    series[{at.op, at.size}].push_back(at.point);
    indices[{at.op, at.size}].push_back(i);
  }
  NcclFitted result;
  result.predicted.resize(points.size());
  result.yaml = heading(system, logs) + "ops:\n";
  int last = -1;
  for (const auto& [key, measured] : series) {
    const auto& [op, size] = key;
    const Fit fit = fit_points(measured);
    NcclSeries s;
    s.collective = op_name(op);
    s.size = size;
    s.points = static_cast<int>(measured.size());
    s.blind = deviations(measured, predictions(measured, Fit{}));
    const std::vector<double> fitted = predictions(measured, fit);
    for (std::size_t i = 0; i < fitted.size(); ++i) {
      result.predicted[indices.at(key)[i]] = seconds(fitted[i]);
    }
    s.fitted = deviations(measured, fitted);
    s.left_out = deviations(measured, held_out(measured));
    if (op != last) {
      result.yaml += fmt::format("  {}:\n", op_name(op));
      last = op;
    }
    std::string knots;
    for (const double k : fit.log2_share) {
      knots += fmt::format("{}{:.4f}", knots.empty() ? "" : ", ", k);
    }
    result.yaml += fmt::format(
        "    - {{size: {}, points: {}, latency_factor: {:.4f}, residual: {{below_1MiB: {:.4f}, "
        "from_1MiB: {:.4f}}},\n"
        "       log2_share: [{}]}}\n",
        size, s.points, fit.latency, spread(s.left_out.small, s.left_out.large),
        spread(s.left_out.large, s.left_out.small), knots);
    result.series.push_back(std::move(s));
  }
  return result;
}

NcclExpected expect_nccl(const NcclSystem& system, const NcclLog& log, const NcclPoint& point,
                         const std::filesystem::path& calibration_dir) {
  const Placed at = place(system, log, point);
  const auto files = read_nccl_files(calibration_dir);
  const auto scope = system.scope == NcclScope::network ? Scope::network : Scope::domain;
  const NcclFile* file = match_file(*files, scope, system.cluster, {});
  const auto* fits = find_fits(file, at.op);
  const Residuals r = residuals(fits);
  NcclExpected e;
  e.time = seconds(predict(at.point.offer, fit_for(fits, at.size), at.point.bytes).total());
  constexpr double kLarge = 1048576;  // bytes
  e.residual = at.point.bytes < kLarge ? r.small : r.large;
  e.file = fits == nullptr ? "datasheet" : file->file;
  return e;
}

}  // namespace stepcast::cost
