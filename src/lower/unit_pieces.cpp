#include "unit_pieces.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "stepcast/model/names.h"

namespace stepcast::lower {
namespace {

using model::Operator;
using model::OpKind;
using model::Saved;

std::int64_t part_of(std::int64_t bytes, double share) {
  return static_cast<std::int64_t>(std::llround(static_cast<double>(bytes) * share));
}

Saved* saved_as(Operator& op, const char* name) {
  const auto at = std::find_if(op.saved.begin(), op.saved.end(),
                               [&](const Saved& s) { return s.name == name; });
  return at == op.saved.end() ? nullptr : &*at;
}

// Writes pieces of a graph's operators, and knows which of them each operator's results are.
class PieceWriter {
 protected:
  PieceWriter(const model::OperatorGraph& graph, const UnitOptions& options)
      : graph_(graph), options_(options), values_(graph.operators.size()) {
    out_.count.assign(graph.operators.size(), 0);
  }

  const Operator& op(std::size_t i) const { return graph_.operators[i]; }
  const TensorRules& rules(std::size_t i) const { return options_.rules[i]; }

  std::vector<std::size_t> producers(std::size_t i) const {
    std::vector<std::size_t> out;
    for (const auto& [producer, consumer] : graph_.edges) {
      if (static_cast<std::size_t>(consumer) == i) {
        out.push_back(static_cast<std::size_t>(producer));
      }
    }
    return out;
  }
  // The pieces whose results the operator reads.
  std::vector<std::size_t> read_by(std::size_t i) const {
    std::vector<std::size_t> out;
    for (const std::size_t p : producers(i)) {
      out.insert(out.end(), values_[p].begin(), values_[p].end());
    }
    return out;
  }
  bool reads_only(std::size_t i, std::size_t producer) const {
    return producers(i) == std::vector<std::size_t>{producer};
  }

  std::size_t add(std::size_t of, Operator piece, TensorRules r,
                  const std::vector<std::size_t>& from) {
    const std::size_t at = out_.operators.size();
    out_.operators.push_back(std::move(piece));
    out_.rules.push_back(std::move(r));
    out_.of.push_back(of);
    out_.number.push_back(out_.count[of]++);
    for (const std::size_t f : from) {
      out_.edges.emplace_back(static_cast<int>(f), static_cast<int>(at));
    }
    return at;
  }

  void whole(std::size_t i) {
    const std::vector<std::size_t> from = read_by(i);
    Operator piece = op(i);
    TensorRules r = rules(i);
    r.backward += r.summed;
    r.input_grad += r.summed;
    if (from.size() > producers(i).size()) {
      piece.input_gradient.reset();  // of each of what it reads, as large as that
    }
    values_[i] = {add(i, std::move(piece), std::move(r), from)};
  }

  bool is_casts(std::size_t i) const { return op(i).name.ends_with(model::kOperandCasts); }
  bool reads_casts(std::size_t i) const { return i > 0 && is_casts(i - 1); }
  std::vector<double> shares(std::size_t i) const {
    return rules(i).results.empty() ? std::vector<double>{1} : rules(i).results;
  }
  // The n-th product's part of what all of them have.
  std::int64_t cut(std::size_t i, std::size_t n, std::int64_t whole) const {
    const std::vector<double> all = shares(i);
    std::int64_t rest = whole;
    for (std::size_t k = 0; k + 1 < all.size(); ++k) {
      rest -= part_of(whole, all[k]);
    }
    return n + 1 == all.size() ? rest : part_of(whole, all[n]);
  }

  std::size_t add_elementwise(std::size_t i, const char* name, Bytes result,
                              Operator::Gradient gradient, const std::vector<std::size_t>& from) {
    Operator piece = op(i);
    piece.name = std::string("rotary ") + name;
    piece.kind = OpKind::elementwise;
    piece.saved.clear();
    piece.forward_temporary = piece.backward_temporary = piece.largest_temporary = Bytes(0);
    piece.input_gradient.reset();
    piece.gradient = gradient;
    piece.forward_output = result;
    TensorRules r = rules(i);
    r.results.clear();
    return add(i, std::move(piece), std::move(r), from);
  }

  const model::OperatorGraph& graph_;
  const UnitOptions& options_;
  UnitPieces out_;
  std::vector<std::vector<std::size_t>> values_;  // by operator: the pieces that its results are
};

class Division : private PieceWriter {
 public:
  Division(const model::OperatorGraph& graph, const UnitOptions& options)
      : PieceWriter(graph, options) {
    for (const Operator& op : graph.operators) {
      for (const Saved& saved : op.saved) {
        next_storage_ = std::max(next_storage_, saved.storage + 1);
      }
    }
  }

