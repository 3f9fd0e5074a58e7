// A published row that measures one operator outside a model (Liger-Kernel's benchmark table).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "stepcast/interop/published_rows.h"
#include "stepcast/job/job.h"

namespace stepcast::interop {

struct OperatorCase {
  std::string kernel;    // "swiglu"
  std::string provider;  // whose: "liger", "huggingface", "torch", "megatron"
  std::string mode;      // full, forward, backward
  std::string gpu;
  job::DType dtype = job::DType::bf16;
  std::map<std::string, std::int64_t> sizes;  // the benchmark's own names: B, T, V, hidden_size

  // 0 where the row does not state it.
  std::int64_t size(const std::string& name) const {
    const auto at = sizes.find(name);
    return at == sizes.end() ? 0 : at->second;
  }
};

// nullopt: the row measures something else. Throws InputError where its sizes cannot be read.
std::optional<OperatorCase> operator_case(const RowConfiguration& row);

}  // namespace stepcast::interop
