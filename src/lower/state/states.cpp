// States of parameters that stand in memory from step to step, tensor by tensor.
#include "states.h"

#include <numeric>

#include "../data/buckets.h"
#include "../data/data_parallel.h"
#include "../data/parameter_formats.h"
#include "../offload/state_offload.h"
#include "../passes/passes_quantise.h"
#include "../stage/feature_list.h"
#include "making.h"

namespace stepcast::lower {

using program::kNone;
using program::MemoryCategory;
using strategy::DataComm;

StateBytes state_bytes(const strategy::Plan& plan, DataComm comm, int shard_ranks,
                       std::int64_t parameters) {
  const strategy::Precision& types = plan.precision;
  const strategy::StateLayout& layout = plan.state_layout;
  // FSDP's SHARD_GRAD_OP gathers parameters once a step from shards.
  const bool all = comm == DataComm::shard_all ||
                   (comm == DataComm::shard_grads && plan.parameter_gather.zero2_by_units);
  const auto bytes = [&](double width, bool sharded) {
    return whole_blocks(static_cast<double>(parameters) * width / (sharded ? shard_ranks : 1));
  };
  StateBytes out;
  out.parameters = bytes(bytes_per_element(types.parameters), all);
  if (layout.gradients_stand && !(all && layout.gradients_in_parameters)) {
    out.gradients = bytes(bytes_per_element(types.gradients), all || comm == DataComm::shard_grads);
  }
  out.optimizer =
      bytes(moment_bytes(plan.optimizer_step.kind, plan.optimizer_step.momentum, types.moments) +
                (types.master ? bytes_per_element(*types.master) : 0),
            true);
  return out;
}

Shares shares(const Stage& stage) {
  const strategy::Plan& plan = stage.plan;
  Shares out{plan.data_comm, plan.shard_ranks, strategy::expert_shards(plan)};
  out.bucket = plan.gradient_sync.bucket_elements;
  const bool cuts = reduce_beside(plan) || always_in_buckets(plan);
  for (int chunk = 0; cuts && chunk < static_cast<int>(stage.units.size()); ++chunk) {
    out.chunks_in_buckets += bucketed(stage, chunk) ? 1 : 0;
  }
  return out;
}

namespace {

// The optimizer steps flat parameters, unless it sees views of them as the arrays' own
// (use_orig_params).
bool steps_flat_units(const Stage& stage) {
  return wraps(stage) && stage.plan.parameter_gather.flat && stage.sharded.chunks.empty() &&
         !stage.plan.state_layout.sharded_gradients_stand &&
         stage.plan.state_layout.partition == StatePartition::by_array;
}

std::vector<Array> flat_units(const Stage& stage) {
  std::vector<Array> out;
  for (const Wrap& w : stage.sharded.wraps) {
    for (const bool expert : {false, true}) {
      Array unit;
      unit.elements = expert ? w.elements.expert : w.elements.dense;
      unit.expert = expert;
      if (unit.elements > 0) {
        out.push_back(unit);
      }
    }
  }
  return out;
}

}  // namespace

std::vector<Array> stage_arrays(const Stage& stage) {
  if (steps_flat_units(stage)) {
    return flat_units(stage);
  }
  std::vector<Array> out;
  std::int64_t dense = stage.parameters.trained.dense;
  std::int64_t expert = stage.parameters.trained.expert;
  for (std::size_t chunk = 0; chunk < stage.units.size(); ++chunk) {
    for (const Unit& u : stage.units[chunk]) {
      for (const Array& a : u.passes->arrays) {
        std::int64_t& left = a.expert ? expert : dense;
        if (a.elements <= left) {
          out.push_back(a);
          out.back().chunk = static_cast<int>(chunk);
          left -= a.elements;
        }
      }
    }
  }
  for (const bool of_experts : {false, true}) {
    Array rest;
    rest.elements = of_experts ? expert : dense;
    rest.expert = of_experts;
    if (rest.elements > 0) {
      out.push_back(rest);
    }
  }
  return out;
}

namespace {

// Frozen parameters of a stage that stand on one rank, but for those that are whole beside shards.
std::int64_t frozen_held(const Stage& stage) {
  const Parameters& p = stage.parameters;
  return wraps_units(stage.plan)
             ? static_cast<std::int64_t>(frozen_shard(stage, p.frozen_bytes, p.frozen_experts))
             : p.frozen_bytes;
}

}  // namespace

StateBytes held_states(const Stage& stage) {
  const StateTensors states = state_tensors(stage.plan, shares(stage), stage_arrays(stage));
  const auto sum = [](const std::vector<std::int64_t>& tensors) {
    return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0});
  };
  StateBytes out;
  out.parameters = sum(states.parameters) + frozen_held(stage) + stage.parameters.whole_frozen;
  out.gradients = sum(states.gradients);
  out.optimizer = sum(states.master) + sum(states.moments);
  return out;
}

