#include "binding.h"

#include <algorithm>
#include <array>

#include "wide.h"

namespace stepcast::engine {

using program::kNone;
using program::TaskKind;
using program::World;

Concurrency concurrency(const CompiledProgram& compiled) {
  const program::Program& p = *compiled.source;
  Concurrency c;
  c.communicators.assign(p.communicator_roles, 0);
  c.sends.resize(p.streams.size());
  std::vector<std::vector<bool>> seen(p.streams.size(),
                                      std::vector<bool>(p.communicator_roles, false));
  std::vector<bool> copies(p.streams.size(), false);
  Concurrency::Sends sends;
  for (const std::uint32_t i : compiled.communication) {
    const program::Task& t = p.tasks[i];
    if (t.kind == TaskKind::collective) {
      seen[t.stream][t.communicator] = true;
    } else if (t.kind == TaskKind::copy) {
      copies[t.stream] = true;
    } else if (t.kind == TaskKind::exchange) {
      sends.clear();
      for (std::uint32_t k = 0; k < t.transfers; ++k) {
        const program::Transfer& x = p.transfers[t.first_transfer + k];
        if (x.send) {
          sends.push_back(x.channel);
        }
      }
      std::sort(sends.begin(), sends.end());
      std::vector<Concurrency::Sends>& all = c.sends[t.stream];
      if (!sends.empty() && (all.empty() || all.back() != sends)) {
        all.push_back(sends);
      }
    }
  }
  for (std::size_t s = 0; s < p.streams.size(); ++s) {
    std::sort(c.sends[s].begin(), c.sends[s].end());
    c.sends[s].erase(std::unique(c.sends[s].begin(), c.sends[s].end()), c.sends[s].end());
    for (std::uint32_t k = 0; k < p.communicator_roles; ++k) {
      c.communicators[k] += seen[s][k] ? 1 : 0;
    }
    c.copies += copies[s] ? 1 : 0;
  }
  return c;
}

namespace {

using Most = std::array<Int128, program::kResourceKinds>;  // of rate times weight, by kind

// The most that one of several sets of transfers puts on each resource.
class Largest {
 public:
  explicit Largest(std::size_t resources) : now_(resources, 0), most_(resources, 0) {}

  void add(std::uint32_t resource, Int128 demand) {
    if (now_[resource] == 0 && most_[resource] == 0) {
      used_.push_back(resource);
    }
    now_[resource] += demand;
  }
  void end_set() {
    for (const std::uint32_t j : used_) {
      most_[j] = std::max(most_[j], now_[j]);
      now_[j] = 0;
    }
  }
  void move_to(std::vector<Int128>& demand) {
    for (const std::uint32_t j : used_) {
      demand[j] += most_[j];
      most_[j] = 0;
    }
    used_.clear();
  }

 private:
  std::vector<Int128> now_;
  std::vector<Int128> most_;
  std::vector<std::uint32_t> used_;
};

}  // namespace

std::vector<bool> can_bind(const World& w, const std::vector<Concurrency>& programs) {
  std::vector<std::int64_t> communicators(w.communicators.size(), 0);
  for (const program::Rank& r : w.ranks) {
    const Concurrency& c = programs[r.program];
    for (std::uint32_t k = 0; k < c.communicators.size(); ++k) {
      const std::uint32_t id = w.communicator_table[r.first_communicator + k];
      if (id != kNone) {
        communicators[id] = std::max(communicators[id], c.communicators[k]);
      }
    }
  }
  std::vector<Most> most(w.shapes.size());
  for (std::size_t s = 0; s < w.shapes.size(); ++s) {
    for (const program::Price& p : w.shapes[s].prices) {
      for (int k = 0; k < program::kResourceKinds; ++k) {
        most[s][k] = std::max(most[s][k], Int128{p.rate} * p.weight[k]);
      }
    }
  }
  std::vector<Int128> demand(w.resources.size(), 0);
  const auto for_each = [&](std::uint32_t shape, std::uint32_t first, std::uint32_t count,
                            auto&& add) {
    for (std::uint32_t k = first; k < first + count; ++k) {
      const program::Usage& u = w.usages[k];
      if (const Int128 d = most[shape][u.kind] * u.count; d > 0) {
        add(u.resource, d);
      }
    }
  };
  for (std::size_t i = 0; i < w.communicators.size(); ++i) {
    const program::Communicator& c = w.communicators[i];
    for_each(c.shape, c.first_usage, c.usages,
             [&](std::uint32_t j, Int128 d) { demand[j] += d * communicators[i]; });
  }
  Largest largest(w.resources.size());
  for (const program::Rank& r : w.ranks) {
    const Concurrency& c = programs[r.program];
    for (const std::vector<Concurrency::Sends>& stream : c.sends) {
      for (const Concurrency::Sends& sends : stream) {
        for (const std::uint32_t role : sends) {
          const program::Channel& x = w.channels[w.channel_table[r.first_channel + role]];
          for_each(x.shape, x.first_usage, x.usages,
                   [&](std::uint32_t j, Int128 d) { largest.add(j, d); });
        }
        largest.end_set();
      }
      largest.move_to(demand);
    }
    if (c.copies > 0) {
      for_each(r.copy_shape, r.first_usage, r.usages,
               [&](std::uint32_t j, Int128 d) { demand[j] += d * c.copies; });
    }
  }
  std::vector<bool> out;
  for (std::size_t j = 0; j < demand.size(); ++j) {
    out.push_back(demand[j] > Int128{w.resources[j].capacity} * program::kWeightOne);
  }
  return out;
}

}  // namespace stepcast::engine
