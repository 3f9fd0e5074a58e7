// What a user can state: plain structs, no behaviour, no files. `config` fills them from text; every other room reads
// them. A field that the user may leave out is std::optional or has the documented default here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/hardware/hardware.h"
#include "stepcast/job/habits.h"
#include "stepcast/terms/architecture.h"
#include "stepcast/terms/kernels.h"
#include "stepcast/terms/memory.h"
#include "stepcast/terms/number_format.h"
#include "stepcast/terms/parallelism.h"

namespace stepcast::job {

// Words of stepcast/terms, which this room also offers.
using stepcast::Activation;
using stepcast::AttentionKernel;
using stepcast::AttentionMasks;
using stepcast::bytes_per_element;
using stepcast::ContextKind;
using stepcast::DType;
using stepcast::LossKernel;
using stepcast::Norm;
using stepcast::OffloadTarget;
using stepcast::Optimizer;
using stepcast::Positions;
using stepcast::Sharding;
using stepcast::TensorKind;
using stepcast::TensorOverlap;
using stepcast::to_string;

// ---------------------------------------------------------------- model
struct Moe {
  int experts = 0;
  int topk = 0;
  std::int64_t ffn = 0;         // of one routed expert
  int shared_experts = 0;       // each of width `shared_ffn`
  std::int64_t shared_ffn = 0;  // 0: the same as `ffn`
  std::int64_t latent = 0;      // width to which tokens are projected ahead of their dispatch; 0: they keep Model::hidden
  bool latent_norm = false;     // a norm of the experts' sum in that space, ahead of its projection back (Kimi K3)
  int dense_layers = 0;         // the first n layers keep a dense MLP of width Model::ffn
  int hash_layers = 0;          // in the first n layers a table names each token's experts (DeepSeek-V4)
  int every = 1;                // one MoE layer in every n
  bool router_bias = false;     // a per-expert selection bias (DeepSeek-V3), not trained by gradients but a parameter
  bool shared_gate = false;     // a sigmoid gate of one output on the shared expert (Qwen2-MoE)
  // Router, routed and shared experts each norm the residual stream for themselves, and what both kinds of experts return
  // is normed before it is summed. The router scales what it reads by channel, and its weights by expert (Gemma 4).
  bool branch_norms = false;
  // Group-limited routing (DeepSeek-V2 and V3): the experts are divided into equal groups, and a token's top-k experts come
  // from its best `router_group_topk` groups. 1 group: no limit.
  int router_groups = 1;
  int router_group_topk = 1;
  bool operator==(const Moe&) const = default;
};

struct Mla {
  int q_lora_rank = 0;  // 0: queries are projected directly
  int kv_lora_rank = 0;
  int qk_nope_dim = 0;
  int qk_rope_dim = 0;
  int v_dim = 0;
  bool operator==(const Mla&) const = default;
};

// Linear attention by the gated delta rule (Yang et al., arXiv 2412.06464) as Qwen3-Next has it: its recurrence runs in
// chunks, of two products each between keys, values and a state of key_dim x value_dim a head.
struct LinearAttention {
  int key_heads = 0;
  int value_heads = 0;  // key heads repeat for the value heads of their group
  int key_dim = 0;
  int value_dim = 0;
  int conv = 4;                    // width of the causal convolution over queries, keys and values
  int chunk = 64;                  // tokens of one chunk (flash-linear-attention)
  bool elementwise_decay = false;  // a decay for each key channel from a low-rank product (Kimi Delta Attention)
  bool whole_gate = false;  // beside elementwise_decay: the output's gate is one product, not a low-rank one (Kimi K3)
  bool operator==(const LinearAttention&) const = default;
};

// Mamba-2 (Dao and Gu, arXiv 2405.21060): state-space duality, run in chunks.
struct Mamba {
  int heads = 0;
  int head_dim = 0;
  int state = 0;
  int groups = 1;  // of heads that share their B and C
  int conv = 4;
  int chunk = 256;  // tokens of one chunk (mamba_ssm's default)
  bool operator==(const Mamba&) const = default;
};

// Sparse attention: an indexer scores all keys in a small width, a query attends to the best `topk` (DeepSeek-V3.2).
struct Indexer {
  int heads = 0;
  int dim = 0;
  std::int64_t topk = 0;
  // A letter for each layer, repeated: i has an indexer, s attends as the one before it, a attends to all keys; empty: all
  // i.
  std::string layers = {};
  // Keys of a block: each head of the indexer chooses blocks by their best key, for its own group of query heads
  // (MiniMax-M3). 1: single keys, by the weighted sum of all its heads.
  int block = 1;
  bool operator==(const Indexer&) const = default;
};

// Heads of sliding-window layers where they differ from those of other layers (Gemma 4, MiMo-V2).
struct WindowHeads {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int v_dim = 0;  // 0: head_dim
  bool operator==(const WindowHeads&) const = default;
};

// Several residual streams (hyper-connections, Zhu et al., arXiv 2409.19606). Each block reads a weighted sum of them; as
// its result is added to each with a weight, they are mixed among themselves. All weights come from the streams. Those that
// mix are made doubly stochastic (DeepSeek-V4).
struct HyperConnections {
  int streams = 0;
  int sinkhorn = 20;  // iterations that normalise the mixing weights' rows and columns
  bool operator==(const HyperConnections&) const = default;
};

// Attention of DeepSeek-V4: one head of Model::head_dim is all query heads' key and value; beside the keys of
// Model::sliding_window, queries attend to entries that stand for several tokens each. Queries and the output's projection
// have low rank.
struct CompressedAttention {
  int q_lora_rank = 0;
  int rope_dim = 0;      // dimensions of a head with rotary positions
  int o_groups = 1;      // of heads, each projected by itself to
  int o_lora_rank = 0;   // so many columns
  int sparse_rate = 4;   // tokens of an entry in layers c, of which Model::indexer chooses; entries overlap
  int heavy_rate = 128;  // in layers h, which attend to all of them
  bool operator==(const CompressedAttention&) const = default;
};

// An embedding of each token for each layer, from which a gated product of small width is added behind the layer's MLP
// (Gemma 4).
struct LayerEmbedding {
  std::int64_t width = 0;
  std::int64_t vocab = 0;  // rows of its table; 0: Model::vocab
  bool operator==(const LayerEmbedding&) const = default;
};

// Operators that Liger-Kernel has for a model's modules (liger-kernel 0.8.5, transformers/monkey_patch.py).
struct LigerOperators {
  bool rope = true;
  bool rms_norm = true;
  bool qk_norm = true;  // the norms of queries and keys are among those
  bool glu = true;      // of gated MLPs
  bool experts = true;  // routed experts in kernels that gather their rows themselves
  bool loss = true;
  bool linear_loss = true;  // that of a head and its loss in one; else true stands for the loss alone (Granite)
  bool operator==(const LigerOperators&) const = default;
};

// What transformers' modules of a model do otherwise than those of its Llama; of use with System::transformers_modules.
struct Modules {
  bool eager_attention = false;   // no scaled_dot_product_attention (caps, sinks, ALiBi, old modules)
  bool masked_attention = false;  // it is given a mask in every layer (System::attention_masks)
  bool packed_qkv = false;        // these are fields of System
  bool copied_qkv = false;
  bool packed_gated_mlp = false;
  bool joined_rotary = false;
  bool wide_norm = false;
  bool every_token = false;  // of MoeRuntime
  bool logsumexp_sinks =
      false;  // sinks scale attention's result by a log-sum-exp of the scores; else they are a column beside these
  LigerOperators liger = {};
  bool operator==(const Modules&) const = default;
};

struct Biases {
  bool qkv = false;
  bool attention_out = false;
  bool mlp = false;
  bool head = false;
  bool operator==(const Biases&) const = default;
};

// In what a fine-tuned model's layers differ by their place: `untrained` of the first have nothing that is trained, in them
// or below; of the one above these no gradient of its input is needed, where `stops_gradient`; those from `prompts_from` up
// attend to prompts of LLaMA-Adapter.
struct Tuned {
  int untrained = 0;
  bool stops_gradient = false;
  std::optional<int> prompts_from = {};
  bool operator==(const Tuned&) const = default;
};

struct Model {
  std::string name;
  int layers = 0;
  std::int64_t hidden = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  std::int64_t ffn = 0;
  std::vector<std::int64_t> ffns;  // widths of dense MLPs by layer, repeated over the layers; empty: ffn throughout
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;  // rows of a learned position embedding
  bool gated_mlp = false;
  Activation activation = Activation::gelu;
  bool tied_embeddings = false;
  Norm norm = Norm::layer;
  Positions positions = Positions::learned;
  Biases biases;
  bool qk_norm = false;         // a norm over each head's query and key
  bool value_norm = false;      // a norm without weights over each head's value, beside qk_norm (Gemma 4)
  bool keys_as_values = false;  // values are the keys before their norm, except in window layers (Gemma 4)
  bool parallel_block = false;  // attention and MLP read the same norm (GPT-J, Falcon)
  double dropout = 0;           // hidden and attention dropout probability
  std::optional<Moe> moe;
  std::optional<Mla> mla;
  int mtp_layers = 0;               // multi-token prediction layers after the last layer (DeepSeek-V3)
  bool mtp_repeated = false;        // they are one layer that runs mtp_layers times (Nemotron 3)
  std::int64_t sliding_window = 0;  // keys that a query of a window layer attends to; 0: there are none
  // Mixers by layer, one letter each, repeated over the layers: a attention, w sliding window, c and h compressed attention,
  // l linear attention, m Mamba-2, - none. Empty: w throughout with a sliding_window, else a.
  std::string mixers;
  int encoder_layers = 0;  // the first n layers are an encoder; all: an encoder model (BERT), else encoder-decoder (T5)
  // MLPs by layer, as `mixers`: d dense, e experts, - none. Empty: as `moe` says.
  std::string mlps;
  bool chunked_window = false;     // a query attends to earlier keys in its chunk of sliding_window (Llama 4)
  bool sinks = false;              // a learned logit per head in the softmax's sum (gpt-oss)
  bool attention_softcap = false;  // scores are bounded by tanh, in kernels of their own where no fused one has it (Gemma 2)
  bool logit_softcap = false;      // so are the logits, ahead of the loss
  Modules modules;
  bool attention_gate = false;        // a sigmoid gate on the core's output, projected beside the query (Qwen3-Next)
  bool qk_norm_whole = false;         // qk_norm over all heads at once, with a weight for each of their channels (OLMo 2)
  bool sandwich_norms = false;        // a norm after each block as well, before it is added (Gemma 2)
  bool output_norms = false;          // a block's norm is of what it returns, before that is added (OLMo 2)
  bool parallel_norms = false;        // a parallel block whose MLP has a norm of its own (GPT-NeoX, Falcon-40B)
  bool post_norm = false;             // norms follow the residual adds, and there is no final norm (BERT)
  bool embedding_norm = false;        // a norm over the embeddings (BLOOM, BERT)
  bool head_transform = false;        // hidden x hidden, activation and norm before the output projection (BERT)
  int token_types = 0;                // rows of a segment embedding (BERT: 2)
  int relative_buckets = 32;          // rows of each table of relative positions
  int v_dim = 0;                      // dimensions of a head's value; 0: head_dim
  std::int64_t encoder_sequence = 0;  // tokens of an encoder-decoder model's input; 0: the workload's sequence_length
  std::optional<LinearAttention> linear;
  std::optional<Mamba> mamba;
  std::optional<Indexer> indexer;
  std::optional<WindowHeads> window_heads;
  std::optional<HyperConnections> hyper_connections;
  std::optional<CompressedAttention> compressed;
  // Layers of a block: each block reads the sum of what its layers have added, mixed with the streams that earlier blocks
  // began with, by attention over them (attention residuals, Kimi K3). 0: a residual stream.
  int residual_block = 0;
  std::optional<LayerEmbedding> layer_embedding;
  // The last n layers attend to the keys and values of the last one of their kind before them (Gemma 4).
  int shared_kv_layers = 0;
  // So many of the first and of the last layers run their products in 16 bits where Workload::precision has fewer
  // (Megatron-LM, --num-layers-at-start-in-bf16 and -end-).
  int bf16_start_layers = 0;
  int bf16_end_layers = 0;
  DType checkpoint = DType::bf16;  // format of the published weights (System::loads_as_stored)
  Tuned tuned;                     // no key: follows from Workload::finetune and System::input_gradients
  bool operator==(const Model&) const = default;
};

// ---------------------------------------------------------------- cluster
using hardware::Cluster;
using hardware::Device;
using hardware::DeviceOverride;
using hardware::Fabric;
using hardware::LinkFault;
using hardware::Node;
using hardware::NvlinkEdge;
using hardware::peak_of;

// ---------------------------------------------------------------- workload and strategy
// Adapters on a frozen base model. Arrays named as HuggingFace's PEFT names target modules: q, k, v, o, gate, up, down.
struct Finetune {
  using Kind = FinetuneKind;
  Kind kind = Kind::none;
  int rank = 16;                                  // of a LoRA product; adapter: its bottleneck width
  std::vector<std::string> targets = {"q", "v"};  // modules with an adapter (PEFT's default for Llama)
  double dropout = 0;                             // of what a LoRA product reads (lora_dropout)
  bool double_quantized = true;                   // qlora: the constants of its blocks are quantised as well
  // Whole modules that are trained beside the adapters, as copies of frozen ones that stay (PEFT's modules_to_save):
  // embedding, head.
  std::vector<std::string> modules_to_save = {};
  QuantizedBase base = QuantizedBase::nf4;  // qlora
  bool quantized = false;                   // llama_adapter: the base has 4 bits, as of qlora
  int prompt_length = 10;                   // llama_adapter: tokens of a layer's prompt
  int start_layer = 2;                      // llama_adapter: the first that has one
  bool operator==(const Finetune&) const = default;
};

// Micro-batches that each data-parallel rank runs in a step: equal numbers; a number for each rank, in order; or a number
// for the ranks on each device.
struct MicroBatches {
  enum class Kind { even, by_rank, by_device } kind = Kind::even;
  std::vector<int> ranks = {};
  std::map<std::string, int> devices = {};  // by Device::name
};

struct Workload {
  std::int64_t sequence_length = 0;
  std::int64_t global_batch = 0;  // sequences per optimizer step
  std::int64_t micro_batch = 1;   // sequences
  DType precision = DType::bf16;
  std::optional<double> tokens;  // of the whole run
  // Packed sequences of variable length: documents that fill one sequence in turn, attention stays inside each. Empty:
  // one document a sequence.
  std::vector<std::int64_t> documents = {};
  Finetune finetune = {};
  MicroBatches micro_batches = {};
};

struct Schedule {
  std::string name = "1f1b";  // an entry of schedule::table(), or the path of a CSV file
  std::string vocabulary;  // vocab_1, vocab_2 (Yeung et al., 2411.05288): embedding and head over all stages; empty: neither
  std::optional<int> group;  // micro-batches per virtual-pipeline group; left out: pipeline size
  int extra_warmup = 0;
  double memory_limit = 1.0;  // of automatic schedules, in activation peaks of 1F1B
  std::string table = {};     // what the CSV file holds
  bool operator==(const Schedule&) const = default;
};

struct Overlap {
  TensorOverlap tensor = TensorOverlap::none;
  bool pipeline = false;  // receives and sends overlap compute
  bool grad_reduce = false;
  bool param_gather = false;
  bool expert = false;         // expert all-to-all overlaps the other pass's compute (--overlap-moe-expert-parallel-comm)
  bool shared_expert = false;  // shared experts compute during the dispatch (--moe-shared-expert-overlap)
};

// ZeRO++ (2306.10209).
struct ZeroPlusPlus {
  std::optional<DType> weights;    // int8: qwZ
  std::optional<DType> gradients;  // int4 is counted as half an int8: qgZ, all-to-all in two levels
  int partition = 0;               // ranks that hold a second copy for the backward gather: hpZ; 0: none
};

struct Parallelism {
  std::optional<int> data;  // left out ("auto"): ranks / (tensor * context * pipeline)
  int tensor = 1;
  TensorKind tensor_kind = TensorKind::one_d;
  int tensor_depth = 1;  // of two_half_d
  int pipeline = 1;
  int virtual_pipeline = 1;
  int context = 1;
  ContextKind context_kind = ContextKind::p2p;
  int context_inner = 0;         // hierarchical: ranks of the inner all-to-all; 0: those of a node
  bool context_balanced = true;  // causal attention: rank i takes chunks i and 2c - 1 - i
  int expert = 1;
  int expert_tensor = 1;
  bool sequence_parallel = false;
  Sharding sharding = Sharding::none;
  std::optional<int> shard_size;      // ranks that share one copy; left out: all data-parallel ranks
  bool reshard_after_forward = true;  // zero3: gathered parameters are dropped between forward and backward
  int reshard_size = 0;               // to shards of this many ranks instead of the whole group (FSDP2); 0: the whole
  ZeroPlusPlus zeropp;
  Float8Gather float8_all_gather = Float8Gather::none;
  std::optional<Schedule> schedule;   // left out: interleaved_1f1b with virtual_pipeline > 1, else 1f1b
  std::vector<int> layers_per_stage;  // per pipeline rank, or per virtual stage; empty: by `split`
  StageSplit split = StageSplit::even;
  std::string layout;               // Megatron's --pipeline-model-parallel-layout: "Et*3|(tt|)*29,m|L"; empty: none
  bool embedding_as_layer = false;  // each counts as one layer where stages are cut by numbers of layers
  bool loss_as_layer = false;
  bool reduce_each = false;  // gradients are reduced after every micro-batch
  // Micro-batches, from the first on, whose weight gradient of the output projection waits for the end of the last stage's
  // passes.
  int deferred_head_wgrad = 0;
  static constexpr int kAllMicroBatches = 1'000'000'000;
  Overlap overlap;
};

// Load of the experts. `spread` is the largest expert's load over the mean: 1 is balanced. `shares`: of each expert, in
// any unit; they are cut into the ranks in order.
struct ExpertBalance {
  using Kind = ExpertLoad;
  Kind kind = Kind::balanced;
  double spread = 1;
  std::vector<double> shares = {};
};

struct MoeRuntime {
  using Dispatcher = stepcast::Dispatcher;
  Dispatcher dispatcher = Dispatcher::alltoall;
  std::optional<double> capacity_factor;  // tokens an expert takes over the balanced load; left out: dropless
  ExpertBalance balance = {};
  bool grouped = true;  // a rank's experts in one grouped product; else one after the other (Megatron-LM's SequentialMLP)
  bool weighted_inside = false;  // rows are weighted between an expert's two products; else where they are summed per token
  // Tokens, and gradients of what experts return, travel in blocks of FP8 (DeepSeek-V3, arXiv 2412.19437, 3.3.3), with
  // DeepEP under fp8_block; what comes back to be summed stays in 16 bits.
  bool fp8_dispatch = false;
  // Rows are copied to their experts and summed back by a kernel each that follows a map of rows (Transformer Engine's
  // moe_permute, DeepSeek's expand_to_fused and reduce_fused); else by PyTorch's index_select and scatter_add.
  bool fused_permute = false;
  bool gathered_biases = false;  // biases of grouped products are rows of a table, copied in pieces and added
  bool pad_to_capacity = false;  // each expert computes, and is sent, its whole capacity
  // Rows are copied to buffers of the experts' capacity, and summed back, by products with masks of zeros and ones (GShard,
  // arXiv 2006.16668; MaxText with sparse_matmul false); each buffer is computed whole, whatever came.
  bool one_hot = false;
  // Rows are moved by PyTorch's indexing alone, into zeros and through padded copies, and summed by a batched product in
  // fp32 (torchtitan); false: by index_select and scatter_add.
  bool indexed = false;
  bool wide_router = false;    // the router's product reads an fp32 copy of the tokens, which its backward pass keeps
  bool wide_weighing = false;  // results of experts are multiplied by the router's weights in fp32, of which a copy is kept
  // Every expert computes every token: rows are repeated for each and weighted ahead of it, with zero where a token was not
  // routed to it, and results are summed over experts (transformers 5.23.0, models/llama4/modeling_llama4.py:165).
  bool every_token = false;
};

// Splash attention, the fused kernel of TPUs (jax's Pallas). Blocks of scores that the mask leaves in part are computed
// whole; their side is the longer of the blocks of queries and keys (MaxText's sa_block_q and sa_block_kv).
struct SplashAttention {
  std::int64_t block = 512;           // of the forward pass
  std::int64_t backward_block = 512;  // of the backward pass
  bool fused_backward = false;        // one backward kernel of five products; else dq's of three and dk's and dv's of four
  bool operator==(const SplashAttention&) const = default;
};

struct Kernels {
  AttentionKernel attention = AttentionKernel::flash2;
  SplashAttention splash = {};
  LossKernel loss = LossKernel::vocab_parallel;
  // An eager loss over tensor ranks: each on its part of the logits (torchtitan's loss parallel), or all on the gathered
  // ones (its disable_loss_parallel). Left out: as the system does.
  std::optional<bool> loss_parallel = {};
  // Liger-Kernel's operators in the place of PyTorch's, by the names of its own options: rope, rms_norm, glu (its swiglu and
  // geglu), and cross_entropy or fused_linear_cross_entropy, from which `loss` follows.
  std::vector<std::string> liger = {};
  bool compile = false;
  bool fp8_attention = false;  // fused attention on 8-bit q, k, v and gradients, where products run in 8 bits or fewer
                               // (Transformer Engine, fp8_dpa)
  bool fused_casts =
      false;  // an MLP's norm and activation write the 8-bit operands themselves (Transformer Engine's op fuser)
  bool casts_apart = false;  // fp8_block operands of weight gradients are cast by kernels of their own, weights transposed
                             // each time (DeepSeek-V3); else one kernel writes both directions (Transformer Engine)
  bool cuda_graph = false;
  // What is captured of each layer, as Megatron-LM's cuda_graph_modules names it (attn, mamba, mlp, moe, moe_router,
  // moe_preprocess); empty: the whole step.
  std::vector<std::string> cuda_graph_modules = {};
  std::string library = "cublas";  // which measured GEMM table prices matrix products
};

struct Nccl {
  std::optional<std::string> algo;   // as NCCL_ALGO: a name, a list, "^nvls", "allreduce:tree;allgather:ring" (nccl.h)
  std::optional<std::string> proto;  // as NCCL_PROTO, likewise
  std::optional<std::string> version = {};  // "2.18.3"; left out: the current one
  std::optional<int> min_ctas = {};         // NCCL_MIN_CTAS and NCCL_MAX_CTAS
  std::optional<int> max_ctas = {};
  bool operator==(const Nccl&) const = default;
};

struct Recompute {
  using Kind = RecomputeKind;
  Kind kind = Kind::none;
  int layers = 1;  // every: each n-th layer; uniform: layers per unit; block: the first n layers of a chunk
  // modules: as Megatron-LM's --recompute-modules names them (core_attn, layernorm, mlp, moe, moe_act, mla_up_proj,
  // shared_experts, ...), and attn, the whole attention; what is redone of each layer.
  std::vector<std::string> modules = {};
  std::string policy = {};  // per_op: "sac" (torchtitan's selective op policy), "products"
  double share = 1;  // products: of what a compiled layer keeps by itself, how much may stay (torch.compile's memory budget)
  Bytes budget{0};   // optimal: allocated bytes of a GPU, all states included (Beaumont et al., rotor)
  bool operator==(const Recompute&) const = default;
};

// What is kept outside the GPU, and how much of it.
struct OffloadPart {
  OffloadTarget to = OffloadTarget::none;
  double ratio = 1;  // share that is offloaded (Yuan et al.'s alpha, DeepSpeed's Twin-Flow ratio, Gemini's fractions)
};
struct Offload {
  OffloadPart optimizer;      // moments and master weights; the step runs on the CPU (ZeRO-Offload, ZeRO-Infinity)
  OffloadPart parameters;     // fetched before use (ZeRO-Infinity, FSDP's CPU offload)
  OffloadPart gradients;      // follow the optimizer unless stated
  OffloadPart activations;    // saved tensors, or the inputs that recomputation keeps
  int activation_layers = 0;  // only those of the first n layers of a stage (Megatron-Bridge); 0: all
  // Only what these modules save, as Megatron-LM's --offload-modules names them (attn_norm, core_attn, attn_proj, mlp_norm,
  // expert_fc1, moe_act, qkv_linear); empty: all.
  std::vector<std::string> activation_modules = {};
  int tiling = 1;       // memory-centric tiling: number of tiles into which a layer's linears are cut (ZeRO-Infinity)
  int prefetch = 1;     // number of units fetched ahead; 0: each is fetched when it is about to run
  Bytes page{0};        // size of the pages that hold states (Angel-PTM); 0: no pages
  Bytes chunk{0};       // size of the chunks in which states are copied (Gemini); 0: unit by unit
  bool pinned = true;   // pageable host memory copies slower and does not overlap
  bool overlap = true;  // copies overlap compute, on their own streams
  bool any() const {
    return optimizer.to != OffloadTarget::none || parameters.to != OffloadTarget::none ||
           gradients.to != OffloadTarget::none || activations.to != OffloadTarget::none;
  }
};

struct StateDTypes {
  DType parameters = DType::bf16;
  DType gradients = DType::fp32;  // main gradients as accumulated
  DType reduce = DType::fp32;     // on the wire
  DType moments = DType::fp32;
  std::optional<DType> master = DType::fp32;  // left out: no separate master copy
};

struct Memory {
  Recompute recompute;
  // Number of micro-batches in flight on a stage that keep all activations, whatever `recompute` states (Korthikanti et al.,
  // 2205.05198, appendix C).
  int whole_micro_batches = 0;
  // Inputs of gated activations are kept in 8 bits for the backward pass (Megatron-LM, activation_func_fp8_input_store).
  bool fp8_activation_input = false;
  // Transformer Engine keeps copies of weights in the products' format, those that are turned over for input gradients
  // included, from one micro-batch to the next. False: 16-bit weights are cast for each micro-batch, 8-bit ones turned over
  // for each input gradient.
  bool kept_weight_copies = true;
  // The result of attention is kept once, in 12 bits (E5M6), for its own backward pass and for the product behind it, where
  // products run in 8 bits (DeepSeek-V3's report, 2412.19437, 3.3.2).
  bool fp12_attention_output = false;
  Offload offload;
  Optimizer optimizer = Optimizer::adamw;
  double momentum = 0;                 // of sgd; 0: it keeps no state
  bool optimizer_in_backward = false;  // a weight is stepped as soon as its gradient is there, which then goes
  StateDTypes dtypes;
  using Allocator = AllocatorKind;
  Allocator allocator = Allocator::caching;
  bool stream_waits = true;  // a block that other streams used is free only once they have come past those uses
  double margin = 0;         // share of a device's usable memory that is left free: a job that needs it does not fit
};

// ---------------------------------------------------------------- training system
// The behaviour of one generation of a framework. `configs/systems/*.yaml` holds these and defaults for the keys above; a
// job may override each under `system: {use: NAME, ...}`.
struct System {
  std::string name;
  std::string family = "megatron";  // the word that stated `habits`; it is only printed
  Habits habits;
  std::string generation;  // free text for reports: "Megatron-LM, SC21 (2021)"
  // The survey's Table 2: language-model systems, single strategies, hybrid parallelism, automatic search.
  enum class Kind { none, language_model, single_strategy, hybrid_parallel, automatic_search } kind = Kind::none;

