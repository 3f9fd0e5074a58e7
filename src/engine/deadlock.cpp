// Nothing can happen any more, yet tasks are left: who waits for whom.
#include <fmt/core.h>

#include <set>

#include "machine.h"

namespace stepcast::engine {

using program::kNone;
using program::TaskKind;

std::string Machine::name(std::uint32_t rank, std::uint32_t stream) const {
  const program::Program& p = *ranks_[rank].program->source;
  const StreamState& s = streams_[ranks_[rank].first_stream + stream];
  const std::string& stream_name = p.streams[stream].name;
  std::string text = fmt::format("rank {} stream {}", rank,
                                 stream_name.empty() ? fmt::format("{}", stream) : stream_name);
  if (s.step == limit_ || s.count == 0) {
    return text + " (done)";
  }
  const std::uint32_t task = s.tasks[s.position].task;
  const std::uint32_t label = p.tasks[task].label;
  text += fmt::format(" task {}", task);
  if (label < p.labels.size()) {
    text += fmt::format(" ({})", p.labels[label]);
  }
  return text;
}

// From a blocked stream to the one that it waits for, and on until one repeats: the cycle and what
// leads to it.
class WaitingChain {
 public:
  explicit WaitingChain(const Machine& machine) : m_(machine) {}

  std::vector<std::string> follow() const {
    std::vector<std::string> chain;
    std::set<std::uint32_t> seen;
    std::uint32_t stream = first_blocked();
    while (stream != kNone) {
      const StreamState& s = m_.streams_[stream];
      const std::string name = m_.name(s.rank, s.index);
      if (s.step == m_.limit_ || s.count == 0) {
        chain.push_back(fmt::format("{} will not come", name));
        break;
      }
      if (!seen.insert(stream).second) {
        chain.push_back(fmt::format("{}: the cycle closes", name));
        break;
      }
      const Link link = link_of(stream);
      chain.push_back(fmt::format("{} waits for {}", name,
                                  link.why.empty() ? "nothing that is known" : link.why));
      stream = link.next;
    }
    return chain;
  }

 private:
  struct Link {
    std::uint32_t next = kNone;  // stream waited for
    std::string why;
  };

  std::uint32_t first_blocked() const {
    for (std::uint32_t i = 0; i < m_.streams_.size(); ++i) {
      if (m_.streams_[i].count > 0 && m_.streams_[i].step < m_.limit_) {
        return i;
      }
    }
    return kNone;
  }

  // What the task at the head of a stream waits for: its peers, its host, or another stream.
  Link link_of(std::uint32_t stream) const {
    const StreamState& s = m_.streams_[stream];
    const RankState& r = m_.ranks_[s.rank];
    const CompiledTask& t = s.tasks[s.position];
    if (s.state == Activity::meeting) {
      return t.kind == TaskKind::exchange ? peer_of_exchange(stream, t)
                                          : peer_of_collective(stream, t);
    }
    const program::Program& source = *r.program->source;
    if (r.issued <= std::uint64_t{s.step} * r.program->segments.size() + t.segment) {
      return {r.first_stream + r.host_stream,
              fmt::format("the host, which waits until stream {} has completed {} tasks",
                          source.streams[r.host_stream].name, r.host_need)};
    }
    for (std::uint32_t k = 0; k < t.waits; ++k) {
      const program::Wait& w = source.waits[t.first_wait + k];
      if (m_.streams_[r.first_stream + w.stream].completed < m_.need(r, s.step, w)) {
        return {r.first_stream + w.stream,
                fmt::format("position {} of stream {}{}", w.position, source.streams[w.stream].name,
                            w.lag > 0 ? " of the step before" : "")};
      }
    }
    return {};
  }

  // The first member that has called the communicator less often.
  Link peer_of_collective(std::uint32_t stream, const CompiledTask& t) const {
    const program::World& world = m_.world_;
    const std::uint32_t entry =
        world.ranks[m_.streams_[stream].rank].first_communicator + t.communicator;
    const std::uint32_t communicator = world.communicator_table[entry];
    Link link;
    link.why = fmt::format("members of communicator {}", communicator);
    for (std::uint32_t r = 0; r < m_.ranks_.size(); ++r) {
      const program::Rank& rank = world.ranks[r];
      for (std::uint32_t k = 0; k < world.programs[rank.program].communicator_roles; ++k) {
        const std::uint32_t e = rank.first_communicator + k;
        if (world.communicator_table[e] == communicator && m_.uses_[e] < m_.uses_[entry]) {
          link.next = next_user(r, TaskKind::collective, communicator, false);
          return link;
        }
      }
    }
    return link;
  }

  // The other end of the first transfer that has not been matched.
  Link peer_of_exchange(std::uint32_t stream, const CompiledTask& t) const {
    const program::World& world = m_.world_;
    const StreamState& s = m_.streams_[stream];
    const program::Program& p = *m_.ranks_[s.rank].program->source;
    for (std::uint32_t k = 0; k < t.transfers; ++k) {
      const program::Transfer& x = p.transfers[t.first_transfer + k];
      const std::uint32_t channel =
          world.channel_table[world.ranks[s.rank].first_channel + x.channel];
      for (std::uint32_t id = m_.channels_[channel].head; id != kNone;
           id = m_.operations_[id].next) {
        if (m_.operations_[id].first == stream && m_.operations_[id].send == x.send) {
          const std::uint32_t peer =
              x.send ? world.channels[channel].receiver : world.channels[channel].sender;
          return {next_user(peer, TaskKind::exchange, channel, !x.send),
                  x.send ? fmt::format("rank {} to receive key {}", peer, x.key)
                         : fmt::format("rank {} to send key {}", peer, x.key)};
        }
      }
    }
    return {};
  }

  // The stream of `rank` whose head, or a later task of the step, comes first to use a communicator
  // or channel; the rank's first stream where none does.
  std::uint32_t next_user(std::uint32_t rank, TaskKind kind, std::uint32_t id, bool send) const {
    const RankState& r = m_.ranks_[rank];
    std::uint32_t best = r.first_stream;
    std::uint32_t best_distance = kNone;
    for (std::uint32_t k = 0; k < r.streams; ++k) {
      const StreamState& s = m_.streams_[r.first_stream + k];
      if (s.step == m_.limit_) {
        continue;
      }
      for (std::uint32_t d = 0; d < s.count && d < best_distance; ++d) {
        const CompiledTask& t = s.tasks[(s.position + d) % s.count];
        if (t.kind == kind && !(d == 0 && s.state == Activity::meeting) &&
            uses(rank, t, id, send)) {
          best = r.first_stream + k;
          best_distance = d;
          break;
        }
      }
    }
    return best;
  }

  // Whether a collective is of that communicator, or an exchange sends or receives on that channel.
  bool uses(std::uint32_t rank, const CompiledTask& t, std::uint32_t id, bool send) const {
    const program::World& world = m_.world_;
    const program::Rank& of = world.ranks[rank];
    if (t.kind == TaskKind::collective) {
      return world.communicator_table[of.first_communicator + t.communicator] == id;
    }
    const program::Program& p = *m_.ranks_[rank].program->source;
    for (std::uint32_t x = 0; x < t.transfers; ++x) {
      const program::Transfer& f = p.transfers[t.first_transfer + x];
      if (f.send == send && world.channel_table[of.first_channel + f.channel] == id) {
        return true;
      }
    }
    return false;
  }

  const Machine& m_;
};

std::vector<std::string> Machine::waiting_chain() const { return WaitingChain(*this).follow(); }

}  // namespace stepcast::engine
