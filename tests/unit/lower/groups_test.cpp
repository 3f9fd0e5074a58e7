// The groups of rank 0, which are found without a loop over all ranks.
#include "lower/world/groups.h"

#include <map>
#include <random>

#include "catch.hpp"
#include "stepcast/config/config.h"

using namespace stepcast;

TEST_CASE("Rank 0's groups are those of all groups that hold it", "[lower]") {
  std::mt19937 random(8);
  const auto one_of = [&](const std::vector<const char*>& texts) {
    return std::string(
        texts[std::uniform_int_distribution<std::size_t>(0, texts.size() - 1)(random)]);
  };
  int plans = 0;
  for (int n = 0; n < 300; ++n) {
    const auto parsed = config::parse(
        "model: {layers: 4, hidden: 512, heads: 8, kv_heads: 8, head_dim: 64, ffn: 2048, vocab: "
        "8000, "
        "moe: {experts: 8, topk: 2, ffn: 1024}}\ncluster: {use: dgx-h100, nodes: 8}\n"
        "system: megatron-lm\nworkload: {sequence_length: 1024, global_batch: 64, micro_batch: "
        "1}\n",
        "job",
        {"parallelism.tensor=" + one_of({"1", "2", "4"}),
         "parallelism.context=" + one_of({"1", "2", "{size: 4, kind: hierarchical, inner: 2}"}),
         "parallelism.pipeline=" + one_of({"1", "2", "4"}),
         "parallelism.expert=" + one_of({"1", "2", "4"}),
         "parallelism.expert_tensor=" + one_of({"1", "2", "4"}),
         "cluster.order=" + one_of({"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-dp-ep-cp-tp"})});
    const auto resolved = strategy::resolve(parsed.job);
    const auto* plan = std::get_if<strategy::Plan>(&resolved);
    if (plan == nullptr) {
      continue;
    }
    ++plans;
    std::map<lower::Role, std::vector<int>> whole, first;
    lower::each_group(*plan, [&](lower::Role role, const std::vector<int>& ranks) {
      if (ranks.size() > 1 && std::find(ranks.begin(), ranks.end(), 0) != ranks.end()) {
        whole[role] = ranks;
      }
    });
    lower::each_first_group(*plan, [&](lower::Role role, const std::vector<int>& ranks) {
      if (ranks.size() > 1) {
        first[role] = ranks;
      }
    });
    for (const lower::Role role : {lower::kTensor, lower::kContext, lower::kExpert,
                                   lower::kExpertTensor, lower::kTensorExpert}) {
      INFO("role " << role << " plan " << n);
      CHECK(whole[role] == first[role]);
    }
  }
  CHECK(plans > 100);
}
