// Max-min fair rates under caps, in integers: what Network must give, worked out from nothing. Kept
// plain, as the definition and the oracle of tests.
//
// Activity i sends at payload rate x_i <= cap_i (bytes per second). A unit of its payload puts W_ij
// / 2^16 bytes on resource j, whose capacity is C_j. The fair rates raise all x_i together ("water
// filling"): whoever reaches its cap stops there; when a resource is full, all that use it stop at
// the level reached, floor(residual_j / sum of W of those still rising).
//
// Example: C = 10, two activities of weight 1, caps 3 and 100. Level of the resource: 10 / 2 = 5;
// cap 3 is below, so x_1 = 3; then 7 / 1: x_2 = 7.
//
// Every level is computed from sums over all activities before any is frozen at it, so the result
// does not depend on their order, and k equal activities give what one of weight k * W gives: a
// folded world shares exactly as the full one does.
#pragma once

#include <cstdint>
#include <vector>

#include "wide.h"

namespace stepcast::engine {

struct MaxMin {
  struct Use {
    std::uint32_t resource = 0;
    std::int64_t weight = 0;  // times 2^16
  };
  // Problem: activity i uses uses[first[i] .. first[i + 1]).
  std::vector<std::int64_t> cap;
  std::vector<std::uint32_t> first;
  std::vector<Use> uses;
  std::vector<std::int64_t> capacity;
  // Solution: at least 1, since nothing may stand still for ever.
  std::vector<std::int64_t> rate;

  void clear();
  void solve();

 private:
  struct State {
    Int128 residual = 0;
    Int128 rising = 0;  // sum of weights of activities not frozen yet
  };
  std::vector<State> state_;
  std::vector<std::uint32_t> by_cap_;
  std::vector<std::uint32_t> by_resource_;  // uses' activities, by resource
  std::vector<std::uint32_t> start_;
  void freeze(std::uint32_t activity, std::int64_t at);
  void index();
};

}  // namespace stepcast::engine
