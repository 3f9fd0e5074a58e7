// The names by which people call the keys that they change most.
#include <algorithm>
#include <array>

#include "stepcast/config/config.h"

namespace stepcast::config {
namespace {

const auto kShortKeys = std::to_array<ShortKey>({
    {"tp", "parallelism.tensor"},
    {"pp", "parallelism.pipeline"},
    {"vpp", "parallelism.virtual_pipeline"},
    {"dp", "parallelism.data"},
    {"cp", "parallelism.context"},
    {"ep", "parallelism.expert"},
    {"etp", "parallelism.expert_tensor"},
    {"sp", "parallelism.sequence_parallel"},
    {"schedule", "parallelism.schedule"},
    {"sharding", "parallelism.sharding"},
    {"recompute", "memory.recompute"},
    {"mbs", "workload.micro_batch"},
    {"gbs", "workload.global_batch"},
    {"seq", "workload.sequence_length"},
    {"precision", "workload.precision"},
    {"tokens", "workload.tokens"},
    {"nodes", "cluster.nodes"},
});

}  // namespace

std::span<const ShortKey> short_keys() { return kShortKeys; }

std::string whole_key(const std::string& option) {
  const std::size_t end = std::min(option.find('='), option.size());
  for (const ShortKey& one : kShortKeys) {
    // "tp", or "tensor", as searches call it: the last word of a key that is often changed.
    const std::size_t last = one.key.rfind('.') + 1;
    if (option.compare(0, end, one.name) == 0 || option.compare(0, end, one.key, last) == 0) {
      return one.key + option.substr(end);
    }
  }
  return option;
}

}  // namespace stepcast::config
