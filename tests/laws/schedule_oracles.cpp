// Pipeline schedules on equal stages with free communication must reproduce the results of an
// independent simulator and the papers' closed forms, and have properties that hold at every size.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "catch.hpp"
#include "played.h"
#include "stepcast/schedule/schedule.h"

using namespace stepcast;
using namespace stepcast::schedule;

namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, at);) {
    parts.push_back(part);
  }
  if (!text.empty() && text.back() == at) {
    parts.emplace_back();
  }
  return parts;
}

// The number as the oracle prints it: 6 significant digits.
std::string digits(double x) { return fmt::format("{:.6g}", std::abs(x) < 1e-9 ? 0.0 : x); }

std::string reason_of(std::string_view name, const Request& request) {
  const auto made = make(name, request);
  const auto* no = std::get_if<Infeasible>(&made);
  return no == nullptr ? "" : no->reason;
}

}  // namespace

TEST_CASE("Schedules give the oracle's makespan, idle time and live chunks exactly") {
  std::ifstream file(STEPCAST_SOURCE_DIR "/tests/laws/schedule-oracles.csv");
  REQUIRE(file.good());
  std::map<std::string, int> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("schedule,")) {
      continue;
    }
    const auto cell = split(line, ',');
    REQUIRE(cell.size() == 13);
    INFO(line);
    Request request{std::stoi(cell[1]), std::stoi(cell[2]), std::stoi(cell[3]),
                    cell[4].empty() ? 0 : std::stoi(cell[4]), 0};
    std::string name = cell[0];
    if (name == "interleaved+1warmup") {
      request.extra_warmup = 1;
    }
    if (name.starts_with("interleaved")) {
      name = "interleaved_1f1b";
    } else if (name == "dualpipe_total_mb" || name == "dualpipev") {
      name = name == "dualpipev" ? "dualpipe_v" : "dualpipe";
    }
    const Times times{std::stod(cell[5]), std::stod(cell[6]), std::stod(cell[7]), 0};
    const Played played = played_of(name, request, times);
    const auto ranks = static_cast<std::size_t>(request.stages);
    const auto column = [&](std::size_t i) {
      const auto parts = split(cell[i], ';');
      REQUIRE(parts.size() == ranks);
      return parts;
    };
    CHECK(fmt::format("{:.6f}", played.makespan) == fmt::format("{:.6f}", std::stod(cell[8])));
    for (std::size_t r = 0; r < ranks; ++r) {
      CHECK(digits(played.idle[r]) == digits(std::stod(column(9)[r])));
      CHECK(digits(played.idle_inside[r]) == digits(std::stod(column(10)[r])));
      CHECK(played.peak_until_w[r] == std::stoi(column(11)[r]));
      CHECK(played.peak_until_i[r] == std::stoi(column(12)[r]));
    }
    ++rows[cell[0]];
  }
  CHECK(rows == std::map<std::string, int>{{"gpipe", 18},
                                           {"1f1b", 18},
                                           {"interleaved", 60},
                                           {"interleaved+1warmup", 3},
                                           {"looped_bfs", 54},
                                           {"zb_h1", 18},
                                           {"zb_h2", 18},
                                           {"zb_v", 18},
                                           {"dualpipe_total_mb", 15},
                                           {"dualpipev", 15}});
}

TEST_CASE("The idle time of a rank is (p-1)(F+B), divided by the chunks when interleaved") {
  // Small integers divided by powers of two: the sums are exact in doubles.
  const Times times{4, 3, 5, 0};
  const double forward_backward = 12;
  const int p = GENERATE(2, 3, 5, 8);
  const int m = p * GENERATE(1, 2, 3);
  for (const auto* name : {"gpipe", "1f1b"}) {
    const Played played = played_of(name, {p, m, 1, 0, 0}, times);
    CHECK(played.makespan == (m + p - 1) * forward_backward);
    for (const double idle : played.idle) {
      CHECK(idle == (p - 1) * forward_backward);
    }
  }
  const int v = GENERATE(2, 4);
  for (const auto* name : {"interleaved_1f1b", "looped_bfs"}) {
    const Played played = played_of(name, {p, m, v, 0, 0}, times);
    for (const double idle : played.idle) {
      CHECK(idle == (p - 1) * forward_backward / v);
    }
  }
}

TEST_CASE("1F1B keeps min(m, p - r) micro-batches in flight on rank r; GPipe keeps all") {
  const int p = GENERATE(1, 2, 4, 7);
  const int m = GENERATE(1, 3, 4, 16);
  const Played steady = played_of("1f1b", {p, m, 1, 0, 0}, {});
  const Played all = played_of("gpipe", {p, m, 1, 0, 0}, {});
  for (int r = 0; r < p; ++r) {
    CHECK(steady.peak_until_w[static_cast<std::size_t>(r)] == std::min(m, p - r));
    CHECK(all.peak_until_w[static_cast<std::size_t>(r)] == m);
  }
}

TEST_CASE("Interleaved 1F1B keeps min(mv, 2(p-1-r) + (v-1)N + 1 + extra) chunks in flight") {
  const int p = GENERATE(2, 4, 6);
  const int v = GENERATE(2, 3);
  const int group = p + GENERATE(0, 1, 2);
  const int m = 3 * group;
  const int extra = GENERATE(0, 1);
  const Played played = played_of("interleaved_1f1b", {p, m, v, group, extra}, {});
  for (int r = 0; r < p; ++r) {
    CHECK(played.peak_until_w[static_cast<std::size_t>(r)] ==
          std::min(m * v, 2 * (p - 1 - r) + (v - 1) * group + 1 + extra));
  }
}