double stepped_elements(const Stage& stage) {
  if (stage.plan.optimizer_step.by_owner) {
    double owned = 0;
    for (const Array& a : owned_arrays(stage.plan, stage_arrays(stage), shares(stage))) {
      owned += static_cast<double>(a.elements);
    }
    return owned;
  }
  return shard_elements(stage.plan, stage.parameters.trained);
}

double share_on_host(const Stage& stage) {
  return stage.plan.offload.whole_arrays
             ? share_on_host(stage.plan, shares(stage), stage_arrays(stage))
             : stage.plan.offload.optimizer.share();
}

std::int64_t rounded_sum(const std::vector<std::int64_t>& tensors) {
  std::int64_t bytes = 0;
  for (const std::int64_t tensor : tensors) {
    bytes += whole_blocks(static_cast<double>(tensor));
  }
  return bytes;
}

void divide(Stage& stage, program::BufferIndex buffer, const std::vector<std::int64_t>& tensors) {
  if (buffer == kNone || tensors.size() < 2) {
    return;
  }
  program::Buffer& b = stage.builder.program.buffers[buffer];
  auto& blocks = stage.builder.program.blocks;
  b.first_block = static_cast<std::uint32_t>(blocks.size());
  for (const std::int64_t tensor : tensors) {
    if (tensor > 0) {
      blocks.push_back({Bytes(tensor), b.label});
    }
  }
  b.blocks = static_cast<std::uint32_t>(blocks.size()) - b.first_block;
}

