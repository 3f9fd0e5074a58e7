// Tiles of weights while a unit's passes run (passes_tiles.cpp cuts them): each is fetched,
// gathered, used and given up in turn, its gradient reduced behind it. Where the system gathers
// ahead, the next tile of the same pass is on its way while one is used: two are whole at a time.
#include "../offload/state_offload.h"
#include "../stage/feature_list.h"
#include "unit_bucket.h"

namespace stepcast::lower {

using program::kNone;
using program::MemoryCategory;
using program::Place;
using program::StreamIndex;

namespace {

struct Tile {
  std::int64_t elements = 0;  // 0: no tile
  Mark gathered = {};
  program::BufferIndex parameters = kNone;
  program::BufferIndex gradient = kNone;
};

class Tiles final : public Feature {
 public:
  void use_tile(Stage& stage, const Item& item) override;

 private:
  void give_up(Stage& stage);

  Tile tile_;   // in use
  Tile ahead_;  // on its way
};

Tile gather_tile(Stage& stage, std::int64_t elements) {
  Tile tile{elements};
  const strategy::OffloadPart& part = stage.plan.offload.parameters;
  const bool beside = gather_beside(stage.plan);
  const StreamIndex stream = beside ? stage.streams.gather : stage.streams.compute;
  if (beside && !stage.sharded.waited_for_step) {
    stage.builder.wait_previous_step(stage.streams.gather, stage.streams.compute);
    stage.sharded.waited_for_step = true;
  }
  const Mark now = stage.builder.mark(stage.streams.compute);
  const int ranks = sharing(stage.plan, false).shards;
  const double here =
      static_cast<double>(elements) / ranks * part.share() * width(stage.plan.precision.parameters);
  program::BufferIndex shard = kNone;
  if (here >= 1) {
    program::BufferIndex staged = kNone;
    if (part.to == OffloadTarget::nvme) {
      await_last_step(stage, stage.host_streams.nvme_read);
      stage.builder.wait(stage.host_streams.nvme_read, now);
      staged = stage.builder.place(
          stage.builder.allocate(static_cast<std::int64_t>(here), MemoryCategory::parameters,
                                 label_of(stage, "parameters from NVMe")),
          Place::host);
      stage.builder.wait(
          stage.host_streams.to_device,
          carry(stage, stage.host_streams.nvme_read, Carrier::nvme_read, here, "parameters"));
    }
    await_last_step(stage, stage.host_streams.to_device);
    stage.builder.wait(stage.host_streams.to_device, now);
    if (ranks > 1) {
      shard = stage.builder.allocate(static_cast<std::int64_t>(here), MemoryCategory::communication,
                                     label_of(stage, "fetched parameters"),
                                     stage.host_streams.to_device);
    }
    stage.builder.wait(
        stream, carry(stage, stage.host_streams.to_device, Carrier::to_device, here, "parameters"));
    stage.builder.release(staged, 1U << stage.host_streams.to_device);
  }
  stage.builder.wait(stream, now);
  if (beside) {
    // One communicator runs its operations in order of issue.
    stage.builder.wait(stage.streams.gather, stage.builder.mark(stage.streams.data));
  }
  const double bytes = static_cast<double>(elements) * width(stage.plan.style.dtype);
  tile.parameters =
      stage.builder.allocate(static_cast<std::int64_t>(bytes), MemoryCategory::communication,
                             label_of(stage, "gathered tile"), stream);
  if (ranks > 1) {
    data_collective(stage, stream, kData, cost::Collective::all_gather, bytes, "tile");
    tile.gathered = stage.builder.mark(stream);
  } else if (here >= 1) {
    tile.gathered = stage.builder.mark(stage.host_streams.to_device);
  }
  stage.builder.release(shard);
  return tile;
}

void Tiles::use_tile(Stage& stage, const Item& item) {
  give_up(stage);
  if (item.elements > 0) {
    tile_ = ahead_.elements > 0 ? ahead_ : gather_tile(stage, item.elements);
    ahead_ = {};
    if (tile_.gathered.position > 0) {
      stage.builder.wait(stage.streams.compute, tile_.gathered);
    }
    if (item.makes_gradient) {
      tile_.gradient = stage.builder.allocate(
          whole_blocks(static_cast<double>(item.elements) * width(stage.plan.style.dtype)),
          MemoryCategory::communication, label_of(stage, "tile's gradient"));
    }
  }
  const bool ahead = gather_beside(stage.plan) &&
                     stage.plan.parameter_gather.forward_prefetch == Prefetch::explicit_ &&
                     stage.plan.offload.prefetch > 0;
  if (ahead && item.next_elements > 0 && ahead_.elements == 0) {
    ahead_ = gather_tile(stage, item.next_elements);
  }
}

void Tiles::give_up(Stage& stage) {
  if (tile_.elements == 0) {
    return;
  }
  stage.builder.release(tile_.parameters, 1U << stage.streams.compute);
  if (tile_.gradient != kNone) {
    const auto elements = static_cast<double>(tile_.elements);
    constexpr int kChunk = 0;  // no pipeline: strategy/rules_offload.cpp
    if (stage.plan.gradient_sync.units_in_buckets) {
      data_kernel(stage, stage.streams.compute,
                  elements * (width(stage.plan.style.dtype) + width(stage.plan.precision.reduce)),
                  cost::MemoryOp::copy, "copy gradients in");
      add_to_bucket(stage, kChunk, tile_.elements, false, Joined::as_sent);
    } else {
      reduce_shards(stage, kChunk, tile_.elements, false,
                    reduce_beside(stage.plan) ? stage.streams.data : stage.streams.compute);
    }
    stage.builder.release(tile_.gradient,
                          stage.plan.gradient_sync.units_in_buckets ? 0 : 1U << stage.streams.data);
  }
  tile_ = {};
}

}  // namespace

std::unique_ptr<Feature> make_gathered_tiles() { return std::make_unique<Tiles>(); }

}  // namespace stepcast::lower
