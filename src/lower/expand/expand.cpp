#include "stepcast/lower/expand.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "expand_outline.h"

namespace stepcast::lower {
namespace {

using cost::Collective;
using program::kNone;
using program::World;

void require(bool ok, const char* what) {
  if (!ok) {
    throw std::invalid_argument(std::string("expand: ") + what);
  }
}

// What a rank does in all its collectives, and the peers of its roles.
struct Member {
  std::vector<const ExpandedCollective*> collectives;
  std::vector<Outline> outlines;  // parallel
  std::vector<Peer> peers;        // by channel role
};

class Expander {
 public:
  Expander(const cluster::Topology& topology, std::span<const ExpandedCollective> collectives)
      : topology_(topology), collectives_(collectives) {}

  World build() {
    number_ranks();
    for (std::uint32_t c = 0; c < collectives_.size(); ++c) {
      outline(c);
    }
    world_.labels.emplace_back("exchange");
    world_.slowdowns.emplace_back();
    world_.curves.push_back({"path", "topology", 0, {}});
    for (program::RankId r; r < members_.size(); ++r) {
      make_rank(r);
    }
    make_channels();
    price_shapes();
    return std::move(world_);
  }

 private:
  void number_ranks() {
    std::vector<bool> taken(static_cast<std::size_t>(topology_.devices()), false);
    for (const ExpandedCollective& c : collectives_) {
      require(!c.slots.empty() && c.bytes.count() >= 0 && c.chunks > 0 && c.start.count() >= 0,
              "a collective without members, chunks, or with negative size or start");
      std::vector<int> sorted = c.slots;
      std::sort(sorted.begin(), sorted.end());
      require(sorted.front() >= 0 && sorted.back() < topology_.devices(), "no such slot");
      require(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
              "a slot is named twice");
      for (const int slot : sorted) {
        taken[static_cast<std::size_t>(slot)] = true;
      }
    }
    rank_of_.assign(taken.size(), kNone);
    for (std::size_t slot = 0; slot < taken.size(); ++slot) {
      if (taken[slot]) {
        rank_of_[slot] = static_cast<std::uint32_t>(slot_of_.size());
        slot_of_.push_back(static_cast<int>(slot));
      }
    }
    require(!slot_of_.empty(), "no collectives");
    members_.resize(slot_of_.size());
  }

  void outline(std::uint32_t c) {
    const ExpandedCollective& x = collectives_[c];
    std::vector<Outline> outlines = outline_members(x, topology_, sizes_);
    for (std::size_t i = 0; i < x.slots.size(); ++i) {
      Member& m = members_[rank_of_[static_cast<std::size_t>(x.slots[i])]];
      for (Peer p : outlines[i].peers) {
        p.tag = (c << 8) + p.tag;
        p.member = static_cast<int>(
            rank_of_[static_cast<std::size_t>(x.slots[static_cast<std::size_t>(p.member)])]);
        m.peers.push_back(p);
      }
      outlines[i].peers.clear();
      m.collectives.push_back(&x);
      m.outlines.push_back(std::move(outlines[i]));
    }
  }

  // Ranks with the same outlines run the same program.
  void make_rank(program::RankId r) {
    Member& m = members_[r];
    std::vector<std::int64_t> key;
    for (std::size_t k = 0; k < m.outlines.size(); ++k) {
      key.push_back(m.collectives[k]->start.count());
      m.outlines[k].append_to(key);
    }
    const auto [known, first] =
        programs_.emplace(std::move(key), program::ProgramId::at(world_.programs.size()));
    if (first) {
      std::vector<Time> starts;
      for (const ExpandedCollective* x : m.collectives) {
        starts.push_back(x->start);
      }
      world_.programs.push_back(unroll(m.outlines, starts, m.peers.size()));
    }
    program::Rank rank;
    rank.program = known->second;
    rank.first_channel = static_cast<std::uint32_t>(world_.channel_table.size());
    world_.channel_table.resize(world_.channel_table.size() + m.peers.size(), kNone);
    world_.ranks.push_back(rank);
    m.outlines.clear();
    m.outlines.shrink_to_fit();
  }

