// Turns logs into a calibration: series of points, a verdict on each, the fit (in `cost`), and the
// text of the file with its provenance.
#include "stepcast/calibrate/nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "device_names.h"
#include "health.h"
#include "provenance.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/base/statistics.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/text/document.h"

namespace stepcast::calibrate {
namespace {

using cost::NcclScope;
using result::CalibrationSeries;
using result::Health;

constexpr std::int64_t kMiB = 1 << 20;

// Bytes on the busiest link over bytes of the size column (nccl-tests: doc/PERFORMANCE.md).
double bus_factor(const std::string& op, int ranks) {
  const double n = ranks;
  if (op == "all_reduce") {
    return 2 * (n - 1) / n;
  }
  return op == "broadcast" || op == "reduce" || op == "sendrecv" ? 1 : (n - 1) / n;
}

bool both_halves_alike(const std::string& op) { return op != "alltoall" && op != "sendrecv"; }

// The kind of network behind a fabric's name (configs/fabrics), as calibration files name kinds.
std::string link_of(const std::string& fabric) {
  for (const char* link : {"ib", "roce", "efa", "slingshot", "tcpx", "tcp", "ethernet"}) {
    const std::string name = link;
    if (fabric == name || fabric.starts_with(name + "-")) {
      return name;
    }
  }
  return "";
}

// One operation of one run, before it is judged.
struct Series {
  CalibrationSeries out;
  std::vector<Sample> samples;
  NcclScope scope = NcclScope::domain;
  std::string other_device;  // the GPU that the log names, where it is not the cluster's
  bool own_model = false;    // the expected times come from a fit to this kind of machine
  int ranks() const { return out.nodes * out.gpus_per_node; }
};

class Calibrator {
 public:
  Calibrator(const job::Cluster& cluster, const NcclOptions& options,
             const std::filesystem::path& calibration_dir)
      : cluster_(cluster), options_(options), directory_(calibration_dir) {}

  result::Calibration run(const std::vector<interop::CollectiveLog>& logs) {
    std::vector<std::string> files;
    for (const auto& log : logs) {
      files.push_back(log.file);
    }
    const std::vector<std::string> names = log_names(files);
    for (std::size_t i = 0; i < logs.size(); ++i) {
      for (const auto& measured : logs[i].runs) {
        take(logs[i], names[i], measured);
      }
    }
    if (!faults_.empty()) {
      throw InputError(std::move(faults_));
    }
    judge_all();
    result::Calibration out;
    out.system = options_.system;
    out.cluster = cluster_.name;
    for (const NcclScope scope : {NcclScope::domain, NcclScope::network}) {
      fit(scope, out);
    }
    for (Series& s : series_) {
      out.series.push_back(std::move(s.out));
    }
    return out;
  }

 private:
  void fault(const interop::CollectiveLog& log, int line, std::string message) {
    faults_.push_back({{log.file, line, 1}, std::move(message)});
  }

  // Adds the series of one run. Adds nothing if its placement is faulty.
  void take(const interop::CollectiveLog& log, const std::string& name,
            const interop::CollectiveRun& run) {
    const auto& placement =
        run.ranks_per_node.empty() ? options_.ranks_per_node : run.ranks_per_node;
    if (placement.empty()) {
      fault(log, run.line,
            "the log does not list its devices in full; expected --nodes and --gpus-per-node");
      return;
    }
    const int most = *std::max_element(placement.begin(), placement.end());
    if (most > cluster_.node.gpus) {
      fault(log, run.line,
            fmt::format("{} GPUs of a node ran it; a node of {} has {}; expected another --cluster",
                        most, cluster_.name, cluster_.node.gpus));
      return;
    }
    std::vector<std::string> order;
    std::map<std::string, std::map<std::int64_t, std::vector<const interop::CollectivePoint*>>> ops;
    for (const auto& p : run.points) {
      const std::string& op = p.collective.empty() ? options_.op : p.collective;
      if (op.empty()) {
        fault(log, run.line, "the log does not name its collective; expected --op");
        return;
      }
      if (ops.count(op) == 0) {
        order.push_back(op);
      }
      ops[op][p.bytes].push_back(&p);
    }
    for (const std::string& op : order) {
      Series s;
      s.out.file = log.file;
      s.out.name = name;
      s.out.line = run.line;
      s.out.op = op;
      s.out.nodes = static_cast<int>(placement.size());
      s.out.gpus_per_node = most;
      s.out.nccl = run.nccl_version;
      s.out.algorithm = run.algorithm;
      s.out.protocol = run.protocol;
      s.out.date = run.date;
      for (const std::string& device : run.devices) {
        if (!may_be(device, cluster_.device.name)) {
          s.other_device = device;
        }
      }
      const bool even = std::all_of(placement.begin(), placement.end(),
                                    [&](int n) { return n == placement.front(); });
      if (!even) {
        s.out.left_out = "its nodes hold unequal numbers of ranks";
      } else if (s.ranks() < 2) {
        s.out.left_out = "one rank has no other to communicate with";
      } else if (op == "hypercube") {
        s.out.left_out = "hypercube is not modelled";
      } else if (!run.protocol.empty()) {
        s.out.left_out = "NCCL_PROTO=" + run.protocol +
                         " was forced, so the times are not those of NCCL's own choice";
      } else {
        s.scope = scope_of(placement);
      }
      sizes(ops[op], s);
      series_.push_back(std::move(s));
    }
  }

