// Colour refinement.
//
// Ranks, groups (communicators, then channels) and resources are coloured. A round gives every
// element a new colour from its own and those around it: a rank from what its roles resolve to, in
// order; a group from its members' colours and roles, as a multiset; a group, or a rank's copies,
// from the resources used; a resource from who uses it. When a round splits nothing the partition
// is equitable: elements of one colour see the same colours around them, so they live the same
// life.
//
// Colours are 64-bit hashes while refining, which costs one pass over the edges a round. A
// collision could only merge what differs, so the result is checked exactly against one
// representative per class; should that ever fail, other seeds are tried.
#include "stepcast/lower/fold.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "fold_refinement.h"

namespace stepcast::lower {

using program::kNone;
using program::World;

// A user class loads one resource of a class with what all its members together put on that
// resource.
void Refinement::fold_usages(World& out) const {
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::int64_t>
      load;  // user, resource class, kind
  for_each_usage([&](std::uint32_t user, const program::Usage& u) {
    const std::uint32_t c = resource_.of[u.resource];
    if (resource_.first[c] == u.resource) {
      load[{user, c, u.kind}] += u.count;
    }
  });
  std::vector<std::pair<std::uint32_t, std::uint32_t>> of(rank_.count() + group_.count(), {0, 0});
  for (const auto& [key, count] : load) {
    const auto& [user, resource, kind] = key;
    if (of[user].second == 0) {
      of[user].first = static_cast<std::uint32_t>(out.usages.size());
    }
    ++of[user].second;
    out.usages.push_back({program::ResourceId::at(resource), kind, count});
  }
  for (std::uint32_t r = 0; r < out.ranks.size(); ++r) {
    out.ranks[r].first_usage = of[r].first;
    out.ranks[r].usages = of[r].second;
  }
  std::uint32_t communicator = 0;
  std::uint32_t channel = 0;
  for (std::uint32_t g = 0; g < group_.count(); ++g) {
    const auto [first, count] = of[rank_.count() + g];
    if (group_.first[g] < communicators_) {
      out.communicators[communicator].first_usage = first;
      out.communicators[communicator++].usages = count;
    } else {
      out.channels[channel].first_usage = first;
      out.channels[channel++].usages = count;
    }
  }
}

Folded Refinement::folded() const {
  Folded f;
  World& out = f.world;
  f.class_of = rank_.of;
  // Communicators come first among groups, so their classes do too.
  std::uint32_t communicator_classes = 0;
  for (const std::uint32_t g : group_.first) {
    communicator_classes += g < communicators_ ? 1 : 0;
  }
  for (const std::uint32_t g : group_.first) {
    if (g < communicators_) {
      program::Communicator c = w_.communicators[g];
      c.members = 0;  // counted below
      out.communicators.push_back(c);
    } else {
      program::Channel c = w_.channels[g - communicators_];
      c.sender = program::RankId::at(rank_.of[c.sender]);
      c.receiver = program::RankId::at(rank_.of[c.receiver]);
      out.channels.push_back(c);
    }
  }
  for (const std::uint32_t rep : rank_.first) {
    program::Rank r = w_.ranks[rep];
    r.first_communicator = static_cast<std::uint32_t>(out.communicator_table.size());
    r.first_channel = static_cast<std::uint32_t>(out.channel_table.size());
    for_each_role(rep, [&](std::uint32_t role, std::uint32_t g) {
      if (role < roles(rep)) {
        out.communicator_table.push_back(
            program::CommunicatorId::at(g == kNone ? kNone : group_.of[g]));
        if (g != kNone) {
          ++out.communicators[group_.of[g]].members;  // members of one class and role arrive once
        }
      } else {
        out.channel_table.push_back(
            program::ChannelId::at(g == kNone ? kNone : group_.of[g] - communicator_classes));
      }
    });
    out.ranks.push_back(r);
  }
  out.multiplicity.assign(rank_.count(), 0);
  for (std::uint32_t r = 0; r < w_.ranks.size(); ++r) {
    out.multiplicity[rank_.of[r]] += w_.multiplicity.empty() ? 1 : w_.multiplicity[r];
  }
  fold_usages(out);
  return f;
}

namespace {

// What folding finds: of all that is not in the input, where it stands in the full world.
struct Found {
  Folded folded;
  std::vector<std::uint32_t> resources;  // of the full world, by the folded one's
};

std::optional<Found> find(const FoldInput& input, std::uint32_t budget) {
  for (Colour seed = 0; seed < 8; ++seed) {
    Refinement r(input, seed);
    if (!r.refine(budget)) {
      return std::nullopt;
    }
    if (r.equitable()) {
      return Found{r.folded(), r.first_resources()};
    }
  }
  return std::nullopt;  // eight collisions of 64-bit hashes in a row
}

// Copies from the full world what was found to stand in it, and what does not depend on the number
// of ranks, or moves that.
template <class From>
Folded complete(Found found, From&& full) {
  World& out = found.folded.world;
  for (const std::uint32_t r : found.resources) {
    out.resources.push_back(full.resources[r]);
  }
  out.programs = std::forward<From>(full).programs;
  out.shapes = std::forward<From>(full).shapes;
  out.curves = std::forward<From>(full).curves;
  out.slowdowns = std::forward<From>(full).slowdowns;
  out.transfer_speed = std::forward<From>(full).transfer_speed;
  out.labels = std::forward<From>(full).labels;
  return std::move(found.folded);
}

}  // namespace

struct FoldMemo::Known {
  FoldInput input;
  std::uint32_t budget = 0;
  Found found;
};

FoldMemo::FoldMemo() = default;
FoldMemo::~FoldMemo() = default;
FoldMemo::FoldMemo(FoldMemo&&) noexcept = default;

const FoldMemo::Known* FoldMemo::find_known(const FoldInput& equals, const World& full,
                                            std::uint32_t budget) {
  const auto at = std::find_if(known_.begin(), known_.end(), [&](const auto& one) {
    return one->budget == budget && same_input(one->input, equals, full);
  });
  if (at == known_.end()) {
    return nullptr;
  }
  std::rotate(known_.begin(), at, at + 1);
  return known_.front().get();
}

void FoldMemo::keep(std::unique_ptr<Known> one) {
  constexpr std::size_t kMost = 4;
  constexpr std::size_t kMostBytes = 64 << 20;
  known_.insert(known_.begin(), std::move(one));
  std::size_t bytes = 0;
  std::size_t kept = 0;
  for (; kept < std::min(kMost, known_.size()) && bytes <= kMostBytes; ++kept) {
    bytes += size_of(known_[kept]->input);
  }
  known_.resize(bytes <= kMostBytes ? kept : kept - 1);
}

std::optional<Folded> FoldMemo::fold(World&& full, std::uint32_t budget) {
  FoldInput input = equals_of(full);
  if (const Known* known = find_known(input, full, budget)) {
    return complete(known->found, std::move(full));
  }
  take_tables(full, input);
  std::optional<Found> found = find(input, budget);
  if (!found) {
    give_back_tables(input, full);
    return std::nullopt;
  }
  keep(std::make_unique<Known>(Known{std::move(input), budget, *found}));
  return complete(std::move(*found), std::move(full));
}

std::optional<Folded> fold(const World& full, std::uint32_t budget) {
  FoldInput input = equals_of(full);
  copy_tables(full, input);
  std::optional<Found> found = find(input, budget);
  return found ? std::optional(complete(std::move(*found), full)) : std::nullopt;
}

std::optional<Folded> fold(World&& full, std::uint32_t budget) {
  FoldInput input = equals_of(full);
  take_tables(full, input);
  std::optional<Found> found = find(input, budget);
  if (!found) {
    give_back_tables(input, full);
    return std::nullopt;
  }
  return complete(std::move(*found), std::move(full));
}

}  // namespace stepcast::lower
