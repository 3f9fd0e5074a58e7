// torch.autocast caches its casts of trained leaves until it is left, behind the model's forward
// pass (aten/src/ATen/autocast_mode.cpp: cached_casts, clear_cache). Of units that keep their
// activations autograd holds the same copies; those of units that run again stand by the cache
// alone.
#include "feature_list.h"

namespace stepcast::lower {
namespace {

class CastCache final : public Feature {
 public:
  void after_forward(Stage& stage, int chunk, std::size_t unit) override;

 private:
  std::vector<program::BufferIndex> cached_;
};

std::int64_t copies_of(const Stage& stage, const Unit& unit) {
  std::int64_t bytes = 0;
  for (const Array& array : unit.passes->arrays) {
    if (array.rows > 0) {  // products read matrices alone
      bytes += round_512(static_cast<double>(array.elements) * width(stage.plan.style.dtype));
    }
  }
  return bytes;
}

void CastCache::after_forward(Stage& stage, int chunk, std::size_t unit) {
  const auto& units = stage.units[static_cast<std::size_t>(chunk)];
  if (!stage.plan.style.autocast) {
    return;
  }
  if (units[unit].recomputed) {
    cached_.push_back(stage.builder.allocate(copies_of(stage, units[unit]),
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
