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
#include <compare>
#include <map>
#include <tuple>

#include "stepcast/base/splitmix.h"

namespace stepcast::lower {
namespace {

using program::kNone;
using program::World;

using Colour = std::uint64_t;

constexpr Colour mix(Colour a, Colour b) { return splitmix(a * kSplitMixStep + b); }

// Dense class numbers, in order of first appearance.
class Numbering {
 public:
  explicit Numbering(std::size_t most) {
    std::size_t size = 16;
    while (size < 2 * most) {
      size *= 2;
    }
    keys_.resize(size);
    values_.assign(size, kNone);
  }
  std::uint32_t number(Colour c) {
    std::size_t i = c & (keys_.size() - 1);
    while (values_[i] != kNone && keys_[i] != c) {
      i = (i + 1) & (keys_.size() - 1);
    }
    if (values_[i] == kNone) {
      keys_[i] = c;
      values_[i] = count_++;
    }
    return values_[i];
  }
  std::uint32_t count() const { return count_; }

 private:
  std::vector<Colour> keys_;
  std::vector<std::uint32_t> values_;
  std::uint32_t count_ = 0;
};

struct Classes {
  std::vector<std::uint32_t> of;     // by element
  std::vector<std::uint32_t> first;  // by class: its representative
  std::uint32_t count() const { return static_cast<std::uint32_t>(first.size()); }
};

Classes classes_of(const std::vector<Colour>& colours) {
  Numbering n(colours.size());
  Classes c;
  c.of.reserve(colours.size());
  for (std::uint32_t i = 0; i < colours.size(); ++i) {
    c.of.push_back(n.number(colours[i]));
    if (c.of.back() == c.first.size()) {
      c.first.push_back(i);
    }
  }
  return c;
}

// Shapes with the same prices are the same.
std::vector<std::uint32_t> canonical_shapes(const World& w) {
  std::map<std::vector<std::int64_t>, std::uint32_t> known;
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < w.shapes.size(); ++i) {
    std::vector<std::int64_t> key;
    for (const program::Price& p : w.shapes[i].prices) {
      key.insert(key.end(), {p.latency, p.fluid, p.rate, p.bytes, p.latency_curve, p.curve,
                             p.pressure, p.label});
      key.insert(key.end(), std::begin(p.weight), std::end(p.weight));
    }
    out.push_back(known.emplace(std::move(key), i).first->second);
  }
  return out;
}

struct Load {
  std::uint32_t other = 0;  // resource class, or class of users
  std::uint32_t kind = 0;
  std::int64_t count = 0;
  auto operator<=>(const Load&) const = default;
};

// Usually the order is the same too, so try that first.
template <class T>
bool same_multiset(std::vector<T>& a, std::vector<T>& b) {
  if (a == b) {
    return true;
  }
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

struct Members {  // of groups: (rank, role), by group
  std::vector<std::uint32_t> start;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> list;
};

class Refinement {
 public:
  Refinement(const World& w, Colour seed)
      : w_(w), seed_(splitmix(seed + 1)), shapes_(canonical_shapes(w)) {
    communicators_ = static_cast<std::uint32_t>(w.communicators.size());
    groups_.resize(w.communicators.size() + w.channels.size());
  }

  // False when more than `budget` rank classes appear.
  bool refine(std::uint32_t budget) {
    begin();
    std::size_t before = 0;
    for (;;) {
      const Classes ranks = classes_of(ranks_);
      if (ranks.count() > budget) {
        return false;
      }
      const std::size_t now =
          ranks.count() + classes_of(groups_).count() + classes_of(resources_).count();
      if (now == before) {
        return true;
      }
      before = now;
      round();
    }
  }

  bool equitable() const;
  Folded folded() const;
  void number() {
    rank_ = classes_of(ranks_);
    group_ = classes_of(groups_);
    resource_ = classes_of(resources_);
  }

 private:
  const World& w_;
  Colour seed_;
  std::vector<std::uint32_t> shapes_;
  std::uint32_t communicators_ = 0;
  std::vector<Colour> ranks_;
  std::vector<Colour> groups_;
  std::vector<Colour> resources_;
  std::vector<Colour> around_groups_;
  std::vector<Colour> around_resources_;
  Classes rank_;
  Classes group_;
  Classes resource_;

  std::uint32_t roles(std::uint32_t rank) const {
    return w_.programs[w_.ranks[rank].program].communicator_roles;
  }
  std::uint32_t channel_roles(std::uint32_t rank) const {
    return w_.programs[w_.ranks[rank].program].channel_roles;
  }
  // Calls f(role, group) for what a rank's roles resolve to; channel roles follow those of
  // communicators.
  template <class F>
  void for_each_role(std::uint32_t rank, F&& f) const {
    const program::Rank& r = w_.ranks[rank];
    const std::uint32_t n = roles(rank);
    for (std::uint32_t k = 0; k < n; ++k) {
      const std::uint32_t id = w_.communicator_table[r.first_communicator + k];
      f(k, id == kNone ? kNone : id);
    }
    const std::uint32_t m = channel_roles(rank);
    for (std::uint32_t k = 0; k < m; ++k) {
      const std::uint32_t id = w_.channel_table[r.first_channel + k];
      f(n + k, id == kNone ? kNone : communicators_ + id);
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
  Members members() const;
  void begin();
  void round();
  bool ranks_agree() const;
  bool groups_agree() const;
  bool resources_agree() const;
  void used(std::uint32_t first, std::uint32_t count, std::vector<Load>& out) const;
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
  void fold_usages(World& out) const;
};

void Refinement::begin() {
  ranks_.clear();
  for (const program::Rank& r : w_.ranks) {
    ranks_.push_back(mix(seed_, mix(r.program, w_.shapes.empty() ? 0 : shapes_[r.copy_shape])));
  }
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    if (g < communicators_) {
      const program::Communicator& c = w_.communicators[g];
      groups_[g] = mix(seed_ + 1, mix(shapes_[c.shape], mix(c.members, c.size)));
    } else {
      groups_[g] = mix(seed_ + 2, shapes_[w_.channels[g - communicators_].shape]);
    }
  }
  resources_.clear();
  for (const program::Resource& r : w_.resources) {
    resources_.push_back(mix(seed_ + 3, static_cast<Colour>(r.capacity)));
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
      seen += mix(resources_[u.resource], how);
      around_resources_[u.resource] += mix(user, how);
    }
    return seen;
  };
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    Colour c = ranks_[r];
    for_each_role(r, [&](std::uint32_t role, std::uint32_t group) {
      c = mix(c, group == kNone ? 0 : groups_[group]);
      if (group != kNone) {
        around_groups_[group] += mix(ranks_[r], (Colour{role} << 2) + side(group, r));
      }
    });
    next[r] = mix(c, use(ranks_[r], w_.ranks[r].first_usage, w_.ranks[r].usages));
  }
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    const auto [first, count] = usages(g);
    around_groups_[g] = mix(around_groups_[g], use(groups_[g], first, count));
  }
  ranks_.swap(next);
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    groups_[g] = mix(groups_[g], around_groups_[g]);
  }
  for (std::uint32_t j = 0; j < resources_.size(); ++j) {
    resources_[j] = mix(resources_[j], around_resources_[j]);
  }
}

