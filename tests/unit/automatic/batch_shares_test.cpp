// Shares of a batch over ranks of different speed, compared with brute force and closed forms.
#include "automatic/ahp/batch_shares.h"

#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "catch.hpp"

namespace stepcast::automatic {
namespace {

double brute_force(const BatchProblem& p) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<int> shares;
  const std::function<void(int)> next = [&](int left) {
    if (shares.size() == p.each.size()) {
      best = left == 0 ? std::min(best, last_end(p, shares)) : best;
      return;
    }
    for (int n = p.grain; n <= left; n += p.grain) {
      shares.push_back(n);
      next(left - n);
      shares.pop_back();
    }
  };
  next(p.micro_batches);
  return best;
}

TEST_CASE("the shares of the batch are the best of all, whatever the ranks") {
  std::mt19937_64 random(5);
  const auto draw = [&](double low, double high) {
    return low + (high - low) * (static_cast<double>(random() >> 11) * 0x1p-53);
  };
  for (int trial = 0; trial < 200; ++trial) {
    BatchProblem p;
    p.grain = 1 + static_cast<int>(random() % 3);
    const int ranks = 1 + static_cast<int>(random() % 4);
    for (int d = 0; d < ranks; ++d) {
      p.fixed.push_back(draw(0, 3));
      p.each.push_back(draw(0.2, 2));
    }
    p.micro_batches = p.grain * (ranks + static_cast<int>(random() % 10));
    const auto found = share_batches(p);
    CAPTURE(trial, ranks, p.grain, p.micro_batches);
    REQUIRE(found.size() == p.each.size());
    CHECK(std::accumulate(found.begin(), found.end(), 0) == p.micro_batches);
    for (const int n : found) {
      CHECK(n >= p.grain);
      CHECK(n % p.grain == 0);
    }
    CHECK(last_end(p, found) <= brute_force(p) * (1 + 1e-12));
  }
}

TEST_CASE("like ranks share evenly, unlike ones by their speed where that divides") {
  CHECK(share_batches({{0, 0, 0}, {1, 1, 1}, 12, 1}) == std::vector<int>{4, 4, 4});
  CHECK(share_batches({{0, 0}, {1, 3}, 16, 1}) == std::vector<int>{12, 4});
  CHECK(share_batches({{0, 0}, {1, 3}, 16, 4}) == std::vector<int>{12, 4});
  CHECK(share_batches({{0, 0}, {1, 3}, 15, 4}).empty());  // not a multiple of the grain
  CHECK(share_batches({{0, 0, 0}, {1, 1, 1}, 2, 1}).empty());
}

TEST_CASE("a shift takes a grain from each rank of one kind and keeps the sum") {
  CHECK(shift_batches({6, 6, 2, 2}, {0, 0, 1, 1}, 0, 1, 1) == std::vector<int>{5, 5, 3, 3});
  CHECK(shift_batches({6, 6, 2}, {0, 0, 1}, 0, 1, 2) == std::vector<int>{4, 4, 6});
  CHECK(shift_batches({6, 2, 2}, {0, 1, 1}, 0, 1, 1) == std::vector<int>{5, 3, 2});
  CHECK(shift_batches({1, 2}, {0, 1}, 0, 1, 1).empty());  // a rank would have no micro-batch left
}

}  // namespace
}  // namespace stepcast::automatic
