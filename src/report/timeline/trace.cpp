// The simulated step as a Perfetto trace: a group of tracks per stage, a track per stream, an arrow
// from each send to the receive that it pairs with, and a counter of allocated memory.
//
// A slice spans from a task's arrival at the head of its stream to its end; the time that it waited
// for peers is a slice of its own inside it. Times are nanoseconds (the trace format's unit),
// shifted so that none is negative: a step's first tasks may run before the previous step has
// ended.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>

#include "stepcast/report/report.h"
#include "timeline_data.h"
#include "trace_packets.h"

namespace stepcast::report {
namespace {

using program::Program;
using program::RankId;
using program::Slice;
using program::Task;
using program::TaskKind;
using program::World;

constexpr std::size_t kFlush = std::size_t{1}
                               << 20;  // bytes that are collected before they are written
constexpr int kStreamsAtMost = 256;    // StreamIndex is 8 bits

// Arrows by slice. Sends and receives of a channel pair in FIFO order, so the n-th send and the
// n-th receive share an arrow.
struct Arrows {
  std::vector<std::uint64_t> first;  // per slice: where its arrows begin in `ids`
  struct Arrow {
    std::uint64_t id;
    bool send;
  };
  std::vector<Arrow> ids;
};

class Trace {
 public:
  Trace(const result::Report::Trace& from, std::string_view title)
      : world_(from.world), timeline_(from.timeline), title_(title) {
    for (const program::Rank& rank : world_.ranks) {
      ++ranks_of_stage_[world_.programs[rank.program].stage];
    }
  }

  void write(OutputFile& file) {
    order_slices();
    find_arrows();
    shift_ = Time{0};
    for (const Slice& slice : timeline_.slices) {
      shift_ = std::max(shift_, -slice.arrive);
    }
    for (const auto& events : timeline_.memory) {
      for (const auto& event : events) {
        shift_ = std::max(shift_, -event.time);
      }
    }
    constexpr Time kNano{1000};
    shift_ = (shift_ + kNano - Time{1}) / kNano * kNano;
    write_step();
    std::size_t at = 0;
    for (RankId rank = 0; rank < world_.ranks.size(); ++rank) {
      const std::size_t first = at;
      while (at < order_.size() && slice(at).rank == rank) {
        ++at;
      }
      const bool remembered = rank < timeline_.memory.size() && !timeline_.memory[rank].empty();
      if (at > first || remembered) {
        write_rank(rank, first, at, file);
      }
    }
    give(file);
  }

 private:
  void give(OutputFile& file) {
    file.append(packets_.buffer());
    packets_.buffer().clear();
  }

  const Slice& slice(std::size_t at) const { return timeline_.slices[order_[at]]; }
  const Program& program_of(RankId rank) const {
    return world_.programs[world_.ranks[rank].program];
  }
  const Task& task_of(const Slice& s) const { return program_of(s.rank).tasks[s.task]; }
  std::uint64_t nanoseconds(Time time) const {
    return static_cast<std::uint64_t>((time + shift_).count()) / 1000;
  }

  // Sorts slices by rank, stream and time; those of equal times stay in issue order.
  void order_slices() {
    order_.resize(timeline_.slices.size());
    for (std::uint32_t i = 0; i < order_.size(); ++i) {
      order_[i] = i;
    }
    std::vector<std::uint8_t> stream(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      stream[i] = task_of(timeline_.slices[i]).stream;
    }
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      const Slice& x = timeline_.slices[a];
      const Slice& y = timeline_.slices[b];
      if (x.rank != y.rank) {
        return x.rank < y.rank;
      }
      if (stream[a] != stream[b]) {
        return stream[a] < stream[b];
      }
      return x.arrive != y.arrive ? x.arrive < y.arrive : x.task < y.task;
    });
  }