  // Which operators the framework fuses.
  bool fused_norm = true;
  bool fused_softmax = true;  // scale-mask-softmax in one kernel (unfused attention)
  // Most keys that this kernel takes, all in fours, as are sequences times heads; 0: it takes any.
  int fused_softmax_keys = 0;
  bool fused_bias_activation = true;  // bias + GeLU, SwiGLU in one kernel
  bool fused_bias_dropout_add = true;
  bool fused_rotary = true;
  // Rotary positions that are not one kernel: each layer makes cosines and sines for its queries and again for its keys.
  bool rotary_tables_anew = false;
  bool rotary_tables = false;        // each layer keeps a complex table of its rotary positions
  bool keeps_rotary_angles = false;  // of each model chunk, from its first pass on, in fp32
  bool rotary_caches = false;        // each layer keeps cosines and sines of its rotary positions
  bool complex_rotary = false;       // rotates complex numbers, which compilers do not fuse
  bool paired_rotary = false;        // rotates adjacent pairs of reals in fp32, queries ahead of the keys' projection
  bool joined_rotary = false;        // joins a head's rotated part with the rest, head by head; attention's result is copied
  bool reorders_attention = false;   // with several sequences attention's result is copied to the stream's order
  bool copies_keys_values =
      false;  // keys and values are rotated in a tensor of their own, queries in theirs or in the projection's copy
  bool views_latent_values = false;  // values of latent attention are a view of the product that makes keys too, else a copy
  bool cuts_experts = true;  // beside expert ranks the tensor ranks cut each expert, where the job does not state how
  bool packed_qkv = false;   // outside Megatron: one projection for q, k and v (litgpt, Qwen's c_attn)
  CompileScope compile_scope = CompileScope::model;    // what is compiled at once, where anything is (kernels.compile)
  CompiledCasts compiled_casts = CompiledCasts::wide;  // what the compiler makes of casts to 8 bits
  bool compiles_loss = false;                          // where the model is compiled (kernels.compile), the loss is as well
  bool unpads_attention = false;  // padding is taken out ahead of flash attention and put back behind it
  bool copied_qkv = false;        // one projection for q, k and v, whose parts are copied apart; else as packed_qkv
  bool packed_gated_mlp = true;   // one linear for both halves of a gated MLP; else one each, with its own collectives
  bool composed_gelu =
      false;  // the activations gelu_new and relu2 are several kernels, whose factors are kept (transformers)
  bool transformers_modules = false;  // models are transformers' own (Model::modules)
  bool gate_first = false;            // a gated MLP's activation runs ahead of its other half's linear: act(gate(x)) * up(x)
  bool wide_norm = false;             // an eager RMS norm scales by its weight in fp32 (nn.RMSNorm before torch 2.9)
  bool fused_streams = false;  // kernels of several residual streams, and of query heads' norms beside them, are fused
  bool holds_prediction_logits = false;  // the last prediction layer's logits stand until the model's own loss is there
  bool holds_projection = false;         // attention holds the whole projection's parts, copies as well, until it returns
  bool scaled_dot_product = false;       // attention is PyTorch's own, which also has CUTLASS's memory-efficient kernel
  bool prefers_cudnn_attention = false;  // where the device is Hopper or Blackwell and nothing is dropped
  AttentionMasks attention_masks = AttentionMasks::none;  // that it is given: its kernel computes all keys then
  bool repeats_kv = false;             // keys and values are copied for every query head ahead of fused attention
  bool repeats_single_head = false;    // and a single head of them, which others expand as a view
  bool autocasts_units = false;        // torch.autocast also where FSDP gathers 16-bit parameters
  bool autocast = false;               // 16 bits under torch.autocast where parameters are fp32 and whole
  bool reentrant_checkpoints = false;  // a backward pass runs inside its checkpoint's own, beside the layer's result
  bool early_stop = false;             // a recomputed layer stops before its last product (torch's checkpoint)
  bool checkpoints_units =
      false;  // a layer's checkpoint is around the unit that FSDP wraps, whose hooks run around the second pass too
  bool checkpoints_blocks =
      false;  // of a recomputed layer norms, attention and MLP run again each by itself (NeMo AutoModel)
  bool unties_embeddings = false;     // embedding and head are weights of their own, whatever the checkpoint (litgpt)
  bool loads_as_stored = false;       // weights train in the format of their checkpoint (transformers 5)
  bool widens_shards = false;         // beside mixed precision, sharded weights that train become fp32 (Accelerate)
  bool casts_adapter_inputs = false;  // each adapter reads a copy of its input in its own format (PEFT's fp32 adapters)
  bool input_gradients = true;        // below the first adapter gradients are computed, as of PEFT's models
  Quantizer quantizer = Quantizer::hugging_face;  // of QLoRA's base
  bool parted_adapters = false;      // of a packed projection adapters of queries, keys and values are apart (litgpt)
  bool quantized_inputs = false;     // 4-bit products keep their inputs, frozen as they are (bitsandbytes before 0.43.2)
  bool fused_optimizer = true;       // multi-tensor Adam in few kernels
  bool foreach_optimizer = false;    // torch's foreach: each operation of the step over all tensors, with temporaries
  bool foreach_denominator = false;  // its denominator is a list beside the one of roots (torch before 2.1)
  bool transformer_engine = false;   // its GEMM workspace comes on top of cuBLAS's
  bool gradient_accumulation_fusion = false;  // wgrad GEMM adds into the fp32 main gradient

