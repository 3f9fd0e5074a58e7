// What units that are gathered and reduced whole share: which they are, their bytes, and the
// reduction of their gradients to shards.
#include "sharded_units.h"

#include <algorithm>

#include "../passes/loss_chunks.h"
#include "../stage/feature.h"
#include "../tensors/unit_tensors.h"
#include "narrow_gather.h"
#include "parameter_formats.h"
#include "unit_rows.h"

namespace stepcast::lower {

using cost::Collective;
using program::Block;
using program::kNone;
using program::MemoryCategory;
using program::StreamIndex;

std::int64_t gathered_elements(const Stage& stage, const Wrap& w) {
  return w.elements.total() + w.tiled +
         static_cast<std::int64_t>(static_cast<double>(w.gathered_frozen) /
                                   width(stage.plan.style.dtype));
}

std::vector<std::int64_t> trained_pieces(const Stage& stage, const Wrap& w) {
  if (!stage.plan.parameter_gather.wraps_adapters || w.frozen_bytes == 0) {
    return {w.elements.dense};
  }
  std::vector<std::int64_t> out;
  for (const std::size_t u : w.units) {
    for (const Array& a : stage.units[static_cast<std::size_t>(w.chunk)][u].passes->arrays) {
      if (!a.expert) {
        out.push_back(a.elements);
      }
    }
  }
  return out;
}

Wrap& wrap_of(Stage& stage, int chunk, std::size_t unit) {
  ShardedUnits& all = stage.sharded;
  return all.wraps[all.wrap_of[static_cast<std::size_t>(chunk)][unit]];
}

namespace {

bool stays_whole(const Stage& stage, std::size_t chunk, std::size_t unit) {
  const strategy::ParameterGather& policy = stage.plan.parameter_gather;
  const std::vector<Unit>& units = stage.units[chunk];
  switch (units[unit].kind) {
    case Unit::Kind::layer:
      return policy.keeps_last_layer && units[unit].layer + 1 == stage.plan.model.layers;
    case Unit::Kind::head:
      return policy.ends_join_root || policy.keeps_head;
    default:
      return policy.ends_join_root;
  }
}

void add_unit(Stage& stage, Wrap& w, std::size_t u) {
  const Unit& unit = stage.units[static_cast<std::size_t>(w.chunk)][u];
  w.units.push_back(u);
  w.elements += unit.passes->parameters.trained;
  if (stage.plan.parameter_gather.experts_outside) {
    w.outside += unit.passes->parameters.trained.expert;
    w.elements.expert = w.elements.narrow_expert = 0;
  }
  w.frozen_bytes += unit.passes->parameters.frozen_bytes;
  w.frozen_experts += unit.passes->parameters.frozen_experts;
  w.gathered_frozen += unit.passes->parameters.gathered_frozen;
  w.gathered_frozen_experts += unit.passes->parameters.gathered_frozen_experts;
  if (unit.kind == Unit::Kind::head) {
    for (const Array& array : unit.passes->arrays) {
      w.norm += array.rows == 0 && !array.table ? array.elements : 0;
    }
    if (stage.plan.parameter_gather.norm_in_root) {
      w.elements.dense -= w.norm;
      stage.sharded.root += w.norm;
      w.norm = 0;
      const std::int64_t frozen = unit.passes->parameters.frozen_norms;
      stage.sharded.frozen_root += frozen;
      w.gathered_frozen -=
          static_cast<std::int64_t>(static_cast<double>(frozen) * width(stage.plan.style.dtype));
    }
  }
  for (const Array& array : unit.passes->arrays) {
    if (array.tiled) {
      w.tiled += array.elements;
      w.elements.dense -= array.elements;
      w.elements.narrow_dense -= array.cast ? array.elements : 0;
    } else if (!array.expert && array.elements <= stage.plan.parameter_gather.persistent_elements) {
      w.persistent += array.elements;
      w.elements.dense -= array.elements;
      w.elements.narrow_dense -= array.cast ? array.elements : 0;
    }
  }
}

void pad_to_rows(const Stage& stage, Wrap& w) {
  if (!stage.plan.parameter_gather.unit_buffers || w.outside > 0) {
    return;
  }
  std::vector<Array> arrays;
  for (const std::size_t u : w.units) {
    const Passes& passes = *stage.units[static_cast<std::size_t>(w.chunk)][u].passes;
    arrays.insert(arrays.end(), passes.arrays.begin(), passes.arrays.end());
  }
  for (const bool expert : {false, true}) {
    std::int64_t& elements = expert ? w.elements.expert : w.elements.dense;
    const std::int64_t ranks = sharing(stage.plan, expert).shards;
    const std::int64_t padded = row_bucket(arrays, expert, ranks);
    if (elements > 0 && padded > elements) {
      (expert ? w.padding.expert : w.padding.dense) = padded - elements;
      elements = padded;
    }
  }
}

}  // namespace

// Embedding and head are FSDP's root together, which is whole from the first unit's forward pass to
// its backward pass, unless they are wrapped themselves; DeepSpeed's modules are all alike.
void make_wraps(Stage& stage) {
  const bool root = stage.plan.parameter_gather.ends_join_root;
  const int together = std::max(1, stage.plan.parameter_gather.unit_layers);
  std::vector<Wrap>& wraps = stage.sharded.wraps;
  stage.sharded.wrap_of.resize(stage.units.size());
  for (std::size_t c = 0; c < stage.units.size(); ++c) {
    const std::size_t count = stage.units[c].size();
    const auto is_layer = [&](std::size_t u) {
      return stage.units[c][u].kind == Unit::Kind::layer;
    };
    std::vector<std::size_t>& wrap_of = stage.sharded.wrap_of[c];
    wrap_of.resize(count);
    const bool joined = root && count > 1 && !is_layer(0) && !is_layer(count - 1);
    int layers = 0;
    for (std::size_t u = joined ? 1 : 0; u < count; ++u) {
      if (!is_layer(u) || layers == 0) {
        wraps.emplace_back();
        wraps.back().chunk = static_cast<int>(c);
        wraps.back().stays = stays_whole(stage, c, u);
      }
      layers = is_layer(u) ? (layers + 1) % together : 0;
      if (joined && u + 1 == count) {
        add_unit(stage, wraps.back(), 0);
        wrap_of[0] = wraps.size() - 1;
      }
      add_unit(stage, wraps.back(), u);
      wrap_of[u] = wraps.size() - 1;
    }
  }
  for (Wrap& w : stage.sharded.wraps) {
    pad_to_rows(stage, w);
  }
  stage.sharded.gathered = 0;
  for (Wrap& w : stage.sharded.wraps) {
    w.before = stage.sharded.gathered;
    stage.sharded.gathered += gathered_elements(stage, w);
  }
}

namespace {

// Shards that lie on the host as a whole are brought by the gather that reads them (DeepSpeed
// 0.19.8, runtime/zero/partition_parameters.py:1360, :1396). Where a job states that units are
// brought some number ahead, or in tiles, it does not mean that gather.
bool brought_by_gathers(const strategy::Offload& offload) {
  const strategy::OffloadPart& part = offload.parameters;
  return part.to == OffloadTarget::none || (part.to == OffloadTarget::cpu && part.share() >= 1 &&
                                            offload.tiling == 1 && offload.prefetch == 1);
}

}  // namespace

// DeepSpeed's coordinator knows parameters, not units. What it does with quantised and tiled ones,
// and with those on drives, is not traced, nor passes of two micro-batches side by side.
bool traces_fetches(const Stage& stage) {
  const strategy::Plan& plan = stage.plan;
  const auto whole = [](const Wrap& w) { return w.tiled == 0; };
  const auto quantised = [](const Unit& unit) {
    return !unit.passes->parameters.quantised.empty();
  };
  return wraps(stage) && plan.gradient_sync.units_in_buckets && plan.grid.pipeline == 1 &&
         stage.units.size() == 1 && stage.sharded.chunks.empty() && stage.sharded.pages.empty() &&
         !plan.parameter_gather.quantised && plan.parameter_gather.reshard_after_forward &&
         plan.data_comm == strategy::DataComm::shard_all && partition_ranks(plan) == 1 &&
         !plan.stage_transport.pairs_passes && brought_by_gathers(plan.offload) &&
         stage.again.keeps_whole.empty() &&
         std::none_of(stage.units.front().begin(), stage.units.front().end(), quantised) &&
         std::all_of(stage.sharded.wraps.begin(), stage.sharded.wraps.end(), whole);
}

double gathered_trained(const Stage& stage, const Wrap& w, bool expert) {
  const auto narrow = expert ? 0 : static_cast<double>(narrow_elements(stage, w));
  return gathered_bytes(stage.plan, w.elements, expert) -
         narrow * (width(stage.plan.style.dtype) - width(DType::fp8));
}

double whole_bytes(const Stage& stage, const Wrap& w) {
  return gathered_trained(stage, w, false) + gathered_trained(stage, w, true) +
         static_cast<double>(w.gathered_frozen);
}

std::int64_t standing_elements(const Stage& stage, const Wrap& w) {
  if (!stage.plan.parameter_gather.by_arrays) {
    return w.elements.total();
  }
  std::int64_t largest = 0;
  for (const std::size_t u : w.units) {
    for (const Array& a : stage.units[static_cast<std::size_t>(w.chunk)][u].passes->arrays) {
      largest = a.expert && w.outside > 0 ? largest : std::max(largest, a.elements);
    }
  }
  return largest;
}

double frozen_shard(const Stage& stage, std::int64_t all, std::int64_t experts) {
  return static_cast<double>(all - experts) / sharing(stage.plan, false).shards +
         static_cast<double>(experts) / sharing(stage.plan, true).shards;
}

double trained_shard(const Stage& stage, const Wrap& w) {
  double bytes = 0;
  for (const bool expert : {false, true}) {
    bytes += standing_bytes(stage.plan, w.elements, expert) / sharing(stage.plan, expert).shards;
  }
  return bytes;
}

double shard_bytes(const Stage& stage, const Wrap& w) {
  return trained_shard(stage, w) + frozen_shard(stage, w.frozen_bytes, w.frozen_experts);
}

// A flat parameter takes a gradient as a whole when any part of it
// does: frozen parts are zeros in it (flat_param.py: use_orig_params with mixed requires_grad).
Elements gradient_elements(const Stage& stage, const Wrap& w) {
  Elements out = w.elements;
  out.dense += w.persistent;
  if (stage.plan.parameter_gather.flat && out.total() > 0 &&
      !stage.plan.parameter_gather.wraps_adapters) {
    const double wide = width(stage.plan.precision.parameters);
    out.dense += static_cast<std::int64_t>(static_cast<double>(w.frozen_bytes) / wide);
  }
  return out;
}

int partition_ranks(const strategy::Plan& plan) {
  const int ranks = plan.parameter_gather.partition;
  return ranks > 1 && ranks < plan.shard_ranks ? ranks : 1;
}

bool meets_loss(const Stage& stage, const Wrap& w) {
  const strategy::ParameterGather& policy = stage.plan.parameter_gather;
  const Unit& unit = stage.units[static_cast<std::size_t>(w.chunk)][w.last()];
  return unit.kind == Unit::Kind::head && unit.passes->head.loss.value_or(0) > 0 &&
         w.units.size() == 1 && !policy.ends_join_root && !policy.flat &&
         policy.prefetch_elements == 0;
}

bool loss_in_chunks(const Stage& stage, const Wrap& w) {
  return stage.plan.loss_form.kernel == LossKernel::chunked && meets_loss(stage, w);
}

namespace {

// A chunk's gradient is made in the products' format and added up in that of the reduction; torch's
// autograd casts it first (2.15, _fsdp_param.py: grad_dtype). The first one, cast or not, becomes
// the sum.
void list_chunk_gradients(Stage& stage, Wrap& w, const Passes& passes) {
  const double elements = static_cast<double>(gradient_elements(stage, w).total() - w.norm);
  const double narrow = width(stage.plan.style.dtype);
  const double wide = width(stage.plan.precision.reduce);
  const program::LabelIndex label = label_of(stage, "gradients of a chunk");
  const LossChunks places(*passes.head.loss - 1);
  // Without places of its own the loss is one operator behind the projection.
  const int chunks = passes.head.loss_chunks ? kLossChunks : 1;
  const auto at = [&](int chunk, ChunkStep step) {
    return passes.head.loss_chunks ? places.at(chunk, step) : places.gather();
  };
  const Bytes made(whole_blocks(elements * narrow)), sum(whole_blocks(elements * wide));
  for (int n = 0; n < chunks; ++n) {
    const std::uint16_t begin = at(n, ChunkStep::weight_gradient), end = at(n, ChunkStep::sum);
    const Block one{made, label, begin, wide > narrow ? end : begin};
    const Block cast{sum, label, end, end};
    for (TensorList* to : {&w.gradients.chunk, &w.gradients.first_chunk}) {
      const bool becomes_sum = n == 0 && passes.head.loss_chunks && to == &w.gradients.first_chunk;
      if (!becomes_sum || wide > narrow) {
        to->blocks.push_back(one);
      }
      if (!becomes_sum && wide > narrow) {
        to->blocks.push_back(cast);
      }
      to->bytes = made.count() + (wide > narrow ? sum.count() : 0);
    }
  }
  const std::uint16_t first = at(0, wide > narrow ? ChunkStep::sum : ChunkStep::weight_gradient);
  w.gradients.summed = {{{sum, label_of(stage, "accumulated gradients"), first, kPassEnd}},
                        sum.count()};
}

}  // namespace

void open_loss_chunks(Stage& stage, Wrap& w) {
  if (w.gradients.chunk.blocks.empty()) {
    list_chunk_gradients(stage, w, *stage.units[w.chunk][w.last()].passes);
  }
  const bool fresh = w.gradients.whole.empty();
  if (fresh) {
    w.gradients.whole.push_back(
        stage.builder.allocate(w.gradients.summed, MemoryCategory::gradients,
                               label_of(stage, "accumulated gradients"), false));
  }
  w.gradients.of_chunk = stage.builder.allocate(fresh ? w.gradients.first_chunk : w.gradients.chunk,
                                                MemoryCategory::communication,
                                                label_of(stage, "gradients of a chunk"), false);
}

// What was given up within the pass.
void close_loss_chunks(Stage& stage, Wrap& w) {
  stage.builder.release(w.gradients.of_chunk);
  w.gradients.of_chunk = kNone;
  stage.builder.release(w.gather.head.copied_out);
  w.gather.head.copied_out = kNone;
  if (w.gather.head.loop != kNone) {
    stage.builder.release(w.gather.parameters);
    w.gather.parameters = w.gather.head.loop;
    w.gather.head.loop = kNone;
  }
}

bool gives_up_behind_next(const Stage& stage, const Wrap& w) {
  return stage.plan.parameter_gather.flat && stage.plan.parameter_gather.wraps_adapters &&
         w.frozen_bytes > 0 && !w.stays && stage.sharded.chunks.empty();
}

void drop_used(Stage& stage) {
  for (const std::size_t index : stage.sharded.used) {
    drop_wrap(stage, stage.sharded.wraps[index], true);
  }
  stage.sharded.used.clear();
}

void drop_wrap(Stage& stage, Wrap& w, bool backward) {
  if (stage.sharded.traced || stage.sharded.buffered) {
    return;
  }
  drop_chunks(stage, w, backward);
  stage.builder.release(w.gather.copied_out);
  w.gather.copied_out = kNone;
  stage.builder.release(w.gather.head.copied_out);
  w.gather.head.copied_out = kNone;
  // Given up inside the pass, it is not lent to the stream of the pass.
  const bool calls = !w.gather.gathered_until_loss.blocks.empty();
  const bool within = calls || (!backward && !w.gather.until_loss.blocks.empty());
  stage.builder.release(w.gather.parameters, within ? 0 : 1U << stage.streams.compute);
  w.gather.parameters = kNone;
  w.gather.whole = false;
  stage.sharded.freed.push_back(stage.builder.mark(stage.streams.compute));
}

namespace {

// qgZ: blocks of 4 bits by all-to-all in the node, summed, then by all-to-all between nodes
// (2306.10209, section 4.3).
void quantised_reduce(Stage& stage, std::int64_t elements, StreamIndex stream) {
  // Half an int8, as the job counts int4.
  const double narrow = width(*stage.plan.gradient_sync.quantised) / 2;
  const double own = width(stage.plan.style.dtype);
  const int inner = node_share(stage.plan);
  const int outer = stage.plan.shard_ranks / inner;
  double count = static_cast<double>(elements);
  for (const bool in_node : {true, false}) {
    const int ranks = in_node ? inner : outer;
    if (ranks == 1) {
      continue;
    }
    data_kernel(stage, stream, count * (own + narrow), cost::MemoryOp::elementwise,
                "quantise gradients");
    data_collective(stage, stream, in_node ? kNode : kAcross, Collective::all_to_all,
                    count * narrow, "gradients");
    data_kernel(stage, stream, count * (narrow + own / ranks), cost::MemoryOp::elementwise,
                "dequantise and sum gradients");
    count /= ranks;
  }
}

}  // namespace

void reduce_shards(Stage& stage, int chunk, std::int64_t elements, bool expert,
                   StreamIndex stream) {
  const Sharing s = sharing(stage.plan, expert);
  const auto reduced = [&](double count, StreamIndex behind) {
    each<&Feature::gradients_reduced>(stage, ReducedGradients{count, behind, chunk});
  };
  if (elements <= 0) {
    return;
  }
  if (s.members() == 1) {
    reduced(static_cast<double>(elements), stage.streams.compute);
    return;
  }
  const auto& quantised = stage.plan.gradient_sync.quantised;
  stage.builder.wait(stream, stage.builder.mark(stage.streams.compute));
  const double bytes = static_cast<double>(elements) * width(stage.plan.precision.reduce);
  if (quantised && !expert) {
    quantised_reduce(stage, elements, stream);
  } else {
    data_collective(stage, stream, s.group, Collective::reduce_scatter, bytes, "gradients");
  }
  if (s.copies > 1) {
    const StreamIndex beside = stage.streams.replicas != 0 && stream != stage.streams.compute
                                   ? stage.streams.replicas
                                   : stream;
    stage.builder.wait(beside, stage.builder.mark(stream));
    data_collective(stage, beside, s.replicas, Collective::all_reduce, bytes / s.shards,
                    "gradients");
    reduced(static_cast<double>(elements) / s.shards, beside);
    return;
  }
  reduced(static_cast<double>(elements) / s.shards, stream);
}

}  // namespace stepcast::lower
