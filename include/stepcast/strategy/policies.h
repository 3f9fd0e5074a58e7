// What a training system does: one struct for each habit that a user can name. `resolve` fills them from a job. Fields
// state what is done, never by which system. Sizes are those of one rank; elements are parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/terms/habits.h"
#include "stepcast/terms/kernels.h"
#include "stepcast/terms/memory.h"
#include "stepcast/terms/number_format.h"
#include "stepcast/terms/parallelism.h"

namespace stepcast::strategy {

// How gradients and parameters of one unit (a bucket, an FSDP unit) travel between data-parallel ranks.
enum class DataComm {
  none,          // one data-parallel rank
  all_reduce,    // gradients, whole
  shard_states,  // ZeRO-1: reduce-scatter of gradients, all-gather of parameters after the step
  shard_grads,   // ZeRO-2: the same, gradients kept sharded
  shard_all,     // ZeRO-3, FSDP: parameters gathered before use, twice a micro-batch
};

// Copies of weights in the products' format beside the weights themselves.
enum class WeightCopies {
  plain,       // made by plain kernels, where the products' cast is a framework's own
  kept,        // Transformer Engine, from a step's first micro-batch on; frozen ones from the start
  each_pass,   // the same without its cache: 16-bit weights are cast for a micro-batch, and the copies stand until its
               // backward pass; 8-bit ones are turned over for an input gradient, where the device's products ask for it
  with_units,  // of 8-bit weights that are gathered before use: turned over in each pass
};

// Formats of products and of the state that is kept from step to step; activations have Style::dtype.
struct Precision {
  DType products = DType::bf16;    // operands of matrix products
  DType parameters = DType::bf16;  // that are trained
  DType frozen = DType::bf16;      // parameters that are not
  DType gradients = DType::fp32;   // as accumulated
  DType reduce = DType::fp32;      // gradients on the wire
  DType moments = DType::fp32;
  std::optional<DType> master = DType::fp32;  // nothing: no master copy
  bool loss_scaling = false;                  // gradients are unscaled and checked before the step
  bool casts_operands_twice = false;          // by plain kernels, once for each product that reads them
  CompiledCasts compiled_casts = CompiledCasts::wide;
  WeightCopies weight_copies = WeightCopies::plain;
  double compute_capability = 0;  // of the cluster's device, whose casts are priced
  bool operator==(const Precision&) const = default;
};

// How a weight's gradient is added to the sum of earlier micro-batches.
struct GradientAccumulation {
  bool in_product = false;             // the product adds into the sum
  bool empty_gradients_stand = false;  // one empty tensor per shape of such weights is kept; else it lives for a pass
  bool hands_on_gradients = true;      // a product gives autograd a tensor of its weight's size
  bool casts_first = false;            // a kernel of its own casts a gradient to the sum's format, another adds it
  int deferred_heads = 0;  // micro-batches whose weight gradient of the head's product waits for the end of the passes
  bool operator==(const GradientAccumulation&) const = default;
};

// When gradients are reduced, in which pieces, and by which operations. Sharding here is over data-parallel ranks, whose
// number is in the Plan.
struct GradientSync {
  enum class Operation { all_reduce, reduce_scatter, reduce };

  bool overlaps = false;           // runs beside compute
  bool overlap_stated = false;     // the job asks for it (parallelism.overlap.grad_reduce)
  bool each_pass = false;          // after every micro-batch's backward pass, not only the last one's
  bool accumulates_whole = true;   // micro-batches add to gradients that are not sharded
  bool after_each_stated = false;  // the job asks for every micro-batch (parallelism.reduce_each)
  bool sends_as_filled = false;    // pieces are reduced during the backward pass; else after the step's last one
  bool sends_behind_backward =
      false;  // with whole gradients or zero1: all are reduced after the last backward pass, unless that overlaps
  Operation operation = Operation::all_reduce;  // of what is not in sharded units
  std::optional<DType> quantised;               // of sharded units, all-to-all in two levels (ZeRO++'s qgZ)

