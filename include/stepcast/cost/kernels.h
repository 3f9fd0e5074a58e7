// Time of a kernel on a device: GEMM by shape, attention, memory-bound operators by bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/cost/curve.h"
#include "stepcast/job/job.h"
#include "stepcast/model/operators.h"

namespace stepcast::cost {

enum class Layout { forward, input_grad, weight_grad };  // TN, NN, NT as cuBLAS sees them

enum class MemoryOp { copy, norm, softmax, activation, dropout, elementwise, embedding, cross_entropy, optimizer, permute };

// LAW and VALID range stand in src/cost/gemm.cpp and src/cost/attention.cpp.
class Kernels {
 public:
  // Reads the calibration files for this device and library (all *.yaml below `calibration_dir` that name the device;
  // `only`, when not empty, restricts to those paths). A device without files is priced from its data sheet.
  Kernels(const job::Device& device, const std::string& library, const std::filesystem::path& calibration_dir,
          const std::vector<std::string>& only, CurveTable& curves);
  ~Kernels();
  Kernels(Kernels&&) noexcept;

  Priced gemm(const model::Gemm& shape, job::DType dtype, Layout layout, bool accumulate_fp32 = false) const;
  // Alone or among few, at the highest clock: what short benchmarks time.
  Priced burst_gemm(const model::Gemm& shape, job::DType dtype, Layout layout, bool accumulate_fp32 = false) const;
  // `groups` GEMMs of equal shape in one launch (experts).
  Priced grouped_gemm(const model::Gemm& each, int groups, job::DType dtype, Layout layout) const;
  Priced attention(const model::AttentionShape& shape, job::AttentionKernel kernel, job::DType dtype, bool backward) const;
  // `moved`: bytes read and written.
  Priced memory(MemoryOp op, Bytes moved) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::cost
