// Vocabulary parallelism across stages (Yeung et al., 2411.05288): every pipeline rank holds rows
// of the embedding and of the output layer and runs them for every micro-batch, passes S and T of
// the order. What travels, each over the whole pipeline:
//
//   the last stage's output to all before S; maxima, sums and target logits behind S; the partial
//   input gradients, summed at the last stage, behind S (one barrier) or T (two);
//   embedded tokens, summed at the first stage, a micro-batch ahead of its forward pass; the
//   gradient of its input to all behind its backward pass.
//
// All of it runs over one communicator, that of the pipeline's ranks, whose collectives torch runs
// one after the other on one stream (2.0.1 c10d/ProcessGroupNCCL.hpp:588 and :626, devNCCLCommMap_
// and ncclStreams_: a communicator and a stream for each set of devices of a process group), so
// that one at a time waits on the device for its peers and holds SMs. All ranks have to call them
// in one order: in that of the passes played ahead.
#include "vocabulary.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "../passes/passes_loss.h"
#include "../stage/feature_list.h"
#include "order_times.h"
#include "stepcast/base/diagnostics.h"

namespace stepcast::lower {

using model::OpKind;
using program::Category;
using program::MemoryCategory;
using schedule::Pass;
using schedule::Slot;

namespace {

bool of_vocabulary(const model::Operator& op) {
  return op.tensor == model::TensorRole::vocab_embedding ||
         op.tensor == model::TensorRole::vocab_head || op.kind == OpKind::cross_entropy ||
         op.name == kLossCast || op.name == kJoinedLogits;
}

model::OperatorGraph part_of_graph(const model::OperatorGraph& graph, bool vocabulary) {
  model::OperatorGraph out;
  std::vector<int> node(graph.operators.size(), -1);
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    if (of_vocabulary(graph.operators[i]) == vocabulary) {
      node[i] = static_cast<int>(out.operators.size());
      out.operators.push_back(graph.operators[i]);
    }
  }
  for (const auto& [from, to] : graph.edges) {
    const int producer = node[static_cast<std::size_t>(from)];
    const int consumer = node[static_cast<std::size_t>(to)];
    if (producer >= 0 && consumer >= 0) {
      out.edges.emplace_back(producer, consumer);
    }
  }
  return out;
}

}  // namespace

model::OperatorGraph without_vocabulary(const model::OperatorGraph& graph) {
  return part_of_graph(graph, false);
}

namespace {

struct Due {  // a pass or message that the order does not name
  double when = 0;
  std::size_t slot = 0;  // before which it comes
  int micro_batch = 0;
};
struct DueList {  // in the order of their times
  std::vector<Due> all;
  std::size_t done = 0;
};

// What travels over the whole pipeline. Of equal times, in this order.
enum Travel { kOutput, kStatistics, kPartialGradient, kEmbedded, kEmbeddedGradient, kTravels };

struct Turn {
  double when = 0;
  Travel travel = kOutput;
  int micro_batch = 0;
};

struct Call {
  bool made = false;  // by this rank's program
  Mark behind;        // of the compute stream; position 0: its previous step
  Mark issued;        // position 0: not yet
};

class Vocabulary final : public Feature {
 public:
  void make_units(Stage& stage) override;
  void before_step(Stage& stage) override;
  void before_slot(Stage& stage, std::size_t slot, std::size_t last) override;
  bool runs(Stage& stage, const Slot& slot) override;
  void before_pass(Stage& stage, std::size_t slot) override;
  void after_pass(Stage& stage, std::size_t slot) override;
  void after_slots(Stage& stage) override;

 private:
  void make_turns(const Stage& stage);
  // A collective of a micro-batch, behind what the compute stream was given so far. It is issued as
  // soon as all that come before it in the common order were called.
  void call(Stage& stage, Travel travel, int micro_batch);
  void issue(Stage& stage, Travel travel, int micro_batch);
  void await(Stage& stage, Travel travel, int micro_batch);
  void take_embedded_gradients(Stage& stage, int but);

