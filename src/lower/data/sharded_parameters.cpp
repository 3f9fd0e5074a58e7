// Units whose parameters are gathered whole before they are used and given up behind: FSDP, ZeRO-3,
// ZeRO++, Gemini's chunks. Streams and waits of FSDP2 follow torch/distributed/fsdp/_fully_shard/
// _fsdp_param_group.py, those of FSDP1 torch/distributed/fsdp/_runtime_utils.py.
#include <algorithm>
#include <optional>
#include <utility>

#include "../offload/state_offload.h"
#include "../passes/loss_chunks.h"
#include "../stage/feature_list.h"
#include "../tensors/unit_tensors.h"
#include "narrow_gather.h"
#include "parameter_pieces.h"

namespace stepcast::lower {

using cost::Collective;
using program::kNone;
using program::MemoryCategory;
using program::StreamIndex;
using strategy::DataComm;

namespace {

class ShardedParameters final : public Feature {
 public:
  void make_streams(Stage& stage) override;
  void make_workspaces(Stage& stage) override;
  void before_forward(Stage& stage, int chunk, std::size_t unit) override;
  void after_forward(Stage& stage, int chunk, std::size_t unit) override;
  void before_backward(Stage& stage, int chunk, std::size_t unit) override;
  void behind_loss(Stage& stage) override;
  void before_second_use(Stage& stage, int chunk, std::size_t unit) override;
  void end_of_step(Stage& stage, StepEnd part) override;

 private:
  void gather(Stage& stage, Wrap& w, bool backward);
  void use(Stage& stage, Wrap& w, bool backward);
  void prefetch(Stage& stage, int chunk, std::size_t unit, bool backward);
  void make_within_pass(Stage& stage, int chunk, std::size_t unit);
  static Wrap* table_of(Stage& stage, int chunk, std::size_t unit);
  void place_beside_loss(Stage& stage, Wrap& w);
  void give_up_last_gather(Stage& stage);

