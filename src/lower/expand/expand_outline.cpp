#include "expand_outline.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace stepcast::lower {

using cost::Collective;

std::uint32_t Sizes::id(std::int64_t bytes) {
  const auto known = std::find(all_.begin(), all_.end(), bytes);
  if (known != all_.end()) {
    return static_cast<std::uint32_t>(known - all_.begin());
  }
  all_.push_back(bytes);
  return static_cast<std::uint32_t>(all_.size() - 1);
}

void Outline::append_to(std::vector<std::int64_t>& key) const {
  key.push_back(static_cast<std::int64_t>(blocks.size()));
  for (const ExchangeBlock& b : blocks) {
    key.insert(key.end(), {b.stream, b.steps, b.paced_by, static_cast<std::int64_t>(b.after.size()),
                           static_cast<std::int64_t>(b.moves.size())});
    key.insert(key.end(), b.after.begin(), b.after.end());
    for (const Exchange& m : b.moves) {
      key.insert(key.end(), {m.role, m.size, m.delay, m.count, m.sends ? 1 : 0});
    }
  }
}

namespace {

constexpr int kNobody = -1;

// A set of members of the group that run a pattern among themselves.
using Team = std::vector<int>;

std::int64_t share(std::int64_t bytes, std::int64_t parts) { return (bytes + parts - 1) / parts; }

// Tags keep channels of the same pair apart: one a role and phase.
enum ChannelTag : std::uint32_t { kRing, kUp0, kUp1, kDown0, kDown1, kAcrossNodes, kPairwise };

class Outliner {
 public:
  Outliner(const ExpandedCollective& x, const cluster::Topology& topology, Sizes& sizes)
      : x_(x), topology_(topology), sizes_(sizes), outlines_(x.slots.size()) {}

  std::vector<Outline> run() {
    Team everyone;
    for (std::size_t i = 0; i < x_.slots.size(); ++i) {
      everyone.push_back(static_cast<int>(i));
    }
    const std::int64_t bytes = x_.bytes.count();
    const auto n = static_cast<std::int64_t>(everyone.size());
    switch (x_.pattern) {
      case StepPattern::ring:
        if (x_.op == Collective::broadcast) {
          chain(everyone, bytes);
        } else if (x_.op == Collective::all_reduce || x_.op == Collective::all_gather ||
                   x_.op == Collective::reduce_scatter) {
          const std::int64_t rounds = x_.op == Collective::all_reduce ? 2 : 1;
          ring(everyone, kRing, share(bytes, n), rounds);
        } else {
          refuse("a ring runs all-reduce, all-gather, reduce-scatter and broadcast");
        }
        break;
      case StepPattern::double_tree:
        only(Collective::all_reduce);
        trees(everyone, bytes);
        break;
      case StepPattern::hierarchical:
      case StepPattern::hierarchical_tree:
        only(Collective::all_reduce);
        hierarchical(bytes);
        break;
      case StepPattern::pairwise:
        only(Collective::all_to_all);
        pairwise(everyone, share(bytes, n));
        break;
    }
    return std::move(outlines_);
  }

 private:
  [[noreturn]] static void refuse(const char* why) {
    throw std::invalid_argument(std::string("expand: ") + why);
  }
  void only(Collective op) const {
    if (x_.op != op) {
      refuse("this pattern does not run that operation");
    }
  }
  Outline& of(int member) { return outlines_[static_cast<std::size_t>(member)]; }

  // `rounds` times around the ring: in each step every member passes on what it received before.
  void ring(const Team& team, ChannelTag tag, std::int64_t bytes, std::int64_t rounds) {
    const std::size_t n = team.size();
    if (n == 1) {
      return;
    }
    const auto steps = static_cast<std::uint32_t>(rounds * (static_cast<std::int64_t>(n) - 1));
    const std::uint32_t size = sizes_.id(bytes);
    for (std::size_t i = 0; i < n; ++i) {
      Outline& o = of(team[i]);
      const std::uint32_t next = role(o, team[(i + 1) % n], tag, true);
      const std::uint32_t previous = role(o, team[(i + n - 1) % n], tag, false);
      add(o, {0, steps, {{next, size, 0, steps, true}, {previous, size, 0, steps, false}}, {}});
    }
  }

