// A unit's gradients in its backward pass, each from the first operator that adds to it to the one
// that takes it.
#include <algorithm>
#include <cmath>
#include <optional>

#include "unit_tensors.h"

namespace stepcast::lower {
namespace {

using model::Operator;
using model::OpKind;
using program::Block;

struct Gradient {
  std::int64_t bytes = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  program::LabelIndex label;
  bool held = false;                                 // until the weight gradient's own pass
  bool view = false;                                 // of what a product made
  bool narrowed = false;                             // by the unit's last operator, a residual
  std::size_t value = static_cast<std::size_t>(-1);  // that it is the gradient of
};

// The gradient of its result serves as that of an input.
bool hands_gradient_on(const Operator& op, std::size_t which) {
  const bool dropped = std::any_of(op.saved.begin(), op.saved.end(),
                                   [](const model::Saved& s) { return s.name == "dropout_mask"; });
  return (op.gradient == Operator::Gradient::handed_on && !(dropped && which == 0)) ||
         op.kind == OpKind::embedding || op.backward_kernels == 0;
}

class GradientWalk {
 public:
  GradientWalk(const UnitTensors& unit, bool split)
      : unit_(unit), split_(split), of_(unit.count() + 1) {}

  // Gradients, and the operators' workspaces, in the order of the backward pass.
  void run() {
    const std::size_t last = unit_.count() - 1;
    of_[last] = make(unit_.result(last), 0, unit_.operators[last].name + " gradient");
    for (std::size_t i = unit_.count(); i-- > 0;) {
      add_workspace(i);
      take(i);
      for (std::size_t k = 0; k < unit_.from[i].size(); ++k) {
        if (unit_.result(unit_.from[i][k]) > 0 && takes_gradient(unit_.from[i][k])) {
          give(i, k);
        }
      }
    }
    if (of_[unit_.outside()]) {
      handed = of_[unit_.outside()];
      gradients[*handed].end = kPassEnd;  // the next unit's
    }
  }

  std::vector<Gradient> gradients;
  std::optional<std::size_t> handed;  // the gradient of the unit's input
  std::vector<Block> workspaces;
  std::vector<Block> product_workspaces;  // behind the results, as in the forward pass

 private:
  std::size_t make(std::int64_t bytes, std::size_t at, const std::string& text) {
    gradients.push_back({bytes, at, at, unit_.label(text), false});
    return gradients.size() - 1;
  }

  // Autograd gathers the gradient of a scattered sum once, for both products.
  std::int64_t held_whole(std::size_t i) const {
    const int parts = unit_.rules[i].scatter.parts;
    const bool holds =
        split_ && unit_.options.holds_gathered_gradients && unit_.operators[i].gemm && parts > 1;
    return holds ? parts * unit_.result(i) : 0;
  }

  // What stands while the operator's backward pass runs: its own temporaries, what features add for
  // the gradient of its input and for that of its weight, and the latter.
  std::vector<std::int64_t> tensors_behind(std::size_t i) const {
    const Operator& op = unit_.operators[i];
    const TensorRules& rules = unit_.rules[i];
    const std::int64_t own = op.backward_temporary.count();
    const std::int64_t further = split_ ? 0 : rules.backward - rules.input_grad;
    if (further < 0) {
      return tensors_of(own + rules.backward + rules.weight_gradient, op);
    }
    std::vector<std::int64_t> out = tensors_of(own, op);
    for (const std::int64_t bytes :
         {rules.input_grad - held_whole(i), further, split_ ? 0 : rules.weight_gradient}) {
      if (bytes > 0) {
        out.push_back(bytes);
      }
    }
    return out;
  }

