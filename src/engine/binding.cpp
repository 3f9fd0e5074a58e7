#include "binding.h"

#include <algorithm>
#include <array>
#include <map>

#include "wide.h"

namespace stepcast::engine {
namespace {

using program::kNone;
using program::TaskKind;
using program::World;

// Operations of each role of a program that can be under way at once.
struct Concurrency {
  std::vector<std::int64_t> communicators;
  std::vector<std::int64_t> channels;
  std::int64_t copies = 0;
};

Concurrency concurrency(const program::Program& p) {
  Concurrency c;
  c.communicators.assign(p.communicator_roles, 0);
  c.channels.assign(p.channel_roles, 0);
  std::vector<std::map<std::uint32_t, std::int64_t>> channels(
      p.streams.size());  // most in one task, by stream and role
  std::vector<std::vector<bool>> seen(p.streams.size(),
                                      std::vector<bool>(p.communicator_roles, false));
  std::vector<bool> copies(p.streams.size(), false);
  std::map<std::uint32_t, std::int64_t> in_task;
  for (const program::Task& t : p.tasks) {
    if (t.kind == TaskKind::collective) {
      seen[t.stream][t.communicator] = true;
    } else if (t.kind == TaskKind::copy) {
      copies[t.stream] = true;
    } else if (t.kind == TaskKind::exchange) {
      in_task.clear();
      for (std::uint32_t k = 0; k < t.transfers; ++k) {
        const program::Transfer& x = p.transfers[t.first_transfer + k];
        in_task[x.channel] += x.send ? 1 : 0;
      }
      for (const auto& [role, n] : in_task) {
        std::int64_t& most = channels[t.stream][role];
        most = std::max(most, n);
      }
    }
  }
  for (std::size_t s = 0; s < p.streams.size(); ++s) {
    for (std::uint32_t k = 0; k < p.communicator_roles; ++k) {
      c.communicators[k] += seen[s][k] ? 1 : 0;
    }
    for (const auto& [role, n] : channels[s]) {
      c.channels[role] += n;
    }
    c.copies += copies[s] ? 1 : 0;
  }
  return c;
}

}  // namespace

std::vector<bool> can_bind(const World& w) {
  std::vector<Concurrency> programs;
  for (const program::Program& p : w.programs) {
    programs.push_back(concurrency(p));
  }
  std::vector<std::int64_t> communicators(w.communicators.size(), 0);
  std::vector<std::int64_t> channels(w.channels.size(), 0);
  for (const program::Rank& r : w.ranks) {
    const Concurrency& c = programs[r.program];
    for (std::uint32_t k = 0; k < c.communicators.size(); ++k) {
      const std::uint32_t id = w.communicator_table[r.first_communicator + k];
      if (id != kNone) {
        communicators[id] = std::max(communicators[id], c.communicators[k]);
      }
    }
    for (std::uint32_t k = 0; k < c.channels.size(); ++k) {
      const std::uint32_t id = w.channel_table[r.first_channel + k];
      if (id != kNone) {
        channels[id] += c.channels[k];
      }
    }
  }
  std::vector<std::array<Int128, program::kResourceKinds>> most(w.shapes.size());
  for (std::size_t s = 0; s < w.shapes.size(); ++s) {
    for (const program::Price& p : w.shapes[s].prices) {
      for (int k = 0; k < program::kResourceKinds; ++k) {
        most[s][k] = std::max(most[s][k], Int128{p.rate} * p.weight[k]);
      }
    }
  }
  std::vector<Int128> demand(w.resources.size(), 0);
  const auto add = [&](std::uint32_t shape, std::int64_t at_once, std::uint32_t first,
                       std::uint32_t count) {
    for (std::uint32_t k = first; at_once > 0 && k < first + count; ++k) {
      const program::Usage& u = w.usages[k];
      demand[u.resource] += most[shape][u.kind] * at_once * u.count;
    }
  };
  for (std::size_t i = 0; i < w.communicators.size(); ++i) {
    const program::Communicator& c = w.communicators[i];
    add(c.shape, communicators[i], c.first_usage, c.usages);
  }
  for (std::size_t i = 0; i < w.channels.size(); ++i) {
    const program::Channel& c = w.channels[i];
    add(c.shape, channels[i], c.first_usage, c.usages);
  }
  for (const program::Rank& r : w.ranks) {
    add(r.copy_shape, programs[r.program].copies, r.first_usage, r.usages);
  }
  std::vector<bool> out;
  for (std::size_t j = 0; j < demand.size(); ++j) {
    out.push_back(demand[j] > Int128{w.resources[j].capacity} * program::kWeightOne);
  }
  return out;
}

}  // namespace stepcast::engine
