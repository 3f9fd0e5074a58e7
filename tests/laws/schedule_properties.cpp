// Properties of every schedule at every size and for any pass times, checked without the player's
// own rules: each pass runs once, after its inputs, and the step is no shorter than its longest
// chain or any rank's work. Also the promises of the papers on each schedule.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <tuple>

#include "catch.hpp"
#include "played.h"
#include "stepcast/schedule/schedule.h"

using namespace stepcast;
using namespace stepcast::schedule;

namespace {

struct Trial {
  Request request;
  Times times;
};

// Every schedule of the table at a random legal size, with random times.
Trial random_trial(const Entry& entry, std::mt19937& random) {
  const auto upto = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  Trial trial;
  Times& times = trial.times;
  times = {upto(1, 64) / 8.0, upto(1, 64) / 8.0, upto(0, 64) / 8.0,
           upto(0, 3) / 4.0,  upto(0, 4) / 4.0,  upto(0, 4) / 4.0};
  Request& request = trial.request;
  request.stages = upto(1, 9);
  request.micro_batches = upto(1, 24);
  request.forward = times.forward;
  request.input_grad = times.input_grad;
  request.weight_grad = times.weight_grad;
  request.comm = times.comm;
  const std::string_view name = entry.name;
  if (entry.takes_warmup) {
    request.extra_warmup = upto(0, 2);
  }
  if (entry.chunks == 0) {
    request.chunks = upto(1, 4);
  }
  if (entry.takes_vocabulary) {
    request.vocabulary = std::array{"", "vocab_1", "vocab_2"}[static_cast<std::size_t>(upto(0, 2))];
  }
  if (entry.takes_memory_limit) {
    request.memory_limit = upto(request.stages, 3 * request.stages) /
                               static_cast<double>(request.stages * upto(1, 2)) +
                           0.5;
    request.weight_memory = upto(0, 4) / 4.0;
  }
  if (name == "interleaved_zb") {
    request.micro_batches = request.stages * upto(1, 5);
  } else if (name == "circular") {
    request.micro_batches += request.stages;
  } else if (name == "dualpipe" || name == "chimera") {
    request.stages = 2 * upto(1, 4);
  }
  if (name == "dualpipe") {
    request.micro_batches = 2 * (request.stages + upto(0, 8));
  } else if (name == "dualpipe_v") {
    request.micro_batches += 2 * request.stages;
  } else if (name == "interleaved_1f1b") {
    request.stages = upto(2, 8);
    request.chunks = upto(2, 5);
    request.group = upto(request.stages, 2 * request.stages);
    request.micro_batches = request.group * upto(1, 3);
    const int rest = upto(0, request.group - 1);
    request.micro_batches += rest >= request.stages ? rest : 0;  // Megatron's rule
    request.extra_warmup = upto(0, 1);
  }
  return trial;
}

std::string describe(const Entry& entry, const Trial& trial) {
  const Request& r = trial.request;
  const Times& t = trial.times;
  return fmt::format("{} {} p={} m={} v={} N={} extra={} limit={} share={} F={} I={} W={} comm={}",
                     entry.name, r.vocabulary, r.stages, r.micro_batches, r.chunks, r.group,
                     r.extra_warmup, r.memory_limit, r.weight_memory, t.forward, t.input_grad,
                     t.weight_grad, t.comm);
}

double longest_span(const Played& played) {
  double span = 0;
  for (std::size_t r = 0; r < played.idle.size(); ++r) {
    span = std::max(span, played.makespan - played.idle[r] + played.idle_inside[r]);
  }
  return span;
}

std::vector<std::string> cells_of(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, at);) {
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

TEST_CASE("At any size every pass runs once, after what it needs, and no rank waits for ever") {
  std::mt19937 random(20240607);
  for (const Entry& entry : table()) {
    for (int trial = 0; trial < 120; ++trial) {
      const Trial with = random_trial(entry, random);
      const auto& [request, times] = with;
      INFO(describe(entry, with));
      const Order order = order_of(entry.name, request);
      const Played played = played_of(order, request, times);

      // Each pass runs once; the map gives its task.
      // pass, stage (for S and T: rank), micro-batch
      std::map<std::tuple<char, int, int>, Played::Task> by_pass;
      std::vector<double> work(static_cast<std::size_t>(request.stages)), last_start = work;
      double before = 0;
      std::vector<double> free_at = work;
      for (const Played::Task& task : played.tasks) {
        const char kind = static_cast<char>(task.pass);
        const bool vocabulary = kind == 'S' || kind == 'T';
        REQUIRE(
            by_pass
                .emplace(std::tuple(kind, vocabulary ? task.rank : task.stage, task.micro_batch),
                         task)
                .second);
        CHECK(task.start >= before);  // sorted
        before = task.start;
        const std::size_t r = static_cast<std::size_t>(task.rank);
        // Tasks of a rank run one at a time, or two concurrently that started together.
        CHECK((task.start >= free_at[r] - 1e-9 || task.start == last_start[r]));
        free_at[r] = task.end;
        last_start[r] = task.start;
      }
      const bool both = order.placement == Placement::bidirectional;
      REQUIRE(order.chunks > 0);
      const int stages = both ? request.stages : request.stages * order.chunks;
      const double share = both ? 1 : 1.0 / order.chunks;
      std::size_t expected = 0;
      for (int stage = 0; stage < stages; ++stage) {
        for (int i = 0; i < request.micro_batches; ++i) {
          REQUIRE(by_pass.contains({'F', stage, i}));
          const bool whole = by_pass.contains({'B', stage, i});
          REQUIRE(by_pass.contains({'I', stage, i}) != whole);
          REQUIRE(by_pass.contains({'W', stage, i}) != whole);
          CHECK((!whole || !entry.splits_backward || both || order.placement == Placement::vee));
          CHECK((whole || entry.splits_backward));
          expected += whole ? 2 : 3;
        }
      }
      const auto back = [&](int stage, int i) {
        const auto found = by_pass.find({'B', stage, i});
        return found == by_pass.end() ? by_pass.at({'I', stage, i}) : found->second;
      };
      const auto hop = [&](const Played::Task& from, const Played::Task& to) {
        return from.rank == to.rank ? 0 : times.comm;
      };
      const auto after = [&](const Played::Task& next, const Played::Task& first) {
        CHECK(next.start >= first.end + hop(first, next) - 1e-9);
      };
      for (int i = 0; i < request.micro_batches; ++i) {
        // The chain of a micro-batch through all stages and back bounds the step.
        double chain = 0;
        for (int stage = 0; stage < stages; ++stage) {
          const Played::Task forward = by_pass.at({'F', stage, i});
          chain += (times.forward + times.input_grad +
                    (back(stage, i).pass == Pass::backward ? times.weight_grad : 0)) *
                   share;
          work[static_cast<std::size_t>(forward.rank)] +=
              (times.forward + times.input_grad + times.weight_grad) * share;
          CHECK(back(stage, i).rank == forward.rank);
          after(back(stage, i), forward);
          if (by_pass.contains({'W', stage, i})) {
            after(by_pass.at({'W', stage, i}), by_pass.at({'I', stage, i}));
            CHECK(by_pass.at({'W', stage, i}).rank == forward.rank);
          }
          if (stage > 0) {
            chain += 2 * hop(by_pass.at({'F', stage - 1, i}), forward);
            after(forward, by_pass.at({'F', stage - 1, i}));
            after(back(stage - 1, i), back(stage, i));
          }
        }
        CHECK(played.makespan >= chain - 1e-9);
        if (order.barriers > 0) {
          const Played::Task last = by_pass.at({'F', stages - 1, i});
          for (int r = 0; r < request.stages; ++r) {
            expected += 2;
            work[static_cast<std::size_t>(r)] += times.vocabulary + times.vocabulary_grad;
            after(by_pass.at({'S', r, i}), last);
            for (int other = 0; other < request.stages; ++other) {
              after(by_pass.at({'T', other, i}), by_pass.at({'S', r, i}));
            }
            after(back(stages - 1, i), by_pass.at({order.barriers == 2 ? 'T' : 'S', r, i}));
          }
        }
      }
      CHECK(by_pass.size() == expected);
      for (std::size_t r = 0; r < work.size(); ++r) {
        CHECK(played.makespan >= work[r] - 1e-9);
        CHECK(played.idle[r] == Approx(played.makespan - work[r]).margin(1e-9));
        CHECK(played.idle_inside[r] <= played.idle[r] + 1e-9);
      }
    }
  }
}

TEST_CASE("No rank works before the first micro-batch has reached it") {
  std::mt19937 random(7);
  for (const Entry& entry : table()) {
    for (int trial = 0; trial < 60; ++trial) {
      const Trial with = random_trial(entry, random);
      const auto& [request, times] = with;
      INFO(describe(entry, with));
      const Order order = order_of(entry.name, request);
      const Played played = played_of(order, request, times);
      const bool both = order.placement == Placement::bidirectional;
      const double stage =
          times.forward * (both ? 1 : 1.0 / order.chunks) + (request.stages > 1 ? times.comm : 0);
      for (int r = 0; r < request.stages; ++r) {
        const int hops = both ? std::min(r, request.stages - 1 - r) : r;
        const double first = hops * stage;
        const auto begun = std::find_if(played.tasks.begin(), played.tasks.end(),
                                        [&](const auto& task) { return task.rank == r; });
        CHECK(begun->start >= first - 1e-9);
        // A rank is idle at least until its first pass can start.
        CHECK(played.idle[static_cast<std::size_t>(r)] >= first - 1e-9);
      }
    }
  }
}

TEST_CASE("Every order comes back from PyTorch's table as it was") {
  std::mt19937 random(11);
  for (const Entry& entry : table()) {
    for (int trial = 0; trial < 30; ++trial) {
      const Trial with = random_trial(entry, random);
      const auto& [request, times] = with;
      INFO(describe(entry, with));
      const Order order = order_of(entry.name, request);
      const std::string text = to_csv(order, request.stages);
      const auto read = from_csv(text);
      if (const auto* no = std::get_if<Infeasible>(&read)) {
        FAIL(no->reason);
      }
      const Order& again = std::get<Order>(read);
      CHECK(to_csv(again, request.stages) == text);
      const Request deduced = request_of(again);
      CHECK(deduced.stages == request.stages);
      CHECK(deduced.micro_batches == request.micro_batches);
      CHECK(again.barriers == order.barriers);
      // On one rank the V is a loop, and one micro-batch flows in only one direction.
      const bool told = request.stages > 1 && request.micro_batches > 1;
      CHECK((again.placement == order.placement || !told));
      CHECK((again.chunks == order.chunks || !told));
      const Played one = played_of(order, request, times);
      const Played two = played_of(again, deduced, times);
      CHECK(one.makespan == two.makespan);
      CHECK(one.idle_inside == two.idle_inside);
      CHECK(one.peak_until_w == two.peak_until_w);
    }
  }
}

TEST_CASE("Zero-bubble schedules idle as their authors computed from profiled times") {
  std::ifstream file(STEPCAST_SOURCE_DIR "/tests/laws/zero-bubble-rates.csv");
  REQUIRE(file.good());
  std::map<std::string, int> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("schedule,")) {
      continue;
    }
    INFO(line);
    const auto cell = cells_of(line, ',');
    REQUIRE(cell.size() == 10);
    Request request{std::stoi(cell[1]), std::stoi(cell[2]), std::stoi(cell[3])};
    request.memory_limit = std::stod(cell[4]);
    request.forward = std::stod(cell[5]);
    request.input_grad = std::stod(cell[6]);
    request.weight_grad = std::stod(cell[7]);
    request.comm = std::stod(cell[8]);
    request.weight_memory = cell[0] == "zb_auto" ? 32.0 / 74 : 1;
    const Times times{request.forward, request.input_grad, request.weight_grad, request.comm};
    const Played played = played_of(cell[0], request, times);
    const double work =
        request.micro_batches * (times.forward + times.input_grad + times.weight_grad);
    const double rate = 1 - work / longest_span(played);
    // Four digits are printed. Their cost of a message in interleaved rates is not printed: our
    // rates are up to 0.0032 higher.
    CHECK(rate ==
          Approx(std::stod(cell[9])).margin(cell[0] == "interleaved_1f1b" ? 0.0035 : 0.00006));
    if (cell[0] == "zb_auto") {
      request.memory_limit = 1;
      const Request plain{request.stages, request.micro_batches};
      const char* by_hand = cell[4] == "1" ? "zb_h1" : "zb_h2";
      CHECK(played.makespan <= played_of(by_hand, plain, times).makespan + 1e-9);
      CHECK(longest_span(played) <= longest_span(played_of(by_hand, plain, times)) + 1e-9);
    }
    ++rows[cell[0]];
  }
  CHECK(rows ==
        std::map<std::string, int>{
            {"1f1b", 6}, {"interleaved_1f1b", 6}, {"zb_auto", 12}, {"zb_h1", 6}, {"zb_h2", 6}});
}

