#include "gpu_compare.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/median.h"
#include "stepcast/config/config.h"
#include "stepcast/cost/kernels.h"
#include "stepcast/model/operators.h"

namespace stepcast::calibrate {
namespace {

namespace fs = std::filesystem;
using interop::AttentionCase;
using interop::CopyCase;
using interop::GemmCase;
using interop::LaunchCase;
using interop::LayerCase;
using interop::MemoryCase;
using interop::OverlapCase;
using result::KernelFigure;

// The new files where the pricing reads them: it takes paths. Gone with this.
class Folder {
 public:
  explicit Folder(const std::vector<result::KernelFile>& files) {
    static std::atomic<int> next{0};
    path_ = fs::temp_directory_path() / fmt::format("stepcast-fit-{}-{}", ::getpid(), next++);
    fs::create_directories(path_);
    for (const auto& file : files) {
      std::ofstream out(path_ / file.name, std::ios::binary);
      out << file.yaml;
      out.close();
      if (!out) {
        throw std::runtime_error("cannot write " + (path_ / file.name).string());
      }
    }
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }
  // A curve's file as it will be called: the folder's own name says nothing.
  std::string without(const std::string& file) const {
    const std::string front = path_.filename().string() + "/";
    return file.starts_with(front) ? file.substr(front.size()) : file;
  }

 private:
  fs::path path_;
};

// Curves of one library, and where a price came from.
struct Curves {
  cost::CurveTable table;
  std::unique_ptr<cost::Kernels> kernels;
  std::string file_of(const cost::Priced& priced) const {
    return table.curves()[priced.curve].file;
  }
};

std::unique_ptr<Curves> curves_of(const job::Device& device, const std::string& library,
                                  const fs::path& directory, const std::vector<std::string>& only) {
  auto out = std::make_unique<Curves>();
  out->kernels = std::make_unique<cost::Kernels>(device, library, directory, only, out->table);
  return out;
}

// What was timed, alone on the device: nothing of a job around it. nullopt: no kernel.
std::optional<cost::Priced> price(const cost::Kernels& kernels, const interop::GpuCase& what,
                                  const job::Device& device) {
  if (const auto* g = std::get_if<GemmCase>(&what)) {
    const auto layout = static_cast<cost::Layout>(g->layout);
    if (g->groups > 1) {
      return kernels.grouped_gemm(shape_of(*g), g->groups, g->dtype, layout);
    }
    return g->sustained ? kernels.gemm(shape_of(*g), g->dtype, layout, g->accumulate_fp32)
                        : kernels.burst_gemm(shape_of(*g), g->dtype, layout, g->accumulate_fp32);
  }
  if (const auto* a = std::get_if<AttentionCase>(&what)) {
    const auto kernel = interop::attention_named(a->kernel);
    // With what writing a paged cache took, where the curve rests on an engine's table.
    return a->backward ? kernels.attention(shape_of(*a), kernel.value(), a->dtype, true)
                       : kernels.paged_attention(shape_of(*a), kernel.value(), a->dtype);
  }
  if (const auto* m = std::get_if<MemoryCase>(&what)) {
    return kernels.memory(memory_op(m->op), Bytes(m->bytes));
  }
  if (const auto* c = std::get_if<CopyCase>(&what)) {
    const auto direction = direction_of(c->direction);
    if (direction != cost::CopyDirection::device_to_device && device.pcie.count() <= 0) {
      return std::nullopt;
    }
    return kernels.copy(direction, c->pinned, Bytes(c->bytes));
  }
  return std::nullopt;
}

// Rows of the comparison.
std::string group_of(const interop::GpuCase& what, const std::string& library) {
  if (const auto* g = std::get_if<GemmCase>(&what)) {
    constexpr const char* kLayouts[] = {"forward", "input grad", "weight grad"};
    return fmt::format("gemm {} {} {}", job::to_string(g->dtype), library,
                       g->groups > 1  ? "grouped"
                       : g->sustained ? "sustained"
                                      : kLayouts[static_cast<int>(g->layout)]);
  }
  if (const auto* a = std::get_if<AttentionCase>(&what)) {
    return fmt::format("attention {} {}", a->kernel, a->backward ? "backward" : "forward");
  }
  if (const auto* m = std::get_if<MemoryCase>(&what)) {
    return "memory " + m->op;
  }
  const auto& c = std::get<CopyCase>(what);
  return fmt::format("copy {} {}", c.direction, c.pinned ? "pinned" : "pageable");
}

struct Group {
  std::vector<double> before, after;
  std::set<std::string> before_from, after_from;
};

double quantile95(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[static_cast<std::size_t>(std::lround(0.95 * static_cast<double>(x.size() - 1)))];
}

std::string joined(const std::set<std::string>& all) {
  return fmt::format("{}", fmt::join(all, ", "));
}

// ---------------------------------------------------------------- layers

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

// What is kept between products whose operands are narrower (as model::style_of).
job::DType activation_type(job::DType t) {
  return t == job::DType::fp16                            ? job::DType::fp16
         : t == job::DType::fp32 || t == job::DType::tf32 ? job::DType::fp32
                                                          : job::DType::bf16;
}

// The kernels of one layer, one after another: those that the harness runs
// (calibration/cuda/layer_plan.cpp).
class LayerTime {
 public:
  LayerTime(const cost::Kernels& kernels, const LayerCase& layer, const model::OperatorGraph& graph)
      : kernels_(kernels), layer_(layer), graph_(graph) {}

