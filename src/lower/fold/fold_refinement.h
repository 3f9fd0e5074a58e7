// Colour refinement of a world's ranks, groups and resources.
#pragma once

#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

#include "fold_classes.h"
#include "fold_input.h"
#include "stepcast/lower/fold.h"

namespace stepcast::lower {

// How often users of one class use a resource, or what of a resource class a user uses.
struct ResourceLoad {
  std::uint32_t other = 0;  // resource class, or class of users
  std::uint32_t kind = 0;
  std::int64_t count = 0;
  auto operator<=>(const ResourceLoad&) const = default;
};

// Members of groups: (rank, Edge::end), those of one group next to each other.
struct GroupMembers {
  std::vector<std::uint32_t> start;  // by group
  std::vector<std::pair<std::uint32_t, std::uint32_t>> list;
};

class Refinement {
 public:
  Refinement(const FoldInput& w, Colour seed);

  // False when more than `budget` rank classes appear.
  bool refine(std::uint32_t budget);

  // Of what refine() found: every element sees what its class's representative sees.
  bool equitable() const;
  // Without resources and without the tables that a folded world has in common with the full one.
  Folded folded() const;
  // By class of resources: the first of the class.
  const std::vector<std::uint32_t>& first_resources() const { return resource_.first; }

 private:
  std::uint32_t roles(std::uint32_t rank) const {
    return w_.roles[w_.ranks[rank].program].communicators;
  }
  std::uint32_t channel_roles(std::uint32_t rank) const {
    return w_.roles[w_.ranks[rank].program].channels;
  }
  // Calls f(role, group) for what a rank's roles resolve to; channel roles follow those of
  // communicators.
  template <class F>
  void for_each_role(std::uint32_t rank, F&& f) const {
    const program::Rank& r = w_.ranks[rank];
    const std::uint32_t n = roles(rank);
    for (std::uint32_t k = 0; k < n; ++k) {
      const std::uint32_t id = w_.communicator_table[r.first_communicator + k];
      f(k, id == program::kNone ? program::kNone : id);
    }
    const std::uint32_t m = channel_roles(rank);
    for (std::uint32_t k = 0; k < m; ++k) {
      const std::uint32_t id = w_.channel_table[r.first_channel + k];
      f(n + k, id == program::kNone ? program::kNone : communicators_ + id);
    }
  }
  std::pair<std::uint32_t, std::uint32_t> usages(std::uint32_t group) const {
    if (group < communicators_) {
      return {w_.communicators[group].first_usage, w_.communicators[group].usages};
    }
    const program::Channel& c = w_.channels[group - communicators_];
    return {c.first_usage, c.usages};
  }
  // Which end of a channel a rank is: 1 sender, 2 receiver.
  Colour side(std::uint32_t group, std::uint32_t rank) const {
    if (group < communicators_) {
      return 0;
    }
    const program::Channel& c = w_.channels[group - communicators_];
    return (c.sender == rank ? 1U : 0U) + (c.receiver == rank ? 2U : 0U);
  }
  GroupMembers members() const;
  // First colours, and one round of new ones.
  void find_edges();
  void begin();
  void round();
  bool roles_agree(std::uint32_t rank, std::uint32_t rep) const;
  bool ranks_agree() const;
  bool groups_agree() const;
  bool resources_agree() const;
  // What `count` usages from `first` on load, by resource class.
  void used(std::uint32_t first, std::uint32_t count, std::vector<ResourceLoad>& out) const;
  // Calls f(user class, usage): rank classes, then group classes.
  template <class F>
  void for_each_usage(F&& f) const {
    for (std::uint32_t r = 0; r < w_.ranks.size(); ++r) {
      for (std::uint32_t k = 0; k < w_.ranks[r].usages; ++k) {
        f(rank_.of[r], w_.usages[w_.ranks[r].first_usage + k]);
      }
    }
    for (std::uint32_t g = 0; g < groups_.size(); ++g) {
      const auto [first, count] = usages(g);
      for (std::uint32_t k = first; k < first + count; ++k) {
        f(rank_.count() + group_.of[g], w_.usages[k]);
      }
    }
  }
  void fold_usages(program::World& out) const;

  const FoldInput& w_;
  Colour seed_;
  std::uint32_t communicators_ = 0;  // groups from this number on are channels
  std::vector<Colour> ranks_;
  std::vector<Colour> groups_;
  std::vector<Colour> resources_;
  struct Edge {  // what one role of a rank resolves to
    std::uint32_t group = 0;
    std::uint32_t role = 0;
    std::uint32_t end = 0;  // the role, and which end of a channel
  };
  std::vector<Edge> edges_;                // rank by rank
  std::vector<std::uint32_t> edges_from_;  // by rank: into edges_; one entry more than ranks
  std::vector<Colour> around_groups_;      // of a round: what is seen around each element
  std::vector<Colour> around_resources_;
  Classes rank_;  // of the last round
  Classes group_;
  Classes resource_;
};

}  // namespace stepcast::lower
