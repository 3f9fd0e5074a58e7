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
#include <utility>

#include "offload_modules.h"
#include "stage_builder.h"

namespace stepcast::lower {

using program::kNone;
using program::MemoryCategory;
using schedule::Pass;

namespace {

// Of less nothing travels: Megatron-Kwai leaves tensors below 1 MiB where they are, torchtune's
// OffloadActivations those of at most 1024 bytes (min_offload_size).
constexpr std::int64_t kLeastOfPairs = std::int64_t{1} << 20;
constexpr std::int64_t kLeast = 1025;
// Of host memory beside drives: one is filled while the other empties.
constexpr std::size_t kDriveBuffers = 2;

std::vector<std::size_t> order_of(std::size_t count, auto&& key) {
  std::vector<std::size_t> out(count);
  std::iota(out.begin(), out.end(), std::size_t{0});
  std::stable_sort(out.begin(), out.end(),
                   [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return out;
}

}  // namespace

void StageBuilder::plan_offload() {
  job::Offload offload = job_.memory.offload;
  if (offload.activations.to == job::OffloadTarget::none) {
    return;
  }
  job::System::ActivationOffload form = job_.system.activation_offload;
  if (!offload.overlap) {
    offload.prefetch = 0;
    form = job::System::ActivationOffload::units;
  }
  const auto& slots = plan_.order.ranks[stage_];
  const bool pairs = form == job::System::ActivationOffload::pairs;
  const std::int64_t least = pairs ? kLeastOfPairs : kLeast;
  std::vector<std::size_t> counts;
  std::vector<std::vector<MovedUnit>> moved(units_.size());
  for (std::size_t c = 0; c < units_.size(); ++c) {
    const auto& units = units_[c];
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
                  : share_of_modules(context_.layers->at(model::layer_kind(job_.model, unit.layer)),
                                     offload.activation_modules);
    }
    return std::min(bytes, round_512(part * static_cast<double>(bytes)));
  };
  for (const Move& move : plan_moves(slots, *visits_, moved, form, offload)) {
    const Unit& unit = units_[move.chunk][move.unit];
    const std::int64_t inputs = unit.recomputed ? 0 : weight_inputs(unit);
    const std::int64_t bytes = share(unit, kept_bytes(unit) - inputs);
    if (bytes > 0) {
      moves_.push_back({move, bytes, share(unit, inputs)});
    }
  }
  if (moves_.empty()) {
    return;
  }
  move_of_.resize(units_.size());
  for (std::size_t c = 0; c < units_.size(); ++c) {
    move_of_[c].assign(units_[c].size(), std::vector<std::int32_t>(plan_.micro_batches, -1));
  }
  for (std::size_t i = 0; i < moves_.size(); ++i) {
    const Move& m = moves_[i].move;
    move_of_[m.chunk][m.unit][m.micro_batch] = static_cast<std::int32_t>(i);
  }
  by_left_ = order_of(moves_.size(), [&](std::size_t i) { return moves_[i].move.left; });
  // Of copies that are due at one time the one that is needed first goes first.
  by_fetch_ = order_of(moves_.size(), [&](std::size_t i) {
    return std::pair(moves_[i].move.fetch, moves_[i].move.use);
  });
  by_use_ = order_of(moves_.size(), [&](std::size_t i) { return moves_[i].move.use; });
  copy_out_ = offload.overlap ? b_.stream("activations out") : compute_;
  copy_back_ = offload.overlap ? b_.stream("activations back") : compute_;
}

bool StageBuilder::activations_on_drives() const {
  return job_.memory.offload.activations.to == job::OffloadTarget::nvme;
}

StageBuilder::Journey* StageBuilder::journey(int chunk, std::size_t unit, int micro_batch) {
  if (moves_.empty() || move_of_[chunk][unit][micro_batch] < 0) {
    return nullptr;
  }
  return &moves_[static_cast<std::size_t>(move_of_[chunk][unit][micro_batch])];
}

StageBuilder::Kept& StageBuilder::kept_of(const Move& m) {
  return kept_[m.chunk][m.unit][m.micro_batch];
}

int StageBuilder::visit_of(const Run& run) const {
  return visits_->of(visits_->slot(run.slot.pass, run.slot.chunk, run.slot.micro_batch),
                     run.units - 1);
}

// Ahead of a visit: what is due comes back, and what this or an earlier visit reads is awaited.
void StageBuilder::activations_before(const Run& run) {
  if (moves_.empty()) {
    return;
  }
  opened_ = std::max(opened_, visit_of(run));
  // From the drives as long ahead of the copy as the copy is of its use.
  for (; activations_on_drives() && drawn_ < by_fetch_.size(); ++drawn_) {
    Journey& j = moves_[by_fetch_[drawn_]];
    if (2 * j.move.fetch - j.move.use > opened_ || j.where < Journey::Where::host ||
        reads_ >= returned_.size() + kDriveBuffers) {
      break;
    }
    read_back(j);
  }
  for (; fetched_ < by_fetch_.size(); ++fetched_) {
    Journey& j = moves_[by_fetch_[fetched_]];
    if (j.move.fetch > opened_ || j.where == Journey::Where::unmade) {
      break;
    }
    copy_back(j);
  }
  for (; used_ < by_use_.size(); ++used_) {
    Journey& j = moves_[by_use_[used_]];
    if (j.move.use > opened_ || j.where == Journey::Where::unmade) {
      break;
    }
    copy_back(j);
    b_.wait(compute_, j.back);
    if (!activations_on_drives()) {
      b_.release(j.host);
    }
    j.where = Journey::Where::back;
  }
  b_.set_micro_batch(run.slot.micro_batch, run.slot.chunk);
}

// Behind a visit: what is due leaves, and what has to have left is awaited and given up.
void StageBuilder::activations_after(const Run& run) {
  if (moves_.empty()) {
    return;
  }
  ended_ = std::max(ended_, visit_of(run));
  if (run.slot.pass == Pass::forward) {
    if (Journey* made = journey(run.slot.chunk, run.unit, run.slot.micro_batch)) {
      made->where = Journey::Where::device;
    }
  }
  for (; leaving_ < moves_.size(); ++leaving_) {
    Journey& j = moves_[leaving_];
    if (j.move.leave > ended_ || j.where == Journey::Where::unmade) {
      break;
    }
    copy_out(j);
  }
  for (; left_ < by_left_.size(); ++left_) {
    Journey& j = moves_[by_left_[left_]];
    if (j.move.left > ended_ || j.where == Journey::Where::unmade) {
      break;
    }
    give_up(j);
  }
  b_.set_micro_batch(run.slot.micro_batch, run.slot.chunk);
}

void StageBuilder::copy_out(Journey& j) {
  if (j.where != Journey::Where::device) {
    return;
  }
  b_.set_micro_batch(j.move.micro_batch, j.move.chunk);
  const bool drives = activations_on_drives();
  if (drives && written_.size() >= kDriveBuffers) {
    b_.wait(copy_out_, written_[written_.size() - kDriveBuffers]);
  }
  j.host = host_activations(j, program::Place::host);
  b_.wait(copy_out_, b_.mark(compute_));
  j.out = copy(copy_out_, Carrier::to_host, static_cast<double>(j.bytes + j.inputs),
               "activations to the host");
  if (drives) {
    j.drive = host_activations(j, program::Place::nvme);
    b_.wait(nvme_write_, j.out);
    j.out_of_host = copy(nvme_write_, Carrier::nvme_write, static_cast<double>(j.bytes + j.inputs),
                         "activations to NVMe");
    written_.push_back(j.out_of_host);
    b_.release(j.host, 1U << nvme_write_);
    j.host = kNone;
  }
  if (copy_out_ == compute_) {
    b_.host_sync(b_.mark(compute_));
  }
  j.where = Journey::Where::leaving;
}

std::uint32_t StageBuilder::host_activations(const Journey& j, program::Place at) {
  return b_.place(b_.allocate(j.bytes + j.inputs, MemoryCategory::activations,
                              context_.passes.labels->id("offloaded activations")),
                  at);
}

// From the drives into a buffer of the host, which is free once what it held last has gone on.
void StageBuilder::read_back(Journey& j) {
  if (!activations_on_drives() || j.drawn || j.where != Journey::Where::host) {
    return;
  }
  b_.set_micro_batch(j.move.micro_batch, j.move.chunk);
  if (reads_ >= kDriveBuffers && reads_ - kDriveBuffers < returned_.size()) {
    b_.wait(nvme_read_, returned_[reads_ - kDriveBuffers]);
  }
  j.host = host_activations(j, program::Place::host);
  b_.wait(nvme_read_, b_.mark(compute_));
  b_.wait(nvme_read_, j.out_of_host);
  j.into_host = copy(nvme_read_, Carrier::nvme_read, static_cast<double>(j.bytes + j.inputs),
                     "activations from NVMe");
  b_.release(j.drive, 1U << nvme_read_);
  j.drive = kNone;
  j.drawn = true;
  ++reads_;
}

// The device's copy goes once the compute stream has waited for the copy out.
void StageBuilder::give_up(Journey& j) {
  copy_out(j);
  if (j.where != Journey::Where::leaving) {
    return;
  }
  b_.wait(compute_, j.out);
  Kept& kept = kept_of(j.move);
  b_.release(kept.moved);
  b_.release(kept.moved_inputs);
  kept.moved = kept.moved_inputs = kNone;
  j.where = Journey::Where::host;
}

void StageBuilder::copy_back(Journey& j) {
  give_up(j);
  if (j.where != Journey::Where::host) {
    return;
  }
  read_back(j);
  b_.set_micro_batch(j.move.micro_batch, j.move.chunk);
  // Where it lands is allocated on the copy's own stream: an arena of its own.
  Kept& kept = kept_of(j.move);
  const std::uint32_t label = context_.passes.labels->id("fetched activations");
  kept.moved = b_.allocate(j.bytes, MemoryCategory::activations, label, copy_back_);
  kept.moved_inputs = b_.allocate(j.inputs, MemoryCategory::activations, label, copy_back_);
  b_.wait(copy_back_, activations_on_drives() ? j.into_host : j.out);
  b_.wait(copy_back_, b_.mark(compute_));
  j.back = copy(copy_back_, Carrier::to_device, static_cast<double>(j.bytes + j.inputs),
                "activations from the host");
  if (activations_on_drives()) {
    returned_.push_back(j.back);
    b_.release(j.host, 1U << copy_back_);
    j.host = kNone;
  }
  j.where = Journey::Where::returning;
}

// Streams beside its own that used what had travelled.
std::uint32_t StageBuilder::users_of_moved(const Run& run) {
  const Journey* j = journey(run.slot.chunk, run.unit, run.slot.micro_batch);
  return j != nullptr && copy_back_ != compute_ ? 1U << compute_ : 0;
}

}  // namespace stepcast::lower
