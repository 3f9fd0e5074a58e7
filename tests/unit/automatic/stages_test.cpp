// Stages by dynamic programming, compared with all splits of small chains.
#include "automatic/plans/stages.h"

#include <map>
#include <random>
#include <tuple>

#include "catch.hpp"

namespace stepcast::automatic {
namespace {

// Tries every way to split the blocks from `first` on into stages of any shape.
void all_cuts(const StageProblem& p, int first, int devices, std::vector<PlannedStage>& stages,
              double& best) {
  if (first == p.blocks) {
    if (devices != 0 || (p.stages > 0 && static_cast<int>(stages.size()) != p.stages)) {
      return;
    }
    std::vector<PlannedStage> timed = stages;
    for (std::size_t i = 0; i < timed.size(); ++i) {
      timed[i].time = p.time(timed[i].first, timed[i].last, timed[i].shape,
                             static_cast<int>(timed.size() - 1 - i));
    }
    best = std::min(best, latency_of(p, timed));
    return;
  }
  for (int last = first + 1; last <= p.blocks; ++last) {
    for (std::size_t n = 0; n < p.shapes.size(); ++n) {
      if (p.shapes[n] <= devices) {
        stages.push_back({first, last, static_cast<int>(n), 0});
        all_cuts(p, last, devices - p.shapes[n], stages, best);
        stages.pop_back();
      }
    }
  }
}

TEST_CASE("stages of small chains are the best of all cuts") {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> unit(0, 1);
  int infeasible = 0, several = 0;
  for (int round = 0; round < 200; ++round) {
    StageProblem p;
    p.blocks = 1 + static_cast<int>(random() % 5);
    p.devices = 8;
    p.shapes = {1, 2, 4, 8};
    if (round % 7 == 0) {  // as in plans with equal stages
      p.shapes = {round % 14 == 0 ? 2 : 4};
    }
    p.micro_batches = 1 + static_cast<int>(random() % 32);
    p.latency =
        round % 2 == 0 ? StageProblem::Latency::sum_and_slowest : StageProblem::Latency::slowest;
    p.stages = round % 3 == 0 ? 1 + static_cast<int>(random() % 4) : 0;
    p.virtual_stages = round % 4 == 0 ? 2 : 1;
    std::map<std::tuple<int, int, int>, double> times;
    for (int i = 0; i < p.blocks; ++i) {
      for (int j = i + 1; j <= p.blocks; ++j) {
        for (int n = 0; n < static_cast<int>(p.shapes.size()); ++n) {
          times[{i, j, n}] =
              (j - i) * (0.5 + unit(random)) / (1 + p.shapes[static_cast<std::size_t>(n)]);
        }
      }
    }
    const int room = round % 5;  // number of activation sets that fit on a device
    p.time = [&, room](int first, int last, int shape, int later) {
      const int held = (later + 1) * (last - first);
      return 2 * held > (room + 1) * p.shapes[static_cast<std::size_t>(shape)]
                 ? std::numeric_limits<double>::infinity()
                 : times.at({first, last, shape});
    };
    double best = std::numeric_limits<double>::infinity();
    std::vector<PlannedStage> none;
    all_cuts(p, 0, p.devices, none, best);
    const StagePlan found = plan_stages(p);
    INFO("round " << round);
    if (best == std::numeric_limits<double>::infinity()) {
      CHECK(found.latency == best);
      ++infeasible;
      continue;
    }
    CHECK(found.latency == Approx(best).epsilon(1e-12));
    int devices = 0, next = 0;
    for (const PlannedStage& s : found.stages) {
      CHECK(s.first == next);
      next = s.last;
      devices += p.shapes[static_cast<std::size_t>(s.shape)];
    }
    CHECK(next == p.blocks);
    CHECK(devices == p.devices);
    several += found.stages.size() > 1 ? 1 : 0;
  }
  CHECK(infeasible > 0);
  CHECK(several > 50);
}

TEST_CASE("with bounds of times, stages are the same, and few times are asked for") {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> unit(0, 1);
  std::size_t asked = 0, all = 0;
  for (int round = 0; round < 100; ++round) {
    StageProblem p;
    p.blocks = 6;
    p.devices = 8;
    p.shapes = {1, 2, 4, 8};
    p.micro_batches = 1 + static_cast<int>(random() % 16);
    p.latency =
        round % 2 == 0 ? StageProblem::Latency::sum_and_slowest : StageProblem::Latency::slowest;
    // Times by length, shape and number of later stages; a few do not fit.
    std::map<std::tuple<int, int, int>, double> times;
    std::map<std::tuple<int, int, int>, double> below;
    for (int length = 1; length <= p.blocks; ++length) {
      for (int n = 0; n < 4; ++n) {
        const double least = length * (0.5 + unit(random)) / p.shapes[static_cast<std::size_t>(n)];
        for (int later = 0; later < p.blocks; ++later) {
          below[{length, n, later}] = least;
          times[{length, n, later}] = unit(random) < 0.1 ? std::numeric_limits<double>::infinity()
                                                         : least * (1 + 0.2 * later * unit(random));
        }
      }
    }
    p.time = [&](int first, int last, int shape, int later) {
      return times.at({last - first, shape, later});
    };
    const StagePlan expected = plan_stages(p);
    p.alike = [](int first, int last, int shape, int later) {
      return ((last - first) * 4 + shape) * 8 + later;
    };
    p.least = [&](int first, int last, int shape, int later) {
      return below.at({last - first, shape, later});
    };
    std::map<int, int> calls;
    p.time = [&](int first, int last, int shape, int later) {
      ++calls[p.alike(first, last, shape, later)];
      return times.at({last - first, shape, later});
    };
    INFO("round " << round);
    CHECK(least_latency(p) <= expected.latency);
    const StagePlan found = plan_stages(p);
    CHECK(found.latency == Approx(expected.latency).epsilon(1e-12));
    for (const auto& [kind, times_called] : calls) {
      CHECK(times_called == 1);
    }
    asked += calls.size();
    all += times.size();
    if (!expected.stages.empty()) {
      p.limit = expected.latency;  // no plan is faster
      CHECK(plan_stages(p).stages.empty());
      p.limit = expected.latency * (1 + 1e-9);
      CHECK(plan_stages(p).latency == Approx(expected.latency).epsilon(1e-12));
    }
  }
  CHECK(3 * asked < all);
}

TEST_CASE("virtual stages shorten what stages wait for each other") {
  // Three stages of 2, 3 and 1 s and 4 micro-batches: 4 x 3 + (6 - 3) / v; by the slowest stage
  // alone 4 x 3 + 2 x 3 / v.
  StageProblem p;
  p.micro_batches = 4;
  const std::vector<PlannedStage> stages = {{0, 1, 0, 2}, {1, 2, 0, 3}, {2, 3, 0, 1}};
  CHECK(latency_of(p, stages) == 15);
  p.virtual_stages = 3;
  CHECK(latency_of(p, stages) == 13);
  p.latency = StageProblem::Latency::slowest;
  CHECK(latency_of(p, stages) == 14);
}

}  // namespace
}  // namespace stepcast::automatic
