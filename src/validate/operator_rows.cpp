#include "operator_rows.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/lower/unit_memory.h"
#include "stepcast/model/pieces.h"

namespace stepcast::validate {
namespace {

using lower::UnitMemory;
using model::Operator;
using model::OperatorGraph;
using model::Piece;
using program::Block;
using runs::OperatorCase;

constexpr std::uint16_t kEnd = 0xffff;

std::int64_t rounded(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }

// The tensors that the benchmark keeps around the operator.
struct Bench {
  std::int64_t input = 0;     // bytes of the operator's input
  std::int64_t standing = 0;  // bytes allocated during the whole call, without the input
  bool backward = true;
  bool retained = true;  // saved tensors are kept after the backward pass
  // The output's gradient is counted in `standing` or needs no tensor of its own.
  bool given_gradient = true;
};

std::int64_t element(const OperatorCase& row) { return row.dtype == job::DType::fp32 ? 4 : 2; }

Operator* find(OperatorGraph& graph, std::string_view name) {
  for (Operator& op : graph.operators) {
    if (op.name == name) {
      return &op;
    }
  }
  return nullptr;
}

// The number of parameters of the graph's operators.
std::int64_t parameters(const OperatorGraph& graph) {
  std::int64_t out = 0;
  for (const Operator& op : graph.operators) {
    out += op.parameters;
  }
  return out;
}

std::int64_t peak(const OperatorGraph& graph, const Bench& bench, std::int64_t width) {
  lower::UnitOptions options;
  options.input = bench.input;
  options.retained = bench.retained;
  for (const Operator& op : graph.operators) {
    lower::TensorRules rules;
    rules.piece.view = op.in_place;
    if (op.gemm) {
      // Autograd adds a weight's gradient to the accumulated one and then frees it.
      rules.weight_gradient = op.parameters / std::max(1, op.forward_kernels) * width;
      if (op.kind == model::OpKind::gemm && op.forward_kernels > 1) {
        // a second gradient and the sum of both
        rules.backward = 2 * op.gemm->m * op.gemm->k * width;
      }
    }
    options.rules.push_back(rules);
  }
  std::map<std::string, program::LabelIndex> labels;
  const UnitMemory unit = lower::unit_memory(graph, options, [&](const std::string& text) {
    return labels.emplace(text, program::LabelIndex::at(labels.size())).first->second;
  });
  const auto number = [&](const std::string& text) {
    const auto at = labels.find(text);
    return at == labels.end() ? program::LabelIndex{program::kNone} : at->second;
  };
  const std::string& last = graph.operators.back().name;
  std::vector<Block> forward;
  std::vector<Block> backward;
  for (const Block& b : unit.forward.blocks) {
    if (b.label != number("unit input")) {
      forward.push_back(b);
    }
    if (b.label == number(last + " result")) {
      backward.push_back({b.bytes, b.label, 0, kEnd});
    }
  }
  for (const Block& b : unit.again.saved.blocks) {
    forward.push_back({b.bytes, b.label, b.begin, kEnd});
    backward.push_back({b.bytes, b.label, 0, bench.retained ? kEnd : b.end});
  }
  for (const Block& b : unit.backward.blocks) {
    if (!bench.given_gradient || b.label != number(last + " gradient")) {
      backward.push_back(b);
    }
  }
  const std::int64_t forth = lower::peak_beside(forward, 0);
  const std::int64_t back = bench.backward ? lower::peak_beside(backward, 0) : 0;
  return bench.standing + rounded(bench.input) + std::max(forth, back);
}

// cuBLAS allocates its workspaces in PyTorch's allocator, one for each thread that runs products
// (CublasHandlePool.cpp): 8.125 MiB before Hopper, 32 MiB since.
std::int64_t workspaces(const OperatorCase& row, int threads) {
  const bool hopper = row.device.find("H100") != std::string::npos;
  return threads * (hopper ? std::int64_t{32} << 20 : 8519680);
}

struct Setting {
  job::Model model;
  model::Shard shard;
  model::Style style;
};

Setting setting(const OperatorCase& row, std::int64_t tokens) {
  Setting s;
  s.model.norm = job::Norm::rms;
  s.model.positions = job::Positions::rotary;
  s.model.gated_mlp = true;
  s.shard.sequence_length = tokens;
  s.style.dtype = row.dtype;
  s.style.fused_qkv = false;  // gate and up are separate products
  return s;
}

OperatorGraph piece(Piece which, const Setting& s) {
  return model::build_piece(which, s.model, s.shard, s.style);
}

// ---------------------------------------------------------------- one function a benchmark
std::int64_t cross_entropy(const OperatorCase& row) {
  Setting s = setting(row, row.size("B") * row.size("T"));
  s.model.vocab = row.size("V");
  const bool liger = row.provider == "liger";
  s.style.loss = liger ? job::LossKernel::fused : job::LossKernel::eager;
  const std::int64_t tokens = s.shard.sequence_length;
  const std::int64_t logits = tokens * s.model.vocab * 4;
  OperatorGraph graph = piece(Piece::loss, s);
  if (liger) {  // the gradient overwrites the logits in place
    graph.operators.front().saved.front().name = "input";
  }
  // Class indices are 64-bit integers.
  return peak(graph, {logits, rounded(8 * tokens) + (liger ? 0 : logits)}, 4);
}

// The benchmark creates the modules of both providers, each with its own projection.
std::int64_t fused_linear_cross_entropy(const OperatorCase& row) {
  Setting s = setting(row, row.size("BT"));
  s.model.hidden = row.size("H");
  s.model.vocab = row.size("V");
  const std::int64_t tokens = s.shard.sequence_length;
  const std::int64_t input = tokens * s.model.hidden * 2;
  const std::int64_t weight = s.model.vocab * s.model.hidden * 2;
  const std::int64_t standing = 3 * weight + input + 8 * tokens + workspaces(row, 2);
  if (row.provider == "liger") {
    s.style.loss = job::LossKernel::fused_linear;
    // The gradients that it keeps are those that it hands on.
    Bench bench{input, standing};
    bench.retained = false;
    return peak(piece(Piece::projection_loss, s), bench, 2);
  }
  s.style.loss = job::LossKernel::eager;
  OperatorGraph graph = piece(Piece::projection_loss, s);
  Operator& loss = *find(graph, "loss");  // the logits are bf16 and are never cast
  const Bytes logits(tokens * s.model.vocab * 2);
  loss.saved.front().bytes = logits;
  loss.forward_temporary = Bytes(0);
  loss.backward_temporary = logits;
  return peak(graph, {input, standing}, 2);
}

std::int64_t gated_mlp(const OperatorCase& row) {
  const std::int64_t sequences = row.size("bsz") + row.size("B");
  Setting s = setting(row, sequences * row.size("T"));
  s.model.hidden = row.size("hidden_size");
  s.model.ffn = row.size("intermediate_size");
  const bool liger = row.provider == "liger";
  s.style.fused_bias_activation = s.style.gate_in_place = liger;
  const OperatorGraph graph = piece(Piece::mlp, s);
  const std::int64_t e = element(row);
  const std::int64_t input = s.shard.sequence_length * s.model.hidden * e;
  const bool back = row.mode != "forward";
  const std::int64_t weights = parameters(graph) * e;
  // A backward pass also holds the gradients of the input and of the output.
  const std::int64_t standing = workspaces(row, 2) + (back ? 2 * weights + 2 * input : weights);
  return peak(graph, {input, standing, back}, e);
}

std::int64_t norm(const OperatorCase& row) {
  const bool megatron = row.kernel == "megatron_rms_norm";
  const bool layer = row.kernel == "layer_norm";
  const bool summed = row.kernel == "fused_add_rms_norm";
  Setting s = setting(row, megatron ? row.size("S") * row.size("B") : row.size("M"));
  s.model.norm = layer ? job::Norm::layer : job::Norm::rms;
  s.model.hidden = layer ? row.size("N") : row.size("H");
  const bool eager = row.provider == "huggingface" && !layer;
  s.style.fused_norm = !eager;
  OperatorGraph graph = piece(Piece::norm, s);
  const std::int64_t e = element(row);
  const std::int64_t elements = s.shard.sequence_length * s.model.hidden;
  Bench bench{elements * e, 2 * elements * e};  // the gradients of input and output
  if (summed) {
    // The norm reads the sum of two inputs and returns this sum as well.
    bench.standing += 4 * elements * e;
  }
  if (eager && e < 4) {
    // The module's weight is fp32, so its output is fp32 as well; the gradient is cast.
    graph.operators.front().forward_output = Bytes(4 * elements);
    bench.given_gradient = false;
  }
  return peak(graph, bench, e);
}

std::int64_t rope(const OperatorCase& row) {
  Setting s = setting(row, row.size("seq_len") + row.size("T"));
  const std::int64_t hidden = row.size("hidden_size") + row.size("H");
  s.model.heads = static_cast<int>(row.size("num_q_heads"));
  s.model.kv_heads = static_cast<int>(row.size("num_kv_heads"));
  s.model.head_dim = static_cast<int>(hidden / std::max(1, s.model.heads));
  s.style.fused_rotary = s.style.rotary_in_place = row.provider == "liger";
  const std::int64_t e = element(row);
  const std::int64_t one = s.shard.sequence_length * s.model.head_dim * e;
  const std::int64_t both = one * (s.model.heads + s.model.kv_heads);
  // `standing` has the gradients of the outputs, sine and cosine. Gradients of the inputs are
  // returned and not accumulated (torch.autograd.grad). The angles come from a matrix product.
  const std::int64_t standing = both + 2 * one + workspaces(row, 1);
  return peak(piece(Piece::rotary, s), {both, standing}, e);
}

// The benchmark differentiates a sum: its gradient is one number for all outputs, and no gradient
// is left from the previous call.
std::int64_t megatron_cross_entropy(const OperatorCase& row) {
  Setting s = setting(row, row.size("S") * row.size("B"));
  s.model.vocab = row.size("V");
  s.style.loss = job::LossKernel::vocab_parallel;
  const std::int64_t logits = s.shard.sequence_length * s.model.vocab;
  OperatorGraph graph = piece(Piece::loss, s);
  if (row.provider == "megatron-fused") {
    // Compiled functions do not write in place, so the scaled softmax is a new fp32 tensor
    // (core/fusions/fused_cross_entropy.py).
    graph.operators.front().backward_temporary = Bytes(4 * logits);
  }
  Bench bench{2 * logits, rounded(8 * s.shard.sequence_length)};
  bench.retained = false;
  return peak(graph, bench, 2);
}

std::int64_t megatron_swiglu(const OperatorCase& row) {
  Setting s = setting(row, row.size("S") * row.size("B"));
  s.model.ffn = row.size("ffn_local");
  s.style.fused_qkv = true;
  s.style.fused_bias_activation = row.provider != "torch";
  OperatorGraph graph = piece(Piece::activation, s);
  const std::int64_t one = s.shard.sequence_length * s.model.ffn * 2;
  const bool liger = row.provider.starts_with("liger");
  if (row.provider == "liger_in_place") {
    graph.operators.front().gradient = Operator::Gradient::in_kept;
  }
  // Liger's kernel needs the gradient of the output as a separate tensor.
  Bench bench{2 * one, liger ? one : 0};
  bench.retained = false;
  return peak(graph, bench, 2);
}

std::int64_t fused_moe(const OperatorCase& row) {
  Setting s = setting(row, row.size("T"));
  s.model.hidden = row.size("H");
  job::Moe moe;
  moe.experts = static_cast<int>(row.size("E"));
  moe.topk = static_cast<int>(row.size("K"));
  moe.ffn = row.size("intermediate_dim");
  s.model.moe = moe;
  const bool liger = row.provider == "liger";
  s.style.fused_bias_activation = liger;
  OperatorGraph graph = piece(Piece::experts, s);
  if (liger) {  // products read the rows without copying them (ops/fused_moe.py)
    find(graph, "expert_fc1")->saved.clear();
    find(graph, "permute")->forward_output = Bytes(0);
  }
  const std::int64_t e = element(row);
  const std::int64_t input = s.shard.sequence_length * s.model.hidden * e;
  const bool back = row.mode != "forward";
  // The weights of both providers' modules are allocated, but gradients only of the measured one.
  const std::int64_t weights = parameters(graph) * e;
  const std::int64_t standing = workspaces(row, 2) + (back ? 3 * weights + 2 * input : 2 * weights);
  return peak(graph, {input, standing, back}, e);
}

struct Benchmark {
  std::string_view kernel;
  std::int64_t (*peak)(const OperatorCase&);
  // A provider whose operator works otherwise than any operator of a layer.
  std::string_view but_not = "";
};
constexpr std::array kBenchmarks{
    Benchmark{"cross_entropy", cross_entropy},
    Benchmark{"fused_linear_cross_entropy", fused_linear_cross_entropy},
    Benchmark{"geglu", gated_mlp},
    Benchmark{"swiglu", gated_mlp},
    Benchmark{"layer_norm", norm},
    Benchmark{"rms_norm", norm},
    Benchmark{"fused_add_rms_norm", norm},
    Benchmark{"megatron_rms_norm", norm},
    Benchmark{"rope", rope},
    Benchmark{"megatron_cross_entropy", megatron_cross_entropy},
    Benchmark{"megatron_swiglu", megatron_swiglu},
    Benchmark{"fused_moe", fused_moe},
};

}  // namespace

std::optional<Bytes> operator_peak(const OperatorCase& row) {
  for (const Benchmark& one : kBenchmarks) {
    if (row.kernel == one.kernel && row.provider != one.but_not) {
      return Bytes(one.peak(row));
    }
  }
  return std::nullopt;
}

}  // namespace stepcast::validate
