// Every optimizer on jobs drawn at random: the folded equals the full simulation, steps release
// their memory, and time grows with the bytes that an optimizer moves.
#include <fmt/format.h>

#include <random>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"
#include "support/lowered.h"

using namespace stepcast;

TEST_CASE("Optimizers fold, and give their memory back", "[agree]") {
  const char* optimizers[] = {"adamw",      "sgd, momentum: 0.9", "adamw_8bit", "adamw_8bit_paged",
                              "adamw_bf16", "adafactor",          "lion",       "muon"};
  const std::pair<const char*, const char*> systems[] = {
      {"megatron-lm", "sharding: none"},    {"megatron-lm", "sharding: zero1"},
      {"pytorch-fsdp2", "sharding: zero3"}, {"pytorch-ddp", "sharding: none"},
      {"deepspeed", "sharding: zero1"},     {"deepspeed", "sharding: zero2"},
      {"deepspeed", "sharding: zero3"},
  };
  std::mt19937 draw(7);
  for (const char* optimizer : optimizers) {
    for (const auto& [system, sharding] : systems) {
      const bool megatron = std::string(system) == "megatron-lm";
      const int tensor = megatron ? 1 << draw() % 3 : 1;
      const int pipeline = megatron ? 1 << draw() % 2 : 1;
      const int layers = 2 * pipeline * static_cast<int>(1 + draw() % 2);
      const std::string text = fmt::format(
          "model: {{layers: {}, hidden: 1024, heads: 16, kv_heads: 4, head_dim: 64, ffn: {}, "
          "vocab: 32000, gated_mlp: true, norm: rms, positions: rotary, tied_embeddings: "
          "{}}}\ncluster: {{use: dgx-h100, nodes: 2}}\nsystem: {}\nworkload: {{sequence_length: "
          "1024, global_batch: 64}}\nparallelism: {{tensor: {}, pipeline: {}, {}}}\nmemory: "
          "{{optimizer: {}}}\n",
          layers, 1024 * (2 + draw() % 3), draw() % 2 == 0, system, tensor, pipeline, sharding,
          optimizer);
      INFO(text);
      const support::Lowered l(text, true);
      const auto folded = lower::fold(l.world);
      REQUIRE(folded);
      const auto slow = std::get<program::Timeline>(engine::run(l.world));
      const auto fast = std::get<program::Timeline>(engine::run(folded->world));
      CHECK(slow.period == fast.period);
      for (std::size_t r = 0; r < l.world.ranks.size(); ++r) {
        REQUIRE(slow.ranks[r].peak_allocated == fast.ranks[folded->class_of[r]].peak_allocated);
        REQUIRE(slow.ranks[r].steady == fast.ranks[folded->class_of[r]].steady);
        CHECK(slow.ranks[r].peak_allocated >= slow.ranks[r].steady);
      }
      for (const program::Program& p : l.world.programs) {
        std::vector<int> balance(p.buffers.size(), 0);
        for (const auto& op : p.host) {
          balance[op.buffer] += op.kind == program::HostKind::allocate  ? 1
                                : op.kind == program::HostKind::release ? -1
                                                                        : 0;
        }
        for (const int b : balance) {
          CHECK(b == 0);
        }
      }
    }
  }
}
