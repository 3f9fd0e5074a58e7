// Replaces the kinds of cases that this build cannot measure because their library was not found.
#include "bench.h"

namespace stepcast::harness::cuda {

#define STEPCAST_NOT_BUILT_IN(function, Case, library)              \
  Samples function(Context&, const interop::Case&, const Policy&) { \
    throw NotBuiltIn("not built in: " library " was not found");    \
  }

#ifdef __HIP_PLATFORM_AMD__
#define STEPCAST_BLAS "hipBLASLt 1.0 (ROCm 7)"
#define STEPCAST_DNN "MIOpen"
#define STEPCAST_CCL "RCCL 2.17"
#else
#define STEPCAST_BLAS "cublasLt"
#define STEPCAST_DNN "cuDNN"
#define STEPCAST_CCL "NCCL"
#endif

#ifdef STEPCAST_ABSENT_GEMM
STEPCAST_NOT_BUILT_IN(run_gemm, GemmCase, STEPCAST_BLAS)
#endif
#ifdef STEPCAST_ABSENT_ATTENTION
STEPCAST_NOT_BUILT_IN(run_attention, AttentionCase, STEPCAST_DNN)
#endif
#ifdef STEPCAST_ABSENT_COLLECTIVE
STEPCAST_NOT_BUILT_IN(run_collective, CollectiveCase, STEPCAST_CCL)
#endif
#ifdef STEPCAST_ABSENT_OVERLAP
STEPCAST_NOT_BUILT_IN(run_overlap, OverlapCase, STEPCAST_CCL)
#endif
#ifdef STEPCAST_ABSENT_LAYER
STEPCAST_NOT_BUILT_IN(run_layer, LayerCase, STEPCAST_DNN)
#endif

}  // namespace stepcast::harness::cuda