  // A product's function makes the gradient of its input, then that of its weight.
  bool input_first(std::size_t i) const {
    return unit_.options.input_gradient_first && unit_.operators[i].gemm && !split_;
  }
  void add_input_first(std::size_t i) {
    const Operator& op = unit_.operators[i];
    const TensorRules& rules = unit_.rules[i];
    const program::LabelIndex label = unit_.label(op.name + " backward workspace");
    const auto add = [&](std::vector<Block>& to, std::int64_t bytes, Step begin) {
      if (bytes > 0) {
        to.push_back(block_of(bytes, label, unit_.backward_place(i, begin),
                              unit_.backward_place(i, Step::give_up)));
      }
    };
    for (const std::int64_t piece : tensors_of(op.backward_temporary.count(), op)) {
      add(workspaces, piece, Step::first);
    }
    add(workspaces, rules.input_grad, Step::first);
    add(workspaces, rules.backward - rules.input_grad, Step::first);
    add_product_workspace(i, Step::first);
    add(product_workspaces, rules.weight_gradient, Step::run);
    if (op.parameters > 0) {
      add_product_workspace(i, Step::run);
    }
  }
  void add_product_workspace(std::size_t i, Step step) {
    if (unit_.options.product_workspace > 0) {
      const std::size_t at = unit_.backward_place(i, step);
      product_workspaces.push_back(
          block_of(unit_.options.product_workspace, unit_.label("GEMM workspace"), at, at));
    }
  }

  void add_workspace(std::size_t i) {
    const Operator& op = unit_.operators[i];
    const TensorRules& rules = unit_.rules[i];
    if (input_first(i)) {
      add_input_first(i);
      return;
    }
    const Step begin = op.gemm ? Step::first : Step::run;
    const Step end = op.gemm ? Step::give_up : Step::run;
    for (const std::int64_t piece : tensors_behind(i)) {
      workspaces.push_back(block_of(piece, unit_.label(op.name + " backward workspace"),
                                    unit_.backward_place(i, begin), unit_.backward_place(i, end)));
    }
    const std::vector<std::int64_t>& whole = rules.scratch.whole;
    for (std::size_t n = 0; n < whole.size(); ++n) {
      const Step last = n + 1 == whole.size() ? Step::give_up : Step::copy;
      workspaces.push_back(block_of(whole[n], unit_.label(op.name + " backward workspace"),
                                    unit_.backward_place(i, Step::copy),
                                    unit_.backward_place(i, last)));
    }
    const Step works = rules.scratch.behind          ? Step::sum
                       : rules.scratch.whole.empty() ? Step::run
                                                     : Step::copy;
    for (const std::int64_t piece : rules.scratch.works) {
      const std::size_t at = unit_.backward_place(i, works);
      workspaces.push_back(block_of(piece, unit_.label(op.name + " backward workspace"), at, at));
    }
    if (op.gemm) {
      if (!split_ && op.parameters > 0) {
        add_product_workspace(i, Step::first);
      }
      add_product_workspace(i, Step::run);
    }
  }

  bool is_leaf(std::size_t value) const {
    return value < unit_.count() && unit_.rules[value].piece.leaf;
  }
  bool takes_gradient(std::size_t value) const {
    return !is_leaf(value) || (unit_.rules[value].piece.trained && !split_);
  }

  // A residual's branch in 16 bits has a gradient in 16 bits (csrc/autograd/engine.cpp:
  // validate_outputs).
  bool narrows(std::size_t i, std::size_t value) const {
    return unit_.operators[i].kind == OpKind::residual &&
           unit_.result(value) < gradients[*of_[i]].bytes;
  }

  // What comes later is added to the first contribution where nothing else holds that (torch 2.15,
  // csrc/autograd/input_buffer.cpp: can_accumulate_inplace). A product's is a view of the matrix
  // that it computed, which the view holds.
  bool adds_in_place(std::size_t value, std::size_t i) const {
    const std::size_t first = *of_[value];
    for (std::size_t v = 0; v < i; ++v) {
      if (v != value && of_[v] == first) {
        return false;
      }
    }
    return !gradients[first].view && !gradients[first].held &&
           (value == unit_.outside() || of_[unit_.outside()] != first);
  }

