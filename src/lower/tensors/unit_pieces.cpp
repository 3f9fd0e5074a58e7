#include "unit_pieces.h"

#include <algorithm>
#include <optional>
#include <set>

#include "adapter_pieces.h"
#include "norm_pieces.h"
#include "piece_writer.h"
#include "product_pieces.h"
#include "rotation_pieces.h"

namespace stepcast::lower {
namespace {

using model::Operator;
using model::OpKind;
using model::Saved;

Saved* saved_as(Operator& op, const char* name) {
  const auto at = std::find_if(op.saved.begin(), op.saved.end(),
                               [&](const Saved& s) { return s.name == name; });
  return at == op.saved.end() ? nullptr : &*at;
}

class Division : private PieceWriter {
 public:
  Division(const model::OperatorGraph& graph, const UnitOptions& options)
      : PieceWriter(graph, options) {}

  UnitPieces divide() {
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
      if (in_branch_.count(i) == 0) {
        divide_operator(i);
      }
    }
    divide_storages();
    map_options();
    return std::move(out_);
  }

 private:
  void divide_operator(std::size_t i) {
    if (serves_product(*this, i)) {
      return;  // each product makes its own
    }
    if (is_product(*this, i)) {
      divide_product(i);
    } else if (is_split(i)) {
      divide_split(i);
    } else if (reads_projections(i) && op(i).kind == OpKind::rotary) {
      divide_rotary(i);
    } else if (rotates_packed(i)) {
      divide_packed(i);
    } else if (is_eager_norm(*this, i)) {
      values_[i] = {divide_norm(*this, i)};
    } else if (norms_two_products(*this, i)) {
      const std::size_t values = read_by(i)[2];
      values_[i] = {divide_norm_of_two(*this, i, 0), divide_norm_of_two(*this, i, 1), values};
    } else if (is_repeat(i)) {
      divide_repeat(i);
    } else if (i > 0 && gated_.count(i) > 0) {
      add_factors(i);
    } else {
      whole(i);
    }
  }

  // A gated activation by eager operators, whose halves are products of operator `i`.
  bool is_gate(std::size_t i, std::size_t act) const {
    return act < graph_.operators.size() && op(act).kind == OpKind::activation &&
           reads_only(act, act - 1) && rules(i).results.size() == 2 && op(act).input_gradient &&
           op(act).saved.size() == 2 && op(act).saved[0].name == "input" &&
           op(act).saved[1].name == "silu";
  }
  // It rotates what the first of three products makes, ahead of the other two.
  bool rotates_queries_first(std::size_t i, std::size_t rotary) const {
    return rotary < graph_.operators.size() && shares(i).size() == 3 &&
           op(rotary).rotation == Operator::Rotation::pairs && reads_only(rotary, rotary - 1);
  }

  // The product and its adapter, one behind the other, as PEFT's layers run them.
  std::size_t add_branch(std::size_t i, std::size_t n, const AdapterBranches& branches) {
    const std::size_t made = add_product(*this, places(i), i, n);
    if (branches.of[n].empty()) {
      return made;
    }
    if (const std::size_t last = branches.of[n].back(); is_scale(op(last))) {
      in_branch_.insert(last);
      return values_[last].emplace_back(add_scaled(*this, last, made));
    }
    std::optional<std::size_t> copy;
    for (const std::size_t j : branches.of[n]) {
      in_branch_.insert(j);
      if (op(j).gemm && rules(j).promotion > 1 && op(j).saved.size() == 1) {
        const CopiedInput on = add_on_copy(*this, j);
        values_[j] = {on.product};
        copy = on.copy;
      } else if (j != branches.of[n].back()) {
        divide_operator(j);
      }
    }
    const std::size_t sum = add_adapted(*this, branches.of[n].back(), made);
    if (copy) {
      out_.rules[*copy].piece.held_to = sum;
    }
    return sum;
  }
  // The operator in whose places what operator `i` stands for runs, behind all that is there.
  std::size_t places(std::size_t i) const {
    return std::max(i, out_.of.empty() ? 0 : out_.of.back());
  }

  void divide_product(std::size_t i) {
    const AdapterBranches branches = adapters_of(*this, i);
    const std::size_t next = branches.end;
    std::vector<std::size_t> values;
    if (is_gate(i, next)) {
      values = divide_gate(i, next, branches);
    } else if (reads_both_halves(*this, i, next)) {
      values = {add_branch(i, 0, branches), add_branch(i, 1, branches)};
      for (const std::size_t half : values) {
        storage_of_[half] =
            new_part(op(next).saved[0].storage, out_.operators[half].forward_output);
      }
      halves_[i] = values;
    } else {
      Operator whole = op(i);
      // Where the products are promoted to fp32, attention keeps what it casts of them; behind
      // norms in Python it keeps the last of three, the values.
      const Saved* output = saved_as(whole, "output");
      const bool part = output != nullptr && output->bytes < whole.forward_output;
      for (std::size_t n = 0; n < shares(i).size(); ++n) {
        const std::size_t at = add_branch(i, n, branches);
        values.push_back(at);
        const bool last =
            n == 2 && output != nullptr && output->bytes == out_.operators[at].forward_output;
        if (output != nullptr && (!part || last)) {
          own_part(output->storage, at);
        }
        if (n == 0 && rotates_queries_first(i, next)) {
          queries_rotated_[next] = rotate_pairs(*this, places(i), next, at);
        }
      }
    }
    values_[i] = values_[next - 1] = values;
  }

