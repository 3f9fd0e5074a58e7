// How tensor ranks share the heads of attention: each holds some of the query heads with their
// key-value heads, or, where there are more ranks than key-value heads, some of the query heads of
// one.
#include <algorithm>

#include "builder.h"

namespace stepcast::model {

std::int64_t qkv_width(const HeadShape& all) {
  if (all.shares_kv) {
    return static_cast<std::int64_t>(all.heads) * all.qk_dim;
  }
  const std::int64_t values =
      all.keys_as_values ? 0 : static_cast<std::int64_t>(all.kv_heads) * all.v_dim;
  return static_cast<std::int64_t>(all.heads + all.kv_heads) * all.qk_dim + values;
}

RankHeads rank_heads(const HeadShape& all, int tensor) {
  return {all.heads / tensor, std::max(1, all.kv_heads / tensor),
          !all.shares_kv && all.kv_heads < tensor};
}

// megatron-core 0.16.1: transformer/attention.py:1398 (get_query_key_value_tensors),
// tensor_parallel/mappings.py:80 (_gather_along_last_dim) and :100
// (_reduce_scatter_along_last_dim).
Tensor add_gathered_qkv(Builder& b, Node& node, std::int64_t part_width, const HeadShape& all,
                        std::int64_t own_width) {
  const std::int64_t row = b.tokens * b.element;
  const std::int64_t whole = row * part_width * b.shard.tensor;
  const std::int64_t group = whole / all.kv_heads;
  const std::int64_t keys = row * (all.qk_dim + all.v_dim);
  const std::int64_t query = row * own_width - keys;

  Operator op = named("qkv_gather", OpKind::elementwise, Module::attention);
  op.tensor = TensorRole::gathered;
  // What arrives lies rank by rank, and is joined along the width. Back: the rank's queries are
  // placed among zeros of their group's, joined with keys and values, placed among zeros of all
  // groups, and cut by width again.
  moves(op, 2 * whole, (group - keys) + 2 * query + 2 * group + whole + 2 * group + 2 * whole, 1,
        6);
  op.forward_output = Bytes(whole);
  op.forward_temporary = Bytes(whole);
  op.backward_temporary = Bytes(2 * whole);
  op.backward_tensors = {whole, whole};
  Tensor gathered = b.tensor(whole);
  gathered.viewed = row * own_width;
  // Keys and values are views of it. Attention in 8 bits reads copies, which are all that is kept.
  keep(op, "output", b.narrow_qkv.value_or(gathered));
  node = b.add(std::move(op), {node});
  return gathered;
}

}  // namespace stepcast::model
