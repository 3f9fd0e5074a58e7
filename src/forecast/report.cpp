#include "report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "doubts.h"
#include "stepcast/base/interval.h"
#include "stepcast/lower/lower.h"
#include "stepcast/model/count.h"

namespace stepcast::forecast {
namespace {

using program::Category;

Time of(const program::RankResult& r, Category c) {
  return Time(r.breakdown[static_cast<std::size_t>(c)]);
}

std::int64_t busy(const program::RankResult& r) {
  return (of(r, Category::compute) + of(r, Category::recompute) + of(r, Category::optimizer))
      .count();
}

result::StageBreakdown breakdown(int stage, const program::RankResult& r) {
  result::StageBreakdown b;
  b.stage = stage;
  for (std::size_t c = 0; c < result::kTimeParts.size(); ++c) {
    b.*result::kTimeParts[c] = of(r, static_cast<Category>(c));
  }
  return b;
}

result::StageMemory stage_memory(int stage, const RankMemory& r, const program::RankResult& ledger,
                                 const Source& s) {
  result::StageMemory m = stage_memory(r, {s.memory_structure, &s.open});
  m.stage = stage;
  m.host = Bytes(ledger.host_peak);
  m.nvme = Bytes(ledger.nvme_peak);
  return m;
}

result::Estimate interval_of(Bytes bytes, double deviation) {
  const auto value = static_cast<double>(bytes.count());
  const double half = kDeviations90 * deviation * value;
  return {value, std::max(0.0, value - half), value + half};
}

// What is not known about a job is the same for all its ranks: the one that is least likely to fit
// decides. `least`: the rank whose process leaves least.
void fill_fit(const Source& s, std::size_t least, result::Fit& fit) {
  const std::vector<RankMemory>& memory = *s.memory;
  double kept = 1;  // the probability if the allocator gave back nothing
  std::size_t decides = least;
  std::vector<double> deviations;
  fit = {true, 1.0, s.capacity[least] - memory[least].process};
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const double deviation = stage_memory(0, memory[i], s.timeline->ranks[i], s).process_deviation;
    deviations.push_back(deviation);
    const double probability = fit_probability(memory[i].needed, deviation, s.capacity[i]);
    kept = std::min(kept, fit_probability(memory[i].process, deviation, s.capacity[i]));
    fit.fits = fit.fits && memory[i].fits;
    fit.frees_cache = fit.frees_cache || memory[i].retries > 0;
    if (probability < *fit.probability) {
      fit.probability = probability;
      decides = i;
    }
  }
  fit.needed = interval_of(memory[decides].needed, deviations[decides]);
  if (!fit.fits) {
    fit.spare = s.capacity[decides] - memory[decides].needed;
  }
  result::Fit all_kept = fit;
  all_kept.probability = kept;
  fit.frees_cache = fit.frees_cache || result::verdict_of(fit) != result::verdict_of(all_kept);
}

// Of each stage, the first of its ranks that comes ahead of all others.
template <class Ahead>
std::map<int, std::size_t> first_of_stages(const program::World& world, const Ahead& ahead) {
  std::map<int, std::size_t> out;
  for (std::size_t i = 0; i < world.ranks.size(); ++i) {
    const auto [it, fresh] = out.try_emplace(world.programs[world.ranks[i].program].stage, i);
    if (!fresh && ahead(i, it->second)) {
      it->second = i;
    }
  }
  return out;
}

// The process that leaves least of its GPU's memory.
void fill_peak(const Source& s, result::Report& report) {
  const std::vector<RankMemory>& memory = *s.memory;
  const auto spare = [&](std::size_t i) { return s.capacity[i] - memory[i].process; };
  std::size_t least = 0;
  std::map<int, int> retries;  // by stage
  for (std::size_t i = 0; i < memory.size(); ++i) {
    least = spare(i) < spare(least) ? i : least;
    if (memory[i].retries > 0) {
      int& most = retries[s.world->programs[s.world->ranks[i].program].stage];
      most = std::max(most, memory[i].retries);
    }
  }
  report.capacity = s.capacity[least];
  const result::StageMemory fullest =
      stage_memory(s.world->programs[s.world->ranks[least].program].stage, memory[least],
                   s.timeline->ranks[least], s);
  report.peak = interval_of(fullest.process, fullest.process_deviation);
  fill_fit(s, least, report.fits);
  for (const auto& [stage, count] : retries) {
    report.notes.push_back(fmt::format(
        "stage {} fits only because the allocator frees its cache ({} retries in the replayed "
        "steps); each retry stalls the GPU, which the step time does not include",
        stage, count));
  }
}

// Traffic of one rank of the busiest stage in a step.
std::vector<result::Traffic> traffic(const Source& s, std::size_t rank) {
  const program::World& world = *s.world;
  const program::Rank& r = world.ranks[rank];
  const auto name_of = [&](std::uint32_t role) {
    return s.group_names.empty() ? std::string(lower::group_name(role))
                                 : s.group_names[r.program][role];
  };
  const program::Program& p = world.programs[r.program];
  struct Sum {
    std::int64_t count = 0;
    Bytes bytes;
    Time time{0};
  };
  // Tasks are very many, names few: first by role, or by category where there is no role.
  std::map<std::tuple<std::uint32_t, Category, program::LabelIndex>, Sum> by_number;
  auto add = [&](std::uint32_t role, Category category, const program::Price& price) {
    Sum& sum = by_number[{role, category, price.label}];
    ++sum.count;
    sum.bytes += price.bytes;
    sum.time += price.latency + price.fluid;
  };
  for (const program::Task& t : p.tasks) {
    if (t.kind == program::TaskKind::collective) {
      const auto id = world.communicator_table[r.first_communicator + t.communicator];
      const auto& communicator = world.communicators[id];
      if (communicator.size > 1) {
        add(t.communicator, Category::other, world.shapes[communicator.shape].prices[t.price]);
      }
    } else if (t.kind == program::TaskKind::copy) {
      add(program::kNone, Category::offload, world.shapes[r.copy_shape].prices[t.price]);
    } else if (t.kind == program::TaskKind::exchange) {
      for (std::uint32_t i = 0; i < t.transfers; ++i) {
        const auto& transfer = p.transfers[t.first_transfer + i];
        if (transfer.send) {
          const auto id = world.channel_table[r.first_channel + transfer.channel];
          add(program::kNone, t.category,
              world.shapes[world.channels[id].shape].prices[transfer.price]);
        }
      }
    }
  }
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const auto& [number, of] : by_number) {
    const auto& [role, category, label] = number;
    Sum& sum =
        sums[{role == program::kNone ? std::string(program::to_string(category)) : name_of(role),
              world.labels[label]}];
    sum.count += of.count;
    sum.bytes += of.bytes;
    sum.time += of.time;
  }
  std::vector<result::Traffic> out;
  out.reserve(sums.size());
  for (const auto& [key, sum] : sums) {
    out.push_back({key.first, key.second, sum.count, Bytes(sum.bytes), Time(sum.time)});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.time > b.time; });
  return out;
}

}  // namespace

