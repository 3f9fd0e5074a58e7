// Replaces the kinds of cases that this build cannot measure because their library was not found.
#include "bench.h"

namespace stepcast::harness::cuda {

#define STEPCAST_NOT_BUILT_IN(function, Case, library)              \
  Samples function(Context&, const interop::Case&, const Policy&) { \
    throw NotBuiltIn("not built in: " library " was not found");    \
  }

#ifdef STEPCAST_ABSENT_ATTENTION
STEPCAST_NOT_BUILT_IN(run_attention, AttentionCase, "cuDNN")
#endif
#ifdef STEPCAST_ABSENT_COLLECTIVE
STEPCAST_NOT_BUILT_IN(run_collective, CollectiveCase, "NCCL")
#endif
#ifdef STEPCAST_ABSENT_OVERLAP
STEPCAST_NOT_BUILT_IN(run_overlap, OverlapCase, "NCCL")
#endif
#ifdef STEPCAST_ABSENT_LAYER
STEPCAST_NOT_BUILT_IN(run_layer, LayerCase, "cuDNN")
#endif

}  // namespace stepcast::harness::cuda