  // Data parallelism.
  std::int64_t bucket_elements = 0;      // 0: Megatron's rule max(40e6, 1e6 * dp)
  Bytes bucket_bytes{0};                 // by bytes instead (DDP: 25 MiB); 0: bucket_elements
  Bytes first_bucket_bytes{0};           // DDP's first bucket (1 MiB)
  bool bucket_first_stage_only = false;  // Megatron: only pipeline rank 0, first chunk has several buckets

  bool keeps_pass_gradients = false;        // a micro-batch's 16-bit gradients stand until its backward pass is over
  bool narrow_buckets = false;              // DDP's own buckets of 16-bit gradients stand beside wider main gradients
  bool gathers_for_each_optimizer = false;  // dense and expert parameters have an optimizer each, and each gathers both
  bool whole_block_constants = false;  // constants of 4-bit blocks are whole on every rank of sharded units (bitsandbytes)
  bool shared_expert_streams = false;  // each layer's shared experts, not all of them, have a stream beside the dispatch
  bool keeps_router_graph = false;     // a layer of experts keeps what its router made, and what autograd links to it
  bool broadcasts_buffers = false;     // DDP's broadcast_buffers: rotary frequencies, ahead of passes that reduce
  bool data_on_default_group = false;  // data-parallel collectives of all ranks run on the default process group
  int sum_groups = 0;                  // further groups of the data-parallel ranks, for sums of tokens and losses
  bool gradient_bucket_view = false;   // DDP's gradient_as_bucket_view: gradients live in the buckets
  bool flat_parameters = false;        // FSDP1: a unit is one flat parameter; nothing is copied in or out
  bool wraps_ends = false;  // embedding and head are units of their own; else one root unit, whole until its backward
  bool joins_tied_or_frozen_ends = false;  // they are so only as two tables that train (NeMo AutoModel)
  bool keeps_head = false;                 // a head that is a unit of its own stays whole from forward to backward
  bool keeps_last_layer = false;           // so does the last layer
  bool wraps_alone = false;   // a single data-parallel rank has sharded units too, whose parameters it casts for each use
  bool norm_in_root = false;  // the final norm stays in the root unit where the head is one of its own
  bool loss_outside_model = false;     // the loss is not part of the module that is sharded
  bool holds_previous_gather = false;  // a gathered buffer stands while the next one is copied out (FSDP2 before torch 2.15)
  bool wraps_adapters = false;         // each matrix of an adapter is a unit of its own, apart from the frozen base (PEFT)
  bool original_parameters = false;    // FSDP1's use_orig_params: sharded gradients stand until the next forward pass
  bool clears_output =
      false;  // that result is given up ahead of the backward pass, and goes with the loss's graph (InternEvo)
  bool wide_output = false;      // the model's result is returned in fp32, and held until the next one (Lightning Fabric)
  bool shifted_logits = false;   // an eager loss reads a copy of the fp32 logits without the last position's
  bool ignores_softcap = false;  // scaled_dot_product leaves caps of scores out (transformers before 5)
  bool gathers_wide_logits = false;  // tensor ranks gather logits for an eager loss, each its part in fp32 (NeMo AutoModel)
  bool wide_logits = false;          // the model casts its logits to fp32 itself: the copy stands beside the loss's tensors
  bool widens_results = false;       // a model's results leave its forward pass in fp32 (Accelerate)
  int unit_layers = 1;               // layers that are gathered together
  using Prefetch = stepcast::Prefetch;
  Prefetch forward_prefetch = Prefetch::implicit_;
  Prefetch backward_prefetch = Prefetch::explicit_;
  bool limit_all_gathers = true;       // two gathers in flight at most
  std::int64_t prefetch_elements = 0;  // DeepSpeed's stage3_prefetch_bucket_size; 0: one unit
  std::int64_t live_elements = 0;      // whole at a time, beyond which none is gathered ahead (stage3_max_live_parameters)
  std::int64_t persistent_elements =
      0;                          // parameters at most so large are never sharded (stage3_param_persistence_threshold)
  bool reduce_to_owner = false;   // whole parameters belong to ranks: reduce and broadcast (OSS, Paddle stage1 V1)
  bool p2p_follows_pass = false;  // single messages: send first behind a forward pass, receive first behind a backward pass
  bool sync_p2p = false;          // the host waits for the device behind every send and receive
  bool experts_outside_units = false;  // experts that no other rank shares are in no sharded unit (NeMo AutoModel)
  bool gathers_arrays = false;  // of sharded units a weight is whole only around the operator that reads it (XLA's programs)
  bool slices_arrays = false;   // zero1 gives each rank a slice of each array; fp32 weights are slices of one tensor
  bool gathers_slices = false;  // gathered parameters of zero1 and zero2 are copied back slice by slice
  bool zero1_overlaps = true;   // zero1 reduces beside the backward pass where overlap.grad_reduce asks for it
  bool norm_copies_gradients = false;        // the norm is taken of fp32 copies of all narrow gradients
  bool zero1_all_reduces = false;            // ZeRO-1 all-reduces and keeps its slice (Colossal-AI)
  Time cycle_time{0};                        // period of the background thread that starts reductions (Horovod)
  bool hierarchical_all_reduce = false;      // in the node, among hosts, in the node (HOROVOD_HIERARCHICAL_ALLREDUCE)
  bool optimizer_post_validation = false;    // the step starts before the global norm is known (zero bubble)
  int vocab_divisor = 0;                     // the vocabulary is padded to this times tensor; 0: 128 for Megatron, else 1
  std::int64_t sharded_bucket_elements = 0;  // buckets of ZeRO-1 and 2 where they differ from plain ones; 0: as those
  bool zero2_all_reduces = false;            // so does ZeRO-2 (DeepSpeed's use_multi_rank_bucket_allreduce)
  bool bucket_before_overflow = false;       // a bucket is reduced before a parameter would overfill it; else with that one
  bool bucket_before_backward = false;  // flat buckets stand from the start of a backward pass; else from its first gradient
  bool zero3_overlaps = false;          // zero3 overlaps whatever the overlap keys say (overlap_comm: on for stage 3)
  bool unit_buffers = false;            // zero3's units are gathered into, and reduced from, a tensor each (Megatron-FSDP)
  std::int64_t unit_buffer_elements = 0;  // of them that are reduced, and twice those gathered ahead; 0: by the units' size
  bool double_buffers = false;            // two such tensors of each kind stand from step to step
  bool zero3_buckets = false;             // gradients of sharded units are reduced in buckets, not unit by unit
  bool backward_leftovers = false;        // zero3: an embedding stays whole from a backward pass to the next forward pass
  bool memory_efficient_linear = true;    // false: autograd keeps whole weights of zero3's linears (DeepSpeed's option)
  std::int64_t reuse_elements = 0;        // a unit read again within this many stays gathered (stage3_max_reuse_distance)
  bool gradients_in_parameters = false;   // gradients reuse the storage of gathered parameters (Gemini's chunks)
  bool overlap_with_pipeline = true;      // false: gradients never overlap with pipeline stages (DeepSpeed's engine)
  bool align_grad_reduce = false;         // interleaved: stages reduce a chunk at one time (--no-align-grad-reduce off)
  bool align_param_gather = false;        // and gather it at one time (--align-param-gather)
  bool reshard_with_pipeline = true;      // false: with stages reshard_after_forward is off unless stated (torchtitan)
  std::string order;                      // of ranks, where the job states none (Cluster::order); empty: the cluster's