Members Refinement::members() const {
  Members m;
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

void Refinement::used(std::uint32_t first, std::uint32_t count, std::vector<Load>& out) const {
  out.clear();
  for (std::uint32_t k = first; k < first + count; ++k) {
    out.push_back({resource_.of[w_.usages[k].resource], w_.usages[k].kind, w_.usages[k].count});
  }
}

bool Refinement::ranks_agree() const {
  std::vector<std::uint32_t> mine;
  std::vector<std::uint32_t> its;
  std::vector<Load> load;
  std::vector<Load> rep_load;
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
    if (mine != its || !same_multiset(load, rep_load)) {
      return false;
    }
  }
  return true;
}

bool Refinement::groups_agree() const {
  const Members m = members();
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
  std::vector<Load> load;
  std::vector<Load> rep_load;
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
    if (!same_multiset(mine, its) || !same_multiset(load, rep_load)) {
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
  std::vector<Load> loads(start.back());
  std::vector<std::uint32_t> next(start.begin(), start.end() - 1);
  for_each_usage([&](std::uint32_t user, const program::Usage& u) {
    loads[next[u.resource]++] = {user, u.kind, u.count};
  });
  std::vector<Load> mine;
  std::vector<Load> its;
  for (std::uint32_t j = 0; j < resources_.size(); ++j) {
    const std::uint32_t rep = resource_.first[resource_.of[j]];
    if (w_.resources[j].capacity != w_.resources[rep].capacity) {
      return false;
    }
    mine.assign(loads.begin() + start[j], loads.begin() + start[j + 1]);
    its.assign(loads.begin() + start[rep], loads.begin() + start[rep + 1]);
    if (!same_multiset(mine, its)) {
      return false;
    }
  }
  return true;
}

bool Refinement::equitable() const { return ranks_agree() && groups_agree() && resources_agree(); }

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
    out.usages.push_back({resource, kind, count});
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
  out.programs = w_.programs;
  out.shapes = w_.shapes;
  out.curves = w_.curves;
  out.slowdowns = w_.slowdowns;
  out.transfer_speed = w_.transfer_speed;
  out.labels = w_.labels;
  for (const std::uint32_t j : resource_.first) {
    out.resources.push_back(w_.resources[j]);
  }
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
      c.sender = rank_.of[c.sender];
      c.receiver = rank_.of[c.receiver];
      out.channels.push_back(c);
    }
  }
  for (const std::uint32_t rep : rank_.first) {
    program::Rank r = w_.ranks[rep];
    r.first_communicator = static_cast<std::uint32_t>(out.communicator_table.size());
    r.first_channel = static_cast<std::uint32_t>(out.channel_table.size());
    for_each_role(rep, [&](std::uint32_t role, std::uint32_t g) {
      if (role < roles(rep)) {
        out.communicator_table.push_back(g == kNone ? kNone : group_.of[g]);
        if (g != kNone) {
          ++out.communicators[group_.of[g]].members;  // members of one class and role arrive once
        }
      } else {
        out.channel_table.push_back(g == kNone ? kNone : group_.of[g] - communicator_classes);
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

}  // namespace

std::optional<Folded> fold(const World& full, std::uint32_t budget) {
  for (Colour seed = 0; seed < 8; ++seed) {
    Refinement r(full, seed);
    if (!r.refine(budget)) {
      return std::nullopt;
    }
    r.number();
    if (r.equitable()) {
      return r.folded();
    }
  }
  return std::nullopt;  // eight collisions of 64-bit hashes in a row
}

}  // namespace stepcast::lower