  // Buckets.
  std::int64_t bucket_elements = 0;
  std::int64_t first_bucket_elements = 0;  // 0: as the others
  bool first_stage_only = false;           // only the first stage's first chunk has several buckets
  bool always_in_buckets = false;          // also where nothing overlaps
  bool bucket_before_overflow = false;     // a bucket is reduced before a parameter would overfill it; else with that one
  bool bucket_before_backward = false;  // flat buckets stand from the start of a backward pass; else from its first gradient
  bool units_in_buckets = false;        // gradients of sharded units fill buckets as well
  bool casts_flat_gradients = false;    // all gradients are cast at once into the format in which they travel
  BucketStorage storage = BucketStorage::main_gradients;
  bool broadcasts_buffers = false;  // the module's buffers come from rank 0 ahead of a pass that reduces
  bool narrow_beside = false;       // buckets of gradients in the parameters' format stand beside what travels
  bool bucket_of_pass = false;      // of zero2: one bucket has all gradients of a backward pass, and goes behind it
  bool live_in_buckets = false;     // gradients are views of the buckets (DDP's gradient_as_bucket_view)
  bool on_default_group = false;    // reductions over all ranks run on the default process group
  int sum_groups = 0;               // groups of the same ranks, for sums of tokens and losses

  bool aligned = false;       // interleaved stages reduce a chunk at the same time
  Time cycle_time{0};         // period of the background thread that starts reductions; 0: they start at once
  bool hierarchical = false;  // reduced within the node, between nodes, and gathered within the node

  // Buckets' contents are copied there, and back when reduced (without a background thread).
  bool copies_into_buckets() const {
    return storage == BucketStorage::standing && !live_in_buckets && cycle_time.count() == 0;
  }
  bool operator==(const GradientSync&) const = default;
};

// How sharded parameters are gathered.
struct ParameterGather {
  bool overlaps = false;            // runs beside compute
  bool overlap_stated = false;      // the job asks for it (parallelism.overlap.param_gather)
  bool aligned = false;             // interleaved stages gather a chunk at the same time
  bool from_owners = false;         // whole parameters belong to ranks, which broadcast what they updated
  bool for_each_optimizer = false;  // dense and expert parameters have an optimizer each, and each gathers both
  bool by_slices =
      false;  // of zero1 and zero2: through flat buffers, from which every rank's slice of every array is copied

