#include "unit_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace stepcast::lower {
namespace {

using model::Operator;
using model::OpKind;

constexpr std::size_t kNoValue = static_cast<std::size_t>(-1);

// Names of kept tensors that the operator reads; the others it makes.
bool reads_kept(const model::Saved& saved) {
  static constexpr std::array<std::string_view, 9> kRead = {
      "input",         "qkv",           "repeated_kv", "gate",     "gate_input",
      "shared_output", "expert_output", "latent",      kCastWeight};
  return std::find(kRead.begin(), kRead.end(), saved.name) != kRead.end();
}

// Its backward pass reads the tensor. A product or a rotation lists its result for what it feeds.
bool needs_kept(const Operator& op, const model::Saved& saved) {
  return saved.name != "output" || op.kind == OpKind::fused_attention;
}

void read_edges(UnitTensors& unit) {
  const std::size_t n = unit.count();
  unit.from.resize(n);
  unit.last_reader.assign(n + 1, 0);
  unit.read.assign(n + 1, false);
  unit.held.assign(n + 1, false);
  for (const auto& [producer, consumer] : unit.pieces.edges) {
    auto& from = unit.from[static_cast<std::size_t>(consumer)];
    const std::size_t p = producer < 0 ? unit.outside() : static_cast<std::size_t>(producer);
    if (std::find(from.begin(), from.end(), p) == from.end()) {
      from.push_back(p);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    const Operator& op = unit.operators[i];
    const bool skips = op.kind == OpKind::residual && unit.from[i].size() == 1;
    const bool first =
        unit.from[i].empty() && op.kind != OpKind::embedding && !unit.rules[i].piece.leaf;
    if (first || skips) {
      unit.from[i].push_back(unit.outside());
    }
    for (const std::size_t p : unit.from[i]) {
      unit.last_reader[p] = i;
      unit.read[p] = true;
    }
  }
}

// The value that a kept tensor is: a result, the unit's input, or nothing of either.
std::size_t value_of(const UnitTensors& unit, std::size_t i, const model::Saved& saved) {
  const std::int64_t bytes = saved.bytes.count();
  if (!reads_kept(saved)) {
    static constexpr std::array<std::string_view, 5> kOwn = {"output", "probabilities",
                                                             "softmax_fp32", "logits", "made"};
    const bool own = std::find(kOwn.begin(), kOwn.end(), saved.name) != kOwn.end();
    return own && unit.result(i) == bytes ? i : kNoValue;
  }
  for (auto p = unit.from[i].rbegin(); p != unit.from[i].rend(); ++p) {
    const bool leaf = *p < unit.count() && unit.rules[*p].piece.leaf;
    if (unit.result(*p) == bytes && !unit.held[*p] && leaf == (saved.name == kCastWeight)) {
      return *p;
    }
  }
  return kNoValue;
}

// The first operator that keeps a tensor.
KeptTensor kept_first(UnitTensors& unit, std::size_t i, const model::Saved& saved, bool cast) {
  const Operator& op = unit.operators[i];
  KeptTensor k;
  k.storage = saved.storage;
  k.cast = cast;
  k.label = unit.label(op.name + " " + saved.name);
  const double share = cast ? unit.rules[i].share : 1;
  k.bytes = static_cast<std::int64_t>(static_cast<double>(saved.bytes.count()) * share);
  k.made = i;
  k.again = unit.pieces.again.count(saved.storage) > 0;
  const std::size_t value = cast ? kNoValue : value_of(unit, i, saved);
  if (value == unit.outside()) {
    k.unit_input = true;
    k.made = 0;
  } else if (value != kNoValue) {
    k.made = value;
  }
  if (value != kNoValue) {
    unit.held[value] = true;
    k.last_read = unit.last_reader[value];
  }
  k.first = needs_kept(op, saved) ? i : kNoValue;
  k.activated = saved.name == "silu";
  return k;
}

void find_saved(UnitTensors& unit) {
  for (std::size_t i = 0; i < unit.count(); ++i) {
    const Operator& op = unit.operators[i];
    for (const model::Saved& saved : op.saved) {
      const bool input = saved.name == "input";
      const bool cast = input && unit.rules[i].cast;
      auto known = std::find_if(unit.kept.begin(), unit.kept.end(), [&](const KeptTensor& k) {
        return k.storage == saved.storage && k.cast == cast;
      });
      if (known == unit.kept.end()) {
        unit.kept.push_back(kept_first(unit, i, saved, cast));
        known = unit.kept.end() - 1;
      } else if (known->first == kNoValue && needs_kept(op, saved)) {
        known->first = i;
      }
      known->weight_input = known->weight_input || (input && op.gemm && op.parameters > 0);
      known->last_read = std::max(known->last_read, i);
    }
  }
}

// What is kept beside what operators save: for operators that run again, and by the rules.
void find_kept_beside(UnitTensors& unit) {
  for (const HeldTensor& held : unit.pieces.held) {
    KeptTensor k;
    k.bytes = held.bytes;
    k.label = unit.label("kept to run again");
    k.made = k.last_read = held.made;
    k.first = 0;
    unit.kept.push_back(k);
    // The same tensor as the operator's result, where that is kept whole.
    unit.held[held.made] = unit.held[held.made] || held.bytes == unit.result(held.made);
  }
  for (std::size_t i = 0; i < unit.count(); ++i) {
    if (unit.rules[i].kept > 0) {
      KeptTensor k;
      k.bytes = unit.rules[i].kept;
      k.label = unit.label(unit.operators[i].name + " copy");
      k.made = k.first = k.last_read = i;
      unit.kept.push_back(k);
    }
  }
}

}  // namespace

void add_value(const UnitTensors& unit, std::size_t value, const program::Block& whole,
               std::vector<program::Block>& to) {
  const std::vector<double>* shares = value < unit.count() ? &unit.rules[value].results : nullptr;
  if (shares == nullptr || shares->size() < 2 || whole.bytes.count() != unit.result(value)) {
    to.push_back(whole);
    return;
  }
  program::Block rest = whole;
  for (std::size_t n = 0; n + 1 < shares->size(); ++n) {
    program::Block one = whole;
    one.bytes = Bytes(static_cast<std::int64_t>(
        std::llround(static_cast<double>(whole.bytes.count()) * (*shares)[n])));
    rest.bytes = rest.bytes - one.bytes;
    to.push_back(one);
  }
  to.push_back(rest);
}

UnitTensors read_unit(const UnitPieces& pieces, const UnitOptions& options, const LabelOf& label) {
  UnitTensors unit{pieces, options, label};
  read_edges(unit);
  find_saved(unit);
  find_kept_beside(unit);
  for (KeptTensor& k : unit.kept) {
    k.first = k.first == kNoValue ? k.made : k.first;
  }
  return unit;
}

}  // namespace stepcast::lower
