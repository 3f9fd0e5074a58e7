#include "rotation_pieces.h"

namespace stepcast::lower {

using model::Operator;

namespace {

// A cosine or a sine of the angles, which every layer makes for itself: in fp32, scaled, cast
// (megatron-core 0.16.1, models/common/embeddings/rope_utils.py:122).
std::size_t make_table(PieceWriter& writer, std::size_t i, const char* name) {
  constexpr std::int64_t kWide = 2;  // fp32 over 16 bits
  const Bytes table = writer.op(i).table;
  std::size_t out = 0;
  for (const Bytes bytes : {table * kWide, table * kWide, table}) {
    const std::vector<std::size_t> from =
        out == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{out};
    out = writer.add_elementwise(i, i, name, bytes, Operator::Gradient::own, from);
    writer.piece_rules(out).piece.leaf = true;
  }
  return out;
}

}  // namespace

// x cos + rotate_half(x) sin, in the order of Python: the product with cos, the negated half,
// both halves joined, the product with sin, the sum.
std::size_t rotate_halves(PieceWriter& writer, std::size_t i, std::size_t x) {
  const Bytes bytes = writer.piece(x).forward_output;
  const Bytes wide = Bytes(part_of(bytes.count(), writer.rules(i).promotion));
  const auto make = [&](const char* name, Bytes result, Operator::Gradient gradient,
                        const std::vector<std::size_t>& from) {
    return writer.add_elementwise(i, i, name, result, gradient, from);
  };
  std::vector<std::size_t> tables;
  if (writer.op(i).table.count() > 0) {
    tables = {make_table(writer, i, "cosines"), make_table(writer, i, "sines")};
  }
  // Both are variables of the function; each product keeps the one that it read.
  const auto by_table = [&](std::size_t product, std::size_t n) {
    if (!tables.empty()) {
      writer.keep_table(product, tables[n]);
    }
    return product;
  };
  const std::size_t straight = by_table(make("cos", wide, Operator::Gradient::own, {x}), 0);
  const std::size_t other = make("other half", bytes / 2, Operator::Gradient::own, {x});
  writer.piece_rules(other).piece.view = true;
  writer.piece(other).input_gradient = bytes;
  const std::size_t negated = make("negated half", bytes / 2, Operator::Gradient::own, {x});
  writer.piece(negated).input_gradient = bytes;  // in zeros: slice_backward
  writer.piece(negated).backward_temporary = bytes / 2;
  const std::size_t joined = make("halves", bytes, Operator::Gradient::handed_on, {negated, other});
  const std::size_t turned = by_table(make("sin", wide, Operator::Gradient::own, {joined}), 1);
  const std::size_t sum = make("sum", wide, Operator::Gradient::handed_on, {straight, turned});
  if (wide > bytes) {  // a gradient in the table's format, cast to that of what was read
    for (const std::size_t product : {straight, turned}) {
      writer.piece(product).input_gradient = bytes;
      writer.piece(product).backward_temporary = wide;
    }
  }
  return sum;
}

// Queries and keys that are views of one projection, whose gradient joins those of all its parts.
// What is rotated is joined with what is not, an empty view, into a copy (megatron-core 0.8.0,
// models/common/embeddings/rotary_pos_embedding.py:197; litgpt 0.5.11, model.py:448). Queries of
// several heads for each key are copied out ahead (megatron-core 0.8.0,
// transformer/attention.py:526: reshape).
std::vector<std::size_t> rotate_packed(PieceWriter& writer, std::size_t i, std::size_t projection) {
  const Operator& op = writer.op(i);
  const std::int64_t both = op.forward_output.count();
  const std::int64_t queries = part_of(both, writer.shares(i).front());
  const std::int64_t keys = both - queries;
  // Of what is gathered over tensor ranks, a rank reads its own heads.
  const Operator& from = writer.piece(projection);
  const bool gathered = from.tensor == model::TensorRole::gathered;
  const Bytes read = gathered ? *writer.op(i + 1).input_gradient : from.forward_output;
  std::vector<std::size_t> parts;
  for (const std::int64_t bytes : {queries, keys, read.count() - both}) {
    parts.push_back(
        writer.add_elementwise(i, i, "part", Bytes(bytes), Operator::Gradient::own, {projection}));
    writer.piece_rules(parts.back()).piece.part = true;
    writer.piece_rules(parts.back()).piece.view = parts.size() > 1 || queries == keys;
  }
  std::vector<std::size_t> out;
  for (const std::size_t n : {0U, 1U}) {
    const std::size_t sum = rotate_halves(writer, i, parts[n]);
    out.push_back(writer.add_elementwise(i, i, "result", writer.piece(sum).forward_output,
                                         Operator::Gradient::handed_on, {sum}));
    if (!writer.options().holds_projection) {
      writer.piece_rules(parts[n]).piece.held_to = out.back();
    }
    writer.hold_tables(out.back());
  }
  out.push_back(parts[2]);
  return out;
}

// Casts of queries and keys to fp32, their products with the table, casts back.
std::vector<std::size_t> rotate_complex(PieceWriter& writer, std::size_t i,
                                        const std::vector<std::size_t>& qk) {
  const Operator& op = writer.op(i);
  const double narrow = static_cast<double>(op.forward_output.count()) /
                        (static_cast<double>(op.forward_temporary.count()) / 2);
  std::vector<std::size_t> wide, turned, out;
  const auto result_of = [&](std::size_t n) { return writer.piece(qk[n]).forward_output; };
  const auto widened = [&](std::size_t n) {
    return Bytes(part_of(result_of(n).count(), 1 / narrow));
  };
  const auto make = [&](const char* name, Bytes result, std::size_t from) {
    return writer.add_elementwise(i, i, name, result, Operator::Gradient::own, {from});
  };
  for (const std::size_t n : {0U, 1U}) {
    wide.push_back(make("cast", widened(n), qk[n]));
  }
  for (const std::size_t n : {0U, 1U}) {
    turned.push_back(make("product", widened(n), wide[n]));
    writer.piece(turned.back()).backward_temporary = op.table;  // conjugated
  }
  for (const std::size_t n : {0U, 1U}) {
    out.push_back(make("result", result_of(n), turned[n]));
  }
  return out;
}

// torchtune 0.6.1, modules/position_embeddings.py:102 to 122: x.float(), x0 cos - x1 sin and
// x1 cos + x0 sin of its even and odd numbers, both stacked and cast back. Backward, each view of
// every second number has a gradient as large as all of them, in zeros (select_backward), which are
// added up. The copy and the stack are variables of the function (xshaped, x_out), what it rotates
// one of its caller's (modules/attention.py:242, 270).
std::size_t rotate_pairs(PieceWriter& writer, std::size_t of, std::size_t i, std::size_t x) {
  const Operator& op = writer.op(i);
  const std::int64_t queries = part_of(op.forward_output.count(), writer.shares(i).front());
  const Bytes narrow = writer.piece(x).forward_output;
  const Bytes wide =
      Bytes(part_of(narrow.count(), static_cast<double>(op.largest_temporary.count()) /
                                        static_cast<double>(queries)));
  const Bytes half = wide / 2;
  const auto make = [&](const char* name, Bytes result, Operator::Gradient gradient,
                        const std::vector<std::size_t>& from) {
    return writer.add_elementwise(of, i, name, result, gradient, from);
  };
  const std::size_t copy = make("cast", wide, Operator::Gradient::own, {x});
  const auto product = [&](const char* name) {
    const std::size_t view = make("half", half, Operator::Gradient::own, {copy});
    writer.piece_rules(view).piece.view = true;
    writer.piece(view).input_gradient = wide;
    return make(name, half, Operator::Gradient::own, {view});
  };
  const std::size_t even_cos = product("cos"), odd_sin = product("sin");
  writer.piece(odd_sin).backward_temporary = half;  // the difference's gradient, negated
  const std::size_t difference =
      make("difference", half, Operator::Gradient::handed_on, {even_cos, odd_sin});
  const std::size_t odd_cos = product("cos"), even_sin = product("sin");
  const std::size_t sum = make("sum", half, Operator::Gradient::handed_on, {odd_cos, even_sin});
  const std::size_t stack = make("stack", wide, Operator::Gradient::handed_on, {difference, sum});
  const std::size_t result = make("result", narrow, Operator::Gradient::own, {stack});
  for (const std::size_t variable : {x, copy, stack}) {
    writer.piece_rules(variable).piece.held_to = result;
  }
  return result;
}

}  // namespace stepcast::lower
