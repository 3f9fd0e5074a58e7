// How frameworks cut layers into pipeline stages.
#pragma once

#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/job/job.h"

namespace stepcast::strategy {

// Layers of each of `stages` virtual stages in model order, by parallelism.split; `chunks` of them
// lie on a rank. Multi-token prediction layers are the last stage's. Embedding and output layer are
// with the first and the last stage, whatever they count as. `rates`: how fast each stage's devices
// are beside each other, which `redistribute` balances; empty: all alike.
std::variant<std::vector<int>, Infeasible> split_layers(const job::Job& job, int chunks, int stages,
                                                        const std::vector<double>& rates = {});

// DeepSpeed's partition_balanced (0.19.8, runtime/utils.py:627): where each of `parts` runs of
// consecutive weights begins, and the end. The largest sum less the smallest is least; among equal
// ones the later parts are the smallest.
std::vector<int> partition_balanced(const std::vector<double>& weights, int parts);

}  // namespace stepcast::strategy
