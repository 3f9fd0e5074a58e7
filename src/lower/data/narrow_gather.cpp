#include "narrow_gather.h"

#include "../stage/feature.h"
#include "parameter_formats.h"

namespace stepcast::lower {

namespace {

// Bytes moved by an element in eager kernels (torchao 0.14.1, float8/float8_utils.py): its
// magnitude and the maximum of these (tensor_to_amax); the product with the scale in fp32, the
// clamp, and the cast (float8_training_tensor.py: _ToFloat8ConstrFunc; to_fp8_saturated).
double magnitude_bytes(double wide) { return 2 * wide; }
double maximum_bytes(double wide) { return wide; }
double scaled_bytes(double wide) { return wide + 4; }
constexpr double kClampBytes = 4 + 4;
constexpr double kCastBytes = 4 + 1;
constexpr double kScaleBytes = 4;  // fp32

template <class Visit>
void each_narrow(const Stage& stage, const Wrap& w, const Visit& visit) {
  if (stage.plan.parameter_gather.float8 == Float8Gather::none) {
    return;
  }
  for (const std::size_t u : w.units) {
    for (const Array& array : stage.units[static_cast<std::size_t>(w.chunk)][u].passes->arrays) {
      if (array.narrow) {
        visit(array);
      }
    }
  }
}

}  // namespace

double gathered_width(const strategy::Plan& plan, const Array& array) {
  return array.narrow ? bytes_per_element(DType::fp8) : gathered_width(plan, array.cast);
}

std::int64_t narrow_elements(const Stage& stage, const Wrap& w) {
  std::int64_t out = 0;
  each_narrow(stage, w, [&](const Array& array) { out += array.elements; });
  return out;
}

void cast_shards(Stage& stage, const Wrap& w, program::StreamIndex stream) {
  const Sharing shared = sharing(stage.plan, false);
  const double wide = width(stage.plan.precision.parameters);
  each_narrow(stage, w, [&](const Array& array) {
    const double elements = static_cast<double>(array.elements) / shared.shards;
    const auto kernel = [&](double bytes, const char* label) {
      data_kernel(stage, stream, elements * bytes, cost::MemoryOp::elementwise, label);
    };
    if (stage.plan.parameter_gather.float8 == Float8Gather::dynamic) {
      kernel(magnitude_bytes(wide), "magnitudes of a weight's shard");
      kernel(maximum_bytes(wide), "maximum of a weight's shard");
      if (shared.shards > 1) {
        data_collective(stage, stream, shared.group, cost::Collective::all_reduce, kScaleBytes,
                        "maximum of a weight");
      }
    }
    kernel(scaled_bytes(wide), "scale a weight's shard");
    kernel(kClampBytes, "clamp a weight's shard");
    kernel(kCastBytes, "cast a weight's shard");
  });
}

void find_scales(Stage& stage) {
  if (stage.plan.parameter_gather.float8 != Float8Gather::precomputed) {
    return;
  }
  const Sharing shared = sharing(stage.plan, false);
  double elements = 0, weights = 0;
  for (const Wrap& w : stage.sharded.wraps) {
    each_narrow(stage, w, [&](const Array& array) {
      elements += static_cast<double>(array.elements) / shared.shards;
      ++weights;
    });
  }
  if (weights == 0) {
    return;
  }
  data_kernel(stage, stage.streams.compute, elements * width(stage.plan.precision.parameters),
              cost::MemoryOp::elementwise, "maxima of weights");
  if (shared.shards > 1) {
    data_collective(stage, stage.streams.compute, shared.group, cost::Collective::all_reduce,
                    weights * kScaleBytes, "maxima of weights");
  }
}

}  // namespace stepcast::lower
