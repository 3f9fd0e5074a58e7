// Parts of AHP that decide without the engine, compared with brute force and closed forms.
#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "automatic/ahp/ahp_order.h"
#include "automatic/ahp/uneven.h"
#include "catch.hpp"

namespace stepcast::automatic {
namespace {

// Tries all ways to give `layers` to the stages, each a multiple of the grain and at least one
// grain.
double brute_force(const UnevenProblem& p) {
  const int stages = static_cast<int>(p.layer.size());
  const int layers = static_cast<int>(p.layer.front().size());
  double best = std::numeric_limits<double>::infinity();
  std::vector<int> cut;
  const std::function<void(int)> next = [&](int left) {
    const auto s = cut.size();
    if (static_cast<int>(s) == stages) {
      if (left == 0) {
        best = std::min(best, step_of(p, cut));
      }
      return;
    }
    for (int n = p.grain; n <= std::min(left, p.most[s]); n += p.grain) {
      cut.push_back(n);
      next(left - n);
      cut.pop_back();
    }
  };
  next(layers);
  return best;
}

TEST_CASE("the cut of layers is the best of all, whatever stages, layers and memory") {
  std::mt19937_64 random(7);
  const auto draw = [&](double low, double high) {
    return low + (high - low) * (static_cast<double>(random() >> 11) * 0x1p-53);
  };
  int possible = 0;
  for (int trial = 0; trial < 200; ++trial) {
    UnevenProblem p;
    const int stages = 1 + static_cast<int>(random() % 4);
    p.grain = 1 + static_cast<int>(random() % 2);
    const int layers = p.grain * (stages + static_cast<int>(random() % 6));
    p.micro_batches = 1 + static_cast<int>(random() % 20);
    for (int s = 0; s < stages; ++s) {
      p.layer.emplace_back();
      for (int l = 0; l < layers; ++l) {
        p.layer.back().push_back(draw(0.5, 2));
      }
      p.ends.push_back(draw(0, 1));
      p.most.push_back(p.grain * (1 + static_cast<int>(random() % 8)));
    }
    const double best = brute_force(p);
    const UnevenLayers found = cut_layers(p);
    CAPTURE(trial, stages, layers, p.grain);
    if (best == std::numeric_limits<double>::infinity()) {
      CHECK(found.layers.empty());
      continue;
    }
    ++possible;
    REQUIRE(found.layers.size() == p.layer.size());
    CHECK(std::accumulate(found.layers.begin(), found.layers.end(), 0) == layers);
    CHECK(found.step <= best * (1 + 1e-12));
    CHECK(found.step == step_of(p, found.layers));
  }
  CHECK(possible > 50);
}

TEST_CASE("layers go to stages in proportion to their speed where that divides") {
  UnevenProblem p;
  p.layer = {std::vector<double>(12, 1.0), std::vector<double>(12, 2.0)};
  p.ends = {0, 0};
  p.most = {12, 12};
  p.micro_batches = 8;
  const UnevenLayers found = cut_layers(p);
  CHECK(found.layers == std::vector<int>{8, 4});
  CHECK(found.step == 8 + 8 + 7 * 8);
  CHECK(found.step < step_of(p, {6, 6}));
  p.most = {7, 12};  // the memory of the fast one holds no more layers
  CHECK(cut_layers(p).layers == std::vector<int>{7, 5});
}

OrderProblem alike(int stages, int micro_batches, double live) {
  OrderProblem p;
  p.stages.assign(static_cast<std::size_t>(stages), {1, 1, 1});
  p.live.assign(static_cast<std::size_t>(stages), live);
  p.micro_batches = micro_batches;
  return p;
}

// Conditions that every order must meet; play() refuses an order that deadlocks.
void check(const OrderProblem& p, const MadeOrder& made) {
  const auto m = static_cast<std::size_t>(p.micro_batches);
  REQUIRE(made.order.ranks.size() == p.stages.size());
  for (std::size_t r = 0; r < p.stages.size(); ++r) {
    CHECK(made.order.ranks[r].size() == m * (p.splits_backward ? 3 : 2));
    CHECK(made.peak[r] <= p.live[r] + 1e-9);
  }
  schedule::Request request;
  request.stages = static_cast<int>(p.stages.size());
  request.micro_batches = p.micro_batches;
  const auto played = schedule::play(made.order, request, {});
  CHECK(std::holds_alternative<schedule::Played>(played));
}

TEST_CASE(
    "an order with memory as 1F1B's and whole backwards is as long as 1F1B: (m + p - 1)(F + B)") {
  for (const int stages : {1, 2, 4, 8}) {
    for (const int m : {8, 13}) {
      OrderProblem p = alike(stages, m, stages);
      p.splits_backward = false;
      const MadeOrder made = make_order(p);
      check(p, made);
      CHECK(made.makespan == 3.0 * (m + stages - 1));
    }
  }
}

TEST_CASE("weight gradients fill the bubble down to ZB-H1 and, with twice the memory, to ZB-H2") {
  // Qi et al., 2401.10241, table 2: bubbles (p - 1)(F + I - W) and (p - 1)(F + I - 2 W).
  const int stages = 4, m = 12;
  const OrderProblem h1 = alike(stages, m, stages);
  const MadeOrder first = make_order(h1);
  check(h1, first);
  const OrderProblem h2 = alike(stages, m, 2 * stages - 1);
  const MadeOrder second = make_order(h2);
  check(h2, second);
  const double work = 3.0 * m;
  CHECK(first.makespan <= work + (stages - 1) * 1.0 + (stages - 1));
  CHECK(second.makespan <= first.makespan);
  CHECK(second.makespan >= work + (stages - 1));  // the last rank cannot begin earlier
  const OrderProblem least = alike(stages, m, 1);
  const MadeOrder tight = make_order(least);  // one micro-batch in flight
  check(least, tight);
  CHECK(tight.makespan > first.makespan);
}

TEST_CASE(
    "an order for unlike stages is no shorter than its slowest stage, and no longer than 1F1B's") {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    const int stages = 2 + static_cast<int>(random() % 5);
    OrderProblem p = alike(stages, stages + static_cast<int>(random() % 12), stages);
    double slowest = 0, sum = 0;
    for (PassTimes& t : p.stages) {
      t = {1 + static_cast<double>(random() % 8), 1 + static_cast<double>(random() % 8),
           1 + static_cast<double>(random() % 8)};
      const double all = t.forward + t.input_grad + t.weight_grad;
      slowest = std::max(slowest, all);
      sum += all;
    }
    const MadeOrder split = make_order(p);
    check(p, split);
    CHECK(split.makespan >= p.micro_batches * slowest);
    p.splits_backward = false;
    const MadeOrder whole = make_order(p);
    check(p, whole);
    CHECK(whole.makespan >= sum);
  }
}

}  // namespace
}  // namespace stepcast::automatic
