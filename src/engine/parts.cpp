#include "parts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "digest.h"

namespace stepcast::engine {

using program::kNone;
using program::World;

namespace {

class Sets {
 public:
  explicit Sets(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), 0U);
  }
  std::uint32_t find(std::uint32_t i) {
    while (parent_[i] != i) {
      parent_[i] = parent_[parent_[i]];
      i = parent_[i];
    }
    return i;
  }
  // The least of a set stands for it.
  void unite(std::uint32_t i, std::uint32_t k) {
    i = find(i);
    k = find(k);
    parent_[std::max(i, k)] = std::min(i, k);
  }

 private:
  std::vector<std::uint32_t> parent_;
};

// Unites ranks that do more with each other than with all others.
class Divider {
 public:
  Divider(const World& world, const Prepared::Programs& programs)
      : world_(world),
        programs_(programs),
        binds_(can_bind(world, programs.at_once)),
        sets_(world.ranks.size()),
        users_(world.resources.size()),
        members_(world.communicators.size()),
        within_(world.communicators.size(), false) {
    for (std::uint32_t r = 0; r < world.ranks.size(); ++r) {
      use(r, world.ranks[r].first_usage, world.ranks[r].usages);
      for_each_communicator(r, [&](std::uint32_t id) { members_[id].push_back(r); });
    }
    for (const program::Channel& c : world.channels) {
      if (c.sender < world.ranks.size() && c.receiver < world.ranks.size()) {
        sets_.unite(c.sender, c.receiver);
        use(c.sender, c.first_usage, c.usages);
      }
    }
  }

  // Members of small communicators are of one part; up to which size is tried from the least on.
  std::optional<Division> divide(std::uint64_t least_tasks) {
    std::vector<std::size_t> sizes{0};
    for (const std::vector<std::uint32_t>& m : members_) {
      sizes.push_back(m.size());
    }
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    for (const std::size_t size : sizes) {
      unite_up_to(size);
      Division d = division();
      if (d.parts.size() < 2) {
        break;
      }
      if (shared_by_all(d) && alike(d)) {
        return joined(std::move(d), least_tasks);
      }
    }
    return std::nullopt;
  }

 private:
  const World& world_;
  const Prepared::Programs& programs_;
  std::vector<bool> binds_;
  Sets sets_;
  // By resource that can bind: ranks that use it in other ways than with several parts; of each
  // channel and communicator one.
  std::vector<std::vector<std::uint32_t>> users_;
  std::vector<std::vector<std::uint32_t>> members_;  // by communicator
  std::vector<bool> within_;                         // by communicator: all are of one part

  template <class F>
  void for_each_communicator(std::uint32_t r, F&& f) const {
    const program::Rank& rank = world_.ranks[r];
    const std::uint32_t roles = programs_.compiled[rank.program].source->communicator_roles;
    for (std::uint32_t k = 0; k < roles; ++k) {
      if (const std::uint32_t id = world_.communicator_table[rank.first_communicator + k];
          id != kNone) {
        f(id);
      }
    }
  }

