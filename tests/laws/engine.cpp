// Laws of the engine: closed forms, to the picosecond.
#include "stepcast/engine/engine.h"

#include <numeric>

#include "catch.hpp"
#include "support/worlds.h"

using namespace stepcast;
using namespace stepcast::testing;

namespace {

Timeline timeline(const World& w, engine::Options o = {}) {
  const auto result = engine::run(w, o);
  if (const auto* d = std::get_if<Deadlock>(&result)) {
    std::string text;
    for (const std::string& line : d->chain) {
      text += line + "\n";
    }
    FAIL(text);
  }
  const Timeline t = std::get<Timeline>(result);
  for (const RankResult& r : t.ranks) {
    if (t.periodic) {
      CHECK(std::accumulate(r.breakdown.begin(), r.breakdown.end(), Time{0}) == t.period);
    }
  }
  return t;
}

std::vector<std::string> deadlock(const World& w) {
  const auto result = engine::run(w, {});
  REQUIRE(std::holds_alternative<Deadlock>(result));
  return std::get<Deadlock>(result).chain;
}

bool mentions(const std::vector<std::string>& chain, const std::string& text) {
  for (const std::string& line : chain) {
    if (line.find(text) != std::string::npos) {
      return true;
    }
  }
  return false;
}

std::int64_t in(const RankResult& r, Category c) {
  return r.breakdown[static_cast<std::size_t>(c)].count();
}

}  // namespace

TEST_CASE("Kernels of one stream run back to back") {
  ProgramBuilder b({"compute"});
  b.kernel(0, 700);
  b.kernel(0, 0);
  b.kernel(0, 300, {}, 0, Category::optimizer);
  WorldBuilder w;
  w.rank(w.program(b.done()));
  const Timeline t = timeline(w.w);
  CHECK(t.period.count() == 1000);
  CHECK(t.first_step.count() == 1000);
  CHECK(t.steps == 2);
  CHECK(t.tasks == 6);
  CHECK(in(t.ranks[0], Category::compute) == 700);
  CHECK(in(t.ranks[0], Category::optimizer) == 300);
}

