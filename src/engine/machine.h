// The state of a run and its transitions.
//
// An instant is handled in rounds: first all its events are applied (tasks end, transfers begin),
// then every stream that this may have freed is looked at, and what starts there may end at the
// same instant, which makes the next round. Only when no event of the instant is left are speeds of
// kernels and rates of transfers worked out again, once. So nothing depends on the order of events
// within a round, hence not on the numbering of ranks, and folded equals full.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compile.h"
#include "digest.h"
#include "event_queue.h"
#include "network.h"
#include "prepared.h"
#include "stepcast/engine/engine.h"

namespace stepcast::engine {

constexpr std::int64_t kFullSpeed = 1'000'000;  // parts per million
constexpr std::uint32_t kHostBit = 1U << 31;
constexpr std::uint32_t kHostSteps = 4;  // steps whose issue times are known
// Steps whose issue times are kept: those too that tasks of the step before the last recorded one
// had, when some rank is a step ahead of another and its host two steps ahead of it.
constexpr std::uint32_t kBaseSteps = 8;
constexpr std::uint8_t kBoundByHost = kMaxStreams;
constexpr std::uint8_t kBoundByNothing = kMaxStreams + 1;

enum class Activity : std::uint8_t { idle, waking, running, meeting };

// What every task reads comes first, in a cache line of its own: large worlds have very many
// streams.
struct alignas(64) StreamState {
  const CompiledTask* tasks = nullptr;
  Time arrive{0};
  Time last_end{0};
  std::uint32_t count = 0;       // tasks per step
  std::uint32_t position = 0;    // of the head, in the step
  std::uint32_t step = 0;        // of the head
  std::uint32_t completed = 0;   // since the start of the run
  std::uint32_t generation = 0;  // of the end event
  std::uint32_t watchers = 0;    // streams of the rank whose head waits for this one
  std::uint32_t awaited = 0;     // while watching another stream: tasks it must have completed
  std::uint32_t rank = 0;
  std::uint16_t wait_index = 0;  // waits of the head before this one hold
  std::uint8_t bound_by = 0;     // what the head's arrival waited for
  std::uint8_t index = 0;
  Activity state = Activity::idle;
  std::uint8_t credit_row = 0;

  Int128 remaining = 0;  // kernel: picoseconds times parts per million
  Time begin{0};
  Time since{0};                  // kernel: `remaining` was true then
  std::uint32_t next_member = 0;  // in the collective that the head belongs to
  std::int32_t speed = 0;
  std::int32_t credit = 0;  // what the last kernel left of its last picosecond
  std::uint16_t pressure = 0;
  std::uint16_t pending = 0;  // exchange: transfers that have not ended
  std::uint16_t moving = 0;   // operations of the head for which everyone is there
  // No watcher has what it awaits before so many tasks are completed.
  std::uint32_t soonest = 0;

