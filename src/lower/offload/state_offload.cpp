// States that live outside the GPU (ZeRO-Offload, ZeRO-Infinity, FSDP's CPU offload, Gemini,
// Angel-PTM): what stands where, and what parameters and gradients travel. The step on the CPUs is
// in host_step.cpp.
//
// Every rank keeps its own shard beyond its own link, so that all links of a node carry what the
// ranks then gather from each other (bandwidth-centric partitioning, 2104.07857, section 6.1).
#include "state_offload.h"

#include <algorithm>

#include "../stage/feature_list.h"
#include "../state/states.h"

namespace stepcast::lower {

using program::Category;
using program::kNone;
using program::MemoryCategory;
using program::Place;
using program::StreamIndex;
using strategy::OffloadPart;

namespace {

class StateOffload final : public Feature {
 public:
  void make_streams(Stage& stage) override;
  void make_states(Stage& stage) override;
  void gradients_reduced(Stage& stage, const ReducedGradients& gradients) override;
  void end_of_step(Stage& stage, StepEnd part) override;
};

Place place_of(const OffloadPart& part) {
  return part.to == OffloadTarget::nvme ? Place::nvme : Place::host;
}

// Copies run on streams of their own, each direction and each way of the drives apart; without
// overlap on the compute stream.
void StateOffload::make_streams(Stage& stage) {
  const strategy::Offload& o = stage.plan.offload;
  if (!o.any()) {
    return;
  }
  const auto stream = [&](const char* name) {
    return o.overlap ? stage.builder.stream(name) : stage.streams.compute;
  };
  stage.host_streams.to_device = stream("host to device");
  stage.host_streams.to_host = stream("device to host");
  const bool nvme =
      o.optimizer.to == OffloadTarget::nvme || o.parameters.to == OffloadTarget::nvme ||
      o.gradients.to == OffloadTarget::nvme || o.activations.to == OffloadTarget::nvme;
  if (nvme) {
    stage.host_streams.nvme_read = stream("NVMe read");
    stage.host_streams.nvme_write = stream("NVMe write");
  }
  if (o.optimizer.to != OffloadTarget::none || o.gradients.to != OffloadTarget::none) {
    stage.host_streams.cpu = stream("CPU");
  }
  if (o.optimizer.to != OffloadTarget::none &&
      stage.host_streams.to_device != stage.streams.compute) {
    // Parameters that the CPUs updated.
    stage.builder.wait_previous_step(stage.streams.compute, stage.host_streams.to_device);
  }
}

}  // namespace

Mark carry(Stage& stage, StreamIndex stream, Carrier by, double bytes, const char* label,
           Category category) {
  const auto count = static_cast<std::int64_t>(bytes);
  if (count > 0) {
    const strategy::Offload& o = stage.plan.offload;
    const std::int64_t each = std::max(o.page.count(), o.chunk.count());
    const std::int64_t pieces = each > 0 && by != Carrier::cpu ? (count + each - 1) / each : 1;
    const program::PriceKey price =
        stage.context.passes.book->movement({by, count, static_cast<int>(pieces)});
    stage.builder.copy(stream, price, category, label_of(stage, label), stage.host.launch);
    // Pageable memory is copied while the host waits (CUDA Driver API, synchronisation behaviour).
    if (!o.pinned && (by == Carrier::to_device || by == Carrier::to_host)) {
      stage.builder.host_sync(stage.builder.mark(stream));
    }
  }
  return stage.builder.mark(stream);
}

// ---------------------------------------------------------------- what stands where
StateBytes states_away(const Stage& stage) {
  const strategy::Offload& o = stage.plan.offload;
  StateBytes out;
  if (!o.any()) {
    return out;
  }
  const StateBytes held = held_states(stage);
  double parameters = 0;
  for (const Chunk& c : stored(stage)) {
    parameters += c.away ? shard_bytes(stage, c) : 0;
  }
  for (const Wrap& w : stage.sharded.wraps) {
    if (!stored(stage).empty()) {
      parameters += o.parameters.share() * frozen_shard(stage, w.frozen_bytes, w.frozen_experts);
      continue;
    }
    parameters += shard_bytes(stage, w) + static_cast<double>(w.tiled) /
                                              sharing(stage.plan, false).shards *
                                              width(stage.plan.precision.parameters);
  }
  const bool shards = stage.plan.data_comm == strategy::DataComm::shard_grads ||
                      stage.plan.data_comm == strategy::DataComm::shard_all;
  const auto part = [](double share, double bytes) {
    return static_cast<std::int64_t>(share * bytes) / 512 * 512;
  };
  out.parameters = part(stored(stage).empty() ? o.parameters.share() : 1, parameters);
  out.gradients = shards ? part(o.gradients.share(), static_cast<double>(held.gradients)) : 0;
  out.optimizer = part(share_on_host(stage), static_cast<double>(held.optimizer));
  return out;
}

namespace {

void StateOffload::make_states(Stage& stage) {
  const strategy::Offload& o = stage.plan.offload;
  const std::int64_t page = std::max<std::int64_t>(o.page.count(), 1);
  const StateBytes away = states_away(stage);
  const auto stand = [&](double bytes, MemoryCategory category, const char* label, Place place) {
    const std::int64_t pages = (static_cast<std::int64_t>(bytes) + page - 1) / page;
    stage.builder.place(stage.builder.persistent(pages * page, category, label_of(stage, label)),
                        place);
  };
  stand(static_cast<double>(away.parameters), MemoryCategory::parameters, "parameters",
        place_of(o.parameters));
  stand(static_cast<double>(away.optimizer), MemoryCategory::optimizer, "optimizer states",
        place_of(o.optimizer));
  // CPUs step in fp32 (DeepSpeed's single_partition_of_fp32_groups, HybridDeviceOptimizer).
  const double gradients = std::max(o.gradients.share(), share_on_host(stage));
  stand(stepped_elements(stage) * gradients * 4, MemoryCategory::gradients, "fp32 gradients",
        place_of(o.gradients));
  if (o.optimizer.to == OffloadTarget::nvme) {
    double largest = 0;
    for (const double elements : step_pieces(stage)) {
      largest = std::max(largest, elements);
    }
    const int buffers = o.prefetch > 0 ? kStepBuffers : 1;
    stand(largest * share_on_host(stage) * buffers * state_width(stage.plan),
          MemoryCategory::optimizer, "optimizer states on their way", Place::host);
  }
}

// ---------------------------------------------------------------- parameters
}  // namespace

void await_last_step(Stage& stage, StreamIndex stream) {
  const std::uint32_t bit = 1U << stream;
  if ((stage.host_streams.awaited & bit) != 0) {
    return;
  }
  stage.host_streams.awaited |= bit;
  for (const StreamIndex other : {stage.streams.compute, stage.host_streams.to_host,
                                  stage.host_streams.nvme_write, stage.host_streams.cpu}) {
    if (other != stream) {
      stage.builder.wait_previous_step(stream, other);
    }
  }
}

namespace {

// Bytes of a wrap that have to be brought: the offloaded share of its shard, or, whole, the chunks
// and pages off the GPU that no wrap before it asked for.
double bytes_to_fetch(Stage& stage, Wrap& w, bool Chunk::*mark) {
  const double share = stage.plan.offload.parameters.share();
  if (stored(stage).empty()) {
    return share * shard_bytes(stage, w);
  }
  double bytes = share * frozen_shard(stage, w.frozen_bytes, w.frozen_experts);
  for (Chunk* c : chunks_of(stage, w)) {
    if (c->away && !c->whole && !(c->*mark)) {
      c->*mark = true;
      bytes += shard_bytes(stage, *c);
    }
  }
  return bytes;
}

// From the drives into the host's memory.
void read_wrap(Stage& stage, Wrap& w) {
  const OffloadPart& part = stage.plan.offload.parameters;
  if (part.to != OffloadTarget::nvme || w.gather.whole || w.gather.issued || w.fetch.fetched ||
      w.fetch.read) {
    return;
  }
  const double bytes = bytes_to_fetch(stage, w, &Chunk::read);
  await_last_step(stage, stage.host_streams.nvme_read);
  stage.builder.wait(stage.host_streams.nvme_read, stage.builder.mark(stage.streams.compute));
  w.fetch.staged = stage.builder.place(
      stage.builder.allocate(static_cast<std::int64_t>(bytes), MemoryCategory::parameters,
                             label_of(stage, "parameters from NVMe")),
      Place::host);
  carry(stage, stage.host_streams.nvme_read, Carrier::nvme_read, bytes, "parameters");
  w.fetch.read_done = stage.builder.mark(stage.host_streams.nvme_read);
  w.fetch.read = true;
}

}  // namespace

void fetch_wrap(Stage& stage, Wrap& w, const std::vector<Mark>& order) {
  const OffloadPart& part = stage.plan.offload.parameters;
  if (part.to == OffloadTarget::none || w.gather.whole || w.gather.issued || w.fetch.fetched) {
    return;
  }
  read_wrap(stage, w);
  const double bytes = bytes_to_fetch(stage, w, &Chunk::fetched);
  await_last_step(stage, stage.host_streams.to_device);
  for (const Mark& mark : order) {
    stage.builder.wait(stage.host_streams.to_device, mark);
  }
  if (w.fetch.read) {
    stage.builder.wait(stage.host_streams.to_device, w.fetch.read_done);
  }
  if (stage.plan.shard_ranks > 1) {  // alone, a rank gathers in place
    w.fetch.buffer =
        stage.builder.allocate(static_cast<std::int64_t>(bytes), MemoryCategory::communication,
                               label_of(stage, "fetched parameters"), stage.host_streams.to_device);
  }
  carry(stage, stage.host_streams.to_device, Carrier::to_device, bytes, "parameters");
  w.fetch.done = stage.builder.mark(stage.host_streams.to_device);
  stage.builder.release(w.fetch.staged, 1U << stage.host_streams.to_device);
  w.fetch.staged = kNone;
  w.fetch.read = false;
  w.fetch.fetched = true;
}

// Three stages: while wrap `at` computes and the next is gathered, those behind it cross the host
// link, and those behind them come from the drives (2104.07857, section 6.2).
void fetch_ahead(Stage& stage, std::size_t at, bool backward) {
  const strategy::Offload& o = stage.plan.offload;
  if (o.parameters.to == OffloadTarget::none) {
    return;
  }
  auto& wraps = stage.sharded.wraps;
  const int step = backward ? -1 : 1;
  for (int distance = 1; distance <= 2 * o.prefetch + 1; ++distance) {
    const auto i = static_cast<std::ptrdiff_t>(at) + step * distance;
    if (o.prefetch == 0 || i < 0 || i >= static_cast<std::ptrdiff_t>(wraps.size()) ||
        wraps[static_cast<std::size_t>(i)].chunk != wraps[at].chunk) {
      return;
    }
    Wrap& w = wraps[static_cast<std::size_t>(i)];
    read_wrap(stage, w);
    if (distance <= o.prefetch + 1) {
      fetch_wrap(stage, w, {stage.builder.mark(stage.streams.compute)});
    }
  }
}

namespace {

// ---------------------------------------------------------------- gradients
// Reduced gradients leave once their stream has done what it was given. Where a step reduces
// several times, DeepSpeed brings the sum so far back and adds on the device (stage3.py:
// partition_grads); FSDP adds on the CPU (_fsdp_param_group.py).
void StateOffload::gradients_reduced(Stage& stage, const ReducedGradients& gradients) {
  const StreamIndex stream = gradients.stream;
  const strategy::Offload& o = stage.plan.offload;
  const double share = o.gradients.share();
  const double wide = width(stage.plan.precision.gradients);
  const double bytes = gradients.elements * share * wide;
  if (bytes < 1) {
    return;
  }
  const bool again =
      reduces_each_pass(stage.plan) && stage.passes.turns[gradients.chunk].backwards_ended > 0;
  const auto label = label_of(stage, "gradients on their way");
  const auto on_the_way = [&](StreamIndex of) {
    return stage.builder.allocate(whole_blocks(bytes), MemoryCategory::gradients, label, of);
  };
  const bool shards = stage.plan.data_comm == strategy::DataComm::shard_grads ||
                      stage.plan.data_comm == strategy::DataComm::shard_all;
  const program::BufferIndex leaving = shards ? on_the_way(stream) : program::BufferIndex{kNone};
  if (again && o.gradient_sum == HostGradientSum::on_device) {
    const program::BufferIndex sum = on_the_way(stage.host_streams.to_device);
    stage.builder.wait(stage.host_streams.to_device,
                       stage.builder.mark(stage.host_streams.to_host));
    carry(stage, stage.host_streams.to_device, Carrier::to_device, bytes, "accumulated gradients");
    stage.builder.wait(stream, stage.builder.mark(stage.host_streams.to_device));
    data_kernel(stage, stream, 3 * bytes, cost::MemoryOp::elementwise, "add gradients");
    stage.builder.release(sum);
  }
  stage.builder.wait(stage.host_streams.to_host, stage.builder.mark(stream));
  carry(stage, stage.host_streams.to_host, Carrier::to_host, bytes, "gradients");
  // The copy runs on the stream that reduced (stage_1_and_2.py, _fsdp_param_group.py): what it
  // reduces next comes behind, and no stream is recorded on the blocks. A lone rank reduces
  // nothing.
  if (stage.plan.data_ranks() > 1 || !reduce_beside(stage.plan)) {
    stage.builder.wait(stream, stage.builder.mark(stage.host_streams.to_host));
  }
  stage.builder.release(leaving);
  if (again && o.gradient_sum == HostGradientSum::on_host) {
    stage.builder.wait(stage.host_streams.cpu, stage.builder.mark(stage.host_streams.to_host));
    carry(stage, stage.host_streams.cpu, Carrier::cpu, 3 * bytes, "add gradients");
  }
  if (o.gradients.to == OffloadTarget::nvme) {
    stage.builder.wait(stage.host_streams.nvme_write,
                       stage.builder.mark(stage.host_streams.to_host));
    carry(stage, stage.host_streams.nvme_write, Carrier::nvme_write, bytes, "gradients");
  }
}

// Gradients come back for the share of the states that is stepped on the device.
void StateOffload::end_of_step(Stage& stage, StepEnd part) {
  if (part != StepEnd::prepare) {
    return;
  }
  const strategy::Offload& o = stage.plan.offload;
  const double back = o.gradients.share() - share_on_host(stage);
  if (back <= 0) {
    return;
  }
  stage.builder.wait(stage.host_streams.to_device, stage.builder.mark(stage.host_streams.to_host));
  carry(stage, stage.host_streams.to_device, Carrier::to_device,
        back * stepped_elements(stage) * width(stage.plan.precision.gradients), "gradients");
  stage.builder.wait(stage.streams.compute, stage.builder.mark(stage.host_streams.to_device));
}

}  // namespace

std::unique_ptr<Feature> make_state_offload() { return std::make_unique<StateOffload>(); }

}  // namespace stepcast::lower
