// The loss over tensor ranks.
#include "lower/passes/passes_loss.h"

#include "catch.hpp"
#include "small_unit.h"

using namespace stepcast;
using test::SmallUnit;

namespace {

SmallUnit head(EagerLoss form) {
  SmallUnit unit;
  model::Operator& loss = unit.add("loss", model::OpKind::cross_entropy);
  loss.module = model::Module::head;
  loss.forward_kernels = loss.backward_kernels = 3;  // the cast of logits is one of them
  loss.forward_moved = loss.backward_moved = Bytes(1 << 20);
  loss.saved.push_back({"log_softmax", Bytes(4 * 128 * 100), 1});
  unit.plan.vocab = 200;
  unit.plan.shard.tensor = 2;
  unit.plan.loss_form.eager = form;
  return unit;
}

}  // namespace

TEST_CASE("A vocabulary-parallel loss sums three numbers a token", "[lower]") {
  SmallUnit unit = head(EagerLoss::as_built);
  CHECK(unit.forward() == "loss, [loss all_reduce], [loss all_reduce], [loss all_reduce]");
  CHECK(unit.backward() == "loss backward");
  REQUIRE(unit.book.entries(lower::kTensor).size() == 1);
  CHECK(unit.book.entries(lower::kTensor).front().bytes == 4 * 128);
}

TEST_CASE("A loss of the whole vocabulary gathers logits before", "[lower]") {
  SmallUnit unit = head(EagerLoss::gathers_logits);
  unit.graph = lower::with_loss(unit.graph, unit.plan);
  CHECK(unit.forward() == "[logits all_gather], joined_logits, loss_cast, loss");
  REQUIRE(unit.book.entries(lower::kTensor).size() == 1);
  CHECK(unit.book.entries(lower::kTensor).front().bytes == 2 * 128 * 200);
}

TEST_CASE("One tensor rank exchanges nothing", "[lower]") {
  SmallUnit unit = head(EagerLoss::as_built);
  unit.plan.shard.tensor = 1;
  CHECK(unit.forward() == "loss");
}

TEST_CASE("What a loss keeps follows its form", "[lower]") {
  const auto kept = [](EagerLoss form) {
    const SmallUnit unit = head(form);
    return lower::with_loss(unit.graph, unit.plan).operators.back().saved.front().bytes.count();
  };
  constexpr std::int64_t kLogits = 128 * 100;
  CHECK(kept(EagerLoss::as_built) == 4 * kLogits);
  CHECK(kept(EagerLoss::gathers_logits) == 2 * 4 * kLogits);
  CHECK(kept(EagerLoss::shards_logits) == 4 * kLogits);
  CHECK(kept(EagerLoss::narrow_under_fp16) == 2 * kLogits);
}

TEST_CASE("Logits without the last position's are a copy where there are several sequences",
          "[lower]") {
  SmallUnit unit = head(EagerLoss::as_built);
  unit.plan.loss_form.kernel = LossKernel::eager;
  const auto copied = [&] {
    return lower::with_loss(unit.graph, unit.plan).operators.back().forward_temporary.count();
  };
  unit.plan.shard.sequences = 2;
  CHECK(copied() == 0);
  unit.plan.loss_form.shifts = true;
  CHECK(copied() == 4 * 128 * 100);
  unit.plan.shard.sequences = 1;
  CHECK(copied() == 0);
}

// torch/distributed/tensor/parallel/loss.py, _nll_loss_and_log_softmax_backward: beside what is
// kept, zeros, exponentials and the result, all fp32; the result is cast by an operator of its own.
TEST_CASE("Loss parallel hands an fp32 gradient to the cast of the logits", "[lower]") {
  const SmallUnit unit = head(EagerLoss::shards_logits);
  const model::OperatorGraph graph = lower::with_loss(unit.graph, unit.plan);
  constexpr std::int64_t kLogits = 128 * 100;
  REQUIRE(graph.operators.size() == 2);
  CHECK(graph.operators.front().name == lower::kLossCast);
  CHECK(graph.operators.front().forward_output.count() == 4 * kLogits);
  const model::Operator& loss = graph.operators.back();
  CHECK(loss.backward_temporary.count() == 2 * 4 * kLogits);
  CHECK(loss.largest_temporary.count() == 4 * kLogits);
}

