#include <map>

#include "stepcast/measured/kernels.h"

namespace stepcast::measured {

model::Gemm shape_of(const interop::GemmCase& c) { return {c.m, c.n, c.k, c.batch}; }

model::AttentionShape shape_of(const interop::AttentionCase& c) {
  model::AttentionShape s;
  s.sequences = c.sequences;
  s.query_length = s.key_length = c.length;
  s.heads = c.heads;
  s.kv_heads = c.kv_heads;
  s.qk_dim = s.v_dim = c.head_dim;
  s.causal = c.causal;
  return s;
}

std::optional<cost::MemoryOp> memory_op_named(const std::string& op) {
  using cost::MemoryOp;
  static const std::map<std::string, MemoryOp> known{{"copy", MemoryOp::copy},
                                                     {"norm", MemoryOp::norm},
                                                     {"softmax", MemoryOp::softmax},
                                                     {"activation", MemoryOp::activation},
                                                     {"dropout", MemoryOp::dropout},
                                                     {"add", MemoryOp::elementwise},
                                                     {"embedding", MemoryOp::embedding},
                                                     {"cross_entropy", MemoryOp::cross_entropy},
                                                     {"optimizer", MemoryOp::optimizer},
                                                     {"permute", MemoryOp::permute},
                                                     {"fused_permute", MemoryOp::fused_permute}};
  const auto at = known.find(op);
  return at == known.end() ? std::nullopt : std::optional(at->second);
}

std::optional<cost::CopyDirection> direction_named(const std::string& name) {
  using cost::CopyDirection;
  static const std::map<std::string, CopyDirection> known{{"h2d", CopyDirection::host_to_device},
                                                          {"d2h", CopyDirection::device_to_host},
                                                          {"both", CopyDirection::both},
                                                          {"d2d", CopyDirection::device_to_device}};
  const auto at = known.find(name);
  return at == known.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace stepcast::measured