namespace {

program::BufferIndex hold(Stage& stage, const std::vector<std::int64_t>& tensors,
                          MemoryCategory category, const char* text) {
  const auto id = stage.builder.persistent(rounded_sum(tensors), category, label_of(stage, text));
  divide(stage, id, tensors);
  return id;
}

// Frozen parameters, of which the part that is not sharded stands apart.
void hold_frozen(Stage& stage, const Shards& shards, ShardBuffers& buffers) {
  const char* label = "frozen parameters";
  if (!shards.frozen.empty()) {
    buffers.frozen = hold(stage, shards.frozen, MemoryCategory::parameters, label);
    buffers.constants = hold(stage, shards.constants, MemoryCategory::parameters, label);
    return;
  }
  const double frozen_here =
      states_away(stage).parameters > 0 ? 1 - stage.plan.offload.parameters.share() : 1;
  hold(stage,
       {static_cast<std::int64_t>(frozen_here * static_cast<double>(frozen_held(stage))),
        stage.parameters.whole_frozen},
       MemoryCategory::parameters, label);
}

// What stands beside the arrays' own tensors: second copies.
void hold_more_parameters(Stage& stage) {
  std::vector<std::int64_t> whole;
  std::vector<std::int64_t> partitions;
  for (const Wrap& w : stage.sharded.wraps) {
    // DeepSpeed's small parameters are whole on every rank beside their shard.
    whole.push_back(static_cast<std::int64_t>(
        static_cast<double>(w.persistent) * standing_width(stage.plan, false) *
        (stage.plan.shard_ranks - 1) / stage.plan.shard_ranks));
    if (stage.plan.parameter_gather.partition_stands) {
      partitions.push_back(
          static_cast<std::int64_t>(whole_bytes(stage, w) / partition_ranks(stage.plan)));
    }
  }
  hold(stage, whole, MemoryCategory::parameters, "small parameters, whole");
  hold(stage, partitions, MemoryCategory::parameters, "parameters of the second partition");
}

// What of each unit's bucket is this rank's, dense and expert parameters apart; `each`: bytes of an
// element.
std::vector<std::int64_t> parts_of_units(const Stage& stage, Elements Wrap::*what, double each) {
  std::vector<std::int64_t> out;
  for (const Wrap& w : stage.sharded.wraps) {
    for (const bool expert : {false, true}) {
      const Elements& all = w.*what;
      const auto elements = static_cast<double>(expert ? all.expert : all.dense);
      out.push_back(static_cast<std::int64_t>(
          elements * each / static_cast<double>(sharing(stage.plan, expert).shards)));
    }
  }
  return out;
}

// Megatron-FSDP's shards of parameters and of main parameters: a buffer of each unit's, as long as
// its bucket's part (0.16.1, param_and_grad_buffer.py:2166, :2186). Empty: they stand otherwise.
std::vector<std::int64_t> unit_shards(const Stage& stage, double each) {
  const bool buffers = stage.plan.parameter_gather.unit_buffers && fully_sharded(stage.plan) &&
                       !stands_in_few_bits(stage.plan);
  return buffers ? parts_of_units(stage, &Wrap::elements, each) : std::vector<std::int64_t>{};
}

// Shards of gradients end where their buckets do (unit_rows.h).
void hold_padding(Stage& stage) {
  const double each =
      stage.plan.state_layout.gradients_stand ? width(stage.plan.precision.gradients) : 0;
  const std::vector<std::int64_t> padding = parts_of_units(stage, &Wrap::padding, each);
  hold(stage, padding, MemoryCategory::gradients, "padding of units");
}

// Transformer Engine casts a weight once a step, with the first micro-batch, and keeps the copy
// (module/base.py: get_weight_workspace): rows and columns. Parameters that are 8-bit themselves
// (--fp8-param-gather) are the first copy.
void hold_cast_weights(Stage& stage, const std::vector<Array>& arrays) {
  if (stage.plan.precision.weight_copies != strategy::WeightCopies::kept) {
    return;
  }
  const WeightWidths widths = weight_widths(stage.plan.precision);
  const bool parameters_are = width(stage.plan.precision.parameters) < 2;
  // Of parameters in few bits their scales.
  const double stand = parameters_are ? width(stage.plan.precision.parameters) : 0;
  const double rows = std::max(0.0, widths.rows - stand);
  const double each = rows + widths.columns;
  std::vector<std::int64_t> copies;
  for (const Array& a : arrays) {
    if (a.cast) {
      copies.push_back(static_cast<std::int64_t>(static_cast<double>(a.elements) * each));
    }
  }
  hold(stage, copies, MemoryCategory::parameters, "weights in the products' format");
}

class States final : public Feature {
 public:
  void make_states(Stage& stage) override;
};

void States::make_states(Stage& stage) {
  const std::vector<Array> arrays = stage_arrays(stage);
  const StateTensors states = state_tensors(stage.plan, shares(stage), arrays);
  const strategy::Offload& offload = stage.plan.offload;
  // What is left here of tensors of which a share is elsewhere.
  const auto rest = [](std::vector<std::int64_t> tensors, double away) {
    for (std::int64_t& bytes : tensors) {
      bytes -= static_cast<std::int64_t>(static_cast<double>(bytes) * away);
    }
    return tensors;
  };
  if (stage.plan.state_layout.pass_gradients_stand) {
    // Beside a pipeline BF16_Optimizer adds the gradients of a micro-batch once its backward pass
    // is over (update_hp_grads): until then all of them stand in 16 bits.
    hold(stage, states.parameters, MemoryCategory::gradients, "gradients of a micro-batch");
  }
  const double optimizer_away = share_on_host(stage);
  const bool makes = makes_flat_units(stage) || makes_quantised(stage);
  const Shards made = makes ? shards_of_wraps(stage) : Shards{};
  ShardBuffers buffers;
  if (!made.trained.empty()) {
    buffers.trained = hold(stage, made.trained, MemoryCategory::parameters, "parameters");
  } else if (const auto units = unit_shards(stage, standing_width(stage.plan, false));
             !units.empty()) {
    hold(stage, units, MemoryCategory::parameters, "parameters");
  } else if (stored(stage).empty()) {
    hold(
        stage,
        rest(states.parameters, states_away(stage).parameters > 0 ? offload.parameters.share() : 0),
        MemoryCategory::parameters, "parameters");
  } else {
    std::vector<std::int64_t> shards;
    for (const Chunk& c : stored(stage)) {
      if (!c.away) {
        shards.push_back(static_cast<std::int64_t>(shard_bytes(stage, c)));
      }
    }
    hold(stage, shards, MemoryCategory::parameters, "parameters");
  }
  hold_frozen(stage, made, buffers);
  if (makes) {
    note_making(stage, made, buffers);
  }
  hold_more_parameters(stage);
  hold_padding(stage);
  hold_cast_weights(stage, arrays);
  const std::uint32_t gradients =
      hold(stage,
           rest(states.gradients, states_away(stage).gradients > 0 ? offload.gradients.share() : 0),
           MemoryCategory::gradients, "gradients");
  stage.gradients.held =
      gradients == kNone ? 0 : stage.builder.program.buffers[gradients].bytes.count();
  const auto main = stage.plan.precision.master
                        ? unit_shards(stage, bytes_per_element(*stage.plan.precision.master))
                        : std::vector<std::int64_t>{};
  hold(stage, rest(main.empty() ? states.master : main, optimizer_away), MemoryCategory::optimizer,
       "master weights");
  const std::uint32_t moments = hold(stage, rest(states.moments, optimizer_away),
                                     MemoryCategory::optimizer, "optimizer states");
  // PyTorch's optimizers, apex's and Transformer Engine's make them in their first step,
  // DeepSpeed's too (0.19.8, runtime/zero/stage_1_and_2.py:945).
  if (moments != kNone) {
    stage.builder.program.buffers[moments].lazy = true;
  }
}

}  // namespace

std::unique_ptr<Feature> make_states() { return std::make_unique<States>(); }

}  // namespace stepcast::lower
