#include "gpu_figures.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "stepcast/base/statistics.h"

namespace stepcast::calibrate {
namespace {

using interop::CopyCase;
using interop::GemmCase;
using interop::LaunchCase;
using interop::OverlapCase;
using result::KernelFigure;

struct Times {
  std::vector<double> values;
  KernelFigure::Unit unit = KernelFigure::Unit::seconds;
};

// The figures, in the order of first use.
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
      {"gap", "time from kernel to kernel in a full stream"},
      {"graph_launch", "CUDA graph launch on the host"},
      {"graph_kernel", "time from kernel to kernel in a CUDA graph"},
      {"event_record", "event record"},
      {"stream_wait", "wait of a stream for an event"},
      {"synchronize", "synchronisation with the host"}};
  return names.at(what);
}

}  // namespace

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

}  // namespace stepcast::calibrate
