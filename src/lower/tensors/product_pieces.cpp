#include "product_pieces.h"

#include <algorithm>

namespace stepcast::lower {
namespace {

using model::Operator;
using model::Saved;

// NF4's blocks of elements that share a constant (bitsandbytes 0.50.2, functional.py: blocksize
// 64), which double quantisation keeps in 8 bits and makes anew in fp32.
constexpr std::int64_t kBlockOfConstants = 64;
constexpr double kPlainNf4Bytes =
    0.5 + 4.0 / kBlockOfConstants;  // bytes of an element, in fp32 already

bool reads_casts(const PieceWriter& writer, std::size_t i) {
  return i > 0 && writer.op(i - 1).name.ends_with(model::kOperandCasts);
}

bool reads_dequantised(const PieceWriter& writer, std::size_t i) {
  const auto keeps_weight = [&] {
    const auto& saved = writer.op(i).saved;
    return std::any_of(saved.begin(), saved.end(),
                       [](const Saved& s) { return s.name == "weight"; });
  };
  return i > 0 && writer.op(i - 1).name == model::kDequantised && writer.op(i).frozen_width > 0 &&
         !keeps_weight();
}

// An adapter runs behind it, of what it reads.
bool is_adapted(const PieceWriter& writer, std::size_t i) {
  return !writer.op(i).adapter && i + 1 < writer.size() &&
         writer.op(i + 1).name.starts_with(model::kAdapter) && writer.rules(i).results.size() == 1;
}

// The piece and its rules, without what is made ahead of it.
Operator product_alone(const PieceWriter& writer, std::size_t i, std::size_t n, TensorRules& r) {
  const Operator& whole = writer.op(i);
  Operator piece = whole;
  const std::size_t products = writer.shares(i).size();
  piece.forward_output = Bytes(writer.cut(i, n, whole.forward_output.count()));
  piece.parameters = writer.cut(i, n, whole.parameters);
  piece.frozen = writer.cut(i, n, whole.frozen);
  piece.forward_kernels = 1;
  std::erase_if(piece.saved, [](const Saved& s) { return s.name == "output"; });
  r = writer.rules(i);
  r.results.clear();
  r.summed = 0;
  r.weight_gradient = writer.cut(i, n, r.weight_gradient);
  if (r.gradients.size() >= products) {
    const std::vector<std::int64_t> all = r.gradients;
    r.gradients = {all[n]};
    if (n + 1 == products) {  // biases, as one
      r.gradients.insert(r.gradients.end(), all.begin() + static_cast<std::ptrdiff_t>(products),
                         all.end());
    }
  } else if (n + 1 < products) {  // of all of them, as one
    r.gradients.clear();
  }
  return piece;
}

std::size_t add_input_cast(PieceWriter& writer, std::size_t of, std::size_t i, Operator& product) {
  Operator copy = writer.op(i - 1);
  copy.saved.clear();
  copy.forward_output = copy.forward_output / static_cast<std::int64_t>(writer.shares(i).size());
  const auto input = std::find_if(product.saved.begin(), product.saved.end(),
                                  [](const Saved& s) { return s.name == "input"; });
  if (input != product.saved.end()) {
    *input = {"input", copy.forward_output, writer.new_part(input->storage, copy.forward_output)};
  }
  return writer.add(of, std::move(copy), {}, writer.read_by(i - 1));
}

std::size_t add_weight_cast(PieceWriter& writer, std::size_t of, std::size_t i, std::size_t n,
                            Operator& product, TensorRules& r) {
  Operator copy = writer.op(i - 1);
  const Saved whole = copy.saved.front();
  copy.saved.clear();
  copy.input_gradient.reset();
  copy.forward_output = Bytes(writer.cut(i, n, whole.bytes.count()));
  product.saved.push_back(
      {kCastWeight, copy.forward_output, writer.new_part(whole.storage, copy.forward_output)});
  TensorRules of_cast;
  of_cast.piece.leaf = true;
  of_cast.piece.trained = product.parameters > 0;
  of_cast.gradients = std::move(r.gradients);
  r.gradients.clear();
  r.weight_gradient = 0;
  return writer.add(of, std::move(copy), std::move(of_cast), {});
}

// Constants and weight stand until the function of the product returns; the backward pass makes
// them again, the constants once.
std::vector<std::size_t> add_weight(PieceWriter& writer, std::size_t of, std::size_t i,
                                    std::size_t n, Operator& product) {
  Operator made = writer.op(i - 1);
  const std::int64_t wide = writer.cut(i, n, made.forward_temporary.count());
  const bool twice = writer.op(i).frozen_width < kPlainNf4Bytes;
  const std::int64_t constants = twice ? 4 * (product.frozen / kBlockOfConstants) : 0;
  made.forward_temporary = made.backward_temporary = made.largest_temporary = Bytes(0);
  std::vector<std::size_t> out;
  for (const std::int64_t bytes : {constants, constants, wide}) {
    made.forward_output = Bytes(bytes);
    TensorRules r;
    r.piece.leaf = true;
    if (bytes > 0) {
      out.push_back(writer.add(of, made, std::move(r), {}));
    }
  }
  product.backward_tensors = {wide};
  if (twice) {
    product.backward_tensors.insert(product.backward_tensors.begin(), constants);
  }
  product.backward_temporary = Bytes(wide + constants);
  return out;
}

}  // namespace

bool is_product(const PieceWriter& writer, std::size_t i) {
  const Operator& op = writer.op(i);
  const TensorRules& r = writer.rules(i);
  const bool prepares = reads_casts(writer, i) || reads_dequantised(writer, i);
  return op.kind == model::OpKind::gemm && (prepares || op.parameters > 0 || op.frozen > 0) &&
         (prepares || r.results.size() > 1 || is_adapted(writer, i)) &&
         static_cast<int>(writer.shares(i).size()) == op.forward_kernels && r.forward == 0 &&
         r.backward == 0 && r.input_grad == 0 && r.kept == 0 && !r.cast && r.scatter.parts == 1 &&
         op.forward_temporary.count() == 0 && op.backward_temporary.count() == 0;
}

bool reads_both_halves(const PieceWriter& writer, std::size_t i, std::size_t act) {
  if (act >= writer.size() || writer.op(act).kind != model::OpKind::activation ||
      !writer.reads_only(act, act - 1) || writer.shares(i).size() != 2) {
    return false;
  }
  const std::vector<Saved>& kept = writer.op(act).saved;
  return kept.size() == 1 && kept[0].name == "input" &&
         kept[0].bytes == writer.op(i).forward_output;
}

bool serves_product(const PieceWriter& writer, std::size_t i) {
  return i + 1 < writer.size() && is_product(writer, i + 1) &&
         (reads_casts(writer, i + 1) || reads_dequantised(writer, i + 1));
}

std::size_t add_product(PieceWriter& writer, std::size_t of, std::size_t i, std::size_t n) {
  TensorRules r;
  Operator piece = product_alone(writer, i, n, r);
  std::vector<std::size_t> from = writer.read_by(i);
  if (reads_casts(writer, i)) {
    std::vector<std::size_t> weight;
    if (!writer.op(i - 1).saved.empty()) {  // parameters in 16 bits are not cast
      weight = {add_weight_cast(writer, of, i, n, piece, r)};
    }
    if (writer.op(i - 1).forward_output.count() > 0) {
      from = {add_input_cast(writer, of, i, piece)};
    }
    from.insert(from.end(), weight.begin(), weight.end());
  } else if (reads_dequantised(writer, i)) {
    if (from.empty()) {
      from = {kOutsideUnit};
    }
    const std::vector<std::size_t> weight = add_weight(writer, of, i, n, piece);
    from.insert(from.end(), weight.begin(), weight.end());
  }
  return writer.add(of, std::move(piece), std::move(r), from);
}

}  // namespace stepcast::lower
