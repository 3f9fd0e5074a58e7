#include "stepcast/lower/merge.h"

#include <algorithm>

namespace stepcast::lower {
namespace {

using program::HostKind;
using program::HostOp;
using program::kNone;
using program::Program;
using program::Task;
using program::TaskKind;
using program::Wait;

// Host time from the launch before a task to its own; -1 when something other than work lies
// between.
std::vector<std::int64_t> launch_gaps(const Program& p) {
  std::vector<std::int64_t> gaps;
  std::int64_t gap = 0;
  bool broken = true;
  for (const HostOp& op : p.host) {
    switch (op.kind) {
      case HostKind::work:
        gap += op.duration;
        break;
      case HostKind::launch:
        for (std::uint32_t k = 0; k < op.count; ++k) {
          gaps.push_back(broken ? -1 : gap + op.duration);
          gap = 0;
          broken = false;
        }
        break;
      case HostKind::sync:
      case HostKind::allocate:
      case HostKind::release:
        broken = true;
        break;
    }
  }
  return gaps;
}

class Merger {
 public:
  Merger(const Program& p, const Blend& blend) : p_(p), blend_(blend), gaps_(launch_gaps(p)) {
    watched_.resize(p.streams.size());
    position_.resize(p.streams.size());
    for (std::size_t s = 0; s < p.streams.size(); ++s) {
      const auto on = static_cast<std::size_t>(std::count_if(
          p.tasks.begin(), p.tasks.end(), [s](const Task& t) { return t.stream == s; }));
      watched_[s].assign(on + 1, false);
      position_[s].assign(1, 0);
    }
    for (const Wait& w : p.waits) {
      watched_[w.stream][w.position] = true;
    }
    for (const HostOp& op : p.host) {
      if (op.kind == HostKind::sync) {
        watched_[op.wait.stream][op.wait.position] = true;
      }
    }
  }

  Program merged() {
    for (std::uint32_t i = 0; i < p_.tasks.size(); ++i) {
      if (i > 0 && joins(i)) {
        join(i);
      } else {
        close();
        open(i);
      }
      std::vector<std::uint32_t>& map = position_[p_.tasks[i].stream];
      map.push_back(map.back() + (starts_[i] ? 1U : 0U));
    }
    close();
    Program out = p_;
    out.tasks = std::move(tasks_);
    for (Wait& w : out.waits) {
      w.position = position_[w.stream][w.position];
    }
    out.host = host();
    return out;
  }

 private:
  const Program& p_;
  const Blend& blend_;
  std::vector<std::int64_t> gaps_;
  std::vector<std::vector<bool>> watched_;            // by stream and position
  std::vector<std::vector<std::uint32_t>> position_;  // old to new
  std::vector<Task> tasks_;
  std::vector<bool> starts_;  // by old task: begins a new one
  // The task being built.
  std::vector<std::pair<program::CurveId, std::int64_t>> parts_;
  std::int64_t issued_after_ = 0;  // host time since its launch

  bool joins(std::uint32_t i) const {
    const Task& a = p_.tasks[i - 1];
    const Task& b = p_.tasks[i];
    if (a.kind != TaskKind::kernel || b.kind != TaskKind::kernel || a.stream != b.stream ||
        b.waits != 0 || a.category != b.category || a.slowdown != b.slowdown ||
        (!blend_ && a.curve != b.curve) || gaps_[i] < 0) {
      return false;
    }
    const std::size_t between = position_[b.stream].size() - 1;  // positions before b on its stream
    return !watched_[b.stream][between] && issued_after_ + gaps_[i] <= tasks_.back().duration;
  }
  void open(std::uint32_t i) {
    starts_.push_back(true);
    tasks_.push_back(p_.tasks[i]);
    parts_.assign(1, {p_.tasks[i].curve, p_.tasks[i].duration});
    issued_after_ = 0;
  }
  void join(std::uint32_t i) {
    starts_.push_back(false);
    issued_after_ += gaps_[i];
    tasks_.back().duration += p_.tasks[i].duration;
    parts_.emplace_back(p_.tasks[i].curve, p_.tasks[i].duration);
  }
  void close() {
    if (blend_ && parts_.size() > 1) {
      tasks_.back().curve = blend_(parts_);
    }
  }

  // A launch that is no more costs its host time still.
  std::vector<HostOp> host() const {
    std::vector<HostOp> out;
    std::uint32_t next = 0;
    const auto work = [&](std::int64_t duration) {
      if (duration == 0) {
        return;
      }
      if (!out.empty() && out.back().kind == HostKind::work) {
        out.back().duration += duration;
        return;
      }
      HostOp op;
      op.duration = duration;
      out.push_back(op);
    };
    for (const HostOp& op : p_.host) {
      if (op.kind == HostKind::work) {
        work(op.duration);
      } else if (op.kind == HostKind::sync) {
        out.push_back(op);
        out.back().wait.position = position_[op.wait.stream][op.wait.position];
      } else if (op.kind != HostKind::launch) {
        out.push_back(op);
      } else {
        for (std::uint32_t k = 0; k < op.count; ++k) {
          if (!starts_[next++]) {
            work(op.duration);
          } else if (!out.empty() && out.back().kind == HostKind::launch &&
                     out.back().duration == op.duration) {
            ++out.back().count;
          } else {
            out.push_back(op);
            out.back().count = 1;
          }
        }
      }
    }
    return out;
  }
};

}  // namespace

Program merge_kernels(const Program& p, const Blend& blend) { return Merger(p, blend).merged(); }

}  // namespace stepcast::lower