TEST_CASE("zb_auto keeps within its memory and gains from more of it") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 60; ++trial) {
    const auto upto = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    Request request{upto(2, 10), upto(2, 40)};
    request.forward = upto(4, 12);
    request.input_grad = upto(4, 12);
    request.weight_grad = upto(2, 12);
    request.comm = upto(0, 2);
    request.weight_memory = upto(0, 2) / 2.0;
    const Times times{request.forward, request.input_grad, request.weight_grad, request.comm};
    const Request plain{request.stages, request.micro_batches};
    for (const double limit : {0.5, 1.0, 1.5, 2.0}) {
      request.memory_limit = limit;
      INFO("p=" << request.stages << " m=" << request.micro_batches << " limit=" << limit
                << " share=" << request.weight_memory);
      const Order order = order_of("zb_auto", request);
      for (const auto& rank : order.ranks) {
        double held = 0, most = 0;
        for (const Slot& slot : rank) {
          held += slot.pass == Pass::forward      ? 1
                  : slot.pass == Pass::input_grad ? request.weight_memory - 1
                                                  : -request.weight_memory;
          most = std::max(most, held);
        }
        CHECK(most <= std::max(1.0, limit * request.stages) + 1e-6);
      }
      const double makespan = played_of(order, request, times).makespan;
      // At a memory limit at which ZB-H1 (or ZB-H2) fits, the generated order is at most 0.51 %
      // slower.
      if (limit >= 1) {
        CHECK(makespan <= played_of("zb_h1", plain, times).makespan * 1.0051);
      }
      if (limit >= 2) {
        CHECK(makespan <= played_of("zb_h2", plain, times).makespan * 1.0051);
      }
    }
  }
}

