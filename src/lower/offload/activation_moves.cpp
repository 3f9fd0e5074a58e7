#include "activation_moves.h"

#include <algorithm>

namespace stepcast::lower {

using schedule::Pass;
using schedule::Slot;

namespace {

using Form = ActivationOffload;

int kind_of_pass(Pass pass) {
  return pass == Pass::forward ? 0 : pass == Pass::weight_grad ? 2 : 1;
}

bool is_backward(const Slot& slot) {
  return slot.pass == Pass::backward || slot.pass == Pass::input_grad;
}

bool visits_units(const Slot& slot) {
  return slot.pass != Pass::vocabulary && slot.pass != Pass::vocabulary_grad;
}

}  // namespace

Visits::Visits(const std::vector<Slot>& slots, const std::vector<std::size_t>& units)
    : first_(slots.size()), step_(slots.size(), 1), last_(slots.size()), slots_(3) {
  for (auto& chunks : slots_) {
    chunks.resize(units.size());
  }
  const auto count = [&](const Slot& s) {
    return visits_units(s) ? static_cast<int>(units[static_cast<std::size_t>(s.chunk)]) : 0;
  };
  int next = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const bool pair = slots[i].with_next && i + 1 < slots.size();
    const int here = count(slots[i]);
    first_[i] = next;
    if (pair) {
      const int there = count(slots[i + 1]);
      step_[i] = step_[i + 1] = 2;
      first_[i + 1] = next + 1;
      last_[i] = next + 2 * std::max(0, here - 1);
      last_[i + 1] = next + 1 + 2 * std::max(0, there - 1);
      next += 2 * std::max(here, there);
    } else {
      last_[i] = next + std::max(0, here - 1);
      next += here;
    }
    for (std::size_t k = i; k <= i + (pair ? 1 : 0); ++k) {
      if (visits_units(slots[k])) {
        auto& of_chunk = slots_[kind_of_pass(slots[k].pass)][slots[k].chunk];
        const auto m = static_cast<std::size_t>(slots[k].micro_batch);
        of_chunk.resize(std::max(of_chunk.size(), m + 1), slots.size());
        of_chunk[m] = k;
      }
    }
    i += pair ? 1 : 0;
  }
}

std::size_t Visits::slot(Pass pass, int chunk, int micro_batch) const {
  return slots_[kind_of_pass(pass)][chunk][micro_batch];
}

namespace {

class Planner {
 public:
  Planner(const std::vector<Slot>& slots, const Visits& visits,
          const std::vector<std::vector<MovedUnit>>& units, Form form,
          const strategy::Offload& offload)
      : slots_(slots), visits_(visits), units_(units), form_(form), offload_(offload) {
    find_turns();
  }

  std::vector<Move> run() {
    for (std::size_t f = 0; f < slots_.size(); ++f) {
      if (slots_[f].pass != Pass::forward) {
        continue;
      }
      const int c = slots_[f].chunk;
      const int m = slots_[f].micro_batch;
      const std::size_t b = visits_.slot(Pass::backward, c, m);
      if (b >= slots_.size()) {
        continue;
      }
      int layer = 0;
      for (std::size_t u = 0; u < units_[c].size(); ++u) {
        const MovedUnit& unit = units_[c][u];
        Move move{c, static_cast<int>(u), m, 0, 0, 0, 0};
        if (unit.keeps && place(move, f, b, layer)) {
          moves_.push_back(move);
        }
        layer += unit.layer ? 1 : 0;
      }
    }
    std::stable_sort(moves_.begin(), moves_.end(),
                     [](const Move& a, const Move& b) { return a.leave < b.leave; });
    return std::move(moves_);
  }

 private:
  int layers_of(int chunk) const {
    const auto& units = units_[chunk];
    return static_cast<int>(
        std::count_if(units.begin(), units.end(), [](const MovedUnit& u) { return u.layer; }));
  }

  // How many of the chunk's layers travel.
  int travelling(int chunk) const {
    int left = offload_.activation_layers;
    for (int c = 0; c < chunk; ++c) {
      left -= layers_of(c);
    }
    return std::max(0, left);
  }