  // Sharded units: gathered before each use.
  bool by_units = false;
  bool zero2_by_units = false;         // the same would hold under zero2
  bool reshard_after_forward = false;  // dropped between forward and backward
  int unit_layers = 1;                 // layers that are gathered together
  bool ends_join_root = true;          // embedding and head are one unit, whole until its backward; else one each
  bool ends_are_unit = false;          // that unit is not the root's: the head's result begins its backward pass
  bool keeps_head = false;             // a head that is a unit of its own stays whole from forward to backward
  bool keeps_last_layer = false;       // so does the model's last layer
  bool holds_previous_gather = false;  // what was gathered before stands while a unit is copied out
  bool wraps_adapters = false;         // each trained array beside frozen ones is gathered and reduced by itself
  bool alone = false;                  // there is a single data-parallel rank, which casts them instead
  bool norm_in_root = false;           // the final norm is in neither, and stays whole
  bool whole_block_constants = false;  // those of 4-bit weights are whole on every rank, and not gathered
  bool flat = false;                   // a unit is one flat parameter: nothing is copied in or out
  bool experts_outside = false;        // experts that one rank alone holds are in no unit
  bool unit_buffers = false;           // a unit is gathered into a tensor of its own, and its gradients leave from another
  bool double_buffers = false;         // two of each of these stand from step to step
  // Of those tensors, the most whose reductions may be under way, and twice what is gathered ahead; 0: by the units' size.
  std::int64_t unit_buffer_elements = 0;
  bool by_arrays = false;  // of a unit one weight is whole at a time, and one gradient
  Prefetch forward_prefetch = Prefetch::implicit_;
  Prefetch backward_prefetch = Prefetch::explicit_;
  bool leaves_leftovers = false;         // what no backward hook gives up stays whole for the next micro-batch, or the step
  bool kept_by_autograd = false;         // whole weights that a product read, until its backward pass, also once given up
  bool limited = true;                   // two gathers in flight at most
  std::int64_t prefetch_elements = 0;    // gathered ahead; 0: one unit
  std::int64_t live_elements = 0;        // whole at a time, beyond which none is gathered ahead; 0: any number
  std::int64_t persistent_elements = 0;  // tensors of at most this many are never sharded
  std::int64_t reuse_elements = 0;       // a unit that is read again within this many stays gathered
  bool checkpointed = false;             // whole units, whose hooks run around a recomputed pass too
  bool reshards_before_reduction = false;    // after its backward pass a unit is dropped before its gradients are reduced
  std::optional<DType> quantised;            // on the wire (ZeRO++'s qwZ)
  Float8Gather float8 = Float8Gather::none;  // weights of products are gathered in their 8 bits, and read so
  int partition = 0;                         // ranks that hold a second copy for the backward gather; 0: none
  bool partition_stands = false;             // it is kept from step to step (ZeRO++'s hpZ); else from forward to backward
  bool operator==(const ParameterGather&) const = default;
};

// How parameters, gradients and optimizer states are kept from step to step.
struct StateLayout {
  StatePartition partition = StatePartition::buffer_range;
  bool gradients_stand = true;           // they are kept from step to step; else the backward pass allocates them
  bool makes_sharded_gradients = false;  // sharded gradients are allocated in a step's first backward pass
  bool gradients_in_parameters = false;  // gradients reuse the storage of gathered parameters
  bool sharded_gradients_stand = false;  // those of units stand until the next step's first forward pass
  // Gradients of one micro-batch are kept apart from the wider sum, to which they are added after its backward pass.
  bool pass_gradients_stand = false;
  // So they are, but each exists from its unit's backward pass on, to the end of the chunk's.
  bool keeps_pass_gradients = false;
  bool master_is_one = false;  // fp32 weights are one tensor, whatever the states are
  bool operator==(const StateLayout&) const = default;
};

struct OptimizerStep {
  Optimizer kind = Optimizer::adamw;
  double momentum = 0;               // of sgd; 0: it keeps no state
  bool fused = true;                 // multi-tensor kernels; else tensor by tensor
  bool compiled = false;             // as a part of the whole step
  bool foreach = false;              // each operation over all tensors, with temporaries
  bool foreach_denominator = false;  // epsilon is added to the roots in a list of its own
  bool by_owner = false;             // whole arrays belong to ranks, which step them
  bool in_backward = false;          // an array is stepped as soon as its gradient is there, which then goes
  bool orthogonalises_in_fp32 = false;
  bool post_validated = false;  // the step starts before the norm is known
  bool host_waits = true;       // for the gradient norm, or the loss scale's check
  bool norm_has_its_group = false;
  bool norm_on_host = false;      // of gradients that are offloaded
  bool copies_partition = false;  // narrow gradients are copied into one tensor before they become fp32
  bool norm_widens = false;  // the norm is taken of fp32 copies of all gradients, which live together; else, where gradients
                             // are copied into one tensor, of a copy in fp64, tensor by tensor
  bool gives_up_narrow = false;       // gradients are given up once they are in the one tensor; else at the step's end
  bool fp32_gradients_stand = false;  // fp32 copies of narrow gradients live until the next step; else only during the step
  bool zeroes_gradients = true;       // a kernel after the step sets kept gradients to zero
  bool widens_gradients = true;       // it reads fp32 copies of narrow gradients where there are master weights
  bool operator==(const OptimizerStep&) const = default;
};

// What is recomputed for the backward pass.
struct Recompute {
  RecomputeKind kind = RecomputeKind::none;
  int layers = 1;                    // every: each n-th layer; uniform: layers per unit; block: the first n of a chunk
  std::vector<std::string> modules;  // modules and selective: the modules of each layer that are recomputed
  std::string policy;                // per_op: its name
  double share = 1;                  // per_op, products: how much of what a compiled layer keeps may stay
  Bytes budget{0};                   // optimal: allocated bytes of a GPU, all states included
  int whole_micro_batches = 0;       // number of micro-batches in flight that recompute nothing
  bool frees_input = false;          // a unit's input goes behind its last reader's backward pass, not with the unit's
  bool stops_early = false;          // a layer that runs again stops before the last operator that saves anything
  // modules: each norm, the attention and the MLP of a layer, apart. What a job calls full.
  bool blocks = false;
  bool for_each_weight = false;    // W of a split backward pass runs a unit again for each of its weights
  bool holds_result = false;       // the result of what runs again stands until its backward pass is over
  bool norms_in_products = false;  // a block's norm runs inside the product that reads it, as one module
  bool operator==(const Recompute&) const = default;
};

struct OffloadPart {
  OffloadTarget to = OffloadTarget::none;
  double ratio = 1;  // share that is offloaded
  double share() const { return to == OffloadTarget::none ? 0 : ratio; }
  bool operator==(const OffloadPart&) const = default;
};

// What lives outside the GPU.
struct Offload {
  OffloadPart optimizer;
  OffloadPart parameters;
  OffloadPart gradients;
  OffloadPart activations;
  int activation_layers = 0;                    // only those of the first n layers of a stage; 0: all
  std::vector<std::string> activation_modules;  // only what these modules save; empty: all
  ActivationOffload activation_form = ActivationOffload::units;
  int tiling = 1;             // number of tiles, run one after the other, into which a layer's linears are cut
  int prefetch = 1;           // number of units fetched ahead; 0: each is fetched when it is about to run
  Bytes page{0};              // size of the pages that hold states; 0: no pages
  Bytes chunk{0};             // size of the chunks in which states are copied; 0: unit by unit
  bool pinned = true;         // pageable host memory copies slower and does not overlap
  bool overlap = true;        // copies overlap compute, on their own streams
  bool whole_arrays = false;  // a share of the optimizer is that of whole arrays, in order, until it is passed
  HostGradientSum gradient_sum = HostGradientSum::none;
  bool any() const {
    return optimizer.to != OffloadTarget::none || parameters.to != OffloadTarget::none ||
           gradients.to != OffloadTarget::none || activations.to != OffloadTarget::none;
  }
  bool operator==(const Offload&) const = default;
};

// How stages exchange activations and their gradients.
struct StageTransport {
  bool overlaps = false;  // receives and sends overlap compute (interleaved stages)
  // Messages block the compute stream, as in Megatron-LM's 1F1B, GPipe and interleaved 1F1B; else they overlap compute in
  // the order of the schedule.
  bool holds_compute = false;
  bool batched = true;          // between a forward and a backward pass, send and receive are posted together
  bool follows_pass = false;    // not batched: send first behind a forward pass, receive first behind a backward pass;
                                // else odd stages receive first
  bool host_waits = false;      // the host waits for the device after each batch of sends and receives
  bool scatter_gather = false;  // each tensor rank sends its share, which is gathered on arrival
  bool whole_gradients =
      false;  // ... of activations alone: each sends a gradient whole, and gathers its pass's result again
  bool keeps_last_received = false;  // a chunk keeps the tensor that it last received, and its gradient
  int group = 1;                     // micro-batches of a virtual-pipeline group
  int extra_warmup = 0;
  bool forwards_first = false;                        // interleaved 1F1B of one round: all forwards, then all backwards
  StageReceives receives = StageReceives::transient;  // what becomes of what stages receive
  bool split_keeps_graph = false;                     // all that I needed, and gradients of what weights made, stand until W
  bool pairs_passes = false;                          // forwards and backwards run in pairs (strategy::pairs_passes)
  bool pairs_side_by_side = true;                     // else one pass of a pair after the other
  bool operator==(const StageTransport&) const = default;
};

struct ExpertDispatch {
  Dispatcher dispatcher = Dispatcher::alltoall;
  bool host_reads_counts = true;      // the number of arriving tokens is known only on the device, and the host waits for it
  bool grouped = true;                // a rank's experts in one grouped product; else one after the other
  bool launches_each_expert = false;  // a grouped product is one kernel for each expert
  bool keeps_router_graph = false;    // what the router made stays, with a recomputed layer's input and its gradient
  bool beside = false;                // tokens travel while another pass computes, in schedules of pairs
  Time overhead{0};                   // host time of a layer of experts and pass; 0 inside CUDA graphs
  bool operator==(const ExpertDispatch&) const = default;
};

struct ContextExchange {
  ContextKind kind = ContextKind::p2p;
  int inner = 1;          // hierarchical: ranks of the inner all-to-all
  bool balanced = true;   // causal attention: rank i takes chunks i and 2c - 1 - i
  bool in_steps = false;  // a step for each rank's keys, however these travel; sums are fp32, gradients of keys go round
  bool operator==(const ContextExchange&) const = default;
};

struct TensorParallel {
  TensorKind kind = TensorKind::one_d;
  TensorOverlap overlap = TensorOverlap::none;          // as the job states it; its rings and buffers exist
  TensorOverlap product_overlap = TensorOverlap::none;  // as products in their format allow it
  bool async_backward = true;           // the input gradient's collective overlaps the weight gradient's product
  bool embedding_by_width = false;      // ranks hold columns of the embedding, and gather its result
  bool saves_gathered_input = false;    // a linear keeps the input that it gathered; else its shard
  bool norm_gradients_apart = false;    // each norm's weight gradient is summed by itself in every backward pass
  bool keeps_scattered_results = true;  // a recomputation that chooses operators keeps what is scattered
  bool local_embedding = false;         // of the word embedding each rank makes its own rows' gradient
  bool linears_sum_apart = false;       // where the sequence is whole, each column linear sums its input's gradient itself
  bool gated_halves_apart = false;      // a gated MLP has a column linear for each half, each with its own collectives
  bool operator==(const TensorParallel&) const = default;
};

struct LossForm {
  LossKernel kernel = LossKernel::vocab_parallel;
  EagerLoss eager = EagerLoss::as_built;  // applies only with an eager kernel, and where the sizes need it
  bool outside_model = false;             // the loss is not inside the module that is sharded
  bool clears_output = false;             // until the loss's backward pass
  bool narrow_log_softmax = false;        // the eager loss's, under autocast
  bool holds_logits = false;              // from one micro-batch to the next, and from step to step
  bool widens_first = false;              // logits are cast to fp32 ahead of a loss in one kernel, too
  bool wide_output = false;               // the result is an fp32 copy, held until there is the next one
  // fp32 numbers of a token that tensor ranks gather in a fused loss (with one, the losses are then summed); 0: they are
  // all-reduced.
  int gathered_statistics = 0;
  LogitMetrics logit_metrics = LogitMetrics::none;  // of whole logits, behind the loss
  int metrics_in_forward = 0;                       // further losses of the same logits ahead of the backward pass
  bool gathers_wide = false;                        // logits that tensor ranks gather are cast to fp32 beforehand
  bool wide_logits = false;  // logits are cast beforehand: the copy stands beside the loss's own tensors
  bool shifts = false;       // an eager loss reads a copy of the fp32 logits without the last position's
  // A graph that a compiler makes of a model and its loss returns the logits too: zeros are their gradient.
  bool returns_logits = false;
  bool widens_returned = false;  // in fp32
  bool operator==(const LossForm&) const = default;
};

// Host time and waits.
struct HostModel {
  Time launch{0};                            // of one kernel, at least
  Time layer_overhead{0};                    // of a layer and pass; 0 inside CUDA graphs
  Time pass_overhead{0};                     // of a pass between stages, ahead of its first kernel; 0 inside CUDA graphs
  bool cuda_graph = false;                   // of the whole step
  std::vector<std::string> graphed_modules;  // else of these modules of each layer: job::Kernels::cuda_graph_modules
  bool waits_each_micro_batch = false;       // for the device, as each micro-batch begins
  bool waits_each_launch = false;            // for each kernel and collective that it launches
  bool operator==(const HostModel&) const = default;
};

// Memory in addition to the tensors of the passes.
struct DeviceMemory {
  AllocatorKind allocator = AllocatorKind::caching;
  Bytes context{0};                       // of the CUDA context and libraries; 0: by device
  Bytes gemm_workspace{0};                // of one cuBLAS handle; 0: by device
  bool gemm_workspace_stands = true;      // else each product takes one while it runs
  bool oldest_segment_first = false;      // of equal free blocks; else the youngest's
  bool layer_workspace = false;           // the library of the layers has its own workspaces
  bool overlap_workspaces = false;        // one of them for each stream of its tensor-parallel buffers
  bool shared_expert_streams = false;     // each layer's shared experts have a stream beside the dispatch
  bool grouped_workspaces = false;        // and of its grouped products
  bool rotary_tables = false;             // each layer keeps a complex table of its rotary positions
  bool rotary_angles = false;             // a model chunk keeps the angles of them in fp32
  bool rotary_caches = false;             // each layer keeps cosines and sines of them in the products' format
  bool input_gradient_first = false;      // a product's function makes it ahead of the weight's
  bool layer_holds_normed_input = false;  // until the residual is added; else until the module returns
  bool holds_projection = false;          // attention holds what it rotates until it returns
  int gathered_ranks = 0;      // tensor ranks gather the tokens of so many ranks' sequences into a buffer that is kept
  bool scores_buffer = false;  // unfused attention adds its scores to a buffer that is kept
  bool operator==(const DeviceMemory&) const = default;
};

}  // namespace stepcast::strategy
