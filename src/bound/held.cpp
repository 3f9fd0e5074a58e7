#include "held.h"

#include <algorithm>

namespace stepcast::bound {
namespace {

using schedule::Slot;
using Kind = schedule::Pass;

class Held {
 public:
  Held(const std::vector<Slot>& slots, const std::vector<Pass>& passes,
       const lower::WholeUnits& units)
      : slots_(slots), passes_(passes), units_(units), chunks_(passes.size()) {
    for (const Slot& slot : slots) {
      chunks_[slot.chunk].backwards_left += slot.pass == Kind::backward ? 1 : 0;
      splits_ = splits_ || slot.pass == Kind::input_grad;
    }
    // Where weight gradients have slots of their own, units are gathered and reduced otherwise.
    units_.applies = units_.applies && !splits_;
  }

  std::int64_t most() {
    for (const Slot& slot : slots_) {
      if (slot.pass == Kind::forward) {
        forward(slot.chunk);
      } else if (slot.pass == Kind::backward || slot.pass == Kind::input_grad) {
        backward(slot.chunk);
      }
    }
    return most_;
  }

 private:
  struct Chunk {
    std::int64_t whole = 0, waiting = 0;  // bytes of parameters and of gradients
    int backwards_left = 0;
  };

  void forward(int chunk) {
    const Pass& of = passes_[chunk];
    const int copies = chunks_[chunk].whole == 0 ? 2 : 1;
    live_ += of.kept;
    take(chunk, !units_.drops_after_forward, false);
    // What was gathered stands beside its copy until the next unit's is there.
    note(of.last_forward + (of.last_is_layer ? copies * whole(chunk, of.last_layer) : 0));
  }

  // Bytes of parameters of units that are whole for their pass alone.
  std::int64_t whole(int chunk, std::int64_t parameters) const {
    return units_.applies && chunks_[chunk].whole == 0
               ? static_cast<std::int64_t>(static_cast<double>(parameters) * units_.parameter)
               : 0;
  }

  void backward(int chunk) {
    const Pass& of = passes_[chunk];
    const std::int64_t next = units_.gathers_next ? whole(chunk, of.layer_before) : 0;
    const std::int64_t own = of.last_is_layer ? whole(chunk, of.last_layer) + next : 0;
    note(splits_ ? 0 : of.last_backward + own);
    const bool more = --chunks_[chunk].backwards_left > 0;
    if (units_.applies && units_.drops_after_backward && !(more && units_.gradients_wait)) {
      // The layer itself has been dropped.
      const double dropped = chunks_[chunk].whole > 0 ? units_.parameter : 0;
      const double reduced = static_cast<double>(of.last_layer) * (units_.reducing - dropped);
      note(next + static_cast<std::int64_t>(reduced) - of.given_up);
    }
    live_ -= of.kept;
    // From the last backward pass on, the units go one after the other.
    take(chunk, more && !units_.drops_after_backward, more && units_.gradients_wait);
    note(0);
  }

  // Whether the chunk's layers are whole from here on, and whether their gradients wait.
  void take(int chunk, bool whole, bool waits) {
    if (!units_.applies) {
      return;
    }
    Chunk& c = chunks_[chunk];
    const Pass& of = passes_[chunk];
    const auto bytes = [&](double each) {
      return static_cast<std::int64_t>(
          static_cast<double>(of.layer_parameters + of.expert_parameters) * each);
    };
    live_ -= c.whole;
    c.whole = whole ? bytes(units_.parameter) : 0;
    live_ += c.whole;
    if (waits || c.backwards_left <= 0) {
      live_ -= c.waiting;
      c.waiting = waits ? bytes(units_.gradient) : 0;
      live_ += c.waiting;
    }
  }

  void note(std::int64_t more) { most_ = std::max(most_, live_ + more); }

  const std::vector<Slot>& slots_;
  const std::vector<Pass>& passes_;
  lower::WholeUnits units_;
  bool splits_ = false;
  std::vector<Chunk> chunks_;
  std::int64_t live_ = 0, most_ = 0;
};

}  // namespace

std::int64_t most_held(const strategy::Plan& plan, int rank, const std::vector<Pass>& passes,
                       const lower::WholeUnits& units) {
  return Held(plan.order.ranks[static_cast<std::size_t>(rank)], passes, units).most();
}

}  // namespace stepcast::bound
