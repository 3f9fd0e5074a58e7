#include "tokens.h"

#include <algorithm>

#include "stepcast/model/experts.h"

namespace stepcast::cost {
namespace {

// Means of dispatch and combine (tokens.h).
constexpr double kNetworkShare = 0.87;
constexpr double kNvlinkShare = 0.64;
constexpr int kSms = 20;  // SMs that its kernels occupy (deep_ep/buffer.py: Buffer.num_sms)
// There are two launches, of which the first exchanges how many tokens each rank will receive. Each
// takes the time of an empty exchange, which is assumed to be NCCL's (line.h).
constexpr double kRounds = 2;
constexpr double kResidual = 0.15;

std::int64_t whole(double bytes) { return static_cast<std::int64_t>(bytes); }

}  // namespace

CollectivePrice price_tokens(const TokenExchange& tokens, const Situation& s,
                             const cluster::GroupShape& group) {
  const double bytes = static_cast<double>(tokens.tokens.count()) * tokens.load;
  const double ranks = model::expected_sets(tokens.routes, s.ranks);
  const double domains = model::expected_sets(tokens.routes, s.domains);
  const double far = bytes * domains * (s.domains - 1) / s.domains;
  // All ranks of a domain but the one that receives from the network get their copies over NVLink.
  const double near = bytes * ranks * (s.per_domain - 1) / s.per_domain;
  CollectivePrice price;
  price.algorithm = s.domains > 1 ? Algorithm::hierarchical : Algorithm::direct;
  price.sms = kSms;
  const double hops =
      (s.per_domain > 1 ? kSendNear : 0) + (s.domains > 1 ? kSendFar + s.net_latency : 0);
  price.latency = seconds(kRounds * (kSendBase + hops));
  double fluid = s.per_domain > 1 ? near / (kNvlinkShare * s.link) : 0;
  if (s.domains > 1) {
    fluid = std::max(fluid, far * s.per_domain / (kNetworkShare * s.pairs_net()));
    price.nic = Bytes(whole(far * s.per_domain / std::max(1, s.nics)));
    const double elsewhere = (s.domains - s.domains_per_leaf) / (s.domains - 1.0);
    price.spine =
        Bytes(group.crosses_spine ? whole(static_cast<double>(price.nic.count()) * s.nics_per_leaf *
                                          s.domains_per_leaf * elsewhere)
                                  : 0);
  }
  price.fluid = seconds(fluid * tokens.beside);
  price.nvlink = Bytes(whole(near));
  price.memory = Bytes(whole(2 * (near + far)));
  return price;
}

Curve tokens_curve(const std::string& device, bool network) {
  Curve c;
  c.kind = CurveKind::network;
  c.name = network ? "tokens to experts, network" : "tokens to experts, NVLink domain";
  c.device = device;
  c.file = "datasheet";
  c.provenance = "DeepEP's README (v2): shares of the links' rates that its kernels reach";
  c.residual = kResidual;
  if (network) {
    c.common = Common::fabric;
  }
  return c;
}

}  // namespace stepcast::cost
