#include "shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace stepcast::trace {
namespace {

using Dims = std::vector<std::int64_t>;

// "[[4096, 1024], [], [1024, 512]]" to the sizes of each input.
std::vector<Dims> parse_dims(std::string_view text) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 40;
  std::vector<Dims> out;
  int depth = 0;
  std::int64_t value = -1;
  for (const char c : text) {
    if (c == '[') {
      if (++depth == 2) {
        out.emplace_back();
      }
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      value = std::min(kLargest, std::max<std::int64_t>(value, 0) * 10 + (c - '0'));
    } else {
      if (value >= 0 && depth == 2) {
        out.back().push_back(value);
      }
      value = -1;
      depth -= c == ']' ? 1 : 0;
    }
  }
  return out;
}

// The texts of a JSON list of texts; those with escapes are of no interest here.
std::vector<std::string> parse_texts(std::string_view text) {
  std::vector<std::string> out;
  while (true) {
    const auto from = text.find('"');
    if (from == text.npos) {
      return out;
    }
    const auto to = text.find('"', from + 1);
    if (to == text.npos) {
      return out;
    }
    out.emplace_back(text.substr(from + 1, to - from - 1));
    text.remove_prefix(to + 1);
  }
}

std::string type_of(std::string_view type, std::string_view kernel) {
  if (type == "float") {
    const bool tensor_cores = kernel.find("tf32") != kernel.npos ||
                              kernel.find("1688gemm") != kernel.npos ||
                              kernel.find("s1688") != kernel.npos;
    return tensor_cores ? "tf32" : "fp32";
  }
  if (type == "c10::BFloat16") {
    return "bf16";
  }
  if (type == "c10::Half") {
    return "fp16";
  }
  return type.find("Float8") != type.npos ? "fp8" : "";
}

std::string shown_dims(const std::vector<Dims>& inputs) {
  std::string out;
  for (const Dims& dims : inputs) {
    if (!dims.empty()) {
      out += fmt::format("{}{}", out.empty() ? "" : " ", fmt::join(dims, "x"));
    }
  }
  return out;
}

// The two matrices of a product: the inputs from `first` on.
std::optional<result::TraceProduct> product(const std::vector<Dims>& in, std::size_t first,
                                            std::size_t rank) {
  if (in.size() < first + 2 || in[first].size() != rank || in[first + 1].size() != rank) {
    return std::nullopt;
  }
  const Dims &a = in[first], &b = in[first + 1];
  result::TraceProduct p{a[rank - 2], b[rank - 1], a[rank - 1], rank == 3 ? a[0] : 1};
  const bool fits = b[rank - 2] == p.k && p.m > 0 && p.n > 0 && p.k > 0 && p.batch > 0;
  return fits ? std::optional(p) : std::nullopt;
}

struct ProductName {
  std::string_view name;
  std::size_t first, rank;
};
constexpr ProductName kProducts[] = {
    {"aten::mm", 0, 2},      {"aten::addmm", 1, 2},      {"aten::bmm", 0, 3},
    {"aten::baddbmm", 1, 3}, {"aten::_scaled_mm", 0, 2}, {"aten::_addmm_activation", 1, 2},
};

// Operators of attention: which input is the query, whose key follows, and how its sizes are
// ordered.
struct AttentionName {
  std::string_view name;
  std::size_t query;
  bool heads_first;  // [sequences, heads, length, size], else [sequences, length, heads, size]
  bool backward;
  std::size_t causal;  // which concrete input says whether it is causal; 0: none does
};
constexpr AttentionName kAttention[] = {
    {"aten::_scaled_dot_product_flash_attention", 0, true, false, 4},
    {"aten::_scaled_dot_product_flash_attention_backward", 1, true, true, 11},
    {"aten::_scaled_dot_product_efficient_attention", 0, true, false, 6},
    {"aten::_scaled_dot_product_cudnn_attention", 0, true, false, 6},
    {"aten::_flash_attention_forward", 0, false, false, 0},
    {"aten::_flash_attention_backward", 1, false, true, 0},
    {"flash_attn::_flash_attn_forward", 0, false, false, 0},
    {"flash_attn::_flash_attn_backward", 1, false, true, 0},
    {"FlashAttnFunc", 0, false, false, 0},
};

std::optional<result::TraceAttention> attention(const AttentionName& how,
                                                const std::vector<Dims>& in,
                                                const std::vector<std::string>& inputs) {
  if (in.size() < how.query + 2 || in[how.query].size() != 4 || in[how.query + 1].size() != 4) {
    return std::nullopt;
  }
  const Dims &q = in[how.query], &k = in[how.query + 1];
  const std::size_t heads = how.heads_first ? 1 : 2, length = how.heads_first ? 2 : 1;
  result::TraceAttention out;
  out.sequences = q[0], out.length = q[length], out.heads = q[heads], out.head_dim = q[3];
  out.kv_heads = k[heads];
  out.backward = how.backward;
  if (how.causal > 0 && inputs.size() > how.causal && !inputs[how.causal].empty()) {
    out.causal = inputs[how.causal] == "True";
    out.causal_known = true;
  }
  const bool fits = out.sequences > 0 && out.length > 0 && out.kv_heads > 0 &&
                    out.heads % out.kv_heads == 0 && out.head_dim > 0 && k[length] == out.length;
  return fits ? std::optional(out) : std::nullopt;
}

}  // namespace

result::TraceOperator read_operator(const OperatorShapes& recorded, std::string_view kernel) {
  result::TraceOperator out;
  out.name = recorded.name;
  const std::vector<Dims> dims = parse_dims(recorded.dims);
  const std::vector<std::string> types = parse_texts(recorded.types);
  out.shapes = shown_dims(dims);
  if (dims.empty()) {
    out.why = "its shapes were not recorded";
    return out;
  }
  for (const ProductName& how : kProducts) {
    if (how.name == recorded.name) {
      out.product = product(dims, how.first, how.rank);
      out.dtype = types.size() > how.first ? type_of(types[how.first], kernel) : "";
    }
  }
  for (const AttentionName& how : kAttention) {
    if (how.name == recorded.name) {
      out.attention = attention(how, dims, parse_texts(recorded.inputs));
      out.dtype = types.size() > how.query ? type_of(types[how.query], kernel) : "";
    }
  }
  if (!out.product && !out.attention) {
    out.why = "its shapes are not read";
  } else if (out.dtype.empty()) {
    out.why = "its type is not known";
  }
  return out;
}

std::int64_t bytes_of_type(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::int64_t> kTypes[] = {
      {"Float", 4}, {"Double", 8}, {"Half", 2},          {"BFloat16", 2},
      {"Long", 8},  {"Int", 4},    {"Short", 2},         {"Char", 1},
      {"Byte", 1},  {"Bool", 1},   {"Float8_e4m3fn", 1}, {"Float8_e5m2", 1},
  };
  for (const auto& [name, bytes] : kTypes) {
    if (name == dtype) {
      return bytes;
    }
  }
  return 0;
}

}  // namespace stepcast::trace