  UnitPieces divide() {
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
      if (casts_for_product(i)) {
        continue;  // each product makes its own
      }
      if (is_product(i)) {
        divide_product(i);
      } else if (is_split(i)) {
        divide_split(i);
      } else if (reads_projections(i) && op(i).kind == OpKind::rotary) {
        divide_rotary(i);
      } else if (i > 0 && gated_.count(i) > 0) {
        add_factors(i);
      } else {
        whole(i);
      }
    }
    divide_storages();
    map_options();
    return std::move(out_);
  }

 private:
  // Several products of one input, or one whose operands are cast, which nothing else surrounds but
  // autograd.
  bool is_product(std::size_t i) const {
    const TensorRules& r = rules(i);
    const bool casts = reads_casts(i);
    return op(i).kind == OpKind::gemm && (casts || op(i).parameters > 0) &&
           (casts || r.results.size() > 1) &&
           static_cast<int>(shares(i).size()) == op(i).forward_kernels && r.forward == 0 &&
           r.backward == 0 && r.input_grad == 0 && r.kept == 0 && !r.cast && r.scattered == 1 &&
           op(i).forward_temporary.count() == 0 && op(i).backward_temporary.count() == 0;
  }
  bool casts_for_product(std::size_t i) const {
    return is_casts(i) && i + 1 < graph_.operators.size() && is_product(i + 1);
  }
  // A gated activation by eager operators, whose halves are products of their own.
  bool is_gate(std::size_t i) const {
    return i < graph_.operators.size() && op(i).kind == OpKind::activation &&
           reads_only(i, i - 1) && rules(i - 1).results.size() == 2 && op(i).input_gradient &&
           op(i).saved.size() == 2 && op(i).saved[0].name == "input" &&
           op(i).saved[1].name == "silu";
  }

  Operator product(std::size_t i, std::size_t n, TensorRules& r) const {
    Operator piece = op(i);
    const std::size_t products = shares(i).size();
    piece.forward_output = Bytes(cut(i, n, op(i).forward_output.count()));
    piece.parameters = cut(i, n, op(i).parameters);
    piece.forward_kernels = 1;
    std::erase_if(piece.saved, [](const Saved& s) { return s.name == "output"; });
    r = rules(i);
    r.results.clear();
    r.summed = 0;
    r.weight_gradient = cut(i, n, r.weight_gradient);
    if (r.gradients.size() >= products) {
      const std::vector<std::int64_t> all = r.gradients;
      r.gradients = {all[n]};
      if (n + 1 == products) {  // biases, as one
        r.gradients.insert(r.gradients.end(), all.begin() + static_cast<std::ptrdiff_t>(products),
                           all.end());
      }
    }
    return piece;
  }

  std::size_t add_product(std::size_t i, std::size_t n) {
    TensorRules r;
    Operator piece = product(i, n, r);
    if (!reads_casts(i)) {
      return add(i, std::move(piece), std::move(r), read_by(i));
    }
    const std::size_t weight = add_weight_cast(i, n, piece, r);
    std::vector<std::size_t> from = read_by(i);
    if (op(i - 1).forward_output.count() > 0) {
      from = {add_input_cast(i, piece)};
    }
    from.push_back(weight);
    return add(i, std::move(piece), std::move(r), from);
  }

  // torch.autocast casts the last argument of a product first, and an input each time anew (torch
  // 2.15, aten/src/ATen/autocast_mode.h: cached_cast, as gcc evaluates the arguments of a call).
  std::size_t add_input_cast(std::size_t i, Operator& product) {
    Operator copy = op(i - 1);
    copy.saved.clear();
    copy.forward_output = copy.forward_output / static_cast<std::int64_t>(shares(i).size());
    const auto input = std::find_if(product.saved.begin(), product.saved.end(),
                                    [](const Saved& s) { return s.name == "input"; });
    if (input != product.saved.end()) {
      parts_[input->storage].push_back({"", copy.forward_output, next_storage_});
      *input = {"input", copy.forward_output, next_storage_++};
    }
    return add(i, std::move(copy), {}, read_by(i - 1));
  }

