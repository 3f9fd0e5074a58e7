// LAW  What an eager loss holds, in bytes a logit of one rank's whole vocabulary V, on t tensor
//      ranks: gathered 4 V kept, 6 V beside them forward (16-bit logits, their cast), 8 V backward;
//      DTensor's loss parallel 4 V/t kept, 8 V/t forward, 12 V/t backward (with the 16-bit
//      gradient); in 16 bits without autocast 2 V kept, 2 V forward, 4 V backward. A list of chunks
//      of 128 positions that Fabric widens: 4 V kept in any precision, beside them numbers of one
//      chunk. Liger's head and loss in one function keep both gradients and no logits, of which a
//      chunk of tokens takes no more than twice what its input does.
#include "catch.hpp"
#include "lower/passes/passes_loss.h"
#include "stepcast/config/config.h"
#include "stepcast/strategy/plan.h"

using namespace stepcast;

namespace {

constexpr double kTokens = 1024;
constexpr double kVocab = 51200;

struct PerLogit {
  double kept = 0, forward = 0, backward = 0, gradient = 0;
};

PerLogit loss_of(const std::string& system, const std::string& precision, int tensor,
                 const std::string& loss) {
  const std::string text =
      "model: {layers: 4, hidden: 1024, heads: 16, ffn: 4096, vocab: 51200, max_positions: 1024, "
      "tied_embeddings: false}\ncluster: {use: dgx-a100, nodes: 1}\nsystem: " +
      system + "\nworkload: {sequence_length: 1024, global_batch: 8, precision: " + precision +
      "}\nparallelism: {tensor: " + std::to_string(tensor) + "}\nkernels: {loss: " + loss + "}\n";
  INFO(text);
  const auto resolved = strategy::resolve(config::parse(text, "job").job);
  REQUIRE(std::holds_alternative<strategy::Plan>(resolved));
  const auto& plan = std::get<strategy::Plan>(resolved);
  const auto head = lower::with_loss(model::build_head(plan.model, plan.shard, plan.style), plan);
  const auto& op = head.operators.back();
  REQUIRE(op.kind == model::OpKind::cross_entropy);
  const double logits = kTokens * kVocab;
  PerLogit out;
  for (const auto& saved : op.saved) {
    out.kept += static_cast<double>(saved.bytes.count()) / logits;
  }
  out.forward = static_cast<double>(op.forward_temporary.count()) / logits;
  out.backward = static_cast<double>(op.backward_temporary.count()) / logits;
  // Of its input: the output projection's result, 16-bit logits of this rank.
  out.gradient = 2.0 / tensor;
  return out;
}

}  // namespace

TEST_CASE("Tensor ranks that gather logits hold those of the whole vocabulary", "[laws]") {
  for (const int tensor : {2, 4}) {
    const PerLogit p = loss_of("megatron-lm-2023", "bf16", tensor, "eager");
    CHECK(p.kept == Approx(4));
    // The joined logits and their cast are operators of their own.
    CHECK(p.forward == Approx(0));
    // The likelihood's gradient, beside log-softmax's, which the cast reads.
    CHECK(p.backward == Approx(4));
  }
}

TEST_CASE("A loss over DTensors stays sharded, at four fp32 numbers a logit", "[laws]") {
  for (const int tensor : {2, 4}) {
    const PerLogit p = loss_of("torchtitan", "bf16", tensor, "eager");
    CHECK(p.kept == Approx(4.0 / tensor));
    // The shifted logits; the cast is an operator of its own, and the 16-bit logits that the loop
    // holds are its tensor. Back, zeros with the likelihood's gradient and exponentials, beside the
    // gradient of the cast.
    CHECK(p.forward == Approx(4.0 / tensor));
    CHECK(p.backward == Approx(8.0 / tensor));
  }
}

TEST_CASE("Without autocast a loss stands in the logits' format", "[laws]") {
  const PerLogit half = loss_of("transformers-deepspeed", "fp16", 1, "eager");
  CHECK(half.kept == Approx(2));
  CHECK(half.forward == Approx(2));
  CHECK(half.backward + half.gradient == Approx(4));
  const PerLogit cast = loss_of("pytorch-ddp", "fp16", 1, "eager");  // autocast's fp32 list
  CHECK(cast.kept == Approx(4));
  // The cast is an operator of its own, and the 16-bit logits that the loop holds are its tensor;
  // back, the likelihood's gradient, beside that of the cast.
  CHECK(cast.forward == Approx(0));
  CHECK(cast.backward == Approx(4));
}

