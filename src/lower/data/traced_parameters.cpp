// Parameters that DeepSpeed's coordinator gathers by the trace of a micro-batch (fetch_trace.cpp):
// several by one operation, ahead of the modules that read them, each given up for itself. In the
// first micro-batch of all there is no trace yet (0.19.8, partitioned_param_coordinator.py:422,
// :498): the tensors are other ones, which leave other blocks in the allocator's cache.
#include <deque>
#include <map>
#include <utility>

#include "../offload/state_offload.h"
#include "../stage/feature_list.h"
#include "../tensors/unit_tensors.h"
#include "fetch_trace.h"

namespace stepcast::lower {

using cost::Collective;
using program::kNone;
using program::MemoryCategory;
using program::StreamIndex;

namespace {

// Arrays of one gather that are given up in one pass.
struct Copies {
  FetchSpot released;
  TensorList list;
  program::BufferIndex buffer = kNone;
  bool left = false;  // for the next micro-batch
};

// A gather of several arrays fills one tensor in the order of the ranks, from which each array is
// copied out when the first is read (0.19.8, partition_parameters.py:761,
// AllGatherCoalescedHandle.wait); one array is gathered where it stays (:1373).
struct Gather {
  FusedGather fused;
  double dense = 0, expert = 0;  // bytes
  TensorList flat;
  std::deque<Copies> copies;
  program::BufferIndex buffer = kNone;
  Mark done;
  bool alone() const { return fused.arrays.size() == 1; }
  bool left() const { return alone() && fused.arrays.front().left; }
  FetchSpot flat_ends() const { return alone() ? fused.arrays.front().released : fused.used; }
};

using PassKey = std::pair<std::size_t, FetchPass>;
PassKey key_of(const FetchSpot& spot) { return {spot.unit, spot.pass}; }

// What happens in a pass, by numbers of gathers.
struct Events {
  std::vector<std::size_t> issued, used, flat_ends;
  std::vector<std::pair<std::size_t, std::size_t>> released;  // gather and copies
};

// The gathers of a micro-batch.
struct Course {
  std::deque<Gather> gathers;
  std::map<PassKey, Events> events;
};

class TracedParameters final : public Feature {
 public:
  void make_streams(Stage& stage) override;
  void before_forward(Stage& stage, int chunk, std::size_t unit) override;
  void after_forward(Stage& stage, int chunk, std::size_t unit) override;
  void before_backward(Stage& stage, int chunk, std::size_t unit) override;
  void before_second_use(Stage& stage, int chunk, std::size_t unit) override;
  void after_backward(Stage& stage, int chunk, std::size_t unit) override;

 private:
  void enter(Stage& stage, std::size_t unit, FetchPass pass);
  void leave(Stage& stage, std::size_t unit, FetchPass pass);
  void enter_first(Stage& stage, std::size_t unit, FetchPass pass);
  void issue(Stage& stage, Gather& g);
  void bring(Stage& stage, Gather& g);

  Course& course(const Stage& stage);
  void give_up(Stage& stage, program::BufferIndex& buffer, bool left);

