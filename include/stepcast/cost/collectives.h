// Time of a collective or a point-to-point transfer alone on the machine, with NCCL's structure: algorithm and protocol
// chosen by NCCL's own tuning model (src/graph/tuning.cc, v2.18 to v2.30), achieved bandwidth from calibration files.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/base/spelling.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/cost/curve.h"
#include "stepcast/job/job.h"
#include "stepcast/model/experts.h"

namespace stepcast::cost {

using stepcast::to_string;

// gather and scatter are grouped sends and receives, as nccl-tests runs them.
enum class Collective { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter };
inline constexpr int kCollectives = 8;

constexpr auto spellings(Collective) {
  return std::to_array<Spelling<Collective>>({{Collective::all_reduce, "all_reduce"},
                                              {Collective::all_gather, "all_gather"},
                                              {Collective::reduce_scatter, "reduce_scatter"},
                                              {Collective::all_to_all, "all_to_all"},
                                              {Collective::broadcast, "broadcast"},
                                              {Collective::reduce, "reduce"},
                                              {Collective::gather, "gather"},
                                              {Collective::scatter, "scatter"}});
}

enum class Algorithm {
  ring,
  tree,
  nvls,
  nvls_tree,
  pairwise,
  direct,
  collnet_direct,
  collnet_chain,
  pat,
  hierarchical,
  torus,
  all_pairs
};

// The names of NCCL's algorithms are those of NCCL_ALGO, in lower case.
constexpr auto spellings(Algorithm) {
  return std::to_array<Spelling<Algorithm>>({{Algorithm::ring, "ring"},
                                             {Algorithm::tree, "tree"},
                                             {Algorithm::nvls, "nvls"},
                                             {Algorithm::nvls_tree, "nvlstree"},
                                             {Algorithm::pairwise, "pairwise"},
                                             {Algorithm::direct, "direct"},
                                             {Algorithm::collnet_direct, "collnetdirect"},
                                             {Algorithm::collnet_chain, "collnetchain"},
                                             {Algorithm::pat, "pat"},
                                             {Algorithm::hierarchical, "hierarchical"},
                                             {Algorithm::torus, "torus"},
                                             {Algorithm::all_pairs, "allpairs"}});
}

enum class Protocol { ll, ll128, simple };

constexpr auto spellings(Protocol) {
  return std::to_array<Spelling<Protocol>>({{Protocol::ll, "ll"}, {Protocol::ll128, "ll128"}, {Protocol::simple, "simple"}});
}

// An operation takes `latency` and then, alone on the machine, `fluid`. `nvlink`, `nic` and `spine` are the bytes that cross
// each member's NVLink port, each NIC used (per direction) and each leaf uplink over the whole operation. Contention is
// computed from them.
struct CollectivePrice {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  Time latency{0};
  Time fluid{0};
  Bytes nvlink;
  Bytes nic;
  Bytes spine;
  int sms = 0;   // SMs that its channels occupy, one each
  Bytes memory;  // read and written by a member in its own memory
  CurveId latency_curve = 0;
  CurveId curve = 0;
};

// Dispatch of tokens to the ranks of their experts, or their combination, by kernels like DeepEP's: a token crosses the
// network once for each domain, and NVLink once for each rank, that holds one of its experts.
struct TokenExchange {
  Bytes tokens;          // tokens of one rank, each counted once
  model::Routes routes;  // the experts are spread evenly over the group's ranks, in order
  double load = 1;       // load of the most loaded rank over the mean
  double beside = 1;     // time beside the kernels of another pass over the time alone (Software::tokens_beside)
  bool operator==(const TokenExchange&) const = default;
};

// The law of a ring all-reduce on a bus of the given rate: 2(n-1)/n * bytes / bus + 2(n-1) * alpha.
Time ring_all_reduce_time(int ranks, Bytes bytes, Bandwidth bus, Time alpha);

// The communicator of a message, which decides how many thread blocks move it. PyTorch's batches of sends and receives use
// the process group's own, a send by itself one of two ranks (torch 2.7 ProcessGroupNCCL.cpp: pointToPoint).
struct PeerGroup {
  int ranks = 2;
  Bandwidth network;  // of a GPU, where a message over NVLink has peers beyond its domain; otherwise 0
  bool operator==(const PeerGroup&) const = default;
};

class Collectives {
 public:
  Collectives(const job::Cluster& cluster, const job::Nccl& forced, const std::filesystem::path& calibration_dir,
              const std::vector<std::string>& only, CurveTable& curves);
  ~Collectives();
  Collectives(Collectives&&) noexcept;

  // `bytes` as NCCL counts them: all-reduce, broadcast and reduce the buffer; all-gather and reduce-scatter the FULL
  // gathered buffer; all-to-all the whole send buffer of a rank; gather and scatter the whole buffer of the root. A group
  // of one costs nothing.
  CollectivePrice price(Collective op, Bytes bytes, const cluster::GroupShape& group) const;
  // LAW and SOURCE are in src/cost/collective/tokens.h.
  CollectivePrice exchange(const TokenExchange& tokens, const cluster::GroupShape& group) const;
  // Curves of the slow-down of kernels beside communication: by SMs that it occupies, and by memory bandwidth that it takes.
  struct SlowdownCurves {
    CurveId sms = 0;
    CurveId memory = 0;
  };
  SlowdownCurves slowdown_curves() const;
  // One send with its receive, by a communicator `of`.
  CollectivePrice point_to_point(Bytes bytes, const cluster::Path& path, const PeerGroup& of = {}) const;
  // A copy into a peer's memory by copy engines, as user buffers and symmetric memory do it. It occupies no SMs and none of
  // NCCL's channels. Over a network its price is that of point_to_point.
  CollectivePrice peer_copy(Bytes bytes, const cluster::Path& path) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::cost