TEST_CASE(
    "V-Half and V-Min hold a half and a third of 1F1B's activations, for half and two thirds of "
    "its idle time") {
  const int p = GENERATE(8, 12, 16, 24, 32);
  const Request request{p, 4 * p};
  const double bubble = 3.0 * (p - 1);
  const Played half = played_of("v_half", request, {});
  const Played min = played_of("v_min", request, {});
  for (int r = 0; r < p; ++r) {  // in half-stages, of the 2p of 1F1B
    CHECK(half.peak_until_w[static_cast<std::size_t>(r)] <= p + 3);
    CHECK(min.peak_until_w[static_cast<std::size_t>(r)] <= 2 * p / 3 + 3);
    CHECK(half.idle[static_cast<std::size_t>(r)] == Approx(bubble / 2).margin(0.045 * bubble + 1));
    CHECK(min.idle[static_cast<std::size_t>(r)] == Approx(bubble * 2 / 3).margin(1));
  }
  // There is no idle time except at the ends: another micro-batch costs only its own work.
  for (const auto* name : {"v_half", "v_min"}) {
    CHECK(played_of(name, {p, 5 * p}, {}).makespan - played_of(name, request, {}).makespan ==
          Approx(3 * p));
  }
}

TEST_CASE(
    "Vocabulary passes cost a micro-batch a barrier; the interlaced pipeline half as much again") {
  const int p = GENERATE(1, 2, 4, 7, 8);
  const int m = GENERATE(3, 16, 40);
  const Played one = played_of("1f1b+vocab_2", {p, m}, {});
  const Played two = played_of("1f1b+vocab_1", {p, m}, {});
  const Played interlaced = played_of("interlaced", {p, m}, {});
  for (int r = 0; r < p; ++r) {
    CHECK(one.peak_until_w[static_cast<std::size_t>(r)] == std::min(m, p - r + 1));
    CHECK(two.peak_until_w[static_cast<std::size_t>(r)] == std::min(m, p - r + 2));
    CHECK(interlaced.peak_until_w[static_cast<std::size_t>(r)] == std::min(m, (3 * (p - r)) / 2));
  }
  // For V-Half, two half-stages each.
  const auto most = [&](const char* name) {
    const Played played = played_of(name, {p, 40}, {});
    return *std::max_element(played.peak_until_w.begin(), played.peak_until_w.end());
  };
  CHECK(most("v_half+vocab_2") == most("v_half") + 2);
  CHECK(most("v_half+vocab_1") == most("v_half") + 4);
  // Another micro-batch costs only each rank's own work: the barriers are hidden behind other
  // passes.
  const Times times{1, 1, 1, 0.05, 0.1, 0.2};
  for (const auto* name : {"1f1b+vocab_1", "1f1b+vocab_2", "v_half+vocab_1", "v_half+vocab_2"}) {
    INFO(name << " p=" << p);
    const double more =
        played_of(name, {p, 80}, times).makespan - played_of(name, {p, 40}, times).makespan;
    // One message per micro-batch may be exposed, as in plain 1F1B.
    CHECK(more / 40 == Approx(3.3).margin(times.comm + 1e-6));
  }
}

