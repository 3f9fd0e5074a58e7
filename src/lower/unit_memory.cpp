#include "stepcast/lower/unit_memory.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "stepcast/base/diagnostics.h"

namespace stepcast::lower {

using model::Operator;
using model::OpKind;
using program::Block;

namespace {

// The caching allocator's granule (CUDACachingAllocator.cpp).
std::int64_t whole(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }

constexpr std::uint16_t kEnd = 0xffff;  // behind the pass

// Names of kept tensors that the operator reads; the others it makes.
bool reads_kept(const model::Saved& saved) {
  static constexpr std::array<std::string_view, 8> kRead = {
      "input",      "qkv",           "repeated_kv",   "gate",
      "gate_input", "shared_output", "expert_output", "latent"};
  return std::find(kRead.begin(), kRead.end(), saved.name) != kRead.end();
}

// Its backward pass reads the tensor. A product or a rotation lists its result for what it feeds.
bool needs(const Operator& op, const model::Saved& saved) {
  return saved.name != "output" || op.kind == OpKind::fused_attention;
}

Block block(std::int64_t bytes, std::uint32_t label, std::size_t begin, std::size_t end) {
  return {bytes, label, static_cast<std::uint16_t>(begin),
          static_cast<std::uint16_t>(std::min<std::size_t>(end, kEnd))};
}

void append(std::vector<Block>& to, const std::vector<Block>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::int64_t sum(const std::vector<Block>& blocks) {
  std::int64_t out = 0;
  for (const Block& b : blocks) {
    out += whole(b.bytes);
  }
  return out;
}

}  // namespace

class UnitTensors {
 public:
  UnitTensors(const model::OperatorGraph& graph, const UnitOptions& options, const LabelOf& label)
      : graph_(graph),
        ops_(graph.operators),
        o_(options),
        label_(label),
        n_(ops_.size()),
        input_(options.input) {
    STEPCAST_CHECK(o_.rules.size() == n_, "rules for every operator");
  }

  UnitMemory build() {
    if (n_ == 0) {
      return {};  // a unit whose operators are all with other stages
    }
    read_graph();
    find_kept();
    forward_pass();
    backward_pass(false);
    backward_pass(true);
    finish();
    return std::move(out_);
  }

 private:
  // A tensor that outlives the forward pass.
  struct Kept {
    std::uint32_t storage = 0;
    std::int64_t bytes = 0;
    std::uint32_t label = 0;
    std::size_t made = 0;       // first operator that it stands for
    std::size_t first = 0;      // operator whose backward reads it last
    std::size_t last_read = 0;  // in the forward pass
    bool weight_input = false;  // read by the weight gradients of products
    bool cast = false;          // a copy of fewer bits
    bool unit_input = false;
    bool again = false;  // made again in the backward pass
  };
  struct Gradient {
    std::int64_t bytes = 0;
    std::size_t begin = 0, end = 0;
    std::uint32_t label = 0;
    bool held = false;  // until the weight gradient's own pass
  };

  std::size_t outside() const { return n_; }
  std::size_t place(std::size_t i) const { return n_ - 1 - i; }  // in the backward pass
  std::uint32_t label(const std::string& text) const { return label_(text); }

  // What an operator leaves: a row-parallel product's sum is scattered over the sequence.
  std::int64_t result(std::size_t v) const {
    if (v == outside()) {
      return input_;
    }
    return ops_[v].forward_output.count() / o_.rules[v].scattered;
  }

  void read_graph() {
    from_.resize(n_);
    last_reader_.assign(n_ + 1, 0);
    read_.assign(n_ + 1, false);
    for (const auto& [producer, consumer] : graph_.edges) {
      auto& from = from_[static_cast<std::size_t>(consumer)];
      const auto p = static_cast<std::size_t>(producer);
      if (std::find(from.begin(), from.end(), p) == from.end()) {
        from.push_back(p);
      }
    }
    for (std::size_t i = 0; i < n_; ++i) {
      const bool skips = ops_[i].kind == OpKind::residual && from_[i].size() == 1;
      if ((from_[i].empty() && ops_[i].kind != OpKind::embedding) || skips) {
        from_[i].push_back(outside());
      }
      for (const std::size_t p : from_[i]) {
        last_reader_[p] = i;
        read_[p] = true;
      }
    }
    held_.assign(n_ + 1, false);
  }

