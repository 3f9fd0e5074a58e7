// The recorded replay as events, segments and blocks.
#include <algorithm>
#include <map>
#include <tuple>

#include "stage_timeline.h"

namespace stepcast::forecast {
namespace {

using program::kNone;
using result::AllocatorSnapshot;

class Labels {
 public:
  Labels(const program::Program& program, AllocatorSnapshot& snapshot)
      : program_(program), snapshot_(snapshot) {}

  std::uint32_t of(program::BufferIndex buffer, std::uint32_t block) {
    const Names names = names_of(program_, buffer, block);
    const program::MemoryCategory category = program_.buffers[buffer].category;
    const auto [it, fresh] =
        known_.try_emplace({names.label, names.part_of, category},
                           static_cast<std::uint32_t>(snapshot_.labels.size()));
    if (fresh) {
      snapshot_.labels.push_back({text_of(program_, names.label),
                                  names.part_of == kNone ? "" : text_of(program_, names.part_of),
                                  category});
    }
    return it->second;
  }

 private:
  const program::Program& program_;
  AllocatorSnapshot& snapshot_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, program::MemoryCategory>, std::uint32_t> known_;
};

AllocatorSnapshot::Event of_segment(const memory::CachingAllocator::SegmentEvent& e) {
  using Action = AllocatorSnapshot::Action;
  AllocatorSnapshot::Event out;
  out.action = e.expandable ? (e.made ? Action::segment_map : Action::segment_unmap)
                            : (e.made ? Action::segment_alloc : Action::segment_free);
  out.address = e.address;
  out.size = e.bytes;
  out.stream = e.stream;
  out.at = Time(e.time);
  return out;
}

void fill_events(const program::Program& program, const memory::Replayed& replayed, Labels& labels,
                 AllocatorSnapshot& snapshot) {
  using Action = AllocatorSnapshot::Action;
  using Event = AllocatorSnapshot::Event;
  std::vector<Event> waiting;  // completions to come, the next one last
  std::size_t segment = 0;
  for (std::size_t i = 0; i < replayed.events.size(); ++i) {
    const memory::TensorEvent& e = replayed.events[i];
    // PyTorch checks for completed uses when it allocates.
    while (e.allocate && !waiting.empty() && waiting.back().at <= Time(e.time)) {
      snapshot.events.push_back(waiting.back());
      snapshot.events.back().at = Time(e.time);
      waiting.pop_back();
    }
    for (; segment < replayed.segment_events.size() && replayed.segment_events[segment].before <= i;
         ++segment) {
      snapshot.events.push_back(of_segment(replayed.segment_events[segment].event));
    }
    Event out;
    out.action = e.allocate ? Action::alloc : Action::free_requested;
    out.address = e.address;
    out.size = e.requested;
    out.stream = program.buffers[e.buffer].stream;
    out.at = Time(e.time);
    out.label = labels.of(e.buffer, e.block);
    snapshot.events.push_back(out);
    if (e.allocate) {
      continue;
    }
    out.action = Action::free_completed;
    if (e.safe <= e.time) {
      snapshot.events.push_back(out);
      continue;
    }
    out.at = Time(e.safe);
    waiting.insert(std::upper_bound(waiting.begin(), waiting.end(), out,
                                    [](const Event& a, const Event& b) { return a.at > b.at; }),
                   out);
  }
}

void fill_segments(const memory::Replayed& replayed, Labels& labels, AllocatorSnapshot& snapshot) {
  using State = memory::CachingAllocator::Block::State;
  std::map<memory::BlockId, std::uint32_t> label_of;
  for (const memory::Tensor& t : replayed.at_end) {
    label_of[t.id] = labels.of(t.buffer, t.block);
  }
  for (const auto& segment : replayed.segments) {
    AllocatorSnapshot::Segment to;
    to.address = segment.address;
    to.total = segment.bytes;
    to.stream = segment.stream;
    to.small = segment.small;
    to.expandable = segment.expandable;
    for (const auto& block : segment.blocks) {
      AllocatorSnapshot::Block b;
      b.address = segment.address + block.offset;
      b.size = block.bytes;
      b.requested = block.requested;
      b.state = block.state == State::live      ? AllocatorSnapshot::State::active_allocated
                : block.state == State::waiting ? AllocatorSnapshot::State::active_pending_free
                                                : AllocatorSnapshot::State::inactive;
      if (const auto it = block.id ? label_of.find(*block.id) : label_of.end();
          it != label_of.end()) {
        b.label = it->second;
      }
      to.blocks.push_back(b);
    }
    snapshot.segments.push_back(std::move(to));
  }
}

}  // namespace

void fill_snapshot(const program::Program& program, const memory::Replayed& replayed,
                   AllocatorSnapshot& snapshot) {
  Labels labels(program, snapshot);
  fill_events(program, replayed, labels, snapshot);
  fill_segments(replayed, labels, snapshot);
}

}  // namespace stepcast::forecast