  void use(std::uint32_t rank, std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t k = first; k < first + count; ++k) {
      if (const std::uint32_t resource = world_.usages[k].resource; binds_[resource]) {
        users_[resource].push_back(rank);
      }
    }
  }

  void unite_up_to(std::size_t size) {
    for (const std::vector<std::uint32_t>& m : members_) {
      if (m.size() <= size) {
        for (const std::uint32_t r : m) {
          sets_.unite(m.front(), r);
        }
      }
    }
    // A resource is used by all parts or by one, and what a communicator within a part uses, its
    // part does.
    for (bool united = true; united;) {
      for (std::size_t i = 0; i < members_.size(); ++i) {
        const std::vector<std::uint32_t>& m = members_[i];
        if (!within_[i] && std::all_of(m.begin(), m.end(), [&](std::uint32_t r) {
              return sets_.find(r) == sets_.find(m.front());
            })) {
          within_[i] = true;
          if (!m.empty()) {
            use(m.front(), world_.communicators[i].first_usage, world_.communicators[i].usages);
          }
        }
      }
      united = unite_users();
    }
  }

  bool unite_users() {
    std::size_t parts = 0;
    for (std::uint32_t r = 0; r < world_.ranks.size(); ++r) {
      parts += sets_.find(r) == r ? 1U : 0U;
    }
    bool united = false;
    std::vector<std::uint32_t> those;
    for (std::vector<std::uint32_t>& users : users_) {
      for (std::uint32_t& r : users) {
        r = sets_.find(r);
      }
      std::sort(users.begin(), users.end());
      users.erase(std::unique(users.begin(), users.end()), users.end());
      if (users.size() > 1 && users.size() < parts) {
        for (const std::uint32_t r : users) {
          sets_.unite(users.front(), r);
        }
        united = true;
      }
    }
    return united;
  }

  Division division() {
    const auto ranks = static_cast<std::uint32_t>(world_.ranks.size());
    Division d;
    d.part_of.reserve(ranks);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const std::uint32_t first = sets_.find(r);  // of its ranks
      d.part_of.push_back(first == r ? static_cast<std::uint32_t>(d.parts.size())
                                     : d.part_of[first]);
      if (first == r) {
        d.parts.emplace_back();
      }
      d.parts[d.part_of[r]].push_back(r);
    }
    for (const bool within : within_) {
      d.shared.push_back(!within);
    }
    for (const std::vector<std::uint32_t>& users : users_) {
      d.owner.push_back(users.size() == 1 ? d.part_of[users.front()] : kNone);
    }
    d.binds = binds_;
    return d;
  }

  bool shared_by_all(const Division& d) const {
    std::size_t owned = 0;
    std::size_t anyones = 0;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (!d.shared[i]) {
        continue;
      }
      std::vector<bool> seen(d.parts.size(), false);
      std::size_t parts = 0;
      for (const std::uint32_t r : members_[i]) {
        parts += seen[d.part_of[r]] ? 0U : 1U;
        seen[d.part_of[r]] = true;
      }
      if (parts < d.parts.size()) {
        return false;
      }
      const program::Communicator& c = world_.communicators[i];
      for (std::uint32_t k = c.first_usage; k < c.first_usage + c.usages; ++k) {
        const std::uint32_t resource = world_.usages[k].resource;
        owned += binds_[resource] && d.owner[resource] != kNone ? 1U : 0U;
        anyones += binds_[resource] && d.owner[resource] == kNone ? 1U : 0U;
      }
    }
    // What all parts use is worked out in each.
    return anyones * d.parts.size() <= owned + world_.ranks.size();
  }

  Digest look_of(const std::vector<std::uint32_t>& part, const Division& d) const {
    Digest out;
    for (const std::uint32_t r : part) {
      const program::Rank& rank = world_.ranks[r];
      out.mix(rank.program.value());
      out.mix(rank.copy_shape.value());
      for_each_communicator(r, [&](std::uint32_t id) {
        out.mix(world_.communicators[id].shape.value());
        out.mix(d.shared[id] ? 1 : 0);
      });
      const std::uint32_t roles = programs_.compiled[rank.program].source->channel_roles;
      for (std::uint32_t k = 0; k < roles; ++k) {
        const std::uint32_t id = world_.channel_table[rank.first_channel + k];
        out.mix(id == kNone ? std::int64_t{kNone} : world_.channels[id].shape.value());
        if (id != kNone) {
          mix_common(world_.channels[id].first_usage, world_.channels[id].usages, d, out);
        }
      }
    }
    return out;
  }

  void mix_common(std::uint32_t first, std::uint32_t count, const Division& d, Digest& to) const {
    for (std::uint32_t k = first; k < first + count; ++k) {
      const program::Usage& u = world_.usages[k];
      if (binds_[u.resource] && d.owner[u.resource] == kNone) {
        to.mix((std::int64_t{u.resource.value()} << 8) | u.kind);
        to.mix(u.count);
      }
    }
  }

  // Parts that are not are hardly at the same times everywhere.
  bool alike(const Division& d) const {
    const Digest first = look_of(d.parts.front(), d);
    return std::all_of(d.parts.begin() + 1, d.parts.end(),
                       [&](const std::vector<std::uint32_t>& part) {
                         return part.size() == d.parts.front().size() && look_of(part, d) == first;
                       });
  }

  // As many of them in one as have enough to do.
  std::optional<Division> joined(Division d, std::uint64_t least_tasks) const {
    std::uint64_t tasks = 0;
    for (const std::uint32_t r : d.parts.front()) {
      tasks += programs_.compiled[world_.ranks[r].program].size;
    }
    const std::size_t count = d.parts.size();
    std::size_t together = 1;
    while (together < count && (count % together != 0 || together * tasks < least_tasks)) {
      ++together;
    }
    if (together == count) {
      return std::nullopt;
    }
    std::vector<std::vector<std::uint32_t>> parts(count / together);
    for (std::uint32_t r = 0; r < d.part_of.size(); ++r) {
      d.part_of[r] /= static_cast<std::uint32_t>(together);
      parts[d.part_of[r]].push_back(r);
    }
    d.parts = std::move(parts);
    for (std::uint32_t& owner : d.owner) {
      owner = owner == kNone ? kNone : owner / static_cast<std::uint32_t>(together);
    }
    return d;
  }
};

}  // namespace

std::optional<Division> divide(const World& world, const Prepared::Programs& programs,
                               std::uint64_t least_tasks) {
  // A folded world's ranks stand for several.
  if (!world.multiplicity.empty()) {
    return std::nullopt;
  }
  std::uint64_t tasks = 0;
  for (const program::Rank& r : world.ranks) {
    tasks += programs.compiled[r.program].size;
  }
  if (tasks < 2 * least_tasks) {
    return std::nullopt;
  }
  check(world, programs.compiled);
  return Divider(world, programs).divide(least_tasks);
}

