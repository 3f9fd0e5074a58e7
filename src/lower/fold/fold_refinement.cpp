#include "fold_refinement.h"

namespace stepcast::lower {

using program::kNone;

Refinement::Refinement(const FoldInput& w, Colour seed) : w_(w), seed_(splitmix(seed + 1)) {
  communicators_ = static_cast<std::uint32_t>(w.communicators.size());
  groups_.resize(w.communicators.size() + w.channels.size());
}

bool Refinement::refine(std::uint32_t budget) {
  begin();
  std::size_t before = 0;
  for (;;) {
    rank_ = classes_of(ranks_);
    if (rank_.count() > budget) {
      return false;
    }
    group_ = classes_of(groups_);
    resource_ = classes_of(resources_);
    const std::size_t now = std::size_t{rank_.count()} + group_.count() + resource_.count();
    if (now == before) {
      return true;
    }
    before = now;
    round();
  }
}

void Refinement::find_edges() {
  edges_.clear();
  edges_from_.assign(1, 0);
  for (std::uint32_t r = 0; r < w_.ranks.size(); ++r) {
    for_each_role(r, [&](std::uint32_t role, std::uint32_t group) {
      if (group != kNone) {
        const auto end = (role << 2U) + static_cast<std::uint32_t>(side(group, r));
        edges_.push_back({group, role, end});
      }
    });
    edges_from_.push_back(static_cast<std::uint32_t>(edges_.size()));
  }
}

void Refinement::begin() {
  find_edges();
  ranks_.clear();
  for (const program::Rank& r : w_.ranks) {
    ranks_.push_back(mix_colours(
        seed_, mix_colours(r.program, w_.shapes.empty() ? 0 : w_.shapes[r.copy_shape])));
  }
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    if (g < communicators_) {
      const program::Communicator& c = w_.communicators[g];
      groups_[g] =
          mix_colours(seed_ + 1, mix_colours(w_.shapes[c.shape], mix_colours(c.members, c.size)));
    } else {
      groups_[g] = mix_colours(seed_ + 2, w_.shapes[w_.channels[g - communicators_].shape]);
    }
  }
  resources_.clear();
  for (const std::uint32_t capacity : w_.capacities) {
    resources_.push_back(mix_colours(seed_ + 3, capacity));
  }
}

void Refinement::round() {
  around_groups_.assign(groups_.size(), 0);
  around_resources_.assign(resources_.size(), 0);
  std::vector<Colour> next = ranks_;
  const auto use = [&](Colour user, std::uint32_t first, std::uint32_t count) {
    Colour seen = 0;
    for (std::uint32_t k = first; k < first + count; ++k) {
      const program::Usage& u = w_.usages[k];
      const Colour how = (static_cast<Colour>(u.count) << 3) + u.kind;
      seen += mix_colours(resources_[u.resource], how);
      around_resources_[u.resource] += mix_colours(user, how);
    }
    return seen;
  };
  // A rank's roles are summed, each mixed with what it resolves to, so that none waits for another.
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    const Colour mine = ranks_[r];
    Colour seen = 0;
    for (std::uint32_t k = edges_from_[r]; k < edges_from_[r + 1]; ++k) {
      const Edge& e = edges_[k];
      seen += mix_colours(groups_[e.group], e.role);
      around_groups_[e.group] += mix_colours(mine, e.end);
    }
    next[r] = mix_colours(mix_colours(mine, seen),
                          use(mine, w_.ranks[r].first_usage, w_.ranks[r].usages));
  }
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    const auto [first, count] = usages(g);
    around_groups_[g] = mix_colours(around_groups_[g], use(groups_[g], first, count));
  }
  ranks_.swap(next);
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    groups_[g] = mix_colours(groups_[g], around_groups_[g]);
  }
  for (std::uint32_t j = 0; j < resources_.size(); ++j) {
    resources_[j] = mix_colours(resources_[j], around_resources_[j]);
  }
}

}  // namespace stepcast::lower
