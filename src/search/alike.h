// Combinations of a space that are one job: one stage runs no schedule and sends no messages, one
// tensor rank cuts no sequence and overlaps no products, and an order of ranks places no axis of
// one rank. The first of them stands for all. Here are those of several families; those of one are
// Inner::first_layout and first_free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "families.h"

namespace stepcast::search {

// The families that differ from `family` in the schedule or the order of ranks alone, by number.
std::vector<std::uint32_t> kin_of(const Family& family, const std::vector<Family>& before);

// The first of `family`'s kin for which the candidate, which is possible in `family`, is the same
// job as in `family`. `bounds`: of all families so far, `own` that of `family`.
std::optional<std::uint32_t> first_alike(const Family& family, const bound::Bound& own,
                                         const bound::Candidate& candidate,
                                         std::vector<forecast::Forecaster::Bounds>& bounds);

// Calls `visit(index, candidate, layout)` with every feasible layout that is no job of an earlier
// layout or family, and counts the others, each for its `free` combinations; nothing once
// `stopped()`. `bounds`: of all families so far, that of `family` last.
template <class Stopped, class Visit>
void each_own_layout(const Family& family, std::size_t free,
                     std::vector<forecast::Forecaster::Bounds>& bounds,
                     result::SearchCounts& counts, const Stopped& stopped, const Visit& visit) {
  bound::Bound& own = bounds.back().of;
  each_layout(family.inner, static_cast<int>(family.gpus),
              [&](std::uint64_t index, const bound::Candidate& c) {
                if (stopped()) {
                  return;
                }
                const bound::Bound::Layout* layout = c.data > 0 ? own.layout(c) : nullptr;
                if (layout == nullptr) {
                  counts.impossible += static_cast<std::int64_t>(free);
                } else if (family.inner.first_layout(index, c) != index ||
                           first_alike(family, own, c, bounds)) {
                  counts.alike += static_cast<std::int64_t>(free);
                } else {
                  visit(index, c, *layout);
                }
              });
}

}  // namespace stepcast::search
