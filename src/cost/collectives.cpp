// Chooses the fit for a group and prices operations with it. The law is in collective/predict.h,
// NCCL's model in collective/line.h.
#include "stepcast/cost/collectives.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "collective/predict.h"
#include "collective/tokens.h"
#include "nccl_match.h"
#include "stepcast/base/interval.h"
#include "stepcast/job/nccl.h"

namespace stepcast::cost {
namespace {

// A bit for each index below `count` whose name the rule lists.
template <class Name>
unsigned bits(const job::NcclRule& rule, int count, Name&& name) {
  unsigned mask = 0;
  for (int i = 0; i < count; ++i) {
    if (std::find(rule.names.begin(), rule.names.end(), name(i)) != rule.names.end()) {
      mask |= 1U << i;
    }
  }
  return mask;
}

// The rule that applies to an operation, or nullopt.
std::optional<job::NcclRule> rule_for(const std::optional<std::string>& text,
                                      std::span<const std::string_view> names, Collective op) {
  if (!text) {
    return std::nullopt;
  }
  const auto parsed = job::parse_nccl_rules(*text, names);
  const auto* rules = std::get_if<job::NcclRules>(&parsed);
  STEPCAST_CHECK(rules != nullptr, "a name that NCCL does not know");
  std::string function = op == Collective::all_to_all ? "alltoall" : to_string(op);
  function.erase(std::remove(function.begin(), function.end(), '_'), function.end());
  for (const std::string& key : {function, std::string()}) {
    if (const auto found = rules->find(key); found != rules->end()) {
      return found->second;
    }
  }
  return std::nullopt;
}

// NCCL_ALGO has no algorithm for grouped sends and receives: only a rule that names
// `hierarchical` applies to them.
Allowed allowed_for(const job::Nccl& forced, Collective op) {
  Allowed a;
  const auto all = algorithms();
  const int count = static_cast<int>(all.size());
  const auto at = [&](int i) { return all[static_cast<std::size_t>(i)]; };
  if (const auto rule = rule_for(forced.algo, job::nccl_algorithms(), op)) {
    const unsigned mask = bits(*rule, count, [&](int i) { return at(i).nccl_name; });
    a.algorithms = rule->excludes ? ~mask : mask;
    a.named = rule->excludes ? 0 : mask;
  }
  if (const auto rule = rule_for(forced.proto, job::nccl_protocols(), op)) {
    const unsigned mask = bits(*rule, 3, [](int i) { return to_string(static_cast<Protocol>(i)); });
    a.protocols = rule->excludes ? ~mask : mask;
  }
  return a;
}

struct CurvePair {
  CurveId latency = 0;
  CurveId bandwidth = 0;
};

// Share of a network curve's deviation that all operations of a site have in common. The errors of
// sites that a fit did not see (calibration/nccl/data, from 4 MiB on) correlate by 0.78 between
// operations, by 0.34 without the TCP site; this is the square root of a half.
constexpr double kSharedByOperations = 0.7;

// What is added where a curve of NCCL's logs stands in for RCCL over the same kind of network, or
// for a TPU's: not measured; as far as NCCL's own sites are apart from 1 MiB on (27 % in the median
// of networks, calibration/nccl/README.md).
constexpr double kOtherLibrary = 0.27;

// Relative standard deviations of a group's network rate under ECMP's hash, each with a curve of
// its own. A group takes the smallest that is at least its own deviation.
constexpr double kHashSpreads[] = {0.05, 0.1, 0.2, 0.4};
constexpr int kHashed = 4;

double hash_spread(const cluster::GroupShape& g, Algorithm a) {
  const cluster::HashShare share = (a == Algorithm::pairwise ? g.pairs_hash : g.hash).share();
  return std::max(0.0, share.high - share.low) / (2 * kDeviations90 * share.mean);
}

}  // namespace

struct Collectives::State {
  std::shared_ptr<const std::vector<NcclFile>> files;
  const std::vector<SizedFit>* fits[2][kOps] = {};
  CurvePair curves[2][kOps];
  CurveId hashed[kHashed][kOps] = {};  // network curves where routes are hashed
  Allowed allowed[kCollectives];
  Release release = Release::current;
  ChannelLimits limits;
  double link_share = 0;  // of a link's rate that the library assumes for sends
  bool switched = true;
  bool pooled_network = false;  // the network's curve is of no system with these nodes
  double sockets = 0;           // socket_port
  Collectives::SlowdownCurves slowdown;
  CurveId tokens_domain = 0, tokens_network = 0;  // of Collectives::exchange

