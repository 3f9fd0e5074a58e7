#include "kernel_price.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stepcast/config/config.h"
#include "stepcast/interop/gpu_csv.h"
#include "stepcast/model/operators.h"

namespace stepcast::validate {
namespace {

using interop::AttentionCase;
using interop::CopyCase;
using interop::GemmCase;
using interop::LayerCase;
using interop::MemoryCase;

model::Gemm shape_of(const GemmCase& c) { return {c.m, c.n, c.k, c.batch}; }

cost::MemoryOp memory_op(model::OpKind kind) {
  using model::OpKind;
  switch (kind) {  // as lower prices them
    case OpKind::norm:
      return cost::MemoryOp::norm;
    case OpKind::softmax:
      return cost::MemoryOp::softmax;
    case OpKind::activation:
      return cost::MemoryOp::activation;
    case OpKind::dropout:
    case OpKind::residual:
      return cost::MemoryOp::dropout;
    case OpKind::embedding:
      return cost::MemoryOp::embedding;
    case OpKind::cross_entropy:
      return cost::MemoryOp::cross_entropy;
    case OpKind::permute:
      return cost::MemoryOp::permute;
    default:
      return cost::MemoryOp::elementwise;
  }
}

std::optional<cost::CopyDirection> direction_named(const std::string& name) {
  static const std::map<std::string, cost::CopyDirection> known{
      {"h2d", cost::CopyDirection::host_to_device},
      {"d2h", cost::CopyDirection::device_to_host},
      {"both", cost::CopyDirection::both},
      {"d2d", cost::CopyDirection::device_to_device}};
  const auto at = known.find(name);
  return at == known.end() ? std::nullopt : std::optional(at->second);
}

constexpr std::int64_t kFewRows = 64;
constexpr std::int64_t kLong = 4096;  // tokens

}  // namespace

std::optional<cost::MemoryOp> memory_op_named(const std::string& op) {
  using cost::MemoryOp;
  static const std::map<std::string, MemoryOp> known{
      {"copy", MemoryOp::copy},           {"norm", MemoryOp::norm},
      {"softmax", MemoryOp::softmax},     {"activation", MemoryOp::activation},
      {"dropout", MemoryOp::dropout},     {"add", MemoryOp::elementwise},
      {"embedding", MemoryOp::embedding}, {"cross_entropy", MemoryOp::cross_entropy},
      {"optimizer", MemoryOp::optimizer}, {"permute", MemoryOp::permute}};
  const auto at = known.find(op);
  return at == known.end() ? std::nullopt : std::optional(at->second);
}

KernelPrices::KernelPrices(const job::Device& device, const std::string& library,
                           const std::filesystem::path& calibration)
    : device_(device), library_(library), calibration_(calibration) {
  const auto all = cost::gemm_libraries(calibration, "");
  if (!all.empty() && std::find(all.begin(), all.end(), library) == all.end()) {
    const auto here = cost::gemm_libraries(calibration, device.name);
    throw InputError(
        Fault{{"--library", 0, 0},
              fmt::format("no measurements of '{}'; {} {}", library,
                          here.empty() ? "none of this device either; of others there are"
                                       : fmt::format("of {} there are", device.name),
                          fmt::join(here.empty() ? all : here, ", "))});
  }
}

KernelPrices::Curves& KernelPrices::of(const std::string& library) {
  const std::string& name = library.empty() ? library_ : library;
  Curves& c = curves_[name];
  if (!c.kernels) {
    c.kernels = std::make_unique<cost::Kernels>(device_, name, calibration_,
                                                std::vector<std::string>{}, c.table);
  }
  return c;
}

namespace {
Price with_residual(const cost::Priced& priced, const cost::CurveTable& table) {
  return {to_seconds(priced.time), table.curves()[priced.curve].residual};
}
}  // namespace

Price KernelPrices::gemm(const model::Gemm& shape, job::DType dtype, cost::Layout layout,
                         bool accumulate, bool burst, const std::string& library) {
  Curves& c = of(library);
  return with_residual(burst ? c.kernels->burst_gemm(shape, dtype, layout, accumulate)
                             : c.kernels->gemm(shape, dtype, layout, accumulate),
                       c.table);
}

Price KernelPrices::experts(const cost::ExpertLayer& layer, job::DType dtype,
                            const std::string& library) {
  Curves& c = of(library);
  return with_residual(c.kernels->expert_layer(layer, dtype), c.table);
}

Price KernelPrices::attention(const model::AttentionShape& shape, job::AttentionKernel kernel,
                              job::DType dtype, bool backward, bool paged) {
  Curves& c = of("");
  return with_residual(paged ? c.kernels->paged_attention(shape, kernel, dtype)
                             : c.kernels->attention(shape, kernel, dtype, backward),
                       c.table);
}

Price KernelPrices::memory(const std::string& op, std::int64_t bytes) {
  Curves& c = of("");
  return with_residual(c.kernels->memory(memory_op_named(op).value(), Bytes(bytes)), c.table);
}

// The kernels of one layer, one after another, as calibrate-gpu runs them.
Price KernelPrices::layer(const LayerCase& what) {
  const job::Model model = config::model(what.model);
  model::Shard shard;
  shard.sequences = what.sequences;
  shard.sequence_length = what.length;
  shard.tensor = what.tensor;
  if (const auto why = model::check_shard(model, shard)) {
    throw InputError(Fault{{what.model, 0, 0}, why->reason});
  }
  model::Style style;
  style.dtype = what.dtype;
  style.attention = job::AttentionKernel::cudnn;
  const auto graph =
      model::build_layer(model, model::layer_kind(model, model.layers - 1), shard, style);
  Curves& c = of("");
  double seconds = 0;
  double variance = 0;  // of errors that do not know of each other
  const auto add = [&](const cost::Priced& p) {
    const Price one = with_residual(p, c.table);
    seconds += one.seconds;
    variance += one.seconds * one.residual * one.seconds * one.residual;
  };
  const auto product = [&](const model::Operator& op, const model::Gemm& g, cost::Layout layout) {
    add(op.kind == model::OpKind::grouped_gemm
            ? c.kernels->grouped_gemm({g.m, g.n, g.k, 1}, static_cast<int>(g.batch), what.dtype,
                                      layout)
            : c.kernels->burst_gemm(g, what.dtype, layout));
  };
  for (const model::Operator& op : graph.operators) {
    if (op.gemm) {
      const model::Gemm& g = *op.gemm;
      if (what.backward) {
        product(op, {g.m, g.k, g.n, g.batch}, cost::Layout::input_grad);
        product(op, {g.k, g.n, g.m, g.batch}, cost::Layout::weight_grad);
      } else {
        product(op, g, cost::Layout::forward);
      }
    } else if (op.attention) {
      add(c.kernels->attention(*op.attention, job::AttentionKernel::cudnn, what.dtype,
                               what.backward));
    } else {
      const Bytes moved = what.backward ? op.backward_moved : op.forward_moved;
      const int launches = what.backward ? op.backward_kernels : op.forward_kernels;
      for (int i = 0; moved.count() > 0 && i < launches; ++i) {
        add(c.kernels->memory(memory_op(op.kind), Bytes(moved.count() / launches)));
      }
    }
  }
  return {seconds, seconds > 0 ? std::sqrt(variance) / seconds : 0};
}

std::optional<Price> KernelPrices::measured(const interop::GpuCase& what, std::string& why) {
  if (const auto* g = std::get_if<GemmCase>(&what)) {
    const auto layout = static_cast<cost::Layout>(g->layout);
    if (g->groups > 1) {
      Curves& c = of("");
      return with_residual(c.kernels->grouped_gemm(shape_of(*g), g->groups, g->dtype, layout),
                           c.table);
    }
    return gemm(shape_of(*g), g->dtype, layout, g->accumulate_fp32, !g->sustained, "");
  }
  if (const auto* a = std::get_if<AttentionCase>(&what)) {
    model::AttentionShape shape;
    shape.sequences = a->sequences;
    shape.query_length = shape.key_length = a->length;
    shape.heads = a->heads;
    shape.kv_heads = a->kv_heads;
    shape.qk_dim = shape.v_dim = a->head_dim;
    shape.causal = a->causal;
    const auto kernel = interop::attention_named(a->kernel);
    if (!kernel || *kernel == job::AttentionKernel::unfused) {
      why = fmt::format("the kernel {} is not modelled", a->kernel);
      return std::nullopt;
    }
    return attention(shape, *kernel, a->dtype, a->backward, false);
  }
  if (const auto* m = std::get_if<MemoryCase>(&what)) {
    if (!memory_op_named(m->op)) {
      why = fmt::format("the operator {} is not modelled", m->op);
      return std::nullopt;
    }
    return memory(m->op, m->bytes);
  }
  if (const auto* copy = std::get_if<CopyCase>(&what)) {
    const auto direction = direction_named(copy->direction);
    if (!direction ||
        (*direction != cost::CopyDirection::device_to_device && device_.pcie.count() <= 0)) {
      why = "the device's link to the host is not known";
      return std::nullopt;
    }
    Curves& c = of("");
    return with_residual(c.kernels->copy(*direction, copy->pinned, Bytes(copy->bytes)), c.table);
  }
  if (const auto* l = std::get_if<LayerCase>(&what)) {
    try {
      return layer(*l);
    } catch (const InputError& error) {
      why = error.faults().front().message;
      return std::nullopt;
    }
  }
  why = "no kernel alone on the device";
  return std::nullopt;
}

Shown shown_gemm(const std::string& dtype, const model::Gemm& shape, const std::string& way) {
  Shown s;
  s.id =
      fmt::format("{} {}{}x{}x{}{}", dtype, shape.batch > 1 ? fmt::format("{}x", shape.batch) : "",
                  shape.m, shape.n, shape.k, way.empty() ? "" : " " + way);
  const double gflop = 2e-9 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                       static_cast<double>(shape.k) * static_cast<double>(shape.batch);
  // Where launches and waves stop mattering; the fits are judged on the same side.
  s.classes.push_back(fmt::format("{} gemm {} 1 GFLOP", dtype, gflop < 1 ? "below" : "from"));
  if (gflop >= 1) {
    s.classes.push_back(fmt::format("{} gemm {}", dtype,
                                    gflop < 10    ? "1 to 10 GFLOP"
                                    : gflop < 100 ? "10 to 100 GFLOP"
                                                  : "from 100 GFLOP"));
  }
  s.classes.push_back(fmt::format("{} gemm {} 64 rows", dtype,
                                  shape.m * shape.batch <= kFewRows ? "up to" : "above"));
  if (!way.empty()) {
    s.classes.push_back(fmt::format("{} gemm {}", dtype, way));
  }
  return s;
}

Shown shown(const interop::GpuCase& what) {
  if (const auto* g = std::get_if<GemmCase>(&what)) {
    constexpr const char* kWays[] = {"", "input gradient", "weight gradient"};
    std::string way = kWays[static_cast<int>(g->layout)];
    if (g->groups > 1) {
      return {interop::to_string(what), {fmt::format("{} grouped gemm", job::to_string(g->dtype))}};
    }
    if (g->sustained) {
      way += way.empty() ? "sustained" : " sustained";
    }
    return shown_gemm(job::to_string(g->dtype), shape_of(*g), way);
  }
  if (const auto* a = std::get_if<AttentionCase>(&what)) {
    return {interop::to_string(what),
            {fmt::format("{} {} {} {} tokens", job::to_string(a->dtype), a->kernel,
                         a->backward ? "backward" : "forward",
                         a->length < kLong ? "below 4096" : "from 4096")}};
  }
  if (const auto* m = std::get_if<MemoryCase>(&what)) {
    return {interop::to_string(what),
            {fmt::format("{} {} 1 MiB", m->op, m->bytes < (1 << 20) ? "below" : "from")}};
  }
  if (const auto* c = std::get_if<CopyCase>(&what)) {
    return {interop::to_string(what), {fmt::format("copy {}", c->direction)}};
  }
  if (const auto* l = std::get_if<LayerCase>(&what)) {
    return {interop::to_string(what), {l->backward ? "layer backward" : "layer forward"}};
  }
  return {interop::to_string(what), {}};
}

}  // namespace stepcast::validate