  // The value that a kept tensor is: a result, the unit's input, or nothing of either.
  std::size_t value_of(std::size_t i, const model::Saved& saved) const {
    const std::int64_t bytes = saved.bytes.count();
    if (!reads_kept(saved)) {
      const bool own =
          saved.name == "output" || saved.name == "probabilities" || saved.name == "logits";
      return own && result(i) == bytes ? i : kNoValue;
    }
    for (auto p = from_[i].rbegin(); p != from_[i].rend(); ++p) {
      if (result(*p) == bytes && !held_[*p]) {
        return *p;
      }
    }
    return kNoValue;
  }

  void find_kept() {
    for (std::size_t i = 0; i < n_; ++i) {
      const Operator& op = ops_[i];
      for (const model::Saved& saved : op.saved) {
        const bool input = saved.name == "input";
        const bool cast = input && o_.rules[i].cast;
        const bool weight = input && op.gemm && op.parameters > 0;
        auto known = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) {
          return k.storage == saved.storage && k.cast == cast;
        });
        if (known == kept_.end()) {
          Kept k;
          k.storage = saved.storage;
          k.cast = cast;
          k.label = label(op.name + " " + saved.name);
          const double share = cast ? o_.rules[i].share : 1;
          k.bytes = static_cast<std::int64_t>(static_cast<double>(saved.bytes.count()) * share);
          k.made = i;
          k.first = i;
          k.again = o_.again.count(saved.storage) > 0;
          const std::size_t value = cast ? kNoValue : value_of(i, saved);
          if (value == outside()) {
            k.unit_input = true;
            k.made = 0;
          } else if (value != kNoValue) {
            k.made = value;
          }
          if (value != kNoValue) {
            held_[value] = true;
            k.last_read = last_reader_[value];
          }
          kept_.push_back(k);
          known = kept_.end() - 1;
          known->first = needs(op, saved) ? i : kNoValue;
        } else if (known->first == kNoValue && needs(op, saved)) {
          known->first = i;
        }
        known->weight_input = known->weight_input || weight;
        known->last_read = std::max(known->last_read, i);
      }
    }
    if (o_.held > 0) {
      Kept k;
      k.bytes = o_.held;
      k.label = label("kept to run again");
      kept_.push_back(k);
    }
    for (std::size_t i = 0; i < n_; ++i) {
      if (o_.rules[i].kept > 0) {
        Kept k;
        k.bytes = o_.rules[i].kept;
        k.label = label(ops_[i].name + " copy");
        k.made = k.first = k.last_read = i;
        kept_.push_back(k);
      }
    }
    for (Kept& k : kept_) {
      k.first = k.first == kNoValue ? k.made : k.first;
    }
  }

  // Live only while an operator runs.
  std::int64_t forward_temporary(std::size_t i) const {
    return ops_[i].forward_temporary.count() + o_.rules[i].forward;
  }

  std::int64_t backward_temporary(std::size_t i, bool split) const {
    const TensorRules& rules = o_.rules[i];
    return ops_[i].backward_temporary.count() +
           (split ? rules.input_grad : rules.backward + rules.weight_gradient);
  }