  // Tensor parallelism.
  bool saves_gathered_inputs = false;   // as the habit of that name, unless the gather runs beside products
  bool keeps_scattered_results = true;  // per_op sac knows the reductions of tensor ranks; else they run again
  bool local_embedding = false;  // the word embedding's gradient is made of the rank's own rows, else of the whole table
  bool whole_latents = false;    // latent attention makes the latents of the whole sequence on every tensor rank
  bool linears_sum_apart =
      false;  // tensor ranks sum what each column linear makes of its input's gradient by itself (DTensor)
  bool embedding_by_width = false;    // tensor ranks hold columns of the embedding, and gather them
  bool async_tensor_backward = true;  // the input gradient's collective overlaps the weight-gradient GEMM

  bool gathers_qkv = false;  // tensor ranks beyond kv_heads gather attention's projections
  bool norm_gradients_apart =
      false;  // each norm's weight gradient is all-reduced by itself in every backward pass (DTensor)

  // Context parallelism.
  bool context_in_steps = false;  // attention in a step for each rank's keys, summed in fp32 (torch's ring attention)

  // Pipeline.
  bool schedules_one_stage = false;  // gpipe keeps all micro-batches without pipeline stages, too
  bool torch_orders = false;         // gpipe's backward passes oldest first; interleaved groups as even as they can be
  bool round_forwards_first =
      false;  // interleaved 1F1B with as many micro-batches as stages: all forwards, then all backwards
  bool stage_keeps_output =
      false;  // the last stage keeps its logits from forward to backward (torch.distributed.pipelining)
  using StageReceives = stepcast::StageReceives;
  StageReceives stage_receives = StageReceives::transient;  // what becomes of what stages receive
  bool weights_run_again = false;    // of a split backward pass each weight's gradient runs its recomputed unit again
  bool split_keeps_graph = false;    // all that was saved, and gradients of what weights made, stand from I to W (there too)
  bool batched_p2p = true;           // send and receive posted together, blocking the compute stream
  bool overlap_pairs = true;         // DualPipe's F&B run side by side; false: in turn (PyTorch's OVERLAP_F_B)
  bool scatter_gather_p2p = false;   // SC21: each tensor rank sends 1/t and re-gathers over NVLink
  bool whole_gradients_p2p = false;  // ... but every tensor rank sends the whole gradient back (DeepSpeed before 0.5.4)
  std::vector<DType> narrow_parameters;  // formats of products under which their weights stand in 8 or 4 bits
  std::vector<std::string> schedules;    // that the system runs; empty: all that Stepcast knows

