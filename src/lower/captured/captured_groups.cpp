// Groups of all ranks from those of the recorded ones: a group is a lattice of ranks, and every
// rank is in one like it.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "../world/collective_price.h"
#include "../world/outside.h"
#include "captured_draft.h"
#include "stepcast/cost/buffers.h"

namespace stepcast::lower {
namespace {

using program::kNone;

// Ranks first + sum of i * stride, for i below size, over the dimensions; the widest stride last.
struct Dimension {
  int size = 1, stride = 1;
};

// The dimensions of sorted ranks; nothing where they form no lattice.
std::optional<std::vector<Dimension>> dimensions_of(const std::vector<int>& ranks) {
  std::vector<Dimension> out;
  std::size_t covered = 1;
  while (covered < ranks.size()) {
    const int stride = ranks[covered] - ranks[0];
    std::size_t size = 1;
    const auto repeats = [&] {
      for (std::size_t i = 0; i < covered; ++i) {
        const std::size_t at = size * covered + i;
        if (at >= ranks.size() || ranks[at] != ranks[i] + static_cast<int>(size) * stride) {
          return false;
        }
      }
      return true;
    };
    while (repeats()) {
      ++size;
    }
    if (size == 1) {
      return std::nullopt;
    }
    out.push_back({static_cast<int>(size), stride});
    covered *= size;
  }
  return covered == ranks.size() ? std::optional(out) : std::nullopt;
}

std::vector<int> sorted(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// The ranks of `of`'s kind of group that `rank` is in, in the order of places of `of`.
std::vector<int> moved(const std::vector<int>& of, const std::vector<Dimension>& dimensions,
                       int rank) {
  const int first = *std::min_element(of.begin(), of.end());
  int base = rank;
  for (const Dimension& d : dimensions) {
    base -= rank / d.stride % d.size * d.stride;
  }
  std::vector<int> out;
  for (const int r : of) {
    out.push_back(base + r - first);
  }
  return out;
}

// Communicators by their ranks, and what crosses the network.
class Communicators {
 public:
  explicit Communicators(CapturedDraft& w) : w_(w) {}

  // Groups of equal ranks under two names are two communicators.
  program::CommunicatorId of(const std::string& name, const std::vector<int>& ranks) {
    const std::vector<int> key = sorted(ranks);
    const auto [at, fresh] = known_.try_emplace(
        std::pair(name, key), program::CommunicatorId::at(w_.out.world.communicators.size()));
    if (fresh) {
      shapes.push_back(w_.topology.shape(key));
      program::Communicator c;
      c.shape = shape_of(shapes.back());
      c.members = c.size = static_cast<std::uint32_t>(key.size());
      w_.out.world.communicators.push_back(c);
      w_.members.push_back(key);
    }
    return at->second;
  }

  std::vector<cluster::GroupShape> shapes = {};  // by communicator

 private:
  program::ShapeId shape_of(const cluster::GroupShape& shape) {
    for (std::size_t i = 0; i < distinct_.size(); ++i) {
      if (distinct_[i] == shape) {
        return program::ShapeId::at(i);
      }
    }
    distinct_.push_back(shape);
    w_.out.world.shapes.emplace_back();
    return program::ShapeId::at(distinct_.size() - 1);
  }

  CapturedDraft& w_;
  std::map<std::pair<std::string, std::vector<int>>, program::CommunicatorId> known_;
  std::vector<cluster::GroupShape> distinct_;
};

// Streams of each program on which a group's collectives run.
std::vector<std::set<int>> streams_of(const capture::Rank& rank) {
  std::vector<std::set<int>> out(rank.groups.size());
  for (const capture::Task& t : rank.tasks) {
    if (t.kind == capture::TaskKind::collective || t.kind == capture::TaskKind::exchange) {
      out[static_cast<std::size_t>(t.group)].insert(t.stream);
    }
  }
  return out;
}

// Resources that operations of one communicator cross, one entry for each member.
std::vector<int> crossed(const cluster::Topology& t, const cluster::GroupShape& shape, int rank) {
  std::vector<int> out;
  if (shape.ranks_per_domain > 1) {
    out.push_back(t.nvlink_port(rank));
  }
  if (shape.domains > 1) {
    out.insert(out.end(), {t.nic_out(rank), t.nic_in(rank)});
  }
  if (shape.crosses_spine || shape.pairs_cross_spine) {
    out.push_back(t.spine(rank));
  }
  if (shape.crosses_pcie_switch) {
    out.push_back(t.pcie_uplink(rank));
  }
  if (shape.crosses_socket) {
    out.push_back(t.socket_link(rank));
  }
  std::erase_if(out, [](int resource) { return resource < 0; });
  return out;
}

using ResourceUsers = std::map<int, std::set<std::pair<int, int>>>;  // resource: (rank, stream)

// Resources that two users may share become the world's, and each communicator counts each of them
// once.
void add_usages(CapturedDraft& w, const std::vector<cluster::GroupShape>& shapes,
                const ResourceUsers& users) {
  program::World& world = w.out.world;
  std::map<int, program::ResourceId> ids;
  for (const auto& [resource, who] : users) {
    if (who.size() > 1) {
      ids.emplace(resource, program::ResourceId::at(world.resources.size()));
      const auto& of = w.topology.resources()[static_cast<std::size_t>(resource)];
      world.resources.push_back({static_cast<std::int64_t>(of.capacity.count())});
    }
  }
  for (std::size_t i = 0; i < world.communicators.size(); ++i) {
    program::Communicator& c = world.communicators[i];
    c.first_usage = static_cast<std::uint32_t>(world.usages.size());
    std::set<int> all;
    for (const int rank : c.size > 1 ? w.members[i] : std::vector<int>()) {
      const std::vector<int> some = crossed(w.topology, shapes[i], rank);
      all.insert(some.begin(), some.end());
    }
    for (const int resource : all) {
      if (const auto at = ids.find(resource); at != ids.end()) {
        const auto kind = static_cast<std::uint32_t>(
            w.topology.resources()[static_cast<std::size_t>(resource)].kind);
        world.usages.push_back({at->second, kind, 1});
      }
    }
    c.usages = static_cast<std::uint32_t>(world.usages.size()) - c.first_usage;
  }
}

// Channels by sender, receiver and group.
void add_channels(CapturedDraft& w, int rank, std::size_t number,
                  const std::vector<std::vector<int>>& groups,
                  std::map<std::vector<int>, program::ChannelId>& known,
                  std::vector<cluster::Path>& paths) {
  program::World& world = w.out.world;
  for (const CapturedDraft::ChannelUse& use : w.channels[number]) {
    const std::vector<int>& ranks = groups[use.group];
    const auto here =
        static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
    const int peer = ranks[(here + static_cast<std::size_t>(use.step)) % ranks.size()];
    const int from = use.send ? rank : peer;
    const int to = use.send ? peer : rank;
    std::vector<int> key = sorted(ranks);
    key.insert(key.end(), {from, to});
    const auto [at, fresh] = known.try_emplace(key, program::ChannelId::at(world.channels.size()));
    if (fresh) {
      program::Channel channel;
      channel.shape = program::ShapeId::at(paths.size());  // among paths until all shapes are known
      channel.sender = program::RankId::at(from);
      channel.receiver = program::RankId::at(to);
      world.channels.push_back(channel);
      paths.push_back(w.topology.path(from, to));
    }
    world.channel_table.push_back(at->second);
  }
}

// Shapes of channels follow those of communicators, one for each kind of path.
void shape_channels(CapturedDraft& w, const std::vector<cluster::Path>& paths) {
  program::World& world = w.out.world;
  std::vector<std::pair<cluster::Path, program::ShapeId>> distinct;
  for (program::Channel& channel : world.channels) {
    const cluster::Path& path = paths[channel.shape];
    auto at = std::find_if(distinct.begin(), distinct.end(), [&](const auto& one) {
      return one.first.kind == path.kind && one.first.bandwidth == path.bandwidth &&
             one.first.latency == path.latency && one.first.hops == path.hops;
    });
    if (at == distinct.end()) {
      distinct.emplace_back(path, program::ShapeId::at(world.shapes.size()));
      world.shapes.emplace_back();
      at = distinct.end() - 1;
      for (const std::int64_t bytes : w.messages) {
        world.shapes.back().prices.push_back(
            price_of(w.prices.collectives->point_to_point(Bytes(bytes), path), Bytes(bytes),
                     w.topology.device(0).memory_bandwidth, w.labels.id("send")));
      }
    }
    channel.shape = at->second;
  }
}

// Prices of all collectives on each shape, and the algorithms that each group of a recorded rank
// runs.
void price_communicators(CapturedDraft& w, const std::vector<cluster::GroupShape>& shapes) {
  program::World& world = w.out.world;
  for (std::size_t i = 0; i < world.communicators.size(); ++i) {
    auto& prices = world.shapes[world.communicators[i].shape].prices;
    if (!prices.empty()) {
      continue;
    }
    for (const auto& [op, bytes] : w.collectives) {
      const cost::CollectivePrice c = w.prices.collectives->price(op, Bytes(bytes), shapes[i]);
      const std::string label =
          fmt::format("{} {} {}", cost::to_string(op), cost::to_string(c.algorithm),
                      cost::to_string(c.protocol));
      prices.push_back(
          price_of(c, Bytes(bytes), w.topology.device(0).memory_bandwidth, w.labels.id(label)));
    }
  }
}

}  // namespace

std::optional<Infeasible> captured_groups(CapturedDraft& w) {
  program::World& world = w.out.world;
  Communicators communicators(w);
  ResourceUsers users;
  std::map<std::vector<int>, program::ChannelId> channels;
  std::vector<cluster::Path> paths;
  std::vector<std::vector<std::vector<Dimension>>> lattices;
  std::vector<std::vector<std::set<int>>> streams;
  for (const capture::Rank& rank : w.capture.ranks) {
    lattices.emplace_back();
    streams.push_back(streams_of(rank));
    for (const capture::Group& group : rank.groups) {
      const auto dimensions = dimensions_of(sorted(group.ranks));
      if (!dimensions ||
          sorted(moved(group.ranks, *dimensions, rank.rank)) != sorted(group.ranks)) {
        return Infeasible{
            "program", fmt::format("the ranks of group '{}' of rank {} form no lattice", group.name,
                                   rank.rank)};
      }
      lattices.back().push_back(*dimensions);
    }
  }
  for (int r = 0; r < w.capture.world_size; ++r) {
    const auto number = static_cast<std::size_t>(capture::recorded_for(w.capture, r));
    const capture::Rank& recorded = w.capture.ranks[number];
    program::Rank rank;
    rank.program = program::ProgramId::at(number);
    rank.first_communicator = static_cast<std::uint32_t>(world.communicator_table.size());
    rank.first_channel = static_cast<std::uint32_t>(world.channel_table.size());
    std::vector<std::vector<int>> groups;
    for (std::size_t g = 0; g < recorded.groups.size(); ++g) {
      groups.push_back(moved(recorded.groups[g].ranks, lattices[number][g], r));
      const auto [least, most] = std::minmax_element(groups.back().begin(), groups.back().end());
      if (*least < 0 || *most >= w.capture.world_size) {
        return Infeasible{
            "program",
            fmt::format("group '{}' of rank {}, moved to rank {}, reaches past the {} ranks",
                        recorded.groups[g].name, recorded.rank, r, w.capture.world_size)};
      }
      const program::CommunicatorId id = communicators.of(recorded.groups[g].name, groups.back());
      world.communicator_table.push_back(id);
      for (const int resource : groups.back().size() > 1
                                    ? crossed(w.topology, communicators.shapes[id], r)
                                    : std::vector<int>()) {
        for (const int stream : streams[number][g]) {
          users[resource].insert({r, stream});
        }
      }
    }
    add_channels(w, r, number, groups, channels, paths);
    world.ranks.push_back(rank);
  }
  add_usages(w, communicators.shapes, users);
  price_communicators(w, communicators.shapes);
  shape_channels(w, paths);
  for (std::size_t p = 0; p < w.capture.ranks.size(); ++p) {
    const capture::Rank& recorded = w.capture.ranks[p];
    w.out.groups.emplace_back();
    for (const capture::Group& group : recorded.groups) {
      w.out.groups.back().push_back(
          {group.name, captured_category(group.name),
           communicators.shapes[communicators.of(group.name, group.ranks)], 0});
    }
    for (const capture::Task& t : recorded.tasks) {
      CapturedGroup* group =
          t.kind == capture::TaskKind::collective || t.kind == capture::TaskKind::exchange
              ? &w.out.groups.back()[static_cast<std::size_t>(t.group)]
              : nullptr;
      if (group != nullptr && group->shape.ranks > 1) {
        const auto op = parse<cost::Collective>(t.operation);
        group->algorithms |=
            op ? connected_for(
                     group->shape,
                     w.prices.collectives->price(*op, Bytes(t.bytes), group->shape).algorithm,
                     Bytes(t.bytes))
               : cost::bit(cost::Algorithm::direct);
      }
    }
    // Of a communicator that was made ahead of the step: a barrier or a small sum, as in jobs
    // (world_outside.cpp).
    for (CapturedGroup& group : w.out.groups.back()) {
      if (group.shape.ranks > 1 && group.algorithms == 0) {
        group.algorithms = cost::bit(
            w.prices.collectives->price(cost::Collective::all_reduce, Bytes(4), group.shape)
                .algorithm);
      }
    }
  }
  return std::nullopt;
}

}  // namespace stepcast::lower