TEST_CASE("Chimera runs its figure's order and idles as its paper says") {
  std::string text;
  for (const auto& rank : order_of("chimera", {4, 4}).ranks) {
    for (const Slot& slot : rank) {
      text += fmt::format("{}{} ", static_cast<char>(slot.pass), "abxy"[slot.micro_batch]);
    }
    text += '\n';
  }
  CHECK(text ==
        "Fa Fb Fx Bx Fy By Ba Bb \n"
        "Fa Fx Fb Fy Bx Ba By Bb \n"
        "Fx Fa Fy Fb Ba Bx Bb By \n"
        "Fx Fy Fa Ba Fb Bb Bx By \n");
  for (const int p : {2, 4, 6, 8}) {
    for (const int units : {1, 2, 5}) {
      // With F = B the bubble is p - 2 slots, however many units follow each other.
      const Played played = played_of("chimera", {p, p * units}, {1, 0.5, 0.5, 0});
      CHECK(played.makespan == 2 * p * units + p - 2);
      for (int r = 0; r < p; ++r) {
        CHECK(played.peak_until_w[static_cast<std::size_t>(r)] >= p / 2 + 1);
        CHECK(played.peak_until_w[static_cast<std::size_t>(r)] <= p);
      }
    }
    CHECK(played_of("chimera", {p, p}, {1, 1, 1, 0}).makespan ==
          3 * p + 2 * (p - 2));  // B = 2F, one unit
  }
}

