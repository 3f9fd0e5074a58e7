// Outlines as the tasks of a program.
#include <algorithm>

#include "expand_outline.h"

namespace stepcast::lower {
namespace {

// Tasks of a program, in an order in which waits look back.
class Unroller {
 public:
  program::Program run(const std::vector<Outline>& outlines, const std::vector<Time>& starts,
                       std::size_t roles) {
    p_.name = "collective";
    p_.labels = {"exchange", "start", "end"};
    p_.channel_roles = static_cast<std::uint32_t>(roles);
    std::uint32_t first_role = 0;
    for (std::size_t k = 0; k < outlines.size(); ++k) {
      add(outlines[k], starts[k], first_role);
      for (const ExchangeBlock& b : outlines[k].blocks) {
        for (const Exchange& m : b.moves) {
          roles_ = std::max(roles_, first_role + m.role + 1);
        }
      }
      first_role = roles_;
    }
    if (p_.streams.empty()) {
      p_.streams.push_back({"exchange"});
      counts_.push_back(0);
    }
    std::vector<program::Wait> ends;
    for (std::size_t s = 1; s < counts_.size(); ++s) {
      ends.push_back({counts_[s], program::StreamIndex::at(s), 0});
    }
    if (!ends.empty() || counts_[0] == 0) {
      kernel(0, Time{0}, 2, ends);
    }
    for (const std::size_t k : begins_) {
      p_.waits[k].position = counts_[0];
    }
    program::HostOp launch;
    launch.kind = program::HostKind::launch;
    launch.count = static_cast<std::uint32_t>(p_.tasks.size());
    p_.host.push_back(launch);
    return std::move(p_);
  }

 private:
  void add(const Outline& o, Time start, std::uint32_t first_role) {
    const std::size_t base = counts_.size();
    for (const ExchangeBlock& b : o.blocks) {
      while (counts_.size() <= base + static_cast<std::size_t>(b.stream)) {
        p_.streams.push_back({"exchange"});
        counts_.push_back(0);
      }
    }
    const std::size_t used = counts_.size();
    for (std::size_t s = base; start > Time{0} && s < used; ++s) {
      kernel(s, start, 1, {});
    }
    std::vector<std::uint32_t> begins;
    std::vector<std::uint32_t> block_ends;
    for (const ExchangeBlock& b : o.blocks) {
      const std::size_t stream = base + static_cast<std::size_t>(b.stream);
      begins.push_back(counts_[stream]);
      for (std::uint32_t t = 0; t < b.steps; ++t) {
        std::vector<program::Wait> waits;
        for (const int k : b.after) {
          const auto other =
              base + static_cast<std::size_t>(o.blocks[static_cast<std::size_t>(k)].stream);
          if (t == 0 && other != stream) {
            waits.push_back(
                {block_ends[static_cast<std::size_t>(k)], program::StreamIndex::at(other), 0});
          }
        }
        if (b.paced_by != ExchangeBlock::kNothing) {
          const auto by = static_cast<std::size_t>(b.paced_by);
          waits.push_back(
              {begins[by] + t + 1,
               program::StreamIndex::at(base + static_cast<std::size_t>(o.blocks[by].stream)), 0});
        }
        exchange(stream, b, t, first_role, waits);
      }
      block_ends.push_back(counts_[stream]);
    }
  }

  void kernel(std::size_t stream, Time duration, program::LabelIndex label,
              const std::vector<program::Wait>& waits) {
    program::Task t;
    t.kind = program::TaskKind::kernel;
    t.duration = duration;
    t.label = label;
    t.category = program::Category::other;
    push(t, stream, waits);
  }

  void exchange(std::size_t stream, const ExchangeBlock& b, std::uint32_t step,
                std::uint32_t first_role, const std::vector<program::Wait>& waits) {
    program::Task t;
    t.kind = program::TaskKind::exchange;
    t.first_transfer = static_cast<std::uint32_t>(p_.transfers.size());
    for (const Exchange& m : b.moves) {
      if (step >= m.delay && step < m.delay + m.count) {
        p_.transfers.push_back({program::ChannelRole::at(first_role + m.role), step - m.delay,
                                program::PriceKey::at(m.size), m.sends});
        ++t.transfers;
      }
    }
    t.category = program::Category::data;
    push(t, stream, waits);
  }

  void push(program::Task t, std::size_t stream, const std::vector<program::Wait>& waits) {
    t.stream = program::StreamIndex::at(stream);
    t.first_wait = static_cast<std::uint32_t>(p_.waits.size());
    p_.waits.insert(p_.waits.end(), waits.begin(), waits.end());
    if (stream > 0 && counts_[stream] == 0) {  // not before the step; the position follows
      begins_.push_back(p_.waits.size());
      p_.waits.push_back({0, 0, 1});
    }
    t.waits = static_cast<std::uint16_t>(p_.waits.size() - t.first_wait);
    p_.tasks.push_back(t);
    ++counts_[stream];
  }

  program::Program p_;
  std::vector<std::uint32_t> counts_;  // tasks, by stream
  std::vector<std::size_t> begins_;    // waits for the end of the step before
  std::uint32_t roles_ = 0;
};

}  // namespace

program::Program unroll(const std::vector<Outline>& outlines, const std::vector<Time>& starts,
                        std::size_t roles) {
  return Unroller().run(outlines, starts, roles);
}

}  // namespace stepcast::lower
