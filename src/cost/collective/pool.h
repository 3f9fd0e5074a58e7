// Fits curves of many machines together, so that a machine, an operation or a group size without
// logs takes the curve of its kind.
//
// LAW: the shift (fit.h) of an operation on a group is a sum over levels,
//   class      NVLink domains, PCIe domains, or networks: one shift per operation
//   kind       a GPU generation's domains, or one kind of network: per operation
//   size       ranks of the domain, per kind and operation; on networks a slope in log2(domains)
//              from two on
//   machine    a system: one shift for all its operations
//   operation  per system and operation
//   cell       per system, operation and group size
// each fitted on top of those before. At every level the points of one member of the next level
// count together: n of them weigh n / (1 + n v), with v the prior variance of the next level's
// shifts over that of a point, so that systems with many logs do not outweigh others. The same
// holds for logs of one site.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "fit.h"

namespace stepcast::cost {

// A machine, by the levels of the pool.
struct Machine {
  std::string group;   // class: "nvlink", "pcie", "network"
  std::string kind;    // within the class: "hopper", "ib"
  std::string system;  // empty: no particular one of its kind
};

struct Sample {
  Point point;
  int machine = 0;  // index
  int log = 0;      // unique among all logs
  int site = 0;     // logs of one site are repeats of one machine
  int op = 0;
  int size = 0;  // ranks of the domain, or domains of the network
};

class Pool {
 public:
  Pool(const std::vector<Machine>& machines, const std::vector<const Sample*>& samples);
  // The shift of a machine of the list, or of a kind. It is interpolated between the sizes
  // measured; beyond them it is that of the last one.
  Shift at(const Machine& machine, int op, int size) const;
  // The group sizes that a machine's curves are written for, each with its number of measured
  // points; none where its class has no logs of the operation.
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
  std::map<Key, int> points_;  // number of points of each cell
};

}  // namespace stepcast::cost
