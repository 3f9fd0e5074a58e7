// Which fit prices a group, and the price. The law stands in collective/predict.h, NCCL's model in
// collective/line.h.
#include "stepcast/cost/collectives.h"

#include <algorithm>
#include <cmath>

#include "collective/predict.h"
#include "nccl_match.h"

namespace stepcast::cost {
namespace {

int forced_algorithm(const std::optional<std::string>& name) {
  const auto all = algorithms();
  for (int i = 0; name && i < static_cast<int>(all.size()); ++i) {
    if (all[static_cast<std::size_t>(i)].nccl_name[0] != '\0' &&
        normal_name(*name) == all[static_cast<std::size_t>(i)].nccl_name) {
      return i;
    }
  }
  return -1;
}

int forced_protocol(const std::optional<std::string>& name) {
  for (int p = 0; name && p < 3; ++p) {
    if (normal_name(*name) == to_string(static_cast<Protocol>(p))) {
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
                                    "broadcast",  "reduce",     "gather",         "scatter"};
  return kNames[static_cast<int>(c)];
}
const char* to_string(Algorithm a) {
  constexpr const char* kNames[] = {"ring",     "tree",         "nvls",          "nvlstree",
                                    "pairwise", "direct",       "collnetdirect", "collnetchain",
                                    "pat",      "hierarchical", "torus"};
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
  for (const Scope scope : {Scope::domain, Scope::network}) {
    const NcclFile* best = match_file(*s.files, scope, cluster, only);
    const int row = static_cast<int>(scope);
    for (int op = 0; op < kOps; ++op) {
      const auto* fits = find_fits(best, op);
      s.fits[row][op] = fits;
      Curve curve;
      const std::string where = scope == Scope::domain ? "NVLink or PCIe domain" : "network";
      curve.name = std::string("nccl ") + op_name(op) + ", " + where;
      curve.device = cluster.device.name;
      const Residuals residual = residuals(best, fits);
      if (fits != nullptr) {
        curve.file = best->file;
        curve.provenance = best->provenance;
      } else {
        curve.file = "datasheet";
        curve.provenance =
            "NCCL 2.30.7's tuning model on the data sheet's link rates; no logs of this system";
      }
      curve.residual = residual.large;
      Curve latency = curve;
      latency.name += ", latency";
      latency.residual = residual.small;
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
