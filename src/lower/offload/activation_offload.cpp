// Saved activations that live in host memory between a unit's passes: copied out on a stream of
// their own behind the forward pass, fetched ahead of the backward pass (activation_moves.h says
// when). The compute stream waits for both: a copy that takes longer than what runs beside it
// stalls, and the wait counts as offload. Without overlap they run on the compute stream and the
// host waits for each copy out, as torch's save_on_cpu does.
//
// To drives they pass through page-locked buffers of the host, kDriveBuffers each way: a copy out
// waits until a buffer has been written out, a read until one has been copied on (ZeRO-Infinity's
// infinity offload engine, 2104.07857, section 6.3, reuses a small set of pinned buffers).
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "../stage/feature_list.h"
#include "activation_moves.h"
#include "offload_modules.h"
#include "state_offload.h"

namespace stepcast::lower {

using program::kNone;
using program::MemoryCategory;
using schedule::Pass;

namespace {

// Fewer bytes stay on the device: Megatron-Kwai moves no tensor below 1 MiB, torchtune's
// OffloadActivations none of at most 1024 bytes (min_offload_size).
constexpr std::int64_t kMinPairedTensor = std::int64_t{1} << 20;
constexpr std::int64_t kMinTensor = 1025;
// Buffers of host memory in front of drives, each way: one is filled while the other empties.
constexpr std::size_t kDriveBuffers = 2;

std::vector<std::size_t> order_of(std::size_t count, auto&& key) {
  std::vector<std::size_t> out(count);
  std::iota(out.begin(), out.end(), std::size_t{0});
  std::stable_sort(out.begin(), out.end(),
                   [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return out;
}

struct Journey {
  enum class Where { unmade, device, leaving, host, returning, back };

  Move move;
  std::int64_t bytes = 0;
  std::int64_t inputs = 0;
  program::BufferIndex host = kNone;
  program::BufferIndex drive = kNone;
  Mark out = {};
  Mark out_of_host = {}, into_host = {};  // to and from the drives
  Mark back = {};
  bool drawn = false;  // the read from the drives has been issued
  Where where = Where::unmade;
};

// Journeys in the order in which one of their copies is due; that of the first `done` was issued.
struct Queue {
  std::vector<std::size_t> order;
  std::size_t done = 0;
};

// Ends of the copies that free the host's buffers in front of drives, oldest first.
struct DriveBuffers {
  std::vector<Mark> written;   // from the host to the drives
  std::vector<Mark> returned;  // from the host to the device
  std::size_t reads = 0;       // from the drives, issued so far
};

class MovedActivations final : public Feature {
 public:
  void before_step(Stage& stage) override;
  void before_unit(Stage& stage, const Run& run) override;
  void after_unit(Stage& stage, const Run& run) override;

 private:
  Journey* journey(const Run& run);
  int visit_of(const Run& run) const;
  void copy_out(Stage& stage, Journey& j);
  void give_up(Stage& stage, Journey& j);
  void read_back(Stage& stage, Journey& j);
  void copy_back(Stage& stage, Journey& j);

  std::vector<Journey> moves_;  // in the order in which they leave
  std::vector<std::vector<std::vector<std::int32_t>>>
      move_of_;  // [chunk][unit][micro-batch]; -1: stays
  // A move's copies are issued and awaited in the order of its places.
  Queue leaving_, left_, drawn_, fetched_, used_;
  DriveBuffers buffers_;
  std::optional<Visits> visits_;  // of units, numbered in their order on the rank
  int ended_ = -1, opened_ = -1;  // visits so far
  program::StreamIndex copy_out_ = 0, copy_back_ = 0;
  program::StreamIndex arena_ = 0;  // whose pool holds what comes back
};

// Whether they go on to drives.
bool to_drives(const Stage& stage) {
  return stage.plan.offload.activations.to == OffloadTarget::nvme;
}

Kept& kept_of(Stage& stage, const Move& m) {
  return stage.passes.kept[m.chunk][m.unit][m.micro_batch];
}

program::BufferIndex host_activations(Stage& stage, const Journey& j, program::Place at) {
  return stage.builder.place(stage.builder.allocate(j.bytes + j.inputs, MemoryCategory::activations,
                                                    label_of(stage, "offloaded activations")),
                             at);
}

void MovedActivations::before_step(Stage& stage) {
  strategy::Offload offload = stage.plan.offload;
  if (offload.activations.to == OffloadTarget::none) {
    return;
  }
  ActivationOffload form = stage.plan.offload.activation_form;
  if (!offload.overlap) {
    offload.prefetch = 0;
    form = ActivationOffload::units;
  }
  const auto& slots = slots_of(stage);
  const bool pairs = form == ActivationOffload::pairs;
  const std::int64_t least = pairs ? kMinPairedTensor : kMinTensor;
  std::vector<std::size_t> counts;
  std::vector<std::vector<MovedUnit>> moved(stage.units.size());
  for (std::size_t c = 0; c < stage.units.size(); ++c) {
    const auto& units = stage.units[c];
    counts.push_back(units.size());
    for (std::size_t u = 0; u < units.size(); ++u) {
      std::size_t last = u;
      while (units[u].recomputed && last + 1 < units.size() && units[last + 1].recomputed &&
             !units[last + 1].keeps_input) {
        ++last;
      }
      moved[c].push_back({kept_bytes(units[u]) >= least, static_cast<int>(last),
                          units[u].kind == Unit::Kind::layer});
    }
  }
  visits_.emplace(slots, counts);
  const auto share = [&](const Unit& unit, std::int64_t bytes) {
    double part = offload.activations.ratio;
    if (!offload.activation_modules.empty()) {
      part *= unit.kind != Unit::Kind::layer
                  ? 0
                  : share_of_modules(
                        stage.context.layers->at(model::layer_kind(stage.plan.model, unit.layer)),
                        offload.activation_modules);
    }
    return std::min(bytes, whole_blocks(part * static_cast<double>(bytes)));
  };
  for (const Move& move : plan_moves(slots, *visits_, moved, form, offload)) {
    const Unit& unit = stage.units[move.chunk][move.unit];
    const std::int64_t inputs = unit.recomputed ? 0 : weight_inputs(stage, unit);
    const std::int64_t bytes = share(unit, kept_bytes(unit) - inputs);
    if (bytes > 0) {
      moves_.push_back({move, bytes, share(unit, inputs)});
    }
  }
  if (moves_.empty()) {
    return;
  }
  move_of_.resize(stage.units.size());
  for (std::size_t c = 0; c < stage.units.size(); ++c) {
    move_of_[c].assign(stage.units[c].size(),
                       std::vector<std::int32_t>(stage.plan.micro_batches, -1));
  }
  for (std::size_t i = 0; i < moves_.size(); ++i) {
    const Move& m = moves_[i].move;
    move_of_[m.chunk][m.unit][m.micro_batch] = static_cast<std::int32_t>(i);
    kept_of(stage, m).moved_bytes = moves_[i].bytes;
    kept_of(stage, m).moved_input_bytes = moves_[i].inputs;
  }
  leaving_.order = order_of(moves_.size(), [](std::size_t i) { return i; });
  left_.order = order_of(moves_.size(), [&](std::size_t i) { return moves_[i].move.left; });
  // Of copies that are due at the same time, the one that is needed first goes first.
  fetched_.order = order_of(moves_.size(), [&](std::size_t i) {
    return std::pair(moves_[i].move.fetch, moves_[i].move.use);
  });
  drawn_.order = fetched_.order;
  used_.order = order_of(moves_.size(), [&](std::size_t i) { return moves_[i].move.use; });
  copy_out_ = offload.overlap ? stage.builder.stream("activations out") : stage.streams.compute;
  copy_back_ = offload.overlap ? stage.builder.stream("activations back") : stage.streams.compute;
  // Transformer Engine allocates what it copies into on the compute stream
  // (transformer-engine 2.8.0, pytorch/cpu_offload.py:586), so no freed block waits for another
  // stream.
  arena_ = form == ActivationOffload::spread ? stage.streams.compute : copy_back_;
  for (const Journey& j : moves_) {  // streams beside its own that use what has travelled
    kept_of(stage, j.move).moved_users =
        arena_ != stage.streams.compute ? 1U << stage.streams.compute : 0;
  }
}

Journey* MovedActivations::journey(const Run& run) {
  const std::int32_t move = move_of_[static_cast<std::size_t>(run.slot.chunk)][run.unit]
                                    [static_cast<std::size_t>(run.slot.micro_batch)];
  return move < 0 ? nullptr : &moves_[static_cast<std::size_t>(move)];
}

int MovedActivations::visit_of(const Run& run) const {
  return visits_->of(visits_->slot(run.slot.pass, run.slot.chunk, run.slot.micro_batch),
                     run.units - 1);
}

void MovedActivations::copy_out(Stage& stage, Journey& j) {
  if (j.where != Journey::Where::device) {
    return;
  }
  stage.builder.set_micro_batch(j.move.micro_batch, j.move.chunk);
  const bool drives = to_drives(stage);
  if (drives && buffers_.written.size() >= kDriveBuffers) {
    stage.builder.wait(copy_out_, buffers_.written[buffers_.written.size() - kDriveBuffers]);
  }
  j.host = host_activations(stage, j, program::Place::host);
  stage.builder.wait(copy_out_, stage.builder.mark(stage.streams.compute));
  j.out = carry(stage, copy_out_, Carrier::to_host, static_cast<double>(j.bytes + j.inputs),
                "activations to the host");
  if (drives) {
    j.drive = host_activations(stage, j, program::Place::nvme);
    stage.builder.wait(stage.host_streams.nvme_write, j.out);
    j.out_of_host = carry(stage, stage.host_streams.nvme_write, Carrier::nvme_write,
                          static_cast<double>(j.bytes + j.inputs), "activations to NVMe");
    buffers_.written.push_back(j.out_of_host);
    stage.builder.release(j.host, 1U << stage.host_streams.nvme_write);
    j.host = kNone;
  }
  if (copy_out_ == stage.streams.compute) {
    stage.builder.host_sync(stage.builder.mark(stage.streams.compute));
  }
  j.where = Journey::Where::leaving;
}

// The device's copy goes once the compute stream has waited for the copy out.
void MovedActivations::give_up(Stage& stage, Journey& j) {
  copy_out(stage, j);
  if (j.where != Journey::Where::leaving) {
    return;
  }
  stage.builder.wait(stage.streams.compute, j.out);
  Kept& kept = kept_of(stage, j.move);
  stage.builder.release(kept.moved);
  stage.builder.release(kept.moved_inputs);
  kept.moved = kept.moved_inputs = kNone;
  j.where = Journey::Where::host;
}

// From the drives into a buffer of the host, which is free once its last content is on the device.
void MovedActivations::read_back(Stage& stage, Journey& j) {
  if (!to_drives(stage) || j.drawn || j.where != Journey::Where::host) {
    return;
  }
  stage.builder.set_micro_batch(j.move.micro_batch, j.move.chunk);
  if (buffers_.reads >= kDriveBuffers &&
      buffers_.reads - kDriveBuffers < buffers_.returned.size()) {
    stage.builder.wait(stage.host_streams.nvme_read,
                       buffers_.returned[buffers_.reads - kDriveBuffers]);
  }
  j.host = host_activations(stage, j, program::Place::host);
  stage.builder.wait(stage.host_streams.nvme_read, stage.builder.mark(stage.streams.compute));
  stage.builder.wait(stage.host_streams.nvme_read, j.out_of_host);
  j.into_host = carry(stage, stage.host_streams.nvme_read, Carrier::nvme_read,
                      static_cast<double>(j.bytes + j.inputs), "activations from NVMe");
  stage.builder.release(j.drive, 1U << stage.host_streams.nvme_read);
  j.drive = kNone;
  j.drawn = true;
  ++buffers_.reads;
}

void MovedActivations::copy_back(Stage& stage, Journey& j) {
  give_up(stage, j);
  if (j.where != Journey::Where::host) {
    return;
  }
  read_back(stage, j);
  stage.builder.set_micro_batch(j.move.micro_batch, j.move.chunk);
  Kept& kept = kept_of(stage, j.move);
  const program::LabelIndex label = label_of(stage, "fetched activations");
  kept.moved = stage.builder.allocate(j.bytes, MemoryCategory::activations, label, arena_);
  kept.moved_inputs = stage.builder.allocate(j.inputs, MemoryCategory::activations, label, arena_);
  stage.builder.wait(copy_back_, to_drives(stage) ? j.into_host : j.out);
  stage.builder.wait(copy_back_, stage.builder.mark(stage.streams.compute));
  j.back = carry(stage, copy_back_, Carrier::to_device, static_cast<double>(j.bytes + j.inputs),
                 "activations from the host");
  if (to_drives(stage)) {
    buffers_.returned.push_back(j.back);
    stage.builder.release(j.host, 1U << copy_back_);
    j.host = kNone;
  }
  j.where = Journey::Where::returning;
}

// ---------------------------------------------------------------- hooks
// Before a visit: copies back that are due are issued; the compute stream waits for those that this
// visit or an earlier one reads.
void MovedActivations::before_unit(Stage& stage, const Run& run) {
  if (moves_.empty()) {
    return;
  }
  opened_ = std::max(opened_, visit_of(run));
  // A read from the drives is as many visits before the copy as the copy is before its use.
  for (; to_drives(stage) && drawn_.done < drawn_.order.size(); ++drawn_.done) {
    Journey& j = moves_[drawn_.order[drawn_.done]];
    if (2 * j.move.fetch - j.move.use > opened_ || j.where < Journey::Where::host ||
        buffers_.reads >= buffers_.returned.size() + kDriveBuffers) {
      break;
    }
    read_back(stage, j);
  }
  for (; fetched_.done < fetched_.order.size(); ++fetched_.done) {
    Journey& j = moves_[fetched_.order[fetched_.done]];
    if (j.move.fetch > opened_ || j.where == Journey::Where::unmade) {
      break;
    }
    copy_back(stage, j);
  }
  for (; used_.done < used_.order.size(); ++used_.done) {
    Journey& j = moves_[used_.order[used_.done]];
    if (j.move.use > opened_ || j.where == Journey::Where::unmade) {
      break;
    }
    copy_back(stage, j);
    stage.builder.wait(stage.streams.compute, j.back);
    if (!to_drives(stage)) {
      stage.builder.release(j.host);
    }
    j.where = Journey::Where::back;
  }
  stage.builder.set_micro_batch(run.slot.micro_batch, run.slot.chunk);
}

// After a visit: copies out that are due are issued; the compute stream waits for those that have
// to have ended, and their device buffers are released.
void MovedActivations::after_unit(Stage& stage, const Run& run) {
  if (moves_.empty()) {
    return;
  }
  ended_ = std::max(ended_, visit_of(run));
  if (run.slot.pass == Pass::forward) {
    if (Journey* made = journey(run)) {
      made->where = Journey::Where::device;
    }
  }
  for (; leaving_.done < leaving_.order.size(); ++leaving_.done) {
    Journey& j = moves_[leaving_.order[leaving_.done]];
    if (j.move.leave > ended_ || j.where == Journey::Where::unmade) {
      break;
    }
    copy_out(stage, j);
  }
  for (; left_.done < left_.order.size(); ++left_.done) {
    Journey& j = moves_[left_.order[left_.done]];
    if (j.move.left > ended_ || j.where == Journey::Where::unmade) {
      break;
    }
    give_up(stage, j);
  }
  stage.builder.set_micro_batch(run.slot.micro_batch, run.slot.chunk);
}

}  // namespace

std::unique_ptr<Feature> make_activation_offload() { return std::make_unique<MovedActivations>(); }

}  // namespace stepcast::lower
