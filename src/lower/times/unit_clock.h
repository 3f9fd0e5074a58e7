// Streams and host of one rank that run a unit's items by themselves: what closed forms and
// benchmarks of a layer add up.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "../passes/passes.h"
#include "beside.h"
#include "stepcast/lower/lower.h"

namespace stepcast::lower {

// What the messages of rank 0 cost: every group that it is in, and its hops round rings.
class FirstRank {
 public:
  FirstRank(const strategy::Plan& plan, const cluster::Topology& topology, const Prices& prices,
            const PriceBook& book);
  // Nothing where the role has no group or ring there.
  std::optional<cost::CollectivePrice> collective(const Item& item) const;
  // The longer of sending and receiving.
  std::optional<cost::CollectivePrice> ring(const Item& item) const;

 private:
  const Prices& prices_;
  const PriceBook& book_;
  std::array<cluster::GroupShape, kRoles> shapes_;
  std::vector<cluster::Path> context_hops_, tensor_hops_;
};

// Where compute stream and host stand.
struct Clocks {
  Time compute{0};
  Time host{0};
};
// Long enough ago never to be waited for.
inline constexpr Time kLongAgo = Time::min() / 4;

// Roles whose collectives beside compute share a stream (stage_state.cpp: stream_of) are counted
// under the first of them.
Role stream_role(Role role);

// What a pass spent, whether or not something waited for it.
struct Spent {
  Time kernels{0};                   // on the compute stream
  std::array<Time, kRoles> moved{};  // in collectives and messages, by stream_role
  std::map<cost::CurveId, Time> curves;
};

// LAW  As stage_state.cpp issues items: the host launches in order (`launch` for each kernel, and a
//      pass's `overhead` spread over them; it may wait for each), a free stream starts what has
//      been launched, and waits join streams. Kernels lose what beside.h says beside collectives.
//      An engine whose clocks are at `at` or later when a pass begins has them at the result of
//      run() or later when it ends.
class UnitClock {
 public:
  UnitClock(const strategy::Plan& plan, const cost::Kernels& kernels,
            const hardware::Device& device, const FirstRank& messages);
  Clocks run(const std::vector<Item>& items, Clocks at, Spent& spent) const;
  // What the host launches and works, whatever it waits for.
  Time issue(const std::vector<Item>& items) const;

 private:
  Time paced(const std::vector<Item>& items) const;  // host time of a launch

  const FirstRank& messages_;
  const hardware::Device& device_;
  cost::Overlap overlap_;
  Time launch_{0};
  Time overhead_{0};
  bool waits_each_launch_ = false;
};

}  // namespace stepcast::lower
