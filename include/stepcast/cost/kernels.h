// Time of a kernel on a device: matrix products by shape, attention, memory-bound operators by bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/base/spelling.h"
#include "stepcast/cost/curve.h"
#include "stepcast/cost/software.h"
#include "stepcast/job/job.h"
#include "stepcast/model/operators.h"

namespace stepcast::cost {

enum class Layout { forward, input_grad, weight_grad };  // TN, NN, NT as cuBLAS sees them

// How long the device has been busy when a product is timed, which decides its clock.
enum class Pace {
  burst,      // alone or among few kernels, at the highest clock: what short benchmarks time
  sustained,  // in a benchmark's long run, at the clock that the power limit leaves
  training,   // in a step of training: at most the level that steps were seen to sustain, where that is below a
              // benchmark's long run (calibration/README.md, "Fitted to training runs")
};

// A matrix product whose time is asked for.
struct GemmQuery {
  model::Gemm shape;
  job::DType dtype = job::DType::bf16;  // of the operands
  Layout layout = Layout::forward;
  bool accumulate_fp32 = false;  // the result is added to an fp32 main gradient
  // Operands below 16 bits come cast and scaled, as a benchmark of cublasLt or DeepGEMM times the product; otherwise
  // casting them is part of its time.
  bool operands_cast = false;
  Pace pace = Pace::sustained;
};

// A pass of a fused attention kernel whose time is asked for.
struct AttentionQuery {
  model::AttentionShape shape;
  job::AttentionKernel kernel = job::AttentionKernel::flash2;  // a fused one
  job::DType dtype = job::DType::bf16;
  bool backward = false;
  // Of a forward pass: as an inference engine's table times it, with what writing keys and values into a paged cache
  // took, where the curve rests on such a table.
  bool paged_cache = false;
};

enum class MemoryOp { copy, norm, softmax, activation, dropout, elementwise, embedding, cross_entropy, optimizer, permute };

constexpr auto spellings(MemoryOp) {
  return std::to_array<Spelling<MemoryOp>>({{MemoryOp::copy, "copy"},
                                            {MemoryOp::norm, "norm"},
                                            {MemoryOp::softmax, "softmax"},
                                            {MemoryOp::activation, "activation"},
                                            {MemoryOp::dropout, "dropout"},
                                            {MemoryOp::elementwise, "elementwise"},
                                            {MemoryOp::embedding, "embedding"},
                                            {MemoryOp::cross_entropy, "cross_entropy"},
                                            {MemoryOp::optimizer, "optimizer"},
                                            {MemoryOp::permute, "permute"}});
}

// What an operator that memory bounds is timed as; a residual add is an add, with dropout fused
// into it or not.
MemoryOp memory_op(model::OpKind kind);

// A fused layer of experts on one GPU as inference runs it: rows gathered, gate and up, activation,
// down, rows summed. Balanced: every expert sees tokens * topk / experts rows.
struct ExpertLayer {
  std::int64_t tokens = 0, hidden = 0,
               inter = 0;  // inter: of one expert, before `tensor` divides it
  int topk = 1, experts = 1;
  int tensor = 1, parallel = 1;  // GPUs that share an expert, and the experts
};

enum class CopyDirection { host_to_device, device_to_host, both, device_to_device };

// What kernels lose beside communication: with shares s of the SMs and h of the memory bandwidth
// taken, arithmetic runs at 1 - arithmetic * s and memory at 1 - memory * h. `collective`: the
// share of its speed that the collective loses, measured and reported; the engine slows kernels
// alone.
struct Overlap {
  double arithmetic = 1;
  double memory = 1;
  double collective = 0;
  bool measured = false;  // false: no file of this device; the curves are the collectives' own
  CurveId arithmetic_curve = 0;
  CurveId memory_curve = 0;
};

// Host side of kernels. System::launch holds a framework's cost per kernel, so `host` is a floor of
// it; `graph` is what a kernel costs at least inside a CUDA graph, for jobs with
// kernels.cuda_graph. Zero: not measured on this device.
struct Launch {
  Time host{0};
  Time graph{0};
};

// The libraries whose GEMMs were measured on a device ("": on any), in order of name.
std::vector<std::string> gemm_libraries(const std::filesystem::path& calibration_dir, const std::string& device);

// LAW and VALID range stand in src/cost/gemm.cpp and src/cost/attention.cpp.
class Kernels {
 public:
  // Reads the calibration files for this device and library (all *.yaml below `calibration_dir`
  // that name the device; `only`, when not empty, restricts to those paths, files or folders; with
  // "auto" among them they come before the others). A device without files is priced from its data
  // sheet.
  Kernels(const job::Device& device, const std::string& library, const std::filesystem::path& calibration_dir,
          const std::vector<std::string>& only, CurveTable& curves);
  ~Kernels();
  Kernels(Kernels&&) noexcept;

  Priced gemm(const GemmQuery& query) const;
  // `groups` products of equal shape in one launch (experts): `each` is one of them.
  Priced grouped_gemm(const GemmQuery& each, int groups) const;
  // In a burst. Without a curve of this library's grouped kernels the rows' traffic is that of
  // memory().
  Priced expert_layer(const ExpertLayer& layer, job::DType dtype) const;
  // Throws where the kernel is not a fused one: unfused attention is two products and a softmax.
  Priced attention(const AttentionQuery& query) const;
  // `moved`: bytes read and written.
  Priced memory(MemoryOp op, Bytes moved) const;
  // `bytes` one way, also of `both`, whose time is that of the two at once. From the data sheet's
  // host link where the device has no measurements; a device without a stated link is an error
  // there.
  Priced copy(CopyDirection direction, bool pinned, Bytes bytes) const;
  Overlap overlap() const;
  Launch launch() const;
  const Software& software() const;
  // What a site sustains over what the files hold (site.h): every rate that arithmetic bounds,
  // attention included.
  void scale_clock(double factor);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::cost
