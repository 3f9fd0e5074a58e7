// V-Half and V-Min (Qi et al., "Pipeline parallelism with controllable memory", 2405.15362): two
// chunks per rank in a V, and a building block whose passes follow from stage to stage at chosen
// offsets. The live activations of a rank are the lifespans of its chunks over the period: with
// offsets a, b, c, d of the forwards down and up and the backwards down and up, p (a + b + c + d) /
// 6 half-stages on every rank alike when a + d = b + c. All ones: V-Min, a third of 1F1B's peak; 2,
// 1, 2, 1: V-Half, half of it. Each pass takes one time unit (F = I = W), and none of a rank's six
// may fall on another's of any micro-batch.
#include <algorithm>
#include <array>
#include <limits>

#include "building_block.h"
#include "orders.h"

namespace stepcast::schedule {
namespace {

constexpr int kPeriod = 6;  // F, I, W of two chunks

struct Offsets {  // between neighbouring ranks
  int down, up, back_down, back_up;
};
struct Starts {  // of the first rank that runs the pass: F down, F up, I down, I up
  int up, back_down, back_up;
};

// Offsets of a rank's F0, F1, I1, I0.
std::array<int, 4> passes(const Offsets& by, const Starts& at, int p, int r) {
  const int from_turn = p - 1 - r;
  return {r * by.down, at.up + from_turn * by.up, at.back_down + r * by.back_down,
          at.back_up + from_turn * by.back_up};
}

bool collide(const Offsets& by, const Starts& at, int p) {
  for (int r = 0; r < std::min(p, kPeriod); ++r) {  // offsets repeat modulo the period
    auto residues = passes(by, at, p, r);
    for (int& residue : residues) {
      residue %= kPeriod;
    }
    std::sort(residues.begin(), residues.end());
    if (std::adjacent_find(residues.begin(), residues.end()) != residues.end()) {
      return true;
    }
  }
  return false;
}

// The earliest starts that let every pass follow what it depends on and collide with nothing.
Starts fit(const Offsets& by, int p) {
  Starts best{0, 0, std::numeric_limits<int>::max()};
  for (int a = 0; a < kPeriod; ++a) {
    for (int b = 0; b < kPeriod; ++b) {
      for (int c = 0; c < kPeriod; ++c) {
        Starts at{};
        at.up = (p - 1) * by.down + 1 + a;
        at.back_down = at.up + (p - 1) * by.up + 1 + b;
        at.back_up = at.back_down + (p - 1) * by.back_down + 1 + c;
        if (at.back_up < best.back_up && !collide(by, at, p)) {
          best = at;
        }
      }
    }
  }
  return best;
}

Order controllable(const Request& request, const Offsets& by) {
  const int p = request.stages;
  const Starts bare = fit(by, p);
  const int barriers = barriers_of(request);
  Order order;
  order.placement = Placement::vee;
  order.barriers = barriers;
  const Starts at{bare.up, bare.back_down + kPeriod * barriers, bare.back_up + kPeriod * barriers};
  const int output =
      at.up + (p - 1) * by.up + 1;  // the last stage, on rank 0, has its first output
  for (int r = 0; r < p; ++r) {
    const auto [f0, f1, i1, i0] = passes(by, at, p, r);
    std::array<bool, kPeriod> taken{};
    for (const int pass : {f0, f1, i1, i0}) {
      taken[static_cast<std::size_t>(pass % kPeriod)] = true;
    }
    const auto free_after = [&](int pass) {
      int time = pass + 1;
      while (taken[static_cast<std::size_t>(time % kPeriod)]) {
        ++time;
      }
      taken[static_cast<std::size_t>(time % kPeriod)] = true;
      return time;
    };
    const int w1 = free_after(i1);
    const int w0 = free_after(i0);
    std::vector<Brick> block;
    if (barriers > 0) {  // with time for the output to arrive; see vocabulary.cpp
      const int scores = output + kPeriod / 3;
      block.push_back(
          {Pass::vocabulary_grad, 0, barriers == 2 ? scores + kPeriod : at.back_down + 1});
      block.push_back({Pass::vocabulary, 0, scores});
    }
    block.insert(block.end(), {{Pass::forward, 0, f0},
                               {Pass::forward, 1, f1},
                               {Pass::input_grad, 1, i1},
                               {Pass::weight_grad, 1, w1},
                               {Pass::input_grad, 0, i0},
                               {Pass::weight_grad, 0, w0}});
    order.ranks.push_back(repeat(block, kPeriod, request.micro_batches));
  }
  return order;
}

}  // namespace

Made make_v_half(const Request& request) { return controllable(request, {2, 1, 2, 1}); }
Made make_v_min(const Request& request) { return controllable(request, {1, 1, 1, 1}); }

}  // namespace stepcast::schedule