  void forward_pass() {
    std::vector<Block> temporary;  // whatever is kept
    std::vector<Block> results;    // that nobody keeps
    for (std::size_t i = 0; i < n_; ++i) {
      if (const std::int64_t bytes = forward_temporary(i); bytes > 0) {
        temporary.push_back(block(bytes, label(ops_[i].name + " workspace"), i, i));
      }
      if (!held_[i] && result(i) > 0) {
        results.push_back(block(result(i), label(ops_[i].name + " result"), i,
                                read_[i] ? last_reader_[i] : kEnd));
      }
    }
    if (!held_[outside()] && input_ > 0 && read_[outside()]) {
      results.push_back(block(input_, label("unit input"), 0, last_reader_[outside()]));
    }
    out_.forward.blocks = temporary;
    append(out_.forward.blocks, results);
    std::vector<Block> standing;
    for (const Kept& k : kept_) {
      const Block lives = block(k.bytes, k.label, k.made, k.again ? k.last_read : kEnd);
      if (k.again) {
        out_.forward.blocks.push_back(lives);
      } else {
        standing.push_back(lives);
      }
    }
    out_.forward.bytes = peak_with(out_.forward.blocks, standing);
    // Without autograd nothing outlives its last reader, and what only the backward pass needs is
    // not made (but for what an operator writes anyway: statistics).
    out_.unkept.blocks = temporary;
    append(out_.unkept.blocks, results);
    for (const Kept& k : kept_) {
      if (!k.unit_input) {
        out_.unkept.blocks.push_back(block(k.bytes, k.label, k.made, k.last_read));
      }
    }
    out_.unkept.bytes = peak_beside(out_.unkept.blocks, 0);
  }

  static std::int64_t peak_with(const std::vector<Block>& transient,
                                const std::vector<Block>& standing) {
    std::vector<Block> all = transient;
    append(all, standing);
    return peak_beside(all, sum(standing));
  }

  // The gradient of its result serves as that of an input.
  bool hands_on(std::size_t i, std::size_t which) const {
    const Operator& op = ops_[i];
    const bool dropped = std::any_of(op.saved.begin(), op.saved.end(), [](const model::Saved& s) {
      return s.name == "dropout_mask";
    });
    return (op.gradient == Operator::Gradient::handed_on && !(dropped && which == 0)) ||
           op.kind == OpKind::embedding || op.backward_kernels == 0;
  }

  void backward_pass(bool split) {
    std::vector<Gradient> gradients;
    std::vector<std::optional<std::size_t>> of(n_ + 1);  // by value, into `gradients`
    std::vector<Block> transient;
    const auto make = [&](std::int64_t bytes, std::size_t at, const std::string& text) {
      gradients.push_back({bytes, at, at, label(text), false});
      return gradients.size() - 1;
    };
    of[n_ - 1] = make(result(n_ - 1), 0, ops_[n_ - 1].name + " gradient");
    for (std::size_t i = n_; i-- > 0;) {
      const Operator& op = ops_[i];
      const std::size_t at = place(i);
      if (const std::int64_t bytes = backward_temporary(i, split); bytes > 0) {
        transient.push_back(block(bytes, label(op.name + " backward workspace"), at, at));
      }
      if (of[i]) {
        gradients[*of[i]].end = std::max(gradients[*of[i]].end, at);
        const bool held = split && op.gemm && op.parameters > 0;
        gradients[*of[i]].held = gradients[*of[i]].held || held;
      }
      for (std::size_t k = 0; k < from_[i].size(); ++k) {
        const std::size_t p = from_[i][k];
        if (result(p) == 0) {
          continue;
        }
        std::size_t part = 0;
        if (of[i] && hands_on(i, k)) {
          part = *of[i];
        } else {
          const bool over = op.gradient == Operator::Gradient::in_kept;
          const std::int64_t bytes = op.input_gradient ? op.input_gradient->count() : result(p);
          part = make(over ? 0 : bytes, at, op.name + " input gradient");
        }
        if (of[p] && *of[p] != part) {  // summed out of place
          const std::size_t both = make(gradients[part].bytes, at, op.name + " gradient sum");
          gradients[*of[p]].end = std::max(gradients[*of[p]].end, at);
          gradients[part].end = std::max(gradients[part].end, at);
          of[p] = both;
        } else {
          of[p] = part;
        }
      }
    }
    if (of[outside()]) {
      gradients[*of[outside()]].end = kEnd;  // the next unit's
    }
    std::vector<Block> held;
    for (const Gradient& g : gradients) {
      if (g.held) {
        held.push_back(block(g.bytes, g.label, g.begin, kEnd));
      } else {
        transient.push_back(block(g.bytes, g.label, g.begin, g.end));
      }
    }
    std::vector<Block> standing = held;
    for (const Kept& k : kept_) {
      const bool stays = split && k.weight_input;
      const std::size_t end = stays || o_.retained ? kEnd : place(k.first);
      const std::size_t begin = k.again ? place(o_.again.at(k.storage)) : 0;
      if (k.again && !stays) {
        transient.push_back(block(k.bytes, k.label, begin, end));
      } else {
        standing.push_back(block(k.bytes, k.label, begin, end));
      }
    }
    TensorList& list = split ? out_.input_grad : out_.backward;
    list.bytes = peak_with(transient, standing);
    list.blocks = std::move(transient);
    if (split) {
      out_.output_gradients.blocks = std::move(held);
    }
  }