  void find_arrows() {
    struct Post {
      std::uint32_t slice;
      std::uint32_t key;
      std::uint32_t task;
    };
    struct Ends {
      std::vector<Post> sends, receives;
    };
    std::vector<Ends> channels(world_.channels.size());
    for (std::uint32_t i = 0; i < timeline_.slices.size(); ++i) {
      const Slice& s = timeline_.slices[i];
      const Task& task = task_of(s);
      if (task.kind != TaskKind::exchange) {
        continue;
      }
      const Program& program = program_of(s.rank);
      for (std::uint32_t k = task.first_transfer; k < task.first_transfer + task.transfers; ++k) {
        const program::Transfer& transfer = program.transfers[k];
        const std::size_t role = world_.ranks[s.rank].first_channel + transfer.channel;
        Ends& ends = channels[world_.channel_table[role]];
        (transfer.send ? ends.sends : ends.receives).push_back({i, transfer.key, s.task});
      }
    }
    struct Found {
      std::uint32_t slice;
      Arrows::Arrow arrow;
    };
    std::vector<Found> found;
    std::uint64_t id = 0;
    for (Ends& ends : channels) {
      const auto by_issue = [](const Post& a, const Post& b) { return a.task < b.task; };
      std::stable_sort(ends.sends.begin(), ends.sends.end(), by_issue);
      std::stable_sort(ends.receives.begin(), ends.receives.end(), by_issue);
      const std::size_t pairs = std::min(ends.sends.size(), ends.receives.size());
      for (std::size_t n = 0; n < pairs; ++n) {
        if (ends.sends[n].key == ends.receives[n].key) {
          ++id;
          found.push_back({ends.sends[n].slice, {id, true}});
          found.push_back({ends.receives[n].slice, {id, false}});
        }
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Found& a, const Found& b) { return a.slice < b.slice; });
    arrows_.first.assign(timeline_.slices.size() + 1, 0);
    for (const Found& one : found) {
      ++arrows_.first[one.slice + 1];
      arrows_.ids.push_back(one.arrow);
    }
    for (std::size_t i = 1; i < arrows_.first.size(); ++i) {
      arrows_.first[i] += arrows_.first[i - 1];
    }
  }

  // One slice over all stages: the reported step.
  void write_step() {
    packets_.group(kStepGroup, title_.empty() ? "step" : title_, 0);
    packets_.track(kStepTrack, kStepGroup, "step", 0);
    packets_.begin(kStepTrack, nanoseconds(Time{0}), "step", "step");
    packets_.end(kStepTrack, nanoseconds(timeline_.period));
  }

  // Two ranks of one stage are distinguished by their number.
  std::string name_of(RankId rank) const {
    const int stage = program_of(rank).stage;
    std::string name = fmt::format("stage {}", stage);
    if (ranks_of_stage_.at(stage) > 1) {
      name += fmt::format(", rank {}", rank);
    }
    if (rank < world_.multiplicity.size() && world_.multiplicity[rank] > 1) {
      name += fmt::format(" ({} ranks alike)", world_.multiplicity[rank]);
    }
    return name;
  }

  void write_rank(RankId rank, std::size_t first, std::size_t last, OutputFile& file) {
    const Program& program = program_of(rank);
    const std::uint64_t group = kFirstGroup + std::uint64_t{rank} * kTracksPerRank;
    packets_.group(group, name_of(rank), static_cast<int>(rank) + 1);
    int shown = kStreamsAtMost;
    for (std::size_t at = first; at < last; ++at) {
      const Task& task = task_of(slice(at));
      if (task.stream != shown) {
        shown = task.stream;
        packets_.track(group + 1 + task.stream, group, program.streams[task.stream].name,
                       task.stream);
      }
      write_slice(group + 1 + task.stream, program, at);
      if (packets_.buffer().size() > kFlush) {
        give(file);
      }
    }
    if (rank < timeline_.memory.size()) {
      write_memory(rank, program, group);
    }
  }

