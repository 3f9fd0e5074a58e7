// Combinations of a space that are one job: one stage runs no schedule and sends no messages, one
// tensor rank cuts no sequence and overlaps no products, and an order of ranks places no axis of
// one rank. The first of them stands for all. Here are those of several families; those of one are
// Inner::first_layout and first_free.
#pragma once

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

}  // namespace stepcast::search