std::vector<std::size_t> used_curves(const std::vector<cost::Curve>& curves,
                                     const std::vector<double>& seconds) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < curves.size() && i < seconds.size(); ++i) {
    if (seconds[i] != 0) {
      out.push_back(i);
    }
  }
  const auto key = [&](std::size_t i) {
    const cost::Curve& c = curves[i];
    return std::tie(c.file, c.name, c.device, c.provenance, c.scaled, c.residual);
  };
  std::sort(out.begin(), out.end(), [&](auto a, auto b) { return key(a) < key(b); });
  return out;
}

std::vector<double> curve_seconds(const program::World& world, const program::Timeline& timeline) {
  std::vector<double> out(world.curves.size(), 0.0);
  for (std::size_t i = 0; i < timeline.sensitivity.size() && i < out.size(); ++i) {
    const auto& parts = world.curves[i].parts;
    if (parts.empty()) {
      out[i] += timeline.sensitivity[i];
    }
    for (const auto& [curve, share] : parts) {
      out[curve] += share * timeline.sensitivity[i];
    }
  }
  return out;
}

Flops recomputed_flops(const program::World& world, const lower::Recomputed& recomputed) {
  double sum = 0;
  for (std::size_t r = 0; r < world.ranks.size(); ++r) {
    const double ranks = world.multiplicity.empty() ? 1 : world.multiplicity[r];
    sum += ranks * recomputed.flops[world.ranks[r].program];
  }
  return Flops(sum);
}

