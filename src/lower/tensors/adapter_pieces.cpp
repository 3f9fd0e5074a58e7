#include "adapter_pieces.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace stepcast::lower {
using model::Operator;

std::optional<std::size_t> adapted_product(std::string_view name, std::size_t products) {
  name.remove_prefix(std::string_view(model::kAdapter).size());
  const std::string_view target = name.substr(0, name.find('_'));
  if (products == 1) {
    return 0;
  }
  struct Place {
    std::string_view target;
    std::size_t products, number;
  };
  static constexpr std::array<Place, 7> kPlaces = {Place{"q", 3, 0}, {"k", 3, 1}, {"v", 3, 2},
                                                   {"k", 2, 0},      {"v", 2, 1}, {"gate", 2, 0},
                                                   {"up", 2, 1}};
  for (const Place& p : kPlaces) {
    if (p.target == target && p.products == products) {
      return p.number;
    }
  }
  return std::nullopt;
}

namespace {

bool is_sum(const Operator& op) {
  return op.kind == model::OpKind::elementwise && op.name.ends_with("_add") && op.saved.empty();
}

}  // namespace

bool is_scale(const Operator& op) { return op.name.ends_with(model::kScale); }

AdapterBranches adapters_of(const PieceWriter& writer, std::size_t i) {
  const std::size_t products = writer.shares(i).size();
  AdapterBranches out{std::vector<std::vector<std::size_t>>(products), i + 1};
  if (writer.op(i).adapter) {
    return out;
  }
  for (std::size_t j = i + 1; j < writer.size() && writer.op(j).name.starts_with(model::kAdapter);
       ++j) {
    const std::optional<std::size_t> n = adapted_product(writer.op(j).name, products);
    if (!n || writer.op(j).kind == model::OpKind::dropout) {
      return {std::vector<std::vector<std::size_t>>(products), i + 1};
    }
    out.of[*n].push_back(j);
    out.end = j + 1;
  }
  for (const auto& branch : out.of) {
    const auto downs = std::count_if(branch.begin(), branch.end(), [&](std::size_t j) {
      return writer.op(j).name.ends_with("_a");
    });
    if (downs > 1) {  // of parts of one product
      return {std::vector<std::vector<std::size_t>>(products), i + 1};
    }
    if (!branch.empty() && !is_sum(writer.op(branch.back())) &&
        !is_scale(writer.op(branch.back()))) {
      return {std::vector<std::vector<std::size_t>>(products), i + 1};
    }
  }
  return out;
}

CopiedInput add_on_copy(PieceWriter& writer, std::size_t i) {
  const Operator& op = writer.op(i);
  const auto make = [&](const char* name, Bytes result, const std::vector<std::size_t>& from) {
    Operator piece;
    piece.name = op.name + name;
    piece.kind = model::OpKind::elementwise;
    piece.module = op.module;
    piece.forward_output = result;
    return writer.add(i, std::move(piece), {}, from);
  };
  const model::Saved& input = op.saved.front();
  const Bytes wide = Bytes(part_of(input.bytes.count(), writer.rules(i).promotion));
  CopiedInput out;
  out.copy = make(" copied input", wide, writer.read_by(i));
  const std::size_t cast = make(" cast input", input.bytes, {out.copy});
  const std::uint32_t storage = writer.own_part(input.storage, cast);
  Operator product = op;
  product.saved = {{"input", input.bytes, storage}};
  out.product = writer.add(i, std::move(product), writer.rules(i), {cast});
  return out;
}

std::size_t add_adapted(PieceWriter& writer, std::size_t i, std::size_t product) {
  using Gradient = Operator::Gradient;
  const Bytes bytes = writer.op(i).forward_output;
  std::size_t branch = writer.read_by(i).back();
  if (writer.op(i).forward_kernels > 1) {
    branch = writer.add_elementwise(i, i, "scaled", bytes, Gradient::own, {branch});
  }
  return writer.add_elementwise(i, i, "sum", bytes, Gradient::handed_on, {product, branch});
}

std::size_t add_scaled(PieceWriter& writer, std::size_t i, std::size_t product) {
  Operator scale = writer.op(i);
  const std::size_t biased = writer.add_elementwise(i, i, "biased", scale.forward_output,
                                                    Operator::Gradient::handed_on, {product});
  if (!scale.saved.empty()) {
    const model::Saved& input = scale.saved.front();
    scale.saved = {{"input", input.bytes, writer.own_part(input.storage, biased)}};
  }
  return writer.add(i, std::move(scale), {}, {biased});
}

}  // namespace stepcast::lower
