// Vocabulary parallelism across stages (Yeung et al., 2411.05288): every pipeline rank holds rows
// of the embedding and of the output layer and runs them for every micro-batch, passes S and T of
// the order. What travels, each over the whole pipeline and on a stream of its own:
//
//   the last stage's output to all before S; maxima, sums and target logits behind S; the partial
//   input gradients, summed at the last stage, behind S (one barrier) or T (two);
//   embedded tokens, summed at the first stage, a micro-batch ahead of its forward pass; the
//   gradient of its input to all behind its backward pass.
#include <algorithm>

#include "stage_builder.h"

namespace stepcast::lower {

using model::OpKind;
using program::Category;
using program::MemoryCategory;
using schedule::Pass;
using schedule::Slot;

namespace {

bool of_vocabulary(const model::Operator& op) {
  return op.tensor == model::TensorRole::vocab_embedding ||
         op.tensor == model::TensorRole::vocab_head || op.kind == OpKind::cross_entropy;
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

// This rank's rows, as a chunk behind those of the order.
void StageBuilder::add_vocabulary_rows() {
  job::Model rows = job_.model;
  const int p = plan_.grid.pipeline;
  rows.vocab = (plan_.vocab + p - 1) / p;
  const int chunk = static_cast<int>(units_.size());
  units_.emplace_back();
  add_passes(part_of_graph(model::build_embedding(rows, plan_.shard, plan_.style), true), {});
  units_.back().push_back({Unit::Kind::embedding, chunk, -1, &passes_.back(), false, false});
  add_passes(part_of_graph(model::build_head(rows, plan_.shard, plan_.style), true), {});
  if (job_.model.tied_embeddings) {  // both ends' rows are on the same rank
    passes_.back().parameters -= rows.vocab / plan_.shard.tensor * job_.model.hidden;
  }
  units_.back().push_back({Unit::Kind::head, chunk, -1, &passes_.back(), false, false});
}

// Where the order leaves it open: the slots before which embedding passes run and before which this
// rank takes part in what other ranks' passes send, from the order played ahead.
void StageBuilder::plan_vocabulary() {
  auto& v = vocabulary_;
  const auto& times = *context_.times;
  const auto& starts = times.start[stage_];
  const auto slot_at = [&](double when) {
    return static_cast<std::size_t>(std::lower_bound(starts.begin(), starts.end(), when) -
                                    starts.begin());
  };
  const int p = plan_.grid.pipeline;
  const int last = p * static_cast<int>(plan_.stages[stage_].size()) - 1;
  for (int rank = 0; rank < p; ++rank) {
    const auto& slots = plan_.order.ranks[rank];
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const Slot& s = slots[i];
      if (s.pass == Pass::vocabulary || s.pass == Pass::vocabulary_grad) {
        continue;
      }
      const int stage = plan_.stages[rank][s.chunk].stage;
      if (stage == 0 && s.pass == Pass::forward) {
        v.embeds.push_back(
            {times.start[rank][i], slot_at(times.start[rank][i] - times.period), s.micro_batch});
      } else if (stage == 0 && s.pass != Pass::weight_grad) {
        v.embed_grads.push_back({times.end[rank][i], slot_at(times.end[rank][i]), s.micro_batch});
      }
      if (stage == last && s.pass == Pass::forward && rank != stage_) {
        v.outputs.push_back({times.end[rank][i], slot_at(times.end[rank][i]), s.micro_batch});
      }
    }
  }
  for (auto* due : {&v.embeds, &v.embed_grads, &v.outputs}) {
    std::sort(due->begin(), due->end(), [](const Due& a, const Due& b) { return a.when < b.when; });
  }
  // A pass may not wait for what is posted behind it.
  const auto& slots = plan_.order.ranks[stage_];
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].pass == Pass::vocabulary) {
      for (Due& due : v.outputs) {
        due.slot = due.micro_batch == slots[i].micro_batch ? std::min(due.slot, i) : due.slot;
      }
    }
  }
  const auto count = static_cast<std::size_t>(plan_.micro_batches);
  v.output_here.resize(count);
  v.statistics.resize(count);
  v.gradient_here.resize(count);
  v.embedded.resize(count);
  v.saved.assign(count, program::kNone);
  v.gradients.assign(count, program::kNone);
}

program::StreamIndex StageBuilder::pipe_stream(Role role) {
  auto& streams = vocabulary_.streams;
  streams.resize(kRoles, 0);
  if (streams[role] == 0) {
    streams[role] = b_.stream(role == kPipe             ? "last output"
                              : role == kPipeStatistics ? "softmax statistics"
                              : role == kPipeGradient   ? "output layer's gradient"
                              : role == kPipeInput      ? "embedded tokens"
                                                        : "gradient of embedded tokens");
  }
  return streams[role];
}

Mark StageBuilder::pipe_collective(Role role, cost::Collective op, std::int64_t bytes) {
  const auto stream = pipe_stream(role);
  follow_compute(stream);
  b_.collective(stream, role, context_.passes.book->key(role, op, bytes), Category::pipeline,
                Category::bubble, context_.passes.labels->id(b_.program.streams[stream].name),
                launch_);
  return b_.mark(stream);
}

void StageBuilder::send_output(int micro_batch) {
  b_.set_micro_batch(micro_batch, 0);
  vocabulary_.output_here[micro_batch] =
      pipe_collective(kPipe, cost::Collective::broadcast, message_bytes(plan_));
}

