#include "gpu_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/statistics.h"
#include "stepcast/measured/kernels.h"

namespace stepcast::calibrate {
namespace {

using interop::AttentionCase;
using interop::CollectiveCase;
using interop::CopyCase;
using interop::GemmCase;
using interop::GpuMeasurement;
using interop::LaunchCase;
using interop::MemoryCase;
using interop::OverlapCase;

// Times of one case that differ by more than this factor are not noise (interop/gpu_measurements.h
// has the same limit within a file).
constexpr double kContradiction = 1.5;
// Standard deviations between the 10th and the 90th percentile of a normal distribution.
constexpr double kDecileSpan = 2.563;
// The largest share of the memory bandwidth that is assumed (lower/passes/slowdown.cpp has the same
// limit).
constexpr double kMaxMemoryShare = 0.75;

// Bytes read and written in a member's memory: the bytes that it sends, times the reads and
// writes of each (as cost/collectives.cpp counts them).
double memory_bytes(const OverlapCase& c) {
  const double n = std::max(2, c.ranks);
  const double bytes = static_cast<double>(c.other_bytes);
  if (c.op == "all_reduce") {
    return 2.5 * bytes * 2 * (n - 1) / n;
  }
  if (c.op == "reduce_scatter") {
    return 3 * bytes * (n - 1) / n;
  }
  if (c.op == "all_gather" || c.op == "alltoall") {
    return 2 * bytes * (n - 1) / n;
  }
  return (c.op == "reduce" ? 3 : 2) * bytes;
}

class Gatherer {
 public:
  Gatherer(const job::Device& device, std::string library)
      : device_(device), library_(std::move(library)) {}

  void take(const interop::GpuMeasurements& file) {
    for (const Fault& warning : file.warnings) {
      out_.warnings.push_back(to_string(warning.where) + ": " + warning.message);
    }
    for (const auto& s : file.sessions) {
      warn_of(file.file, s);
    }
    for (const GpuMeasurement& m : file.measurements) {
      if (!m.skipped.empty()) {
        leave_out(file.file, m.line, "not measured: " + m.skipped);
      } else {
        add(file.file, library_.empty() ? "cublas" : library_, m, true, false);
      }
    }
  }

  void take(const interop::KernelTable& table) {
    for (const interop::LeftOut& l : table.left_out) {
      out_.left_out.push_back({table.file, l.first_line, l.rows, l.why});
    }
    for (const auto& [of_table, measurements] : table.measurements) {
      const std::string& library = !library_.empty()  ? library_
                                   : of_table.empty() ? std::string("cublas")
                                                      : of_table;
      for (const GpuMeasurement& m : measurements) {
        const auto* memory = std::get_if<MemoryCase>(&m.what);
        if (memory != nullptr && memory->bytes <= device_.l2.count()) {
          // Published benchmarks repeat an operator on the same buffers.
          leave_out(table.file, m.line, "the data may stay in the L2 cache between repetitions");
        } else {
          // Cases of a memory-bound operator with equal bytes are different shapes and no
          // repetitions.
          add(table.file, library, m, memory == nullptr, true);
        }
      }
    }
  }

  Gathered run() {
    for (auto& [key, all] : cases_) {
      settle(key.second, all);
    }
    return std::move(out_);
  }

 private:
  struct Place {
    std::string file;
    int line = 0;
    Measured measured;
  };

  void warn_of(const std::string& file, const interop::GpuSession& s) {
    const auto warn = [&](const std::string& what) {
      const std::string text = file + ": " + what;
      if (std::find(out_.warnings.begin(), out_.warnings.end(), text) == out_.warnings.end()) {
        out_.warnings.push_back(text);
      }
    };
    if (s.sms > 0 && device_.sms > 0 && s.sms != device_.sms) {
      warn(fmt::format("{} SMs, {} has {}: a part of a GPU, or another board", s.sms, device_.name,
                       device_.sms));
    }
    const double rated = device_.power.count();
    if (s.power_limit > 0 && rated > 0 && s.power_limit < 0.95 * rated) {
      warn(
          fmt::format("a power limit of {:.0f} W, {} is rated at {:.0f} W: sustained figures are "
                      "those of this limit",
                      s.power_limit, device_.name, rated));
    }
  }

  void leave_out(const std::string& file, int line, const std::string& why) {
    for (auto& l : out_.left_out) {
      if (l.file == file && l.why == why) {
        ++l.count;
        return;
      }
    }
    out_.left_out.push_back({file, line, 1, why});
  }

