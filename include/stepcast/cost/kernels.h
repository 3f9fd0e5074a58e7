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
              // benchmark's long run (calibration/README.md, "Fitted parameters")
};

// A matrix product whose time is asked for.
struct GemmQuery {
  model::Gemm shape;
  job::DType dtype = job::DType::bf16;  // of the operands
  Layout layout = Layout::forward;
  bool accumulate_fp32 = false;  // the result is added to an fp32 main gradient
  // Operands below 16 bits are already cast and scaled, as in benchmarks of cublasLt or DeepGEMM; otherwise the time
  // includes casting them.
  bool operands_cast = false;
  Pace pace = Pace::sustained;
  double relief = 1;  // of Pace::training: its level over that of products alone (Kernels::relief)
};

// A pass of a fused attention kernel whose time is asked for.
struct AttentionQuery {
  model::AttentionShape shape;
  job::AttentionKernel kernel = job::AttentionKernel::flash2;  // a fused one
  job::DType dtype = job::DType::bf16;
  bool backward = false;
  // For a forward pass: where the curve was fitted to an inference engine's table, the time includes writing keys and values
  // into a paged cache, as in that table.
  bool paged_cache = false;
  bool training = false;             // at the clock of a step of training (Pace::training), where the curve states it
  double relief = 1;                 // as GemmQuery::relief
  job::SplashAttention splash = {};  // of TPUs, which run no other fused kernel
};

enum class MemoryOp {
  copy,
  norm,
  softmax,
  activation,
  dropout,
  elementwise,
  embedding,
  cross_entropy,
  optimizer,
  permute,
  fused_permute
};

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
                                            {MemoryOp::permute, "permute"},
                                            {MemoryOp::fused_permute, "fused_permute"}});
}

// The curve by which a memory-bound operator is timed. A residual add is timed as an element-wise kernel, whether dropout is
// fused into it or not.
MemoryOp memory_op(model::OpKind kind);

// A fused layer of experts on one GPU as inference runs it: gather rows, gate and up projections, activation, down
// projection, sum rows. Its load is balanced: every expert gets tokens * topk / experts rows.
struct ExpertLayer {
  std::int64_t tokens = 0, hidden = 0,
               inter = 0;  // inter: width of one expert, before `tensor` divides it
  int topk = 1, experts = 1;
  int tensor = 1, parallel = 1;  // GPUs that one expert is divided over, and GPUs that the experts are spread over
};

enum class CopyDirection { host_to_device, device_to_host, both, device_to_device };

// The slow-down of kernels beside communication that takes a share s of the SMs and h of the memory bandwidth: arithmetic
// runs at 1 - arithmetic * s and memory at 1 - memory * h of its speed. `collective` is the share of its speed that the
// collective loses. It is measured and reported; the engine slows only kernels down.
struct Overlap {
  double arithmetic = 1;
  double memory = 1;
  double collective = 0;
  bool measured = false;  // false: no file of this device; the curves are the collectives' own
  CurveId arithmetic_curve{};
  CurveId memory_curve{};
};

// The cost of launching kernels. `host` is a lower bound of System::launch, a framework's host time per kernel. `graph` is
// the least time of a kernel inside a CUDA graph, for jobs with kernels.cuda_graph. Zero: not measured on this device.
struct Launch {
  Time host{0};
  Time graph{0};
};

// The libraries whose GEMMs were measured on a device ("": on any), in order of name.
std::vector<std::string> gemm_libraries(const std::filesystem::path& calibration_dir, const std::string& device);

// LAW and VALID range are in src/cost/gemm.h and src/cost/attention.h.
class Kernels {
 public:
  // Reads the calibration files of this device and library: all *.yaml below `calibration_dir` that name the device, or,
  // when `only` is not empty, only its files and those of its folders. With "auto" among them, all others follow them. A
  // device without files is priced from its data sheet.
  Kernels(const job::Device& device, const std::string& library, const std::filesystem::path& calibration_dir,
          const std::vector<std::string>& only, CurveTable& curves);
  ~Kernels();
  Kernels(Kernels&&) noexcept;

  Priced gemm(const GemmQuery& query) const;
  // `groups` products of equal shape in one launch (experts): `each` is one of them.
  Priced grouped_gemm(const GemmQuery& each, int groups) const;
  // At the clock of a burst. Without a curve of this library's grouped kernels, rows are gathered and summed at the rate of
  // memory().
  Priced expert_layer(const ExpertLayer& layer, job::DType dtype) const;
  // Throws where the kernel is not a fused one: unfused attention is two products and a softmax.
  Priced attention(const AttentionQuery& query) const;
  // `moved`: bytes read and written.
  // `backward`: by the curve of backward passes, where one was measured.
  // `row`: elements of a row, on which the time of a fused causal softmax depends; 0: the usual one.
  Priced memory(MemoryOp op, Bytes moved, bool backward = false, std::int64_t row = 0) const;
  // An operator that runs as so many kernels, each of which moves the same part of the bytes. A measured backward pass is
  // that of the whole operator, whatever the number.
  Priced memory_operator(MemoryOp op, Bytes moved, int launches, bool backward, std::int64_t row = 0) const;
  // What kernels that take so many elements one by one need beyond the time of the bytes they move.
  Time single_elements(MemoryOp op, std::int64_t elements, Bytes moved, bool backward) const;
  // `bytes` in one direction; for `both` the time is that of two such copies at once. Without measurements of the device the
  // time follows from the host link of its data sheet; throws where that states none.
  Priced copy(CopyDirection direction, bool pinned, Bytes bytes) const;
  // How far kernels that draw less power than products raise the level of training of the products among them
  // (src/cost/clock.h); 1 where it was not measured. Times are those of Pace::training with a relief of 1.
  double relief(Time products, Time others) const;
  // Whether a fused attention kernel is held back by the power limit as products are.
  bool power_bound(job::AttentionKernel kernel) const;
  Overlap overlap() const;
  Launch launch() const;
  const Software& software() const;
  // Multiplies every rate that arithmetic bounds, attention included, by a site's factor (site.h).
  void scale_clock(double factor);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::cost
