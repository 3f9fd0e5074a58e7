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

namespace {

struct Link {
  std::uint32_t next = kNone;  // stream waited for
  std::string why;
};

}  // namespace

// From a blocked stream to the next until one repeats; the chain is the cycle and what leads to it.
std::vector<std::string> Machine::waiting_chain() const {
  // The stream of `rank` whose head or a later task of the step comes first to use a communicator
  // or channel.
  const auto user = [&](std::uint32_t rank, TaskKind kind, std::uint32_t home, bool send) {
    const RankState& r = ranks_[rank];
    const program::Program& p = *r.program->source;
    std::uint32_t best = kNone;
    std::uint32_t best_distance = kNone;
    for (std::uint32_t k = 0; k < r.streams; ++k) {
      const StreamState& s = streams_[r.first_stream + k];
      if (s.step == limit_) {
        continue;
      }
      for (std::uint32_t d = 0; d < s.count && d < best_distance; ++d) {
        const CompiledTask& t = s.tasks[(s.position + d) % s.count];
        bool hit = false;
        if (t.kind == kind && kind == TaskKind::collective) {
          hit = world_.communicator_table[world_.ranks[rank].first_communicator + t.communicator] ==
                home;
        } else if (t.kind == kind) {
          for (std::uint32_t x = 0; x < t.transfers; ++x) {
            const program::Transfer& f = p.transfers[t.first_transfer + x];
            hit =
                hit || (f.send == send &&
                        world_.channel_table[world_.ranks[rank].first_channel + f.channel] == home);
          }
        }
        if (hit && !(d == 0 && s.state == Activity::meeting)) {
          best = r.first_stream + k;
          best_distance = d;
          break;
        }
      }
    }
    return best == kNone ? r.first_stream : best;
  };
  const auto peer_of_collective = [&](std::uint32_t rs, const CompiledTask& t) {
    const StreamState& s = streams_[rs];
    const std::uint32_t entry = world_.ranks[s.rank].first_communicator + t.communicator;
    const std::uint32_t home = world_.communicator_table[entry];
    Link link;
    link.why = fmt::format("members of communicator {}", home);
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
      const program::Rank& rank = world_.ranks[r];
      for (std::uint32_t k = 0; k < world_.programs[rank.program].communicator_roles; ++k) {
        const std::uint32_t e = rank.first_communicator + k;
        if (world_.communicator_table[e] == home && uses_[e] < uses_[entry]) {
          link.next = user(r, TaskKind::collective, home, false);
          return link;
        }
      }
    }
    return link;
  };
  const auto peer_of_exchange = [&](std::uint32_t rs, const CompiledTask& t) {
    const StreamState& s = streams_[rs];
    const program::Program& p = *ranks_[s.rank].program->source;
    Link link;
    for (std::uint32_t k = 0; k < t.transfers; ++k) {
      const program::Transfer& x = p.transfers[t.first_transfer + k];
      const std::uint32_t home =
          world_.channel_table[world_.ranks[s.rank].first_channel + x.channel];
      for (std::uint32_t id = channels_[home].head; id != kNone; id = operations_[id].next) {
        if (operations_[id].first == rs && operations_[id].send == x.send) {
          const std::uint32_t peer =
              x.send ? world_.channels[home].receiver : world_.channels[home].sender;
          link.why = x.send ? fmt::format("rank {} to receive key {}", peer, x.key)
                            : fmt::format("rank {} to send key {}", peer, x.key);
          link.next = user(peer, TaskKind::exchange, home, !x.send);
          return link;
        }
      }
    }
    return link;
  };
  const auto step = [&](std::uint32_t rs) {
    const StreamState& s = streams_[rs];
    const RankState& r = ranks_[s.rank];
    const CompiledTask& t = s.tasks[s.position];
    Link link;
    if (s.state == Activity::meeting) {
      return t.kind == TaskKind::exchange ? peer_of_exchange(rs, t) : peer_of_collective(rs, t);
    }
    if (r.issued <= std::uint64_t{s.step} * r.program->segments.size() + t.segment) {
      link.why = fmt::format("the host, which waits until stream {} has completed {} tasks",
                             r.program->source->streams[r.host_stream].name, r.host_need);
      link.next = r.first_stream + r.host_stream;
      return link;
    }
    for (std::uint32_t k = 0; k < t.waits; ++k) {
      const program::Wait& w = r.program->source->waits[t.first_wait + k];
      if (streams_[r.first_stream + w.stream].completed < need(r, s.step, w)) {
        link.why = fmt::format("position {} of stream {}{}", w.position,
                               r.program->source->streams[w.stream].name,
                               w.lag > 0 ? " of the step before" : "");
        link.next = r.first_stream + w.stream;
        return link;
      }
    }
    return link;
  };
  std::uint32_t rs = kNone;
  for (std::uint32_t i = 0; i < streams_.size() && rs == kNone; ++i) {
    if (streams_[i].count > 0 && streams_[i].step < limit_) {
      rs = i;
    }
  }
  std::vector<std::string> chain;
  std::set<std::uint32_t> seen;
  while (rs != kNone) {
    const StreamState& s = streams_[rs];
    if (s.step == limit_ || s.count == 0) {
      chain.push_back(fmt::format("{} will not come", name(s.rank, s.index)));
      break;
    }
    if (!seen.insert(rs).second) {
      chain.push_back(fmt::format("{}: the cycle closes", name(s.rank, s.index)));
      break;
    }
    const Link link = step(rs);
    chain.push_back(fmt::format("{} waits for {}", name(s.rank, s.index),
                                link.why.empty() ? "nothing that is known" : link.why));
    rs = link.next;
  }
  return chain;
}

}  // namespace stepcast::engine