  bool place(Move& move, std::size_t f, std::size_t b, int layer) const {
    const MovedUnit& unit = units_[move.chunk][move.unit];
    if (offload_.activation_layers > 0) {
      const int n = travelling(move.chunk);
      if (!unit.layer || layer >= n) {
        return false;
      }
      if (form_ == Form::spread && n < layers_of(move.chunk)) {
        place_spread(move, f, b, layer, n);
        return true;
      }
    }
    return form_ == Form::pairs ? place_pairs(move, f, b) : place_units(move, f, b);
  }

  // Unit u's backward pass in slot b.
  int backward_visit(std::size_t b, int chunk, int u) const {
    return visits_.of(b, units_[chunk].size() - 1 - static_cast<std::size_t>(u));
  }

  bool place_units(Move& move, std::size_t f, std::size_t b) const {
    const int ahead = offload_.prefetch;
    move.leave = visits_.of(f, static_cast<std::size_t>(move.unit));
    move.left = move.leave + ahead;
    move.use = backward_visit(b, move.chunk, units_[move.chunk][move.unit].needed_by);
    move.fetch = move.use - ahead;
    return move.fetch > move.left;
  }

  // Transformer Engine's window map: copy i of n has the passes of layers up to window(i) of L.
  // L / n layers each, the first L % n one more.
  void place_spread(Move& move, std::size_t f, std::size_t b, int layer, int n) const {
    const int layers = layers_of(move.chunk);
    const int first = move.unit - layer;  // units before the layers: the embedding
    const auto window = [&](int i) {
      return first + layers / n * (i + 1) - 1 + std::min(i + 1, layers % n);
    };
    const int before = layer == 0 ? move.unit : window(layer - 1);
    const int behind = window(layer);
    move.leave = visits_.of(f, static_cast<std::size_t>(before));
    move.left = visits_.of(f, static_cast<std::size_t>(behind));
    move.fetch = backward_visit(b, move.chunk, behind);
    move.use = backward_visit(b, move.chunk, before);
  }

  bool place_pairs(Move& move, std::size_t f, std::size_t b) const {
    const std::size_t made = turn_[f];
    const std::size_t used = turn_[b];
    // It leaves in the turn after its own. The turn after that may use it if a forward pass comes
    // first there.
    if (used < made + 2 || (used == made + 2 && visits_.of(b, 0) == begin_[used])) {
      return false;
    }
    move.leave = end_[made];
    move.left = end_[made + 1];
    // It comes back one turn early where it has left by then; else its own backward pass waits.
    const bool early = used > made + 2;
    move.fetch = begin_[early ? used - 1 : used];
    move.use = early ? begin_[used] : visits_.of(b, 0);
    return true;
  }

  // A turn is a forward pass and the backward pass behind it, or one pass alone; weight gradients
  // belong to the turn before.
  void find_turns() {
    turn_.resize(slots_.size());
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const bool opens = visits_units(slots_[i]) && slots_[i].pass != Pass::weight_grad &&
                         !(is_backward(slots_[i]) && i > 0 && slots_[i - 1].pass == Pass::forward);
      if (opens || begin_.empty()) {
        begin_.push_back(visits_.of(i, 0));
        end_.push_back(0);
      }
      turn_[i] = begin_.size() - 1;
      end_.back() = std::max(end_.back(), visits_.last(i));
    }
  }

  const std::vector<Slot>& slots_;
  const Visits& visits_;
  const std::vector<std::vector<MovedUnit>>& units_;
  Form form_;
  const strategy::Offload& offload_;
  std::vector<std::size_t> turn_;  // by slot
  std::vector<int> begin_, end_;   // visits of a turn
  std::vector<Move> moves_;
};

}  // namespace

std::vector<Move> plan_moves(const std::vector<Slot>& slots, const Visits& visits,
                             const std::vector<std::vector<MovedUnit>>& units, Form form,
                             const strategy::Offload& offload) {
  return Planner(slots, visits, units, form, offload).run();
}

}  // namespace stepcast::lower