  double seconds() {
    for (const model::Operator& op : graph_.operators) {
      layer_.backward ? backward(op) : forward(op);
    }
    return sum_;
  }

 private:
  void add(const cost::Priced& priced) { sum_ += to_seconds(priced.time); }
  void product(const model::Operator& op, const model::Gemm& shape, cost::Layout layout) {
    using model::OpKind;
    // Bursts: one layer is over before the power limit is felt.
    if (op.kind == OpKind::grouped_gemm) {
      add(kernels_.grouped_gemm({shape.m, shape.n, shape.k, 1}, static_cast<int>(shape.batch),
                                layer_.dtype, layout));
    } else if (op.kind == OpKind::gemm || layer_.dtype == job::DType::tf32) {
      add(kernels_.burst_gemm(shape, layer_.dtype, layout));
    } else {
      add(kernels_.burst_gemm(shape, activation_type(layer_.dtype), layout));
    }
  }
  void attention(const model::Operator& op, bool backward) {
    add(kernels_.attention(*op.attention, job::AttentionKernel::cudnn,
                           activation_type(layer_.dtype), backward));
  }
  void moved(const model::Operator& op, Bytes bytes, int launches) {
    if (bytes.count() <= 0 || launches <= 0) {
      return;
    }
    const cost::Priced one = kernels_.memory(memory_op(op.kind), Bytes(bytes.count() / launches));
    sum_ += launches * to_seconds(one.time);
  }
  void forward(const model::Operator& op) {
    if (op.gemm) {
      product(op, *op.gemm, cost::Layout::forward);
    } else if (op.attention) {
      attention(op, false);
    } else {
      moved(op, op.forward_moved, op.forward_kernels);
    }
  }
  void backward(const model::Operator& op) {
    if (op.gemm) {
      const model::Gemm& g = *op.gemm;
      product(op, {g.m, g.k, g.n, g.batch}, cost::Layout::input_grad);
      product(op, {g.k, g.n, g.m, g.batch}, cost::Layout::weight_grad);
    } else if (op.attention) {
      attention(op, true);
    } else {
      // The harness's norm makes both gradients, its input's and its weight's, in one kernel.
      const bool norm = op.kind == model::OpKind::norm;
      moved(op, op.backward_moved,
            norm ? std::max(1, op.backward_kernels / 2) : op.backward_kernels);
    }
  }

  const cost::Kernels& kernels_;
  const LayerCase& layer_;
  const model::OperatorGraph& graph_;
  double sum_ = 0;
};

result::KernelLayer layer_of(const Measured& m, const LayerCase& c, const cost::Kernels& before,
                             const cost::Kernels& after) {
  result::KernelLayer out;
  out.name = interop::to_string(m.what).substr(std::string("layer ").size());
  out.measured = m.seconds;
  try {
    const job::Model model = config::model(c.model);
    model::Shard shard;
    shard.sequences = c.sequences;
    shard.sequence_length = c.length;
    shard.tensor = c.tensor;
    if (const auto why = model::check_shard(model, shard)) {
      out.why = why->reason;
      return out;
    }
    model::Style style;
    style.dtype = activation_type(c.dtype);
    style.attention = job::AttentionKernel::cudnn;
    const auto graph =
        model::build_layer(model, model::layer_kind(model, model.layers - 1), shard, style);
    out.predicted = LayerTime(after, c, graph).seconds();
    out.before = LayerTime(before, c, graph).seconds();
  } catch (const InputError& error) {
    out.why = error.faults().front().message;
  }
  return out;
}

// ---------------------------------------------------------------- figures

struct Times {
  std::vector<double> values;
  KernelFigure::Unit unit = KernelFigure::Unit::seconds;
};

// What is no curve, in the order of first use.
class Figures {
 public:
  void add(const std::string& name, double value, KernelFigure::Unit unit) {
    for (auto& [known, times] : all_) {
      if (known == name) {
        times.values.push_back(value);
        return;
      }
    }
    all_.push_back({name, {{value}, unit}});
  }
  std::vector<KernelFigure> list() const {
    std::vector<KernelFigure> out;
    for (const auto& [name, times] : all_) {
      out.push_back(
          {name, median(times.values), times.unit, static_cast<int>(times.values.size())});
    }
    return out;
  }