  NcclScope scope_of(const std::vector<int>& placement) const {
    job::Cluster cluster = cluster_;
    cluster.nodes = std::max(cluster.nodes, static_cast<int>(placement.size()));
    auto made = cluster::Topology::build(cluster);
    if (const auto* why = std::get_if<Infeasible>(&made)) {
      throw InputError(Fault{{why->key, 0, 0}, why->reason});
    }
    const auto& topology = std::get<cluster::Topology>(made);
    std::set<int> domains, nodes;
    for (std::size_t node = 0; node < placement.size(); ++node) {
      for (int g = 0; g < placement[node]; ++g) {
        const int slot = static_cast<int>(node) * cluster.node.gpus + g;
        domains.insert(topology.domain_of(slot));
        nodes.insert(topology.node_of(slot));
      }
    }
    // Domains of one node are joined by its PCIe tree, not by the network.
    return domains.size() > 1 && nodes.size() > 1 ? NcclScope::network : NcclScope::domain;
  }

  static void sizes(
      const std::map<std::int64_t, std::vector<const interop::CollectivePoint*>>& measured,
      Series& s) {
    for (const auto& [bytes, points] : measured) {
      std::vector<double> halves[2];
      bool wrong = false;
      for (const auto* p : points) {
        // Early versions print the largest deviation instead, which is far below one where only
        // rounding differs.
        constexpr double kDeviation = 0.5;
        wrong = wrong || (p->wrong && *p->wrong > kDeviation);
        if (p->seconds > 0) {
          halves[p->in_place ? 1 : 0].push_back(p->seconds);
        }
      }
      if (wrong) {
        ++s.out.wrong;
        continue;
      }
      if (halves[0].empty() && halves[1].empty()) {
        continue;  // the log has 0.00 us
      }
      Sample sample;
      sample.bytes = bytes;
      sample.seconds = median(halves[0].empty() ? halves[1] : halves[0]);
      if (!halves[0].empty() && both_halves_alike(s.out.op)) {
        sample.in_place = median(halves[1]);
      }
      s.samples.push_back(sample);
    }
    thin(s.samples);
    if (s.samples.empty() && s.out.left_out.empty()) {
      s.out.left_out = "no size was measured";
    }
  }

  // Thins the sizes of a log, so that one with a size every few kilobytes does not outweigh one of
  // powers of two.
  static void thin(std::vector<Sample>& samples) {
    constexpr double kAnOctave = 4;
    std::vector<Sample> kept;
    for (const Sample& s : samples) {
      const auto step = [&](std::int64_t bytes) {
        return std::floor(kAnOctave * std::log2(static_cast<double>(bytes)) + 1e-9);
      };
      if (kept.empty() || step(s.bytes) > step(kept.back().bytes)) {
        kept.push_back(s);
      }
    }
    samples = std::move(kept);
  }

  // Whether a calibration file names this machine: its device (domain), its node or cluster.
  bool own(const std::string& file, NcclScope scope) const {
    const auto path = directory_ / file;
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) {
      return false;  // "datasheet"
    }
    const text::Value root = text::read_yaml(path);
    const bool domain = scope == NcclScope::domain;
    const text::Value* named = root.find(domain ? "devices" : "nodes");
    return named != nullptr &&
           std::any_of(named->items.begin(), named->items.end(), [&](const text::Value& v) {
             return domain ? v.scalar == cluster_.device.name
                           : v.scalar == cluster_.node.name || v.scalar == cluster_.name;
           });
  }

