// Predicted times of collectives, alone and compared with measured ones.
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
  // `calibration`: the files to use, as in a job's key of that name; empty: chosen by device and fabric. Throws InputError
  // where the cluster cannot be built.
  CollectiveModel(const input::Network& network, const std::filesystem::path& data_directory,
                  const std::vector<std::string>& calibration = {});
  ~CollectiveModel();

  // Why the cluster has no such placement: it has too few nodes or GPUs. nullopt: it has.
  std::optional<std::string> misplaced(const std::vector<int>& ranks_per_node) const;

  // `op` and `bytes` as nccl-tests states them. nullopt: the operation is not modelled (hypercube), or there are fewer than
  // two ranks.
  std::optional<result::CollectivePoint> price(const std::string& op, std::int64_t bytes,
                                               const std::vector<int>& ranks_per_node);

  const job::Cluster& cluster() const;

  // Curves of such a placement that were measured at other rates than the cluster's, a sentence each.
  std::vector<std::string> scaled(const std::vector<int>& ranks_per_node) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Sizes min, min * factor, ... max, rounded as nccl-tests does: for sharded operations to 16 bytes per rank.
std::vector<std::int64_t> test_sizes(const std::string& op, int ranks, std::int64_t min_bytes, std::int64_t max_bytes,
                                     int factor);

// A log compared with the model: one row for each collective, placement and size; and the same as tables, one for each
// collective and placement.
struct Comparison {
  result::Validation validation;
  std::vector<result::CollectiveTable> tables;
};

// The measured value of a size is the median of its repeats, out of place where that was run. Summaries: over all rows, then
// over each collective below 1 MiB and from 1 MiB on. `ranks_per_node` holds for runs that do not state their ranks, and
// `op` for logs that do not name their collective.
Comparison compare_log(CollectiveModel& model, const interop::CollectiveLog& log, const std::vector<int>& ranks_per_node,
                       const std::string& op = "");

// The same without the tables.
result::Validation compare_collectives(CollectiveModel& model, const interop::CollectiveLog& log,
                                       const std::vector<int>& ranks_per_node, const std::string& op = "");

}  // namespace stepcast::validate
