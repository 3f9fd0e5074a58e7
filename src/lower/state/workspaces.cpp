// Workspaces of libraries: scratch memory that stands from the first use to the end of the process.
#include <algorithm>
#include <set>
#include <utility>

#include "../stage/feature_list.h"

namespace stepcast::lower {

using program::MemoryCategory;

namespace {

class Workspaces final : public Feature {
 public:
  void make_workspaces(Stage& stage) override;
};

int layers_of_experts(const Stage& stage) {
  int out = 0;
  for (const auto& chunk : stage.plan.stages[stage.number]) {
    for (int n = 0; n < chunk.layers; ++n) {
      out += model::layer_kind(stage.plan.model, chunk.first_layer + n).mlp ==
             model::LayerKind::Mlp::moe;
    }
  }
  return out;
}

bool has_experts(const Stage& stage) { return layers_of_experts(stage) > 0; }

// The compute stream, and those on which shared experts run beside the dispatch: one, or up to core
// 0.18 one of each layer (megatron-core 0.16.1, transformer/moe/shared_experts.py:122, an attribute
// of the layer's object; 0.19.2:191 of the class).
std::int64_t product_streams(const Stage& stage) {
  if (!stage.plan.style.routing.shared_beside || !has_experts(stage)) {
    return 1;
  }
  return 1 + (stage.plan.device_memory.shared_expert_streams ? layers_of_experts(stage) : 1);
}

// Megatron-LM's own unfused attention hands its product of scores a tensor to add to, which stays
// in the global memory buffer, as large as the largest so far
// (core/transformer/dot_product_attention.py, core/utils.py: GlobalMemoryBuffer; since 2022).
// Transformer Engine's makes its own.
std::int64_t scores_buffer(const Stage& stage) {
  if (!stage.plan.device_memory.scores_buffer) {
    return 0;
  }
  std::int64_t most = 0;
  for (const auto& [kind, graph] : *stage.context.layers) {
    for (const model::Operator& op : graph.operators) {
      if (op.kind == model::OpKind::batched_gemm && op.name == "scores") {
        most = std::max(most, op.forward_output.count());
      }
    }
  }
  return most;
}

// Where products add weight gradients to the main ones, autograd gets an empty tensor in place of
// the gradient. Transformer Engine keeps one for each shape of weight until the process ends
// (pytorch/module/base.py, get_dummy_wgrad).
std::int64_t dummy_gradients(const Stage& stage) {
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const auto& units : stage.units) {
    for (const Unit& unit : units) {
      for (const model::Gemm& g : unit.passes->summed) {
        shapes.insert({g.n, g.k});
      }
    }
  }
  std::int64_t bytes = 0;
  for (const auto& [n, k] : shapes) {
    bytes += whole_blocks(static_cast<double>(n * k) * width(stage.plan.style.dtype));
  }
  return bytes;
}

std::int64_t layers_of(const Stage& stage) {
  std::int64_t layers = 0;
  for (const auto& chunk : stage.plan.stages[stage.number]) {
    layers += chunk.layers;
  }
  return layers;
}

// Tables of complex rotary positions, for the whole sequence on every rank: one in each layer's
// module (torchtitan 0.3), or the model's one (0.1 and 0.2, models/llama3: freqs_cis). torchtune
// keeps cosines and sines as pairs, as large, in one module that all layers share (0.6.1,
// modules/position_embeddings.py:82: cache; models/llama3/_component_builders.py: rope).
std::int64_t rotary_tables(const Stage& stage) {
  const model::Style& style = stage.plan.style;
  std::int64_t tables = style.complex_rotary || style.paired_rotary ? 1 : 0;
  if (stage.plan.device_memory.rotary_tables) {
    tables = layers_of(stage);
  }
  constexpr std::int64_t kComplex = 8;  // bytes
  return tables * stage.plan.shard.sequence_length * (stage.plan.model.head_dim / 2) * kComplex;
}

// flash-attn's RotaryEmbedding keeps a cosine and a sine of each position and pair of dimensions,
// in the format of what it rotates (2.8.3, layers/rotary.py:415, _update_cos_sin_cache).
std::int64_t rotary_caches(const Stage& stage) {
  if (!stage.plan.device_memory.rotary_caches) {
    return 0;
  }
  const std::int64_t angles = stage.plan.shard.sequence_length * (stage.plan.model.head_dim / 2);
  return 2 * layers_of(stage) *
         whole_blocks(static_cast<double>(angles) * width(stage.plan.style.dtype));
}

// Megatron-Core's rotary embeddings remember what they returned (0.16.1,
// models/common/embeddings/rotary_pos_embedding.py:177, lru_cache): each angle twice. A model chunk
// has one. Not modelled: those of latent attention, a layer's each (1 MiB for 4,096 positions).
std::int64_t rotary_angles(const Stage& stage) {
  if (!stage.plan.device_memory.rotary_angles || stage.plan.model.mla) {
    return 0;
  }
  const auto chunks = static_cast<std::int64_t>(stage.plan.stages[stage.number].size());
  const std::int64_t positions = stage.plan.shard.sequence_length / stage.plan.shard.context;
  return chunks * whole_blocks(4.0 * static_cast<double>(positions * stage.plan.model.head_dim));
}

std::int64_t gathered_buffer(const Stage& stage) {
  const model::Shard& shard = stage.plan.shard;
  const std::int64_t tokens = stage.plan.device_memory.gathered_ranks * shard.sequences *
                              shard.sequence_length / shard.context;
  return whole_blocks(static_cast<double>(tokens * stage.plan.model.hidden) *
                      width(stage.plan.style.dtype));
}

void Workspaces::make_workspaces(Stage& stage) {
  // cuBLAS: 8.125 MiB a handle and stream before Hopper, 32 MiB since. PyTorch keeps handles per
  // thread, and the backward pass runs on autograd's: two of them (CublasHandlePool.cpp).
  constexpr std::int64_t kHandles = 2;
  const double capability = stage.context.device->compute_capability;
  const bool hopper = capability >= 9;
  const bool compiled = hardware::vendor_of(*stage.context.device) == hardware::Vendor::google;
  std::int64_t workspace =
      stage.plan.device_memory.gemm_workspace_stands && !compiled
          ? kHandles * product_streams(stage) * gemm_workspace(stage.plan, capability)
          : 0;
  // Transformer Engine's own: one, or with user buffers one for each of their streams
  // (initialize_ub: _NUM_MAX_UB_STREAMS). Grouped products have one for each stream that they use
  // (get_multi_stream_cublas_workspace).
  if (stage.plan.device_memory.layer_workspace) {
    constexpr std::int64_t kBufferStreams = 3;
    constexpr std::int64_t kGroupedStreams = 4;
    const bool buffers = stage.plan.device_memory.overlap_workspaces;
    const std::int64_t count =
        (buffers ? kBufferStreams : 1) +
        (stage.plan.device_memory.grouped_workspaces && has_experts(stage) ? kGroupedStreams : 0);
    workspace += (hopper ? 32 << 20 : 4 << 20) * count;
  }
  stage.builder.persistent(workspace, MemoryCategory::workspace, label_of(stage, "GEMM workspace"));
  // Scores and gathered inputs are in one buffer, as large as the larger (megatron-core 0.16.1,
  // core/utils.py:609, GlobalMemoryBuffer: by name, which is "mpu" for both, and format).
  const std::int64_t scores = scores_buffer(stage);
  const std::int64_t gathered = gathered_buffer(stage);
  stage.builder.persistent(
      std::max(scores, gathered), MemoryCategory::workspace,
      label_of(stage, scores >= gathered ? "scores buffer" : "gathered input"));
  // torchtitan's model makes its table anew once it has memory, beside the empty one (0.2.2,
  // models/llama3/model/model.py:477, init_weights).
  const bool remade = stage.plan.style.complex_rotary && !stage.plan.device_memory.rotary_tables;
  const program::BufferIndex empty =
      stage.builder.declare(remade ? rotary_tables(stage) : 0, MemoryCategory::workspace,
                            label_of(stage, "empty rotary table"));
  if (empty != program::kNone) {
    program::Buffer& buffer = stage.builder.program.buffers[empty];
    buffer.initial = buffer.among_persistent = true;
  }
  stage.builder.persistent(rotary_tables(stage), MemoryCategory::workspace,
                           label_of(stage, "rotary tables"));
  stage.builder.persistent(rotary_angles(stage), MemoryCategory::workspace,
                           label_of(stage, "rotary angles"));
  stage.builder.persistent(rotary_caches(stage), MemoryCategory::workspace,
                           label_of(stage, "cosines and sines"));
  stage.builder.persistent(dummy_gradients(stage), MemoryCategory::workspace,
                           label_of(stage, "empty weight gradients"));
}

}  // namespace

std::unique_ptr<Feature> make_workspaces() { return std::make_unique<Workspaces>(); }

}  // namespace stepcast::lower