TEST_CASE("Losses that shard the vocabulary themselves are left as they are", "[laws]") {
  for (const char* kernel :
       {"vocab_parallel", "vocab_parallel_fused"}) {  // which is the same, compiled
    const PerLogit p = loss_of("megatron-lm-2023", "bf16", 4, kernel);
    CHECK(p.kept == Approx(1));
    CHECK(p.forward == Approx(0));
  }
}

TEST_CASE("A list of chunks stands in fp32 beside what its losses keep", "[laws]") {
  constexpr double kChunks = kTokens / 128;
  for (const char* precision : {"bf16", "fp16"}) {
    const PerLogit p = loss_of("litgpt", precision, 1, "chunk_list");
    CHECK(p.kept ==
          Approx(4));  // and 4 V that Fabric widened stand until the next (held_output.cpp)
    CHECK(p.forward == Approx(4 / kChunks));
    CHECK(p.backward == Approx(8 / kChunks));
  }
}

TEST_CASE("A head called for chunks keeps each chunk's log-softmax, and sums weight gradients",
          "[laws]") {
  const std::string text =
      "model: {layers: 4, hidden: 1024, heads: 16, ffn: 4096, vocab: 51200, max_positions: 1024, "
      "tied_embeddings: false}\ncluster: {use: dgx-a100, nodes: 1}\nsystem: torchtune\nworkload: "
      "{sequence_length: 1024, global_batch: 8, precision: bf16}\nparallelism: {sharding: fsdp}\n";
  const auto resolved = strategy::resolve(config::parse(text, "job").job);
  REQUIRE(std::holds_alternative<strategy::Plan>(resolved));
  const auto& plan = std::get<strategy::Plan>(resolved);
  const auto head = lower::with_loss(model::build_head(plan.model, plan.shard, plan.style), plan);
  double flops = 0, parameters = 0;
  std::vector<double> kept, likelihood, beside;
  for (const model::Operator& op : head.operators) {
    if (op.kind == model::OpKind::cross_entropy) {
      REQUIRE(op.saved.size() == 1);
      kept.push_back(static_cast<double>(op.saved.front().bytes.count()));
      likelihood.push_back(static_cast<double>(op.backward_temporary.count()));
    } else if (op.tensor == model::TensorRole::vocab_head) {
      flops += op.forward.count();
      parameters += static_cast<double>(op.parameters);
      beside.push_back(static_cast<double>(op.backward_temporary.count()));
    }
  }
  // Of eight chunks; one has the weight, and each makes a gradient of it.
  CHECK(kept == std::vector<double>(8, 4 * kTokens / 8 * kVocab));
  CHECK(likelihood == kept);
  CHECK(beside == std::vector<double>(8, 2 * 1024 * kVocab));
  CHECK(flops == Approx(2 * kTokens * 1024 * kVocab));
  CHECK(parameters == Approx(1024 * kVocab));
}

TEST_CASE("loss: Liger's head and loss keep their gradients and no more logits than their input") {
  for (const int tokens : {64, 1000, 4096, 16384}) {
    for (const int vocab : {1000, 32000, 51200, 256000}) {
      const std::string text =
          "model: {layers: 4, hidden: 1024, heads: 16, ffn: 4096, vocab: " + std::to_string(vocab) +
          ", positions: rotary, norm: rms, gated_mlp: true}\ncluster: {use: dgx-a100, nodes: 1}\n"
          "system: transformers-fsdp2\nworkload: {sequence_length: " +
          std::to_string(tokens) +
          ", global_batch: 8}\nparallelism: {sharding: fsdp}\nkernels: {liger: true}\n";
      INFO(text);
      const auto resolved = strategy::resolve(config::parse(text, "job").job);
      REQUIRE(std::holds_alternative<strategy::Plan>(resolved));
      const auto& plan = std::get<strategy::Plan>(resolved);
      const auto head =
          lower::with_loss(model::build_head(plan.model, plan.shard, plan.style), plan);
      const auto& loss = head.operators.back();
      const auto& project = head.operators[head.operators.size() - 2];
      REQUIRE(loss.kind == model::OpKind::cross_entropy);
      std::int64_t kept = 0;
      for (const auto& saved : loss.saved) {
        kept += saved.bytes.count();
      }
      CHECK(kept == 2 * (std::int64_t{tokens} * 1024 + std::int64_t{vocab} * 1024));
      CHECK(project.saved.empty());
      const std::int64_t chunk = project.forward_output.count();
      CHECK(chunk <= 2 * 2 * (std::int64_t{tokens} * 1024 + vocab));
      CHECK(chunk * project.row_parts >= 2 * std::int64_t{tokens} * vocab);
    }
  }
}