  void watched_by(std::uint32_t watcher, std::uint32_t needs) {
    soonest = watchers == 0 ? needs : std::min(soonest, needs);
    watchers |= watcher;
  }
};
static_assert(sizeof(StreamState) == 128);

struct alignas(64) RankState {
  const CompiledProgram* program = nullptr;
  const program::Wait* waits = nullptr;  // of the program
  std::uint32_t first_stream = 0;
  std::uint32_t streams = 0;
  std::uint32_t examine = 0;       // streams to look at
  std::uint32_t slowed = 0;        // streams that run a kernel with a slowdown row
  std::uint32_t host_blocked = 0;  // streams whose head the host has not issued
  std::int32_t pressure = 0;
  std::int32_t transfer_speed = static_cast<std::int32_t>(kFullSpeed);
  bool dirty = false;
  bool repricing = false;
  bool host_waits = false;
  // host
  Time clock{0};
  std::uint64_t issued = 0;  // segments, since the start of the run
  std::uint32_t host_step = 0;
  std::uint32_t host_segment = 0;
  std::uint32_t host_need = 0;  // tasks that stream `host_stream` must have completed
  std::uint32_t host_stream = 0;
  std::size_t first_base = 0;     // into Machine::bases_
  std::uint32_t first_usage = 0;  // of copies, into Machine::usages_
  std::uint32_t usages = 0;
  std::uint32_t segments = 0;  // of the program
  // As in program::Rank.
  std::uint32_t first_communicator = 0;
  std::uint32_t first_channel = 0;
};

// A collective, a transfer of an exchange, or a copy.
struct Operation {
  const program::Price* price = nullptr;
  Time begin{0};
  std::uint32_t home = 0;   // communicator, channel or rank
  std::uint32_t use = 0;    // collective: sequence number of the call on its communicator
  std::uint32_t key = 0;    // price key (collective), transfer key
  std::uint32_t next = 0;   // open operation of the same home
  std::uint32_t first = 0;  // stream of the first member; transfer: of who posted first
  std::uint32_t last = 0;   // stream of who arrived last
  std::uint32_t last_ordinal = 0;
  std::uint32_t arrived = 0;
  std::uint32_t generation = 0;
  program::TaskKind kind = program::TaskKind::collective;
  bool flowing = false;  // in the network
  bool send = false;     // unpaired transfer: which end it is
  bool open = false;     // from its first member to its end
};

// What ran on other streams while the compute stream was idle: enough to say what an idle stretch
// waited for.
struct Passage {
  Time arrive{0};
  Time begin{0};
  Time end{0};
  std::uint8_t stream = 0;
  std::uint8_t bound_by = 0;
  program::Category category = program::Category::compute;
  program::Category wait_category = program::Category::stall;
};

using Breakdown = std::array<Time, program::kCategories>;

struct Account {
  Breakdown now{};
  std::vector<Passage> passages;  // since the compute stream fell idle, by end
};

// What a part of a world (parts.h) has in common with the others, by their numbers in the whole;
// none: nobody else uses it.
struct Share {
  std::vector<std::uint32_t> communicators;
  std::vector<std::uint32_t> resources;
};

class History;
class Repeats;
class WaitingChain;

// Two steps are the least that can show a period.
inline std::uint32_t step_limit(const Options& options) {
  return options.once ? 1 : static_cast<std::uint32_t>(std::max(options.max_steps, 2));
}

class Machine {
 public:
  // `share`: the world is a part of another. Everything has been checked then, and all usages are
  // of resources that can bind.
  Machine(const program::World& world, const Options& options, Prepared::Programs& programs,
          const Share* share = nullptr);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // With the host ahead of the devices by what it issues before it first waits, as in a steady step
  // where it issued behind the last optimizer step; or with a host that has issued nothing, which
  // is nearer to the steady step where the host has more to do than the devices.
  void start(bool host_leads);
  // Handles the next instant; false when nothing is left to happen.
  bool advance();

  const program::World& world() const { return world_; }
  const Options& options() const { return options_; }
  Time now() const { return queue_.now(); }
  Prepared::Programs& programs() const { return programs_; }
  const CompiledProgram& program(std::uint32_t rank) const { return *ranks_[rank].program; }
  const RankState& rank(std::uint32_t r) const { return ranks_[r]; }
  const StreamState& stream(std::uint32_t rs) const { return streams_[rs]; }
  std::uint32_t steps_finished() const { return steps_finished_; }
  Time boundary(std::uint32_t step, std::uint32_t rank) const { return boundaries_[step][rank]; }
  // What a rank's streams and host were at, relative to its boundary: equal digests mean equal
  // positions, ages and leads.
  std::uint64_t digest(std::uint32_t step, std::uint32_t rank) const {
    return digests_[step][rank];
  }
  const Breakdown& breakdown(std::uint32_t step, std::uint32_t rank) const {
    return breakdowns_[step][rank];
  }
  std::uint64_t events() const { return events_; }
  std::uint64_t tasks_done() const { return tasks_done_; }
  // Of the events, those of operations that other parts take part in; and all that other parts have
  // to agree to: when such operations began, how fast they and what uses shared resources moved,
  // when they ended.
  std::uint64_t shared_events() const { return shared_events_; }
  const Digest& met() const { return met_; }
  // Hosts begin no later step from now on: what is known of steps up to `step` stays known.
  void keep_until(std::uint32_t step) { host_limit_ = std::min(host_limit_, step + kHostSteps); }
  bool finished() const { return unfinished_ == 0; }
  bool faulty() const { return !fault_.empty(); }
  const std::string& fault() const { return fault_; }
  History* history() { return history_.get(); }
  const History* history() const { return history_.get(); }
  // Host time at which a segment of a step began; false when it is no longer or not yet known.
  bool segment_base(std::uint32_t rank, std::uint32_t step, std::uint32_t segment,
                    Time& base) const;
  // Host time at which a task of a step was issued; zero when that is no longer known.
  Time issued_at(std::uint32_t rank, std::uint32_t step, const CompiledTask& t) const;
  std::vector<std::string> waiting_chain() const;
  std::string name(std::uint32_t rank, std::uint32_t stream) const;

