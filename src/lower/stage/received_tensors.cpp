// Tensors that a stage of torch.distributed.pipelining has received or sends, beyond the passes
// that read or make them. Up to torch 2.14 each micro-batch has a buffer of its own, for its
// activation and for its gradient, from the first step on (2.14.1,
// distributed/pipelining/stage.py:1526, :1694). Later each is made for its receive (2.15,
// _recv_buffers.py:54) and taken over by the pass, but losses, which the schedule keeps to its end
// (schedules.py:328), refer to graphs that end in the last stage's.
#include <algorithm>

#include "../pipeline/pipeline.h"
#include "feature_list.h"

namespace stepcast::lower {
namespace {

using program::kNone;
using program::MemoryCategory;
using schedule::Pass;

class ReceivedTensors final : public Feature {
 public:
  void make_states(Stage& stage) override;
  void before_unit(Stage& stage, const Run& run) override;
  void backward_ended(Stage& stage, int chunk) override;
  void after_pass(Stage& stage, std::size_t slot) override;
  void after_slots(Stage& stage) override;

 private:
  struct Standing {
    std::vector<program::BufferIndex> buffers;  // one a micro-batch
    int read = 0;                               // passes begun: theirs is counted with the pass
    int given_back = 0;
  };
  struct Chunk {
    std::int64_t activation = 0;  // bytes that it receives for each micro-batch, and losses hold
    Standing activations, gradients;
    std::int64_t result = 0, gradient = 0;      // bytes that it sends and holds
    std::vector<program::BufferIndex> results;  // by micro-batch
  };

  static void take(Stage& stage, Standing& of);
  static void give_back(Stage& stage, Standing& of);

  std::vector<Chunk> chunks_;
  std::vector<program::BufferIndex> held_;  // to the end of the schedule
};

void ReceivedTensors::make_states(Stage& stage) {
  chunks_.assign(stage.units.size(), {});
  const StageReceives mode = stage.plan.stage_transport.receives;
  const auto& places = stage.plan.stages[stage.number];
  if (stage.plan.grid.pipeline == 1 || mode == StageReceives::transient ||
      places.size() != chunks_.size()) {
    return;
  }
  const int last = stage.plan.grid.pipeline * static_cast<int>(places.size()) - 1;
  const auto on_this_rank = [&](int number) {
    return std::any_of(places.begin(), places.end(),
                       [&](const auto& place) { return place.stage == number; });
  };
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const int here = places[c].stage;
    const bool standing = mode == StageReceives::standing;
    if (here < last && !on_this_rank(here + 1) && (standing || places.size() > 1)) {
      chunks_[c].result = message_bytes_at(stage.plan, here + 1);
      chunks_[c].results.assign(static_cast<std::size_t>(stage.plan.micro_batches), kNone);
    }
    if (here > 0 && !on_this_rank(here - 1) && !standing && places.size() > 1) {
      chunks_[c].gradient = gradient_message_bytes_at(stage.plan, here);
    }
    if (mode == StageReceives::held_by_losses) {
      chunks_[c].activation = here == last ? message_bytes_at(stage.plan, here) : 0;
      continue;
    }
    const auto declare = [&](Standing& of, std::int64_t bytes) {
      for (int n = 0; n < stage.plan.micro_batches; ++n) {
        of.buffers.push_back(stage.builder.declare(whole_blocks(bytes), MemoryCategory::activations,
                                                   label_of(stage, "receive buffer")));
      }
    };
    if (here > 0) {
      declare(chunks_[c].activations, message_bytes_at(stage.plan, here));
    }
    if (here < last) {
      declare(chunks_[c].gradients, gradient_message_bytes_at(stage.plan, here + 1));
    }
  }
}

// What a pass reads is among its own tensors while it runs.
void ReceivedTensors::take(Stage& stage, Standing& of) {
  if (of.read < static_cast<int>(of.buffers.size())) {
    stage.builder.release(of.buffers[static_cast<std::size_t>(of.read++)]);
  }
}

void ReceivedTensors::give_back(Stage& stage, Standing& of) {
  if (of.given_back < of.read) {
    stage.builder.allocate(of.buffers[static_cast<std::size_t>(of.given_back++)]);
  }
}

void ReceivedTensors::before_unit(Stage& stage, const Run& run) {
  Chunk& chunk = chunks_[static_cast<std::size_t>(run.slot.chunk)];
  const std::size_t last = stage.units[static_cast<std::size_t>(run.slot.chunk)].size() - 1;
  if (run.slot.pass == Pass::forward && run.unit == 0) {
    take(stage, chunk.activations);
  } else if (run.slot.pass != Pass::forward && run.slot.pass != Pass::weight_grad &&
             run.unit == last) {
    take(stage, chunk.gradients);
  }
}

void ReceivedTensors::backward_ended(Stage& stage, int chunk) {
  Chunk& c = chunks_[static_cast<std::size_t>(chunk)];
  give_back(stage, c.activations);
  give_back(stage, c.gradients);
  if (c.activation > 0) {
    held_.push_back(stage.builder.allocate(whole_blocks(c.activation), MemoryCategory::activations,
                                           label_of(stage, "received activation")));
  }
}

void ReceivedTensors::after_pass(Stage& stage, std::size_t slot) {
  const schedule::Slot& s = slots_of(stage)[slot];
  Chunk& chunk = chunks_[static_cast<std::size_t>(s.chunk)];
  if (s.pass == Pass::weight_grad) {
    return;
  }
  if (chunk.result > 0) {
    program::BufferIndex& result = chunk.results[static_cast<std::size_t>(s.micro_batch)];
    if (s.pass == Pass::forward) {
      result = stage.builder.allocate(whole_blocks(chunk.result), MemoryCategory::activations,
                                      label_of(stage, "result of a stage"));
    } else {
      stage.builder.release(result);
      result = kNone;
    }
  }
  if (s.pass != Pass::forward && chunk.gradient > 0) {
    held_.push_back(stage.builder.allocate(whole_blocks(chunk.gradient),
                                           MemoryCategory::activations,
                                           label_of(stage, "gradient that is sent")));
  }
}

void ReceivedTensors::after_slots(Stage& stage) {
  for (const program::BufferIndex buffer : held_) {
    stage.builder.release(buffer);
  }
  held_.clear();
}

}  // namespace

std::unique_ptr<Feature> make_received_tensors() { return std::make_unique<ReceivedTensors>(); }

}  // namespace stepcast::lower
