// Parameters of ZeRO-1 and ZeRO-2 in pieces: gathered behind the optimizer, or ahead of the first
// forward passes of the next step where that overlaps.
#include "parameter_pieces.h"

#include <algorithm>
#include <limits>

#include "../stage/feature_list.h"
#include "../state/states.h"
#include "buckets.h"
#include "parameter_formats.h"

namespace stepcast::lower {

using cost::Collective;
using program::StreamIndex;
using strategy::DataComm;

bool shards_states(const strategy::Plan& plan) {
  return !wraps_units(plan) &&
         (plan.data_comm == DataComm::shard_states || plan.data_comm == DataComm::shard_grads);
}

void gather_parameters(Stage& stage, const Elements& elements, StreamIndex stream) {
  for (const bool expert : {false, true}) {
    const double bytes = gathered_bytes(stage.plan, elements, expert);
    const Sharing s = sharing(stage.plan, expert);
    if (s.shards == 1) {
      continue;
    }
    if (!stage.plan.parameter_gather.from_owners) {
      data_collective(stage, stream, s.group, Collective::all_gather, bytes, "parameters");
      continue;
    }
    for (int owner = 0; owner < s.shards; ++owner) {
      data_collective(stage, stream, s.group, Collective::broadcast, bytes / s.shards,
                      "parameters");
    }
  }
}

namespace {

struct Piece {
  int chunk = 0;
  std::size_t first = 0;  // unit that reads it first
  bool expert = false;
  Elements elements;
  bool issued = false;
  Mark gathered;
};

class ParameterPieces final : public Feature {
 public:
  void before_step(Stage& stage) override;
  void before_forward(Stage& stage, int chunk, std::size_t unit) override;
  void end_of_step(Stage& stage, StepEnd part) override;

 private:
  void make_pieces(const Stage& stage);
  void issue_piece(Stage& stage, Piece& piece);
  void issue_aligned_pieces(Stage& stage);
  void wait_for_pieces(Stage& stage, int chunk, std::size_t unit);
  void issue_next(Stage& stage, std::size_t after);