TEST_CASE("PyTorch's interleaved zero bubble is ZB-H1 on one chunk and idles less on more") {
  for (const int p : {1, 2, 4, 8}) {
    CHECK(to_csv(order_of("interleaved_zb", {p, 3 * p}), p) ==
          to_csv(order_of("zb_h1", {p, 3 * p}), p));
    double before = played_of("zb_h1", {p, 3 * p}, {}).makespan;
    for (const int v : {2, 4}) {
      const double idle = played_of("interleaved_zb", {p, 3 * p, v}, {}).makespan;
      CHECK((p == 1 || idle < before));
      before = idle;
    }
  }
}

TEST_CASE("Overlap-friendly 1F1B and the circular pipeline") {
  for (const int p : {1, 2, 5, 8}) {
    const Played overlap = played_of("1f1b_overlap", {p, 20}, {});
    CHECK(overlap.makespan == played_of("1f1b", {p, 20}, {}).makespan);
    for (int r = 0; r < p; ++r) {
      CHECK(overlap.peak_until_w[static_cast<std::size_t>(r)] == std::min(20, 2 * (p - r) - 1));
    }
    for (const int v : {1, 3}) {
      // The bubble is (p - 1) / (v m + p - 1) of the time (MaxText).
      const Played circular = played_of("circular", {p, 16, v}, {});
      CHECK(circular.idle[0] / circular.makespan == Approx((p - 1.0) / (v * 16 + p - 1)));
    }
  }
  // Messages have as long as a pass to arrive, so they are exposed only at the ends.
  const Times times{1, 1, 1, 0.5};
  const auto more = [&](const char* name) {
    return played_of(name, {6, 40}, times).makespan - played_of(name, {6, 20}, times).makespan;
  };
  CHECK(more("1f1b_overlap") == Approx(60));
  CHECK(more("1f1b") > 61);
}