  std::size_t add_weight_cast(std::size_t i, std::size_t n, Operator& product, TensorRules& r) {
    Operator copy = op(i - 1);
    const Saved whole = copy.saved.front();
    copy.saved.clear();
    copy.input_gradient.reset();
    copy.forward_output = Bytes(cut(i, n, whole.bytes.count()));
    parts_[whole.storage].push_back({"", copy.forward_output, next_storage_});
    product.saved.push_back({kCastWeight, copy.forward_output, next_storage_++});
    TensorRules of_cast;
    of_cast.piece.leaf = true;
    of_cast.piece.trained = product.parameters > 0;
    of_cast.gradients = std::move(r.gradients);
    r.gradients.clear();
    r.weight_gradient = 0;
    return add(i, std::move(copy), std::move(of_cast), {});
  }

  void divide_product(std::size_t i) {
    if (is_gate(i + 1)) {
      divide_gate(i);
      return;
    }
    Operator whole = op(i);
    const Saved* output = saved_as(whole, "output");
    for (std::size_t n = 0; n < shares(i).size(); ++n) {
      const std::size_t at = add_product(i, n);
      values_[i].push_back(at);
      if (output != nullptr) {
        own_part(output->storage, at);
      }
    }
  }

  // The piece's result is its own part of a storage.
  void own_part(std::uint32_t storage, std::size_t piece) {
    Operator& made = out_.operators[piece];
    made.saved.push_back({"output", made.forward_output, next_storage_});
    storage_of_[piece] = next_storage_;
    parts_[storage].push_back({"", made.forward_output, next_storage_++});
    of_storage_[storage].push_back(piece);
  }

  // gate, its activation, the other half; or both halves ahead of it.
  void divide_gate(std::size_t i) {
    const Operator& act = op(i + 1);
    const std::size_t gate = add_product(i, 0);
    const Saved half{"input", out_.operators[gate].forward_output, next_storage_++};
    Operator silu = act;
    silu.saved = {half};
    silu.input_gradient.reset();
    silu.backward_temporary = silu.forward_temporary = silu.largest_temporary = Bytes(0);
    const std::size_t first = rules(i + 1).gate_first ? 0 : add_product(i, 1);
    TensorRules r = rules(i + 1);
    r.gate_first = false;
    const std::size_t activated = add(i, std::move(silu), r, {gate});
    const std::size_t up = rules(i + 1).gate_first ? add_product(i, 1) : first;
    const Saved other{"input", out_.operators[up].forward_output, next_storage_++};
    storage_of_[gate] = half.storage;
    storage_of_[up] = other.storage;
    parts_[act.saved[0].storage] = {half, other};
    gated_[i + 1] = {activated, up};
    values_[i] = {activated, up};
    halves_[i] = {gate, up};
  }

  // The product of both halves.
  void add_factors(std::size_t i) {
    Operator product = op(i);
    const Saved silu = product.saved[1];
    const Saved other = parts_[product.saved[0].storage][1];
    product.saved = {other, {"input", silu.bytes, silu.storage}};
    product.input_gradient.reset();
    product.backward_temporary = Bytes(0);
    TensorRules r = rules(i);
    r.gate_first = false;
    values_[i] = {add(i, std::move(product), std::move(r), gated_[i])};
  }

  // Copies queries, keys and values out of one projection, ahead of their rotation.
  bool is_split(std::size_t i) const {
    if (i == 0 || i + 1 >= graph_.operators.size()) {
      return false;
    }
    return op(i).kind == OpKind::elementwise && op(i).forward_kernels == 3 && op(i - 1).gemm &&
           reads_only(i, i - 1) && op(i + 1).kind == OpKind::rotary && reads_only(i + 1, i) &&
           rules(i + 1).results.size() == 2 && op(i).forward_output == op(i - 1).forward_output;
  }

  void divide_split(std::size_t i) {
    const std::int64_t rotated = op(i + 1).forward_output.count();
    const std::int64_t queries = part_of(rotated, rules(i + 1).results[0]);
    Operator whole = op(i);
    const Saved* output = saved_as(whole, "output");
    for (const std::int64_t bytes :
         {queries, rotated - queries, op(i).forward_output.count() - rotated}) {
      Operator piece = op(i);
      piece.saved.clear();
      piece.forward_output = Bytes(bytes);
      piece.forward_kernels = 1;
      TensorRules r = rules(i);
      r.piece.part = true;
      values_[i].push_back(add(i, std::move(piece), std::move(r), read_by(i)));
      if (output != nullptr) {
        own_part(output->storage, values_[i].back());
      }
    }
  }