  DueList embeds_, outputs_, embed_grads_;
  std::vector<Turn> turns_;                              // of all ranks alike
  std::size_t turn_ = 0;                                 // that comes next
  std::array<std::vector<Call>, kTravels> calls_;        // by micro-batch
  std::vector<program::BufferIndex> saved_, gradients_;  // by micro-batch
  std::vector<int> arriving_;  // micro-batches: gradients of embedded tokens
  program::StreamIndex stream_ = 0;
};

bool spread(const Stage& stage) { return stage.plan.order.barriers > 0; }

// Number of the last stage in model order.
int last_stage(const Stage& stage) {
  const auto& chunks = stage.plan.stages[static_cast<std::size_t>(stage.number)];
  return stage.plan.grid.pipeline * static_cast<int>(chunks.size()) - 1;
}

// This rank's rows, as a chunk behind those of the order.
void Vocabulary::make_units(Stage& stage) {
  if (!spread(stage)) {
    return;
  }
  strategy::Model rows = stage.plan.model;
  const int p = stage.plan.grid.pipeline;
  rows.vocab = (stage.plan.vocab + p - 1) / p;
  const int chunk = static_cast<int>(stage.units.size());
  stage.units.emplace_back();
  add_passes(stage,
             part_of_graph(model::build_embedding(rows, stage.plan.shard, stage.plan.style), true),
             {});
  stage.units.back().push_back(
      {Unit::Kind::embedding, chunk, -1, &stage.passes.priced.back(), false, false});
  add_passes(stage,
             part_of_graph(model::build_head(rows, stage.plan.shard, stage.plan.style), true), {});
  if (stage.plan.model.tied_embeddings) {  // both ends' rows are on the same rank
    stage.passes.priced.back().parameters.trained.dense -=
        rows.vocab / stage.plan.shard.tensor * stage.plan.model.hidden;
  }
  stage.units.back().push_back(
      {Unit::Kind::head, chunk, -1, &stage.passes.priced.back(), false, false});
}

// The order names neither embedding passes nor collectives with other ranks' passes. The order
// played ahead gives the slots before which this rank runs the former and takes part in the latter.
void Vocabulary::before_step(Stage& stage) {
  if (!spread(stage)) {
    return;
  }
  const auto& times = *stage.context.times;
  const auto& starts = times.start[stage.number];
  const auto slot_at = [&](double when) {
    return static_cast<std::size_t>(std::lower_bound(starts.begin(), starts.end(), when) -
                                    starts.begin());
  };
  // What arrives while a pass runs is received beside it, so it is posted ahead of that pass:
  // behind it, every rank would wait for the one whose pass ends last, and the stages of 2411.05288
  // do not (their passes fill a step but for its warm-up and cool-down).
  const auto received_at = [&](double when) {
    const std::size_t next = slot_at(when);
    return next > 0 && times.end[stage.number][next - 1] > when ? next - 1 : next;
  };
  const int p = stage.plan.grid.pipeline;
  const int last = p * static_cast<int>(stage.plan.stages[stage.number].size()) - 1;
  for (int rank = 0; rank < p; ++rank) {
    const auto& slots = stage.plan.order.ranks[rank];
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const Slot& s = slots[i];
      if (s.pass == Pass::vocabulary || s.pass == Pass::vocabulary_grad) {
        continue;
      }
      const int global = stage.plan.stages[rank][s.chunk].stage;
      if (global == 0 && s.pass == Pass::forward) {
        embeds_.all.push_back(
            {times.start[rank][i], slot_at(times.start[rank][i] - times.period), s.micro_batch});
      } else if (global == 0 && s.pass != Pass::weight_grad) {
        embed_grads_.all.push_back(
            {times.end[rank][i], received_at(times.end[rank][i]), s.micro_batch});
      }
      if (global == last && s.pass == Pass::forward && rank != stage.number) {
        outputs_.all.push_back(
            {times.end[rank][i], received_at(times.end[rank][i]), s.micro_batch});
      }
    }
  }
  for (auto* due : {&embeds_.all, &embed_grads_.all, &outputs_.all}) {
    std::sort(due->begin(), due->end(), [](const Due& a, const Due& b) { return a.when < b.when; });
  }
  // A pass may not wait for what is posted behind it.
  const auto& slots = slots_of(stage);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].pass == Pass::vocabulary) {
      for (Due& due : outputs_.all) {
        due.slot = due.micro_batch == slots[i].micro_batch ? std::min(due.slot, i) : due.slot;
      }
    }
  }
  const auto count = static_cast<std::size_t>(stage.plan.micro_batches);
  for (std::vector<Call>& calls : calls_) {
    calls.assign(count, {});
  }
  make_turns(stage);
  saved_.assign(count, program::kNone);
  gradients_.assign(count, program::kNone);
}