// The embedding's backward pass where its gradient is under way, but for one micro-batch.
void StageBuilder::take_embedded_gradients(int but) {
  auto& arriving = vocabulary_.arriving;
  for (const auto& [mark, micro_batch] : arriving) {
    if (micro_batch != but) {
      b_.set_micro_batch(micro_batch, 0);
      b_.wait(compute_, mark);
      replay(units_.back().front().passes->backward);
    }
  }
  std::erase_if(arriving, [&](const auto& one) { return one.second != but; });
}

// What is due before a slot begins; behind the last: what is left.
void StageBuilder::vocabulary_before(std::size_t slot) {
  auto& v = vocabulary_;
  const Unit& rows = units_.back().front();
  const std::int64_t bytes = message_bytes(plan_);
  for (; v.embeds_done < v.embeds.size() && v.embeds[v.embeds_done].slot <= slot; ++v.embeds_done) {
    const int micro_batch = v.embeds[v.embeds_done].micro_batch;
    b_.set_micro_batch(micro_batch, 0);
    if (v.embeds_done == 0) {
      before_forward(rows.chunk, 0, 0);
      before_forward(rows.chunk, 1, 0);
    }
    replay(rows.passes->forward);
    v.embedded[micro_batch] = pipe_collective(kPipeInput, cost::Collective::reduce, bytes);
  }
  for (; v.outputs_done < v.outputs.size() && v.outputs[v.outputs_done].slot <= slot;
       ++v.outputs_done) {
    send_output(v.outputs[v.outputs_done].micro_batch);
  }
  const bool first = plan_.stages[stage_].front().stage == 0;
  for (;
       v.embed_grads_done < v.embed_grads.size() && v.embed_grads[v.embed_grads_done].slot <= slot;
       ++v.embed_grads_done) {
    const int micro_batch = v.embed_grads[v.embed_grads_done].micro_batch;
    take_embedded_gradients(micro_batch);
    b_.set_micro_batch(micro_batch, 0);
    if (!first) {
      v.arriving.push_back(
          {pipe_collective(kPipeInputGrad, cost::Collective::broadcast, bytes), micro_batch});
    }
  }
}

void StageBuilder::run_vocabulary(const Slot& slot) {
  auto& v = vocabulary_;
  const int m = slot.micro_batch;
  const Passes& rows = *units_.back().back().passes;
  const bool one_barrier = plan_.order.barriers == 1;
  const std::int64_t bytes = message_bytes(plan_);
  const std::int64_t tokens =
      plan_.shard.sequences * plan_.shard.sequence_length / std::max(1, plan_.shard.context);
  const auto label = [&](const char* text) { return context_.passes.labels->id(text); };
  const bool makes_gradient = one_barrier == (slot.pass == Pass::vocabulary);
  b_.set_micro_batch(m, 0);
  if (makes_gradient) {
    v.gradients[m] = b_.allocate(round_512(static_cast<double>(bytes)), MemoryCategory::activations,
                                 label("partial input gradient"));
  }
  if (slot.pass == Pass::vocabulary) {
    v.saved[m] = b_.allocate(rows.saved, MemoryCategory::activations, label("vocabulary passes"));
    b_.wait(compute_, v.output_here[m]);
    replay(rows.forward);
    if (one_barrier) {
      replay(rows.input_grad);
    }
    for (int n = 0; n < 3; ++n) {  // maximum, sum of exponentials, the target's logit: fp32 a token
      v.statistics[m] = pipe_collective(kPipeStatistics, cost::Collective::all_reduce, 4 * tokens);
    }
  } else {
    b_.wait(compute_, v.statistics[m]);
    replay(one_barrier ? rows.weight_grad : rows.backward);
    b_.release(v.saved[m]);
  }
  if (makes_gradient) {
    if (one_barrier) {  // rescaled by the statistics on the way
      b_.wait(pipe_stream(kPipeGradient), v.statistics[m]);
    }
    v.gradient_here[m] = pipe_collective(kPipeGradient, cost::Collective::reduce, bytes);
    b_.release(v.gradients[m], 1U << v.gradient_here[m].stream);
  }
}

// Around a slot of the first and the last stage.
void StageBuilder::before_stage_ends(const Slot& slot) {
  auto& v = vocabulary_;
  const int last = plan_.grid.pipeline * static_cast<int>(plan_.stages[stage_].size()) - 1;
  const int stage = plan_.stages[stage_][slot.chunk].stage;
  if (slot.pass == Pass::forward && stage == 0) {
    b_.wait(compute_, v.embedded[slot.micro_batch]);
  } else if (slot.pass != Pass::forward && slot.pass != Pass::weight_grad && stage == last) {
    b_.wait(compute_, v.gradient_here[slot.micro_batch]);
  }
}

void StageBuilder::after_stage_ends(const Slot& slot) {
  auto& v = vocabulary_;
  const int last = plan_.grid.pipeline * static_cast<int>(plan_.stages[stage_].size()) - 1;
  const int stage = plan_.stages[stage_][slot.chunk].stage;
  if (slot.pass == Pass::forward && stage == last) {
    send_output(slot.micro_batch);
  } else if (slot.pass != Pass::forward && slot.pass != Pass::weight_grad && stage == 0) {
    b_.set_micro_batch(slot.micro_batch, 0);
    v.arriving.push_back(
        {pipe_collective(kPipeInputGrad, cost::Collective::broadcast, message_bytes(plan_)),
         slot.micro_batch});
  }
}

void StageBuilder::end_vocabulary() {
  vocabulary_before(plan_.order.ranks[stage_].size());
  const Unit& rows = units_.back().front();
  take_embedded_gradients(-1);
  for (const std::size_t unit : {std::size_t{1}, std::size_t{0}}) {
    after_backward(rows.chunk, unit, plan_.micro_batches - 1);
  }
  end_of_backward(rows.chunk, plan_.micro_batches - 1);
}

}  // namespace stepcast::lower
