// States that live outside the GPU (ZeRO-Offload, ZeRO-Infinity, FSDP's CPU offload, Gemini,
// Angel-PTM): what stands where, and what parameters and gradients travel. The step on the CPUs is
// in offload_step.cpp.
//
// Every rank keeps its own shard beyond its own link, so that all links of a node carry what the
// ranks then gather from each other (bandwidth-centric partitioning, 2104.07857, section 6.1).
#include <algorithm>

#include "host_prices.h"
#include "stage_builder.h"

namespace stepcast::lower {

using job::OffloadPart;
using job::OffloadTarget;
using program::Category;
using program::kNone;
using program::MemoryCategory;
using program::Place;
using program::StreamIndex;

double share_away(const OffloadPart& part) {
  return part.to == OffloadTarget::none ? 0 : part.ratio;
}

namespace {

Place place_of(const OffloadPart& part) {
  return part.to == OffloadTarget::nvme ? Place::nvme : Place::host;
}

}  // namespace

// Copies run on streams of their own, each direction and each way of the drives apart; without
// overlap on the compute stream.
void StageBuilder::make_host_streams() {
  const job::Offload& o = job_.memory.offload;
  if (!o.any()) {
    return;
  }
  const auto stream = [&](const char* name) { return o.overlap ? b_.stream(name) : compute_; };
  to_device_ = stream("host to device");
  to_host_ = stream("device to host");
  const bool nvme =
      o.optimizer.to == OffloadTarget::nvme || o.parameters.to == OffloadTarget::nvme ||
      o.gradients.to == OffloadTarget::nvme || o.activations.to == OffloadTarget::nvme;
  if (nvme) {
    nvme_read_ = stream("NVMe read");
    nvme_write_ = stream("NVMe write");
  }
  if (o.optimizer.to != OffloadTarget::none || o.gradients.to != OffloadTarget::none) {
    cpu_ = stream("CPU");
  }
  if (o.optimizer.to != OffloadTarget::none && to_device_ != compute_) {
    b_.wait_previous_step(compute_, to_device_);  // parameters that the CPUs updated
  }
}

Mark StageBuilder::copy(StreamIndex stream, Carrier by, double bytes, const char* label,
                        Category category) {
  const auto count = static_cast<std::int64_t>(bytes);
  if (count > 0) {
    const job::Offload& o = job_.memory.offload;
    const std::int64_t each = std::max(o.page.count(), o.chunk.count());
    const std::int64_t pieces = each > 0 && by != Carrier::cpu ? (count + each - 1) / each : 1;
    const std::uint32_t price =
        context_.passes.book->movement({by, count, static_cast<int>(pieces)});
    b_.copy(stream, price, category, context_.passes.labels->id(label), launch_);
    // Pageable memory is copied while the host waits (CUDA Driver API, synchronisation behaviour).
    if (!o.pinned && (by == Carrier::to_device || by == Carrier::to_host)) {
      b_.host_sync(b_.mark(stream));
    }
  }
  return b_.mark(stream);
}

// ---------------------------------------------------------------- what stands where
// A wrap's parameters that this rank keeps between uses, in the states' format, but for tiles.
double StageBuilder::shard_bytes(const Wrap& w) const {
  const Sharing dense = sharing(false);
  const double elements = static_cast<double>(w.elements.dense) / dense.shards +
                          static_cast<double>(w.elements.expert) / sharing(true).shards;
  return elements * width(job_.memory.dtypes.parameters) +
         static_cast<double>(w.frozen_bytes) / dense.shards;
}

// Of the states that held_states() counts, what is not on the device. Whole gradients that add up
// from micro-batch to micro-batch stay there: the host holds the reduced ones.
StateBytes StageBuilder::states_away() const {
  const job::Offload& o = job_.memory.offload;
  StateBytes out;
  if (!o.any()) {
    return out;
  }
  const StateBytes held = held_states();
  double parameters = 0;
  for (const Chunk& c : stored()) {
    parameters += c.away ? shard_bytes(c) : 0;
  }
  for (const Wrap& w : data_parallel_.wraps) {
    if (!stored().empty()) {
      parameters +=
          share_away(o.parameters) * static_cast<double>(w.frozen_bytes) / sharing(false).shards;
      continue;
    }
    parameters += shard_bytes(w) + static_cast<double>(w.tiled) / sharing(false).shards *
                                       width(job_.memory.dtypes.parameters);
  }
  const bool shards = plan_.data_comm == strategy::DataComm::shard_grads ||
                      plan_.data_comm == strategy::DataComm::shard_all;
  const auto part = [](double share, double bytes) {
    return static_cast<std::int64_t>(share * bytes) / 512 * 512;
  };
  out.parameters = part(stored().empty() ? share_away(o.parameters) : 1, parameters);
  out.gradients = shards ? part(share_away(o.gradients), static_cast<double>(held.gradients)) : 0;
  out.optimizer = part(share_away(o.optimizer), static_cast<double>(held.optimizer));
  return out;
}

void StageBuilder::make_host_states() {
  const job::Offload& o = job_.memory.offload;
  const std::int64_t page = std::max<std::int64_t>(o.page.count(), 1);
  const StateBytes away = states_away();
  const auto stand = [&](double bytes, MemoryCategory category, const char* label, Place place) {
    const std::int64_t pages = (static_cast<std::int64_t>(bytes) + page - 1) / page;
    b_.place(b_.persistent(pages * page, category, context_.passes.labels->id(label)), place);
  };
  stand(static_cast<double>(away.parameters), MemoryCategory::parameters, "parameters",
        place_of(o.parameters));
  stand(static_cast<double>(away.optimizer), MemoryCategory::optimizer, "optimizer states",
        place_of(o.optimizer));
  // CPUs step in fp32 (DeepSpeed's single_partition_of_fp32_groups, HybridDeviceOptimizer).
  const double gradients = std::max(share_away(o.gradients), share_away(o.optimizer));
  stand(stepped_elements() * gradients * 4, MemoryCategory::gradients, "fp32 gradients",
        place_of(o.gradients));
  if (o.optimizer.to == OffloadTarget::nvme) {
    double largest = 0;
    for (const double elements : step_pieces()) {
      largest = std::max(largest, elements);
    }
    const int buffers = o.prefetch > 0 ? kStepBuffers : 1;
    stand(largest * share_away(o.optimizer) * buffers * state_width(), MemoryCategory::optimizer,
          "optimizer states on their way", Place::host);
  }
}

// ---------------------------------------------------------------- parameters
// What a stream brings is what the step before left there.
void StageBuilder::await_last_step(StreamIndex stream) {
  const std::uint32_t bit = 1U << stream;
  if ((awaited_ & bit) != 0) {
    return;
  }
  awaited_ |= bit;
  for (const StreamIndex other : {compute_, to_host_, nvme_write_, cpu_}) {
    if (other != stream) {
      b_.wait_previous_step(stream, other);
    }
  }
}

// What of a wrap has to come: its share of the shard, or the chunks and pages that are away and
// that nothing before it asked for, whole.
double StageBuilder::bytes_to_fetch(Wrap& w, bool Chunk::*mark) {
  const double share = share_away(job_.memory.offload.parameters);
  if (stored().empty()) {
    return share * shard_bytes(w);
  }
  double bytes = share * static_cast<double>(w.frozen_bytes) / sharing(false).shards;
  for (Chunk* c : chunks_of(w)) {
    if (c->away && !c->whole && !(c->*mark)) {
      c->*mark = true;
      bytes += shard_bytes(*c);
    }
  }
  return bytes;
}

// From the drives into the host's memory.
void StageBuilder::read_wrap(Wrap& w) {
  const OffloadPart& part = job_.memory.offload.parameters;
  if (part.to != OffloadTarget::nvme || w.whole || w.issued || w.fetched || w.read) {
    return;
  }
  const double bytes = bytes_to_fetch(w, &Chunk::read);
  await_last_step(nvme_read_);
  b_.wait(nvme_read_, b_.mark(compute_));
  w.staged = b_.place(b_.allocate(static_cast<std::int64_t>(bytes), MemoryCategory::parameters,
                                  context_.passes.labels->id("parameters from NVMe")),
                      Place::host);
  copy(nvme_read_, Carrier::nvme_read, bytes, "parameters");
  w.read_done = b_.mark(nvme_read_);
  w.read = true;
}

// From the host's memory to the device, behind `order`.
void StageBuilder::fetch_wrap(Wrap& w, const std::vector<Mark>& order) {
  const OffloadPart& part = job_.memory.offload.parameters;
  if (part.to == OffloadTarget::none || w.whole || w.issued || w.fetched) {
    return;
  }
  read_wrap(w);
  const double bytes = bytes_to_fetch(w, &Chunk::fetched);
  await_last_step(to_device_);
  for (const Mark& mark : order) {
    b_.wait(to_device_, mark);
  }
  if (w.read) {
    b_.wait(to_device_, w.read_done);
  }
  if (plan_.shard_ranks > 1) {  // alone, a rank gathers in place
    w.fetch_buffer = b_.allocate(static_cast<std::int64_t>(bytes), MemoryCategory::communication,
                                 context_.passes.labels->id("fetched parameters"), to_device_);
  }
  copy(to_device_, Carrier::to_device, bytes, "parameters");
  w.fetch_done = b_.mark(to_device_);
  b_.release(w.staged, 1U << to_device_);
  w.staged = kNone;
  w.read = false;
  w.fetched = true;
}

// Three stages: while wrap `at` computes and the next is gathered, those behind it cross the host
// link, and those behind them come from the drives (2104.07857, section 6.2).
void StageBuilder::fetch_ahead(std::size_t at, bool backward) {
  const job::Offload& o = job_.memory.offload;
  if (o.parameters.to == OffloadTarget::none) {
    return;
  }
  auto& wraps = data_parallel_.wraps;
  const int step = backward ? -1 : 1;
  for (int distance = 1; distance <= 2 * o.prefetch + 1; ++distance) {
    const auto i = static_cast<std::ptrdiff_t>(at) + step * distance;
    if (o.prefetch == 0 || i < 0 || i >= static_cast<std::ptrdiff_t>(wraps.size()) ||
        wraps[static_cast<std::size_t>(i)].chunk != wraps[at].chunk) {
      return;
    }
    Wrap& w = wraps[static_cast<std::size_t>(i)];
    read_wrap(w);
    if (distance <= o.prefetch + 1) {
      fetch_wrap(w, {b_.mark(compute_)});
    }
  }
}

// ---------------------------------------------------------------- gradients
// `elements` of this rank's reduced gradients leave behind what `stream` holds. Where a step
// reduces several times, DeepSpeed brings the sum so far back and adds on the device (stage3.py:
// partition_grads); FSDP adds on the CPU (_fsdp_param_group.py).
void StageBuilder::offload_gradients(double elements, StreamIndex stream) {
  const job::Offload& o = job_.memory.offload;
  const double share = share_away(o.gradients);
  const double wide = width(job_.memory.dtypes.gradients);
  const double bytes = elements * share * wide;
  if (bytes < 1) {
    return;
  }
  const auto family = job_.system.family;
  const bool again = reduces_each_pass(plan_) && data_parallel_.backwards[reducing_] > 0;
  const auto label = context_.passes.labels->id("gradients on their way");
  const auto on_the_way = [&](StreamIndex of) {
    return b_.allocate(round_512(bytes), MemoryCategory::gradients, label, of);
  };
  const bool shards = plan_.data_comm == strategy::DataComm::shard_grads ||
                      plan_.data_comm == strategy::DataComm::shard_all;
  const std::uint32_t leaving = shards ? on_the_way(stream) : kNone;
  if (again && family == job::System::Family::deepspeed) {
    const std::uint32_t sum = on_the_way(to_device_);
    b_.wait(to_device_, b_.mark(to_host_));
    copy(to_device_, Carrier::to_device, bytes, "accumulated gradients");
    b_.wait(stream, b_.mark(to_device_));
    data_kernel(stream, 3 * bytes, cost::MemoryOp::elementwise, "add gradients");
    b_.release(sum);
  }
  b_.wait(to_host_, b_.mark(stream));
  copy(to_host_, Carrier::to_host, bytes, "gradients");
  // The copy runs on the stream that reduced (stage_1_and_2.py, _fsdp_param_group.py): what it
  // reduces next comes behind, and no stream is recorded on the blocks. A lone rank reduces
  // nothing.
  if (plan_.data_ranks() > 1 || !reduce_beside()) {
    b_.wait(stream, b_.mark(to_host_));
  }
  b_.release(leaving);
  if (again && family == job::System::Family::fsdp2) {
    b_.wait(cpu_, b_.mark(to_host_));
    copy(cpu_, Carrier::cpu, 3 * bytes, "add gradients");
  }
  if (o.gradients.to == OffloadTarget::nvme) {
    b_.wait(nvme_write_, b_.mark(to_host_));
    copy(nvme_write_, Carrier::nvme_write, bytes, "gradients");
  }
}

}  // namespace stepcast::lower
