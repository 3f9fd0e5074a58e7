// Where a compute stream's time goes. Busy time is the task's own; idle time is walked back along
// what it waited for.
#include <algorithm>

#include "machine.h"

namespace stepcast::engine {

using program::Category;
using program::TaskKind;

namespace {

Time& at(Breakdown& b, Category c) { return b[static_cast<std::size_t>(c)]; }

}  // namespace

void Machine::charge_busy(Account& a, const StreamState& s, const CompiledTask& t, Time now) {
  if (t.kind == TaskKind::kernel) {
    const Time extra = now - s.arrive - t.duration;
    at(a.now, t.category) += t.duration;
    if (extra != Time{0}) {
      at(a.now, Category::slowdown) += extra;
    }
  } else {
    at(a.now, t.wait_category) += s.begin - s.arrive;
    at(a.now, t.category) += now - s.begin;
  }
}

// Charges [from, to], in which the compute stream was idle; what ended at `to` is `bound`. A task
// on another stream is charged for its transfer and for its wait for peers; before its arrival,
// whatever that waited for, and so on.
void Machine::charge_idle(std::uint32_t rank, Time from, Time to, std::uint8_t bound) {
  Account& account = accounts_[rank];
  const RankState& r = ranks_[rank];
  const std::vector<Segment>& segments = r.program->segments;
  const std::vector<Passage>& passages = account.passages;
  std::size_t i = passages.size();
  const auto base = [&](std::uint64_t q) {
    return bases_[r.first_base + q % (kBaseSteps * segments.size())];
  };
  while (to > from) {
    if (bound == kBoundByHost) {
      const std::uint64_t oldest =
          r.issued > kHostSteps * segments.size() ? r.issued - kHostSteps * segments.size() : 0;
      std::uint64_t q = r.issued - 1;
      while (q > oldest && base(q) > to) {
        --q;
      }
      for (;;) {
        const Time since = std::clamp(base(q), from, to);
        at(account.now, Category::host) += to - since;
        to = since;
        if (to <= from || q == oldest) {
          break;
        }
        --q;
        const Segment& g = segments[q % segments.size()];
        if (base(q) + g.length < to) {  // a sync held the host up
          bound = g.step_end ? std::uint8_t{0} : g.wait.stream.value();
          break;
        }
      }
      if (to <= from || bound == kBoundByHost) {
        break;
      }
      continue;
    }
    while (i > 0 && !(passages[i - 1].stream == bound && passages[i - 1].end == to)) {
      --i;
    }
    if (i == 0) {
      break;
    }
    const Passage& p = passages[--i];
    const Time arrive = std::max(p.arrive, from);
    const Time begin = std::max(p.begin, arrive);
    at(account.now, p.category) += to - begin;
    at(account.now, p.wait_category) += begin - arrive;
    to = arrive;
    bound = p.bound_by;
  }
  at(account.now, Category::stall) += to - from;
}

}  // namespace stepcast::engine