  // A role that exists is used again: two rings of the same members share a channel.
  static std::uint32_t role(Outline& o, int member, std::uint32_t tag, bool sends) {
    for (std::size_t k = 0; k < o.peers.size(); ++k) {
      if (o.peers[k].member == member && o.peers[k].tag == tag && o.peers[k].sends == sends) {
        return static_cast<std::uint32_t>(k);
      }
    }
    return o.role(member, tag, sends);
  }

  // Adds a block behind all that the outline has so far.
  static void add(Outline& o, ExchangeBlock b) {
    for (std::size_t k = 0; k < o.blocks.size(); ++k) {
      if (o.blocks[k].stream != b.stream) {
        b.after.push_back(static_cast<int>(k));
      }
    }
    o.blocks.push_back(std::move(b));
  }

  // From each member to the next, chunk by chunk: one chunk comes in while the one before goes out.
  void chain(const Team& team, std::int64_t bytes) {
    const auto chunks = static_cast<std::uint32_t>(x_.chunks);
    const std::uint32_t size = sizes_.id(share(bytes, x_.chunks));
    for (std::size_t i = 0; team.size() > 1 && i < team.size(); ++i) {
      Outline& o = of(team[i]);
      ExchangeBlock b;
      std::uint32_t delay = 0;
      if (i > 0) {
        b.moves.push_back({o.role(team[i - 1], kRing, false), size, 0, chunks, false});
        delay = 1;
      }
      if (i + 1 < team.size()) {
        b.moves.push_back({o.role(team[i + 1], kRing, true), size, delay, chunks, true});
      } else {
        delay = 0;
      }
      b.steps = chunks + delay;
      add(o, std::move(b));
    }
  }

  struct Place {
    int parent = kNobody;
    std::vector<int> children;
  };

  // A binary tree over 0 .. n - 1 in which a node is above its neighbours by the lowest bit that is
  // set: odd numbers are leaves, so that of two such trees, one numbered one further, each makes
  // the inner nodes of the other its leaves. NCCL's double trees have this form (Sanders, Speck,
  // Traeff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and scan").
  static std::vector<Place> tree(int n) {
    std::vector<Place> places(static_cast<std::size_t>(n));
    for (int i = 1; i < n; ++i) {
      const int bit = i & -i;
      int parent = (i ^ bit) | (bit << 1);
      if (parent >= n) {
        parent = i ^ bit;
      }
      places[static_cast<std::size_t>(i)].parent = parent;
      places[static_cast<std::size_t>(parent)].children.push_back(i);
    }
    return places;
  }