  cost::NcclSystem system(NcclScope scope) const {
    cost::NcclSystem s;
    s.name = options_.system;
    s.scope = scope;
    const auto names = [](std::initializer_list<std::string> all) {
      std::vector<std::string> out;
      for (const std::string& name : all) {
        if (!name.empty() && std::find(out.begin(), out.end(), name) == out.end()) {
          out.push_back(name);
        }
      }
      return out;
    };
    s.devices = names({cluster_.device.name});
    if (scope == NcclScope::network) {
      s.nodes = names({cluster_.node.name, cluster_.name});
      s.fabrics = names({cluster_.fabric.name});
      s.link = link_of(cluster_.fabric.name);
    }
    s.cluster = cluster_;
    return s;
  }

  cost::NcclLog log_of(const Series& s) const {
    cost::NcclLog log;
    log.name = s.out.name + (s.out.algorithm.empty() ? "" : "." + s.out.algorithm);
    log.nccl = s.out.nccl;
    log.algo = s.out.algorithm;
    return log;
  }

  static cost::NcclPoint point_of(const Series& s, const Sample& sample, int log) {
    return {log,      s.out.nodes,         s.out.gpus_per_node,
            s.out.op, Bytes(sample.bytes), seconds(sample.seconds)};
  }

  void judge_all() {
    std::map<std::tuple<std::string, std::string, int, int>, std::vector<std::size_t>> kinds;
    for (std::size_t i = 0; i < series_.size(); ++i) {
      Series& s = series_[i];
      if (!s.out.left_out.empty()) {
        continue;
      }
      kinds[{s.out.op, s.out.algorithm, s.out.nodes, s.out.gpus_per_node}].push_back(i);
      for (Sample& sample : s.samples) {
        const auto expected =
            cost::expect_nccl(system(s.scope), log_of(s), point_of(s, sample, 0), directory_);
        sample.expected = to_seconds(expected.time);
        sample.residual = expected.residual;
        if (s.out.expected_from.empty()) {
          s.out.expected_from = expected.file;
          s.own_model = own(expected.file, s.scope);
        }
      }
    }
    for (const auto& [kind, members] : kinds) {
      std::vector<std::vector<Sample>> samples;
      for (const std::size_t i : members) {
        samples.push_back(series_[i].samples);
      }
      const auto peers = against_peers(samples);
      for (std::size_t k = 0; k < members.size(); ++k) {
        Series& s = series_[members[k]];
        Verdict verdict = judge({s.samples, s.own_model, s.out.wrong, peers[k]});
        s.out.health = verdict.health;
        s.out.reasons = std::move(verdict.reasons);
        s.out.ratio = verdict.ratio;
        if (!s.other_device.empty()) {
          s.out.health = std::max(s.out.health, Health::suspect);
          s.out.reasons.push_back(fmt::format("its GPUs are {}, the cluster's {}", s.other_device,
                                              cluster_.device.name));
        }
      }
    }
    judge_siblings();
    for (Series& s : series_) {
      if (s.out.health == Health::degraded && s.out.left_out.empty() && !options_.keep_degraded) {
        s.out.left_out = "degraded";
      }
      for (const Sample& sample : s.samples) {
        s.out.points.push_back({sample.bytes, sample.seconds, sample.expected, 0});
      }
      if (s.out.left_out.empty() && options_.scope && s.scope != *options_.scope) {
        s.out.left_out = s.scope == NcclScope::domain ? "inside one domain (--scope network)"
                                                      : "across domains (--scope domain)";
      }
    }
  }

  // Collectives of one job share the faults of its fabric: a suspect series counts as degraded if
  // another series of the same job is degraded.
  void judge_siblings() {
    std::set<std::tuple<std::string, int, int>> broken;
    const auto job = [](const Series& s) {
      return std::tuple(s.out.name, s.out.nodes, s.out.gpus_per_node);
    };
    for (const Series& s : series_) {
      if (s.out.health == Health::degraded) {
        broken.insert(job(s));
      }
    }
    for (Series& s : series_) {
      if (s.out.health == Health::suspect && s.out.ratio > 1 && broken.count(job(s)) > 0) {
        s.out.health = Health::degraded;
        s.out.reasons.push_back("another collective of its log is degraded");
      }
    }
  }

