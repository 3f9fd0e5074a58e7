// Tiles of weights while a unit's passes run (passes_tiles.cpp cuts them): each is fetched,
// gathered, used and given up in turn, its gradient reduced behind it. Where the system gathers
// ahead, the next tile of the same pass is on its way while one is used: two are whole at a time.
#include "stage_builder.h"

namespace stepcast::lower {

using job::OffloadTarget;
using program::kNone;
using program::MemoryCategory;
using program::Place;
using program::StreamIndex;

StageBuilder::Tile StageBuilder::gather_tile(std::int64_t elements) {
  Tile tile{elements};
  const job::OffloadPart& part = job_.memory.offload.parameters;
  const auto label = [&](const char* text) { return context_.passes.labels->id(text); };
  const bool beside = gather_beside();
  const StreamIndex stream = beside ? gather_ : compute_;
  if (beside && !data_parallel_.waited_for_step) {
    b_.wait_previous_step(gather_, compute_);
    data_parallel_.waited_for_step = true;
  }
  const Mark now = b_.mark(compute_);
  const int ranks = sharing(false).shards;
  const double here = static_cast<double>(elements) / ranks * share_away(part) *
                      width(job_.memory.dtypes.parameters);
  std::uint32_t shard = kNone;
  if (here >= 1) {
    std::uint32_t staged = kNone;
    if (part.to == OffloadTarget::nvme) {
      await_last_step(nvme_read_);
      b_.wait(nvme_read_, now);
      staged = b_.place(b_.allocate(static_cast<std::int64_t>(here), MemoryCategory::parameters,
                                    label("parameters from NVMe")),
                        Place::host);
      b_.wait(to_device_, copy(nvme_read_, Carrier::nvme_read, here, "parameters"));
    }
    await_last_step(to_device_);
    b_.wait(to_device_, now);
    if (ranks > 1) {
      shard = b_.allocate(static_cast<std::int64_t>(here), MemoryCategory::communication,
                          label("fetched parameters"), to_device_);
    }
    b_.wait(stream, copy(to_device_, Carrier::to_device, here, "parameters"));
    b_.release(staged, 1U << to_device_);
  }
  b_.wait(stream, now);
  if (beside) {
    b_.wait(gather_, b_.mark(data_));  // one communicator runs its operations in order of issue
  }
  const double bytes = static_cast<double>(elements) * width(plan_.style.dtype);
  tile.parameters = b_.allocate(static_cast<std::int64_t>(bytes), MemoryCategory::communication,
                                label("gathered tile"), stream);
  if (ranks > 1) {
    data_collective(stream, kData, cost::Collective::all_gather, bytes, "tile");
    tile.gathered = b_.mark(stream);
  } else if (here >= 1) {
    tile.gathered = b_.mark(to_device_);
  }
  b_.release(shard);
  return tile;
}

void StageBuilder::next_tile(const Item& item) {
  give_up_tile();
  if (item.elements > 0) {
    tile_ = tile_ahead_.elements > 0 ? tile_ahead_ : gather_tile(item.elements);
    tile_ahead_ = {};
    if (tile_.gathered.position > 0) {
      b_.wait(compute_, tile_.gathered);
    }
    if (item.makes_gradient) {
      tile_.gradient =
          b_.allocate(round_512(static_cast<double>(item.elements) * width(plan_.style.dtype)),
                      MemoryCategory::communication, context_.passes.labels->id("tile's gradient"));
    }
  }
  const bool ahead = gather_beside() &&
                     job_.system.forward_prefetch == job::System::Prefetch::explicit_ &&
                     job_.memory.offload.prefetch > 0;
  if (ahead && item.next_elements > 0 && tile_ahead_.elements == 0) {
    tile_ahead_ = gather_tile(item.next_elements);
  }
}

void StageBuilder::give_up_tile() {
  if (tile_.elements == 0) {
    return;
  }
  b_.release(tile_.parameters, 1U << compute_);
  if (tile_.gradient != kNone) {
    const auto elements = static_cast<double>(tile_.elements);
    constexpr int kChunk = 0;  // no pipeline: config/check_offload.cpp
    if (job_.system.zero3_buckets) {
      std::int64_t& filled = data_parallel_.pending[kChunk].dense;
      data_kernel(compute_,
                  elements * (width(plan_.style.dtype) + width(job_.memory.dtypes.reduce)),
                  cost::MemoryOp::copy, "copy gradients in");
      if (filled > 0 && filled + tile_.elements > strategy::bucket_elements(plan_)) {
        send_bucket(kChunk, false);
      }
      filled += tile_.elements;
    } else {
      reducing_ = kChunk;
      reduce_shards(tile_.elements, false, reduce_beside() ? data_ : compute_);
    }
    b_.release(tile_.gradient, job_.system.zero3_buckets ? 0 : 1U << data_);
  }
  tile_ = {};
}

}  // namespace stepcast::lower