TEST_CASE("A table of PyTorch's runtime is read with all that it holds") {
  // Lowered for FSDP stages and messages, with an empty cell and a pair; the text does not end with
  // a newline.
  const auto made = from_csv(
      "0UNSHARD,0F0,0SEND_F0,0F1,,0RECV_B0,0I0,0W0,0REDUCE_GRAD,0B1\r\n"
      "1UNSHARD,1RECV_F0,,1F0,(1F1;1I0)OVERLAP_F_B,1W0,1B1,1RESHARD");
  if (const auto* no = std::get_if<Infeasible>(&made)) {
    FAIL(no->reason);
  }
  const Order& order = std::get<Order>(made);
  REQUIRE(order.ranks.size() == 2);
  CHECK(order.placement == Placement::loop);
  CHECK(order.chunks == 1);
  CHECK(order.ranks[0].size() == 5);
  CHECK(order.ranks[1][1].with_next);
  CHECK(to_csv(order, 2) == "0F0,0F1,0I0,0W0,0B1\n1F0,(1F1;1I0)OVERLAP_F_B,1W0,1B1\n");
  // F0 on each rank, then F1 and I0 of rank 1 concurrently in [2, 4).
  const Played played = played_of(order, request_of(order), {});
  CHECK(played.makespan == 9);
  CHECK(played.tasks[3].start == 2);
  CHECK(played.tasks[3].end == 4);
}

TEST_CASE("What is wrong with a table is named with its row and cell") {
  const auto reason = [](std::string_view text) {
    const auto made = from_csv(text);
    const auto* no = std::get_if<Infeasible>(&made);
    return no == nullptr ? std::string() : no->reason;
  };
  CHECK(reason("0F0,0B0\n1F0,1B0\n") == "");
  CHECK_THAT(reason(""), ContainsSubstring("empty"));
  CHECK_THAT(reason("\n\n"), ContainsSubstring("empty"));
  CHECK_THAT(reason("0F0,0B0\n1F0,1X0\n"),
             ContainsSubstring("row 2, cell 2 ('1X0') is not an action"));
  CHECK_THAT(reason("0F0,0B\n1F0,1B0\n"),
             ContainsSubstring("row 1, cell 2 ('0B') is not an action"));
  CHECK_THAT(reason("0F0,0B99999999999\n1F0,1B0\n"), ContainsSubstring("row 1, cell 2"));
  CHECK_THAT(reason("0F0,(0F1)OVERLAP_F_B\n"),
             ContainsSubstring("is not a pair of a forward and a backward"));
  CHECK_THAT(reason("0F0,(0F1;0B0\n"), ContainsSubstring("expected (0F1;3B0)OVERLAP_F_B"));
  CHECK_THAT(reason("0F0,(0F1;(0B0;0F2)OVERLAP_F_B)OVERLAP_F_B\n"),
             ContainsSubstring("row 1, cell 2"));
  CHECK_THAT(
      reason("0F0,,0F0,0B0\n1F0,1B0\n"),
      ContainsSubstring("row 1, cell 3 ('0F0'): rank 0 runs F of micro-batch 0 in chunk 0 twice"));
  CHECK_THAT(reason("0F0,0B0\n1F0\n"), ContainsSubstring("rank 1 never finishes micro-batch 0"));
  CHECK_THAT(reason("0B0,0F0\n1F0,1B0\n"),
             ContainsSubstring("row 1, cell 1 ('0B0'): the schedule deadlocks"));
  CHECK_THAT(reason("0F0,0B0\n5F0,5B0\n"),
             ContainsSubstring("cannot run 1 micro-batches through 6 stages"));
  CHECK_THAT(reason("0F0,1F0,1B0,0B0\n2F0,3F0,3B0,2B0\n"),
             ContainsSubstring("do not lie on 2 ranks"));
  CHECK_THAT(reason("1048576F1048576,1048576B1048576\n"), ContainsSubstring("cannot run"));
  CHECK_THAT(reason("0UNSHARD\n"), ContainsSubstring("no pass"));
}