TEST_CASE("An activity alone reproduces its price exactly") {
  const std::int64_t fluids[] = {0, 1, 999'999'999'999, 123'456'789};
  const std::int64_t rates[] = {1, 1'000'000'007, 899'999'999'999};
  for (const std::int64_t fluid : fluids) {
    for (const std::int64_t rate : rates) {
      for (const std::int64_t latency : {std::int64_t{0}, std::int64_t{12'345}}) {
        ProgramBuilder b({"compute", "tensor"});
        b.p.communicator_roles = 1;
        const auto k = b.kernel(0, 1000);
        const auto c = b.collective(1, 0, 0, {on(0, k)});
        b.kernel(0, 10, {on(1, c)});
        WorldBuilder w;
        const auto program = w.program(b.done());
        const auto shape = w.shape({price(latency, fluid, rate)});
        const auto nic = w.resource(rate);
        const auto a = w.rank(program);
        const auto z = w.rank(program);
        w.communicator(shape, {{a, 0}, {z, 0}}, {{nic, 0, 1}});
        const Timeline t = timeline(w.w);
        CHECK(t.period.count() == 1010 + latency + fluid);
        CHECK(in(t.ranks[0], Category::tensor) == latency + fluid);
      }
    }
  }
}

TEST_CASE("Two activities share one link half and half until the first ends") {
  // On a link of 1000 B/s each reaches 1000 B/s alone, where A needs 100 ps and B 200 ps. Together,
  // A ends at 200; B then has 100 ps left.
  ProgramBuilder b({"compute", "a", "b"});
  b.p.communicator_roles = 2;
  const auto a = b.collective(1, 0, 0);
  const auto c = b.collective(2, 1, 1);
  b.kernel(0, 1, {on(1, a)});
  b.kernel(0, 1, {on(2, c)});
  // The transfers of the next step start again from zero.
  b.p.waits.push_back(on(0, 2, 1));
  b.p.tasks[0].first_wait = static_cast<std::uint32_t>(b.p.waits.size() - 1);
  b.p.tasks[0].waits = 1;
  b.p.tasks[1].first_wait = b.p.tasks[0].first_wait;
  b.p.tasks[1].waits = 1;
  WorldBuilder w;
  const auto r = w.rank(w.program(b.done()));
  const auto shape = w.shape({price(0, 100, 1000), price(0, 200, 1000)});
  const auto link = w.resource(1000);
  w.communicator(shape, {{r, 0}}, {{link, 0, 1}});
  w.communicator(shape, {{r, 1}}, {{link, 0, 1}});
  const Timeline t = timeline(w.w);
  CHECK(t.period.count() == 301);
}

TEST_CASE("Alone on a shared link an activity reproduces its price, whatever the numbers") {
  // A second user of the link, at another time, makes it a potential bottleneck.
  for (const std::int64_t rate :
       {std::int64_t{1}, std::int64_t{7}, std::int64_t{999'999'999'989}}) {
    for (const std::int64_t fluid : {std::int64_t{1}, std::int64_t{999'999'999'989}}) {
      ProgramBuilder b({"compute", "a", "b"});
      b.p.communicator_roles = 2;
      const auto a = b.collective(1, 0, 0, {on(0, 2, 1)});
      b.kernel(0, 1, {on(1, a)});
      const auto c = b.collective(2, 1, 0, {on(0, 1)});
      b.kernel(0, 1, {on(2, c)});
      WorldBuilder w;
      const auto r = w.rank(w.program(b.done()));
      const auto shape = w.shape({price(11, fluid, rate)});
      const auto link = w.resource(rate);
      w.communicator(shape, {{r, 0}}, {{link, 0, 1}});
      w.communicator(shape, {{r, 1}}, {{link, 0, 1}});
      CHECK(timeline(w.w).period.count() == 2 * (11 + fluid) + 2);
    }
  }
}

TEST_CASE("Steady 1F1B: grouped sends and receives run, lone blocking ones deadlock") {
  // Two stages, four micro-batches, all communication blocks the compute stream.
  for (const bool grouped : {true, false}) {
    WorldBuilder w;
    const ChannelRole forward = 0;
    const ChannelRole backward = 1;
    std::vector<RankId> ranks;
    for (const bool first : {true, false}) {
      ProgramBuilder b({"compute"}, first ? "first" : "last");
      b.p.channel_roles = 2;
      std::uint32_t f = 0;
      std::uint32_t g = 0;
      const auto send_or_receive = [&](bool do_forward, bool do_backward) {
        std::vector<Transfer> t;
        if (do_forward) {
          t.push_back({forward, f++, 0, first});
        }
        if (do_backward) {
          t.push_back({backward, g++, 0, !first});
        }
        if (grouped || t.size() == 1) {
          b.exchange(0, t);
        } else {
          // Each side sends first, as Megatron does without grouping.
          b.exchange(0, {first ? t[0] : t[1]});
          b.exchange(0, {first ? t[1] : t[0]});
        }
      };
      const auto compute = [&] { b.kernel(0, 1000); };
      if (first) {
        compute();
        send_or_receive(true, false);
        for (int m = 0; m < 3; ++m) {
          compute();
          send_or_receive(true, true);
          compute();
        }
        send_or_receive(false, true);
        compute();
      } else {
        send_or_receive(true, false);
        for (int m = 0; m < 4; ++m) {
          compute();
          compute();
          send_or_receive(m < 3, true);
        }
      }
      ranks.push_back(w.rank(w.program(b.done())));
    }
    const auto shape = w.shape({price(0, 10)});
    w.channel(shape, {ranks[0], forward}, {ranks[1], forward});
    w.channel(shape, {ranks[1], backward}, {ranks[0], backward});
    if (grouped) {
      const Timeline t = timeline(w.w);
      // (p - 1) (F + B) + m (F + B), and 10 per hop on the critical path: one hop forward and four
      // back and forth, none of them hidden.
      CHECK(t.period.count() == 5 * 2000 + 5 * 10);
      CHECK(in(t.ranks[0], Category::compute) == 8000);
      CHECK(in(t.ranks[0], Category::pipeline) + in(t.ranks[0], Category::bubble) ==
            t.period.count() - 8000);
    } else {
      const auto chain = deadlock(w.w);
      CHECK(mentions(chain, "the cycle closes"));
      CHECK(mentions(chain, "rank 0 stream compute"));
      CHECK(mentions(chain, "rank 1 stream compute"));
    }
  }
}

TEST_CASE("A kernel beside communication runs at the speed of its row, exactly") {
  // 1000 ps at 600000 ppm while a collective of 300 ps occupies 20 SMs: 180 are done, then 820
  // follow at full speed.
  ProgramBuilder b({"compute", "tensor"});
  b.p.communicator_roles = 1;
  b.collective(1, 0, 0, {on(0, 1, 1)});
  b.kernel(0, 1000, {}, 1);
  WorldBuilder w;
  const auto r = w.rank(w.program(b.done()));
  w.w.slowdowns = {{}, {10, {1'000'000, 800'000, 600'000}}};
  w.communicator(w.shape({price(0, 300, 1000, 25)}), {{r, 0}});
  const Timeline t = timeline(w.w);
  CHECK(t.period.count() == 300 + 820);
  CHECK(in(t.ranks[0], Category::slowdown) == 120);
  CHECK(in(t.ranks[0], Category::compute) == 1000);
}

// Two ranks that meet at each step's end. A kernel of 1000 ps beside communication, which its peer
// joins 500 ps late: 12 are SMs that it holds while it waits, 25 is all that it takes when it
// moves.
World beside_late_peer(bool exchanged) {
  WorldBuilder w;
  std::vector<RankId> ranks;
  for (const bool late : {false, true}) {
    ProgramBuilder b({"compute", "pipeline"});
    b.p.communicator_roles = 2;
    b.p.channel_roles = 2;
    const std::vector<Transfer> both = {{0, 5, 0, !late}, {1, 5, 0, late}};
    const program::Wait met = on(0, 2, 1);
    const program::Wait done = on(0, 1);
    if (!exchanged) {
      b.collective(1, 0, 0, {late ? done : met});
    } else if (!late) {
      b.exchange(1, both, {met});
    } else {
      b.exchange(1, {both[0]}, {met});
      b.exchange(1, {both[1]}, {done});
    }
    b.kernel(0, late ? 500 : 1000, {}, late ? 0 : 1);
    b.collective(0, 1, 0, {on(1, late && exchanged ? 2 : 1)});
    ranks.push_back(w.rank(w.program(b.done())));
  }
  w.w.slowdowns = {{}, {10, {1'000'000, 800'000, 600'000}}};
  program::Price moving = price(0, 300, 1000, 25);
  moving.pressure_waiting = 12;
  const auto beside = w.shape({moving});
  const auto meeting = w.shape({price(1, 0)});
  w.communicator(beside, {{ranks[0], 0}, {ranks[1], 0}});
  w.communicator(meeting, {{ranks[0], 1}, {ranks[1], 1}});
  w.channel(beside, {ranks[0], 0}, {ranks[1], 0});
  w.channel(beside, {ranks[1], 1}, {ranks[0], 1});
  return w.w;
}

TEST_CASE("Communication that waits for its peers takes what it holds, not what it will move") {
  // 500 ps at 0.8, 300 at 0.6, and the other 420 alone.
  CHECK(timeline(beside_late_peer(false)).period.count() == 1220 + 1);
  // The send ends after 300 ps at 0.6; the receive waits 200 at 0.8 and takes 300 at 0.6.
  CHECK(timeline(beside_late_peer(true)).period.count() == 300 + 200 + 300 + 480 + 1);
}

TEST_CASE("A transfer beside a kernel is capped") {
  ProgramBuilder b({"compute", "tensor"});
  b.p.communicator_roles = 1;
  const auto c = b.collective(1, 0, 0, {on(0, 2, 1)});
  b.kernel(0, 400, {}, 1);
  b.kernel(0, 1, {on(1, c)});
  WorldBuilder w;
  const auto r = w.rank(w.program(b.done()));
  w.w.slowdowns = {{}, {10, {1'000'000}}};
  w.w.transfer_speed = {1'000'000, 500'000};
  w.communicator(w.shape({price(0, 1000, 1'000'000)}), {{r, 0}});
  // 400 ps at half speed do 200; 800 are left.
  CHECK(timeline(w.w).period.count() == 1201);
}

TEST_CASE("A collective starts with its last member, and waiting is charged apart") {
  WorldBuilder w;
  std::vector<RankId> ranks;
  for (const std::int64_t work : {100, 250}) {
    ProgramBuilder b({"compute"});
    b.p.communicator_roles = 1;
    b.kernel(0, work);
    b.collective(0, 0, 0);
    ranks.push_back(w.rank(w.program(b.done())));
  }
  w.communicator(w.shape({price(7, 50)}), {{ranks[0], 0}, {ranks[1], 0}});
  const Timeline t = timeline(w.w);
  CHECK(t.period.count() == 307);
  CHECK(in(t.ranks[0], Category::stall) == 150);
  CHECK(in(t.ranks[0], Category::tensor) == 57);
  CHECK(in(t.ranks[1], Category::stall) == 0);
}

TEST_CASE("The host is the bottleneck when launches cost more than kernels") {
  ProgramBuilder b({"compute"});
  b.launch_cost = 500;
  for (int i = 0; i < 10; ++i) {
    b.kernel(0, 200);
  }
  WorldBuilder w;
  w.rank(w.program(b.done()));
  const Timeline t = timeline(w.w);
  CHECK(t.period.count() == 5000);
  CHECK(in(t.ranks[0], Category::host) == 3000);
}

TEST_CASE("No step is shorter than its host's work, however long the host still leads") {
  for (const std::int64_t kernel : {499, 490, 400}) {
    ProgramBuilder b({"compute"});
    b.launch_cost = 500;
    for (int i = 0; i < 10; ++i) {
      b.kernel(0, kernel);
    }
    WorldBuilder w;
    w.rank(w.program(b.done()));
    const Timeline t = timeline(w.w);
    CHECK(t.periodic);
    CHECK(t.period.count() == 5000);
    CHECK(in(t.ranks[0], Category::host) == 5000 - 10 * kernel);
  }
}

TEST_CASE("A sync makes the host wait for the device, then issue afresh") {
  ProgramBuilder b({"compute"});
  b.launch_cost = 10;
  b.kernel(0, 1000);
  b.sync(on(0, 1));
  b.host_work(300);
  b.kernel(0, 100);
  WorldBuilder w;
  w.rank(w.program(b.done()));
  const Timeline t = timeline(w.w);
  // After the sync: 300 of work, 10 to launch, 100 of work. The next step's kernel is issued 10
  // after that launch, so it does not have to wait.
  CHECK(t.period.count() == 1000 + 310 + 100);
  CHECK(in(t.ranks[0], Category::host) == 310);
}

TEST_CASE("Memory returns, and the ledger finds peaks") {
  ProgramBuilder b({"compute", "data"});
  const auto weights = b.buffer(1000, MemoryCategory::parameters, true);
  (void)weights;
  const auto x = b.buffer(300, MemoryCategory::activations);
  const auto y = b.buffer(500, MemoryCategory::gradients);
  b.allocate(x);
  b.kernel(0, 10);
  b.allocate(y);
  b.kernel(0, 10);
  b.kernel(1, 40, {on(0, 2)});
  b.release(x, 2);
  b.release(y);
  b.p.first_step_extra = Bytes(64);
  WorldBuilder w;
  w.rank(w.program(b.done()));
  engine::Options o;
  o.record_memory = true;
  o.record_slices = true;
  const Timeline t = timeline(w.w, o);
  CHECK(t.ranks[0].peak_allocated.count() == 1800);
  CHECK(t.ranks[0].steady.count() == 1000);
  CHECK(t.ranks[0].first_step_peak.count() == 1864);
  CHECK(t.ranks[0].at_peak[static_cast<std::size_t>(MemoryCategory::activations)].count() == 300);
  REQUIRE(t.memory[0].size() == 4);
  CHECK(t.memory[0][2].safe > t.memory[0][2].time);
  CHECK(t.slices.size() == 3);
  // Asked whether to, with all the rest.
  for (const bool wanted : {true, false}) {
    o.memory_if = [&](const Timeline& without) {
      CHECK(without.period == t.period);
      CHECK(without.memory.empty());
      return wanted;
    };
    CHECK(timeline(w.w, o).memory.size() == (wanted ? t.memory.size() : 0));
  }
}

TEST_CASE("A lone blocking send and receive each way deadlock; grouped they do not") {
  for (const bool grouped : {false, true}) {
    WorldBuilder w;
    std::vector<RankId> ranks;
    for (std::uint32_t me = 0; me < 2; ++me) {
      ProgramBuilder b({"compute"}, me == 0 ? "first" : "second");
      b.p.channel_roles = 2;
      b.kernel(0, 10);
      const Transfer send{0, 5, 0, true};
      const Transfer receive{1, 5, 0, false};
      if (grouped) {
        b.exchange(0, {send, receive});
      } else {
        b.exchange(0, {send});
        b.exchange(0, {receive});
      }
      ranks.push_back(w.rank(w.program(b.done())));
    }
    const auto shape = w.shape({price(5, 20)});
    w.channel(shape, {ranks[0], 0}, {ranks[1], 1});
    w.channel(shape, {ranks[1], 0}, {ranks[0], 1});
    if (grouped) {
      CHECK(timeline(w.w).period.count() == 35);
    } else {
      const auto chain = deadlock(w.w);
      CHECK(
          mentions(chain, "rank 0 stream compute task 1 (task) waits for rank 1 to receive key 5"));
      CHECK(
          mentions(chain, "rank 1 stream compute task 1 (task) waits for rank 0 to receive key 5"));
      CHECK(mentions(chain, "the cycle closes"));
    }
  }
}

TEST_CASE("Collectives in opposite order deadlock and are named") {
  WorldBuilder w;
  std::vector<RankId> ranks;
  for (std::uint32_t me = 0; me < 2; ++me) {
    ProgramBuilder b({"compute"});
    b.p.communicator_roles = 2;
    b.collective(0, me, 0);
    b.collective(0, 1 - me, 0);
    ranks.push_back(w.rank(w.program(b.done())));
  }
  const auto shape = w.shape({price(5, 20)});
  w.communicator(shape, {{ranks[0], 0}, {ranks[1], 0}});
  w.communicator(shape, {{ranks[0], 1}, {ranks[1], 1}});
  const auto chain = deadlock(w.w);
  CHECK(mentions(chain, "members of communicator 0"));
  CHECK(mentions(chain, "members of communicator 1"));
  CHECK(mentions(chain, "the cycle closes"));
}

TEST_CASE("Keys and prices must agree") {
  WorldBuilder w;
  std::vector<RankId> ranks;
  for (std::uint32_t me = 0; me < 2; ++me) {
    ProgramBuilder b({"compute"});
    b.p.channel_roles = 1;
    b.exchange(0, {{0, me, 0, me == 0}});
    ranks.push_back(w.rank(w.program(b.done())));
  }
  w.channel(w.shape({price(5, 20)}), {ranks[0], 0}, {ranks[1], 0});
  CHECK(mentions(deadlock(w.w), "key"));
}

TEST_CASE("A task that waits for its own stream's future is a deadlock") {
  ProgramBuilder b({"compute", "data"});
  b.kernel(0, 10, {on(1, 1)});
  b.kernel(1, 10, {on(0, 1)});
  WorldBuilder w;
  w.rank(w.program(b.done()));
  const auto chain = deadlock(w.w);
  CHECK(mentions(chain, "waits for position 1 of stream data"));
  CHECK(mentions(chain, "waits for position 1 of stream compute"));
}

TEST_CASE("Malformed programs are refused by name") {
  ProgramBuilder b({"compute"}, "odd");
  b.kernel(0, 10, {on(0, 7)});
  WorldBuilder w;
  w.rank(w.program(b.done()));
  CHECK_THROWS_WITH(engine::run(w.w, {}), ContainsSubstring("program odd: a wait for position 7"));
}
