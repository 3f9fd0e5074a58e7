// Programs of a world: ranks of one stage and kind run one.
#include <algorithm>
#include <map>

#include "../passes/passes_loss.h"
#include "../passes/slowdown.h"
#include "../pipeline/play_order.h"
#include "distinct_tasks.h"
#include "world_draft.h"

namespace stepcast::lower {

namespace {

std::size_t slowdown_rows(const WorldDraft& w) {
  return 1 + w.kinds.devices().size() * kKernelKinds;
}

std::vector<char> rows_in_use(const WorldDraft& w) {
  std::vector<char> used(slowdown_rows(w), 0);
  for (const program::Program& p : w.world.programs) {
    for_each_distinct_task(p, [&](const program::Task& t) { used[t.slowdown] = 1; });
  }
  return used;
}

// One row per device and kind of kernel; only those in use are worked out.
void make_slowdowns(WorldDraft& w, const std::vector<char>& used) {
  w.world.slowdowns.resize(slowdown_rows(w));
  for (std::size_t row = 1; row < w.world.slowdowns.size(); ++row) {
    program::Slowdown& s = w.world.slowdowns[row];
    if (used[row] == 0) {
      s.speed = {1'000'000};
      continue;
    }
    const int kind = static_cast<int>((row - 1) % kKernelKinds);
    const hardware::Device& device = *w.kinds.devices()[(row - 1) / kKernelKinds];
    const cost::Overlap overlap = w.prices.kernels.at(device.name)->overlap();
    auto curves = w.prices.collectives->slowdown_curves();
    if (overlap.measured) {
      curves = {overlap.arithmetic_curve, overlap.memory_curve};
    }
    s = slowdown_of(device, kind, overlap);
    s.curve = kind == kArithmeticBound ? curves.sms
              : kind == kMemoryBound
                  ? curves.memory
                  : program::CurveId::at(WorldDraft::kBlendBase +
                                         w.blends.add({{curves.sms, Time(kMemoryBound - kind)},
                                                       {curves.memory, Time(kind)}}));
  }
}

// Ranks of one stage and kind run one program. `flops`: Recomputed::flops; returns its budget.
Bytes lower_programs(WorldDraft& w, std::vector<double>& flops) {
  Bytes least_budget;
  std::map<model::LayerKind, model::OperatorGraph> layers;
  for (const model::LayerKind kind : model::layer_kinds(w.plan.model)) {
    layers.emplace(kind, model::build_layer(w.plan.model, kind, w.plan.shard, w.plan.style));
  }
  const model::OperatorGraph embedding =
      model::build_embedding(w.plan.model, w.plan.shard, w.plan.style);
  const model::OperatorGraph head =
      with_loss(model::build_head(w.plan.model, w.plan.shard, w.plan.style), w.plan);
  STEPCAST_CHECK(w.kinds.devices().size() * kKernelKinds < 256, "too many kinds of devices");
  w.book.message(message_bytes(w.plan));  // number 0: between stages
  std::vector<OrderTimes> times;
  for (const strategy::Plan& plan : w.kinds.plans()) {
    const hardware::Device* first = w.kinds.devices().front();
    times.push_back(play_order({&plan, w.prices.kernels.at(first->name), &w.labels, &w.book, false},
                               {&layers, &embedding, &head}));
  }
  // Where the world before had its blends they most likely come again, as long as no curve of a
  // kernel has that number: those of all devices are known.
  if (w.options.programs != nullptr &&
      w.options.programs->blends_from() >= w.prices.curves->curves().size()) {
    w.blends_from = w.options.programs->blends_from();
  }
  w.blends = Blends(w.blends_from);
  std::size_t tasks = 0;
  for (const Kind& kind : w.kinds.all()) {
    const hardware::Device* device = w.kinds.devices()[static_cast<std::size_t>(kind.device)];
    const strategy::Plan& plan = w.kinds.plans()[static_cast<std::size_t>(kind.batch)];
    for (int stage = 0; stage < w.plan.grid.pipeline; ++stage) {
      StageContext c;
      c.plan = &plan;
      c.device = device;
      c.passes = {&plan,           w.prices.kernels.at(device->name),
                  &w.labels,       &w.book,
                  w.options.merge, device->sms};
      c.layers = &layers;
      c.embedding = &embedding;
      c.head = &head;
      c.times = &times[static_cast<std::size_t>(kind.batch)];
      c.blends = &w.blends;
      c.slowdown_row = static_cast<std::uint8_t>(1 + kind.device * kKernelKinds);
      c.features = w.options.features;
      c.most_tasks = w.options.most_tasks - std::min(w.options.most_tasks, tasks);
      c.like = w.world.programs.empty() ? nullptr : &w.world.programs.back();
      Recomputed found;
      w.world.programs.push_back(lower_stage(c, stage, found));
      tasks += w.world.programs.back().tasks.size();
      flops.push_back(found.flops.front());
      least_budget = std::max(least_budget, found.least_budget);
    }
  }
  if (w.kinds.plans().size() > 1) {
    check_collectives(w.world.programs, static_cast<std::size_t>(w.plan.grid.pipeline));
  }
  return least_budget;
}

// Of a plan's cluster, programs depend on its nodes and devices; how these are connected is a
// matter of prices and lattices.
ProgramKey key_of(const WorldDraft& w) {
  ProgramKey key;
  key.plan = w.plan;
  key.plan.nccl = {};
  key.plan.cluster.name = {};
  key.plan.cluster.fabric = {};
  key.plan.cluster.faults = {};
  hardware::Node& node = key.plan.cluster.node;
  node.name = node.source = {};
  node.nics = {};
  node.nic = node.named_nic = {};
  node.nic_latency = {};
  for (const hardware::Device* device : w.kinds.devices()) {
    key.devices.push_back(*device);
    key.kernels.push_back(w.prices.kernels.at(device->name));
  }
  key.kinds = w.kinds.all();
  key.merge = w.options.merge;
  return key;
}

// What a world before had of the same plan. False: it is not known.
bool take_programs(WorldDraft& w) {
  w.lowered = w.options.programs->take(*w.key);
  if (w.lowered == nullptr || w.lowered->tasks > w.options.most_tasks) {
    w.lowered.reset();
    return false;
  }
  LoweredPrograms& of = *w.lowered;
  w.world.programs = std::move(of.programs);
  for (std::size_t i = 0; i < w.world.programs.size(); ++i) {
    w.world.programs[i].outside_allocator = of.outside[i];
  }
  w.labels = of.labels;
  w.book = of.book;
  w.blends = of.blends;
  w.blends_from = of.blends_from;
  return true;
}

void note_programs(WorldDraft& w, std::vector<double> flops) {
  w.lowered = std::make_unique<LoweredPrograms>(LoweredPrograms{
      {}, {}, w.labels, w.book, w.blends, w.blends_from, rows_in_use(w), std::move(flops), 0});
  for (const program::Program& p : w.world.programs) {
    w.lowered->outside.push_back(p.outside_allocator);
    w.lowered->tasks += p.tasks.size();
  }
}

}  // namespace

void make_programs(WorldDraft& w) {
  const bool keeps = w.options.programs != nullptr && w.options.features.empty();
  if (keeps) {
    w.key = std::make_unique<ProgramKey>(key_of(w));
  }
  Bytes least_budget;
  if (!keeps || !take_programs(w)) {
    std::vector<double> flops;
    least_budget = lower_programs(w, flops);
    note_programs(w, std::move(flops));
  }
  if (w.options.recomputed != nullptr) {
    *w.options.recomputed = {w.lowered->again_flops, least_budget};
  }
  if (least_budget.count() > 0) {  // which is no part of what is kept
    w.key.reset();
  }
  make_slowdowns(w, w.lowered->rows);
}

}  // namespace stepcast::lower
