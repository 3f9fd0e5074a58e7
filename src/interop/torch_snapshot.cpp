#include "stepcast/interop/torch_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "pickle.h"

namespace stepcast::interop {
namespace {

using result::AllocatorSnapshot;
using result::StageTimeline;

constexpr std::array kActions = {"alloc",         "free_requested", "free_completed",
                                 "segment_alloc", "segment_free",   "segment_map",
                                 "segment_unmap"};
constexpr std::array kStates = {"active_allocated", "active_pending_free", "inactive"};

// The address where CUDA maps memory on Linux, since the simulated allocator counts addresses from
// 0, up or down, and the viewer expects real ones.
constexpr std::int64_t kBase = 0x7f0000000000;

// The frames of one stage; each list of frames is written once.
class Frames {
 public:
  Frames(PickleWriter& out, const StageTimeline& stage) : out_(out), stage_(stage) {}

  void write(std::uint32_t label) {
    const auto it = lists_.find(label);
    if (it != lists_.end()) {
      out_.get(it->second);
      return;
    }
    out_.open_list();
    if (label != AllocatorSnapshot::kNoLabel) {
      const AllocatorSnapshot::Label& l = stage_.snapshot.labels[label];
      frame(l.name);
      if (!l.part_of.empty()) {
        frame(l.part_of);
      }
      frame(fmt::format("stage {}", stage_.stage));
    }
    out_.close_list();
    lists_.emplace(label, out_.memoize());
  }

 private:
  void frame(const std::string& name) {
    out_.open_dict();
    out_.text("filename").text("stepcast");
    out_.text("line").integer(0);
    out_.text("name").text(name);
    out_.close_dict();
  }

  PickleWriter& out_;
  const StageTimeline& stage_;
  std::map<std::uint32_t, std::uint32_t> lists_;
};

void write_segment(PickleWriter& out, const AllocatorSnapshot::Segment& s, int device,
                   Frames& frames) {
  std::int64_t allocated = 0, active = 0, requested = 0;
  for (const AllocatorSnapshot::Block& b : s.blocks) {
    const bool live = b.state == AllocatorSnapshot::State::active_allocated;
    allocated += live ? b.size : 0;
    active += b.state != AllocatorSnapshot::State::inactive ? b.size : 0;
    requested += b.state != AllocatorSnapshot::State::inactive ? b.requested : 0;
  }
  out.open_dict();
  out.text("device").integer(device);
  out.text("address").integer(kBase + s.address);
  out.text("total_size").integer(s.total);
  out.text("allocated_size").integer(allocated);
  out.text("active_size").integer(active);
  out.text("requested_size").integer(requested);
  out.text("stream").integer(s.stream);
  out.text("segment_type").text(s.small ? "small" : "large");
  out.text("segment_pool_id").pair(0, 0);
  out.text("is_expandable").boolean(s.expandable);
  out.text("frames");
  frames.write(AllocatorSnapshot::kNoLabel);
  out.text("blocks").open_list();
  for (const AllocatorSnapshot::Block& b : s.blocks) {
    out.open_dict();
    out.text("address").integer(kBase + b.address);
    out.text("size").integer(b.size);
    out.text("requested_size").integer(b.requested);
    out.text("state").text(kStates[static_cast<std::size_t>(b.state)]);
    out.text("frames");
    frames.write(b.label);
    out.close_dict();
  }
  out.close_list();
  out.close_dict();
}

void write_event(PickleWriter& out, const AllocatorSnapshot::Event& e, Time begin,
                 const AllocatorSnapshot& snapshot, Frames& frames) {
  constexpr std::int64_t kMicrosecond = 1'000'000;  // picoseconds
  out.open_dict();
  out.text("action").text(kActions[static_cast<std::size_t>(e.action)]);
  out.text("addr").integer(kBase + e.address);
  out.text("size").integer(e.size);
  out.text("stream").integer(e.stream);
  out.text("time_us").integer((e.at - begin).count() / kMicrosecond);
  out.text("frames");
  frames.write(e.label);
  if (e.label != AllocatorSnapshot::kNoLabel) {
    out.text("category").text(to_string(snapshot.labels[e.label].category));
  }
  out.close_dict();
}

}  // namespace

std::string torch_snapshot(const result::MemoryTimeline& memory) {
  PickleWriter out;
  int devices = 0;
  bool expandable = false;
  std::vector<const StageTimeline*> by_device;
  for (const StageTimeline& s : memory.stages) {
    devices = std::max(devices, s.stage + 1);
    expandable = expandable || s.snapshot.expandable_segments;
  }
  by_device.assign(static_cast<std::size_t>(devices), nullptr);
  for (const StageTimeline& s : memory.stages) {
    by_device[static_cast<std::size_t>(s.stage)] = &s;
  }
  std::vector<Frames> frames;
  for (const StageTimeline* s : by_device) {
    frames.emplace_back(out, s == nullptr ? memory.stages.front() : *s);
  }
  out.open_dict();
  out.text("segments").open_list();
  for (std::size_t d = 0; d < by_device.size(); ++d) {
    if (by_device[d] != nullptr) {
      for (const AllocatorSnapshot::Segment& s : by_device[d]->snapshot.segments) {
        write_segment(out, s, static_cast<int>(d), frames[d]);
      }
    }
  }
  out.close_list();
  out.text("device_traces").open_list();
  for (std::size_t d = 0; d < by_device.size(); ++d) {
    out.open_list();
    if (by_device[d] != nullptr && !by_device[d]->snapshot.events.empty()) {
      const AllocatorSnapshot& snapshot = by_device[d]->snapshot;
      const Time begin = snapshot.events.front().at;
      for (const AllocatorSnapshot::Event& e : snapshot.events) {
        write_event(out, e, begin, snapshot, frames[d]);
      }
    }
    out.close_list();
  }
  out.close_list();
  out.text("allocator_settings").open_dict();
  out.text("PYTORCH_CUDA_ALLOC_CONF").text(expandable ? "expandable_segments:True" : "");
  out.text("max_split_size").integer(-1);
  out.text("garbage_collection_threshold").number(0);
  out.text("expandable_segments").boolean(expandable);
  out.close_dict();
  out.text("external_annotations").open_list().close_list();
  out.close_dict();
  return std::move(out).finish();
}

}  // namespace stepcast::interop