 private:
  enum class EventKind : std::uint32_t { task_end, wake, flow, operation_end };
  struct CommunicatorState {
    std::uint32_t open = program::kNone;
    std::uint32_t first_usage = 0;  // into usages_
    std::uint32_t usages = 0;
    bool shared = false;      // with other parts
    std::uint64_t noted = 0;  // see note()
  };
  struct ChannelState {
    std::uint32_t head = program::kNone;
    std::uint32_t tail = program::kNone;
    std::uint32_t first_usage = 0;
    std::uint32_t usages = 0;
    std::uint64_t noted = 0;  // see note()
  };

  const program::World& world_;
  Options options_;
  Prepared::Programs& programs_;
  EventQueue queue_;
  Network network_;
  std::vector<RankState> ranks_;
  std::vector<StreamState> streams_;
  std::vector<Time> bases_;
  std::vector<Operation> operations_;
  // What has been a shared operation is never another: its events may outlast it.
  std::vector<std::uint32_t> free_operations_;
  std::vector<std::uint32_t> free_shared_;
  std::vector<CommunicatorState> communicators_;
  std::vector<ChannelState> channels_;
  std::vector<program::Usage> usages_;  // those of resources that can bind
  std::vector<std::uint32_t> uses_;     // parallel to World::communicator_table
  std::vector<Account> accounts_;
  std::vector<std::vector<Time>> boundaries_;
  std::vector<std::vector<Breakdown>> breakdowns_;
  std::vector<std::vector<std::uint64_t>> digests_;
  std::vector<std::uint32_t> ranks_done_;          // by step
  std::vector<std::uint64_t> issued_at_boundary_;  // segments, by rank, at its last boundary
  std::unique_ptr<History> history_;
  // work lists of an instant
  std::vector<Event> batch_;
  std::vector<std::uint32_t> dirty_;
  std::vector<std::uint32_t> repricing_;
  std::vector<std::vector<std::uint32_t>>
      flowing_;  // operations by rank, when transfers slow beside kernels
  std::string fault_;
  std::uint64_t events_ = 0;
  std::uint64_t shared_events_ = 0;
  std::uint64_t tasks_done_ = 0;
  std::uint64_t unfinished_ = 0;  // streams
  Digest met_{0, 0};
  std::uint32_t steps_finished_ = 0;
  std::uint32_t limit_ = 0;
  std::uint32_t host_limit_ = 0;  // the same, of hosts
  bool transfers_slow_ = false;
  bool keys_agree_ = false;  // of every transfer, whatever the times
  bool is_part_ = false;
  std::vector<std::uint64_t> copies_noted_;  // by rank, as CommunicatorState::noted
  std::vector<std::uint32_t> recapped_;      // operations of another cap since settle()