  // FSDP1 makes the shard that is gathered on a stream of its own (torch 2.15,
  // fsdp/_runtime_utils.py:269, _pre_unshard_stream).
  StreamIndex shards_ = 0;
  Mark last_copy_out_;
  program::BufferIndex last_gather_buffer_ = kNone;
  // Chunk and unit of a head whose backward pass has begun with its loss.
  std::optional<std::pair<int, std::size_t>> behind_loss_;
};

// A wrap's whole parameters, each a tensor of its own (torch 2.15, _fsdp_param.py:889,
// init_all_gather_outputs); all in one where parts of them are frozen, or stay whole anyway.
TensorList whole_arrays(Stage& stage, const Wrap& w, std::uint16_t begin, std::uint16_t end) {
  const program::LabelIndex label = label_of(stage, "unsharded parameters");
  const auto whole = static_cast<std::int64_t>(whole_bytes(stage, w));
  TensorList out;
  for (const std::size_t u : w.units) {
    for (const Array& array : stage.units[static_cast<std::size_t>(w.chunk)][u].passes->arrays) {
      if (array.expert && w.outside > 0) {
        continue;
      }
      const auto bytes = static_cast<std::int64_t>(static_cast<double>(array.elements) *
                                                   gathered_width(stage.plan, array));
      out.blocks.push_back({Bytes(bytes), label, begin, end});
      out.bytes += bytes;
    }
  }
  if (out.bytes != whole) {
    out = {{{Bytes(whole), label, begin, end}}, whole};
  }
  return out;
}

// FSDP1 gathers a shard in the format of the passes, which it makes for each gather and gives up
// behind it (torch 2.15, fsdp/_flat_param.py:1333, pre_unshard, and :1530, post_unshard).
bool casts_flat_shards(const Stage& stage) {
  const strategy::ParameterGather& policy = stage.plan.parameter_gather;
  return policy.flat && !policy.by_arrays && gather_beside(stage.plan) &&
         stage.plan.offload.parameters.share() == 0 && stage.plan.shard_ranks > 1 &&
         width(stage.plan.precision.parameters) > width(stage.plan.style.dtype);
}

// Streams of both directions: the gathers' is made first.
void ShardedParameters::make_streams(Stage& stage) {
  if (!wraps(stage)) {
    return;
  }
  stage.streams.gather = stage.builder.stream("all-gather");
  stage.streams.data = stage.builder.stream("reduce-scatter");
  if (stage.plan.replicas > 1) {
    stage.streams.replicas = stage.builder.stream("all-reduce");
  }
  make_wraps(stage);
  shards_ = casts_flat_shards(stage) ? stage.builder.stream("shards") : stage.streams.gather;
  make_chunks(stage);
  stage.sharded.traced = traces_fetches(stage);
  stage.sharded.buffered = stage.plan.parameter_gather.unit_buffers;
  for (Wrap& w : stage.sharded.wraps) {
    if (!stage.plan.parameter_gather.flat && stage.sharded.chunks.empty()) {
      w.gather.arrays = whole_arrays(stage, w, 0, kPassEnd);
    }
    place_beside_loss(stage, w);
  }
}

// FSDP1 makes a flat parameter's tensors once as the first forward pass begins, the root's before
// the others', and gives up the memory of each at once: the shard in the format of the passes, the
// whole parameter in it, and in the parameters' own (torch 2.15, fsdp/_flat_param.py:1264,
// init_flat_param_attributes; fsdp/_runtime_utils.py:177, _share_state_and_init_handle_attrs).
void make_initial_tensors(Stage& stage, const Wrap& w) {
  const program::LabelIndex label = label_of(stage, "tensors of flat parameters, first made");
  const double whole = whole_bytes(stage, w);
  const double own = width(stage.plan.style.dtype);
  const double wide = w.frozen_bytes > 0 ? bytes_per_element(stage.plan.precision.frozen)
                                         : width(stage.plan.precision.parameters);
  std::vector<double> made = {whole};
  if (wide > own) {
    made = {whole / sharing(stage.plan, false).shards, whole, whole / own * wide};
  }
  for (const double bytes : made) {
    const program::BufferIndex id =
        stage.builder.declare(whole_blocks(bytes), MemoryCategory::communication, label);
    if (id != kNone) {
      stage.builder.program.buffers[id].initial = true;
    }
  }
}

void ShardedParameters::make_workspaces(Stage& stage) {
  if (!wraps(stage) || !stage.plan.parameter_gather.flat || !gather_beside(stage.plan) ||
      stage.plan.data_comm != DataComm::shard_all || !stage.sharded.chunks.empty()) {
    return;
  }
  for (std::size_t chunk = 0; chunk < stage.sharded.wrap_of.size(); ++chunk) {
    std::size_t before = stage.sharded.wraps.size();
    for (const std::size_t index : stage.sharded.wrap_of[chunk]) {
      const bool root = index == stage.sharded.wrap_of[0].front();
      if (index != before && (!root || before == stage.sharded.wraps.size())) {
        make_initial_tensors(stage, stage.sharded.wraps[index]);
      }
      before = index;
    }
  }
}

// Gathered parameters are dropped behind the forward pass. A DeepSpeed module that is read again
// soon stays (stage3_max_reuse_distance, in elements in between).
bool drops_after_forward(const Stage& stage, const Wrap& w) {
  const std::int64_t behind = stage.sharded.gathered - w.before - gathered_elements(stage, w);
  const bool reused = 2 * behind < stage.plan.parameter_gather.reuse_elements;
  return stage.plan.data_comm == DataComm::shard_all &&
         stage.plan.parameter_gather.reshard_after_forward && !w.stays &&
         (!reused || !stage.sharded.chunks.empty());
}

// A head that is called for each chunk has its parameters while a call runs. What was gathered for
// a call stands until the next one's is there (torch 2.7,
// distributed/fsdp/_fully_shard/_fsdp_param_group.py: wait_for_unshard); back, it is given up at
// once.
void place_beside_calls(Stage& stage, Wrap& w, const Passes& passes) {
  const auto back = [&](std::size_t i) { return passes.operators - 1 - i; };
  const auto add = [](TensorList& to, const TensorList& call) {
    to.blocks.insert(to.blocks.end(), call.blocks.begin(), call.blocks.end());
    to.bytes = call.bytes;  // one at a time
  };
  const Bytes bytes(static_cast<std::int64_t>(whole_bytes(stage, w)));
  const program::LabelIndex label = label_of(stage, "gathered parameters");
  const std::vector<std::size_t>& calls = passes.head.calls;
  for (std::size_t n = 0; n < calls.size(); ++n) {
    const std::size_t transposed = calls[n] - 1;  // of the weight
    add(w.gather.until_loss, whole_arrays(stage, w, first_place(calls[n]), last_place(calls[n])));
    const std::size_t at = calls[calls.size() - 1 - n];
    add(w.gather.behind_loss,
        whole_arrays(stage, w, first_place(back(at)), last_place(back(at - 1))));
    const std::size_t end = n + 1 < calls.size() ? calls[n + 1] - 1 : calls[n];
    add(n == 0 ? w.gather.gathered_until_loss : w.gather.head.gathered,
        {{{bytes, label, first_place(n == 0 ? 0 : transposed), last_place(end)}}, bytes.count()});
  }
  const std::size_t before = back(calls.back() + 1);
  w.gather.gathered_behind_loss = {{{bytes, label, first_place(before), last_place(before)}},
                                   bytes.count()};
}

// Behind the norm, a head whose loss runs in chunks gives its parameters up and gathers them for
// the whole loop: an explicit unshard, on the stream of the passes (torch 2.15,
// _fsdp_param_group.py: unshard of an idle group; torchtitan 0.3.0, components/loss.py:735).
void place_beside_chunks(Stage& stage, Wrap& w, const Passes& passes) {
  const LossChunks places(*passes.head.loss - 1);
  w.gather.until_loss = whole_arrays(stage, w, 0, last_place(*passes.head.loss - 2));
  w.gather.head.of_loop = whole_arrays(stage, w, places.copy_out(), kPassEnd);
  const Bytes bytes(static_cast<std::int64_t>(whole_bytes(stage, w)));
  w.gather.head.gathered = {
      {{bytes, label_of(stage, "gathered parameters"), places.gather(), places.copy_out()}},
      bytes.count()};
}

// The hooks of a head that is a unit of its own drop it before the loss, and gather it again once
// the gradient of its result is there (_fsdp_state.py: _post_forward, _pre_backward).
void ShardedParameters::place_beside_loss(Stage& stage, Wrap& w) {
  if (!meets_loss(stage, w) || !drops_after_forward(stage, w)) {
    return;
  }
  const Passes& passes = *stage.units[w.chunk][w.last()].passes;
  if (loss_in_chunks(stage, w)) {
    if (passes.head.loss_chunks && *passes.head.loss > 1) {
      place_beside_chunks(stage, w, passes);
    }
    return;
  }
  if (!passes.head.calls.empty()) {
    place_beside_calls(stage, w, passes);
    return;
  }
  const Bytes bytes(static_cast<std::int64_t>(whole_bytes(stage, w)));
  const std::size_t back = passes.operators - *passes.head.loss;
  w.gather.until_loss = whole_arrays(stage, w, 0, last_place(*passes.head.loss - 1));
  w.gather.behind_loss = whole_arrays(stage, w, first_place(back), kPassEnd);
  w.gather.gathered_behind_loss = {
      {{bytes, label_of(stage, "gathered parameters"), first_place(back), last_place(back)}},
      bytes.count()};
}

// A single rank casts its parameters one by one into those that the passes read, without a gather
// (torch 2.15, _fsdp_param_group.py:523, wait_for_unshard).
bool gathers_nothing(const Stage& stage, const Wrap& w) {
  return stage.plan.parameter_gather.alone && !stage.plan.parameter_gather.flat &&
         (w.elements.expert == 0 || sharing(stage.plan, true).shards == 1);
}

// Times that a wrap is gathered for one pass of its unit.
int gathers_of(const Stage& stage, const Wrap& w, bool backward) {
  if (!meets_loss(stage, w)) {
    return 1;
  }
  // For the norm, and once more ahead of the loss's first chunk.
  if (loss_in_chunks(stage, w)) {
    return backward ? 1 : 2;
  }
  // The head is called for each chunk, and its hooks run around each call.
  const bool calls = stage.plan.loss_form.kernel == LossKernel::output_chunks;
  return calls && (backward || drops_after_forward(stage, w)) ? kLossChunks : 1;
}

// DeepSpeed's modules are given up behind a recomputed pass as behind any forward pass, unless the
// backward pass reads them within the reuse distance; FSDP's stay through the unit's backward,
// unless the checkpoint is around the unit.
bool drops_after_recompute(const strategy::Plan& plan, const Wrap& w) {
  if (plan.parameter_gather.checkpointed) {
    return w.units.size() == 1 && plan.parameter_gather.reshard_after_forward;
  }
  return plan.gradient_sync.units_in_buckets && !plan.state_layout.gradients_in_parameters &&
         w.units.size() == 1 && w.elements.total() > plan.parameter_gather.reuse_elements;
}

// Elements of the gathers of a wrap: DeepSpeed takes parameter after parameter in the order of the
// pass until they fill its prefetch bucket (0.19.8, runtime/zero/partitioned_param_coordinator.py:
// fetch_sub_module).
std::vector<std::int64_t> gather_groups(const Stage& stage, const Wrap& w, bool backward) {
  std::vector<std::int64_t> arrays;
  std::int64_t rest = w.elements.dense;
  for (const std::size_t u : w.units) {
    for (const Array& a : stage.units[w.chunk][u].passes->arrays) {
      const bool whole = a.elements <= stage.plan.parameter_gather.persistent_elements;
      if (!a.expert && !a.tiled && !whole && a.elements <= rest) {
        arrays.push_back(a.elements);
        rest -= a.elements;
      }
    }
  }
  if (backward) {
    std::reverse(arrays.begin(), arrays.end());
  }
  std::vector<std::int64_t> groups;
  bool full = true;
  for (const std::int64_t elements : arrays) {
    if (full) {
      groups.push_back(0);
    }
    groups.back() += elements;
    full = groups.back() >= stage.plan.parameter_gather.prefetch_elements;
  }
  if (rest > 0) {  // in no array
    groups.push_back(rest);
  }
  return groups;
}

// ---------------------------------------------------------------- gathering
program::BufferIndex allocate_on(Stage& stage, const TensorList& list, StreamIndex stream) {
  const program::BufferIndex made = stage.builder.allocate(
      list, MemoryCategory::communication, label_of(stage, "gathered parameters"), false);
  if (made != kNone) {
    stage.builder.program.buffers[made].stream = stream;
  }
  return made;
}

program::BufferIndex make_gathered(Stage& stage, Wrap& w, bool backward, StreamIndex stream) {
  if (gathers_nothing(stage, w)) {
    return program::BufferIndex{kNone};
  }
  if (w.gather.ahead != kNone) {
    stage.builder.program.buffers[w.gather.ahead].stream = stream;
    return std::exchange(w.gather.ahead, program::BufferIndex{kNone});
  }
  const program::LabelIndex label = label_of(stage, "gathered parameters");
  const TensorList& within =
      backward ? w.gather.gathered_behind_loss : w.gather.gathered_until_loss;
  if (!within.blocks.empty()) {
    return allocate_on(stage, within, stream);
  }
  const bool in_chunks = !stage.sharded.chunks.empty();
  const double standing =
      stage.plan.parameter_gather.by_arrays
          ? static_cast<double>(standing_elements(stage, w)) * width(stage.plan.style.dtype) +
                static_cast<double>(w.gathered_frozen)
          : whole_bytes(stage, w);
  return stage.builder.allocate(in_chunks ? w.gathered_frozen : static_cast<std::int64_t>(standing),
                                MemoryCategory::communication, label, stream);
}

// FSDP2 casts the shards of a unit into one tensor, and gives it up once the gather's own buffer
// holds them (torch 2.15, distributed/fsdp/_fully_shard/_fsdp_collectives.py:445,
// _get_param_all_gather_inputs; :377). Those that torchao casts to 8 bits are tensors of their own.
program::BufferIndex make_gather_input(Stage& stage, const Wrap& w, StreamIndex stream) {
  const strategy::ParameterGather& policy = stage.plan.parameter_gather;
  const double own = width(stage.plan.style.dtype);
  if (!gather_beside(stage.plan) || (policy.flat && !casts_flat_shards(stage)) ||
      policy.quantised || stage.plan.gradient_sync.units_in_buckets || gathers_nothing(stage, w) ||
      !stage.sharded.chunks.empty()) {
    return program::BufferIndex{kNone};
  }
  const auto narrow = static_cast<double>(narrow_elements(stage, w));
  double bytes = narrow * width(DType::fp8) / sharing(stage.plan, false).shards;
  if (width(stage.plan.precision.parameters) > own) {
    bytes += own *
             ((static_cast<double>(w.elements.dense) - narrow) / sharing(stage.plan, false).shards +
              static_cast<double>(w.elements.expert) / sharing(stage.plan, true).shards);
  }
  return bytes < 1 ? program::BufferIndex{kNone}
                   : stage.builder.allocate(whole_blocks(bytes), MemoryCategory::communication,
                                            label_of(stage, "shards to gather"), stream);
}

// Bytes of each collective that gathers a wrap's dense parameters in the passes' format: `bytes` in
// all, `frozen` of them frozen.
std::vector<double> gathered_pieces(const Stage& stage, const Wrap& w, bool backward, double bytes,
                                    double frozen) {
  const strategy::ParameterGather& policy = stage.plan.parameter_gather;
  const double wide = width(stage.plan.style.dtype);
  std::vector<double> out = {bytes};
  if (policy.wraps_adapters && w.frozen_bytes > 0) {
    out = {frozen};
    for (const std::int64_t elements : trained_pieces(stage, w)) {
      out.push_back(static_cast<double>(elements) * wide);
    }
  }
  if (stage.sharded.chunks.empty() && w.frozen_bytes == 0 && policy.prefetch_elements > 0) {
    out.clear();
    for (const std::int64_t elements : gather_groups(stage, w, backward)) {
      out.push_back(static_cast<double>(elements) * wide);
    }
  }
  return out;
}

void ShardedParameters::gather(Stage& stage, Wrap& w, bool backward) {
  if (w.gather.whole || w.gather.issued) {
    return;
  }
  const strategy::ParameterGather& policy = stage.plan.parameter_gather;
  const bool beside = gather_beside(stage.plan);
  const StreamIndex stream = beside ? stage.streams.gather : stage.streams.compute;
  const bool from_partition = backward && w.gather.partition;
  const Prefetch ahead = backward ? policy.backward_prefetch : policy.forward_prefetch;
  std::vector<Mark> order;
  if (beside) {
    if (!stage.sharded.waited_for_step) {
      // Parameters of the step before are updated.
      stage.builder.wait_previous_step(stage.streams.gather, stage.streams.compute);
      stage.sharded.waited_for_step = true;
    }
    if (ahead == Prefetch::none) {
      order.push_back(stage.builder.mark(stage.streams.compute));
    } else if (!policy.flat) {
      order.push_back(last_copy_out_);
    } else if (policy.limited && stage.sharded.freed.size() > 1) {
      // FSDP1's rate limiter: the host waits until the unit before the last one has been given up
      // (event.synchronize() in torch/distributed/fsdp/_runtime_utils.py: _unshard), so that what
      // it allocates ahead of the device is two units at most.
      order.push_back(stage.sharded.freed[stage.sharded.freed.size() - 2]);
      stage.builder.host_sync(order.back());
    }
  }
  // Its own shard comes first, in the order of the gathers unless it was fetched ahead.
  std::vector<Mark> behind = order;
  behind.push_back(stage.builder.mark(stream));
  fetch_wrap(stage, w, behind);
  order.push_back(w.fetch.done);
  for (const Mark& mark : order) {
    stage.builder.wait(stream, mark);
  }
  if (beside && !from_partition) {
    // One communicator runs its operations in order of issue.
    stage.builder.wait(stage.streams.gather, stage.builder.mark(stage.streams.data));
  }
  const bool in_chunks = !stage.sharded.chunks.empty();
  const program::BufferIndex shard = make_gather_input(stage, w, policy.flat ? shards_ : stream);
  w.gather.buffer = make_gathered(stage, w, backward, stream);
  cast_shards(stage, w, stream);
  if (!policy.flat) {
    stage.builder.release(shard);
  }
  gather_chunks(stage, w, stream);
  // ZeRO++: quantised blocks travel; the second copy in the partition keeps the parameters' own
  // format.
  const auto& quantised = stage.plan.parameter_gather.quantised;
  const double own = width(stage.plan.style.dtype);
  const bool narrow = quantised.has_value() && !from_partition;
  const double wide = narrow ? width(*quantised) : own;
  for (const bool expert : {false, true}) {
    const Sharing sharing_of = sharing(stage.plan, expert);
    const std::int64_t dense = in_chunks ? 0 : w.elements.dense;  // chunks have been gathered
    const auto count = static_cast<double>(expert ? w.elements.expert : dense);
    const bool partitioned = from_partition && !expert;
    const int ranks = partitioned ? partition_ranks(stage.plan) : sharing_of.shards;
    const auto frozen = static_cast<double>(expert ? w.gathered_frozen_experts
                                                   : w.gathered_frozen - w.gathered_frozen_experts);
    const double trained =
        narrow || (in_chunks && !expert) ? count * wide : gathered_trained(stage, w, expert);
    const double bytes = trained + frozen;
    if (ranks == 1 || bytes < 1) {
      continue;
    }
    if (narrow) {
      data_kernel(stage, stream, count / ranks * (own + wide), cost::MemoryOp::elementwise,
                  "quantise parameters");
    }
    const std::vector<double> pieces = expert || narrow
                                           ? std::vector<double>{bytes}
                                           : gathered_pieces(stage, w, backward, bytes, frozen);
    for (int n = gathers_of(stage, w, backward); n > 0; --n) {
      for (const double piece : pieces) {
        data_collective(stage, stream, partitioned ? kPartition : sharing_of.group,
                        Collective::all_gather, piece, "parameters");
      }
    }
    if (narrow) {
      data_kernel(stage, stream, count * (own + wide), cost::MemoryOp::elementwise,
                  "dequantise parameters");
    }
  }
  if (policy.flat) {
    stage.builder.release(shard, 1U << stream);
  }
  w.gather.done = stage.builder.mark(stream);
  w.gather.done = w.gather.done.position == 0 ? w.fetch.done : w.gather.done;
  // The frameworks bring it on the gathers' stream: none is recorded on the block.
  stage.builder.release(w.fetch.buffer);
  w.fetch.buffer = kNone;
  w.fetch.fetched = false;
  w.gather.issued = true;
}

// Where nothing is gathered, each parameter is cast and then copied: the largest stands for all.
program::BufferIndex make_cast(Stage& stage, const Wrap& w) {
  const bool casts = width(stage.plan.precision.parameters) > width(stage.plan.style.dtype);
  if (!gathers_nothing(stage, w) || !casts) {
    return program::BufferIndex{kNone};
  }
  Bytes largest{0};
  for (const program::Block& array : w.gather.arrays.blocks) {
    largest = std::max(largest, array.bytes);
  }
  return stage.builder.allocate(whole_blocks(static_cast<double>(largest.count())),
                                MemoryCategory::communication, label_of(stage, "cast parameters"));
}

void ShardedParameters::use(Stage& stage, Wrap& w, bool backward) {
  if (w.gather.whole) {
    // Behind its first chunk's backward pass it is dropped, and gathered for each of the others.
    for (int n = backward ? gathers_of(stage, w, true) : 1; n > 1; --n) {
      data_collective(stage, stage.streams.gather, sharing(stage.plan, false).group,
                      Collective::all_gather, whole_bytes(stage, w), "parameters");
    }
    return;
  }
  gather(stage, w, backward);
  stage.builder.wait(stage.streams.compute, w.gather.done);
  if (stage.plan.parameter_gather.flat || !stage.sharded.chunks.empty()) {
    w.gather.parameters = w.gather.buffer;  // views of the flat parameter
  } else {
    // Forward, what was gathered stays until the next copy-out begins; backward, it goes behind its
    // own. The gather's stream waits for the copy, so no stream is recorded on the block.
    const TensorList& within = backward ? w.gather.behind_loss : w.gather.until_loss;
    // Of tensors that have places within the pass the copy is a part of it.
    const bool holds =
        !backward && within.blocks.empty() && stage.plan.parameter_gather.holds_previous_gather;
    const program::BufferIndex previous = last_gather_buffer_;
    if (!holds) {
      stage.builder.release(previous);
    }
    const program::BufferIndex cast = make_cast(stage, w);
    w.gather.parameters = stage.builder.allocate(within.blocks.empty() ? w.gather.arrays : within,
                                                 MemoryCategory::communication,
                                                 label_of(stage, "unsharded parameters"), false);
    stage.builder.release(cast);
    data_kernel(stage, stage.streams.compute, 2 * whole_bytes(stage, w), cost::MemoryOp::copy,
                "copy gathered parameters out");
    last_copy_out_ = stage.builder.mark(stage.streams.compute);
    if (holds) {
      stage.builder.release(previous);
    }
    last_gather_buffer_ = w.gather.buffer;
    const bool calls = !backward && !w.gather.gathered_until_loss.blocks.empty();
    if (!backward) {
      w.gather.head.copied_out = allocate_on(stage, w.gather.head.gathered,
                                             calls ? stage.streams.gather : stage.streams.compute);
      w.gather.head.loop =
          stage.builder.allocate(w.gather.head.of_loop, MemoryCategory::communication,
                                 label_of(stage, "unsharded parameters"), false);
    }
    if (backward || calls) {
      if (within.blocks.empty()) {
        stage.builder.release(last_gather_buffer_);
      } else {
        w.gather.copied_out = last_gather_buffer_;  // within the pass
      }
      last_gather_buffer_ = kNone;
    }
  }
  w.gather.buffer = kNone;
  w.gather.issued = false;
  w.gather.whole = true;
  if (backward) {
    stage.builder.release(w.gather.partition_buffer, 1U << stage.streams.gather);
    w.gather.partition_buffer = kNone;
    w.gather.partition = false;
  }
}

// The root's post-forward gives up what was gathered last (_fsdp_state.py: _post_forward).
void ShardedParameters::give_up_last_gather(Stage& stage) {
  stage.builder.release(last_gather_buffer_);
  last_gather_buffer_ = kNone;
}

// The gathers that go out before a wrap computes, which `unit` begins: the next one in the
// direction of the pass, or as many as DeepSpeed's prefetch bucket takes.
void ShardedParameters::prefetch(Stage& stage, int chunk, std::size_t unit, bool backward) {
  auto& wraps = stage.sharded.wraps;
  const Prefetch ahead = backward ? stage.plan.parameter_gather.backward_prefetch
                                  : stage.plan.parameter_gather.forward_prefetch;
  if (ahead != Prefetch::explicit_ || !gather_beside(stage.plan)) {
    return;
  }
  std::int64_t left = std::max<std::int64_t>(stage.plan.parameter_gather.prefetch_elements, 1);
  const int step = backward ? -1 : 1;
  const auto& wrap_of = stage.sharded.wrap_of[chunk];
  std::size_t before = wrap_of[unit];
  for (auto u = static_cast<std::ptrdiff_t>(unit) + step;
       u >= 0 && u < static_cast<std::ptrdiff_t>(wrap_of.size()) && left > 0; u += step) {
    const std::size_t index = wrap_of[static_cast<std::size_t>(u)];
    Wrap& w = wraps[index];
    // FSDP asks for the next unit alone, whole or not (torch 2.15, fsdp/_fully_shard/
    // _fsdp_param_group.py:1061, _backward_prefetch; fsdp/_exec_order_utils.py:88).
    if (index != before && w.gather.whole && stage.plan.parameter_gather.prefetch_elements == 0) {
      return;
    }
    if (index != before && !w.gather.whole) {
      left -= gathered_elements(stage, w);
      gather(stage, w, backward);
    }
    before = index;
  }
}

// A flat parameter of a table that embedding and head share, in a unit of its own, which runs
// twice: each forward pass gathers it and gives it up. Back, it stays from the head's pass to the
// embedding's, where the hook on its gradient runs (FSDP1; llm-foundry's SharedEmbedding).
Wrap* ShardedParameters::table_of(Stage& stage, int chunk, std::size_t unit) {
  const auto& units = stage.units[static_cast<std::size_t>(chunk)];
  const strategy::ParameterGather& policy = stage.plan.parameter_gather;
  if (!policy.flat || policy.by_arrays || !stage.sharded.chunks.empty() ||
      units[unit].kind != Unit::Kind::head || units.front().kind != Unit::Kind::embedding ||
      !shares_table(stage)) {
    return nullptr;
  }
  Wrap& w = wrap_of(stage, chunk, 0);
  return &w == &wrap_of(stage, chunk, unit) ? nullptr : &w;
}

// ---------------------------------------------------------------- hooks
void ShardedParameters::before_forward(Stage& stage, int chunk, std::size_t unit) {
  if (!wraps(stage) || stage.sharded.traced || stage.sharded.buffered) {
    return;
  }
  const std::size_t index = stage.sharded.wrap_of[chunk][unit];
  Wrap& w = stage.sharded.wraps[index];
  const std::int64_t root = stage.sharded.root + stage.sharded.frozen_root;
  if (unit == 0 && root > 0) {
    data_collective(stage, stage.streams.gather, sharing(stage.plan, false).group,
                    Collective::all_gather,
                    static_cast<double>(root) * width(stage.plan.style.dtype), "parameters");
  }
  const bool head = stage.units[chunk][unit].kind == Unit::Kind::head;
  if (unit == w.first()) {
    use(stage, w, false);
  }
  if (Wrap* table = table_of(stage, chunk, unit)) {
    use(stage, *table, false);
  }
  const bool chunks = loss_in_chunks(stage, w);
  if (head && (stage.plan.loss_form.outside_model || chunks)) {
    give_up_last_gather(stage);  // a loss outside the model does not see it
  }
  if (chunks) {
    open_loss_chunks(stage, w);
  }
  if (unit == w.first()) {
    fetch_ahead(stage, index, false);
    prefetch(stage, chunk, unit, false);
  }
}

void ShardedParameters::after_forward(Stage& stage, int chunk, std::size_t unit) {
  if (!wraps(stage) || stage.sharded.traced || stage.sharded.buffered) {
    return;
  }
  if (unit + 1 == stage.units[chunk].size()) {
    give_up_last_gather(stage);
  }
  if (Wrap* table = table_of(stage, chunk, unit);
      table != nullptr && drops_after_forward(stage, *table)) {
    drop_wrap(stage, *table, false);
  }
  Wrap& w = wrap_of(stage, chunk, unit);
  const bool drops = drops_after_forward(stage, w) || loss_in_chunks(stage, w);
  if (unit != w.last() || !drops) {
    return;
  }
  const int partition = partition_ranks(stage.plan);
  if (partition > 1 && !w.gather.partition) {
    w.gather.partition = true;
    if (!stage.plan.parameter_gather.partition_stands) {  // hpZ's stands from step to step
      w.gather.partition_buffer = stage.builder.allocate(
          whole_blocks(whole_bytes(stage, w) / partition), MemoryCategory::communication,
          label_of(stage, "parameters in the partition"));
    }
    data_kernel(stage, stage.streams.compute, 2 * whole_bytes(stage, w) / partition,
                cost::MemoryOp::copy, "keep the partition's shard");
  }
  drop_wrap(stage, w, false);
}

void ShardedParameters::before_backward(Stage& stage, int chunk, std::size_t unit) {
  if (!wraps(stage) || stage.sharded.traced || stage.sharded.buffered) {
    return;
  }
  // What is recomputed together is gathered together.
  std::size_t first = unit;
  for (const Again& again : stage.units[chunk][unit].again) {
    first = std::min(first, again.unit);
  }
  if (Wrap* table = table_of(stage, chunk, unit)) {
    use(stage, *table, true);
  }
  for (std::size_t u = first; u <= unit; ++u) {
    use(stage, wrap_of(stage, chunk, u), true);
  }
  drop_used(stage);
  const std::size_t index = stage.sharded.wrap_of[chunk][unit];
  Wrap& w = stage.sharded.wraps[index];
  if (unit != w.last()) {
    return;
  }
  if (stage.units[chunk][unit].kind == Unit::Kind::head && prefetches_behind_loss(stage.plan)) {
    behind_loss_ = {chunk, unit};
    make_within_pass(stage, chunk, unit);
    return;
  }
  fetch_ahead(stage, index, true);
  prefetch(stage, chunk, unit, true);
}

// What a head's pass gathers ahead, once its loss is through, stands beside the rest of that pass.
// Calls for each chunk look ahead to one another, and the first one, whose backward pass is the
// last, to the layers (torch 2.15, _fsdp_param_group.py:1061, _backward_prefetch).
void ShardedParameters::make_within_pass(Stage& stage, int chunk, std::size_t unit) {
  const Passes& passes = *stage.units[chunk][unit].passes;
  const std::size_t loss = passes.head.loss.value_or(0);
  const std::size_t head = stage.sharded.wrap_of[chunk][unit];
  std::size_t next = unit;
  while (next > 0 && stage.sharded.wrap_of[chunk][next] == head) {
    --next;
  }
  Wrap& w = wrap_of(stage, chunk, next);
  const strategy::ParameterGather& policy = stage.plan.parameter_gather;
  const bool gathers = policy.backward_prefetch == Prefetch::explicit_ && !policy.by_arrays &&
                       gather_beside(stage.plan) && !gathers_nothing(stage, w);
  if (loss == 0 || &w == &stage.sharded.wraps[head] || w.gather.whole || w.gather.issued ||
      !gathers) {
    return;
  }
  const Bytes bytes(static_cast<std::int64_t>(whole_bytes(stage, w)));
  const program::LabelIndex label = label_of(stage, "gathered parameters");
  const std::size_t enters = passes.head.calls.empty() ? loss : passes.head.calls.front() + 1;
  const std::uint16_t begin = first_place(passes.operators - enters);
  w.gather.ahead = stage.builder.allocate({{{bytes, label, begin, kPassEnd}}, bytes.count()},
                                          MemoryCategory::communication, label, false);
}

void ShardedParameters::behind_loss(Stage& stage) {
  if (!behind_loss_) {
    return;
  }
  const auto [chunk, unit] = *behind_loss_;
  behind_loss_.reset();
  fetch_ahead(stage, stage.sharded.wrap_of[chunk][unit], true);
  prefetch(stage, chunk, unit, true);
}

void ShardedParameters::before_second_use(Stage& stage, int chunk, std::size_t unit) {
  if (!wraps(stage) || stage.sharded.traced || stage.sharded.buffered) {
    return;
  }
  Wrap& w = wrap_of(stage, chunk, unit);
  if (drops_after_recompute(stage.plan, w)) {
    drop_wrap(stage, w, true);
    use(stage, w, true);
  }
}

void ShardedParameters::end_of_step(Stage& stage, StepEnd part) {
  if (!wraps(stage)) {
    return;
  }
  if (part == StepEnd::reduce) {  // the compute stream has waited for both
    stage.builder.release(last_gather_buffer_);
    stage.builder.release(stage.sharded.last_reduce_buffer);
  } else if (part == StepEnd::gather) {
    // DeepSpeed's small parameters, one by one (stage3.py: _post_step).
    for (const Wrap& w : stage.sharded.wraps) {
      std::int64_t rest = w.persistent;
      for (const std::size_t u : w.units) {
        for (const Array& a : stage.units[w.chunk][u].passes->arrays) {
          if (!a.expert && a.elements <= stage.plan.parameter_gather.persistent_elements &&
              a.elements <= rest) {
            gather_parameters(stage, {a.elements, 0}, stage.streams.compute);
            rest -= a.elements;
          }
        }
        for (const Array& a : stage.units[w.chunk][u].passes->modules.with_frozen) {
          if (a.frozen && stage.sharded.traced &&
              a.elements <= stage.plan.parameter_gather.persistent_elements) {
            gather_parameters(stage, {a.elements, 0}, stage.streams.compute);
          }
        }
      }
      gather_parameters(stage, {rest, 0}, stage.streams.compute);
    }
    find_scales(stage);
  }
}

}  // namespace

std::unique_ptr<Feature> make_sharded_parameters() { return std::make_unique<ShardedParameters>(); }

}  // namespace stepcast::lower
