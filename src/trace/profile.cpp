// From a trace's events to where its rank's time went.
#include "stepcast/trace/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "collective_sizes.h"
#include "compared.h"
#include "critical.h"
#include "links.h"
#include "shapes.h"
#include "sweep.h"
#include "timeline.h"

namespace stepcast::trace {
namespace {

using result::TraceDevice;
using result::TraceKind;
using result::TraceRank;
using result::TraceShare;
using result::TraceStep;
using result::TraceStream;

// Sums by kind.
struct Sums {
  std::array<std::int64_t, kKinds> count{};
  std::array<Time, kKinds> time{};
  void add(Kind kind, Time duration) {
    ++count[static_cast<std::size_t>(kind)];
    time[static_cast<std::size_t>(kind)] += duration;
  }
  // The kinds that occur, the longest first.
  std::vector<TraceKind> listed() const {
    std::vector<TraceKind> out;
    for (const auto& [kind, word] : spellings(Kind{})) {
      const auto i = static_cast<std::size_t>(kind);
      if (count[i] > 0) {
        out.push_back({word, count[i], time[i]});
      }
    }
    std::stable_sort(out.begin(), out.end(),
                     [](const TraceKind& a, const TraceKind& b) { return a.time > b.time; });
    return out;
  }
};

template <class Row>
void longest_first(std::vector<Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.time > b.time; });
}

bool computes_product(Kind kind) {
  return kind == Kind::gemm || kind == Kind::grouped_gemm || kind == Kind::attention;
}

// Kernels by kind and name.
class KernelRows {
 public:
  void add(const KernelName& name, Time duration) {
    result::TraceKernel& row = rows_[{name.kind, name.shown}];
    ++row.count;
    row.time += duration;
  }
  std::vector<result::TraceKernel> listed() const {
    std::vector<result::TraceKernel> out;
    for (const auto& [key, row] : rows_) {
      out.push_back({to_string(key.first), key.second, row.count, row.time});
    }
    longest_first(out);
    return out;
  }

 private:
  std::map<std::pair<Kind, std::string>, result::TraceKernel> rows_;
};

// Pieces of a critical path by kind.
class PathRows {
 public:
  void add(const std::string& kind, Time time, std::int64_t count = 1) {
    result::TracePath& row = rows_[kind];
    row.kind = kind;
    row.count += count;
    row.time += time;
  }
  // A kernel of this kind, whether on the path or not.
  void exists(const std::string& kind, Time time) { all_[kind] += time; }
  void add(const PathRows& more) {
    for (const auto& [kind, row] : more.rows_) {
      add(kind, row.time, row.count);
    }
    for (const auto& [kind, time] : more.all_) {
      exists(kind, time);
    }
  }
  std::vector<result::TracePath> listed() const {
    std::vector<result::TracePath> out;
    for (const auto& [kind, row] : rows_) {
      out.push_back(row);
      const auto all = all_.find(kind);
      out.back().all = all == all_.end() ? Time(0) : all->second;
    }
    longest_first(out);
    return out;
  }

 private:
  std::map<std::string, result::TracePath> rows_;
  std::map<std::string, Time> all_;
};

class Profile {
 public:
  Profile(Trace& trace, RankCalls& calls) : trace_(trace), calls_(calls) {}

  TraceRank run() {
    describe();
    std::sort(trace_.events.begin(), trace_.events.end(),
              [&](const DeviceEvent& a, const DeviceEvent& b) { return key_of(a) < key_of(b); });
    links_ = link(trace_);
    for (std::size_t first = 0; first < trace_.events.size();) {
      std::size_t last = first;
      while (last < trace_.events.size() && device_of(last) == device_of(first)) {
        ++last;
      }
      device(first, last);
      first = last;
    }
    kernels();
    operators();
    longest_first_communication();
    sizes_.finish(out_, calls_);
    return std::move(out_);
  }

 private:
  using Key = std::tuple<std::int64_t, Time, std::int64_t, Time, std::int64_t, std::uint32_t>;
  Key key_of(const DeviceEvent& e) const {
    const Stream& stream = trace_.streams[e.stream];
    return {stream.device, e.start, stream.stream, e.duration, e.correlation, e.name};
  }
  std::int64_t device_of(std::size_t i) const {
    return trace_.streams[trace_.events[i].stream].device;
  }

  void describe() {
    out_.file = trace_.file;
    out_.rank = trace_.rank;
    out_.world_size = trace_.world_size;
    out_.device = trace_.device;
    out_.nccl_version = trace_.nccl_version;
    out_.bytes = trace_.bytes;
    out_.events = trace_.objects;
    out_.damaged = trace_.damaged;
    out_.unit = trace_.nanoseconds ? "ns" : "us";
    out_.remarks = trace_.remarks;
  }