Bytes usable_memory(const job::Device& device) {
  return device.usable_memory.count() > 0 ? device.usable_memory : device.memory;
}

namespace {
// "(512 GPUs)", and of unlike devices how many of each: "(16 GPUs: 8 h100-sxm, 8 a100-80gb-sxm)".
std::string gpus_of(const strategy::Plan& plan) {
  const std::vector<hardware::DeviceNodes> devices = hardware::device_nodes(plan.cluster);
  std::vector<std::string> parts;
  for (const hardware::DeviceNodes& d : devices) {
    parts.push_back(fmt::format("{} {}", d.nodes * plan.cluster.node.gpus, d.device->name));
  }
  const std::string& device = plan.cluster.device.name;
  // dgx-h100 with {device: h800-sxm}: the cluster's name alone would say another device.
  const std::string& cluster =
      plan.cluster.name.empty() ? plan.cluster.node.name : plan.cluster.name;
  const bool named = device.empty() || devices.size() > 1 ||
                     cluster.find(device.substr(0, device.find('-'))) != std::string::npos;
  const bool chips = hardware::vendor_of(plan.cluster.device) == hardware::Vendor::google;
  return fmt::format("({} {}{}{}{})", plan.grid.ranks(), named ? "" : device + " ",
                     chips ? "chip" : "GPU", plan.grid.ranks() == 1 ? "" : "s",
                     devices.size() > 1 ? fmt::format(": {}", fmt::join(parts, ", ")) : "");
}
}  // namespace

void fill_rates(const strategy::Plan& plan, const result::Estimate& step_time, Flops recomputed,
                result::Report& report) {
  report.step_time = step_time;
  const double ranks = plan.grid.ranks();
  const double sequences = static_cast<double>(plan.micro_batch * plan.all_micro_batches());
  const double model_flops =
      model::training_flops(plan.model, plan.style, plan.shard.sequence_length, sequences).count() /
      ranks;
  const double peak_rate = hardware::mean_peak_of(plan.cluster, plan.precision.products).count();
  // No step is shorter than its FLOPs take at the GPU's peak, however little is known about it.
  const double done = model_flops + recomputed.count() / ranks;
  const double shortest = peak_rate > 0 ? std::min(step_time.value, done / peak_rate) : 0;
  report.step_time.low = std::max(step_time.low, shortest);
  // The interval of a rate is the inverse of the step's; where that is unbounded, it is kept
  // finite.
  const auto rate = [&step = report.step_time](double amount) {
    return result::Estimate{amount / step.value, amount / step.high,
                            amount / std::max(step.low, 1e-3 * step.value)};
  };
  report.tokens_per_second_per_gpu =
      rate(sequences * static_cast<double>(plan.shard.sequence_length) / ranks);
  report.model_flops_per_gpu = rate(model_flops);
  if (peak_rate > 0) {
    report.mfu = rate(model_flops / peak_rate);
    report.hfu = rate(done / peak_rate);
  }
  report.title = fmt::format(
      "{} on {} x {} {}", plan.model.name.empty() ? "model" : plan.model.name, plan.cluster.nodes,
      plan.cluster.name.empty() ? plan.cluster.node.name : plan.cluster.name, gpus_of(plan));
  const model::Parameters parameters = model::count_parameters(plan.model);
  report.parameters = static_cast<double>(parameters.total);
  report.active_parameters = static_cast<double>(parameters.active);
  report.tokens = sequences * static_cast<double>(plan.shard.sequence_length);
}

