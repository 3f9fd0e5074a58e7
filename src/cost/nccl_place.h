// Turns points of nccl-tests logs into samples for the fits, with the lines that NCCL offers to the
// measured group.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "collective/pool.h"
#include "nccl_match.h"
#include "stepcast/cost/nccl_fit.h"

namespace stepcast::cost {

Scope scope_of(const NcclSystem& system);
Machine machine_of(const NcclSystem& system);
// Whether NVLink joins fewer GPUs than a node has.
bool has_pairs(const job::Cluster& cluster);
// Rate of one NIC port, bytes/s.
double port_rate(const job::Cluster& cluster);

// A system's groups of ranks, each built once.
class Places {
 public:
  explicit Places(const NcclSystem& system) : system_(system) {}
  // The caller sets the sample's machine and log. Throws InputError as fit_nccl does.
  Sample sample(const NcclLog& log, const NcclPoint& point);

 private:
  struct Group {
    cluster::GroupShape shape;
    cluster::Path path;  // of a send
  };
  const Group& group(const NcclLog& log, int nodes, int per_node);

  const NcclSystem& system_;
  std::map<std::pair<int, int>, Group> groups_;
};

// All points of all systems.
// Bytes per second that a node sends over TCP sockets at most, since its CPUs copy every byte: the
// largest that logs reach. AWS p3dn: 4.6 and 5.0 GB/s of 12.5; Azure NC: 2.5 of 10; Polaris: 2.5 to
// 3.3 of 50; Perlmutter: 4.4 of 100, 1.2 with one GPU and adapter of the four.
inline constexpr double kSocketRate = 5e9;
// The cluster of a system with adapters as fast as what reaches the network.
job::Cluster reached(const NcclSystem& s);

struct Everything {
  std::vector<Machine> machines;
  std::vector<Sample> samples;
  std::vector<std::pair<int, int>> from;  // system and point of each sample
  std::vector<std::string> logs;          // by Sample::log
  std::vector<std::string> sites;
};
Everything place_all(const std::vector<NcclMeasured>& measured);

}  // namespace stepcast::cost
