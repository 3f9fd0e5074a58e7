// Messages of interleaved stages that block the compute stream.
#include "catch.hpp"
#include "stepcast/lower/exchanges.h"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Four messages go together in the steady phase", "[lower]") {
  strategy::Plan plan = small_plan({.layers = 4,
                                    .pipeline = 2,
                                    .chunks = 2,
                                    .micro_batches = 4,
                                    .schedule = "interleaved_1f1b"});
  plan.stage_transport.holds_compute = true;
  const Traced traced(plan);
  CHECK(traced.of({"send", "receive"}) == R"(compute: send
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: receive
)");
}

TEST_CASE("Exchanges name the slots whose results they send and whose inputs they bring",
          "[lower]") {
  strategy::Plan plan = small_plan({.layers = 4,
                                    .pipeline = 2,
                                    .chunks = 2,
                                    .micro_batches = 2,
                                    .schedule = "interleaved_1f1b"});
  std::string all;
  for (int rank = 0; rank < 2; ++rank) {
    for (const Exchange& e : interleaved_exchanges(plan, rank)) {
      all += std::to_string(rank) + " behind " + std::to_string(e.behind) + ":";
      for (const auto& [slot, sends] : e.messages) {
        all += (sends ? " send " : " receive ") + std::to_string(slot);
      }
      all += "\n";
    }
  }
  // Rank 0 has no steady phase, rank 1 two pairs of it; the last of the four stages sends nothing
  // on.
  CHECK(all == R"(0 behind 1: send 0
0 behind 2: send 1 receive 2
0 behind 3: send 2 receive 3
0 behind 4: send 3
0 behind 4: receive 4
0 behind 5: send 4 receive 5
0 behind 6: send 5 receive 6
0 behind 7: receive 7
1 behind 0: receive 0
1 behind 1: send 0 receive 1
1 behind 2: send 1 receive 2
1 behind 4: receive 4 send 3
1 behind 6: send 5 receive 6
1 behind 7: send 6 receive 7
1 behind 8: send 7
)");
}

TEST_CASE("The last of interleaved stages begins with two receives", "[lower]") {
  strategy::Plan plan = small_plan({.layers = 4,
                                    .pipeline = 2,
                                    .chunks = 2,
                                    .micro_batches = 4,
                                    .schedule = "interleaved_1f1b"});
  plan.stage_transport.holds_compute = true;
  const Traced traced(plan, 1);
  CHECK(traced.of({"send", "receive"}) == R"(compute: receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send
)");
}

}  // namespace stepcast::lower::test