namespace {
result::Basis basis_of(const cost::Curve& curve) {
  return curve.file == "datasheet" ? result::Basis::data_sheet
         : curve.of_kind           ? result::Basis::of_kind
                                   : result::Basis::measured;
}
}  // namespace

void fill_memory(const Source& s, result::Report& report) {
  // A stage's memory is that of its largest rank class. GPUs of a mixed cluster differ, so ranks
  // are compared by the memory that they have to spare.
  const std::vector<RankMemory>& memory = *s.memory;
  const auto spare = [&](std::size_t i) { return s.capacity[i] - memory[i].process; };
  const auto by_stage =
      first_of_stages(*s.world, [&](std::size_t a, std::size_t b) { return spare(a) < spare(b); });
  for (const auto& [stage, rank] : by_stage) {
    report.memory.push_back(stage_memory(stage, memory[rank], s.timeline->ranks[rank], s));
    report.memory.back().rank = static_cast<std::uint32_t>(rank);
  }
  fill_peak(s, report);
}

void fill_report(const Source& s, result::Report& report) {
  const program::Timeline& t = *s.timeline;
  const double step = to_seconds(t.period);
  const double of_site =
      step > 0 && s.site != nullptr ? deviation(*s.site, s.site_seconds, s.site_scatter) / step : 0;
  report.doubts = doubts_of(s);
  report.critical_path = path_shares(t);
  report.curves = curve_shares(s);
  const double spread = step > 0 ? kDeviations90 * deviation(report.doubts) / step : 0;
  report.step_time = {step, step * std::max(0.0, 1 - spread), step * (1 + spread)};
  if (s.plan != nullptr) {
    fill_rates(*s.plan, result::Estimate(report.step_time), s.recomputed, report);
  }

  // A stage's breakdown is that of its busiest rank class.
  const auto by_stage = first_of_stages(
      *s.world, [&](std::size_t a, std::size_t b) { return busy(t.ranks[a]) > busy(t.ranks[b]); });
  double bubble = 0;
  std::size_t busiest = 0;
  std::int64_t most = -1;
  for (const auto& [stage, rank] : by_stage) {
    report.breakdown.push_back(breakdown(stage, t.ranks[rank]));
    bubble += static_cast<double>(report.breakdown.back().bubble.count());
    if (busy(t.ranks[rank]) > most) {
      most = busy(t.ranks[rank]);
      busiest = rank;
    }
  }
  report.bubble_fraction = bubble / static_cast<double>(t.period.count()) /
                           static_cast<double>(std::max<std::size_t>(1, by_stage.size()));
  report.traffic = traffic(s, busiest);

  fill_memory(s, report);

  const auto seconds = curve_seconds(*s.world, t);
  std::map<std::string, result::CalibrationUse> files;
  std::set<std::string> scaled;
  for (const std::size_t i : used_curves(*s.curves, seconds)) {
    const auto& c = (*s.curves)[i];
    if (seconds[i] <= 0 || c.residual <= 0) {
      continue;
    }
    if (!c.scaled.empty()) {
      scaled.insert(c.scaled);
    }
    auto [it, fresh] =
        files.try_emplace(c.file + "|" + c.device,
                          result::CalibrationUse{c.file, c.device, c.provenance, c.residual,
                                                 basis_of(c), c.kind == cost::CurveKind::network});
    if (!fresh) {
      it->second.residual = std::max(it->second.residual, c.residual);
    }
    it->second.share += step > 0 ? seconds[i] / step : 0;
  }
  report.notes.insert(report.notes.end(), scaled.begin(), scaled.end());
  for (auto& [key, use] : files) {
    report.calibration.push_back(std::move(use));
  }
  if (s.site != nullptr && s.site->site != nullptr && !s.site->site->file.empty()) {
    report.calibration.push_back(
        {s.site->site->file, s.device->name, s.site->site->provenance, of_site});
    report.notes.insert(report.notes.end(), s.site->notes.begin(), s.site->notes.end());
  }
}

}  // namespace stepcast::forecast