  using ActivationOffload = stepcast::ActivationOffload;
  bool routes_whole_sequence = false;  // tensor ranks that share experts' weights gather the sequence ahead of the router
  bool offloads_whole_arrays = false;  // a share of optimizer states leaves array by array, in order, until it is passed
  ActivationOffload activation_offload = ActivationOffload::units;  // lower/offload/activation_moves.h

  // What the system refuses, with the reason: features as strategy::features() names them, joined by '+'
  // ("zero2+pipeline"). Marks of the survey's Table 3: data, sharded, tensor, pipeline, sequence, automatic.
  std::map<std::string, std::string> cannot;
  std::map<std::string, bool> survey;

  // Host.
  Time launch{5000000};      // host time to issue one kernel
  Time layer_overhead{0};    // extra host time per layer and pass (Python, autograd)
  Time adapter_overhead{0};  // and per low-rank adapter of a layer and pass: its module
  Time unit_overhead{0};     // and per sharded unit and pass, of the hooks that gather and free its parameters
  Time pass_overhead{0};     // and of each pass between pipeline stages: its schedule, and modules ahead of its first kernel
  Time expert_overhead{0};   // and of a mixture of experts: its modules, a list of splits for every grouped product
  bool launch_stated = false;            // `launch`, `layer_overhead` come from the user, not from a preset or the default:
  bool layer_overhead_stated = false;    // a site calibration leaves them alone
  bool sync_before_optimizer = true;     // the host waits for the gradient norm (or the loss scale's check)
  bool sync_micro_batch = false;         // the host waits for the device as each micro-batch begins (Megatron-LM's
                                         // broadcast_data reads tensor sizes back)
  bool launch_blocking = false;          // the host waits for each kernel that it launches (CUDA_LAUNCH_BLOCKING=1)
  bool metrics_before_backward = false;  // they run behind the loss, while all activations stand
  bool narrow_log_softmax = false;       // the eager loss's stays in the logits' format, under autocast
  bool holds_logits = false;             // the training loop holds a micro-batch's logits until the next one's (Composer)
  using LogitMetrics = stepcast::LogitMetrics;
  LogitMetrics logit_metrics = LogitMetrics::none;  // of a micro-batch's logits, while all activations stand (TRL)
  int loss_metrics = 0;  // further cross entropies that the trainer computes from a micro-batch's logits

