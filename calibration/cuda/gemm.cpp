#include "gemm.h"

#include <fmt/format.h>

#include <optional>

#include "gemm_library.h"
#include "gemm_operands.h"
#include "grouped.h"

namespace stepcast::harness::cuda {
namespace {

using interop::GemmCase;

// Each operand set of a grouped product is a separate graph. Building more sets than this would
// cost more than it gains, and experts of real models fill L2 with one or two sets.
constexpr int kMaxGroupedCopies = 16;
constexpr int kMaxCopies = 1 << 20;

GemmView view_of(const Context& context, const GemmCase& what) {
  const GpuTarget target = target_of(context);
  if (const auto why = refusal(what, target)) {
    throw Unsupported(*why);
  }
  return gemm_view(what, needs_k_innermost(what.dtype, target));
}

int copies_of(const Context& context, const GemmCase& what, const GemmView& view, int copies) {
  const std::int64_t bytes = working_set(what, view);
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (bytes > static_cast<std::int64_t>(free)) {
    throw Unsupported(fmt::format("needs {:.1f} GB, {:.1f} GB are free",
                                  static_cast<double>(bytes) / 1e9,
                                  static_cast<double>(free) / 1e9));
  }
  const int most = what.groups > 1 ? kMaxGroupedCopies : kMaxCopies;
  return copies > 0 ? copies : rotated_copies(context, bytes, most);
}

}  // namespace

struct Gemm::State {
  State(Context& context_, const GemmCase& what, int copies, std::uint64_t seed)
      : context(context_),
        view(view_of(context_, what)),
        description(what, view, target_of(context_)),
        operands(context_, what, view, copies_of(context_, what, view, copies), seed),
        handle(library_handle(context_.gpu)) {
    description.set_scales(operands.a_scales(), operands.b_scales());
    const std::size_t bytes = workspace_bytes(target_of(context));
    algorithm = description.choose(handle, bytes);
    if (what.groups > 1) {
      grouped.emplace(context, description, algorithm, operands, what.groups, bytes);
    } else {
      workspace = Buffer(bytes);
    }
  }
  // Kernels may still use the memory that is freed next.
  ~State() { (void)cudaStreamSynchronize(context.stream); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Context& context;
  GemmView view;
  GemmDescription description;
  GemmOperands operands;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  Buffer workspace;
  std::optional<GroupedGemm> grouped;
};

Gemm::Gemm(Context& context, const GemmCase& what, int copies, std::uint64_t seed)
    : state_(std::make_unique<State>(context, what, copies, seed)) {}

Gemm::~Gemm() = default;

void Gemm::launch(int rotate) {
  State& s = *state_;
  const int copy = rotate % s.operands.copies();
  if (s.grouped) {
    s.grouped->launch(copy);
    return;
  }
  s.description.run(s.handle, s.algorithm, s.operands.a(copy, 0), s.operands.b(copy, 0),
                    s.operands.d(copy, 0), s.workspace.data(), s.workspace.size(),
                    s.context.stream);
}

Samples run_gemm(Context& context, const GemmCase& what, const Policy& policy) {
  Gemm gemm(context, what, 0, policy.seed);
  const auto launch = [&](int rotate) { gemm.launch(rotate); };
  return what.sustained ? time_sustained(context, policy, launch)
                        : time_burst(context, policy, launch);
}

}  // namespace stepcast::harness::cuda