  void fit(NcclScope scope, result::Calibration& out) {
    std::vector<cost::NcclLog> logs;
    std::vector<cost::NcclPoint> points;
    std::map<std::pair<std::string, std::string>, int> known;  // (log, forced algorithm)
    std::vector<std::pair<std::size_t, std::size_t>> origin;   // series, point
    for (std::size_t i = 0; i < series_.size(); ++i) {
      Series& s = series_[i];
      if (!s.out.left_out.empty() || s.scope != scope) {
        continue;
      }
      const auto [at, fresh] =
          known.try_emplace({s.out.name, s.out.algorithm}, static_cast<int>(logs.size()));
      if (fresh) {
        logs.push_back(log_of(s));
      }
      for (std::size_t k = 0; k < s.samples.size(); ++k) {
        points.push_back(point_of(s, s.samples[k], at->second));
        origin.emplace_back(i, k);
      }
    }
    if (points.empty()) {
      return;
    }
    const auto fitted = cost::fit_nccl(system(scope), logs, points, directory_);
    for (std::size_t p = 0; p < points.size(); ++p) {
      const auto& [i, k] = origin[p];
      series_[i].out.points[k].fitted = to_seconds(fitted.predicted.at(p));
      series_[i].out.fitted = true;
    }
    for (Series& s : series_) {
      if (s.out.fitted && s.scope == scope) {
        std::vector<double> errors;
        for (const auto& p : s.out.points) {
          errors.push_back(std::abs(p.fitted / p.measured - 1));
        }
        s.out.error = median(std::move(errors));
      }
    }
    curves(scope, fitted, out);
    std::vector<const CalibrationSeries*> all;
    for (const Series& s : series_) {
      if (s.scope == scope || !s.out.fitted) {
        all.push_back(&s.out);
      }
    }
    out.files.push_back(
        {scope == NcclScope::network ? "network" : "domain", fitted.yaml + provenance(all)});
  }

  // Fills the facts of the curves, with the fitted times at the smallest and the largest size of
  // the logs.
  void curves(NcclScope scope, const cost::NcclFitted& fitted, result::Calibration& out) const {
    for (const auto& f : fitted.series) {
      result::CalibrationCurve c;
      c.op = interop::collective_name(f.collective == "send" ? "sendrecv" : f.collective);
      c.scope = scope == NcclScope::network ? "network" : "domain";
      c.size = f.size;
      c.points = f.points;
      c.small = {f.fitted.small.points, f.fitted.small.median, f.left_out.small.median};
      c.large = {f.fitted.large.points, f.fitted.large.median, f.left_out.large.median};
      const result::CalibrationPoint* least = nullptr;
      const result::CalibrationPoint* most = nullptr;
      int ranks = 0;
      for (const Series& s : series_) {
        if (!s.out.fitted || s.scope != scope || s.out.op != c.op || size_of(s) != f.size) {
          continue;
        }
        for (const auto& p : s.out.points) {
          if (least == nullptr || p.bytes < least->bytes) {
            least = &p;
          }
          if (most == nullptr || p.bytes > most->bytes) {
            most = &p;
            ranks = s.ranks();
          }
        }
      }
      if (least != nullptr) {
        c.latency = least->fitted;
        c.bus_bandwidth = static_cast<double>(most->bytes) / most->fitted * bus_factor(c.op, ranks);
      }
      out.curves.push_back(std::move(c));
    }
  }

  // The size by which curves are ordered: ranks of a domain, or domains of the network.
  int size_of(const Series& s) const {
    if (s.out.op == "sendrecv") {
      return 2;
    }
    if (s.scope == NcclScope::domain) {
      return s.ranks();
    }
    const int domain = std::max(cluster_.fabric.nvlink_domain_gpus, cluster_.node.gpus);
    const int nodes = std::max(1, domain / std::max(1, cluster_.node.gpus));
    return (s.out.nodes + nodes - 1) / nodes;
  }

  const job::Cluster& cluster_;
  const NcclOptions& options_;
  const std::filesystem::path& directory_;
  std::vector<Series> series_;
  std::vector<Fault> faults_;
};

}  // namespace

result::Calibration calibrate_nccl(const job::Cluster& cluster,
                                   const std::vector<interop::CollectiveLog>& logs,
                                   const NcclOptions& options,
                                   const std::filesystem::path& calibration_dir) {
  return Calibrator(cluster, options, calibration_dir).run(logs);
}

}  // namespace stepcast::calibrate
