// The classes of a refinement held against one representative each.
#include <algorithm>

#include "fold_refinement.h"

namespace stepcast::lower {

namespace {

// Usually the order is the same too, so try that first.
template <class T>
bool equal_as_multisets(std::vector<T>& a, std::vector<T>& b) {
  if (a == b) {
    return true;
  }
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

}  // namespace

GroupMembers Refinement::members() const {
  GroupMembers m;
  m.start.assign(groups_.size() + 1, 0);
  for (const Edge& e : edges_) {
    ++m.start[e.group + 1];
  }
  for (std::size_t g = 1; g < m.start.size(); ++g) {
    m.start[g] += m.start[g - 1];
  }
  m.list.resize(m.start.back());
  std::vector<std::uint32_t> next(m.start.begin(), m.start.end() - 1);
  for (std::uint32_t r = 0; r < w_.ranks.size(); ++r) {
    for (std::uint32_t k = edges_from_[r]; k < edges_from_[r + 1]; ++k) {
      m.list[next[edges_[k].group]++] = {r, edges_[k].end};
    }
  }
  return m;
}

void Refinement::used(std::uint32_t first, std::uint32_t count,
                      std::vector<ResourceLoad>& out) const {
  out.clear();
  for (std::uint32_t k = first; k < first + count; ++k) {
    out.push_back({resource_.of[w_.usages[k].resource], w_.usages[k].kind, w_.usages[k].count});
  }
}

// The roles of both resolve to groups of the same classes.
bool Refinement::roles_agree(std::uint32_t rank, std::uint32_t rep) const {
  const std::uint32_t count = edges_from_[rank + 1] - edges_from_[rank];
  if (count != edges_from_[rep + 1] - edges_from_[rep]) {
    return false;
  }
  const Edge* mine = edges_.data() + edges_from_[rank];
  const Edge* its = edges_.data() + edges_from_[rep];
  for (std::uint32_t k = 0; k < count; ++k) {
    if (mine[k].role != its[k].role || group_.of[mine[k].group] != group_.of[its[k].group]) {
      return false;
    }
  }
  return true;
}

bool Refinement::ranks_agree() const {
  std::vector<ResourceLoad> load;
  std::vector<ResourceLoad> rep_load;
  for (std::uint32_t r = 0; r < w_.ranks.size(); ++r) {
    const std::uint32_t rep = rank_.first[rank_.of[r]];
    if (rep == r) {
      continue;
    }
    if (w_.ranks[r].program != w_.ranks[rep].program ||
        (!w_.shapes.empty() &&
         w_.shapes[w_.ranks[r].copy_shape] != w_.shapes[w_.ranks[rep].copy_shape]) ||
        w_.ranks[r].usages != w_.ranks[rep].usages || !roles_agree(r, rep)) {
      return false;
    }
    if (w_.ranks[r].usages > 0) {
      used(w_.ranks[r].first_usage, w_.ranks[r].usages, load);
      used(w_.ranks[rep].first_usage, w_.ranks[rep].usages, rep_load);
      if (!equal_as_multisets(load, rep_load)) {
        return false;
      }
    }
  }
  return true;
}

bool Refinement::groups_agree() const {
  // Classes and ends of a group's members, and what it uses.
  struct Around {
    std::vector<std::uint64_t> members;
    std::vector<ResourceLoad> load;
  };
  const GroupMembers m = members();
  const auto look_around = [&](std::uint32_t g, Around& out) {
    out.members.clear();
    for (std::uint32_t k = m.start[g]; k < m.start[g + 1]; ++k) {
      const auto [rank, end] = m.list[k];
      out.members.push_back((std::uint64_t{rank_.of[rank]} << 32) + end);
    }
    const auto [first, count] = usages(g);
    used(first, count, out.load);
  };
  std::vector<Around> of_class(group_.count());
  Around mine;
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    const std::uint32_t rep = group_.first[group_.of[g]];
    Around& its = of_class[group_.of[g]];
    if (rep == g) {  // ahead of all others of its class
      look_around(g, its);
      continue;
    }
    if ((g < communicators_) != (rep < communicators_)) {
      return false;
    }
    if (g < communicators_) {
      const program::Communicator& a = w_.communicators[g];
      const program::Communicator& b = w_.communicators[rep];
      if (w_.shapes[a.shape] != w_.shapes[b.shape] || a.members != b.members || a.size != b.size) {
        return false;
      }
    } else if (w_.shapes[w_.channels[g - communicators_].shape] !=
               w_.shapes[w_.channels[rep - communicators_].shape]) {
      return false;
    }
    look_around(g, mine);
    if (!equal_as_multisets(mine.members, its.members) ||
        !equal_as_multisets(mine.load, its.load)) {
      return false;
    }
  }
  return true;
}

// Every resource of a class carries the same load from each class of users.
bool Refinement::resources_agree() const {
  std::vector<std::uint32_t> start(resources_.size() + 1, 0);
  for_each_usage([&](std::uint32_t, const program::Usage& u) { ++start[u.resource + 1]; });
  for (std::size_t j = 1; j < start.size(); ++j) {
    start[j] += start[j - 1];
  }
  std::vector<ResourceLoad> loads(start.back());
  std::vector<std::uint32_t> next(start.begin(), start.end() - 1);
  for_each_usage([&](std::uint32_t user, const program::Usage& u) {
    loads[next[u.resource]++] = {user, u.kind, u.count};
  });
  std::vector<ResourceLoad> mine;
  std::vector<ResourceLoad> its;
  for (std::uint32_t j = 0; j < resources_.size(); ++j) {
    const std::uint32_t rep = resource_.first[resource_.of[j]];
    if (w_.capacities[j] != w_.capacities[rep]) {
      return false;
    }
    mine.assign(loads.begin() + start[j], loads.begin() + start[j + 1]);
    its.assign(loads.begin() + start[rep], loads.begin() + start[rep + 1]);
    if (!equal_as_multisets(mine, its)) {
      return false;
    }
  }
  return true;
}

bool Refinement::equitable() const { return ranks_agree() && groups_agree() && resources_agree(); }

}  // namespace stepcast::lower
