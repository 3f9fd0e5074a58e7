// Samples over the step, the peak, and the tensors live at the peak.
#include <algorithm>
#include <map>
#include <tuple>

#include "stage_timeline.h"

namespace stepcast::forecast {
namespace {

using result::MemorySample;
using result::StageTimeline;

std::size_t category_of(const program::Program& p, std::uint32_t buffer) {
  return static_cast<std::size_t>(p.buffers[buffer].category);
}

// Every sample of the step: at its start, and after each event.
class Samples {
 public:
  Samples(const program::Program& program, const memory::Replayed& replayed,
          const std::vector<Time>& clock)
      : program_(program), replayed_(replayed), clock_(clock) {}

  template <class Visit>
  void each(Visit visit) const {
    MemorySample s;  // at the step's start: the state at its end, less the changes of the step
    for (const memory::Tensor& t : replayed_.at_end) {
      s.by_category[category_of(program_, t.buffer)] += t.bytes;
    }
    s.allocated = replayed_.steady.allocated;
    s.active = replayed_.steady.active;
    s.reserved = replayed_.steady.reserved;
    const auto& events = replayed_.events;
    for (const memory::TensorEvent& e : events) {
      const std::int64_t change = e.allocate ? e.bytes : -e.bytes;
      s.by_category[category_of(program_, e.buffer)] -= change;
      s.allocated -= change;
    }
    if (!events.empty()) {
      s.at = Time(clock_.front());
    }
    visit(s, events.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      const memory::TensorEvent& e = events[i];
      s.at = Time(clock_[i]);
      s.by_category[category_of(program_, e.buffer)] += e.allocate ? e.bytes : -e.bytes;
      s.allocated = e.after.allocated;
      s.active = e.after.active;
      s.reserved = e.after.reserved;
      visit(s, i);
    }
  }

 private:
  const program::Program& program_;
  const memory::Replayed& replayed_;
  const std::vector<Time>& clock_;
};

// The step is divided into this many slots, of which the largest and the smallest sample are kept.
constexpr std::int64_t kSlots = 600;

void fill_samples(const program::Program& program, const memory::Replayed& replayed,
                  const std::vector<Time>& clock, StageTimeline& stage) {
  const Samples samples(program, replayed, clock);
  std::int64_t most = -1;
  std::int64_t begin = 0, end = 0;
  bool first = true;
  samples.each([&](const MemorySample& s, std::size_t) {
    if (s.allocated > most) {
      most = s.allocated;
      stage.peak = s.by_category;
      stage.peak_at = s.at;
    }
    begin = first ? s.at.count() : begin;
    end = s.at.count();
    first = false;
  });
  struct Kept {
    MemorySample sample;
    std::size_t order = 0;
  };
  std::int64_t slot = -1;
  std::size_t order = 0;
  Kept high, low;
  const auto flush = [&] {
    if (slot < 0) {
      return;
    }
    const bool one = high.order == low.order;
    const bool rising = low.order < high.order;
    stage.samples.push_back((one || !rising ? high : low).sample);
    if (!one) {
      stage.samples.push_back((rising ? high : low).sample);
    }
  };
  MemorySample start, last;
  samples.each([&](const MemorySample& s, std::size_t) {
    const std::int64_t span = std::max<std::int64_t>(1, end - begin);
    // Picoseconds times slots fit in 64 bits for steps of up to some 15,000 s.
    const std::int64_t at =
        std::min(kSlots - 1, (s.at.count() - begin) / std::max<std::int64_t>(1, span / kSlots));
    start = order == 0 ? s : start;
    last = s;
    if (at != slot) {
      flush();
      slot = at;
      high = low = {s, order};
    } else {
      high = s.allocated > high.sample.allocated ? Kept{s, order} : high;
      low = s.allocated < low.sample.allocated ? Kept{s, order} : low;
    }
    ++order;
  });
  flush();
  const auto same = [](const MemorySample& a, const MemorySample& b) {
    return a.at == b.at && a.by_category == b.by_category && a.active == b.active;
  };
  if (!same(stage.samples.front(), start)) {
    stage.samples.insert(stage.samples.begin(), start);
  }
  if (!same(stage.samples.back(), last)) {
    stage.samples.push_back(last);
  }
}

// Finds the host operation of the trace's event number `event`, and the task that the host issues
// next.
void find_peak(const program::Program& p, std::uint32_t event, StageTimeline& stage) {
  std::uint32_t seen = 0;
  std::size_t task = 0;
  bool reached = false;
  for (const program::HostOp& op : p.host) {
    if (op.kind == program::HostKind::allocate || op.kind == program::HostKind::release) {
      reached = reached || seen == event;
      ++seen;
    } else if (op.kind == program::HostKind::launch) {
      if (reached && op.count > 0) {
        const program::Task& t = p.tasks[task];
        stage.peak_in = text_of(p, t.label);
        if (t.micro_batch != 0xffff) {
          stage.micro_batch = t.micro_batch;
          stage.chunk = t.chunk;
        }
        return;
      }
      task += op.count;
    }
  }
}

void fill_at_peak(const program::Program& p, const memory::Replayed& replayed,
                  const std::vector<Time>& clock, std::size_t peak, StageTimeline& stage) {
  std::map<memory::BlockId, Time> since;  // blocks that this step allocates before the peak
  for (std::size_t i = 0; i < replayed.events.size() && i <= peak; ++i) {
    if (replayed.events[i].allocate) {
      since[replayed.events[i].id] = clock[i];
    }
  }
  const Time begin = replayed.events.empty() ? Time{0} : replayed.events.front().time;
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::size_t, int, std::int64_t>;
  std::map<Key, result::StandingTensor> groups;
  for (const memory::Tensor& t : replayed.at_peak) {
    const program::Buffer& b = p.buffers[t.buffer];
    const Names names = names_of(p, t.buffer, t.block);
    const auto [it, fresh] = groups.try_emplace(
        Key{names.label, names.part_of, category_of(p, t.buffer), b.stream, t.bytes});
    result::StandingTensor& s = it->second;
    if (fresh) {
      s.label = text_of(p, names.label);
      s.part_of = names.part_of == program::kNone ? "" : text_of(p, names.part_of);
      s.category = b.category;
      s.stream = b.stream < p.streams.size() ? p.streams[b.stream].name : "";
      s.bytes = t.bytes;
    }
    ++s.count;
    const auto made = since.find(t.id);
    if (t.since < begin || made == since.end()) {
      s.from_before = true;
    } else {
      s.since = fresh ? made->second : std::min(s.since, made->second);
    }
  }
  for (auto& [key, s] : groups) {
    stage.at_peak.push_back(std::move(s));
  }
  std::stable_sort(stage.at_peak.begin(), stage.at_peak.end(),
                   [](const auto& a, const auto& b) { return a.total() > b.total(); });
}

}  // namespace

void fill_timeline(const program::Program& program, const memory::Replayed& replayed,
                   const std::vector<Time>& clock, StageTimeline& stage) {
  fill_samples(program, replayed, clock, stage);
  const auto peak = std::find_if(
      replayed.events.begin(), replayed.events.end(),
      [&](const memory::TensorEvent& e) { return e.after.allocated == replayed.peak.allocated; });
  const bool within =
      peak != replayed.events.end() && replayed.steady.allocated < replayed.peak.allocated;
  if (within) {
    find_peak(program, peak->trace, stage);
  }
  fill_at_peak(program, replayed, clock,
               within ? static_cast<std::size_t>(peak - replayed.events.begin()) : 0, stage);
}

}  // namespace stepcast::forecast