// When every rank has called a collective, had passes the times of the order played ahead.
void Vocabulary::make_turns(const Stage& stage) {
  const OrderTimes& times = *stage.context.times;
  const bool one_barrier = stage.plan.order.barriers == 1;
  const int last = last_stage(stage);
  constexpr double kNever = std::numeric_limits<double>::lowest();
  std::array<std::vector<double>, kTravels> when;
  when.fill(std::vector<double>(static_cast<std::size_t>(stage.plan.micro_batches), kNever));
  const auto called = [&](Travel travel, int micro_batch, double at) {
    when[travel][micro_batch] = std::max(when[travel][micro_batch], at);
  };
  for (int rank = 0; rank < stage.plan.grid.pipeline; ++rank) {
    const auto& slots = stage.plan.order.ranks[rank];
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const Slot& s = slots[i];
      const double end = times.end[rank][i];
      if (s.pass == Pass::vocabulary || s.pass == Pass::vocabulary_grad) {
        if (s.pass == Pass::vocabulary) {
          called(kStatistics, s.micro_batch, end);
        }
        if (one_barrier == (s.pass == Pass::vocabulary)) {
          called(kPartialGradient, s.micro_batch, end);
        }
        continue;
      }
      const int global = stage.plan.stages[rank][s.chunk].stage;
      if (s.pass == Pass::forward) {
        if (global == 0) {
          called(kEmbedded, s.micro_batch, times.start[rank][i] - times.period);
        }
        if (global == last) {
          called(kOutput, s.micro_batch, end);
        }
      } else if (s.pass != Pass::weight_grad && global == 0) {
        called(kEmbeddedGradient, s.micro_batch, end);
      }
    }
  }
  for (int travel = 0; travel < kTravels; ++travel) {
    for (int m = 0; m < stage.plan.micro_batches; ++m) {
      turns_.push_back({when[travel][m], static_cast<Travel>(travel), m});
    }
  }
  std::stable_sort(turns_.begin(), turns_.end(),
                   [](const Turn& a, const Turn& b) { return a.when < b.when; });
}

void Vocabulary::call(Stage& stage, Travel travel, int micro_batch) {
  Call& own = calls_[travel][micro_batch];
  own.made = true;
  own.behind = stage.builder.mark(stage.streams.compute);
  while (turn_ < turns_.size() && calls_[turns_[turn_].travel][turns_[turn_].micro_batch].made) {
    issue(stage, turns_[turn_].travel, turns_[turn_].micro_batch);
    ++turn_;
  }
  stage.builder.set_micro_batch(micro_batch, 0);
}

void Vocabulary::issue(Stage& stage, Travel travel, int micro_batch) {
  struct Kind {
    Role role;
    cost::Collective op;
    int count;
    const char* label;
  };
  // Statistics: maximum, sum of exponentials, the target's logit: fp32 a token.
  static constexpr std::array<Kind, kTravels> kKinds{{
      {kPipe, cost::Collective::broadcast, 1, "last output"},
      {kPipeStatistics, cost::Collective::all_reduce, 3, "softmax statistics"},
      {kPipeGradient, cost::Collective::reduce, 1, "output layer's gradient"},
      {kPipeInput, cost::Collective::reduce, 1, "embedded tokens"},
      {kPipeInputGrad, cost::Collective::broadcast, 1, "gradient of embedded tokens"},
  }};
  const Kind& kind = kKinds[travel];
  Call& made = calls_[travel][micro_batch];
  const std::int64_t tokens = stage.plan.shard.sequences * stage.plan.shard.sequence_length /
                              std::max(1, stage.plan.shard.context);
  const std::int64_t bytes = travel == kStatistics ? 4 * tokens : message_bytes(stage.plan);
  if (stream_ == 0) {
    stream_ = stage.builder.stream("whole pipeline");
  }
  stage.builder.set_micro_batch(micro_batch, 0);
  if (made.behind.position > 0) {
    stage.builder.wait(stream_, made.behind);
  } else {
    stage.builder.wait_previous_step(stream_, stage.streams.compute);
  }
  for (int n = 0; n < kind.count; ++n) {
    stage.builder.collective(
        stream_, kind.role, stage.context.passes.book->key(kind.role, kind.op, bytes),
        Category::pipeline, Category::bubble, label_of(stage, kind.label), stage.host.launch);
  }
  made.issued = stage.builder.mark(stream_);
  if (travel == kPartialGradient) {
    stage.builder.release(gradients_[micro_batch], 1U << stream_);
  }
}

void Vocabulary::await(Stage& stage, Travel travel, int micro_batch) {
  const Mark issued = calls_[travel][micro_batch].issued;
  STEPCAST_CHECK(issued.position > 0, "a pass waits for a collective that comes behind it");
  stage.builder.wait(stage.streams.compute, issued);
}

// Runs the embedding's backward pass for every micro-batch whose gradient was sent, except `but`.
void Vocabulary::take_embedded_gradients(Stage& stage, int but) {
  for (const int micro_batch : arriving_) {
    if (micro_batch != but) {
      stage.builder.set_micro_batch(micro_batch, 0);
      await(stage, kEmbeddedGradient, micro_batch);
      replay(stage, stage.units.back().front().passes->backward);
    }
  }
  std::erase_if(arriving_, [&](int one) { return one != but; });
}