  // gate, its activation, the other half; or both halves ahead of it.
  std::vector<std::size_t> divide_gate(std::size_t i, std::size_t next,
                                       const AdapterBranches& branches) {
    const Operator& act = op(next);
    const std::size_t gate = add_branch(i, 0, branches);
    const Saved half{"input", out_.operators[gate].forward_output, next_storage_++};
    Operator silu = act;
    silu.saved = {half};
    silu.input_gradient.reset();
    silu.backward_temporary = silu.forward_temporary = silu.largest_temporary = Bytes(0);
    TensorRules r = rules(next);
    const bool ahead = r.gate_first;
    r.gate_first = false;
    const std::size_t first = ahead ? 0 : add_branch(i, 1, branches);
    const std::size_t activated = add(places(i), std::move(silu), r, {gate});
    const std::size_t up = ahead ? add_branch(i, 1, branches) : first;
    const Saved other{"input", out_.operators[up].forward_output, next_storage_++};
    storage_of_[gate] = half.storage;
    storage_of_[up] = other.storage;
    parts_[act.saved[0].storage] = {half, other};
    gated_[next] = {activated, up};
    halves_[i] = {gate, up};
    return {activated, up};
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

  // The storage that attention reads and the piece no longer stands for.
  std::uint32_t take_output(std::size_t piece) {
    std::vector<Saved>& saved = out_.operators[piece].saved;
    const auto at =
        std::find_if(saved.begin(), saved.end(), [](const Saved& s) { return s.name == "output"; });
    const std::uint32_t storage = at == saved.end() ? next_storage_++ : at->storage;
    if (at != saved.end()) {
      saved.erase(at);
    }
    return storage;
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
    const bool normed = norms_two_products(*this, project);
    const std::vector<std::size_t>& products = normed ? values_[producers(project)[0]] : qkv;
    std::vector<std::uint32_t> read;  // of normed queries and keys, which rotated ones replace
    std::vector<std::size_t> rotated;
    if (op(i).rotation == Operator::Rotation::halves) {
      if (normed) {
        read = {take_output(qkv[0]), take_output(qkv[1])};
      }
      for (const std::size_t n : {0U, 1U}) {
        rotated.push_back(rotate_halves(*this, i, qkv[n]));
        // Heads come ahead of positions there, and the gradient is laid out for the product
        // (transformers 5.23, models/llama/modeling_llama.py:243: transpose(1, 2)).
        out_.rules[products[n]].piece.copies_gradient = true;
      }
    } else if (op(i).rotation == Operator::Rotation::pairs) {
      // Queries are, unless something stands between their projection and here.
      const bool ahead = queries_rotated_.count(i) > 0;
      rotated = {ahead ? queries_rotated_.at(i) : rotate_pairs(*this, i, i, qkv[0]),
                 rotate_pairs(*this, i, i, qkv[1])};
    } else if (op(i).rotation == Operator::Rotation::complex) {
      rotated = rotate_complex(*this, i, qkv);
    } else {
      rotated.push_back(add(i, std::move(whole), rules(i), {qkv[0], qkv[1]}));
    }
    if (rules(i).promotion > 1) {
      const std::vector<Bytes> narrow = {out_.operators[qkv[0]].forward_output,
                                         out_.operators[qkv[1]].forward_output};
      rotated = cast_for_attention(i, rotated, narrow);
    }
    values_[i] = rotated;
    values_[i].push_back(qkv[2]);
    if (!storage && !normed) {
      cast_promoted(i);
    }
    for (std::size_t n = 0; n < read.size(); ++n) {
      own_part(read[n], rotated[n]);
    }
    if (storage) {
      for (const std::size_t r : rotated) {
        own_part(*storage, r);
      }
      parts_[*storage].push_back(value.front());
    }
  }

  // One tensor has all of a projection's results.
  bool is_packed(std::size_t i) const {
    const bool biased = op(i).kind == OpKind::elementwise && producers(i).size() == 1 &&
                        op(producers(i)[0]).gemm &&
                        op(i).forward_output == op(producers(i)[0]).forward_output;
    return op(i).gemm || biased || op(i).tensor == model::TensorRole::gathered;
  }
  // Rotates parts of one projection, which attention reads beside the values in it.
  bool rotates_packed(std::size_t i) const {
    const std::vector<std::size_t> from = producers(i);
    return op(i).rotation == Operator::Rotation::halves && rules(i).results.size() == 2 &&
           rules(i).promotion == 1 && op(i).saved.size() == 1 && from.size() == 1 &&
           is_packed(from[0]) && values_[from[0]].size() == 1 &&
           op(i).forward_output < op(from[0]).forward_output && i + 1 < graph_.operators.size() &&
           reads_only(i + 1, i) && op(i + 1).kind == OpKind::fused_attention;
  }
  void divide_packed(std::size_t i) {
    values_[i] = rotate_packed(*this, i, values_[producers(i)[0]][0]);
    for (const std::size_t n : {0U, 1U}) {
      own_part(op(i).saved.front().storage, values_[i][n]);
    }
  }

  // Copies keys and values for every query head, ahead of attention, which reads the queries beside
  // them.
  bool is_repeat(std::size_t i) const {
    const std::vector<std::size_t> from = producers(i);
    return op(i).name == model::kRepeatedKeys && from.size() == 1 && values_[from[0]].size() == 3 &&
           i + 1 < graph_.operators.size() && reads_only(i + 1, i) &&
           op(i + 1).kind == OpKind::fused_attention;
  }

  // One behind the other: each in place of what it copies (torchtune 0.6.1,
  // modules/attention.py:290), or all in place of both (torchtitan 0.1.0,
  // models/llama3/model/model.py:185).
  void divide_repeat(std::size_t i) {
    const std::vector<std::size_t> qkv = values_[producers(i)[0]];
    const auto bytes = [&](std::size_t n) { return out_.operators[qkv[n]].forward_output.count(); };
    const std::int64_t copies = op(i).forward_output.count() - bytes(0);
    const std::int64_t keys =
        part_of(copies, static_cast<double>(bytes(1)) / static_cast<double>(bytes(1) + bytes(2)));
    values_[i] = {qkv[0]};
    for (const auto& [n, copied] : {std::pair{1U, keys}, {2U, copies - keys}}) {
      Operator piece = op(i);
      piece.forward_output = Bytes(copied);
      piece.forward_kernels = 1;
      values_[i].push_back(add(i, std::move(piece), rules(i), {qkv[n]}));
    }
    if (out_.operators[qkv[1]].rotation != Operator::Rotation::pairs) {
      for (const std::size_t n : {1U, 2U}) {
        out_.rules[qkv[n]].piece.held_to = values_[i].back();
      }
    }
    Operator attention = op(i + 1);
    if (const Saved* read = saved_as(attention, "qkv"); read != nullptr) {
      for (const std::size_t value : values_[i]) {
        own_part(read->storage, value);
      }
    }
  }

  // Attention casts wide queries and keys, from its last argument to its first.
  std::vector<std::size_t> cast_for_attention(std::size_t i, const std::vector<std::size_t>& wide,
                                              const std::vector<Bytes>& narrow) {
    std::vector<std::size_t> out(wide.size());
    for (std::size_t n = wide.size(); n-- > 0;) {
      out[n] = add_elementwise(i, i, kAttentionCast, narrow[n], Operator::Gradient::own, {wide[n]});
      out_.operators[out[n]].name = kAttentionCast;
      out_.operators[out[n]].rotation = Operator::Rotation::other;
    }
    return out;
  }

  // Queries, keys and values in fp32, of which attention keeps less, where it reads them alone.
  void cast_promoted(std::size_t i) {
    if (i + 1 >= graph_.operators.size() || op(i + 1).kind != OpKind::fused_attention ||
        !reads_only(i + 1, i)) {
      return;
    }
    Operator attention = op(i + 1);
    const Saved* read = saved_as(attention, "qkv");
    Bytes all;
    for (const std::size_t value : values_[i]) {
      all += out_.operators[value].forward_output;
    }
    if (read == nullptr || read->bytes >= all) {
      return;
    }
    std::vector<Bytes> narrow;
    for (const std::size_t value : values_[i]) {
      const double share =
          static_cast<double>(read->bytes.count()) / static_cast<double>(all.count());
      narrow.emplace_back(part_of(out_.operators[value].forward_output.count(), share));
    }
    values_[i] = cast_for_attention(i, values_[i], narrow);
    for (const std::size_t value : values_[i]) {
      own_part(read->storage, value);
    }
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

  std::set<std::size_t> in_branch_;                     // operators of adapters, with their product
  std::map<std::size_t, std::size_t> queries_rotated_;  // by rotation: ahead of its operator
  std::map<std::size_t, std::vector<std::size_t>> halves_;  // products of a gate and its other half
  std::map<std::size_t, std::vector<std::size_t>> gated_;   // activations: what their product reads
};

}  // namespace

UnitPieces pieces_of(const model::OperatorGraph& graph, const UnitOptions& options) {
  return Division(graph, options).divide();
}

}  // namespace stepcast::lower