  // machine.cpp
  void keep_binding_usages();
  bool is_shared(const Operation& op) const {
    return is_part_ && op.kind == program::TaskKind::collective && communicators_[op.home].shared;
  }
  enum class Noted : std::uint8_t { begin, cap, rate, end, jump };
  // Of an operation that other parts take part in, or that uses what others use.
  void note(const Operation& op, Noted what, Time at, std::int64_t rate) {
    if (is_part_) {
      note_shared(op, what, at, rate);
    }
  }
  void note_shared(const Operation& op, Noted what, Time at, std::int64_t rate);
  void note_jump(Time by);
  void find_noted(const Share& share);
  void push(Time time, EventKind kind, std::uint32_t subject, std::uint32_t generation) {
    // What would end behind the end of time may still be overtaken, by a transfer's higher rate.
    queue_.push(Event{std::min(time, kEndOfTime),
                      (static_cast<std::uint32_t>(kind) << 30) | subject, generation});
  }
  void apply(const Event& e, Time now);
  void mark(RankState& r, std::uint32_t rank, std::uint32_t streams);
  std::uint32_t released(const RankState& r, StreamState& s);
  void examine(std::uint32_t rank, Time now);
  void try_start(RankState& r, std::uint32_t rs, Time now);
  void begin(RankState& r, std::uint32_t rs, const CompiledTask& t, Time now);
  void begin_kernel(RankState& r, std::uint32_t rs, const CompiledTask& t, Time now);
  void complete(std::uint32_t rs, Time now, const Operation* by);
  void finish_step(std::uint32_t rank, std::uint32_t step, Time now);
  std::uint64_t state_digest(std::uint32_t rank, std::uint32_t step, Time now) const;
  void press(RankState& r, std::uint32_t rank, int by);
  // What the head of stream `rs` takes of its GPU from now on.
  void press_to(RankState& r, std::uint32_t rs, std::uint16_t pressure);
  std::uint16_t waiting_exchange(const StreamState& s, const CompiledTask& t) const;
  void reprice(RankState& r, Time now);
  std::int64_t kernel_speed(const RankState& r, std::uint8_t row) const;
  std::uint8_t bound_by(const RankState& r, const StreamState& s, const CompiledTask& t,
                        Time now) const;
  // How many tasks the stream of `w` must have completed since the start of the run.
  std::uint32_t need(const RankState& r, std::uint32_t step, const program::Wait& w) const {
    return w.lag > step ? 0
                        : (step - w.lag) * streams_[r.first_stream + w.stream].count + w.position;
  }
  // When the host issues the head of a stream.
  Time issue_of(const RankState& r, const StreamState& s, const CompiledTask& t) const {
    return bases_[r.first_base + (s.step % kBaseSteps) * r.segments + t.segment] + t.issue_offset;
  }
  void settle(Time now);

  // operations.cpp
  std::uint32_t open_operation(program::TaskKind kind, std::uint32_t home, std::uint32_t rs);
  void join_collective(RankState& r, std::uint32_t rs, const CompiledTask& t, Time now);
  void post_exchange(RankState& r, std::uint32_t rs, const CompiledTask& t, Time now);
  void post(RankState& r, std::uint32_t rs, const program::Transfer& x, Time now);
  void start_copy(RankState& r, std::uint32_t rs, const CompiledTask& t, Time now);
  bool begun(const Operation& op) const;
  void begin_operation(std::uint32_t id, Time now);
  void flow(std::uint32_t id, Time now);
  void end_operation(std::uint32_t id, Time now);
  std::int64_t capped_rate(const Operation& op) const;
  void recap(std::uint32_t rank);
  void usages(const Operation& op, const program::Usage*& first, std::uint32_t& count) const;
  template <class F>
  void for_each_member(const Operation& op, F&& f) const;
  void set_fault(std::string text);

  // host.cpp
  void advance_host(RankState& r, Time now);

  // accounting.cpp
  void charge_busy(Account& a, const StreamState& s, const CompiledTask& t, Time now);
  void charge_idle(std::uint32_t rank, Time from, Time to, std::uint8_t bound);
  friend class History;
  friend class Repeats;
  friend class WaitingChain;
};

}  // namespace stepcast::engine