  // `once`: cases of the same name are repetitions of one case.
  void add(const std::string& file, const std::string& library, const GpuMeasurement& m, bool once,
           bool engine) {
    std::string why;
    if (const auto* a = std::get_if<AttentionCase>(&m.what)) {
      if (a->kernel == "unfused") {
        why = "unfused attention is priced as products and a softmax";
      } else if (job::bytes_per_element(a->dtype) != 2) {
        why = fmt::format("attention in {} is not modelled", job::to_string(a->dtype));
      }
    }
    if (const auto* c = std::get_if<CollectiveCase>(&m.what)) {
      if (c->ranks > 1) {
        return;  // the report refers to `calibrate nccl` for these
      }
      why = "collectives of one rank measure only the cost of a call, for which there is no curve";
    }
    if (!why.empty()) {
      leave_out(file, m.line, why);
      return;
    }
    Measured measured;
    measured.what = m.what;
    measured.engine = engine;
    const bool gemm = std::holds_alternative<GemmCase>(m.what);
    measured.library = gemm ? library : "";
    measured.seconds = m.time.median;
    measured.deviation =
        m.time.samples > 1 ? (m.time.p90 - m.time.p10) / kDecileSpan / m.time.median : 0;
    measured.alone = m.alone;
    measured.other_alone = m.other_alone;
    measured.other_together = m.other_together;
    std::string name = interop::to_string(m.what);
    if (gemm) {
      name += " " + library;
    }
    // Cases are numbered in the order in which they first appear.
    const std::size_t place =
        places_
            .try_emplace(once ? name : fmt::format("{} {}:{}", name, file, m.line), places_.size())
            .first->second;
    cases_[{place, name}].push_back({file, m.line, std::move(measured)});
  }

  void settle(const std::string& name, std::vector<Place>& all) {
    std::vector<double> times;
    for (const Place& p : all) {
      times.push_back(p.measured.seconds);
    }
    const auto [least, most] = std::minmax_element(times.begin(), times.end());
    if (*most > kContradiction * *least) {
      std::string lines;
      for (const Place& p : all) {
        lines += fmt::format("{}{}:{}", lines.empty() ? "" : ", ", p.file, p.line);
      }
      out_.warnings.push_back(fmt::format(
          "{}: {}: times a factor of {:.2f} apart; all are left out", lines, name, *most / *least));
      leave_out(all.front().file, all.front().line, "contradicts another time of the same case");
      out_.left_out.back().count += static_cast<int>(all.size()) - 1;
      return;
    }
    Measured m = all.back().measured;
    if (!std::holds_alternative<OverlapCase>(m.what)) {
      m.seconds = median(times);
    }
    out_.cases.push_back(std::move(m));
  }

  const job::Device& device_;
  std::string library_;
  std::map<std::string, std::size_t> places_;
  std::map<std::pair<std::size_t, std::string>, std::vector<Place>> cases_;
  Gathered out_;
};

cost::OverlapSample overlap_of(const Measured& m, const OverlapCase& c, const job::Device& device) {
  cost::OverlapSample s;
  s.memory_bound = c.kernel != "gemm";
  s.sms = c.channels;
  const double taken = memory_bytes(c) / m.other_alone / device.memory_bandwidth.count();
  s.memory_share = std::min(taken, kMaxMemoryShare);
  s.kernel_stretch = m.seconds / m.alone;
  s.collective_stretch = m.other_together / m.other_alone;
  return s;
}

}  // namespace

Gathered gather(const std::vector<KernelFile>& files, const job::Device& device,
                const std::string& library) {
  Gatherer all(device, library);
  for (const KernelFile& file : files) {
    std::visit([&](const auto& one) { all.take(one); }, file);
  }
  return all.run();
}

cost::KernelSamples samples_of(const std::vector<Measured>& cases, const std::string& library,
                               bool with_the_rest, const job::Device& device) {
  cost::KernelSamples out;
  for (const Measured& m : cases) {
    if (const auto* g = std::get_if<GemmCase>(&m.what)) {
      if (m.library == library) {
        cost::GemmSample s;
        s.shape = measured::shape_of(*g);
        s.layout = static_cast<cost::Layout>(g->layout);
        s.accumulate_fp32 = g->accumulate_fp32;
        s.groups = g->groups;
        s.sustained = g->sustained;
        s.seconds = m.seconds;
        s.deviation = m.deviation;
        out.gemm[g->dtype].push_back(s);
      }
      continue;
    }
    if (!with_the_rest) {
      continue;
    }
    if (const auto* a = std::get_if<AttentionCase>(&m.what)) {
      const auto kernel = interop::attention_named(a->kernel);
      STEPCAST_CHECK(kernel.has_value(), "an attention kernel that readers let through");
      out.attention[*kernel].push_back({measured::shape_of(*a), a->backward, m.seconds});
    } else if (const auto* b = std::get_if<MemoryCase>(&m.what)) {
      out.memory[measured::memory_op_named(b->op).value()].push_back(
          {static_cast<double>(b->bytes), m.seconds, b->backward});
    } else if (const auto* c = std::get_if<CopyCase>(&m.what)) {
      out.copies.push_back({measured::direction_named(c->direction).value(), c->pinned,
                            static_cast<double>(c->bytes), m.seconds});
    } else if (const auto* o = std::get_if<OverlapCase>(&m.what)) {
      if (!o->op.empty()) {
        out.overlap.push_back(overlap_of(m, *o, device));
      }
    } else if (const auto* l = std::get_if<LaunchCase>(&m.what)) {
      if (l->what == "launch") {
        out.launch = m.seconds;
      } else if (l->what == "graph_kernel") {
        out.graph_kernel = m.seconds;
      }
    }
  }
  return out;
}

}  // namespace stepcast::calibrate
