// Which fit prices a group, and the price. The law stands in collective/predict.h, NCCL's model in
// collective/line.h.
#include "stepcast/cost/collectives.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "collective/predict.h"
#include "nccl_calibration.h"

namespace stepcast::cost {
namespace {

// Relative standard deviation of NCCL's plain model against the healthy logs of
// calibration/nccl/data, all systems: what a system without logs of its own must expect. Last line
// of `fit_collectives calibration --check`.
constexpr double kBlindSmall = 0.67;  // below 1 MiB
constexpr double kBlindLarge = 0.50;

std::string normal(std::string name) {
  for (char& c : name) {
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& n) { return normal(n) == normal(name); });
}

// How well a file describes a cluster; 0: not at all. A domain file speaks for its devices, else
// for their generation (an H800 behaves like an H100 with fewer links); a network file for its own
// nodes, else its kind of fabric, else its rate.
int match(const NcclFile& file, const job::Cluster& cluster) {
  const bool device = holds(file.devices, cluster.device.name);
  if (file.scope == Scope::domain) {
    const bool nvlink =
        cluster.node.intra != job::Node::Intra::pcie && cluster.device.nvlink.count() > 0;
    const bool like =
        std::floor(file.compute_capability) == std::floor(cluster.device.compute_capability) &&
        file.nvlink == nvlink;
    int fits = 0;  // of several of a generation, the best measured
    for (const auto& op : file.fits) {
      fits += static_cast<int>(op.size());
    }
    constexpr int kOwn = 1000;
    return (device && file.nvlink == nvlink) ? kOwn : like ? fits : 0;
  }
  const bool node = holds(file.nodes, cluster.node.name) || holds(file.nodes, cluster.name);
  const bool fabric = holds(file.fabrics, cluster.fabric.name);
  const int ports = std::max(1, std::min(cluster.node.nics, cluster.node.gpus));
  const double port = cluster.node.nic.count() * cluster.node.nics / ports;
  const bool rate = std::abs(port / file.nic - 1) < 0.05;
  const int score = (node ? 8 : 0) + (fabric ? 4 : 0) + (rate ? 2 : 0);
  return score > 0 ? score + (device ? 1 : 0) : 0;
}

// A file without logs of an operation lends the nearest relative's: [op][choice].
constexpr int kRelatives[kOps][4] = {{0, 1, 2, -1},   {1, 2, 0, -1}, {2, 1, 0, -1},
                                     {3, -1, -1, -1}, {4, 1, 0, -1}, {5, 3, -1, -1}};

const std::vector<SizedFit>* find_fits(const NcclFile* file, int op) {
  for (int i = 0; file != nullptr && i < 4 && kRelatives[op][i] >= 0; ++i) {
    const auto& fits = file->fits[kRelatives[op][i]];
    if (!fits.empty()) {
      return &fits;
    }
  }
  return nullptr;
}

Fit fit_for(const std::vector<SizedFit>* fits, int size) {
  if (fits == nullptr) {
    return {};
  }
  const auto above =
      std::find_if(fits->begin(), fits->end(), [&](const SizedFit& f) { return f.size >= size; });
  if (above == fits->begin()) {
    return above->fit;
  }
  if (above == fits->end()) {
    return fits->back().fit;
  }
  const SizedFit& low = *(above - 1);
  const double w = std::log(static_cast<double>(size) / low.size) /
                   std::log(static_cast<double>(above->size) / low.size);
  return mix(low.fit, above->fit, w);
}

int forced_algorithm(const std::optional<std::string>& name) {
  const auto all = algorithms();
  for (int i = 0; name && i < static_cast<int>(all.size()); ++i) {
    if (all[static_cast<std::size_t>(i)].nccl_name[0] != '\0' &&
        normal(*name) == all[static_cast<std::size_t>(i)].nccl_name) {
      return i;
    }
  }
  return -1;
}

int forced_protocol(const std::optional<std::string>& name) {
  for (int p = 0; name && p < 3; ++p) {
    if (normal(*name) == to_string(static_cast<Protocol>(p))) {
      return p;
    }
  }
  return -1;
}

struct CurvePair {
  CurveId latency = 0;
  CurveId bandwidth = 0;
};

}  // namespace

const char* to_string(Collective c) {
  constexpr const char* kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                    "broadcast"};
  return kNames[static_cast<int>(c)];
}
const char* to_string(Algorithm a) {
  constexpr const char* kNames[] = {"ring", "tree", "nvls", "nvlstree", "pairwise", "direct"};
  return kNames[static_cast<int>(a)];
}
const char* to_string(Protocol p) {
  constexpr const char* kNames[] = {"ll", "ll128", "simple"};
  return kNames[static_cast<int>(p)];
}

struct Collectives::State {
  std::shared_ptr<const std::vector<NcclFile>> files;
  const std::vector<SizedFit>* fits[2][kOps] = {};
  CurvePair curves[2][kOps];
  Allowed allowed;
  double capability = 0;
};