  std::vector<Piece> pieces_;     // in forward order, a chunk's dense ones before its experts
  bool waited_for_step_ = false;  // the first gather waits for the optimizer of the step before
  int forwards_ = 0;              // passes begun on this rank
};

Elements elements_of(const Array& array) {
  const std::int64_t narrow = array.cast ? array.elements : 0;
  return array.expert ? Elements{0, array.elements, 0, narrow}
                      : Elements{array.elements, 0, narrow, 0};
}

// Arrays of one kind in whole buckets, which fill up from the last array to the first as gradients
// do (Megatron-Core 0.16.1, distributed/param_and_grad_buffer.py:714).
std::vector<Piece> buckets_of(const Stage& stage, int chunk, bool expert, std::int64_t bucket) {
  std::vector<Piece> out;
  bool open = false;
  const auto& units = stage.units[static_cast<std::size_t>(chunk)];
  for (std::size_t u = units.size(); u-- > 0;) {
    const std::vector<Array>& arrays = units[u].passes->arrays;
    for (auto array = arrays.rbegin(); array != arrays.rend(); ++array) {
      if (array->expert != expert) {
        continue;
      }
      if (!open) {
        out.push_back({chunk, u, expert, {}, false, {}});
      }
      out.back().first = u;
      out.back().elements += elements_of(*array);
      open = out.back().elements.total() < bucket;
    }
  }
  std::reverse(out.begin(), out.end());
  return out;
}

// A chunk's parameters in the pieces in which they are gathered: buckets where gradients have them
// too, dense parameters and experts apart.
void ParameterPieces::make_pieces(const Stage& stage) {
  // A flat partition is gathered at once (DeepSpeed 0.19.8, runtime/utils.py:1019).
  const bool cut =
      reduce_beside(stage.plan) && stage.plan.state_layout.partition != StatePartition::flat;
  for (int chunk = 0; chunk < static_cast<int>(stage.units.size()); ++chunk) {
    const std::int64_t bucket = cut && bucketed(stage, chunk)
                                    ? stage.plan.gradient_sync.bucket_elements
                                    : std::numeric_limits<std::int64_t>::max();
    for (const bool expert : {false, true}) {
      const std::vector<Piece> made = buckets_of(stage, chunk, expert, bucket);
      pieces_.insert(pieces_.end(), made.begin(), made.end());
    }
  }
}

void ParameterPieces::issue_piece(Stage& stage, Piece& piece) {
  if (piece.issued) {
    return;
  }
  if (!waited_for_step_) {
    stage.builder.wait_previous_step(stage.streams.data, stage.streams.compute);
    if (stage.plan.offload.any()) {
      stage.builder.wait_previous_step(stage.streams.data, stage.host_streams.to_device);
    }
    waited_for_step_ = true;
  }
  gather_parameters(stage, piece.elements, stage.streams.data);
  piece.gathered = stage.builder.mark(stage.streams.data);
  piece.issued = true;
}

// Interleaved: a chunk's first micro-batch asks for the next chunk's parameters, on later stages
// earlier by their rank, so that all stages gather together (pipeline_parallel/schedules.py:
// param_sync_virtual_microbatch_id).
void ParameterPieces::issue_aligned_pieces(Stage& stage) {
  if (pieces_.empty() || !stage.plan.interleaved) {
    return;
  }
  int at = forwards_ + (stage.plan.parameter_gather.aligned ? stage.number : 0);
  std::vector<bool> seen(stage.units.size(), false);
  for (const schedule::Slot& slot : slots_of(stage)) {
    if (slot.pass != schedule::Pass::forward) {
      continue;
    }
    if (at-- == 0) {
      for (Piece& piece : pieces_) {
        if (!seen[slot.chunk] && piece.chunk == slot.chunk + 1) {
          issue_piece(stage, piece);
        }
      }
      return;
    }
    seen[slot.chunk] = true;
  }
}

// The forward pass waits for a piece where it first needs it, and asks for the next
// (--overlap-param-gather's chain, one for dense parameters and one for experts: Megatron-Core
// 0.16.1, distributed/distributed_data_parallel.py:239). Pieces within a unit are all waited for
// where the unit begins.
void ParameterPieces::wait_for_pieces(Stage& stage, int chunk, std::size_t unit) {
  std::vector<std::size_t> last;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].chunk != chunk || pieces_[i].first != unit) {
      continue;
    }
    issue_piece(stage, pieces_[i]);
    stage.builder.wait(stage.streams.compute, pieces_[i].gathered);
    if (!last.empty() && pieces_[last.back()].expert == pieces_[i].expert) {
      last.pop_back();
    }
    last.push_back(i);
  }
  for (const std::size_t i : last) {
    issue_next(stage, i);
  }
}

// The pieces of the next unit that reads any of this kind.
void ParameterPieces::issue_next(Stage& stage, std::size_t after) {
  const Piece* next = nullptr;
  for (std::size_t i = after + 1; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    const bool same_chunk = piece.chunk == pieces_[after].chunk;
    if (piece.expert != pieces_[after].expert || (stage.plan.interleaved && !same_chunk)) {
      continue;
    }
    if (next != nullptr && (piece.chunk != next->chunk || piece.first != next->first)) {
      return;
    }
    next = &piece;
    issue_piece(stage, piece);
  }
}

void ParameterPieces::before_step(Stage& stage) {
  if (!travels(stage) || !shards_states(stage.plan) || !gather_beside(stage.plan)) {
    return;
  }
  make_pieces(stage);
  const auto first = [&](const Piece& piece) {
    return piece.chunk == pieces_.front().chunk && piece.first == pieces_.front().first;
  };
  for (Piece& piece : pieces_) {
    // Interleaved: the first two chunks at once.
    if (first(piece) || (stage.plan.interleaved && piece.chunk < 2)) {
      issue_piece(stage, piece);
    }
  }
}

