// Streams and host of one rank that run a unit's items by themselves: what closed forms and
// benchmarks of a layer add up.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "passes.h"
#include "stepcast/lower/lower.h"

namespace stepcast::lower {

// What the messages of rank 0 cost: every group that it is in, and its hops round rings.
class FirstRank {
 public:
  FirstRank(const strategy::Plan& plan, const cluster::Topology& topology, const Prices& prices,
            const PriceBook& book);
  // Nothing where the role has no group or ring there.
  std::optional<cost::CollectivePrice> collective(const Item& item) const;
  // The longer of the message that leaves and the one that comes.
  std::optional<cost::CollectivePrice> ring(const Item& item) const;

 private:
  const Prices& prices_;
  const PriceBook& book_;
  std::array<cluster::GroupShape, kRoles> shapes_;
  std::vector<cluster::Path> context_hops_, tensor_hops_;
};

// Where compute stream and host stand, in picoseconds.
struct Clocks {
  std::int64_t compute = 0;
  std::int64_t host = 0;
};
// So long ago that it never binds.
inline constexpr std::int64_t kLongAgo = std::numeric_limits<std::int64_t>::min() / 4;

// Roles whose collectives beside compute share a stream, by the first of them (stage.cpp:
// stream_of).
Role stream_role(Role role);

// What a pass spent, whichever of it was waited for.
struct Spent {
  std::int64_t kernels = 0;                  // on the compute stream
  std::array<std::int64_t, kRoles> moved{};  // in collectives and messages, by stream_role
  std::map<cost::CurveId, Time> curves;
};

// LAW  As stage.cpp issues it: the host launches in order (`launch` for each kernel, and a pass's
//      `overhead` spread over them), a stream starts what has been launched when it is free, and
//      waits join them. Where the clocks stand behind a pass never lies before where they stand
//      there in an engine that entered with clocks at or behind `at`.
class UnitClock {
 public:
  UnitClock(const strategy::Plan& plan, const cost::Kernels& kernels, const FirstRank& messages);
  Clocks run(const std::vector<Item>& items, Clocks at, Spent& spent) const;

 private:
  const FirstRank& messages_;
  std::int64_t launch_ = 0;
  std::int64_t overhead_ = 0;
};

}  // namespace stepcast::lower