  // Each tree carries half of the bytes up and down. On the way up a chunk comes in from the
  // children while the one before goes to the parent; on the way down likewise; the root sends each
  // chunk back down.
  void trees(const Team& team, std::int64_t bytes) {
    const int n = static_cast<int>(team.size());
    if (n == 1) {
      return;
    }
    const auto chunks = static_cast<std::uint32_t>(x_.chunks);
    const std::uint32_t size = sizes_.id(share(share(bytes, 2), x_.chunks));
    const std::vector<Place> places = tree(n);
    for (int i = 0; i < n; ++i) {
      Outline& o = of(team[static_cast<std::size_t>(i)]);
      std::vector<int> before(o.blocks.size());
      for (std::size_t k = 0; k < before.size(); ++k) {
        before[k] = static_cast<int>(k);
      }
      for (std::uint32_t t = 0; t < 2; ++t) {
        // The second tree is numbered one further, or backwards where that makes leaves of inner
        // nodes: with even n.
        const auto turn = [&](int k) { return t == 0 ? k : n % 2 == 0 ? n - 1 - k : (k + 1) % n; };
        const auto back = [&](int k) {
          return t == 0 ? k : n % 2 == 0 ? n - 1 - k : (k + n - 1) % n;
        };
        const Place& place = places[static_cast<std::size_t>(back(i))];
        const auto who = [&](int k) { return team[static_cast<std::size_t>(turn(k))]; };
        ExchangeBlock up;
        ExchangeBlock down;
        up.stream = static_cast<int>(2 * t);
        down.stream = static_cast<int>(2 * t + 1);
        up.after = down.after = before;
        const std::uint32_t up_delay = place.children.empty() ? 0 : 1;
        const std::uint32_t down_delay = place.parent == kNobody ? 0 : 1;
        for (const int child : place.children) {
          up.moves.push_back({o.role(who(child), kUp0 + t, false), size, 0, chunks, false});
        }
        up.steps = chunks;
        if (place.parent != kNobody) {
          const int parent = who(place.parent);
          up.moves.push_back({o.role(parent, kUp0 + t, true), size, up_delay, chunks, true});
          up.steps = chunks + up_delay;
          down.moves.push_back({o.role(parent, kDown0 + t, false), size, 0, chunks, false});
        } else {
          down.paced_by = static_cast<int>(o.blocks.size());
        }
        for (const int child : place.children) {
          down.moves.push_back(
              {o.role(who(child), kDown0 + t, true), size, down_delay, chunks, true});
        }
        down.steps = chunks + (place.children.empty() ? 0 : down_delay);
        o.blocks.push_back(std::move(up));
        o.blocks.push_back(std::move(down));
      }
    }
  }

  // Reduce-scatter in each domain, all-reduce of each share across domains, all-gather.
  void hierarchical(std::int64_t bytes) {
    std::map<int, Team> by_domain;
    for (std::size_t i = 0; i < x_.slots.size(); ++i) {
      by_domain[topology_.domain_of(x_.slots[i])].push_back(static_cast<int>(i));
    }
    const std::size_t width = by_domain.begin()->second.size();
    for (const auto& [domain, team] : by_domain) {
      if (team.size() != width) {
        refuse("a hierarchical all-reduce needs as many members in every domain");
      }
    }
    const std::int64_t part = share(bytes, static_cast<std::int64_t>(width));
    for (const auto& [domain, team] : by_domain) {
      ring(team, kRing, part, 1);
    }
    for (std::size_t rail = 0; rail < width; ++rail) {
      Team across;
      for (const auto& [domain, team] : by_domain) {
        across.push_back(team[rail]);
      }
      if (x_.pattern == StepPattern::hierarchical) {
        ring(across, kAcrossNodes, share(part, static_cast<std::int64_t>(across.size())), 2);
      } else {
        trees(across, part);
      }
    }
    for (const auto& [domain, team] : by_domain) {
      ring(team, kRing, part, 1);
    }
  }

  void pairwise(const Team& team, std::int64_t bytes) {
    const std::size_t n = team.size();
    if (n == 1) {
      return;
    }
    const std::uint32_t size = sizes_.id(bytes);
    for (std::size_t i = 0; i < n; ++i) {
      Outline& o = of(team[i]);
      ExchangeBlock b;
      b.steps = static_cast<std::uint32_t>(n - 1);
      for (std::size_t s = 1; s < n; ++s) {
        const auto at = static_cast<std::uint32_t>(s - 1);
        b.moves.push_back({o.role(team[(i + s) % n], kPairwise, true), size, at, 1, true});
        b.moves.push_back({o.role(team[(i + n - s) % n], kPairwise, false), size, at, 1, false});
      }
      add(o, std::move(b));
    }
  }

  const ExpandedCollective& x_;
  const cluster::Topology& topology_;
  Sizes& sizes_;
  std::vector<Outline> outlines_;
};

}  // namespace

std::vector<Outline> outline_members(const ExpandedCollective& x, const cluster::Topology& topology,
                                     Sizes& sizes) {
  return Outliner(x, topology, sizes).run();
}

}  // namespace stepcast::lower
