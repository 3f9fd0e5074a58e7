// LAW  Korthikanti et al. (arXiv 2205.05198, equations 1, 2, 4 and table 2): bytes a GPT layer
// keeps for its backward
//      pass, 16-bit, GeLU, hidden and attention dropout, s tokens a sequence, b sequences, a heads,
//      t tensor ranks:
//        no parallelism                 s b h (34 + 5 a s / h)
//        tensor parallelism             s b h (10 + 24/t + 5 a s / (h t))
//        tensor and sequence            s b h (34 + 5 a s / h) / t
//      and without the 5 a s / h where core attention is recomputed.
#include <cstdint>
#include <map>

#include "../unit/model/models.h"
#include "catch.hpp"
#include "stepcast/model/operators.h"

using namespace stepcast;

namespace {

std::int64_t saved(const model::OperatorGraph& graph, bool without_core_attention = false) {
  std::map<std::uint32_t, std::int64_t> storages;
  for (const model::Operator& op : graph.operators) {
    if (without_core_attention && op.module == model::Module::core_attention) {
      continue;
    }
    for (const model::Saved& s : op.saved) {
      auto& bytes = storages[s.storage];
      bytes = std::max(bytes, s.bytes.count());
    }
  }
  std::int64_t sum = 0;
  for (const auto& [storage, bytes] : storages) {
    sum += bytes;
  }
  return sum;
}

struct Case {
  int heads;
  std::int64_t hidden, s, b;
  int t;
};

}  // namespace

TEST_CASE("A GPT layer keeps the bytes of Korthikanti's equations") {
  const Case c = GENERATE(Case{64, 6144, 2048, 4, 8}, Case{96, 12288, 2048, 1, 8},
                          Case{128, 20480, 2048, 1, 4}, Case{160, 25600, 1024, 2, 16},
                          Case{16, 1024, 512, 3, 2});
  auto m = test::gpt("gpt", 4, c.hidden, c.heads, 51200, c.s);
  m.dropout = 0.1;
  model::Style style;
  style.dtype = job::DType::fp16;
  style.attention = job::AttentionKernel::unfused;
  const std::int64_t sbh = c.s * c.b * c.hidden;
  const std::int64_t scores = 5 * c.heads * c.s * c.s * c.b;
  const auto layer = [&](int tensor, bool sequence_parallel) {
    model::Shard shard;
    shard.sequences = c.b;
    shard.sequence_length = c.s;
    shard.tensor = tensor;
    shard.sequence_parallel = sequence_parallel;
    return model::build_layer(m, model::LayerKind::dense, shard, style);
  };
  CHECK(saved(layer(1, false)) == 34 * sbh + scores);
  CHECK(saved(layer(c.t, false)) == 10 * sbh + 24 * sbh / c.t + scores / c.t);
  CHECK(saved(layer(c.t, true)) == (34 * sbh + scores) / c.t);
  CHECK(saved(layer(1, false), true) == 34 * sbh);
  CHECK(saved(layer(c.t, false), true) == 10 * sbh + 24 * sbh / c.t);
  CHECK(saved(layer(c.t, true), true) == 34 * sbh / c.t);
}

TEST_CASE("Embedding and head keep Korthikanti's extra bytes") {
  // Section 4.3: s b h / t of embedding dropout mask; 4 s b h / t (1 + v/h) at the output with
  // sequence parallelism.
  auto m = test::gpt("gpt", 4, 6144, 64, 51200, 2048);
  m.dropout = 0.1;
  model::Style style;
  style.attention = job::AttentionKernel::unfused;
  model::Shard shard;
  shard.sequences = 4;
  shard.sequence_length = 2048;
  shard.tensor = 8;
  shard.sequence_parallel = true;
  const std::int64_t sb = 4 * 2048;
  CHECK(saved(model::build_head(m, shard, style)) == 4 * sb * 6144 / 8 + 4 * sb * 51200 / 8);
  const std::int64_t ids = 8 * sb;
  CHECK(saved(model::build_embedding(m, shard, style)) == sb * 6144 / 8 + ids);
}