  // The device's part of each step that it takes part in, and the windows of these parts.
  void device(std::size_t first, std::size_t last) {
    TraceDevice d;
    d.device = device_of(first);
    constexpr std::size_t kOutside = static_cast<std::size_t>(-1);
    std::vector<std::size_t> row_of(trace_.steps.size(), kOutside);
    std::vector<Sums> step_sums;
    std::vector<ShareWindow> windows;
    for (std::size_t i = first; i < last; ++i) {
      const std::uint32_t step = links_.step[i];
      if (step != kNone && row_of[step] == kOutside) {
        row_of[step] = 0;
      }
    }
    compared_.resize(trace_.steps.size());
    for (std::size_t step = 0; step < row_of.size(); ++step) {
      if (row_of[step] != kOutside) {
        row_of[step] = d.steps.size();
        d.steps.push_back({trace_.steps[step].name, trace_.steps[step].duration, {}, {}});
      }
    }
    for (std::size_t step = 0; step < row_of.size(); ++step) {
      compared_[step] = compared_[step] ||
                        (row_of[step] != kOutside && row_of[step] < compared_steps(d.steps.size()));
    }
    windows.assign(d.steps.size(), {Time::max(), Time::min(), {}});
    step_sums.resize(d.steps.size());
    Sums sums, outside;
    std::map<std::uint32_t, Sums> streams;
    for (std::size_t i = first; i < last; ++i) {
      const DeviceEvent& event = trace_.events[i];
      const Kind kind = trace_.kind_of(event);
      sums.add(kind, event.duration);
      streams[event.stream].add(kind, event.duration);
      if (links_.step[i] == kNone) {
        outside.add(kind, event.duration);
        continue;
      }
      const std::size_t row = row_of[links_.step[i]];
      step_sums[row].add(kind, event.duration);
      windows[row].from = std::min(windows[row].from, event.start);
      windows[row].to = std::max(windows[row].to, event.end());
    }
    for (std::size_t row = 0; row + 1 < windows.size(); ++row) {
      windows[row + 1].from = std::max(windows[row + 1].from, windows[row].from);
      windows[row].to = windows[row + 1].from;
    }
    const Covers covers = sweep({trace_, links_, first, last}, windows, d.share);
    phases(d, first, last, row_of, covers.communication);
    TraceShare rest = d.share;
    for (std::size_t row = 0; row < windows.size(); ++row) {
      d.steps[row].share = windows[row].share;
      d.steps[row].kinds = step_sums[row].listed();
      subtract(rest, windows[row].share);
    }
    if (!d.steps.empty() && (rest.span > Time(0) || !outside.listed().empty())) {
      d.outside = TraceStep{"outside the steps", Time(0), rest, outside.listed()};
    }
    const CriticalPath path({trace_, links_, first, last});
    critical(d, path, first, last, windows);
    draw(d, path, first, last, windows);
    d.kinds = sums.listed();
    for (const auto& [stream, stream_sums] : streams) {
      d.streams.push_back(stream_row(trace_.streams[stream], stream_sums));
    }
    longest_first(d.streams);
    out_.devices.push_back(std::move(d));
    passes_ = passes(first, last, covers.communication);
    for (std::size_t i = first; i < last; ++i) {
      if (trace_.kind_of(trace_.events[i]) == Kind::communication) {
        communication(i, covers.compute, compared(i));
      }
    }
  }

  // When kernels of the forward and of the backward pass compute beside communication; others would
  // only take memory.
  struct Passes {
    Cover forward, backward;
  };
  Passes passes(std::size_t first, std::size_t last, const Cover& communication) const {
    Passes out;
    for (std::size_t i = first; i < last; ++i) {
      const DeviceEvent& event = trace_.events[i];
      const Phase phase = links_.phase[i];
      if (class_of(trace_.kind_of(event)) == Class::compute &&
          (phase == Phase::forward || phase == Phase::backward) &&
          communication.within(event.start, event.end()) > Time(0)) {
        (phase == Phase::forward ? out.forward : out.backward).add(event.start, event.end());
      }
    }
    return out;
  }

  // Kernels that compute, by phase of each step.
  void phases(TraceDevice& d, std::size_t first, std::size_t last,
              const std::vector<std::size_t>& row_of, const Cover& communication) const {
    std::vector<std::map<PhaseKind, result::TracePhase>> sums(
        std::max<std::size_t>(1, d.steps.size()));
    for (std::size_t i = first; i < last; ++i) {
      const DeviceEvent& event = trace_.events[i];
      const Kind kind = trace_.kind_of(event);
      const std::uint32_t step = links_.step[i];
      if (class_of(kind) != Class::compute || (step == kNone && !d.steps.empty())) {
        continue;
      }
      result::TracePhase& row = sums[d.steps.empty() ? 0 : row_of[step]]
                                    [phase_kind(links_.phase[i], compared_kind(kind))];
      ++row.count;
      row.time += event.duration;
      row.beside += communication.within(event.start, event.end());
    }
    for (std::size_t s = 0; s < sums.size(); ++s) {
      auto& out = d.steps.empty() ? d.phases : d.steps[s].phases;
      for (auto& [key, row] : sums[s]) {
        row.phase = key.phase, row.kind = key.kind;
        out.push_back(row);
      }
    }
  }

