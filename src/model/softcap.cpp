// Scores or logits that are bounded by tanh (Gemma 2).
#include "builder.h"

namespace stepcast::model {

// Division by the bound, tanh, which keeps its result, and multiplication (transformers 5.23.0,
// models/gemma2/modeling_gemma2.py:195, :518). Back, tanh reads its result and the gradient.
Node add_softcap(Builder& b, const char* name, Module module, std::int64_t elements, Node from) {
  const std::int64_t one = elements * b.element;
  Operator cap = named(name, OpKind::elementwise, module);
  moves(cap, 3 * 2 * one, (2 + 3 + 2) * one, 3, 3);
  cap.forward_output = Bytes(one);
  keep(cap, "tanh", b.tensor(one));
  return b.add(std::move(cap), {from});
}

}  // namespace stepcast::model
