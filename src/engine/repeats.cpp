#include "repeats.h"

#include <algorithm>

#include "history.h"
#include "stepcast/base/fnv.h"

namespace stepcast::engine {

using program::kNone;
using program::TaskKind;

namespace {

// Tasks that an anchor's hash covers, and how many places behind the middle of the stream are tried
// as anchors.
constexpr std::uint32_t kWindow = 4;
constexpr std::uint32_t kCandidates = 512;
// Fewer anchors in a step than this find a period late.
constexpr std::uint32_t kEnoughAnchors = 24;
// Memory that marks may take, in bytes.
constexpr std::size_t kMarkBytes = std::size_t{32} << 20;
// Marks of one digest that are tried, from the newest back: in an interleaved pipeline a state
// returns after one pass of a run of passes, and after the whole round of runs.
constexpr int kTried = 32;
constexpr std::int64_t kMostPeriods = std::int64_t{1} << 31;
constexpr std::size_t kNoMark = static_cast<std::size_t>(-1);

std::uint64_t look_of(const CompiledTask& t) {
  std::uint64_t hash = fnv_mix(static_cast<std::uint64_t>(t.kind), t.communicator);
  hash = fnv_mix(hash, static_cast<std::uint64_t>(t.duration.count()));
  return fnv_mix(hash,
                 (std::uint64_t{t.price} << 32) | (std::uint64_t{t.transfers} << 16) | t.waits);
}

}  // namespace

std::vector<bool> anchors_of(const CompiledProgram& p) {
  const std::uint32_t count = p.streams[0].count;
  std::vector<bool> out(count, false);
  if (count < 3 * kWindow) {
    return out;
  }
  std::vector<std::uint64_t> look(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    look[i] = look_of(p.tasks[p.streams[0].first + i]);
  }
  const std::uint32_t places = count - kWindow + 1;
  for (std::uint32_t i = 0; i < places; ++i) {
    for (std::uint32_t k = 1; k < kWindow; ++k) {
      look[i] = fnv_mix(look[i], look[i + k]);
    }
  }
  std::unordered_map<std::uint64_t, std::uint32_t> times;
  const std::uint32_t middle = places / 2;
  for (std::uint32_t i = middle; i < std::min(places, middle + kCandidates); ++i) {
    times.emplace(look[i], 0);
  }
  for (std::uint32_t i = 0; i < places; ++i) {
    const auto at = times.find(look[i]);
    if (at != times.end()) {
      ++at->second;
    }
  }
  std::uint64_t best = 0;
  std::uint32_t most = 0;
  for (std::uint32_t i = middle; i < std::min(places, middle + kCandidates); ++i) {
    const std::uint32_t n = times.at(look[i]);
    const bool better = most < kEnoughAnchors ? n > most : n < most && n >= kEnoughAnchors;
    if (n >= 3 && better) {
      best = look[i];
      most = n;
    }
  }
  for (std::uint32_t i = 0; most > 0 && i < places; ++i) {
    out[i] = look[i] == best;
  }
  return out;
}

namespace {

// The posts on one end of a channel in a step.
struct Posts {
  std::uint64_t hash = 0;
  std::uint32_t count = 0;
  std::uint32_t stream = kNone;
  bool one_stream = true;
};

// By role, receives behind sends.
std::vector<Posts> posts_of(const CompiledProgram& p) {
  std::vector<Posts> out(std::size_t{2} * p.source->channel_roles);
  for (const std::uint32_t i : p.communication) {
    const program::Task& t = p.source->tasks[i];
    for (std::uint32_t x = t.first_transfer; x < t.first_transfer + t.transfers; ++x) {
      const program::Transfer& transfer = p.source->transfers[x];
      Posts& to = out[transfer.channel + (transfer.send ? 0 : p.source->channel_roles)];
      to.one_stream = to.one_stream && (to.stream == kNone || to.stream == t.stream);
      to.stream = t.stream;
      ++to.count;
      to.hash = fnv_mix(fnv_mix(to.hash, transfer.key), transfer.price);
    }
  }
  return out;
}

// On every channel the sends of a step meet receives of the same keys and prices, in whatever order
// time brings them: then keys need no comparison, and those of one micro-batch differ from
// another's.
bool keys_agree(const program::World& world, const std::vector<CompiledProgram>& programs) {
  std::vector<std::vector<Posts>> posts;
  for (const CompiledProgram& p : programs) {
    posts.push_back(posts_of(p));
  }
  std::vector<Posts> sends(world.channels.size());
  std::vector<Posts> receives(world.channels.size());
  for (const program::Rank& rank : world.ranks) {
    const std::vector<Posts>& of = posts[rank.program];
    const std::size_t roles = of.size() / 2;
    for (std::size_t k = 0; k < roles; ++k) {
      const program::ChannelId id = world.channel_table[rank.first_channel + k];
      if (id == kNone) {
        continue;
      }
      for (const bool send : {true, false}) {
        const Posts& here = of[send ? k : roles + k];
        Posts& there = (send ? sends : receives)[id];
        if (here.count > 0 && (there.count > 0 || !here.one_stream)) {
          return false;
        }
        there = here.count > 0 ? here : there;
      }
    }
  }
  for (std::size_t i = 0; i < sends.size(); ++i) {
    if (sends[i].count != receives[i].count || sends[i].hash != receives[i].hash) {
      return false;
    }
  }
  return true;
}

}  // namespace

Repeats::Repeats(Machine& machine, bool whole_steps) : machine_(machine) {
  const program::World& world = machine.world_;
  if (!machine.options_.skip_repeats) {
    return;
  }
  first_role_.assign(world.communicators.size(), kNone);
  for (std::uint32_t k = 0; k < world.communicator_table.size(); ++k) {
    const program::CommunicatorId id = world.communicator_table[k];
    if (id != kNone && first_role_[id] == kNone) {
      first_role_[id] = k;
    }
  }
  if (whole_steps) {
    begin_whole_steps();
  }
  anchors_ = machine.programs_.anchors(world.ranks.front().program);
  if (std::find(anchors_.begin(), anchors_.end(), true) == anchors_.end() ||
      !keys_agree(world, machine.programs_.compiled)) {
    anchors_.clear();
    return;
  }
  machine.keys_agree_ = true;
  shift_.tasks.resize(machine.streams_.size());
  shift_.uses.resize(world.communicator_table.size());
  shift_.segments.resize(machine.ranks_.size());
  like_before_.resize(machine.ranks_.size());
  differs_.resize(machine.streams_.size());
}

void Repeats::forget() {
  marks_.clear();
  by_digest_.clear();
  anchors_seen_ = 0;
  stride_ = 1;
}

void Repeats::look() {
  if (anchors_.empty() && spacing_ == 0) {
    return;
  }
  const bool finished = note_finished();
  const StreamState& s = machine_.streams_[machine_.ranks_[0].first_stream];
  if (s.completed == completed_) {
    return;
  }
  completed_ = s.completed;
  if (s.step != step_) {
    step_ = s.step;
    step_before_ = std::move(step_now_);
    step_now_.clear();
    if (!returned_) {  // steps are much alike: looking on would cost and find nothing
      anchors_.clear();
    }
    forget();
  }
  const bool anchor = !anchors_.empty() && anchors_[s.position];
  // The end of a step is looked at before another is compared with it.
  const bool place = spacing_ > 0 && s.position % spacing_ == 0 && !finished;
  if (!(anchor || place) || !machine_.fault_.empty()) {
    return;
  }
  const Digest d = digest(machine_.queue_.now());
  if ((place && ends_alike(d)) || !anchor) {
    return;
  }
  if (const std::size_t best = longest(d); best != kNoMark) {
    if (best != measured_) {
      measure(marks_[best]);
    }
    jump(marks_[best]);
    completed_ = s.completed;
  }
  if (anchors_seen_++ % stride_ == 0) {
    keep(d);
  }
}

// The mark of the same state from which the jump is the longest, or leaves less than it skips.
std::size_t Repeats::longest(const Digest& d) {
  std::size_t best = kNoMark;
  Time most{0};
  const auto newest = by_digest_.find(d.a);
  std::size_t at = newest == by_digest_.end() ? kNoMark : newest->second;
  returned_ = returned_ || at != kNoMark;
  for (int tried = 0; at != kNoMark && tried < kTried; ++tried, at = marks_[at].before) {
    measured_ = at;
    if (marks_[at].digest.b == d.b && measure(marks_[at]) && shift_.period * shift_.most > most) {
      most = shift_.period * shift_.most;
      best = at;
      const StreamState& s = machine_.streams_[0];
      if (2 * shift_.most * shift_.tasks[0] > s.count - s.position) {
        break;
      }
    }
  }
  return best;
}

// ---------------------------------------------------------------- the state

Digest Repeats::digest(Time now) const {
  Digest d;
  for (std::uint32_t r = 0; r < machine_.ranks_.size(); ++r) {
    mix_rank(d, machine_.ranks_[r], r, now);
  }
  for (const StreamState& s : machine_.streams_) {
    if (s.count > 0) {
      mix_stream(d, s, now);
    }
  }
  // Operations' numbers are reused in an order of their own, so their order tells nothing.
  Digest sum{0, 0};
  for (std::uint32_t id = 0; id < machine_.operations_.size(); ++id) {
    if (machine_.operations_[id].open) {
      Digest one;
      mix_operation(one, machine_.operations_[id], id, now);
      sum.add(one);
    }
  }
  // Events that their subjects have overtaken will be taken from the queue, and counted, as well.
  machine_.queue_.for_each([&](const Event& e) {
    Digest one;
    one.mix((e.time - now).count());
    one.mix(e.subject >> 30);
    sum.add(one);
  });
  d.mix(static_cast<std::int64_t>(sum.a));
  d.mix(static_cast<std::int64_t>(sum.b));
  return d;
}

// A task that waits to begin: of its stream's past only when the compute stream fell idle is read
// again.
void Repeats::mix_stream(Digest& d, const StreamState& s, Time now) const {
  d.mix((std::int64_t{static_cast<std::uint8_t>(s.state)} << 48) |
        (std::int64_t{s.wait_index} << 32) | s.watchers);
  const CompiledTask& t = s.tasks[s.position];
  d.mix(t.duration.count());
  if (s.state == Activity::idle || s.state == Activity::waking) {
    d.mix(s.index == 0 ? (s.last_end - now).count() : 0);
    return;
  }
  d.mix((s.arrive - now).count());
  d.mix((s.begin - now).count());
  d.mix((std::int64_t{s.moving} << 48) | (std::int64_t{s.pressure} << 32) |
        (std::int64_t{s.pending} << 8) | (s.index == 0 ? 0 : s.bound_by));
  if (s.state == Activity::running && t.slowdown != 0) {
    d.mix((s.since - now).count());
    d.mix(static_cast<std::int64_t>(s.remaining));
    d.mix(static_cast<std::int64_t>(s.remaining >> 64));
    d.mix(s.speed);
  }
}

void Repeats::mix_rank(Digest& d, const RankState& r, std::uint32_t rank, Time now) const {
  d.mix((std::int64_t{r.pressure} << 32) | r.host_blocked);
  d.mix((std::int64_t{r.transfer_speed} << 1) | (r.host_waits ? 1 : 0));
  const Activity compute = machine_.streams_[r.first_stream].state;
  if (compute != Activity::idle && compute != Activity::waking) {
    return;
  }
  for (const Passage& p : machine_.accounts_[rank].passages) {
    d.mix((p.arrive - now).count());
    d.mix((p.begin - now).count());
    d.mix((p.end - now).count());
    d.mix((std::int64_t{p.stream} << 24) | (std::int64_t{p.bound_by} << 16) |
          (std::int64_t{static_cast<std::uint8_t>(p.category)} << 8) |
          static_cast<std::uint8_t>(p.wait_category));
  }
}

void Repeats::mix_operation(Digest& d, const Operation& op, std::uint32_t id, Time now) const {
  d.mix((std::int64_t{static_cast<std::uint8_t>(op.kind)} << 40) | op.home);
  d.mix(op.price->latency.count());
  d.mix(op.price->fluid.count());
  d.mix((std::int64_t{op.arrived} << 2) | (op.flowing ? 2 : 0) | (op.send ? 1 : 0));
  if (op.kind == TaskKind::collective) {
    d.mix(static_cast<std::int32_t>(op.use - machine_.uses_[first_role_[op.home]]));
  }
  if (machine_.begun(op)) {
    d.mix((op.begin - now).count());
    d.mix(op.last);
  } else {
    d.mix(op.first);
  }
  if (op.flowing) {
    const Network& n = machine_.network_;
    d.mix(n.rate(id));
    d.mix(n.cap(id));
    d.mix((n.since(id) - now).count());
    d.mix(static_cast<std::int64_t>(n.remaining(id)));
    d.mix(static_cast<std::int64_t>(n.remaining(id) >> 64));
  }
}

Repeats::Mark Repeats::mark_of(const Digest& digest) const {
  Mark m;
  m.digest = digest;
  m.time = machine_.queue_.now();
  m.completed.reserve(machine_.streams_.size());
  for (const StreamState& s : machine_.streams_) {
    m.completed.push_back(s.completed);
  }
  m.issued.reserve(machine_.ranks_.size());
  m.breakdowns.reserve(machine_.ranks_.size());
  for (std::uint32_t r = 0; r < machine_.ranks_.size(); ++r) {
    m.issued.push_back(machine_.ranks_[r].issued);
    m.breakdowns.push_back(machine_.accounts_[r].now);
  }
  m.uses = machine_.uses_;
  m.events = machine_.events_;
  m.shared_events = machine_.shared_events_;
  m.tasks_done = machine_.tasks_done_;
  return m;
}

void Repeats::keep(const Digest& digest) {
  Mark m = mark_of(digest);
  const std::size_t bytes = sizeof(std::uint32_t) * (m.completed.size() + m.uses.size()) +
                            (sizeof(Breakdown) + sizeof(std::uint64_t)) * m.issued.size();
  if (marks_.size() > 1 && (marks_.size() + 1) * bytes > kMarkBytes) {
    // Every second mark makes room.
    for (std::size_t i = 1; 2 * i < marks_.size(); ++i) {
      marks_[i] = std::move(marks_[2 * i]);
    }
    marks_.resize((marks_.size() + 1) / 2);
    stride_ *= 2;
    by_digest_.clear();
    for (std::size_t i = 0; i < marks_.size(); ++i) {
      enter(i);
    }
  }
  marks_.push_back(std::move(m));
  enter(marks_.size() - 1);
}

void Repeats::enter(std::size_t mark) {
  const auto at = by_digest_.emplace(marks_[mark].digest.a, kNoMark).first;
  marks_[mark].before = at->second;
  at->second = mark;
}

// ---------------------------------------------------------------- how far it repeats

void Repeats::limit(std::int64_t periods) { shift_.most = std::min(shift_.most, periods); }

// Something at rest waits until stream `rs` has completed `need` tasks: it must not be reached.
void Repeats::limit_need(std::uint32_t rs, std::uint32_t need) {
  const std::uint32_t by = shift_.tasks[rs];
  if (by > 0 && need > machine_.streams_[rs].completed) {
    limit((need - 1 - machine_.streams_[rs].completed) / by);
  }
}

bool Repeats::measure(const Mark& from) {
  const Machine& m = machine_;
  const Time now = m.queue_.now();
  shift_.period = now - from.time;
  if (shift_.period <= Time{0}) {
    return false;
  }
  shift_.most = std::min((kEndOfTime / 4 - now) / shift_.period, kMostPeriods);
  for (std::uint32_t rs = 0; rs < m.streams_.size(); ++rs) {
    const StreamState& s = m.streams_[rs];
    shift_.tasks[rs] = s.completed - from.completed[rs];
    if (s.completed - s.position > from.completed[rs]) {
      return false;  // a step ended in between
    }
  }
  std::fill(shift_.segments.begin(), shift_.segments.end(), 0);
  for (std::uint32_t k = 0; k < shift_.uses.size(); ++k) {
    shift_.uses[k] = m.uses_[k] - from.uses[k];
    const program::CommunicatorId id = m.world_.communicator_table[k];
    if (id != kNone && shift_.uses[k] != shift_.uses[first_role_[id]]) {
      return false;
    }
  }
  for (std::uint32_t r = 0; r < m.ranks_.size(); ++r) {
    shift_.segments[r] = static_cast<std::uint32_t>(m.ranks_[r].issued - from.issued[r]);
    if (!host_repeats(from, r)) {
      return false;
    }
    like_before_[r] = r > 0 && stands_as(from, r, r - 1);
  }
  for (std::uint32_t rs = 0; rs < m.streams_.size() && shift_.most > 0; ++rs) {
    if (!(shift_.tasks[rs] == 0 ? rest_holds(rs) : tasks_repeat(from, rs))) {
      return false;
    }
  }
  return shift_.most > 0;
}

bool Repeats::host_repeats(const Mark& from, std::uint32_t rank) {
  const RankState& r = machine_.ranks_[rank];
  const std::uint32_t by = shift_.segments[rank];
  if (by == 0) {
    if (r.host_waits) {
      limit_need(r.first_stream + r.host_stream, r.host_need);
    }
    return true;
  }
  const std::vector<Segment>& segments = r.program->segments;
  const std::uint64_t first = r.issued - r.host_segment;  // of the host's step
  if (from.issued[rank] <= first || !r.host_waits || !bases_repeat(rank)) {
    return false;
  }
  // The segment behind which the host waited at the mark, and those behind it.
  auto g = static_cast<std::uint32_t>(from.issued[rank] - 1 - first);
  const auto same = [&](const Segment& a, const Segment& b) {
    return a.length == b.length && !a.step_end && !b.step_end && a.wait.stream == b.wait.stream &&
           a.wait.lag == b.wait.lag &&
           a.wait.position + shift_.tasks[r.first_stream + a.wait.stream] == b.wait.position;
  };
  while (g + by < segments.size() && same(segments[g], segments[g + by])) {
    ++g;
  }
  // Segments up to g - 1 return a period later; the one behind which it waits now is to be of them.
  if (g < r.host_segment) {
    return false;
  }
  limit((g - r.host_segment) / by + 1);
  return true;
}

// When the segments began that may still hold a task back, or that an idle stretch may be charged
// to.
bool Repeats::bases_repeat(std::uint32_t rank) const {
  const RankState& r = machine_.ranks_[rank];
  const std::vector<Segment>& segments = r.program->segments;
  const std::uint64_t n = segments.size();
  const std::uint32_t by = shift_.segments[rank];
  const StreamState& compute = machine_.streams_[r.first_stream];
  const bool idle = compute.state == Activity::idle || compute.state == Activity::waking;
  const Time until = idle ? compute.last_end : machine_.queue_.now();
  const auto base = [&](std::uint64_t q) {
    return machine_.bases_[r.first_base + q % (kBaseSteps * n)];
  };
  const std::uint64_t first = r.issued - r.host_segment;
  for (std::uint64_t q = r.issued; q-- > first + by;) {
    const Time length = segments[q % n].length;
    const bool past = base(q) + length <= until;
    if (past != (base(q - by) + length <= until - shift_.period)) {
      return false;
    }
    if (past) {
      return true;
    }
    if (base(q) - shift_.period != base(q - by) || length != segments[(q - by) % n].length) {
      return false;
    }
  }
  return false;
}

// A stream that did nothing must have nothing to do in the periods to come.
bool Repeats::rest_holds(std::uint32_t rs) {
  const StreamState& s = machine_.streams_[rs];
  const RankState& r = machine_.ranks_[s.rank];
  if (s.count == 0 || s.step == machine_.limit_) {
    return true;
  }
  if (s.state != Activity::idle) {
    return false;
  }
  const CompiledTask& t = s.tasks[s.position];
  if ((r.host_blocked >> s.index & 1U) != 0) {
    const std::uint64_t segment = std::uint64_t{s.step} * r.program->segments.size() + t.segment;
    if (shift_.segments[s.rank] > 0) {
      limit(static_cast<std::int64_t>((segment - r.issued) / shift_.segments[s.rank]));
    }
    return segment >= r.issued;
  }
  if (s.wait_index >= t.waits) {
    return false;
  }
  const program::Wait& w = r.program->source->waits[t.first_wait + s.wait_index];
  const std::uint32_t on = r.first_stream + w.stream;
  limit_need(on, s.awaited);
  return s.awaited > machine_.streams_[on].completed;
}

// A wait that held already at the mark makes no difference afterwards.
bool Repeats::same_waits(const Mark& from, const RankState& r, std::uint32_t step,
                         const CompiledTask& a, const CompiledTask& b) const {
  const std::vector<program::Wait>& waits = r.program->source->waits;
  for (std::uint32_t k = 0; k < a.waits; ++k) {
    const program::Wait& x = waits[a.first_wait + k];
    const program::Wait& y = waits[b.first_wait + k];
    if (x.stream != y.stream) {
      return false;
    }
    const std::uint32_t on = r.first_stream + x.stream;
    const std::uint32_t need = machine_.need(r, step, x);
    const std::uint32_t later = machine_.need(r, step, y);
    const bool held = need <= from.completed[on] && later <= from.completed[on];
    if (!held && (x.lag != y.lag || x.position + shift_.tasks[on] != y.position)) {
      return false;
    }
  }
  return true;
}

// The first of a stream's tasks from `first` to before `end` that the host, which stood still since
// the mark, may hold back: that it has not issued yet, or not before the start of the period in
// which the task begins.
std::uint32_t Repeats::held_back(const Mark& from, const StreamState& s, std::uint32_t first,
                                 std::uint32_t end) const {
  const RankState& r = machine_.ranks_[s.rank];
  const std::uint64_t n = r.program->segments.size();
  if (r.host_step >= s.step + kHostSteps) {
    return first;
  }
  const Time* bases = &machine_.bases_[r.first_base + (s.step % kBaseSteps) * n];
  const std::uint32_t by = shift_.tasks[r.first_stream + s.index];
  // What ran at the mark had begun before it: the period's first task is the next one.
  const std::uint32_t begun = s.state == Activity::running || s.state == Activity::meeting ? 1 : 0;
  Time start = from.time;
  std::uint32_t next = first + begun + by;
  for (std::uint32_t i = first + begun; i < end; ++i) {
    if (i == next) {
      start += shift_.period;
      next += by;
    }
    const CompiledTask& t = s.tasks[i];
    if (r.issued <= std::uint64_t{s.step} * n + t.segment ||
        bases[t.segment] + t.issue_offset > start) {
      return i;
    }
  }
  return end;
}

// Whether the streams of a rank stand, and stood, where those of an earlier one of its program do.
bool Repeats::stands_as(const Mark& from, std::uint32_t rank, std::uint32_t other) const {
  const RankState& a = machine_.ranks_[rank];
  const RankState& b = machine_.ranks_[other];
  if (a.program != b.program || shift_.segments[rank] != shift_.segments[other]) {
    return false;
  }
  for (std::uint32_t k = 0; k < a.streams; ++k) {
    const std::uint32_t x = a.first_stream + k;
    const std::uint32_t y = b.first_stream + k;
    if (from.completed[x] != from.completed[y] || shift_.tasks[x] != shift_.tasks[y]) {
      return false;
    }
  }
  return true;
}

// The first task of a stream, from where it stood at the mark on, that is another than the one a
// period later; looked for no further than `end`.
std::uint32_t Repeats::differs_at(const Mark& from, std::uint32_t rs, std::uint64_t end) const {
  const StreamState& s = machine_.streams_[rs];
  const RankState& r = machine_.ranks_[s.rank];
  const std::uint32_t by = shift_.tasks[rs];
  const std::uint32_t segments = shift_.segments[s.rank];
  const std::vector<program::Transfer>& transfers = r.program->source->transfers;
  const auto same_transfers = [&](const CompiledTask& a, const CompiledTask& b) {
    for (std::uint32_t k = 0; k < a.transfers; ++k) {
      const program::Transfer& x = transfers[a.first_transfer + k];
      const program::Transfer& y = transfers[b.first_transfer + k];
      if (x.channel != y.channel || x.price != y.price || x.send != y.send) {
        return false;
      }
    }
    return true;
  };
  const auto same = [&](const CompiledTask& a, const CompiledTask& b) {
    return alike(a, b) && same_waits(from, r, s.step, a, b) && same_transfers(a, b) &&
           (segments == 0 ||
            (a.segment + segments == b.segment && a.issue_offset == b.issue_offset));
  };
  std::uint32_t i = s.position - by;
  while (i + by < end && same(s.tasks[i], s.tasks[i + by])) {
    ++i;
  }
  return i;
}

bool Repeats::tasks_repeat(const Mark& from, std::uint32_t rs) {
  const StreamState& s = machine_.streams_[rs];
  const std::uint32_t by = shift_.tasks[rs];
  // As far as the jump goes by what is known already.
  const std::uint64_t end = std::min<std::uint64_t>(
      s.count, s.position + 1 + static_cast<std::uint64_t>(shift_.most) * by);
  // Ranks of one program follow each other in most worlds: those that stand alike are as far.
  if (s.rank > 0 && like_before_[s.rank]) {
    differs_[rs] = differs_[machine_.ranks_[s.rank - 1].first_stream + s.index];
  } else {
    differs_[rs] = differs_at(from, rs, end);
  }
  const std::uint32_t i = differs_[rs];
  // Tasks up to i - 1 return a period later; the head is to be one of them.
  limit(i <= s.position ? 0 : (i - 1 - s.position) / by + 1);
  if (shift_.segments[s.rank] == 0 && shift_.most > 0) {
    const std::uint32_t held = held_back(
        from, s, s.position - by, static_cast<std::uint32_t>(std::min<std::uint64_t>(i + by, end)));
    limit(held <= s.position ? 0 : (held - 1 - s.position) / by);
  }
  return shift_.most > 0;
}

// ---------------------------------------------------------------- the jump

void Repeats::jump(const Mark& from) {
  Machine& m = machine_;
  const std::int64_t periods = shift_.most;
  const Time by = shift_.period * periods;
  const auto times = static_cast<std::uint32_t>(periods);
  if (m.history_ != nullptr) {
    m.history_->repeat(shift_.tasks, times, shift_.period);
  }
  m.note_jump(by);
  m.events_ += (m.events_ - from.events) * times;
  m.shared_events_ += (m.shared_events_ - from.shared_events) * times;
  const std::uint64_t tasks = (m.tasks_done_ - from.tasks_done) * times;
  m.tasks_done_ += tasks;
  skipped_ += tasks;
  for (std::uint32_t id = 0; id < m.operations_.size(); ++id) {
    Operation& op = m.operations_[id];
    if (!op.open) {
      continue;
    }
    if (m.begun(op)) {
      op.begin += by;
      op.last_ordinal += shift_.tasks[op.last] * times;
    }
    if (op.kind == TaskKind::collective) {
      op.use += shift_.uses[first_role_[op.home]] * times;
    }
    if (op.flowing) {
      m.network_.postpone(id, by);
    }
  }
  for (std::uint32_t k = 0; k < m.uses_.size(); ++k) {
    m.uses_[k] += shift_.uses[k] * times;
  }
  for (std::uint32_t r = 0; r < m.ranks_.size(); ++r) {
    move_rank(from, r, periods, by);
  }
  m.queue_.postpone(by);
}

void Repeats::move_rank(const Mark& from, std::uint32_t rank, std::int64_t periods, Time by) {
  Machine& m = machine_;
  RankState& r = m.ranks_[rank];
  const auto times = static_cast<std::uint32_t>(periods);
  // Heads' waits name streams by where these are now.
  for (std::uint32_t rs = r.first_stream; rs < r.first_stream + r.streams; ++rs) {
    StreamState& s = m.streams_[rs];
    if (shift_.tasks[rs] > 0 && s.state == Activity::idle) {
      const CompiledTask& t = s.tasks[s.position];
      if (s.wait_index < t.waits) {
        const program::Wait& w = r.program->source->waits[t.first_wait + s.wait_index];
        s.awaited += shift_.tasks[r.first_stream + w.stream] * times;
      }
    }
  }
  for (std::uint32_t rs = r.first_stream; rs < r.first_stream + r.streams; ++rs) {
    StreamState& s = m.streams_[rs];
    if (shift_.tasks[rs] > 0) {
      s.arrive += by;
      s.begin += by;
      s.last_end += by;
      s.since += by;
      s.position += shift_.tasks[rs] * times;
      s.completed += shift_.tasks[rs] * times;
    }
    s.soonest = 0;  // whoever watches it awaits later tasks
  }
  Account& account = m.accounts_[rank];
  for (std::size_t i = 0; i < account.now.size(); ++i) {
    account.now[i] += (account.now[i] - from.breakdowns[rank][i]) * periods;
  }
  for (Passage& p : account.passages) {
    p.arrive += by;
    p.begin += by;
    p.end += by;
  }
  const std::uint32_t segments = shift_.segments[rank];
  if (segments == 0) {
    return;
  }
  const std::uint64_t ring = kBaseSteps * r.program->segments.size();
  for (std::uint64_t q = r.issued; q < r.issued + std::uint64_t{segments} * times; ++q) {
    m.bases_[r.first_base + q % ring] =
        m.bases_[r.first_base + (q - segments) % ring] + shift_.period;
  }
  r.clock += by;
  r.issued += std::uint64_t{segments} * times;
  r.host_segment += segments * times;
  r.host_need += shift_.tasks[r.first_stream + r.host_stream] * times;
}

}  // namespace stepcast::engine
