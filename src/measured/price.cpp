#include <fmt/format.h>

#include "stepcast/config/config.h"
#include "stepcast/interop/gpu_csv.h"
#include "stepcast/measured/kernels.h"

namespace stepcast::measured {
namespace {

using interop::AttentionCase;
using interop::CopyCase;
using interop::GemmCase;
using interop::LayerCase;
using interop::MemoryCase;

class Pricing {
 public:
  Pricing(const cost::Kernels& kernels, const job::Device& device, bool engine, std::string& why)
      : kernels_(kernels), device_(device), engine_(engine), why_(why) {}

  std::vector<cost::Priced> operator()(const GemmCase& c) const {
    const auto layout = static_cast<cost::Layout>(c.layout);
    const model::Gemm shape = shape_of(c);
    if (c.groups > 1) {
      return {
          kernels_.grouped_gemm({.shape = shape, .dtype = c.dtype, .layout = layout}, c.groups)};
    }
    return {kernels_.gemm({.shape = shape,
                           .dtype = c.dtype,
                           .layout = layout,
                           .accumulate_fp32 = c.accumulate_fp32,
                           .operands_cast = !engine_,
                           .pace = c.sustained ? cost::Pace::sustained : cost::Pace::burst})};
  }

  std::vector<cost::Priced> operator()(const AttentionCase& c) const {
    const auto kernel = interop::attention_named(c.kernel);
    if (!kernel || *kernel == job::AttentionKernel::unfused) {
      return none(fmt::format("the kernel {} is not modelled", c.kernel));
    }
    return {kernels_.attention({.shape = shape_of(c),
                                .kernel = *kernel,
                                .dtype = c.dtype,
                                .backward = c.backward,
                                .paged_cache = engine_})};
  }

  std::vector<cost::Priced> operator()(const MemoryCase& c) const {
    const auto op = memory_op_named(c.op);
    if (!op) {
      return none(fmt::format("the operator {} is not modelled", c.op));
    }
    return {kernels_.memory(*op, Bytes(c.bytes), c.backward)};
  }

  std::vector<cost::Priced> operator()(const CopyCase& c) const {
    const auto direction = direction_named(c.direction);
    if (!direction ||
        (*direction != cost::CopyDirection::device_to_device && device_.pcie.count() <= 0)) {
      return none("the device's link to the host is not known");
    }
    return {kernels_.copy(*direction, c.pinned, Bytes(c.bytes))};
  }

  std::vector<cost::Priced> operator()(const LayerCase& c) const {
    const auto found = layer_kernels(config::model(c.model), c);
    if (const auto* not_possible = std::get_if<Infeasible>(&found)) {
      return none(not_possible->reason);
    }
    std::vector<cost::Priced> out;
    for (const LayerKernel& kernel : std::get<0>(found)) {
      const auto one = std::visit(*this, kernel.what);
      for (int i = 0; i < kernel.launches; ++i) {
        out.insert(out.end(), one.begin(), one.end());
      }
    }
    return out;
  }

  template <typename Other>
  std::vector<cost::Priced> operator()(const Other&) const {
    return none("not a kernel that runs alone on the device");
  }

 private:
  std::vector<cost::Priced> none(std::string why) const {
    why_ = std::move(why);
    return {};
  }

  const cost::Kernels& kernels_;
  const job::Device& device_;
  bool engine_;
  std::string& why_;
};

}  // namespace

std::vector<cost::Priced> prices(const cost::Kernels& kernels, const job::Device& device,
                                 const interop::GpuCase& what, bool engine, std::string& why) {
  return std::visit(Pricing(kernels, device, engine, why), what);
}

}  // namespace stepcast::measured
