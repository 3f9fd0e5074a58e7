#include "trace_packets.h"

#include <protozero/pbf_writer.hpp>

namespace stepcast::report {
namespace {

using protozero::pbf_tag_type;
using protozero::pbf_writer;

// Trace
constexpr pbf_tag_type kPacket = 1;
// TracePacket
constexpr pbf_tag_type kTimestamp = 8;
constexpr pbf_tag_type kSequenceId = 10;
constexpr pbf_tag_type kTrackEvent = 11;
constexpr pbf_tag_type kInternedData = 12;
constexpr pbf_tag_type kSequenceFlags = 13;
constexpr pbf_tag_type kTrackDescriptor = 60;
constexpr std::uint32_t kStateCleared = 1;
constexpr std::uint32_t kNeedsState = 2;
// All packets are one sequence: they share the interned names.
constexpr std::uint32_t kSequence = 1;
// TrackDescriptor
constexpr pbf_tag_type kUuid = 1;
constexpr pbf_tag_type kTrackName = 2;
constexpr pbf_tag_type kProcess = 3;
constexpr pbf_tag_type kParent = 5;
constexpr pbf_tag_type kCounter = 8;
constexpr pbf_tag_type kChildOrdering = 11;
constexpr pbf_tag_type kSiblingRank = 12;
constexpr std::int32_t kExplicitOrder = 3;
// ProcessDescriptor
constexpr pbf_tag_type kPid = 1;
constexpr pbf_tag_type kProcessName = 6;
// CounterDescriptor
constexpr pbf_tag_type kUnit = 3;
constexpr std::int32_t kUnitBytes = 3;
// TrackEvent
constexpr pbf_tag_type kCategoryIds = 3;
constexpr pbf_tag_type kAnnotations = 4;
constexpr pbf_tag_type kType = 9;
constexpr pbf_tag_type kNameId = 10;
constexpr pbf_tag_type kTrackUuid = 11;
constexpr pbf_tag_type kCounterValue = 30;
constexpr pbf_tag_type kFlows = 47;
constexpr pbf_tag_type kLastFlows = 48;
constexpr std::int32_t kBegin = 1, kEnd = 2, kInstant = 3, kCount = 4;
// DebugAnnotation
constexpr pbf_tag_type kAnnotationNameId = 1;
constexpr pbf_tag_type kAnnotationUint = 3;
// InternedData, and the two fields of each of its entries
constexpr pbf_tag_type kCategories = 1;
constexpr pbf_tag_type kEventNames = 2;
constexpr pbf_tag_type kAnnotationNames = 3;
constexpr pbf_tag_type kId = 1;
constexpr pbf_tag_type kText = 2;

void head(pbf_writer& packet, std::uint32_t flags) {
  packet.add_uint32(kSequenceId, kSequence);
  packet.add_uint32(kSequenceFlags, flags);
}

void intern(pbf_writer& data, pbf_tag_type where, std::uint64_t id, std::string_view text) {
  pbf_writer entry(data, where);
  entry.add_uint64(kId, id);
  entry.add_string(kText, text.data(), text.size());
}

}  // namespace

TracePackets::Name TracePackets::Names::of(std::string_view text) {
  const auto found = ids_.find(text);
  if (found != ids_.end()) {
    return {found->second, false};
  }
  const std::uint64_t id = ids_.size() + 1;  // 0 means "no name"
  ids_.emplace(text, id);
  return {id, true};
}

TracePackets::TracePackets() {
  pbf_writer trace(buffer_);
  pbf_writer packet(trace, kPacket);
  head(packet, kStateCleared);
}

void TracePackets::group(std::uint64_t uuid, std::string_view name, int order) {
  pbf_writer trace(buffer_);
  pbf_writer packet(trace, kPacket);
  head(packet, kNeedsState);
  pbf_writer track(packet, kTrackDescriptor);
  track.add_uint64(kUuid, uuid);
  track.add_string(kTrackName, name.data(), name.size());
  {
    pbf_writer process(track, kProcess);
    process.add_int32(kPid, order + 1);  // readers take process 0 for the idle process
    process.add_string(kProcessName, name.data(), name.size());
  }
  track.add_int32(kChildOrdering, kExplicitOrder);
  track.add_int32(kSiblingRank, order);
}

void TracePackets::track(std::uint64_t uuid, std::uint64_t parent, std::string_view name,
                         int order) {
  pbf_writer trace(buffer_);
  pbf_writer packet(trace, kPacket);
  head(packet, kNeedsState);
  pbf_writer track(packet, kTrackDescriptor);
  track.add_uint64(kUuid, uuid);
  track.add_string(kTrackName, name.data(), name.size());
  track.add_uint64(kParent, parent);
  track.add_int32(kSiblingRank, order);
}

void TracePackets::byte_counter(std::uint64_t uuid, std::uint64_t parent, std::string_view name) {
  pbf_writer trace(buffer_);
  pbf_writer packet(trace, kPacket);
  head(packet, kNeedsState);
  pbf_writer track(packet, kTrackDescriptor);
  track.add_uint64(kUuid, uuid);
  track.add_string(kTrackName, name.data(), name.size());
  track.add_uint64(kParent, parent);
  pbf_writer counter(track, kCounter);
  counter.add_enum(kUnit, kUnitBytes);
}

void TracePackets::begin(std::uint64_t track, std::uint64_t time, std::string_view name,
                         std::string_view category, std::span<const Annotation> annotations,
                         std::span<const std::uint64_t> flows) {
  const Name name_id = event_names_.of(name);
  const Name category_id = categories_.of(category);
  bool fresh = name_id.fresh || category_id.fresh;
  annotation_ids_.clear();
  for (const Annotation& annotation : annotations) {
    annotation_ids_.push_back(annotation_names_.of(annotation.name));
    fresh = fresh || annotation_ids_.back().fresh;
  }
  pbf_writer trace(buffer_);
  pbf_writer packet(trace, kPacket);
  packet.add_uint64(kTimestamp, time);
  head(packet, kNeedsState);
  if (fresh) {  // one message for all, since readers use only the last of several
    pbf_writer data(packet, kInternedData);
    if (category_id.fresh) {
      intern(data, kCategories, category_id.id, category);
    }
    if (name_id.fresh) {
      intern(data, kEventNames, name_id.id, name);
    }
    for (std::size_t i = 0; i < annotations.size(); ++i) {
      if (annotation_ids_[i].fresh) {
        intern(data, kAnnotationNames, annotation_ids_[i].id, annotations[i].name);
      }
    }
  }
  pbf_writer event(packet, kTrackEvent);
  event.add_uint64(kCategoryIds, category_id.id);
  for (std::size_t i = 0; i < annotations.size(); ++i) {
    pbf_writer written(event, kAnnotations);
    written.add_uint64(kAnnotationNameId, annotation_ids_[i].id);
    written.add_uint64(kAnnotationUint, annotations[i].value);
  }
  event.add_enum(kType, kBegin);
  event.add_uint64(kNameId, name_id.id);
  event.add_uint64(kTrackUuid, track);
  for (const std::uint64_t flow : flows) {
    event.add_fixed64(kFlows, flow);
  }
}

void TracePackets::end(std::uint64_t track, std::uint64_t time) {
  pbf_writer trace(buffer_);
  pbf_writer packet(trace, kPacket);
  packet.add_uint64(kTimestamp, time);
  head(packet, kNeedsState);
  pbf_writer event(packet, kTrackEvent);
  event.add_enum(kType, kEnd);
  event.add_uint64(kTrackUuid, track);
}

void TracePackets::arrival(std::uint64_t track, std::uint64_t time, std::string_view name,
                           std::span<const std::uint64_t> flows) {
  const Name name_id = event_names_.of(name);
  pbf_writer trace(buffer_);
  pbf_writer packet(trace, kPacket);
  packet.add_uint64(kTimestamp, time);
  head(packet, kNeedsState);
  if (name_id.fresh) {
    pbf_writer data(packet, kInternedData);
    intern(data, kEventNames, name_id.id, name);
  }
  pbf_writer event(packet, kTrackEvent);
  event.add_enum(kType, kInstant);
  event.add_uint64(kNameId, name_id.id);
  event.add_uint64(kTrackUuid, track);
  for (const std::uint64_t flow : flows) {
    event.add_fixed64(kLastFlows, flow);
  }
}

void TracePackets::count(std::uint64_t track, std::uint64_t time, std::int64_t value) {
  pbf_writer trace(buffer_);
  pbf_writer packet(trace, kPacket);
  packet.add_uint64(kTimestamp, time);
  head(packet, kNeedsState);
  pbf_writer event(packet, kTrackEvent);
  event.add_enum(kType, kCount);
  event.add_uint64(kTrackUuid, track);
  event.add_int64(kCounterValue, value);
}

}  // namespace stepcast::report