  // The kind of an event on a critical path; communication by its operation.
  std::string path_kind(std::size_t i) const {
    const Kind kind = trace_.kind_of(trace_.events[i]);
    const bool communicates = kind == Kind::communication;
    const std::string& operation = operation_of(i, communicates ? call_of(i) : nullptr);
    return operation.empty() ? to_string(kind) : operation;
  }

  // The critical path of each step, or of the whole where there are none.
  void critical(TraceDevice& d, const CriticalPath& path, std::size_t first, std::size_t last,
                const std::vector<ShareWindow>& windows) const {
    std::vector<ShareWindow> all = windows;
    if (all.empty()) {
      const Time start = trace_.events[first].start;
      all.push_back({start, start + d.share.span, {}});
    }
    std::vector<PathRows> rows(all.size());
    KernelRows kernels;
    for (std::size_t row = 0; row < all.size(); ++row) {
      path.walk(all[row].from, all[row].to, [&](const PathPiece& piece) {
        const Time time = piece.to - piece.from;
        if (piece.event == kNone) {
          rows[row].add(piece.host ? "host" : "gap", time);
          return;
        }
        rows[row].add(path_kind(piece.event), time);
        kernels.add(trace_.known[trace_.events[piece.event].name], time);
      });
    }
    std::size_t row = 0;
    for (std::size_t i = first; i < last; ++i) {
      const DeviceEvent& event = trace_.events[i];
      while (row + 1 < all.size() && event.start >= all[row].to) {
        ++row;
      }
      if (event.start >= all[row].from && event.start < all[row].to) {
        rows[row].exists(path_kind(i), event.duration);
      }
    }
    PathRows sum;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      sum.add(rows[r]);
      if (!windows.empty()) {
        d.steps[r].path = rows[r].listed();
      }
    }
    d.path = sum.listed();
    d.path_kernels = kernels.listed();
  }

  // The timeline of one step: the second, since the first is often not like the others.
  void draw(TraceDevice& d, const CriticalPath& path, std::size_t first, std::size_t last,
            const std::vector<ShareWindow>& windows) const {
    const std::size_t step = std::min<std::size_t>(1, windows.empty() ? 0 : windows.size() - 1);
    const Time start = trace_.events[first].start;
    const Time from = windows.empty() ? start : windows[step].from;
    const Time to = windows.empty() ? start + d.share.span : windows[step].to;
    if (from < to) {
      d.timeline = timeline({trace_, links_, first, last}, path, from, to);
      d.timeline->step = windows.empty() ? "whole trace" : d.steps[step].name;
    }
  }

  static void subtract(TraceShare& from, const TraceShare& part) {
    from.span -= part.span;
    from.compute -= part.compute;
    from.communication -= part.communication;
    from.copy -= part.copy;
    from.host_bound -= part.host_bound;
    from.idle -= part.idle;
    from.overlapped -= part.overlapped;
  }

  static TraceStream stream_row(const Stream& stream, const Sums& sums) {
    TraceStream row{stream.device, stream.stream, 0, Time(0), sums.listed()};
    for (const TraceKind& kind : row.kinds) {
      row.count += kind.count;
      row.time += kind.time;
    }
    return row;
  }

  // The collective of a kernel: recorded beside it, or beside the operator that launched it.
  const CollectiveCall* call_of(std::size_t i) const {
    std::uint32_t call = trace_.events[i].call;
    if (call == kNone && links_.host[i] != kNone) {
      call = trace_.operators[trace_.host[links_.host[i]].what].call;
    }
    return call == kNone ? nullptr : &trace_.calls[call];
  }

  const std::string& operation_of(std::size_t i, const CollectiveCall* call) const {
    return call != nullptr && !call->operation.empty()
               ? call->operation
               : trace_.known[trace_.events[i].name].operation;
  }

  void communication(std::size_t i, const Cover& compute, bool in_steps) {
    const DeviceEvent& event = trace_.events[i];
    const CollectiveCall* call = call_of(i);
    const bool grouped = call != nullptr && !call->group.empty();
    const std::string& operation = operation_of(i, call);
    const std::string group =
        grouped ? call->group : fmt::format("stream {}", trace_.streams[event.stream].stream);
    const std::string ranks = grouped ? call->ranks : "";
    const auto [at, is_new] = communication_.try_emplace(
        {operation, group, ranks}, static_cast<std::uint32_t>(out_.communication.size()));
    if (is_new) {
      result::TraceCommunication row;
      row.operation = operation;
      row.group = group;
      row.group_size = grouped ? call->group_size : 0;
      out_.communication.push_back(std::move(row));
    }
    result::TraceCommunication& row = out_.communication[at->second];
    ++row.count;
    row.time += event.duration;
    const Time exposed = event.duration - compute.within(event.start, event.end());
    row.exposed += exposed;
    row.beside_forward += passes_.forward.within(event.start, event.end());
    row.beside_backward += passes_.backward.within(event.start, event.end());
    const std::int64_t bytes = call == nullptr ? 0 : bytes_of(*call);
    row.bytes += bytes;
    if (in_steps) {
      ++row.step_count;
      row.step_bytes += bytes;
      row.step_time += event.duration;
      row.step_exposed += exposed;
    }
    const std::uint32_t step = links_.step[i];
    remember(at->second,
             fmt::format("{}\n{}\n{}\n{}", operation, group, ranks,
                         step == kNone ? "" : trace_.steps[step].name),
             event.duration);
    if (bytes > 0 && grouped) {
      calls_.calls.back().size = sizes_.add(operation, *call, bytes, event.duration);
    }
  }

  void remember(std::uint32_t row, const std::string& key, Time duration) {
    const auto [at, is_new] =
        keys_.try_emplace(key, static_cast<std::uint32_t>(calls_.keys.size()));
    if (is_new) {
      calls_.keys.push_back(key);
    }
    calls_.calls.push_back({row, at->second, duration, kNone});
  }

  void kernels() {
    KernelRows rows, without;
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const DeviceEvent& event = trace_.events[i];
      const KernelName& name = trace_.known[event.name];
      rows.add(name, event.duration);
      if (computes_product(name.kind) && links_.host[i] == kNone) {
        without.add(name, event.duration);
        out_.without_shapes += event.duration;
      }
    }
    out_.kernels = rows.listed();
    out_.kernels_without_shapes = without.listed();
  }

  // Whether an event belongs to the steps that a comparison is made with.
  bool compared(std::size_t i) const {
    const std::uint32_t step = links_.step[i];
    return compared_.empty() || (step != kNone && compared_[step]);
  }

  // Products and attention by operator and shapes.
  void operators() {
    struct Row {
      Time time{0};
      std::map<std::uint32_t, Time> kernels;  // by name
      std::set<std::uint32_t> calls;
      std::int64_t step_calls = 0;
    };
    std::map<std::uint32_t, Row> rows;  // by Trace::operators
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const DeviceEvent& event = trace_.events[i];
      if (links_.host[i] == kNone || !computes_product(trace_.kind_of(event))) {
        continue;
      }
      Row& row = rows[trace_.host[links_.host[i]].what];
      row.time += event.duration;
      row.kernels[event.name] += event.duration;
      if (row.calls.insert(links_.host[i]).second && compared(i)) {
        ++row.step_calls;
      }
    }
    for (const auto& [what, row] : rows) {
      const auto longest =
          std::max_element(row.kernels.begin(), row.kernels.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      result::TraceOperator op =
          read_operator(trace_.operators[what], trace_.names[longest->first]);
      op.kernel = trace_.known[longest->first].shown;
      op.count = static_cast<std::int64_t>(row.calls.size());
      op.step_count = row.step_calls;
      op.time = row.time;
      out_.operators.push_back(std::move(op));
    }
    longest_first(out_.operators);
  }

  // The rows in order of their time, with the calls that refer to them.
  void longest_first_communication() {
    std::vector<std::uint32_t> order(out_.communication.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) {
      order[i] = i;
    }
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return out_.communication[a].time > out_.communication[b].time;
    });
    std::vector<std::uint32_t> place(order.size());
    std::vector<result::TraceCommunication> sorted;
    for (std::uint32_t i = 0; i < order.size(); ++i) {
      place[order[i]] = i;
      sorted.push_back(std::move(out_.communication[order[i]]));
    }
    out_.communication = std::move(sorted);
    for (RankCall& call : calls_.calls) {
      call.row = place[call.row];
    }
  }

  Trace& trace_;
  RankCalls& calls_;
  Links links_;
  TraceRank out_;
  std::map<std::tuple<std::string, std::string, std::string>, std::uint32_t> communication_;
  std::unordered_map<std::string, std::uint32_t> keys_;
  CollectiveSizes sizes_;
  std::vector<bool> compared_;  // of Trace::steps, on one of the devices
  Passes passes_;               // of the device whose communication is summed
};

}  // namespace

result::TraceRank profile(Trace& trace, RankCalls& calls) { return Profile(trace, calls).run(); }

}  // namespace stepcast::trace