void ParameterPieces::before_forward(Stage& stage, int chunk, std::size_t unit) {
  if (wraps(stage)) {
    return;
  }
  if (unit == 0) {
    issue_aligned_pieces(stage);
    ++forwards_;
  }
  if (travels(stage) && stage.passes.turns[static_cast<std::size_t>(chunk)].forwards_begun == 1) {
    wait_for_pieces(stage, chunk, unit);
  }
}

// Each rank that owns arrays broadcasts all of them as one tensor (InternEvo 0.5.2,
// solver/optimizer/hybrid_zero_optim.py:814, broadcast_params; a rank without arrays is left out).
void broadcast_from_owners(Stage& stage) {
  const double wide = width(stage.plan.style.dtype);
  const std::vector<Array> arrays = stage_arrays(stage);
  for (const bool expert : {false, true}) {
    const Sharing s = sharing(stage.plan, expert);
    if (s.shards == 1) {
      continue;
    }
    for (const std::vector<Array>& owned : dealt_by_size(arrays, expert, s.shards)) {
      double elements = 0;
      for (const Array& a : owned) {
        elements += static_cast<double>(a.elements);
      }
      data_collective(stage, stage.streams.compute, s.group, Collective::broadcast, elements * wide,
                      "parameters");
    }
  }
}

// Slices of all arrays are made flat, gathered at once, and copied back one by one, by as many
// kernels as there are arrays and ranks (nanotron 0.4, distributed.py:201 to 214). A rank's own
// slices are flat apart from those of all ranks, which are a tensor for each.
void gather_slices(Stage& stage) {
  const double wide = width(stage.plan.style.dtype);
  const std::vector<Array> arrays = stage_arrays(stage);
  for (const bool expert : {false, true}) {
    const Sharing s = sharing(stage.plan, expert);
    Elements elements;
    std::int64_t slices = 0;
    for (const Array& a : arrays) {
      if (a.expert == expert) {
        (expert ? elements.expert : elements.dense) += a.elements;
        slices += std::min<std::int64_t>(a.elements, s.shards);
      }
    }
    if (s.shards == 1 || elements.total() == 0) {
      continue;
    }
    const double moved = 2 * static_cast<double>(elements.total()) * wide;
    std::vector<program::BufferIndex> flat;
    for (int rank = 0; rank <= s.shards; ++rank) {
      flat.push_back(stage.builder.allocate(whole_blocks(moved / 2 / s.shards),
                                            program::MemoryCategory::communication,
                                            label_of(stage, "flat slices of parameters")));
    }
    data_kernel(stage, stage.streams.compute, moved, cost::MemoryOp::copy, "flatten parameters");
    gather_parameters(stage, elements, stage.streams.compute);
    memory_kernel(stage, moved, cost::MemoryOp::copy, program::Category::compute,
                  "copy slices of parameters", slices);
    for (const program::BufferIndex buffer : flat) {
      stage.builder.release(buffer);
    }
  }
}

void ParameterPieces::end_of_step(Stage& stage, StepEnd part) {
  if (part != StepEnd::gather || !travels(stage) || !shards_states(stage.plan) ||
      gather_beside(stage.plan)) {
    return;
  }
  if (stage.plan.parameter_gather.from_owners) {
    broadcast_from_owners(stage);
    return;
  }
  if (stage.plan.parameter_gather.by_slices) {
    gather_slices(stage);
    return;
  }
  make_pieces(stage);
  // Megatron-Core's DistributedOptimizer gathers what its chunks hold behind its own step, dense
  // and expert parameters alike (0.16.1, optimizer/distrib_optimizer.py:2619).
  const bool twice =
      stage.plan.parameter_gather.for_each_optimizer && stage.parameters.trained.expert > 0;
  for (int n = 0; n < (twice ? 2 : 1); ++n) {
    for (const Piece& piece : pieces_) {
      gather_parameters(stage, piece.elements, stage.streams.compute);
    }
  }
}

}  // namespace

std::unique_ptr<Feature> make_parameter_pieces() { return std::make_unique<ParameterPieces>(); }

}  // namespace stepcast::lower