  // Reads queries, keys and values that are a product's each.
  bool reads_projections(std::size_t i) const {
    const std::vector<std::size_t> from = producers(i);
    return from.size() == 1 && values_[from[0]].size() == 3 && rules(i).results.size() == 2;
  }

  void divide_rotary(std::size_t i) {
    const std::size_t project = producers(i)[0];
    const std::vector<std::size_t> qkv = values_[project];
    Operator whole = op(i);
    std::optional<std::uint32_t> storage;  // that attention reads
    for (const auto& [of, pieces] : of_storage_) {
      storage = pieces == qkv ? of : storage;
    }
    std::vector<Saved> value;
    if (storage) {
      for (const std::size_t p : {qkv[0], qkv[1]}) {  // what is rotated stands in their place
        std::erase_if(out_.operators[p].saved, [](const Saved& s) { return s.name == "output"; });
        storage_of_.erase(p);
      }
      value = {parts_[*storage].back()};
      parts_[*storage].clear();
    }
    std::vector<std::size_t> rotated;
    if (op(i).rotation == Operator::Rotation::halves) {
      for (const std::size_t n : {0U, 1U}) {
        rotated.push_back(rotate_half(i, qkv[n]));
        // Heads come ahead of positions there, and the gradient is laid out for the product
        // (transformers 5.23, models/llama/modeling_llama.py:243: transpose(1, 2)).
        out_.rules[qkv[n]].piece.copies_gradient = true;
      }
    } else if (op(i).rotation == Operator::Rotation::complex) {
      rotated = rotate_complex(i, qkv);
    } else {
      rotated.push_back(add(i, std::move(whole), rules(i), {qkv[0], qkv[1]}));
    }
    if (rules(i).promotion > 1) {
      rotated = cast_for_attention(i, rotated, qkv);
    }
    values_[i] = rotated;
    values_[i].push_back(qkv[2]);
    if (storage) {
      for (const std::size_t r : rotated) {
        own_part(*storage, r);
      }
      parts_[*storage].push_back(value.front());
    }
  }

  // Casts of queries and keys to fp32, their products with the table, casts back.
  std::vector<std::size_t> rotate_complex(std::size_t i, const std::vector<std::size_t>& qk) {
    const double narrow = static_cast<double>(op(i).forward_output.count()) /
                          (static_cast<double>(op(i).forward_temporary.count()) / 2);
    std::vector<std::size_t> wide, turned, out;
    const auto own = Operator::Gradient::own;
    const auto widened = [&](std::size_t n) {
      return Bytes(part_of(out_.operators[qk[n]].forward_output.count(), 1 / narrow));
    };
    for (const std::size_t n : {0U, 1U}) {
      wide.push_back(add_elementwise(i, "cast", widened(n), own, {qk[n]}));
    }
    for (const std::size_t n : {0U, 1U}) {
      turned.push_back(add_elementwise(i, "product", widened(n), own, {wide[n]}));
      out_.operators.back().backward_temporary = op(i).table;  // conjugated
    }
    for (const std::size_t n : {0U, 1U}) {
      out.push_back(
          add_elementwise(i, "result", out_.operators[qk[n]].forward_output, own, {turned[n]}));
    }
    return out;
  }

  // x cos + rotate_half(x) sin, in the order of Python: the product with cos, the negated half,
  // both halves joined, the product with sin, the sum.
  std::size_t rotate_half(std::size_t i, std::size_t x) {
    const Bytes bytes = out_.operators[x].forward_output;
    const Bytes wide = Bytes(part_of(bytes.count(), rules(i).promotion));
    const auto make = [&](const char* name, Bytes result, Operator::Gradient gradient,
                          const std::vector<std::size_t>& from) {
      return add_elementwise(i, name, result, gradient, from);
    };
    using Gradient = Operator::Gradient;
    const std::size_t straight = make("cos", wide, Gradient::own, {x});
    const std::size_t other = make("other half", bytes / 2, Gradient::own, {x});
    out_.rules[other].piece.view = true;
    out_.operators[other].input_gradient = bytes;
    const std::size_t negated = make("negated half", bytes / 2, Gradient::own, {x});
    out_.operators[negated].input_gradient = bytes;  // in zeros: slice_backward
    out_.operators[negated].backward_temporary = bytes / 2;
    const std::size_t joined = make("halves", bytes, Gradient::handed_on, {negated, other});
    const std::size_t turned = make("sin", wide, Gradient::own, {joined});
    const std::size_t sum = make("sum", wide, Gradient::handed_on, {straight, turned});
    if (wide > bytes) {  // a gradient in the table's format, cast to that of what was read
      for (const std::size_t product : {straight, turned}) {
        out_.operators[product].input_gradient = bytes;
        out_.operators[product].backward_temporary = wide;
      }
    }
    return sum;
  }