  Situation situation(cluster::GroupShape group) const {
    if (sockets > 0 && group.nodes > 1) {
      const double most = sockets * std::max(1, group.nics_per_domain);
      const auto limit = [&](Bandwidth& rate, double at_most) {
        rate = Bandwidth(std::min(rate.count(), at_most));
      };
      limit(group.nic_per_rank, most / std::max(1, group.ranks_per_domain));
      limit(group.nic_per_domain, most);
      limit(group.pairs_nic_per_domain, most);
    }
    Situation s = situate(group, release, limits);
    s.switched = switched;
    return s;
  }

  // Seconds that an operation over several nodes takes at least: its ring passes the links inside
  // each node as one of this node alone does. 0: it runs no ring.
  double within_nodes(const Situation& s, Collective op, double amount) const {
    if (op == Collective::all_to_all || op == Collective::gather || op == Collective::scatter) {
      return 0;
    }
    const int index = static_cast<int>(op);
    const Situation one = inside(s);
    const Offer o = offer(one, op, allowed[index]);
    if (o.count == 0) {
      return 0;
    }
    const bool rooted = op == Collective::broadcast || op == Collective::reduce;
    const auto share = [&](int ranks) { return rooted ? 1 : 1 - 1.0 / ranks; };  // of the bytes
    const Predicted alone = predict(o, fit_for(fits[0][index], one.ranks), amount);
    return (alone.latency + alone.fluid) * share(s.ranks) / share(one.ranks);
  }
};

namespace {

// Bytes read and written in a member's memory per byte that its ports send: a byte is read when
// sent and written when received. A reduction also reads it again together with the member's own
// part (NCCL's FIFOs are in memory).
double memory_passes(Collective op) {
  return op == Collective::reduce_scatter || op == Collective::reduce ? 3
         : op == Collective::all_reduce                               ? 2.5
                                                                      : 2;
}

// Few coefficients of overlapped kernels are published. Galvatron measured 1.126 beside NCCL on a
// node of A100 (hardware_configs/overlap_coefficient.json), where 24 channels hold 22 % of the SMs:
// half of what they might take, and twice what 12 would.
constexpr double kSlowdownResidual = 0.5;

Collectives::SlowdownCurves add_slowdown(const job::Cluster& cluster, CurveTable& curves) {
  Curve c;
  c.name = "compute slowed while NCCL holds SMs";
  c.kind = CurveKind::overlap;
  c.file = "overlap";
  c.device = cluster.device.name;
  c.provenance =
      "channels over SMs, and bytes moved over memory bandwidth; one published coefficient "
      "(Galvatron, A100: 1.126), no measurement of our own";
  c.residual = kSlowdownResidual;
  const CurveId sms = curves.add(c);
  c.name = "compute slowed while NCCL takes memory bandwidth";
  return {sms, curves.add(c)};
}

// Says where a curve is used at rates of links at which it was not measured.
void note_scaling(Curve& curve, const NcclFile& file, const job::Cluster& cluster) {
  const job::Device& device = cluster.device;
  const bool network = file.scope == Scope::network;
  const Bandwidth now = network ? nic_port(cluster) : device.nvlink;
  const Bandwidth named = network ? named_nic_port(cluster) : device.named_nvlink;
  const bool measured_otherwise = scales_nics(file, cluster);
  const bool what_if = named.count() > 0 && now.count() > 0 && named.count() != now.count();
  if (!measured_otherwise && !what_if) {
    return;
  }
  const char* links = network ? "NICs" : "NVLink";
  curve.name += fmt::format(", {} of {}", links, to_string(now));
  curve.scaled =
      fmt::format("{}: measured with {} of {}, scaled to {}", file.file, links,
                  to_string(measured_otherwise ? Bandwidth(file.nic) : named), to_string(now));
}

}  // namespace

Collectives::Collectives(const job::Cluster& cluster, const job::Nccl& forced,
                         const std::filesystem::path& calibration_dir,
                         const std::vector<std::string>& only, CurveTable& curves)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.files = read_nccl_heads(calibration_dir);
  for (int op = 0; op < kCollectives; ++op) {
    s.allowed[op] = allowed_for(forced, static_cast<Collective>(op));
  }
  s.release = forced.version ? release_of(*forced.version) : Release::current;
  s.limits = {forced.min_ctas.value_or(0), forced.max_ctas.value_or(0)};
  s.link_share = link_share(hardware::vendor_of(cluster.device), cluster.device.compute_capability);
  s.switched = cluster.node.intra == job::Node::Intra::nvswitch;
  s.slowdown = add_slowdown(cluster, curves);
  s.tokens_domain = curves.add(tokens_curve(cluster.device.name, false));
  s.tokens_network = curves.add(tokens_curve(cluster.device.name, true));
  const auto vendor = hardware::vendor_of(cluster.device);
  const bool foreign = vendor == hardware::Vendor::amd || vendor == hardware::Vendor::google;
  for (const Scope scope : {Scope::domain, Scope::network}) {
    const NcclFile* best = match_file(*s.files, scope, cluster, only);
    const int row = static_cast<int>(scope);
    if (scope == Scope::network) {
      s.sockets = socket_port(best, cluster.node);
      s.pooled_network = best == nullptr || best->pooled;
    }
    for (int op = 0; op < kOps; ++op) {
      const auto* fits = find_fits(best, op);
      s.fits[row][op] = fits;
      Curve curve;
      curve.kind = CurveKind::network;
      const std::string where = scope == Scope::domain ? "NVLink or PCIe domain" : "network";
      curve.name = std::string("nccl ") + op_name(op) + ", " + where;
      curve.device = cluster.device.name;
      Residuals residual = residuals(best, fits);
      if (foreign && scope == Scope::network) {
        residual = {std::hypot(residual.small, kOtherLibrary),
                    std::hypot(residual.large, kOtherLibrary)};
      }
      if (fits != nullptr) {
        curve.file = best->file;
        curve.provenance = best->provenance;
        curve.of_kind = best->pooled || (foreign && scope == Scope::network);
        if (foreign && scope == Scope::network) {
          curve.provenance += "; NCCL's stand in for another library's";
        }
        note_scaling(curve, *best, cluster);
      } else {
        curve.file = "datasheet";
        curve.provenance =
            "NCCL 2.30.7's tuning model on the data sheet's link rates; no logs of this system";
      }
      curve.residual = residual.large;
      Curve latency = curve;
      if (scope == Scope::network) {
        curve.common = Common::fabric;
        curve.shared = kSharedByOperations * residual.large;
      }
      latency.name += ", latency";
      latency.residual = residual.small;
      s.curves[row][op] = {curves.add(latency), curves.add(curve)};
      if (scope == Scope::network && cluster.fabric.routing == job::Fabric::Routing::ecmp) {
        for (int i = 0; i < kHashed; ++i) {
          Curve hashed = curve;
          hashed.name += fmt::format(", hashed routes (+-{:g} %)", 100 * kHashSpreads[i]);
          hashed.residual = std::hypot(curve.residual, kHashSpreads[i]);
          s.hashed[i][op] = curves.add(hashed);
        }
      }
    }
  }
}

