#include "replay_memo.h"

#include <algorithm>
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
  DigestPair value() const { return of_; }

 private:
  DigestPair of_ = {kFnvOffset, 0};
};

// Of what a tape is recorded from: its form, and sizes beside it.
class SourceDigester {
 public:
  explicit SourceDigester(const program::Program& p) : p_(p) {}

  void add(const program::Block& b) {
    form_.add(std::uint64_t{b.begin} << 16U | std::uint64_t{b.end} | add_size(b.bytes) << 32U);
  }
  void add(const program::Buffer& b) {
    const auto kinds = static_cast<std::uint64_t>(b.category) << 16U |
                       static_cast<std::uint64_t>(b.place) << 8U | std::uint64_t{b.stream};
    std::uint64_t flags = add_size(b.bytes);
    for (const bool flag :
         {b.persistent, b.transient, b.lazy, b.later, b.initial, b.among_persistent}) {
      flags = flags << 1U | (flag ? 1U : 0U);
    }
    form_.add(flags << 32U | kinds);
    form_.add(b.first_step);
    add_tensors(b);
  }
  void add(const program::FirstStepBuffer& b) {
    form_.add(add_size(b.bytes));
    add_tensors(b);
  }
  void add(const program::Making& m) {
    form_.add(std::uint64_t{m.buffer} << 32U | m.tensor);
    form_.add(add_size(m.bytes));
  }
  void add_counts(std::size_t events) {
    form_.add(add_size(p_.first_step_extra));
    form_.add(p_.lazy_from ? *p_.lazy_from : ~std::uint64_t{0});
    for (const std::size_t count :
         {p_.blocks.size(), p_.buffers.size(), p_.first_steps.size(), p_.making.size(), events}) {
      form_.add(count);
    }
  }
  Digests& form() { return form_; }
  SourceDigests value() const {
    Digests all = form_;
    for (const std::uint64_t half : sizes_.value()) {
      all.add(half);
    }
    return {all.value(), form_.value()};
  }

 private:
  // Whether there is anything of it.
  std::uint64_t add_size(Bytes bytes) {
    sizes_.add(static_cast<std::uint64_t>(bytes.count()));
    return bytes.count() > 0 ? 1 : 0;
  }
  template <class B>
  void add_tensors(const B& b) {
    form_.add(std::uint64_t{b.first_block} << 32U | b.blocks);
    form_.add(std::uint64_t{b.taken} << 32U | b.handed);
    for (const std::uint32_t tensor : {b.taken, b.handed}) {
      if (tensor != program::Buffer::kNoTensor && tensor < std::max<std::uint32_t>(1, b.blocks)) {
        form_.add(number_of(b.blocks == 0 ? b.bytes : p_.blocks[b.first_block + tensor].bytes));
      }
    }
  }
  // What one pass hands on another takes if it is as large: sizes are numbered as they come.
  std::uint64_t number_of(Bytes bytes) {
    const auto at = std::find(handed_.begin(), handed_.end(), bytes);
    const auto number = static_cast<std::uint64_t>(at - handed_.begin());
    if (at == handed_.end()) {
      handed_.push_back(bytes);
    }
    return number;
  }

  const program::Program& p_;
  Digests form_;
  Digests sizes_;
  std::vector<Bytes> handed_;
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

SourceDigests digests_of(const program::Program& p,
                         const std::vector<program::MemoryEvent>& trace) {
  SourceDigester out(p);
  for (const program::Block& b : p.blocks) {
    out.add(b);
  }
  for (const program::Buffer& b : p.buffers) {
    out.add(b);
  }
  for (const program::FirstStepBuffer& b : p.first_steps) {
    out.add(b);
  }
  for (const program::Making& m : p.making) {
    out.add(m);
  }
  out.add_counts(trace.size());
  // The trace has an event for each allocation and release of the host, in order.
  Digests& form = out.form();
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
      form.add(what);
    }
  }
  form.add(changes);
  for (; event != trace.end(); ++event) {
    form.add(std::uint64_t{event->buffer} << 1U | (event->allocate ? 1U : 0U));
  }
  return out.value();
}

namespace {

// Of all tapes that are kept but the last: those of a job's stages, which come again in its
// neighbour.
constexpr std::size_t kMostTapeBytes = std::size_t{32} << 20;
constexpr std::size_t kMostForms = 64;

std::size_t bytes_of(const memory::RecordedTape& of) {
  return of.tape.calls.capacity() * (sizeof(memory::Call) + sizeof(memory::TracePlace));
}

}  // namespace

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

const UnlimitedReplay* ReplayMemo::find(const TapeKey& key) const {
  const auto at = unlimited_.find(key);
  return at == unlimited_.end() ? nullptr : &at->second;
}

void ReplayMemo::keep(const TapeKey& key, const UnlimitedReplay& of) {
  if (unlimited_.size() >= kMostKnown) {
    unlimited_.clear();
  }
  unlimited_.insert_or_assign(key, of);
}

memory::RecordedTape* ReplayMemo::find_tape(const DigestPair& form) {
  const auto at = std::find_if(tapes_.begin(), tapes_.end(),
                               [&](const KeptTape& kept) { return kept.form == form; });
  if (at == tapes_.end()) {
    return nullptr;
  }
  std::rotate(tapes_.begin(), at, at + 1);
  return tapes_.front().tape.get();
}

memory::RecordedTape* ReplayMemo::keep_tape(const DigestPair& form) {
  if (std::find(forms_.begin(), forms_.end(), form) == forms_.end()) {
    forms_.insert(forms_.begin(), form);
    forms_.resize(std::min(forms_.size(), kMostForms));
    return nullptr;
  }
  std::size_t bytes = 0;
  for (const KeptTape& kept : tapes_) {
    bytes += bytes_of(*kept.tape);
  }
  KeptTape made{form, nullptr};
  for (; bytes > kMostTapeBytes; tapes_.pop_back()) {
    bytes -= bytes_of(*tapes_.back().tape);
    made.tape = std::move(tapes_.back().tape);  // for its storage
  }
  if (made.tape == nullptr) {
    made.tape = std::make_unique<memory::RecordedTape>();
  }
  tapes_.insert(tapes_.begin(), std::move(made));
  return tapes_.front().tape.get();
}

}  // namespace stepcast::forecast