  // Attention casts wide queries and keys, from its last argument to its first.
  std::vector<std::size_t> cast_for_attention(std::size_t i,
                                              const std::vector<std::size_t>& rotated,
                                              const std::vector<std::size_t>& qkv) {
    std::vector<std::size_t> out(rotated.size());
    for (std::size_t n = rotated.size(); n-- > 0;) {
      out[n] = add_elementwise(i, kAttentionCast, out_.operators[qkv[n]].forward_output,
                               Operator::Gradient::own, {rotated[n]});
      out_.operators[out[n]].name = kAttentionCast;
      out_.operators[out[n]].rotation = Operator::Rotation::other;
    }
    return out;
  }

  // Saved tensors that are several, in every piece that lists them.
  void divide_storages() {
    for (Operator& piece : out_.operators) {
      std::vector<Saved> saved;
      for (const Saved& s : piece.saved) {
        const auto parts = parts_.find(s.storage);
        if (parts == parts_.end()) {
          saved.push_back(s);
          continue;
        }
        for (const Saved& part : parts->second) {
          saved.push_back({s.name, part.bytes, part.storage});
        }
      }
      piece.saved = std::move(saved);
    }
  }

  std::size_t last_piece(std::size_t i) const {
    std::size_t at = 0;
    for (std::size_t p = 0; p < out_.of.size(); ++p) {
      at = out_.of[p] <= i ? p : at;
    }
    return at;
  }

  // The pieces whose results a policy keeps of an operator's: all, or every second one from the
  // first or from the second on (torchtitan 0.2.2, distributed/activation_checkpoint.py:116).
  // Empty: it cannot be told.
  std::vector<std::size_t> held_pieces(const HeldTensor& held) const {
    const auto halves = halves_.find(held.made);
    std::vector<std::size_t> all;
    for (const std::size_t piece : halves == halves_.end() ? values_[held.made] : halves->second) {
      if (out_.of[piece] == held.made) {
        all.push_back(piece);
      }
    }
    for (const auto& [first, step] : {std::pair{0U, 1U}, {0U, 2U}, {1U, 2U}}) {
      std::vector<std::size_t> out;
      std::int64_t bytes = 0;
      for (std::size_t n = first; n < all.size(); n += step) {
        out.push_back(all[n]);
        bytes += out_.operators[all[n]].forward_output.count();
      }
      if (bytes == held.bytes) {
        return out;
      }
    }
    return {};
  }

  void map_options() {
    for (const auto& [storage, before] : options_.again) {
      const auto parts = parts_.find(storage);
      if (parts == parts_.end()) {
        out_.again[storage] = last_piece(before);
        continue;
      }
      for (const Saved& part : parts->second) {
        out_.again[part.storage] = last_piece(before);
      }
    }
    for (const HeldTensor& held : options_.held) {
      const std::vector<std::size_t> pieces = held_pieces(held);
      if (pieces.empty()) {
        out_.held.push_back({last_piece(held.made), held.bytes});
      }
      for (const std::size_t piece : pieces) {
        const auto own = storage_of_.find(piece);
        if (own == storage_of_.end()) {
          out_.held.push_back({piece, out_.operators[piece].forward_output.count()});
        } else {
          out_.again.erase(own->second);  // what others save of it is there
        }
      }
    }
  }

  std::map<std::size_t, std::vector<std::size_t>> halves_;  // products of a gate and its other half
  std::map<std::size_t, std::vector<std::size_t>> gated_;   // activations: what their product reads
  std::map<std::uint32_t, std::vector<Saved>> parts_;       // by storage: what stands in its place
  std::map<std::uint32_t, std::vector<std::size_t>> of_storage_;
  std::map<std::size_t, std::uint32_t> storage_of_;  // by piece: the one that its result is
  std::uint32_t next_storage_ = 1;
};

}  // namespace

UnitPieces pieces_of(const model::OperatorGraph& graph, const UnitOptions& options) {
  return Division(graph, options).divide();
}

}  // namespace stepcast::lower
