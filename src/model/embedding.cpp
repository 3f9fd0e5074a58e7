// The first stage's input: word (and position) embedding, dropout.
#include "builder.h"

namespace stepcast::model {

OperatorGraph build_embedding(const job::Model& model, const Shard& shard, const Style& style) {
  Builder b(model, shard, style);
  const std::int64_t e = b.element;
  const std::int64_t elements = b.tokens * b.hidden;
  const std::int64_t table = ceil_div(model.vocab, shard.tensor) * b.hidden;
  const bool masked = shard.tensor > 1;  // rows of other ranks are set to zero before the sum

  Operator word = named("word_embedding", OpKind::embedding, Module::embedding);
  word.tensor = TensorRole::vocab_embedding;
  word.parameters = table;
  // Backward fills a gradient of the whole table and adds the rows.
  moves(word, (masked ? 4 : 2) * elements * e, 2 * elements * e + table * e, masked ? 5 : 1,
        masked ? 3 : 2);
  word.forward_output = Bytes(elements * e);
  word.backward_temporary = Bytes(table * e);
  keep(word, "token_ids", b.tensor(8 * b.tokens));
  Node node = b.add(std::move(word), {outside});

  if (model.positions == job::Positions::learned) {
    Operator position = named("position_embedding", OpKind::embedding, Module::embedding);
    position.parameters = model.max_positions * b.hidden;
    moves(position, 4 * elements * e, 2 * elements * e + position.parameters * e, 2, 2);
    position.forward_output = Bytes(elements * e);
    node = b.add(std::move(position), {node});
  }
  if (model.dropout > 0) {
    Operator dropout = named("embedding_dropout", OpKind::dropout, Module::embedding);
    const std::int64_t local = b.local_tokens * b.hidden;
    moves(dropout, 2 * local * e + local, 2 * local * e + local, 1, 1);
    dropout.forward_output = Bytes(local * e);
    keep(dropout, "mask", b.tensor(local));
    b.add(std::move(dropout), {node});
  }
  return b.finish();
}

}  // namespace stepcast::model