TEST_CASE("A request for what a schedule does not read is refused") {
  const auto key = [](std::string_view name, const Request& request) {
    const auto made = make(name, request);
    const auto* no = std::get_if<Infeasible>(&made);
    return no == nullptr ? std::string() : no->key;
  };
  Request limited{4, 8};
  limited.memory_limit = 2;
  CHECK(key("zb_h1", limited) == "parallelism.schedule.memory_limit");
  CHECK(key("zb_auto", limited) == "");
  limited.memory_limit = 0.1;
  CHECK(key("zb_auto", limited) == "parallelism.schedule.memory_limit");
  CHECK(key("gpipe", {4, 8, 1, 4}) == "parallelism.schedule.group");
  CHECK(key("zb_v", {4, 8, 2, 0, 1}) == "parallelism.schedule.extra_warmup");
  CHECK(key("zb_v", {4, 8, 2}) == "");
  CHECK(key("zb_v", {4, 8, 3}) == "parallelism.schedule");
  CHECK(key("dualpipe", {3, 8}) == "parallelism.schedule");
  CHECK(key("dualpipe_v", {4, 7}) == "parallelism.schedule");
  CHECK(key("chimera", {3, 8}) == "parallelism.schedule");
  CHECK(key("gpipe+vocab_1", {4, 8}) == "parallelism.schedule");
  CHECK(key("1f1b+vocab_3", {4, 8}) == "parallelism.schedule");
  CHECK(key("1f1b+vocab_2", {4, 8}) == "");
  REQUIRE(find("v_half+vocab_1") != nullptr);
  CHECK(find("v_half+vocab_1")->name == "v_half");
  CHECK(find("nothing") == nullptr);
}

TEST_CASE("pairs of a forward and a backward wait for nothing, however few the micro-batches are") {
  int played = 0;
  const auto check = [&](const char* name, const Request& request) {
    const auto made = make(name, request);
    if (const auto* order = std::get_if<Order>(&made)) {
      INFO(name << ' ' << request.stages << " x " << request.chunks << ", group " << request.group
                << ", " << request.micro_batches);
      CHECK(std::holds_alternative<Played>(play(*order, request, {})));
      ++played;
    }  // else fewer micro-batches than stages
  };
  Request request;
  request.extra_warmup = 1;
  request.pairs = true;
  for (request.stages = 1; request.stages <= 6; ++request.stages) {
    for (request.micro_batches = 1; request.micro_batches <= 14; ++request.micro_batches) {
      request.chunks = 1;
      request.group = 0;
      check("1f1b", request);
      for (request.chunks = 2; request.chunks <= 4; ++request.chunks) {
        for (request.group = 0; request.group <= 2 * request.stages; ++request.group) {
          check("interleaved_1f1b", request);
        }
      }
    }
  }
  CHECK(played > 400);
}
