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
  std::array<std::uint64_t, 2> value() const { return of_; }

 private:
  std::array<std::uint64_t, 2> of_ = {kFnvOffset, 0};
};

}  // namespace

std::array<std::uint64_t, 2> digests_of(const memory::Tape& tape) {
  Digests out;
  // The binding names every field, so this does not compile until an added field counts too.
  const auto& [calls, safe, own, first, later, tensors] = tape;
  out.add_all(calls);
  out.add_all(safe);
  out.add_all(own);
  out.add_all(first);
  out.add_all(later);
  out.add(tensors);
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