 private:
  std::vector<std::pair<std::string, Times>> all_;
};

const char* launch_name(const std::string& what) {
  static const std::map<std::string, const char*> names{
      {"launch", "kernel launch on the host"},
      {"gap", "kernel to kernel in a full stream"},
      {"graph_launch", "CUDA graph launch on the host"},
      {"graph_kernel", "kernel to kernel in a CUDA graph"},
      {"event_record", "event record"},
      {"stream_wait", "wait of a stream for an event"},
      {"synchronize", "synchronisation with the host"}};
  return names.at(what);
}

std::vector<KernelFigure> figures(const std::vector<Measured>& cases) {
  using Unit = KernelFigure::Unit;
  Figures out;
  std::map<std::string, std::pair<std::int64_t, double>> largest;  // copies: bytes, seconds
  std::map<std::string, double> burst;                             // by case without `sustained`
  for (const Measured& m : cases) {
    if (const auto* g = std::get_if<GemmCase>(&m.what); g != nullptr && !g->sustained) {
      burst[interop::to_string(m.what) + m.library] = m.seconds;
    }
  }
  for (const Measured& m : cases) {
    if (const auto* l = std::get_if<LaunchCase>(&m.what)) {
      out.add(launch_name(l->what), m.seconds, Unit::seconds);
    } else if (const auto* c = std::get_if<CopyCase>(&m.what)) {
      const std::string name =
          fmt::format("copy {} {}, largest", c->direction, c->pinned ? "pinned" : "pageable");
      auto& most = largest[name];
      if (c->bytes > most.first) {
        most = {c->bytes, m.seconds};
      }
    } else if (const auto* g = std::get_if<GemmCase>(&m.what); g != nullptr && g->sustained) {
      GemmCase once = *g;
      once.sustained = false;
      const auto at = burst.find(interop::to_string(interop::GpuCase(once)) + m.library);
      if (at != burst.end()) {
        out.add(fmt::format("sustained over burst rate, gemm {}", job::to_string(g->dtype)),
                at->second / m.seconds, Unit::factor);
      }
    } else if (const auto* o = std::get_if<OverlapCase>(&m.what)) {
      const std::string other = o->op.empty() ? "a copy " + o->direction : o->op;
      out.add(fmt::format("{} beside {}", o->kernel == "gemm" ? "gemm" : o->kernel, other),
              m.seconds / m.alone, Unit::factor);
      out.add(fmt::format("{} beside {}", other, o->kernel == "gemm" ? "gemm" : o->kernel),
              m.other_together / m.other_alone, Unit::factor);
    }
  }
  for (const auto& [name, most] : largest) {
    out.add(name, static_cast<double>(most.first) / most.second, Unit::bytes_per_second);
  }
  return out.list();
}

}  // namespace

void compare(const std::vector<Measured>& cases, const job::Device& device,
             const std::vector<std::string>& libraries, const fs::path& calibration_dir,
             result::KernelCalibration& out) {
  const Folder folder(out.files);
  std::map<std::string, std::unique_ptr<Curves>> before, after;
  for (const std::string& library : libraries) {
    before[library] = curves_of(device, library, calibration_dir, {});
    std::vector<std::string> only;
    if (!out.files.empty()) {
      only = {"auto", folder.path().string()};
    }
    after[library] = curves_of(device, library, calibration_dir, only);
  }
  const std::string& main = libraries.front();
  std::vector<std::pair<std::string, Group>> groups;  // in the order of first use
  for (const Measured& m : cases) {
    const std::string& library = m.library.empty() ? main : m.library;
    if (const auto* layer = std::get_if<LayerCase>(&m.what)) {
      out.layers.push_back(
          layer_of(m, *layer, *before.at(main)->kernels, *after.at(main)->kernels));
      continue;
    }
    const auto old = price(*before.at(library)->kernels, m.what, device);
    const auto fresh = price(*after.at(library)->kernels, m.what, device);
    if (!old || !fresh) {
      continue;
    }
    const std::string name = group_of(m.what, library);
    auto at =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == name; });
    if (at == groups.end()) {
      groups.emplace_back(name, Group{});
      at = groups.end() - 1;
    }
    at->second.before.push_back(std::abs(to_seconds(old->time) / m.seconds - 1));
    at->second.after.push_back(std::abs(to_seconds(fresh->time) / m.seconds - 1));
    at->second.before_from.insert(before.at(library)->file_of(*old));
    at->second.after_from.insert(folder.without(after.at(library)->file_of(*fresh)));
  }
  for (const auto& [name, g] : groups) {
    out.comparisons.push_back({name, static_cast<int>(g.before.size()), median(g.before),
                               quantile95(g.before), median(g.after), quantile95(g.after),
                               joined(g.before_from), joined(g.after_from)});
  }
  out.figures = figures(cases);
}

}  // namespace stepcast::calibrate