  // Memory outside the allocator.
  Bytes context_memory{0};            // CUDA context and libraries; 0: by device (facts in configs/devices)
  Bytes gemm_workspace{0};            // of one cuBLAS handle, inside the allocator; 0: by device
  bool gemm_workspace_stands = true;  // from its first use; else each product takes one while it runs (torch 2.15)
  bool oldest_segment_first = false;  // of equal free blocks (torch 2.15); else that at the lowest address
  // The optimizer reads narrow gradients as they are, without fp32 copies (Megatron-Core's precision-aware optimizer). Left
  // open: where moments are narrow, under Transformer Engine.
  std::optional<bool> precision_aware_optimizer = {};
};

struct Job {
  Model model;
  Cluster cluster;
  System system;
  Workload workload;
  Parallelism parallelism;
  MoeRuntime moe;
  Kernels kernels;
  Nccl nccl;
  Memory memory;
  // Files, or folders of them. With "auto" among them, what they do not cover is chosen by device, library and fabric; with
  // an empty list everything is.
  std::vector<std::string> calibration;
  // Keys whose values are assumed rather than known ("kernels.attention"): each widens the intervals
  // (calibration/open.yaml).
  std::vector<std::string> assumed;
  std::uint64_t seed = 1;
};

}  // namespace stepcast::job
