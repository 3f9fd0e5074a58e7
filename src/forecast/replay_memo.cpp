#include "replay_memo.h"

#include <bit>
#include <utility>

#include "stepcast/base/fnv.h"
#include "stepcast/base/splitmix.h"

namespace stepcast::forecast {
namespace {

// Some 300 bytes each. All are forgotten at once: what is known never changes an answer.
constexpr std::size_t kMostKnown = 1024;

class Digests {
 public:
  void add(std::uint64_t value) {
    of_[0] = fnv_mix(of_[0], value);
    of_[1] = splitmix(of_[1] + value);
  }
  // Most of a tape: each digest takes a call in one step.
  void add(const memory::Call& c) {
    const auto bytes = static_cast<std::uint64_t>(c.bytes);
    const std::uint64_t what = std::uint64_t{c.tensor} << 32U | std::uint64_t{c.stream} << 16U |
                               static_cast<std::uint64_t>(c.category) << 8U |
                               std::uint64_t{c.request};
    of_[0] = fnv_mix(of_[0], bytes ^ std::rotl(what, 20));
    of_[1] = splitmix(of_[1] + bytes * kSplitMixStep + what);
  }
  void add(const memory::Stretch& s) {
    add(std::uint64_t{s.begin} << 32U | s.end);
    add(std::uint64_t{s.position} << 32U | std::uint64_t{s.own});
  }
  template <class T>
  void add_all(const std::vector<T>& all) {
    add(all.size());
    for (const T& one : all) {
      add(one);
    }
  }
  void add(const program::Block& b) {
    add(static_cast<std::uint64_t>(b.bytes.count()));
    add(std::uint64_t{b.begin} << 16U | std::uint64_t{b.end});
  }
  void add(const program::Buffer& b) {
    add(static_cast<std::uint64_t>(b.bytes.count()));
    add(std::uint64_t{b.first_block} << 32U | b.blocks);
    add(std::uint64_t{b.taken} << 32U | b.handed);
    const auto kinds = static_cast<std::uint64_t>(b.category) << 16U |
                       static_cast<std::uint64_t>(b.place) << 8U | std::uint64_t{b.stream};
    std::uint64_t flags = 0;
    for (const bool flag :
         {b.persistent, b.transient, b.lazy, b.later, b.initial, b.among_persistent}) {
      flags = flags << 1U | (flag ? 1U : 0U);
    }
    add(flags << 32U | kinds);
    add(b.first_step);
  }
  void add(const program::FirstStepBuffer& b) {
    add(static_cast<std::uint64_t>(b.bytes.count()));
    add(std::uint64_t{b.first_block} << 32U | b.blocks);
    add(std::uint64_t{b.taken} << 32U | b.handed);
  }
  void add(const program::Making& m) {
    add(static_cast<std::uint64_t>(m.bytes.count()));
    add(std::uint64_t{m.buffer} << 32U | m.tensor);
  }
  DigestPair value() const { return of_; }

 private:
  DigestPair of_ = {kFnvOffset, 0};
};

}  // namespace

DigestPair digests_of(const memory::Tape& tape) {
  Digests out;
  // The binding names every field, so this does not compile until an added field counts too.
  const auto& [calls, safe, making, own, first, later, tensors] = tape;
  out.add_all(calls);
  out.add_all(safe);
  out.add_all(making);
  out.add_all(own);
  out.add_all(first);
  out.add_all(later);
  out.add(tensors);
  return out.value();
}

DigestPair digests_of(const program::Program& p, const std::vector<program::MemoryEvent>& trace) {
  Digests out;
  out.add_all(p.blocks);
  out.add_all(p.buffers);
  out.add_all(p.first_steps);
  out.add_all(p.making);
  // The trace has an event for each allocation and release of the host, in order.
  auto event = trace.begin();
  std::uint64_t changes = 0;
  for (const program::HostOp& op : p.host) {
    if (op.kind == program::HostKind::allocate || op.kind == program::HostKind::release) {
      ++changes;
      std::uint64_t what = op.streams != 0 ? 1 : 0;
      if (event != trace.end()) {
        what |= std::uint64_t{event->buffer} << 2U | (event->allocate ? 2U : 0U);
        ++event;
      }
      out.add(what);
    }
  }
  out.add(changes);
  out.add(p.lazy_from ? *p.lazy_from : ~std::uint64_t{0});
  out.add(static_cast<std::uint64_t>(p.first_step_extra.count()));
  out.add(trace.size());
  for (; event != trace.end(); ++event) {
    out.add(std::uint64_t{event->buffer} << 1U | (event->allocate ? 1U : 0U));
  }
  return out.value();
}

TapeMemory* ReplayMemo::find(const ReplayKey& key) {
  const auto at = known_.find(key);
  return at == known_.end() ? nullptr : &at->second;
}

TapeMemory& ReplayMemo::keep(const ReplayKey& key, TapeMemory of) {
  if (known_.size() >= kMostKnown) {
    known_.clear();
  }
  return known_.insert_or_assign(key, std::move(of)).first->second;
}

}  // namespace stepcast::forecast
