// The classes of a refinement held against one representative each.
#include <algorithm>

#include "fold_refinement.h"

namespace stepcast::lower {

using program::kNone;

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
  for (std::uint32_t r = 0; r < w_.ranks.size(); ++r) {
    for_each_role(r, [&](std::uint32_t, std::uint32_t group) {
      if (group != kNone) {
        ++m.start[group + 1];
      }
    });
  }
  for (std::size_t g = 1; g < m.start.size(); ++g) {
    m.start[g] += m.start[g - 1];
  }
  m.list.resize(m.start.back());
  std::vector<std::uint32_t> next(m.start.begin(), m.start.end() - 1);
  for (std::uint32_t r = 0; r < w_.ranks.size(); ++r) {
    for_each_role(r, [&](std::uint32_t role, std::uint32_t group) {
      if (group != kNone) {
        m.list[next[group]++] = {r, role};
      }
    });
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

bool Refinement::ranks_agree() const {
  std::vector<std::uint32_t> mine;
  std::vector<std::uint32_t> its;
  std::vector<ResourceLoad> load;
  std::vector<ResourceLoad> rep_load;
  for (std::uint32_t r = 0; r < w_.ranks.size(); ++r) {
    const std::uint32_t rep = rank_.first[rank_.of[r]];
    if (rep == r) {
      continue;
    }
    if (w_.ranks[r].program != w_.ranks[rep].program ||
        (!w_.shapes.empty() &&
         shapes_[w_.ranks[r].copy_shape] != shapes_[w_.ranks[rep].copy_shape]) ||
        w_.ranks[r].usages != w_.ranks[rep].usages) {
      return false;
    }
    mine.clear();
    its.clear();
    for_each_role(r, [&](std::uint32_t, std::uint32_t g) {
      mine.push_back(g == kNone ? kNone : group_.of[g]);
    });
    for_each_role(rep, [&](std::uint32_t, std::uint32_t g) {
      its.push_back(g == kNone ? kNone : group_.of[g]);
    });
    used(w_.ranks[r].first_usage, w_.ranks[r].usages, load);
    used(w_.ranks[rep].first_usage, w_.ranks[rep].usages, rep_load);
    if (mine != its || !equal_as_multisets(load, rep_load)) {
      return false;
    }
  }
  return true;
}

bool Refinement::groups_agree() const {
  const GroupMembers m = members();
  const auto signature = [&](std::uint32_t g, std::vector<std::uint64_t>& out) {
    out.clear();
    for (std::uint32_t k = m.start[g]; k < m.start[g + 1]; ++k) {
      const auto [rank, role] = m.list[k];
      out.push_back((std::uint64_t{rank_.of[rank]} << 32) + (std::uint64_t{role} << 2) +
                    side(g, rank));
    }
  };
  std::vector<std::uint64_t> mine;
  std::vector<std::uint64_t> its;
  std::vector<ResourceLoad> load;
  std::vector<ResourceLoad> rep_load;
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    const std::uint32_t rep = group_.first[group_.of[g]];
    if (rep == g) {
      continue;
    }
    if ((g < communicators_) != (rep < communicators_)) {
      return false;
    }
    if (g < communicators_) {
      const program::Communicator& a = w_.communicators[g];
      const program::Communicator& b = w_.communicators[rep];
      if (shapes_[a.shape] != shapes_[b.shape] || a.members != b.members || a.size != b.size) {
        return false;
      }
    } else if (shapes_[w_.channels[g - communicators_].shape] !=
               shapes_[w_.channels[rep - communicators_].shape]) {
      return false;
    }
    signature(g, mine);
    signature(rep, its);
    const auto [first, count] = usages(g);
    const auto [rep_first, rep_count] = usages(rep);
    used(first, count, load);
    used(rep_first, rep_count, rep_load);
    if (!equal_as_multisets(mine, its) || !equal_as_multisets(load, rep_load)) {
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
    if (w_.resources[j].capacity != w_.resources[rep].capacity) {
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
