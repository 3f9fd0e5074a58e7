// Kinds of ranks that run programs of their own, stage by stage: what device they are, and how many
// micro-batches their data-parallel rank runs.
#pragma once

#include <cstdint>
#include <vector>

#include "stepcast/cluster/topology.h"
#include "stepcast/program/program.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

struct Kind {
  int device = 0;  // of Kinds::devices()
  int batch = 0;   // of Kinds::plans()
  bool operator==(const Kind&) const = default;
};

class Kinds {
 public:
  Kinds(const strategy::Plan& plan, const cluster::Topology& topology);

  // Kinds of devices, in order of their first rank.
  const std::vector<const hardware::Device*>& devices() const { return devices_; }
  int device_of(int rank) const {
    return one_device() ? 0 : device_of_[static_cast<std::size_t>(rank)];
  }
  // The plan of each number of micro-batches.
  const std::vector<strategy::Plan>& plans() const { return plans_; }
  const std::vector<Kind>& all() const { return all_; }
  // Of a rank, which programs it runs: number kind * stages + stage.
  std::size_t kind_of(int rank, int data) const;

 private:
  bool one_device() const { return devices_.size() == 1; }
  std::vector<const hardware::Device*> devices_;
  std::vector<int> device_of_;  // by rank; empty: one device
  std::vector<strategy::Plan> plans_;
  std::vector<int> batch_of_;  // by data-parallel rank; empty: one plan
  std::vector<Kind> all_;
  std::vector<std::size_t> number_;  // [batch * devices + device]
};

// Stops where programs of one stage, of which there are `stages` a kind, meet in collectives
// between data-parallel ranks in unlike number or order: the strategy lets no such plan pass.
void check_collectives(const std::vector<program::Program>& programs, std::size_t stages);

}  // namespace stepcast::lower