  // A channel for each role that sends; the receiver's role is the one with the same tag.
  void make_channels() {
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, program::ChannelId> ids;
    for (program::RankId r; r < members_.size(); ++r) {
      for (std::size_t role = 0; role < members_[r].peers.size(); ++role) {
        const Peer& p = members_[r].peers[role];
        if (p.sends) {
          const auto to = program::RankId::at(p.member);
          ids.emplace(std::make_tuple(r, to, p.tag), make_channel(r, to));
          world_.channel_table[world_.ranks[r].first_channel + role] =
              program::ChannelId::at(world_.channels.size() - 1);
        }
      }
    }
    for (program::RankId r; r < members_.size(); ++r) {
      for (std::size_t role = 0; role < members_[r].peers.size(); ++role) {
        const Peer& p = members_[r].peers[role];
        if (!p.sends) {
          world_.channel_table[world_.ranks[r].first_channel + role] =
              ids.at({static_cast<std::uint32_t>(p.member), r, p.tag});
        }
      }
    }
  }

  program::ChannelId make_channel(program::RankId from, program::RankId to) {
    const cluster::Path path = topology_.path(slot_of_[from], slot_of_[to]);
    require(path.bandwidth.count() >= 1, "no way between two members");
    program::Channel c;
    c.sender = from;
    c.receiver = to;
    c.shape = shapes_
                  .emplace(std::make_pair(path.bandwidth, path.latency),
                           program::ShapeId::at(shapes_.size()))
                  .first->second;
    c.first_usage = static_cast<std::uint32_t>(world_.usages.size());
    for (const int resource : path.resources) {
      world_.usages.push_back({resource_id(resource), 0, 1});
    }
    c.usages = static_cast<std::uint32_t>(path.resources.size());
    world_.channels.push_back(c);
    return program::ChannelId::at(world_.channels.size() - 1);
  }

  program::ResourceId resource_id(int resource) {
    const auto [known, first] =
        resources_.emplace(resource, program::ResourceId::at(world_.resources.size()));
    if (first) {
      const double capacity =
          topology_.resources()[static_cast<std::size_t>(resource)].capacity.count();
      world_.resources.push_back({static_cast<std::int64_t>(capacity)});
    }
    return known->second;
  }

  void price_shapes() {
    world_.shapes.resize(std::max<std::size_t>(1, shapes_.size()));
    for (const auto& [path, id] : shapes_) {
      for (const std::int64_t bytes : sizes_.all()) {
        program::Price p;
        p.latency = path.second;
        p.rate = static_cast<std::int64_t>(path.first.count());
        p.fluid = Bytes(bytes) / path.first;
        p.weight[0] = program::kWeightOne;
        p.bytes = Bytes(bytes);
        world_.shapes[id].prices.push_back(p);
      }
    }
  }

  const cluster::Topology& topology_;
  std::span<const ExpandedCollective> collectives_;
  World world_;
  Sizes sizes_;
  std::vector<std::uint32_t> rank_of_;  // by slot
  std::vector<int> slot_of_;            // by rank
  std::vector<Member> members_;         // by rank
  std::map<std::vector<std::int64_t>, program::ProgramId> programs_;
  std::map<std::pair<Bandwidth, Time>, program::ShapeId> shapes_;
  std::map<int, program::ResourceId> resources_;
};

}  // namespace

World expand(const cluster::Topology& topology, std::span<const ExpandedCollective> collectives) {
  return Expander(topology, collectives).build();
}

World expand(const cluster::Topology& topology, const ExpandedCollective& collective) {
  return expand(topology, std::span(&collective, 1));
}

}  // namespace stepcast::lower
