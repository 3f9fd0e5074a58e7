// Fits collectives to nccl-tests logs:
//   fit_collectives CALIBRATION_DIRECTORY [--check]
// reads nccl/data/systems.yaml and its CSVs there, writes nccl/<system>.yaml (not with --check),
// and prints how well NCCL's plain model, the fit, and fits that did not see a log predict it. The
// last table line gives all systems together: what collectives.cpp states for systems without logs.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <map>

#include "../collective/fit.h"
#include "../nccl_calibration.h"
#include "stepcast/text/document.h"

namespace {

using namespace stepcast;
using namespace stepcast::cost;

const text::Value& need(const text::Value& map, const char* key) {
  const text::Value* v = map.find(key);
  if (v == nullptr) {
    throw InputError(Fault{map.origin, fmt::format("key '{}' is missing", key)});
  }
  return *v;
}

job::Cluster cluster_of(const text::Value& v, int nodes, int domain) {
  job::Cluster c;
  c.nodes = nodes;
  c.node.gpus = static_cast<int>(text::to_integer(need(v, "gpus")));
  c.node.nics = static_cast<int>(text::to_integer(need(v, "nics")));
  c.node.nic = parse_bandwidth(text::to_string(need(v, "nic")));
  c.node.nvls = text::to_bool(need(v, "nvls"));
  c.node.amd_cpu = text::to_bool(need(v, "amd_cpu"));
  c.device.nvlink = parse_bandwidth(text::to_string(need(v, "nvlink")));
  c.device.pcie = parse_bandwidth(text::to_string(need(v, "pcie")));
  c.device.compute_capability = text::to_number(need(v, "compute_capability"));
  c.node.intra = c.device.nvlink.count() > 0 ? job::Node::Intra::nvswitch : job::Node::Intra::pcie;
  c.fabric.nvlink_domain_gpus = domain;
  return c;
}

struct Series {
  std::vector<Point> points;
};

struct LogFacts {
  int index = 0;
  int algorithm = -1;
};

Point point_of(const job::Cluster& cluster, int per_node, int op, double bytes, double seconds,
               const LogFacts& log) {
  auto made = cluster::Topology::build(cluster);
  if (const auto* no = std::get_if<Infeasible>(&made)) {
    throw InputError(Fault{{}, no->reason});
  }
  const auto& topology = std::get<cluster::Topology>(made);
  Point p;
  p.bytes = bytes;
  p.seconds = seconds;
  p.log = log.index;
  std::vector<int> slots;
  for (int node = 0; node < cluster.nodes; ++node) {
    for (int g = 0; g < per_node; ++g) {
      slots.push_back(node * cluster.node.gpus + g);
    }
  }
  if (op == kSend) {
    const int to = cluster.nodes > 1 ? cluster.node.gpus : 1;
    p.offer.add(direct_line(topology.path(0, to), cluster.device.compute_capability));
  } else {
    p.offer =
        offer(situate(topology.shape(slots)), static_cast<Collective>(op), {log.algorithm, -1});
  }
  return p;
}

std::string row(const std::string& name, const Deviations& blind, const Deviations& fitted,
                const Deviations& left_out) {
  const auto part = [](const Deviation& d) {
    return d.points == 0 ? std::string("      -      -")
                         : fmt::format("{:6.1f} {:+6.1f}", 100 * d.median, 100 * d.bias);
  };
  return fmt::format("{:44} {:4} {:4} | {} | {} | {} | {} | {:5.1f} {:5.1f}\n", name,
                     blind.small.points, blind.large.points, part(blind.small), part(blind.large),
                     part(fitted.small), part(fitted.large), 100 * left_out.small.spread,
                     100 * left_out.large.spread);
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
double spread(const Deviation& own, const Deviation& other) {
  constexpr double kUsual = 0.1;
  return own.points >= 4 ? own.spread : std::max(2 * kUsual, other.spread);
}

int run(const std::filesystem::path& calibration, bool write) {
  const auto data = calibration / "nccl" / "data";
  const text::Value systems = text::read_yaml(data / "systems.yaml");
  fmt::print("{:44} {:>4} {:>4} | {:13} | {:13} | {:13} | {:13} | {}\n", "% error: median, bias",
             "<1M", ">=1M", "NCCL <1M", "NCCL >=1M", "fit <1M", "fit >=1M", "left out: std");
  std::vector<std::string> differs;
  std::vector<Point> everything;
  std::vector<double> blind_all;
  std::vector<double> fitted_all;
  std::vector<double> held_all;
  for (const auto& system : systems.entries) {
    const text::Value& about = system.value;
    const bool network = text::to_string(need(about, "scope")) == "network";
    const text::Value& facts = need(about, "cluster");
    const int domain = static_cast<int>(text::to_integer(need(facts, "nvlink_domain_gpus")));
    std::map<std::string, LogFacts> logs;
    std::string provenance;
    std::map<std::string, bool> versions;
    for (const auto& log : need(about, "logs").entries) {
      LogFacts f{static_cast<int>(logs.size()), -1};
      if (const auto* algo = log.value.find("algo")) {
        for (int a = 0; a < static_cast<int>(algorithms().size()); ++a) {
          if (text::to_string(*algo) == algorithms()[static_cast<std::size_t>(a)].nccl_name) {
            f.algorithm = a;
          }
        }
      }
      logs[log.key] = f;
      versions[text::to_string(need(log.value, "nccl"))] = true;
    }
    const text::Table table = text::read_csv(data / (system.key + ".csv"));
    const auto column = [&](const char* name) {
      return static_cast<std::size_t>(table.column(name));
    };
    std::map<std::pair<int, int>, Series> series;  // (op, size)
    for (const auto& r : table.rows) {
      const int op = op_of(r.at(column("collective")));
      const int nodes = std::stoi(r.at(column("nodes")));
      const int per_node = std::stoi(r.at(column("gpus_per_node")));
      const auto cluster = cluster_of(facts, nodes, domain);
      const int in_domain = domain > 0 ? domain : cluster.node.gpus;
      const int domains = (nodes * cluster.node.gpus + in_domain - 1) / in_domain;
      const int size = op == kSend ? 2 : network ? domains : nodes * per_node;
      series[{op, size}].points.push_back(
          point_of(cluster, per_node, op, std::stod(r.at(column("size_bytes"))),
                   std::stod(r.at(column("time_us"))) * 1e-6, logs.at(r.at(column("log")))));
    }
    provenance = fmt::format(
        "{} public nccl-tests logs, listed with sources in nccl/data/systems.yaml; NCCL",
        logs.size());
    for (const auto& [v, used] : versions) {
      provenance += (provenance.back() == 'L' ? " " : ", ") + v;
    }
    std::string out = fmt::format(
        "# Written by fit_collectives from nccl/data/{0}.csv; do not edit. The law: "
        "src/cost/collective/predict.h.\n"
        "kind: nccl\nsystem: {0}\nscope: {1}\n",
        system.key, network ? "network" : "domain");
    const auto list = [](const text::Value& v) {
      std::string s;
      for (const auto& item : v.items) {
        s += (s.empty() ? "" : ", ") + text::to_string(item);
      }
      return s;
    };
    out += fmt::format("devices: [{}]\nnodes: [{}]\nfabrics: [{}]\n", list(need(about, "devices")),
                       list(need(about, "nodes")), list(need(about, "fabrics")));
    const auto one = cluster_of(facts, 1, domain);
    const int ports = std::min(one.node.nics, one.node.gpus);
    out += fmt::format("compute_capability: {:g}\nnvlink: {}\n", one.device.compute_capability,
                       one.device.nvlink.count() > 0);
    out += fmt::format("nic: {:g} GB/s\nprovenance: \"{}\"\n",
                       one.node.nic.count() * one.node.nics / ports / 1e9, provenance);
    out += fmt::format(
        "knots: {{first: {}, step: {}}}  # x = log2(bytes / (best bandwidth * least "
        "latency))\nops:\n",
        kFirst, kStep);
    int last = -1;
    for (const auto& [key, s] : series) {
      const auto& [op, size] = key;
      const Fit fit = fit_points(s.points);
      const auto held = held_out(s.points);
      const auto blind = predictions(s.points, Fit{});
      const auto fitted = predictions(s.points, fit);
      const auto left_out = deviations(s.points, held);
      fmt::print("{}", row(fmt::format("{} {} {}", system.key, op_name(op), size),
                           deviations(s.points, blind), deviations(s.points, fitted), left_out));
      everything.insert(everything.end(), s.points.begin(), s.points.end());
      blind_all.insert(blind_all.end(), blind.begin(), blind.end());
      fitted_all.insert(fitted_all.end(), fitted.begin(), fitted.end());
      held_all.insert(held_all.end(), held.begin(), held.end());
      if (op != last) {
        out += fmt::format("  {}:\n", op_name(op));
        last = op;
      }
      std::string knots;
      for (const double k : fit.log2_share) {
        knots += fmt::format("{}{:.4f}", knots.empty() ? "" : ", ", k);
      }
      out += fmt::format(
          "    - {{size: {}, points: {}, latency_factor: {:.4f}, residual: {{below_1MiB: {:.4f}, "
          "from_1MiB: {:.4f}}},\n"
          "       log2_share: [{}]}}\n",
          size, s.points.size(), fit.latency, spread(left_out.small, left_out.large),
          spread(left_out.large, left_out.small), knots);
    }
    const auto file = calibration / "nccl" / (system.key + ".yaml");
    if (write) {
      std::ofstream(file) << out;
      continue;
    }
    std::ifstream committed(file);
    const std::string text((std::istreambuf_iterator<char>(committed)),
                           std::istreambuf_iterator<char>());
    if (text != out) {
      differs.push_back(file.filename().string());
    }
  }
  fmt::print("{}", row("all", deviations(everything, blind_all), deviations(everything, fitted_all),
                       deviations(everything, held_all)));
  const auto blind = deviations(everything, blind_all);
  fmt::print("NCCL's plain model, standard deviation: {:.2f} below 1 MiB, {:.2f} from 1 MiB\n",
             blind.small.spread, blind.large.spread);
  for (const auto& file : differs) {
    fmt::print("{} is not what its logs give: run fit_collectives without --check\n", file);
  }
  return differs.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string option = argc > 2 ? argv[2] : "";
  if (argc < 2 || (!option.empty() && option != "--check")) {
    fmt::print(stderr, "usage: fit_collectives CALIBRATION_DIRECTORY [--check]\n");
    return 2;
  }
  try {
    return run(argv[1], option.empty());
  } catch (const InputError& e) {
    for (const auto& fault : e.faults()) {
      fmt::print(stderr, "{}\n", to_string(fault));
    }
    return 2;
  }
}
