// Reads the trace back with a separate decoder and compares it with the timeline, slice by slice.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <sstream>

#include "catch.hpp"
#include "sample.h"

using namespace stepcast;
using protozero::pbf_reader;

namespace {

struct Event {
  std::uint64_t time = 0, track = 0;
  int type = 0;
  std::string name, category;
  std::map<std::string, std::uint64_t> notes;
  std::vector<std::uint64_t> flows, last_flows;
  std::int64_t counter = 0;
};
struct Track {
  std::string name;
  std::uint64_t parent = 0;
  bool counter = false;
  int counter_unit = 0;
};
struct Decoded {
  std::map<std::uint64_t, Track> tracks;
  std::vector<Event> events;
  bool cleared_first = false;
};

std::string name_of(const std::map<std::uint64_t, std::string>& names, std::uint64_t id) {
  const auto found = names.find(id);
  REQUIRE(found != names.end());  // interned before it is used
  return found->second;
}

Decoded decode(const std::string& bytes) {
  Decoded out;
  // Indexed by field of InternedData: categories, events, annotations.
  std::map<std::uint64_t, std::string> names[4];
  pbf_reader trace(bytes);
  bool first = true;
  while (trace.next(1)) {
    pbf_reader packet = trace.get_message();
    std::optional<std::uint64_t> time;
    std::optional<Event> event;
    std::string raw_event;
    int interned = 0;
    while (packet.next()) {
      switch (packet.tag()) {
        case 8:
          time = packet.get_uint64();
          break;
        case 10:
          CHECK(packet.get_uint32() == 1);
          break;
        case 13:
          if (const auto flags = packet.get_uint32(); first) {
            out.cleared_first = (flags & 1) != 0;
          }
          break;
        case 12: {
          CHECK(++interned == 1);  // readers take one per packet
          pbf_reader data = packet.get_message();
          while (data.next()) {
            REQUIRE(data.tag() <= 3);
            const auto kind = data.tag();
            pbf_reader entry = data.get_message();
            std::uint64_t id = 0;
            std::string text;
            while (entry.next()) {
              if (entry.tag() == 1) {
                id = entry.get_uint64();
              } else {
                text = entry.get_string();
              }
            }
            CHECK(names[kind].emplace(id, text).second);
          }
          break;
        }
        case 11:
          raw_event = packet.get_view().to_string();
          event.emplace();
          break;
        case 60: {
          pbf_reader track = packet.get_message();
          std::uint64_t uuid = 0;
          Track made;
          while (track.next()) {
            switch (track.tag()) {
              case 1:
                uuid = track.get_uint64();
                break;
              case 2:
                made.name = track.get_string();
                break;
              case 5:
                made.parent = track.get_uint64();
                break;
              case 8: {
                made.counter = true;
                pbf_reader counter = track.get_message();
                REQUIRE(counter.next(3));
                made.counter_unit = counter.get_enum();
                break;
              }
              default:
                track.skip();
            }
          }
          CHECK(out.tracks.emplace(uuid, made).second);
          break;
        }
        default:
          FAIL("unexpected field " << packet.tag());
      }
    }
    first = false;
    if (!event) {
      continue;
    }
    REQUIRE(time.has_value());
    event->time = *time;
    pbf_reader reader(raw_event);
    while (reader.next()) {
      switch (reader.tag()) {
        case 3:
          event->category = name_of(names[1], reader.get_uint64());
          break;
        case 4: {
          pbf_reader note = reader.get_message();
          std::uint64_t id = 0, value = 0;
          while (note.next()) {
            (note.tag() == 1 ? id : value) = note.get_uint64();
          }
          event->notes[name_of(names[3], id)] = value;
          break;
        }
        case 9:
          event->type = reader.get_enum();
          break;
        case 10:
          event->name = name_of(names[2], reader.get_uint64());
          break;
        case 11:
          event->track = reader.get_uint64();
          CHECK(out.tracks.contains(event->track));  // described before it is used
          break;
        case 30:
          event->counter = reader.get_int64();
          break;
        case 47:
          event->flows.push_back(reader.get_fixed64());
          break;
        case 48:
          event->last_flows.push_back(reader.get_fixed64());
          break;
        default:
          FAIL("unexpected field " << reader.tag());
      }
    }
    out.events.push_back(*event);
  }
  return out;
}

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("stepcast-trace-test-" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

std::string read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// "stage/stream name@start-end"; nested slices follow the slice that contains them.
std::vector<std::string> slices(const Decoded& d) {
  std::vector<std::string> out;
  std::map<std::uint64_t, std::vector<std::pair<std::size_t, Event>>> open;
  std::map<std::uint64_t, std::uint64_t> last;
  for (const Event& e : d.events) {
    if (e.type == 4) {
      continue;
    }
    CHECK(e.time >= last[e.track]);  // times on each track never decrease
    last[e.track] = e.time;
    if (e.type == 1) {
      open[e.track].emplace_back(out.size(), e);
      out.emplace_back();
    } else if (e.type == 2) {
      REQUIRE(!open[e.track].empty());
      const auto [at, begin] = open[e.track].back();
      open[e.track].pop_back();
      const Track& track = d.tracks.at(e.track);
      out[at] = d.tracks.at(track.parent).name + "/" + track.name + " " + begin.name + " [" +
                begin.category + "] " + std::to_string(begin.time) + "-" + std::to_string(e.time);
    }
  }
  for (const auto& [track, left] : open) {
    CHECK(left.empty());
  }
  return out;
}

}  // namespace

TEST_CASE("A trace reads back as the timeline that it was written from") {
  Folder folder;
  auto r = sample::report();
  r.trace = sample::trace();
  const auto file = folder.path / "step.pftrace";
  report::write_trace(r, file);
  const Decoded d = decode(read(file));
  CHECK(d.cleared_first);

  // All times are 1 ns later: the earliest task began 500 ps before the step.
  CHECK(slices(d) == std::vector<std::string>{
                         "llama-3-8b on 2 x dgx-h100/step step [step] 1-10001",
                         "stage 0 (8 ranks alike)/compute forward [compute] 0-4001",
                         "stage 0 (8 ranks alike)/compute grad all_reduce [data] 6001-9501",
                         "stage 0 (8 ranks alike)/compute wait for peer [stall] 6001-9001",
                         "stage 0 (8 ranks alike)/pipeline send [pipeline] 4001-6001",
                         "stage 1 (8 ranks alike)/compute forward [compute] 6001-9001",
                         "stage 1 (8 ranks alike)/compute grad all_reduce [data] 9001-9501",
                         "stage 1 (8 ranks alike)/pipeline receive [pipeline] 1001-6001",
                         "stage 1 (8 ranks alike)/pipeline wait for peer [bubble] 1001-4001",
                     });

  for (const Event& e : d.events) {
    if (e.type == 1 && e.name == "forward") {
      CHECK(e.notes == std::map<std::string, std::uint64_t>{{"micro_batch", 5}, {"chunk", 1}});
    }
    if (e.type == 1 && e.name == "grad all_reduce") {
      CHECK(e.notes == std::map<std::string, std::uint64_t>{{"bytes", 4096}, {"ranks", 8}});
    }
  }
}

TEST_CASE("An arrow leads from each send to the end of the receive that it pairs with") {
  Folder folder;
  auto r = sample::report();
  r.trace = sample::trace();
  report::write_trace(r, folder.path / "t");
  const Decoded d = decode(read(folder.path / "t"));
  std::map<std::uint64_t, std::pair<std::string, std::uint64_t>> starts, ends;
  for (const Event& e : d.events) {
    for (const std::uint64_t id : e.flows) {
      CHECK(starts.emplace(id, std::pair(e.name, e.time)).second);
    }
    for (const std::uint64_t id : e.last_flows) {
      CHECK(ends.emplace(id, std::pair(e.name, e.time)).second);
    }
  }
  REQUIRE(starts.size() == 1);
  CHECK(starts.begin()->second == std::pair<std::string, std::uint64_t>("send", 4001));
  CHECK(ends.at(starts.begin()->first) == std::pair<std::string, std::uint64_t>("received", 6001));

  // A pair with different keys is a fault of the program, and the trace shows no arrow for it.
  r.trace->world.programs[1].transfers[0].key = 10;
  report::write_trace(r, folder.path / "t");
  for (const Event& e : decode(read(folder.path / "t")).events) {
    CHECK(e.flows.empty());
    CHECK(e.last_flows.empty());
  }
}

TEST_CASE("The memory counter starts at the steady level and follows every allocation") {
  Folder folder;
  auto r = sample::report();
  r.trace = sample::trace();
  report::write_trace(r, folder.path / "t");
  const Decoded d = decode(read(folder.path / "t"));
  std::vector<std::pair<std::uint64_t, std::int64_t>> levels;
  std::uint64_t track = 0;
  for (const Event& e : d.events) {
    if (e.type == 4) {
      levels.emplace_back(e.time, e.counter);
      track = e.track;
    }
  }
  CHECK(levels == std::vector<std::pair<std::uint64_t, std::int64_t>>{
                      {1, 50}, {101, 1050}, {201, 1350}, {5001, 350}, {6001, 50}});
  CHECK(d.tracks.at(track).counter);
  CHECK(d.tracks.at(track).counter_unit == 3);  // bytes
  CHECK(d.tracks.at(d.tracks.at(track).parent).name == "stage 0 (8 ranks alike)");
}

TEST_CASE("A trace that cannot be written leaves nothing behind, and says why") {
  Folder folder;
  auto r = sample::report();
  CHECK_THROWS_WITH(report::write_trace(r, folder.path / "t"), ContainsSubstring("no timeline"));
  r.trace = sample::trace();
  CHECK_THROWS_WITH(report::write_trace(r, folder.path / "none" / "t"),
                    ContainsSubstring("No such file"));
  std::filesystem::create_directories(folder.path / "taken");
  CHECK_THROWS_AS(report::write_trace(r, folder.path / "taken"), std::runtime_error);
  std::filesystem::remove(folder.path / "taken");
  CHECK(std::filesystem::is_empty(folder.path));
  if (std::filesystem::exists("/dev/full")) {  // every write to it fails
    CHECK_THROWS_WITH(report::write_trace(r, "/dev/full"), ContainsSubstring("space"));
  }
}