Collectives::~Collectives() = default;
Collectives::Collectives(Collectives&&) noexcept = default;

Collectives::SlowdownCurves Collectives::slowdown_curves() const { return state_->slowdown; }

CollectivePrice Collectives::price(Collective op, Bytes bytes,
                                   const cluster::GroupShape& group) const {
  CollectivePrice price;
  if (group.ranks <= 1) {
    return price;
  }
  const State& st = *state_;
  const auto amount = static_cast<double>(bytes.count());
  const Situation s = st.situation(group);
  const int row = s.domains > 1 && !s.pcie_between ? 1 : 0;
  const int index = static_cast<int>(op);
  Offer o = offer(s, op, st.allowed[index]);
  STEPCAST_CHECK(o.count > 0, "a group has no link to communicate over");
  if (group.named) {
    cluster::GroupShape measured = group;
    measured.nvlink = group.named->nvlink;
    measured.nic_per_domain = group.named->nic_per_domain;
    measured.pairs_nic_per_domain = group.named->pairs_nic_per_domain;
    measured.hash = group.named->hash;
    measured.pairs_hash = group.named->pairs_hash;
    const Situation then = st.situation(measured);
    Channels channels{s.channel_share, then.channel_share, std::nullopt};
    if (st.limits.most > 0) {
      channels.most = static_cast<double>(st.limits.most) / then.found_channels;
    }
    measure_by(o, offer(then, op, st.allowed[index]), channels);
  }
  const Fit fit = fit_for(st.fits[row][index], row == 1 ? s.domains : s.ranks);
  Predicted time = predict(o, fit, amount);
  if (row == 1 && st.pooled_network && !group.has_nvlink && s.per_domain > 1) {
    // Of the whole time, since another algorithm's latency may come with more bandwidth.
    const double least = st.within_nodes(s, op, amount);
    time.fluid += std::max(0.0, least - time.latency - time.fluid);
  }
  const Line& line = choose(o, s, op, amount);

  price.algorithm = line.algorithm;
  price.protocol = line.protocol;
  price.latency = seconds(time.latency);
  price.fluid = seconds(time.fluid);
  price.sms = launch_channels(s, line, amount);
  price.latency_curve = st.curves[row][index].latency;
  price.curve = st.curves[row][index].bandwidth;
  const double spread = row == 1 ? hash_spread(group, line.algorithm) : 0;
  if (spread > 0 && st.hashed[0][index] != 0) {
    const auto* level = std::lower_bound(kHashSpreads, kHashSpreads + kHashed - 1, spread);
    price.curve = st.hashed[level - kHashSpreads][index];
  }

  Traffic traffic{};
  for (const Entry& e : algorithms()) {
    if (e.algorithm == line.algorithm) {
      traffic = e.traffic(s, op, amount);
    }
  }
  // Alone on the machine an operation takes the time of its curve, so its traffic on a link never
  // exceeds the link's capacity.
  traffic.nvlink = std::min(traffic.nvlink, time.fluid * group.nvlink.count());
  if (s.nics > 0) {
    traffic.nic = std::min(traffic.nic, time.fluid * group.nic_per_domain.count() / s.nics);
  }
  const double sent = traffic.nvlink + traffic.nic * s.nics / s.per_domain;
  price.memory = Bytes(static_cast<std::int64_t>(memory_passes(op) * sent));
  price.nvlink = Bytes(static_cast<std::int64_t>(traffic.nvlink));
  price.nic = Bytes(row == 1 ? static_cast<std::int64_t>(traffic.nic) : 0);
  const bool spine =
      group.crosses_spine || (line.algorithm == Algorithm::pairwise && group.pairs_cross_spine);
  price.spine = Bytes(spine ? static_cast<std::int64_t>(traffic.spine) : 0);
  return price;
}