  void write_slice(std::uint64_t track, const Program& program, std::size_t at) {
    const Slice& s = slice(at);
    const Task& task = program.tasks[s.task];
    std::array<Annotation, 4> notes;
    std::size_t count = 0;
    if (task.micro_batch != kNoMicroBatch) {
      notes[count++] = {"micro_batch", task.micro_batch};
      notes[count++] = {"chunk", task.chunk};
    }
    if (task.kind == TaskKind::collective) {
      const std::size_t role = world_.ranks[s.rank].first_communicator + task.communicator;
      const auto& communicator = world_.communicators[world_.communicator_table[role]];
      const auto& price = world_.shapes[communicator.shape].prices[task.price];
      notes[count++] = {"bytes", static_cast<std::uint64_t>(price.bytes.count())};
      notes[count++] = {"ranks", communicator.size};
    }
    sends_.clear();
    receives_.clear();
    const std::uint32_t index = order_[at];
    for (std::uint64_t i = arrows_.first[index]; i < arrows_.first[index + 1]; ++i) {
      (arrows_.ids[i].send ? sends_ : receives_).push_back(arrows_.ids[i].id);
    }
    const std::uint64_t arrive = nanoseconds(s.arrive);
    const std::uint64_t begin = nanoseconds(s.begin);
    const std::uint64_t end = nanoseconds(s.end);
    packets_.begin(track, arrive, program.labels[task.label], to_string(task.category),
                   {notes.data(), count}, sends_);
    if (begin > arrive && task.kind != TaskKind::kernel) {
      packets_.begin(track, arrive, "wait for peer", to_string(task.wait_category));
      packets_.end(track, begin);
    }
    if (!receives_.empty()) {
      // The arrow ends where the data have arrived: a receive is often posted before its send, and
      // arrows must point forwards in time.
      packets_.arrival(track, end, "received", receives_);
    }
    packets_.end(track, end);
  }

  void write_memory(RankId rank, const Program& program, std::uint64_t group) {
    const auto& events = timeline_.memory[rank];
    if (events.empty()) {
      return;
    }
    const std::uint64_t counter = group + 1 + kStreamsAtMost;
    packets_.byte_counter(counter, group, "allocated memory");
    std::int64_t level = rank < timeline_.ranks.size() ? timeline_.ranks[rank].steady.count() : 0;
    packets_.count(counter, nanoseconds(std::min(Time{0}, events.front().time)), level);
    for (const program::MemoryEvent& event : events) {
      const std::int64_t bytes = program.buffers[event.buffer].bytes.count();
      level += event.allocate ? bytes : -bytes;
      packets_.count(counter, nanoseconds(event.time), level);
    }
  }

  static constexpr std::uint64_t kStepGroup = 1;
  static constexpr std::uint64_t kStepTrack = 2;
  static constexpr std::uint64_t kTracksPerRank = 1024;  // the group, its streams, its counter
  static constexpr std::uint64_t kFirstGroup = kTracksPerRank;

  const World& world_;
  const program::Timeline& timeline_;
  std::string title_;
  std::map<int, int> ranks_of_stage_;
  std::vector<std::uint32_t> order_;  // slices by rank, stream and time
  Arrows arrows_;
  Time shift_{0};
  TracePackets packets_;
  std::vector<std::uint64_t> sends_, receives_;  // of the slice being written
};

}  // namespace

void write_trace(const result::Report& report, OutputFile& file) {
  if (!report.trace) {
    throw std::runtime_error("the report holds no timeline to trace");
  }
  try {
    Trace(*report.trace, report.title).write(file);
    file.flush();
  } catch (const OutputError& error) {
    throw std::runtime_error(
        fmt::format("cannot write the trace '{}': {}", error.target.string(), error.why));
  }
}

void write_trace(const result::Report& report, const std::filesystem::path& path) {
  OutputFile file(path);
  write_trace(report, file);
  file.commit();
}

}  // namespace stepcast::report