TEST_CASE("The first rank of Megatron's interleaved schedule runs this order") {
  // Derived by hand from Megatron's table: p = 2, m = 4, v = 2, N = 2, warm-up 2(1) + 1(2) = 4.
  std::string text;
  const Order order = order_of("interleaved_1f1b", {2, 4, 2, 2, 0});
  for (const Slot& s : order.ranks[0]) {
    text += fmt::format("{}{}.{} ", static_cast<char>(s.pass), s.micro_batch, s.chunk);
  }
  CHECK(text ==
        "F0.0 F1.0 F0.1 F1.1 "
        "F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 "
        "B2.1 B3.1 B2.0 B3.0 ");
}

TEST_CASE("Communication between two stages delays 1F1B by exactly its own critical path") {
  // p = 2, m = 1: F0, send, F1, B1, send, B0.
  CHECK(played_of("1f1b", {2, 1, 1, 0, 0}, {1, 1, 1, 0.25}).makespan == 6.5);
  // A single stage sends nothing.
  CHECK(played_of("1f1b", {1, 3, 1, 0, 0}, {1, 1, 1, 0.25}).makespan == 9);
}

TEST_CASE("Impossible schedules are refused, and the reason says why") {
  CHECK_THAT(reason_of("zb", {}), ContainsSubstring("unknown schedule 'zb'"));
  CHECK_THAT(reason_of("1flb", {}), ContainsSubstring("did you mean '1f1b'?"));
  CHECK_THAT(reason_of("1f1b", {4, 8, 2, 0, 0}), ContainsSubstring("interleaved_1f1b"));
  CHECK_THAT(reason_of("gpipe", {4, 0, 1, 0, 0}), ContainsSubstring("at least 1"));
  CHECK_THAT(reason_of("gpipe", {4, 2000000000, 1, 0, 0}), ContainsSubstring("too many"));
  // Megatron requires p <= N <= m and that the last group is empty or has at least p micro-batches.
  CHECK_THAT(reason_of("interleaved_1f1b", {4, 8, 2, 3, 0}), ContainsSubstring("4 <= 3 <= 8"));
  CHECK_THAT(reason_of("interleaved_1f1b", {4, 8, 2, 9, 0}), ContainsSubstring("4 <= 9 <= 8"));
  CHECK_THAT(reason_of("interleaved_1f1b", {4, 11, 2, 4, 0}), ContainsSubstring("last group of 3"));
  CHECK(reason_of("interleaved_1f1b", {4, 13, 2, 5, 0}).find("last group") != std::string::npos);
  CHECK(reason_of("interleaved_1f1b", {4, 14, 2, 5, 0}) == "");
  const auto unknown = make("nothing", {});
  CHECK(std::get<Infeasible>(unknown).key == "parallelism.schedule");
}

TEST_CASE("The player refuses orders that deadlock, repeat a pass or forget one") {
  const auto refusal = [](Order order, const Request& request) {
    const auto result = play(order, request, {});
    const auto* no = std::get_if<Infeasible>(&result);
    return no == nullptr ? std::string() : no->reason;
  };
  const Request request{2, 2, 1, 0, 0};
  const Order good = order_of("1f1b", request);
  CHECK(refusal(good, request) == "");
  Order crossed = good;  // rank 0 wants its first backward before its second forward; rank 1 the
                         // other way round
  crossed.ranks[0] = {
      {Pass::forward, 0}, {Pass::backward, 0}, {Pass::forward, 1}, {Pass::backward, 1}};
  crossed.ranks[1] = {
      {Pass::forward, 0}, {Pass::forward, 1}, {Pass::backward, 0}, {Pass::backward, 1}};
  CHECK_THAT(refusal(crossed, request), ContainsSubstring("deadlocks"));
  Order twice = good;
  twice.ranks[1].push_back({Pass::forward, 0});
  CHECK_THAT(refusal(twice, request), ContainsSubstring("twice"));
  Order short_of = good;
  short_of.ranks[1].pop_back();
  CHECK_THAT(refusal(short_of, request), ContainsSubstring("never finishes micro-batch 1"));
  Order outside = good;
  outside.ranks[0][0].micro_batch = 2;
  CHECK_THAT(refusal(outside, request), ContainsSubstring("outside the request"));
  CHECK_THAT(refusal(Order{}, request), ContainsSubstring("does not belong to 2 stages"));
}

TEST_CASE(
    "Split backwards play: an input gradient frees the neighbour before the weight gradient") {
  // Two ranks, one micro-batch, F = I = W = 1: rank 1 ends I at 3, so rank 0 runs I in [3, 4) and W
  // in [4, 5).
  const Order order{{{{Pass::forward, 0}, {Pass::input_grad, 0}, {Pass::weight_grad, 0}},
                     {{Pass::forward, 0}, {Pass::input_grad, 0}, {Pass::weight_grad, 0}}}};
  const auto result = play(order, {2, 1, 1, 0, 0}, {});
  REQUIRE(std::holds_alternative<Played>(result));
  const Played& played = std::get<Played>(result);
  CHECK(played.makespan == 5);
  CHECK(played.idle == std::vector<double>{2, 2});
  CHECK(played.idle_inside == std::vector<double>{2, 0});
}
