// torch.autocast caches its casts of trained leaves until it is left, behind the model's forward
// pass (aten/src/ATen/autocast_mode.cpp: cached_casts, clear_cache). Of units that keep their
// activations autograd holds the same copies; those of units that run again stand by the cache
// alone. Graphs of torch.compile are traced without it (torch 2.15,
// _functorch/_aot_autograd/collect_metadata_analysis.py:221: disable_autocast_cache).
#include <algorithm>

#include "feature_list.h"

namespace stepcast::lower {
namespace {

class CastCache final : public Feature {
 public:
  void before_forward(Stage& stage, int chunk, std::size_t unit) override;
  void after_forward(Stage& stage, int chunk, std::size_t unit) override;

 private:
  void hold(program::BufferIndex buffer) {
    if (buffer != program::kNone) {
      cached_.push_back(buffer);
    }
  }

  std::vector<program::BufferIndex> cached_;
};

bool caches(const Stage& stage) { return stage.plan.style.autocast && !stage.plan.style.compiled; }

std::int64_t copies_of(const Stage& stage, const Unit& unit) {
  std::int64_t bytes = 0;
  for (const Array& array : unit.passes->arrays) {
    if (array.autocast) {
      bytes += whole_blocks(static_cast<double>(array.elements) * width(stage.plan.style.dtype));
    }
  }
  return bytes;
}

// Made by the pass, each ahead of its product.
void CastCache::before_forward(Stage& stage, int chunk, std::size_t unit) {
  const Unit& of = stage.units[static_cast<std::size_t>(chunk)][unit];
  if (caches(stage) && of.recomputed) {
    hold(stage.builder.allocate(of.passes->memory.cached, program::MemoryCategory::activations,
                                label_of(stage, "casts of weights"), false));
  }
}

// What the pass makes beside: casts of products whose tensors are counted together.
void CastCache::after_forward(Stage& stage, int chunk, std::size_t unit) {
  const auto& units = stage.units[static_cast<std::size_t>(chunk)];
  if (!caches(stage)) {
    return;
  }
  if (units[unit].recomputed) {
    const std::int64_t beside =
        copies_of(stage, units[unit]) - units[unit].passes->memory.cached.bytes;
    hold(stage.builder.allocate(std::max<std::int64_t>(0, beside),
                                program::MemoryCategory::activations,
                                label_of(stage, "casts of weights")));
  }
  if (unit + 1 == units.size()) {
    for (const program::BufferIndex buffer : cached_) {
      stage.builder.release(buffer);
    }
    cached_.clear();
  }
}

}  // namespace

std::unique_ptr<Feature> make_cast_cache() { return std::make_unique<CastCache>(); }

}  // namespace stepcast::lower