Excerpt::Excerpt(const World& of, const Prepared::Programs& programs, const Division& division)
    : whole_(of),
      programs_(programs),
      division_(division),
      communicators_(of.communicators.size()),
      channels_(of.channels.size()),
      resources_(of.resources.size()),
      ranks_(of.ranks.size()) {
  world_.shapes = of.shapes;
  world_.curves = of.curves;
  world_.slowdowns = of.slowdowns;
  world_.transfer_speed = of.transfer_speed;
}

const World& Excerpt::take(std::uint32_t part) {
  world_.ranks.clear();
  world_.communicator_table.clear();
  world_.channel_table.clear();
  world_.communicators.clear();
  world_.channels.clear();
  world_.usages.clear();
  world_.resources.clear();
  share_.communicators.clear();
  share_.resources.clear();
  std::fill(communicators_.begin(), communicators_.end(), kNone);
  std::fill(channels_.begin(), channels_.end(), kNone);
  std::fill(resources_.begin(), resources_.end(), kNone);
  const std::vector<std::uint32_t>& ranks = division_.parts[part];
  for (std::uint32_t i = 0; i < ranks.size(); ++i) {
    ranks_[ranks[i]] = i;
  }
  for (const std::uint32_t r : ranks) {
    const program::Rank& from = whole_.ranks[r];
    const program::Program& p = *programs_.compiled[from.program].source;
    program::Rank to = from;
    to.first_communicator = static_cast<std::uint32_t>(world_.communicator_table.size());
    for (std::uint32_t k = 0; k < p.communicator_roles; ++k) {
      const std::uint32_t id = whole_.communicator_table[from.first_communicator + k];
      world_.communicator_table.push_back(id == kNone ? program::CommunicatorId{kNone}
                                                      : communicator(id, part));
    }
    to.first_channel = static_cast<std::uint32_t>(world_.channel_table.size());
    for (std::uint32_t k = 0; k < p.channel_roles; ++k) {
      const std::uint32_t id = whole_.channel_table[from.first_channel + k];
      world_.channel_table.push_back(id == kNone ? program::ChannelId{kNone} : channel(id, part));
    }
    keep_usages(from.first_usage, from.usages, part, false, to.first_usage, to.usages);
    world_.ranks.push_back(to);
  }
  return world_;
}

program::CommunicatorId Excerpt::communicator(std::uint32_t id, std::uint32_t part) {
  if (communicators_[id] == kNone) {
    communicators_[id] = static_cast<std::uint32_t>(world_.communicators.size());
    program::Communicator c = whole_.communicators[id];
    c.members = 0;
    const bool shared = division_.shared[id];
    keep_usages(c.first_usage, c.usages, part, shared, c.first_usage, c.usages);
    world_.communicators.push_back(c);
    share_.communicators.push_back(shared ? id : kNone);
  }
  ++world_.communicators[communicators_[id]].members;
  return program::CommunicatorId::at(communicators_[id]);
}

program::ChannelId Excerpt::channel(std::uint32_t id, std::uint32_t part) {
  if (channels_[id] == kNone) {
    channels_[id] = static_cast<std::uint32_t>(world_.channels.size());
    program::Channel c = whole_.channels[id];
    if (c.sender < ranks_.size() && c.receiver < ranks_.size()) {  // no role uses it otherwise
      c.sender = program::RankId::at(ranks_[c.sender]);
      c.receiver = program::RankId::at(ranks_[c.receiver]);
    }
    keep_usages(c.first_usage, c.usages, part, false, c.first_usage, c.usages);
    world_.channels.push_back(c);
  }
  return program::ChannelId::at(channels_[id]);
}

void Excerpt::keep_usages(std::uint32_t first, std::uint32_t count, std::uint32_t part, bool shared,
                          std::uint32_t& to_first, std::uint32_t& to_count) {
  const auto parts = static_cast<std::int64_t>(division_.parts.size());
  const auto before = static_cast<std::uint32_t>(world_.usages.size());
  for (std::uint32_t k = first; k < first + count; ++k) {
    program::Usage usage = whole_.usages[k];
    const std::uint32_t owner = division_.owner[usage.resource];
    if (!division_.binds[usage.resource] || (owner != kNone && owner != part)) {
      continue;
    }
    std::uint32_t& number = resources_[usage.resource];
    if (number == kNone) {
      number = static_cast<std::uint32_t>(world_.resources.size());
      world_.resources.push_back(whole_.resources[usage.resource]);
      share_.resources.push_back(owner == kNone ? usage.resource.value() : kNone);
    }
    // Every part does the same there.
    usage.count *= owner == kNone && !shared ? parts : 1;
    usage.resource = program::ResourceId::at(number);
    world_.usages.push_back(usage);
  }
  to_first = before;
  to_count = static_cast<std::uint32_t>(world_.usages.size()) - before;
}

}  // namespace stepcast::engine
