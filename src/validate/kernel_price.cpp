#include "kernel_price.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stepcast/measured/kernels.h"

namespace stepcast::validate {
namespace {

using interop::AttentionCase;
using interop::CopyCase;
using interop::GemmCase;
using interop::LayerCase;
using interop::MemoryCase;

constexpr std::int64_t kFewRows = 64;
constexpr std::int64_t kLong = 4096;  // tokens

}  // namespace

KernelPrices::KernelPrices(const job::Device& device, const std::string& library,
                           const std::filesystem::path& calibration,
                           const std::vector<std::string>& own)
    : device_(device), library_(library), calibration_(calibration), only_(own) {
  if (!own.empty()) {
    only_.emplace_back("auto");
    return;  // The user's own files may define libraries of their own, so the name is not checked.
  }
  const auto all = cost::gemm_libraries(calibration, "");
  if (!all.empty() && std::find(all.begin(), all.end(), library) == all.end()) {
    const auto here = cost::gemm_libraries(calibration, device.name);
    throw InputError(
        Fault{{"--library", 0, 0},
              fmt::format("no measurements of '{}'; {} {}", library,
                          here.empty() ? "none of this device either; other devices have those of"
                                       : fmt::format("{} has those of", device.name),
                          fmt::join(here.empty() ? all : here, ", "))});
  }
}

KernelPrices::Curves& KernelPrices::of(const std::string& library) {
  const std::string& name = library.empty() ? library_ : library;
  Curves& c = curves_[name];
  if (!c.kernels) {
    c.kernels = std::make_unique<cost::Kernels>(device_, name, calibration_, only_, c.table);
  }
  return c;
}

namespace {
Price with_residual(const cost::Priced& priced, const cost::CurveTable& table) {
  return {to_seconds(priced.time), table.curves()[priced.curve].residual};
}
}  // namespace

Price KernelPrices::gemm(const cost::GemmQuery& query, const std::string& library) {
  Curves& c = of(library);
  return with_residual(c.kernels->gemm(query), c.table);
}

Price KernelPrices::experts(const cost::ExpertLayer& layer, job::DType dtype,
                            const std::string& library) {
  Curves& c = of(library);
  return with_residual(c.kernels->expert_layer(layer, dtype), c.table);
}

Price KernelPrices::attention(const cost::AttentionQuery& query) {
  Curves& c = of("");
  return with_residual(c.kernels->attention(query), c.table);
}

Price KernelPrices::memory(const std::string& op, std::int64_t bytes, std::int64_t row) {
  Curves& c = of("");
  return with_residual(
      c.kernels->memory(measured::memory_op_named(op).value(), Bytes(bytes), false, row), c.table);
}

std::optional<Price> KernelPrices::measured(const interop::GpuCase& what, std::string& why) {
  Curves& c = of("");
  std::vector<cost::Priced> priced;
  try {
    priced = measured::prices(*c.kernels, device_, what, false, why);
  } catch (const InputError& error) {
    why = error.faults().front().message;
  }
  if (priced.empty()) {
    return std::nullopt;
  }
  Price sum;
  double variance = 0;  // The errors of different kernels are taken as independent.
  for (const cost::Priced& p : priced) {
    const Price one = with_residual(p, c.table);
    sum.seconds += one.seconds;
    variance += one.seconds * one.residual * one.seconds * one.residual;
  }
  sum.residual = sum.seconds > 0 ? std::sqrt(variance) / sum.seconds : 0;
  return sum;
}

Shown shown_gemm(const std::string& dtype, const model::Gemm& shape, const std::string& way) {
  Shown s;
  s.id =
      fmt::format("{} {}{}x{}x{}{}", dtype, shape.batch > 1 ? fmt::format("{}x", shape.batch) : "",
                  shape.m, shape.n, shape.k, way.empty() ? "" : " " + way);
  const double gflop = 2e-9 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                       static_cast<double>(shape.k) * static_cast<double>(shape.batch);
  // Launch overhead and wave quantisation stop mattering near 1 GFLOP. Calibration fits are judged
  // with the same limit.
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
    return shown_gemm(job::to_string(g->dtype), measured::shape_of(*g), way);
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
