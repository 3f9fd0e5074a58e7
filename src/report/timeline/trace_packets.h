// Writes Perfetto's trace packets, as far as a simulated step needs them. Field numbers are those
// of perfetto's .proto files (protos/perfetto/trace/trace_packet.proto, track_event/*.proto,
// interned_data/interned_data.proto).
//
// Names are interned: the first use of a name writes it, later uses write its number. Packets are
// collected in a buffer that the owner empties when it likes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stepcast::report {

struct Annotation {
  std::string_view name;
  std::uint64_t value = 0;
};

class TracePackets {
 public:
  TracePackets();

  // A group of tracks, which is shown as a process; groups are sorted by `order`.
  void group(std::uint64_t uuid, std::string_view name, int order);
  void track(std::uint64_t uuid, std::uint64_t parent, std::string_view name, int order);
  void byte_counter(std::uint64_t uuid, std::uint64_t parent, std::string_view name);

  // Times are nanoseconds. `flows`: arrows that start here.
  void begin(std::uint64_t track, std::uint64_t time, std::string_view name,
             std::string_view category, std::span<const Annotation> annotations = {},
             std::span<const std::uint64_t> flows = {});
  void end(std::uint64_t track, std::uint64_t time);
  // Arrows that end here.
  void arrival(std::uint64_t track, std::uint64_t time, std::string_view name,
               std::span<const std::uint64_t> flows);
  void count(std::uint64_t track, std::uint64_t time, std::int64_t value);

  std::string& buffer() { return buffer_; }

 private:
  struct Name {
    std::uint64_t id;
    bool fresh;  // not written yet
  };
  class Names {
   public:
    Name of(std::string_view text);

   private:
    struct Hash {
      using is_transparent = void;
      std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
    };
    std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>> ids_;
  };

  std::string buffer_;
  Names event_names_, categories_, annotation_names_;
  std::vector<Name> annotation_ids_;  // of the slice being written
};

}  // namespace stepcast::report