  Course traced_;
  Course later_;     // of micro-batches that find whole what the one before left
  Course untraced_;  // of the first micro-batch of the first step
  std::vector<FetchSpot> left_released_;    // by later_, one for each array
  std::vector<program::BufferIndex> left_;  // by the micro-batch before
  Mark last_copy_out_;
};

StreamIndex stream_of_gathers(const Stage& stage) {
  return gather_beside(stage.plan) ? stage.streams.gather : stage.streams.compute;
}

// The order of the modules is not known before the first micro-batch has ended.
bool in_first_micro_batch(const Stage& stage) {
  return stage.passes.turns.front().forwards_begun <= 1;
}

bool ends_step(const Stage& stage) {
  const Turns& turns = stage.passes.turns.front();
  return turns.forwards_begun >= turns.backwards;
}

// Tensors of the gathers' stream, until the compute stream has read them.
program::BufferIndex make(Stage& stage, const TensorList& list, const char* label) {
  const program::BufferIndex made =
      stage.builder.allocate(list, MemoryCategory::communication, label_of(stage, label), false);
  if (made != kNone) {
    stage.builder.program.buffers[made].stream = stream_of_gathers(stage);
  }
  return made;
}
program::BufferIndex make_traced(Stage& stage, const TensorList& list, const char* label) {
  const program::BufferIndex made = make(stage, list, label);
  if (made != kNone) {
    stage.builder.program.buffers[made].later = in_first_micro_batch(stage);
  }
  return made;
}
// In the first step alone: no bytes in all others.
program::BufferIndex make_untraced(Stage& stage, const TensorList& list, const char* label) {
  static const TensorList nothing = {{{}}, 0};
  const program::BufferIndex made = make(stage, nothing, label);
  stage.builder.in_first_step(made, list);
  return made;
}

// Behind the operator of a spot.
std::uint16_t behind(const FetchSpot& spot) {
  return spot.place == kPassEnd ? kPassEnd : last_place(spot.place);
}

Course course_of(Stage& stage, std::vector<FusedGather> fetches) {
  Course course;
  const double each = width(stage.plan.style.dtype);
  const program::LabelIndex gathered = label_of(stage, "gathered parameters");
  const program::LabelIndex whole = label_of(stage, "unsharded parameters");
  for (FusedGather& fused : fetches) {
    const std::size_t number = course.gathers.size();
    Gather& g = course.gathers.emplace_back();
    g.fused = std::move(fused);
    for (const FetchedArray& a : g.fused.arrays) {
      (a.expert ? g.expert : g.dense) += static_cast<double>(a.elements) * each;
    }
    const auto bytes = static_cast<std::int64_t>(g.dense + g.expert);
    const FetchSpot end = g.flat_ends();
    g.flat = {{{Bytes(bytes), g.alone() ? whole : gathered, first_place(g.fused.issued.place),
                behind(end)}},
              bytes};
    course.events[key_of(g.fused.issued)].issued.push_back(number);
    course.events[key_of(g.fused.used)].used.push_back(number);
    course.events[key_of(end)].flat_ends.push_back(number);
    if (g.alone()) {
      continue;
    }
    for (const FetchedArray& a : g.fused.arrays) {
      const auto same = [&](const Copies& c) { return c.released.same_pass(a.released); };
      auto copies = std::find_if(g.copies.begin(), g.copies.end(), same);
      if (copies == g.copies.end()) {
        course.events[key_of(a.released)].released.emplace_back(number, g.copies.size());
        g.copies.push_back({a.released, {}, kNone, a.left});
        copies = std::prev(g.copies.end());
      }
      const auto own = static_cast<std::int64_t>(static_cast<double>(a.elements) * each);
      copies->list.blocks.push_back(
          {Bytes(own), whole, first_place(g.fused.used.place), behind(a.released)});
      copies->list.bytes += own;
    }
  }
  return course;
}

void TracedParameters::make_streams(Stage& stage) {
  if (stage.sharded.traced) {
    traced_ = course_of(stage, trace_fetches(stage));
    if (stage.plan.parameter_gather.leaves_leftovers) {
      LaterFetches later = later_fetches(stage);
      later_ = course_of(stage, std::move(later.gathers));
      left_released_ = std::move(later.released);
    }
    untraced_ = course_of(stage, untraced_fetches(stage));
  }
}

// Shards that lie on the host cross its link in turn with what the gathers' stream does. Returns
// where they stand until the gather has read them; alone, a rank has no gather (0.19.8,
// partition_parameters.py:74, NoGatherHandle).
program::BufferIndex fetch(Stage& stage, const Gather& g, StreamIndex stream) {
  const double shards =
      g.dense / sharing(stage.plan, false).shards + g.expert / sharing(stage.plan, true).shards;
  const double bytes = stage.plan.offload.parameters.share() * shards;
  if (bytes < 1) {
    return kNone;
  }
  const StreamIndex link = stage.host_streams.to_device;
  await_last_step(stage, link);
  stage.builder.wait(link, stage.builder.mark(stream));
  program::BufferIndex fetched = kNone;
  if (stage.plan.shard_ranks > 1) {
    fetched =
        stage.builder.allocate(static_cast<std::int64_t>(bytes), MemoryCategory::communication,
                               label_of(stage, "fetched parameters"), stream);
  }
  carry(stage, link, Carrier::to_device, bytes, "parameters");
  stage.builder.wait(stream, stage.builder.mark(link));
  return fetched;
}

// On demand the host has come to the module that waits; ahead, the gathers' stream follows what was
// copied out of the ones before.
void TracedParameters::issue(Stage& stage, Gather& g) {
  const StreamIndex stream = stream_of_gathers(stage);
  if (gather_beside(stage.plan)) {
    if (!stage.sharded.waited_for_step) {
      // Parameters of the step before are updated.
      stage.builder.wait_previous_step(stage.streams.gather, stage.streams.compute);
      stage.sharded.waited_for_step = true;
    }
    stage.builder.wait(
        stream, g.fused.on_demand ? stage.builder.mark(stage.streams.compute) : last_copy_out_);
    // One communicator runs its operations in order of issue.
    stage.builder.wait(stream, stage.builder.mark(stage.streams.data));
  }
  const program::BufferIndex fetched = fetch(stage, g, stream);
  g.buffer = make_traced(stage, g.flat, "gathered parameters");
  for (const bool expert : {false, true}) {
    const Sharing of = sharing(stage.plan, expert);
    const double bytes = expert ? g.expert : g.dense;
    if (of.shards > 1 && bytes >= 1) {
      data_collective(stage, stream, of.group, Collective::all_gather, bytes, "parameters");
    }
  }
  stage.builder.release(fetched);
  g.done = stage.builder.mark(stream);
}

void TracedParameters::bring(Stage& stage, Gather& g) {
  stage.builder.wait(stage.streams.compute, g.done);
  if (g.alone()) {
    return;
  }
  for (Copies& c : g.copies) {
    c.buffer = make_traced(stage, c.list, "unsharded parameters");
  }
  data_kernel(stage, stage.streams.compute, 2 * (g.dense + g.expert), cost::MemoryOp::copy,
              "copy gathered parameters out");
  last_copy_out_ = stage.builder.mark(stage.streams.compute);
}

// Each is used where it is issued.
void TracedParameters::enter_first(Stage& stage, std::size_t unit, FetchPass pass) {
  const auto at = untraced_.events.find({unit, pass});
  if (at == untraced_.events.end() || !in_first_micro_batch(stage)) {
    return;
  }
  for (const std::size_t n : at->second.issued) {
    Gather& g = untraced_.gathers[n];
    g.buffer = make_untraced(stage, g.flat, "gathered parameters");
    for (Copies& c : g.copies) {
      c.buffer = make_untraced(stage, c.list, "unsharded parameters");
    }
  }
}

void TracedParameters::enter(Stage& stage, std::size_t unit, FetchPass pass) {
  if (!stage.sharded.traced) {
    return;
  }
  enter_first(stage, unit, pass);
  Course& now = course(stage);
  const auto at = now.events.find({unit, pass});
  if (at == now.events.end()) {
    return;
  }
  const auto here = [&](const FetchSpot& spot) { return spot.unit == unit && spot.pass == pass; };
  for (const std::size_t n : at->second.used) {
    if (!here(now.gathers[n].fused.issued)) {
      bring(stage, now.gathers[n]);
    }
  }
  for (const std::size_t n : at->second.issued) {
    issue(stage, now.gathers[n]);
    if (here(now.gathers[n].fused.used)) {
      bring(stage, now.gathers[n]);
    }
  }
}

// Micro-batches behind a step's first find whole what the one before left.
Course& TracedParameters::course(const Stage& stage) {
  const bool later =
      stage.plan.parameter_gather.leaves_leftovers && stage.passes.turns.front().forwards_begun > 1;
  return later ? later_ : traced_;
}

// What is not held is ignored; what is left goes with the step at the latest.
void TracedParameters::give_up(Stage& stage, program::BufferIndex& buffer, bool left) {
  if (left && buffer != kNone && !ends_step(stage)) {
    left_.push_back(buffer);
  } else {
    stage.builder.release(buffer);
  }
  buffer = kNone;
}

void TracedParameters::leave(Stage& stage, std::size_t unit, FetchPass pass) {
  for (Course* of : {&untraced_, &course(stage)}) {
    const auto at = of->events.find({unit, pass});
    if (at == of->events.end()) {
      continue;
    }
    for (const std::size_t n : at->second.flat_ends) {
      give_up(stage, of->gathers[n].buffer, of->gathers[n].left());
    }
    for (const auto& [n, c] : at->second.released) {
      Copies& copies = of->gathers[n].copies[c];
      give_up(stage, copies.buffer, copies.left);
    }
  }
  for (const FetchSpot& spot : left_released_) {
    if (spot.unit == unit && spot.pass == pass && !left_.empty()) {
      stage.builder.release(left_.front());
      left_.erase(left_.begin());
    }
  }
  if (unit == 0 && pass == FetchPass::backward && ends_step(stage)) {
    for (const program::BufferIndex buffer : left_) {
      stage.builder.release(buffer);
    }
    left_.clear();
  }
}

void TracedParameters::before_forward(Stage& stage, int, std::size_t unit) {
  enter(stage, unit, FetchPass::forward);
}

void TracedParameters::after_forward(Stage& stage, int, std::size_t unit) {
  leave(stage, unit, FetchPass::forward);
}

void TracedParameters::before_backward(Stage& stage, int chunk, std::size_t unit) {
  const bool again = !stage.units[static_cast<std::size_t>(chunk)][unit].again.empty();
  enter(stage, unit, again ? FetchPass::again : FetchPass::backward);
}

void TracedParameters::before_second_use(Stage& stage, int, std::size_t unit) {
  leave(stage, unit, FetchPass::again);
  enter(stage, unit, FetchPass::backward);
}

void TracedParameters::after_backward(Stage& stage, int, std::size_t unit) {
  leave(stage, unit, FetchPass::backward);
}

}  // namespace

std::unique_ptr<Feature> make_traced_parameters() { return std::make_unique<TracedParameters>(); }

}  // namespace stepcast::lower
