#include "module_calls.h"

#include <algorithm>
#include <optional>

#include "../passes/passes.h"
#include "adapter_pieces.h"
#include "stepcast/model/names.h"

namespace stepcast::lower {

using model::Module;
using model::Operator;
using model::OpKind;

namespace {

enum class Block { none, attention, mlp };

Block block_of(const Operator& op) {
  switch (op.module) {
    case Module::attention:
    case Module::core_attention:
      return Block::attention;
    case Module::mlp:
    case Module::moe:
    case Module::shared_expert:
      return Block::mlp;
    default:
      return Block::none;
  }
}

class Writer {
 public:
  Writer(const model::OperatorGraph& graph, const std::vector<Array>& arrays)
      : graph_(graph), arrays_(arrays) {}

  std::vector<ModuleCall> write() {
    const bool layer = std::any_of(graph_.operators.begin(), graph_.operators.end(),
                                   [](const Operator& op) { return block_of(op) != Block::none; });
    if (layer) {
      call(0);
    }
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
      enter_block(i);
      add_operator(i);
    }
    close();
    if (layer) {
      out_.front().within = static_cast<std::uint16_t>(out_.size() - 1);
    }
    return std::move(out_);
  }

 private:
  ModuleCall& call(std::size_t place) {
    out_.push_back({static_cast<std::uint16_t>(place), 0, static_cast<std::uint16_t>(next_), 0});
    return out_.back();
  }

  void close() {
    if (open_) {
      out_[*open_].within = static_cast<std::uint16_t>(out_.size() - 1 - *open_);
      open_.reset();
    }
    block_ = Block::none;
  }

  // A layer calls its norms itself, ahead of the block that reads their results.
  void enter_block(std::size_t i) {
    const Operator& op = graph_.operators[i];
    const Block block = block_of(op);
    if (block == block_) {
      return;
    }
    close();
    if (op.kind != OpKind::norm && op.kind != OpKind::residual && block != Block::none) {
      open_ = out_.size();
      block_ = block;
      call(i);
    }
  }

  // Weights of one operator are linears of their own; a bias is its weight's.
  void add_operator(std::size_t i) {
    const Operator& op = graph_.operators[i];
    if (op.kind == OpKind::activation) {
      activation(i);
      return;
    }
    if (op.gemm && !op.adapter && is_adapter(i + 1)) {
      add_adapted(i);
      return;
    }
    while (next_ < arrays_.size() && arrays_[next_].op == i) {
      if (arrays_[next_].bias && !out_.empty() && out_.back().arrays > 0) {
        ++out_.back().arrays;
      } else {
        call(i).arrays = 1;
      }
      ++next_;
    }
    order_head_norms(i);
  }

  bool is_adapter(std::size_t i) const {
    return i < graph_.operators.size() && graph_.operators[i].name.starts_with(model::kAdapter);
  }

  // The next array with its bias as a module.
  ModuleCall linear(std::size_t place) {
    ModuleCall out{static_cast<std::uint16_t>(place), 0, static_cast<std::uint16_t>(next_), 1};
    for (++next_; next_ < arrays_.size() && arrays_[next_].bias; ++next_) {
      ++out.arrays;
    }
    return out;
  }

  // The linears of an operator, each with its adapter.
  void add_adapted(std::size_t i) {
    std::vector<ModuleCall> bases;
    while (next_ < arrays_.size() && arrays_[next_].op == i) {
      bases.push_back(linear(i));
    }
    std::vector<std::vector<ModuleCall>> adapters(bases.size());
    for (std::size_t j = i + 1; is_adapter(j); ++j) {
      const auto of = adapted_product(graph_.operators[j].name, bases.size());
      while (next_ < arrays_.size() && arrays_[next_].op == j) {
        const ModuleCall one = linear(i);
        if (of && *of < adapters.size()) {
          adapters[*of].push_back(one);
        }
      }
    }
    for (std::size_t n = 0; n < bases.size(); ++n) {
      if (!adapters[n].empty()) {
        const auto place = static_cast<std::uint16_t>(i);
        const auto within = static_cast<std::uint16_t>(2 + adapters[n].size());
        out_.push_back({place, within, bases[n].first_array, 0});
        out_.push_back(bases[n]);
        out_.push_back({place, 0, bases[n].first_array, 0});
        out_.insert(out_.end(), adapters[n].begin(), adapters[n].end());
      } else {
        out_.push_back(bases[n]);
      }
    }
  }

  // Norms over heads run between the linears: norm(q(x)), norm(k(x)), v(x) (transformers 5.23,
  // models/qwen3/modeling_qwen3.py:244).
  void order_head_norms(std::size_t i) {
    const std::size_t first = open_ ? *open_ + 1 : out_.size();  // q, k, v and the two norms
    if (block_ != Block::attention || graph_.operators[i].kind != OpKind::norm ||
        out_.size() != first + 5) {
      return;
    }
    for (std::size_t norm = 0; norm < 2; ++norm) {
      const auto behind = out_.begin() + static_cast<std::ptrdiff_t>(first + 2 * norm + 1);
      const auto from = out_.begin() + static_cast<std::ptrdiff_t>(first + 3 + norm);
      std::rotate(behind, from, from + 1);
      behind->place = (behind - 1)->place;
    }
  }

  // A gate's activation runs between the gate and the other factor: down(act(gate(x)) * up(x)).
  void activation(std::size_t i) {
    const bool gated = out_.size() > 1 && out_.back().arrays > 0 && out_.back().place + 1U == i &&
                       out_[out_.size() - 2].place == out_.back().place &&
                       out_[out_.size() - 2].arrays > 0;
    if (!gated) {
      call(i);
      return;
    }
    const ModuleCall other = out_.back();
    out_.back() = {other.place, 0, other.first_array, 0};
    out_.push_back(other);
  }

  const model::OperatorGraph& graph_;
  const std::vector<Array>& arrays_;
  std::vector<ModuleCall> out_;
  std::size_t next_ = 0;  // array
  Block block_ = Block::none;
  std::optional<std::size_t> open_;  // its call
};

void backward_of(const std::vector<ModuleCall>& calls, std::size_t begin, std::size_t end,
                 const std::function<void(const ModuleCall&)>& visit) {
  std::vector<std::size_t> children;
  for (std::size_t i = begin; i < end; i += 1U + calls[i].within) {
    children.push_back(i);
  }
  for (auto i = children.rbegin(); i != children.rend(); ++i) {
    visit(calls[*i]);
    backward_of(calls, *i + 1, *i + 1 + calls[*i].within, visit);
  }
}

}  // namespace

std::vector<ModuleCall> module_calls(const model::OperatorGraph& graph,
                                     const std::vector<Array>& arrays) {
  return Writer(graph, arrays).write();
}

void each_backward(const std::vector<ModuleCall>& calls,
                   const std::function<void(const ModuleCall&)>& visit) {
  backward_of(calls, 0, calls.size(), visit);
}

}  // namespace stepcast::lower