// TRL's heads, whose functions make logits again in the backward pass.
TEST_CASE("What is remade runs again ahead of what reads it, or of the last of its kind",
          "[lower]") {
  SmallUnit unit;
  unit.linear("output", model::TensorRole::none, 100, 16).remade = true;
  unit.add("loss", model::OpKind::cross_entropy);
  CHECK(unit.forward() == "output, loss");
  CHECK(unit.backward() == "output, loss backward, output dgrad, output wgrad");
  CHECK(unit.build().redone_flops == unit.graph.operators.front().forward.count());
  unit.graph.operators.back().remade = true;
  CHECK(unit.backward() == "output, loss, loss backward, output dgrad, output wgrad");
}

TEST_CASE("Logits that a compiled graph returns have zeros for a gradient", "[lower]") {
  SmallUnit unit = head(EagerLoss::as_built);
  unit.plan.loss_form.kernel = LossKernel::eager;
  unit.plan.style.compiled = unit.plan.style.compiled_loss = true;
  model::Operator& kept = unit.graph.operators.back();
  kept.saved.front().bytes = Bytes(2 * 128 * 100);
  kept.backward_temporary = Bytes(0);
  const auto loss = [&] { return lower::with_loss(unit.graph, unit.plan).operators.back(); };
  CHECK(loss().backward_temporary == Bytes(0));
  unit.plan.loss_form.returns_logits = true;
  unit.plan.parameter_gather.by_units = true;
  CHECK(loss().backward_temporary == Bytes(2 * 128 * 100));
  CHECK(loss().gradient == model::Operator::Gradient::own);
  // Without units the logits take their gradient, and Accelerate's fp32 copy is what is returned.
  unit.plan.parameter_gather.by_units = false;
  unit.plan.loss_form.widens_returned = true;
  CHECK(loss().backward_temporary == Bytes(4 * 128 * 100));
  CHECK(loss().forward_temporary == Bytes(4 * 128 * 100));
  CHECK(loss().gradient == model::Operator::Gradient::in_kept);
}

TEST_CASE("Metrics of logits stand beside the loss where they are copies", "[lower]") {
  SmallUnit unit = head(EagerLoss::as_built);
  unit.plan.shard.tensor = 1;
  unit.plan.loss_form.kernel = LossKernel::eager;
  const auto loss = [&](LogitMetrics metrics, int sequences) {
    unit.plan.loss_form.logit_metrics = metrics;
    unit.plan.shard.sequences = sequences;
    return lower::with_loss(unit.graph, unit.plan).operators.back();
  };
  const std::int64_t logits = 64 * unit.plan.vocab;
  const model::Operator none = loss(LogitMetrics::none, 1);
  const model::Operator accuracy = loss(LogitMetrics::accuracy, 1);
  CHECK(accuracy.forward_moved.count() == none.forward_moved.count() + 2 * logits);
  CHECK(accuracy.forward_temporary == none.forward_temporary);
  // Log-softmax, exponentials, their product, its sum: 8 passes over the logits.
  CHECK(loss(LogitMetrics::entropy, 1).forward_moved.count() ==
        none.forward_moved.count() + 9 * 2 * logits);
  // Returned in fp32, and copied without each last position, where the loss's own fp32 copy and the
  // 16-bit logits have gone.
  unit.plan.style.autocast = true;
  CHECK(loss(LogitMetrics::accuracy, 2).forward_temporary.count() == (4 + 4 - 4 - 2) * 2 * logits);
}
