// Predicted collectives, alone and beside measured ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/input/input.h"
#include "stepcast/interop/nccl_log.h"
#include "stepcast/result/collective.h"
#include "stepcast/result/validation.h"

namespace stepcast::validate {

// Collectives of a cluster among the first ranks of its first nodes.
class CollectiveModel {
 public:
  // Throws InputError when the cluster cannot be built. `calibration`: files to price by, as a
  // job's key of that name; empty: chosen by device and fabric.
  CollectiveModel(const input::Network& network, const std::filesystem::path& data_directory,
                  const std::vector<std::string>& calibration = {});
  ~CollectiveModel();

  // What is wrong with a placement: more nodes or GPUs than there are. nullopt: nothing.
  std::optional<std::string> misplaced(const std::vector<int>& ranks_per_node) const;

  // `op` and `bytes` as nccl-tests has them. nullopt: an operation that is not modelled
  // (hypercube), or fewer than two ranks.
  std::optional<result::CollectivePoint> price(const std::string& op, std::int64_t bytes,
                                               const std::vector<int>& ranks_per_node);

  const job::Cluster& cluster() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Sizes min, min * factor, ... max as nccl-tests rounds them: sharded operations to 16 bytes a
// rank.
std::vector<std::int64_t> test_sizes(const std::string& op, int ranks, std::int64_t min_bytes, std::int64_t max_bytes,
                                     int factor);

// A log beside the model: one row per collective, placement and size, and the same as tables, one
// per collective and placement.
struct Comparison {
  result::Validation validation;
  std::vector<result::CollectiveTable> tables;
};

// Measured is the median of a size's repeats, out of place where that was run. Summaries: all rows,
// then per collective below and from 1 MiB. A run that does not state its ranks takes
// `ranks_per_node`; `op` names the collective where the log does not.
Comparison compare_log(CollectiveModel& model, const interop::CollectiveLog& log, const std::vector<int>& ranks_per_node,
                       const std::string& op = "");

// The rows and summaries alone.
result::Validation compare_collectives(CollectiveModel& model, const interop::CollectiveLog& log,
                                       const std::vector<int>& ranks_per_node, const std::string& op = "");

}  // namespace stepcast::validate
