// Curves of many machines fitted together, so that a machine, an operation or a group size without
// logs takes what its kind shows.
//
// LAW: the shift (fit.h) of an operation on a group is a sum over levels,
//   class      NVLink domains, PCIe domains, or networks: one per operation
//   kind       a GPU generation's domains, or one kind of network: per operation
//   size       ranks of the domain, per kind and operation; on networks a slope in log2(domains)
//              from two on
//   machine    a system, all its operations alike
//   operation  of that system
//   cell       of that system, operation and group size
// each fitted on top of those before. At every level points that share one of the next level's
// members count together: n of them as n / (1 + n v), v the variance that members are expected to
// have over that of a point, so that much measured systems do not outvote others; logs of one site
// likewise.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "fit.h"

namespace stepcast::cost {

// A machine as pooling sees it.
struct Machine {
  std::string group;   // class: "nvlink", "pcie", "network"
  std::string kind;    // within it: "hopper", "ib"
  std::string system;  // empty: any of its kind
};

struct Sample {
  Point point;
  int machine = 0;  // index
  int log = 0;      // unique among all
  int site = 0;     // logs of one site are repeats of one machine
  int op = 0;
  int size = 0;  // ranks of the domain, or domains of the network
};

class Pool {
 public:
  Pool(const std::vector<Machine>& machines, const std::vector<const Sample*>& samples);
  // Of a machine of the list, or of a kind. Sizes between those measured are mixed, beyond them the
  // last holds.
  Shift at(const Machine& machine, int op, int size) const;
  // Group sizes that a machine's curves are written for, with the points measured of it there; none
  // where its class has no logs of the operation.
  std::map<int, int> sizes(const Machine& machine, int op) const;

 private:
  using Key = std::tuple<std::string, std::string, int, int>;  // names, operation, size; -1: all
  using Level = std::map<Key, Shift>;
  Level class_;
  Level kind_;
  Level size_;   // domains only
  Level slope_;  // networks only
  Level machine_;
  Level operation_;
  Level cell_;
  std::map<Key, int> points_;  // of a cell
};

}  // namespace stepcast::cost