  // The operator takes the gradient of its result.
  void take(std::size_t i) {
    if (of_[i]) {
      const Operator& op = unit_.operators[i];
      if (unit_.rules[i].piece.copies_gradient) {
        const std::size_t at = unit_.backward_place(i, Step::copy);
        gradients[*of_[i]].end = at;
        of_[i] = make(gradients[*of_[i]].bytes, at, op.name + " gradient copy");
      }
      Gradient& gradient = gradients[*of_[i]];
      gradient.end = std::max(gradient.end, unit_.backward_place(i, Step::give_up));
      const bool weighs = op.gemm || unit_.options.split_keeps_graph;
      if (split_ && weighs && op.parameters > 0) {
        const TensorRules& rules = unit_.rules[i];
        if (rules.cast && rules.share < 1 && !unit_.options.split_keeps_graph) {
          // The weight gradient's product reads the copy in its own format, as it does of its
          // input.
          const auto bytes = static_cast<std::int64_t>(
              std::llround(static_cast<double>(unit_.result(i)) * rules.share));
          const std::size_t at = unit_.backward_place(i, Step::run);
          gradients.push_back({bytes, at, at, unit_.label(op.name + " gradient cast"), true});
        } else {
          gradient.held = true;
          // The whole of it, though an eager operator makes and uses it part by part.
          gradient.bytes = std::max(gradient.bytes, unit_.result(i));
        }
        if (const std::int64_t whole = held_whole(i); whole > 0) {
          const std::size_t at = unit_.backward_place(i, Step::run);
          gradients.push_back({whole, at, at, unit_.label(op.name + " gathered gradient"), true});
        }
      }
    }
  }

  // The operator makes the gradient of the `which`th value that it read, or adds to it: the sum is
  // a tensor of its own.
  void give(std::size_t i, std::size_t which) {
    const Operator& op = unit_.operators[i];
    // FlashAttention makes the gradients ahead of what it works with
    // (csrc/flash_attn/flash_api.cpp, mha_bwd: dq, dk, dv; softmax_d, dq_accum, dk_expanded,
    // dv_expanded).
    const std::size_t value = unit_.from[i][which];
    if (unit_.rules[i].piece.part && of_[i] && !joins(i, value)) {
      return;
    }
    // A norm's weight gradient is summed up behind both gradients.
    const bool sums = op.kind == OpKind::norm && !unit_.rules[i].scratch.works.empty();
    // A part of it is scattered behind the whole product.
    const TensorRules& rules = unit_.rules[i];
    const bool product = input_first(i) && (rules.scatter.parts > 1 || rules.input_grad == 0);
    const bool first = op.kind == OpKind::fused_attention || is_leaf(value) || sums || product;
    const std::size_t at = unit_.backward_place(i, first ? Step::first : Step::run);
    std::size_t part = 0;
    if (of_[i] && hands_gradient_on(op, which) && !narrows(i, value)) {
      part = *of_[i];
    } else {
      const bool over = op.gradient == Operator::Gradient::in_kept ||
                        (rules.piece.over_last && which > 0 && which + 1 == unit_.from[i].size());
      const std::int64_t bytes =
          op.input_gradient && !is_leaf(value) ? op.input_gradient->count() : unit_.result(value);
      part = make(over ? 0 : bytes, at, op.name + " input gradient");
      gradients[part].value = value;
      gradients[part].view = op.gemm && !is_leaf(value);
      gradients[part].narrowed = i + 1 == unit_.count() && of_[i] && narrows(i, value);
    }
    if (of_[value] && *of_[value] != part) {
      const std::size_t sum = unit_.backward_place(i, Step::sum);
      if (adds_in_place(value, i)) {
        gradients[part].end = std::max(gradients[part].end, sum);
        return;
      }
      const std::size_t both = make(gradients[part].bytes, sum, op.name + " gradient sum");
      gradients[*of_[value]].end = std::max(gradients[*of_[value]].end, sum);
      gradients[part].end = std::max(gradients[part].end, sum);
      of_[value] = both;
    } else {
      of_[value] = part;
    }
  }

