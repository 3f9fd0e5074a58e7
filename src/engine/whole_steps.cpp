// A step that repeats the one before is not run to its end. Where every stream and host stands at
// the place at which it stood in the step before, in the same state but for the time, all that
// follows is what followed then, a period later: the boundary, the breakdown, and what the step
// leaves.
//
// A host that waits, and has issued nothing that is not past, may be another time behind than it
// was: what comes is the same from the moment on at which it goes on. The state at the step's end
// is the same only where that moment lies before it.
#include <algorithm>
#include <utility>

#include "history.h"
#include "repeats.h"

namespace stepcast::engine {

namespace {

// Places at which steps are compared: as many as cost little beside the tasks of the step.
constexpr std::size_t kMostPlaces = 64;
constexpr std::size_t kTasksForOne = 64;  // of a stream

}  // namespace

void Repeats::begin_whole_steps() {
  const Machine& m = machine_;
  if (m.options_.record_slices || m.limit_ < 3) {
    return;
  }
  std::size_t tasks = 0;
  for (const StreamState& s : m.streams_) {
    tasks += s.count;
  }
  const std::size_t places =
      std::clamp(tasks / (kTasksForOne * m.streams_.size()), std::size_t{1}, kMostPlaces);
  spacing_ = static_cast<std::uint32_t>(m.streams_.front().count / (places + 1)) + 1;
}

bool Repeats::note_finished() {
  if (machine_.steps_finished_ == finished_.steps) {
    return false;
  }
  finished_ = {machine_.steps_finished_, machine_.events_, machine_.shared_events_,
               machine_.tasks_done_};
  return true;
}

bool Repeats::ends_alike(const Digest& digest) {
  const Machine& m = machine_;
  StepMark now{mark_of(digest), {}};
  for (const RankState& r : m.ranks_) {
    now.clocks.push_back(r.clock);
  }
  // The host stands still once it has issued the last step that may be run.
  if (finished_.steps == step_ && step_ > 0 && step_ + 2 < m.limit_) {
    for (const StepMark& before : step_before_) {
      if (before.at.digest.a == digest.a && before.at.digest.b == digest.b &&
          same_place(before, now)) {
        finish_as(before);
        spacing_ = 0;
        return true;
      }
    }
  }
  step_now_.push_back(std::move(now));
  return false;
}

bool Repeats::same_place(const StepMark& before, const StepMark& now) const {
  const Machine& m = machine_;
  for (std::uint32_t rs = 0; rs < m.streams_.size(); ++rs) {
    const StreamState& s = m.streams_[rs];
    const bool within = s.index == 0 ? s.step == step_ : s.step >= step_;
    if (s.count > 0 && (!within || s.completed != before.at.completed[rs] + s.count)) {
      return false;
    }
  }
  for (std::uint32_t r = 0; r < m.ranks_.size(); ++r) {
    if (!host_alike(before, now, r)) {
      return false;
    }
  }
  return true;
}

bool Repeats::host_alike(const StepMark& before, const StepMark& now, std::uint32_t rank) const {
  const Machine& m = machine_;
  const RankState& r = m.ranks_[rank];
  const std::vector<Segment>& segments = r.program->segments;
  const std::uint64_t n = segments.size();
  if (r.issued != before.at.issued[rank] + n || !r.host_waits) {
    return false;
  }
  const Time period = now.at.time - before.at.time;
  const bool woken = m.issued_at_boundary_[rank] > before.at.issued[rank];
  if (now.clocks[rank] - period != before.clocks[rank] && !woken) {
    return false;
  }
  const StreamState& compute = m.streams_[r.first_stream];
  const bool idle = compute.state == Activity::idle || compute.state == Activity::waking;
  const Time until = idle ? compute.last_end : now.at.time;
  const auto base = [&](std::uint64_t q) { return m.bases_[r.first_base + q % (kBaseSteps * n)]; };
  for (std::uint64_t q = r.issued; q-- > n && q + 2 * n >= r.issued;) {
    const Time end = base(q) + segments[q % n].length;
    const Time end_before = base(q - n) + segments[q % n].length;
    const bool past = end <= until;
    if (past != (end_before <= until - period) || (!past && end - period != end_before)) {
      return false;
    }
    if (past) {
      return true;
    }
  }
  return false;
}

// The machine is where it will be at this place of the next step, and is not run on.
void Repeats::finish_as(const StepMark& before) {
  Machine& m = machine_;
  const Time period = m.queue_.now() - before.at.time;
  if (m.history_ != nullptr) {
    std::vector<std::uint32_t> tasks;
    for (const StreamState& s : m.streams_) {
      tasks.push_back(s.count);
    }
    m.history_->note(std::move(tasks), 1, period);
  }
  const auto ranks = static_cast<std::uint32_t>(m.ranks_.size());
  m.boundaries_[step_].resize(ranks);
  m.breakdowns_[step_].resize(ranks);
  m.digests_[step_] = m.digests_[step_ - 1];
  for (std::uint32_t r = 0; r < ranks; ++r) {
    m.boundaries_[step_][r] = m.boundaries_[step_ - 1][r] + period;
    for (std::size_t i = 0; i < program::kCategories; ++i) {
      m.breakdowns_[step_][r][i] =
          m.accounts_[r].now[i] + m.breakdowns_[step_ - 1][r][i] - before.at.breakdowns[r][i];
    }
    RankState& rank = m.ranks_[r];
    const std::uint64_t n = rank.program->segments.size();
    const std::uint64_t ring = kBaseSteps * n;
    for (const std::uint64_t end = rank.issued + n; rank.issued < end; ++rank.issued) {
      m.bases_[rank.first_base + rank.issued % ring] =
          m.bases_[rank.first_base + (rank.issued - n) % ring] + period;
    }
  }
  for (StreamState& s : m.streams_) {
    if (s.count > 0) {
      ++s.step;
      s.completed += s.count;
    }
  }
  m.ranks_done_[step_] = ranks;
  m.steps_finished_ = step_ + 1;
  skipped_ += finished_.tasks_done - before.at.tasks_done;
  m.note_jump(period);
  m.events_ += finished_.events - before.at.events;
  m.shared_events_ += finished_.shared_events - before.at.shared_events;
  m.tasks_done_ += finished_.tasks_done - before.at.tasks_done;
}

}  // namespace stepcast::engine
