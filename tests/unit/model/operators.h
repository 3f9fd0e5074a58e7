// An operator of a graph by its name, and one sequence on one GPU.
#pragma once

#include <cstdint>
#include <string>

#include "catch.hpp"
#include "stepcast/model/operators.h"

namespace stepcast::test {

inline model::Shard whole(std::int64_t s) {
  model::Shard shard;
  shard.sequence_length = s;
  return shard;
}

inline const model::Operator& find(const model::OperatorGraph& g, const std::string& name) {
  for (const auto& op : g.operators) {
    if (op.name == name) {
      return op;
    }
  }
  FAIL("no operator " + name);
  return g.operators.front();
}

}  // namespace stepcast::test