  // Whether the gradients of all parts of the value are there: at the first of those that read one,
  // whose backward pass is the last. Until then each of them waits.
  bool joins(std::size_t i, std::size_t value) {
    const bool last =
        i == 0 || !unit_.rules[i - 1].piece.part || unit_.from[i - 1].front() != value;
    for (std::size_t p = i; last && p < unit_.count() && unit_.rules[p].piece.part; ++p) {
      if (of_[p]) {
        gradients[*of_[p]].end =
            std::max(gradients[*of_[p]].end, unit_.backward_place(i, Step::give_up));
      }
    }
    return last;
  }

  const UnitTensors& unit_;
  bool split_;
  std::vector<std::optional<std::size_t>> of_;  // by value, into `gradients`
};

// What the autograd engine casts for the unit's last operator, before that runs again.
void part_narrowed(const std::vector<Gradient>& gradients, UnitMemory& out) {
  out.again.backward = out.backward;
  for (const Gradient& g : gradients) {
    if (!g.narrowed) {
      continue;
    }
    const Block one = block_of(g.bytes, g.label, g.begin, g.end);
    auto& blocks = out.again.backward.blocks;
    const auto at = std::find_if(blocks.begin(), blocks.end(), [&](const Block& b) {
      return b.bytes == one.bytes && b.begin == one.begin && b.end == one.end &&
             b.label == one.label;
    });
    if (at == blocks.end()) {  // of several tensors
      continue;
    }
    const auto index = static_cast<std::uint32_t>(at - blocks.begin());
    blocks.erase(at);
    for (std::uint32_t* const tensor : {&out.again.backward.taken, &out.again.backward.handed}) {
      *tensor -= *tensor != program::Buffer::kNoTensor && *tensor > index ? 1 : 0;
    }
    out.again.narrowed.blocks.push_back(one);
    out.again.narrowed.blocks.back().begin = 0;
  }
  out.again.narrowed.bytes = whole_bytes_of(out.again.narrowed.blocks);
}

}  // namespace

void add_backward_memory(const UnitTensors& unit, bool split, UnitMemory& out) {
  GradientWalk walk(unit, split);
  walk.run();
  std::vector<Block> transient = std::move(walk.workspaces);
  std::vector<Block> held;
  TensorList& list = split ? out.input_grad : out.backward;
  for (std::size_t n = 0; n < walk.gradients.size(); ++n) {
    const Gradient& g = walk.gradients[n];
    const auto at = static_cast<std::uint32_t>(transient.size());
    add_value(unit, g.value, block_of(g.bytes, g.label, g.begin, g.held ? kPassEnd : g.end),
              g.held ? held : transient);
    const bool whole = transient.size() == at + 1;
    list.taken = whole && n == 0 ? at : list.taken;
    list.handed = whole && walk.handed == n ? at : list.handed;
  }
  std::vector<Block> standing = held;
  for (const KeptTensor& k : unit.kept) {
    const bool stays = split && unit.until_weights(k);
    // The gradient that is written over it is read by the backward pass of what made it.
    const bool overwritten = unit.operators[k.first].gradient == Operator::Gradient::in_kept &&
                             !k.unit_input && k.made < k.first;
    const std::size_t last = overwritten ? k.made : k.first;
    const std::size_t end =
        stays || unit.options.retained ? kPassEnd : unit.backward_place(last, Step::give_up);
    const std::size_t begin =
        k.again ? unit.backward_place(unit.pieces.again.at(k.storage), Step::first) : 0;
    add_value(unit, k.made, block_of(k.bytes, k.label, begin, end),
              k.again && !stays ? transient : standing);
  }
  transient.insert(transient.end(), walk.product_workspaces.begin(), walk.product_workspaces.end());
  const std::vector<Block> functions = tensors_of_functions(unit);
  transient.insert(transient.end(), functions.begin(), functions.end());
  if (!split) {
    standing.insert(standing.end(), out.gradients.blocks.begin(), out.gradients.blocks.end());
  }
  list.bytes = peak_with(transient, standing);
  list.blocks = std::move(transient);
  if (!split) {
    part_narrowed(walk.gradients, out);
  }
  if (split) {
    out.output_gradients.blocks = std::move(held);
  }
}

}  // namespace stepcast::lower