  void finish() {
    for (const Kept& k : kept_) {
      if (k.again) {
        const Block lives = block(k.bytes, k.label, place(o_.again.at(k.storage)), place(k.first));
        out_.remade.blocks.push_back(lives);
        if (k.weight_input) {
          out_.remade_inputs.blocks.push_back(lives);
        }
        continue;
      }
      const Block lives = block(k.bytes, k.label, k.made, place(k.first));
      (k.weight_input ? out_.weight_inputs : out_.kept).blocks.push_back(lives);
      out_.saved.blocks.push_back(lives);
      if (!k.unit_input) {
        out_.saved_again.blocks.push_back(lives);
        if (!k.weight_input) {
          out_.kept_again.blocks.push_back(lives);
        }
      }
    }
    for (TensorList* list :
         {&out_.saved, &out_.kept, &out_.weight_inputs, &out_.saved_again, &out_.kept_again,
          &out_.remade, &out_.remade_inputs, &out_.output_gradients}) {
      list->bytes = sum(list->blocks);
    }
    for (std::size_t i = n_; i-- > 0;) {
      if (ops_[i].gemm && ops_[i].parameters > 0) {
        const std::int64_t bytes = o_.rules[i].weight_gradient;
        if (bytes > 0) {
          out_.weight_grad.blocks.push_back(
              block(bytes, label(ops_[i].name + " weight gradient"), place(i), place(i)));
        }
      }
    }
    out_.weight_grad.bytes = peak_beside(out_.weight_grad.blocks, 0);
  }

  static constexpr std::size_t kNoValue = static_cast<std::size_t>(-1);

  const model::OperatorGraph& graph_;
  const std::vector<Operator>& ops_;
  const UnitOptions& o_;
  const LabelOf& label_;
  std::size_t n_;
  std::int64_t input_;                          // bytes of the unit's input
  std::vector<std::vector<std::size_t>> from_;  // by operator, the values that it reads
  std::vector<std::size_t> last_reader_;        // by value
  std::vector<bool> read_;
  std::vector<bool> held_;  // by value: a kept tensor
  std::vector<Kept> kept_;
  UnitMemory out_;
};

UnitMemory unit_memory(const model::OperatorGraph& graph, const UnitOptions& options,
                       const LabelOf& label) {
  return UnitTensors(graph, options, label).build();
}

std::int64_t peak_beside(const std::vector<program::Block>& blocks, std::int64_t counted) {
  std::size_t places = 1;
  for (const program::Block& b : blocks) {
    places = std::max<std::size_t>(places, b.begin + std::size_t{1});
  }
  // What is allocated at a place stands beside what is freed behind it.
  std::vector<std::int64_t> change(places + 1, 0);
  for (const program::Block& b : blocks) {
    change[b.begin] += whole(b.bytes);
    if (b.end < places) {
      change[b.end + std::size_t{1}] -= whole(b.bytes);
    }
  }
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (std::size_t i = 0; i < places; ++i) {
    live += change[i];
    peak = std::max(peak, live);
  }
  return std::max<std::int64_t>(0, peak - counted);
}

}  // namespace stepcast::lower
