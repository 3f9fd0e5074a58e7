// Every collective operation, and NCCL held to one algorithm and protocol.
#pragma once

#include <string>

#include "stepcast/cost/collectives.h"
#include "stepcast/job/nccl.h"

namespace stepcast::test {

inline constexpr cost::Collective kAll[] = {
    cost::Collective::all_reduce, cost::Collective::all_gather, cost::Collective::reduce_scatter,
    cost::Collective::all_to_all, cost::Collective::broadcast,  cost::Collective::reduce,
    cost::Collective::gather,     cost::Collective::scatter};

inline job::Nccl forced(const std::string& algo, const std::string& proto) {
  job::Nccl n;
  n.algo = algo;
  n.proto = proto;
  return n;
}

}  // namespace stepcast::test
