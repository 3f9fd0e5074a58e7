// Programs of a world: ranks of one stage and kind run one.
#include <algorithm>
#include <map>

#include "passes_loss.h"
#include "play_order.h"
#include "slowdown.h"
#include "world_draft.h"

namespace stepcast::lower {

namespace {

// One row per device and kind of kernel; only those in use are worked out.
void make_slowdowns(WorldDraft& w) {
  w.world.slowdowns.resize(1 + w.kinds.devices().size() * kKernelKinds);
  std::vector<char> used(w.world.slowdowns.size(), 0);
  for (const program::Program& p : w.world.programs) {
    for (const program::Task& t : p.tasks) {
      used[t.slowdown] = 1;
    }
  }
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
    s.curve =
        kind == kArithmeticBound ? curves.sms
        : kind == kMemoryBound
            ? curves.memory
            : w.blends.add({{curves.sms, Time(kMemoryBound - kind)}, {curves.memory, Time(kind)}});
  }
}

}  // namespace

// Ranks of one stage and kind run one program.
void make_programs(WorldDraft& w) {
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
  // Kernels of all devices are priced before blends are numbered: blends follow the curve table.
  w.blends = Blends(WorldDraft::kBlendBase);
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
      if (w.options.recomputed != nullptr) {
        Recomputed& all = *w.options.recomputed;
        all.flops.push_back(found.flops.front());
        all.least_budget = std::max(all.least_budget, found.least_budget);
      }
    }
  }
  if (w.kinds.plans().size() > 1) {
    check_collectives(w.world.programs, static_cast<std::size_t>(w.plan.grid.pipeline));
  }
  make_slowdowns(w);
}

}  // namespace stepcast::lower
