// The measured side of a row, in SI units.
#include <algorithm>
#include <array>

#include "fields.h"
#include "stepcast/interop/published_rows.h"

namespace stepcast::interop {
namespace {

struct MeasurementName {
  std::string_view row;     // in the file
  std::string_view metric;  // in our results
  std::string_view unit;
  double factor;  // to SI units
};

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// Some files print mfu in percent: see fraction().
constexpr std::array<MeasurementName, 22> kNames{{
    {"iteration_s", "step_time", "", 1},
    {"tflops_per_gpu", "throughput", "flops_per_gpu", 1e12},
    {"tokens_per_s_per_gpu", "throughput", "tokens_per_gpu", 1},
    {"samples_per_s_per_gpu", "throughput", "samples_per_gpu", 1},
    {"samples_per_s", "throughput", "samples", 1},
    {"tokens_per_s", "throughput", "tokens", 1},
    {"mfu", "mfu", "", 1},
    {"hfu", "hfu", "", 1},
    {"layer_fwd_bwd_ms", "layer_time", "", 1e-3},
    {"layer_combined_ms", "layer_time", "", 1e-3},
    {"layer_forward_ms", "layer_forward_time", "", 1e-3},
    {"layer_backward_ms", "layer_backward_time", "", 1e-3},
    {"peak_memory_gib", "peak_memory", "", kGiB},
    {"peak_memory_gb", "peak_memory", "", 1e9},
    {"peak_allocated_bytes", "peak_memory", "", 1},
    {"steady_allocated_bytes", "steady_memory", "", 1},
    {"peak_reserved_gib", "peak_memory", "", kGiB},
    {"peak_allocated_gib", "peak_memory", "", kGiB},
    {"peak_active_gib", "peak_memory", "", kGiB},
    {"peak_memory_mib", "peak_memory", "", 1024.0 * 1024.0},
    {"nvidia_smi_gb", "peak_memory", "", 1e9},
    {"oom", "oom", "", 1},
}};

// Names that say themselves which number they are.
std::string kind_in_name(std::string_view name) {
  if (contains(name, "reserved")) {
    return "reserved";
  }
  if (contains(name, "allocated")) {
    return "allocated";
  }
  if (contains(name, "active")) {
    return "active";
  }
  if (contains(name, "nvidia_smi")) {
    return "process";
  }
  return "";
}

// No utilisation reaches 1.5, and none that anyone published is below 1.5 percent.
double fraction(double printed) { return printed > 1.5 ? printed / 100 : printed; }

std::optional<double> number_in(Fields field) {
  if (!field.present() || field.is_text()) {
    return std::nullopt;
  }
  const std::string text = field.text();
  if (text == "true" || text == "false") {
    return text == "true" ? 1.0 : 0.0;
  }
  return field.number();
}

class Collector {
 public:
  explicit Collector(const PublishedRow& row) : row_(row) {}

  void take(std::string_view name, Fields field, bool primary) {
    const auto* known =
        std::find_if(kNames.begin(), kNames.end(),
                     [&](const MeasurementName& entry) { return entry.row == name; });
    const auto value = number_in(field);
    if (known == kNames.end() || !value || *value < 0) {
      return;
    }
    Measurement m{std::string(known->metric),
                  std::string(known->unit),
                  *value * known->factor,
                  primary,
                  "",
                  std::nullopt};
    if (m.metric == "mfu" || m.metric == "hfu") {
      m.value = fraction(*value);
    }
    if (m.metric == "peak_memory") {
      m.memory_kind = kind_in_name(name).empty() ? row_.output.memory_kind : kind_in_name(name);
      if (m.memory_kind.empty()) {
        m.memory_kind = "allocated";
      }
    }
    add(m);
  }

  void add(const Measurement& m) {
    const bool repeated = std::any_of(out_.begin(), out_.end(), [&](const Measurement& o) {
      return o.metric == m.metric && o.memory_kind == m.memory_kind && o.rank == m.rank;
    });
    if (!repeated) {
      out_.push_back(m);
    }
  }

  std::vector<Measurement> result() { return std::move(out_); }

 private:
  const PublishedRow& row_;
  std::vector<Measurement> out_;
};

}  // namespace

std::vector<Measurement> measurements(const PublishedRow& row, const RowJob& job) {
  Collector collector(row);
  collector.take(row.output.metric, Fields(&row.measured.value), true);
  const Fields others(&row.measured.others);
  for (const MeasurementName& name : kNames) {
    if (!job.timed && (name.metric == "step_time" || name.metric == "throughput" ||
                       name.metric == "mfu" || name.metric == "hfu")) {
      continue;
    }
    collector.take(name.row, others[name.row], false);
  }
  if (others["peak_memory_by_rank_mb"].is_map()) {
    for (const auto& entry : others["peak_memory_by_rank_mb"].value()->entries) {
      const Fields of_rank(&entry.value);
      for (const auto& [name, kind] :
           {std::pair{"max_allocated_mb", "allocated"}, std::pair{"max_reserved_mb", "reserved"}}) {
        if (const auto mib = number_in(of_rank[name])) {  // torch's byte counts over 2^20
          collector.add(Measurement{"peak_memory", "", *mib * 1024.0 * 1024.0, false, kind,
                                    std::stoi(entry.key)});
        }
      }
    }
  }
  return collector.result();
}

}  // namespace stepcast::interop
