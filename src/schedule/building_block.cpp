#include "building_block.h"

#include <cstddef>
#include <cstdint>

namespace stepcast::schedule {

std::vector<Slot> repeat(const std::vector<Brick>& block, int period, int micro_batches) {
  const std::size_t total = block.size() * static_cast<std::size_t>(micro_batches);
  std::vector<Slot> slots;
  slots.reserve(total);
  std::vector<int> done(block.size());
  const auto time = [&](std::size_t b) { return block[b].offset + std::int64_t{period} * done[b]; };
  while (slots.size() < total) {
    std::size_t first = block.size();
    for (std::size_t b = 0; b < block.size(); ++b) {
      if (done[b] < micro_batches && (first == block.size() || time(b) < time(first))) {
        first = b;
      }
    }
    slots.push_back({block[first].pass, done[first]++, block[first].chunk});
  }
  return slots;
}

}  // namespace stepcast::schedule