Collectives::Collectives(const job::Cluster& cluster, const job::Nccl& forced,
                         const std::filesystem::path& calibration_dir,
                         const std::vector<std::string>& only, CurveTable& curves)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.files = read_nccl_files(calibration_dir);
  s.allowed = {forced_algorithm(forced.algo), forced_protocol(forced.proto)};
  s.capability = cluster.device.compute_capability;
  const auto wanted = [&](const NcclFile& f) {
    return only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string& path) {
             return std::filesystem::path(path).filename() ==
                    std::filesystem::path(f.file).filename();
           });
  };
  for (const Scope scope : {Scope::domain, Scope::network}) {
    const NcclFile* best = nullptr;
    int score = 0;
    for (const NcclFile& f : *s.files) {
      const int m = f.scope == scope && wanted(f) ? match(f, cluster) : 0;
      if (m > score) {
        score = m;
        best = &f;
      }
    }
    const int row = static_cast<int>(scope);
    for (int op = 0; op < kOps; ++op) {
      const auto* fits = find_fits(best, op);
      s.fits[row][op] = fits;
      Curve curve;
      const std::string where = scope == Scope::domain ? "NVLink or PCIe domain" : "network";
      curve.name = std::string("nccl ") + op_name(op) + ", " + where;
      curve.device = cluster.device.name;
      double small = kBlindSmall;
      double large = kBlindLarge;
      if (fits != nullptr) {
        curve.file = best->file;
        curve.provenance = best->provenance;
        small = large = 0;  // root mean square over the group sizes fitted
        for (const SizedFit& f : *fits) {
          small += f.small_residual * f.small_residual;
          large += f.large_residual * f.large_residual;
        }
        small = std::sqrt(small / static_cast<double>(fits->size()));
        large = std::sqrt(large / static_cast<double>(fits->size()));
      } else {
        curve.file = "datasheet";
        curve.provenance =
            "NCCL 2.30.7's tuning model on the data sheet's link rates; no logs of this system";
      }
      curve.residual = large;
      Curve latency = curve;
      latency.name += ", latency";
      latency.residual = small;
      s.curves[row][op] = {curves.add(latency), curves.add(curve)};
    }
  }
}

Collectives::~Collectives() = default;
Collectives::Collectives(Collectives&&) noexcept = default;

CollectivePrice Collectives::price(Collective op, Bytes bytes,
                                   const cluster::GroupShape& group) const {
  CollectivePrice price;
  if (group.ranks <= 1) {
    return price;
  }
  const State& st = *state_;
  const auto amount = static_cast<double>(bytes.count());
  const Situation s = situate(group);
  const int row = s.domains > 1 && !s.pcie_between ? 1 : 0;
  const int index = static_cast<int>(op);
  const Offer o = offer(s, op, st.allowed);
  STEPCAST_CHECK(o.count > 0, "a group has no link to communicate over");
  const Fit fit = fit_for(st.fits[row][index], row == 1 ? s.domains : s.ranks);
  const Predicted time = predict(o, fit, amount);
  const Line& line = choose(o, s, op, amount);

  price.algorithm = line.algorithm;
  price.protocol = line.protocol;
  price.latency = seconds(time.latency);
  price.fluid = seconds(time.fluid);
  price.sms = launch_channels(s, line, amount);
  price.latency_curve = st.curves[row][index].latency;
  price.curve = st.curves[row][index].bandwidth;

  Traffic traffic{};
  for (const Entry& e : algorithms()) {
    if (e.algorithm == line.algorithm) {
      traffic = e.traffic(s, op, amount);
    }
  }
  // Alone, an operation takes its curve's time: what it asks of a link never exceeds that link's
  // capacity.
  traffic.nvlink = std::min(traffic.nvlink, time.fluid * group.nvlink.count());
  if (s.nics > 0) {
    traffic.nic = std::min(traffic.nic, time.fluid * group.nic_per_domain.count() / s.nics);
  }
  price.nvlink = Bytes(static_cast<std::int64_t>(traffic.nvlink));
  price.nic = Bytes(row == 1 ? static_cast<std::int64_t>(traffic.nic) : 0);
  price.spine = Bytes(group.crosses_spine ? static_cast<std::int64_t>(traffic.spine) : 0);
  return price;
}

CollectivePrice Collectives::point_to_point(Bytes bytes, const cluster::Path& path) const {
  CollectivePrice price;
  price.algorithm = Algorithm::direct;
  if (path.kind == cluster::PathClass::self || bytes.count() <= 0) {
    return price;
  }
  const State& st = *state_;
  const auto amount = static_cast<double>(bytes.count());
  const bool network = path.kind == cluster::PathClass::network;
  const int row = network ? 1 : 0;
  Line line = direct_line(path, st.capability);
  STEPCAST_CHECK(line.bandwidth > 0, "a path has no bandwidth");
  Offer o;
  o.add(line);
  const Predicted time = predict(o, fit_for(st.fits[row][kSend], 2), amount);
  price.latency = seconds(time.latency);
  price.fluid = seconds(time.fluid);
  price.sms = direct_channels(path, amount);
  price.latency_curve = st.curves[row][kSend].latency;
  price.curve = st.curves[row][kSend].bandwidth;
  const auto crossing =
      Bytes(static_cast<std::int64_t>(std::min(amount, time.fluid * path.bandwidth.count())));
  if (network) {
    price.nic = crossing;
    price.spine = path.hops > 4 ? crossing : Bytes(0);
  } else {
    price.nvlink = crossing;
  }
  return price;
}

}  // namespace stepcast::cost