// Runs what is due before a slot begins; behind the last slot, all that is left.
void Vocabulary::before_slot(Stage& stage, std::size_t slot, std::size_t) {
  if (!spread(stage)) {
    return;
  }
  const Unit& rows = stage.units.back().front();
  for (; embeds_.done < embeds_.all.size() && embeds_.all[embeds_.done].slot <= slot;
       ++embeds_.done) {
    const int micro_batch = embeds_.all[embeds_.done].micro_batch;
    stage.builder.set_micro_batch(micro_batch, 0);
    if (embeds_.done == 0) {
      lower::before_forward(stage, rows.chunk, 0);
      lower::before_forward(stage, rows.chunk, 1);
    }
    replay(stage, rows.passes->forward);
    call(stage, kEmbedded, micro_batch);
  }
  for (; outputs_.done < outputs_.all.size() && outputs_.all[outputs_.done].slot <= slot;
       ++outputs_.done) {
    call(stage, kOutput, outputs_.all[outputs_.done].micro_batch);
  }
  const bool first = stage.plan.stages[stage.number].front().stage == 0;
  for (; embed_grads_.done < embed_grads_.all.size() &&
         embed_grads_.all[embed_grads_.done].slot <= slot;
       ++embed_grads_.done) {
    const int micro_batch = embed_grads_.all[embed_grads_.done].micro_batch;
    take_embedded_gradients(stage, micro_batch);
    stage.builder.set_micro_batch(micro_batch, 0);
    if (!first) {
      arriving_.push_back(micro_batch);
      call(stage, kEmbeddedGradient, micro_batch);
    }
  }
}

bool Vocabulary::runs(Stage& stage, const Slot& slot) {
  if (slot.pass != Pass::vocabulary && slot.pass != Pass::vocabulary_grad) {
    return false;
  }
  const int m = slot.micro_batch;
  const Passes& rows = *stage.units.back().back().passes;
  const bool one_barrier = stage.plan.order.barriers == 1;
  const bool makes_gradient = one_barrier == (slot.pass == Pass::vocabulary);
  stage.builder.set_micro_batch(m, 0);
  if (makes_gradient) {
    gradients_[m] = stage.builder.allocate(
        whole_blocks(static_cast<double>(message_bytes(stage.plan))), MemoryCategory::activations,
        label_of(stage, "partial input gradient"));
  }
  if (slot.pass == Pass::vocabulary) {
    saved_[m] = stage.builder.allocate(rows.memory.saved.bytes, MemoryCategory::activations,
                                       label_of(stage, "vocabulary passes"));
    await(stage, kOutput, m);
    replay(stage, rows.forward);
    if (one_barrier) {
      replay(stage, rows.input_grad);
    }
    call(stage, kStatistics, m);
  } else {
    await(stage, kStatistics, m);
    replay(stage, one_barrier ? rows.weight_grad : rows.backward);
    stage.builder.release(saved_[m]);
  }
  if (makes_gradient) {  // with one barrier rescaled by the statistics on the way
    call(stage, kPartialGradient, m);
  }
  return true;
}

// Around a slot of the first and the last stage.
void Vocabulary::before_pass(Stage& stage, std::size_t index) {
  if (!spread(stage)) {
    return;
  }
  const Slot& slot = slots_of(stage)[index];
  const int last = last_stage(stage);
  const int global = stage.plan.stages[stage.number][slot.chunk].stage;
  if (slot.pass == Pass::forward && global == 0) {
    await(stage, kEmbedded, slot.micro_batch);
  } else if (slot.pass != Pass::forward && slot.pass != Pass::weight_grad && global == last) {
    await(stage, kPartialGradient, slot.micro_batch);
  }
}

void Vocabulary::after_pass(Stage& stage, std::size_t index) {
  if (!spread(stage)) {
    return;
  }
  const Slot& slot = slots_of(stage)[index];
  const int last = last_stage(stage);
  const int global = stage.plan.stages[stage.number][slot.chunk].stage;
  if (slot.pass == Pass::forward && global == last) {
    call(stage, kOutput, slot.micro_batch);
  } else if (slot.pass != Pass::forward && slot.pass != Pass::weight_grad && global == 0) {
    arriving_.push_back(slot.micro_batch);
    call(stage, kEmbeddedGradient, slot.micro_batch);
  }
}

void Vocabulary::after_slots(Stage& stage) {
  if (!spread(stage)) {
    return;
  }
  const std::size_t slots = slots_of(stage).size();
  before_slot(stage, slots, slots);
  const Unit& rows = stage.units.back().front();
  take_embedded_gradients(stage, -1);
  for (const std::size_t unit : {std::size_t{1}, std::size_t{0}}) {
    each<&Feature::after_backward>(stage, rows.chunk, unit);
  }
  lower::end_of_backward(stage, rows.chunk);
}

}  // namespace

std::unique_ptr<Feature> make_vocabulary() { return std::make_unique<Vocabulary>(); }

}  // namespace stepcast::lower