CollectivePrice Collectives::exchange(const TokenExchange& tokens,
                                      const cluster::GroupShape& group) const {
  if (group.ranks <= 1) {
    return {};
  }
  const State& st = *state_;
  const Situation s = st.situation(group);
  CollectivePrice price = price_tokens(tokens, s, group);
  price.latency_curve = price.curve = s.domains > 1 ? st.tokens_network : st.tokens_domain;
  return price;
}

CollectivePrice Collectives::peer_copy(Bytes bytes, const cluster::Path& path) const {
  CollectivePrice price = point_to_point(bytes, path);
  if (path.kind == cluster::PathClass::self || path.kind == cluster::PathClass::network ||
      bytes.count() <= 0) {
    return price;
  }
  const Line line = direct_line(path, state_->link_share);
  price.latency = seconds(line.latency);
  price.fluid = seconds(static_cast<double>(bytes.count()) / line.bandwidth);
  price.sms = 0;
  price.memory = price.nvlink = bytes;
  return price;
}

CollectivePrice Collectives::point_to_point(Bytes bytes, const cluster::Path& path,
                                            const PeerGroup& of) const {
  CollectivePrice price;
  price.algorithm = Algorithm::direct;
  if (path.kind == cluster::PathClass::self || bytes.count() <= 0) {
    return price;
  }
  const State& st = *state_;
  const auto amount = static_cast<double>(bytes.count());
  const bool network = path.kind == cluster::PathClass::network;
  const int row = network ? 1 : 0;
  Line line = direct_line(path, st.link_share);
  STEPCAST_CHECK(line.bandwidth > 0, "a path has no bandwidth");
  if (network && st.sockets > 0) {
    line.bandwidth = std::min(line.bandwidth, st.sockets);
  }
  Offer o;
  o.add(line);
  const Predicted time = predict(o, fit_for(st.fits[row][kSend], 2), amount);
  price.latency = seconds(time.latency);
  price.fluid = seconds(time.fluid);
  price.sms = direct_channels(path, of, amount);
  price.latency_curve = st.curves[row][kSend].latency;
  price.curve = st.curves[row][kSend].bandwidth;
  const auto crossing =
      Bytes(static_cast<std::int64_t>(std::min(amount, time.fluid * path.bandwidth.count())));
  price.memory = crossing;
  if (network) {
    price.nic = crossing;
    price.spine = path.hops > 4 ? crossing : Bytes(0);
  } else {
    price.nvlink = crossing;
  }
  return price;
}

}  // namespace stepcast::cost
