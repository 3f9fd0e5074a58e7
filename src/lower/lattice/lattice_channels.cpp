// Channels of a lattice: messages of one direction and kind share one, which pairs in order.
#include <utility>

#include "../stage/stage.h"
#include "lattice_draft.h"

namespace stepcast::lower {

namespace {

// Interleaved exchanges send both ways at once, or beside compute; otherwise one message moves at
// a time.
int pipeline_class(const LatticeDraft& w, bool forward) {
  return w.layout.blocking ? kInLine : forward ? kDown : kUp;
}

// The communicator of a message to the next stage: of all stages where messages are posted in
// batches, else of the two ranks (torch 2.7 c10d/ProcessGroupNCCL.hpp:1103, the key of
// point-to-point operations). Beside compute Megatron-LM's loop posts them one by one (core 0.8
// pipeline_parallel/p2p_communication.py:308; model_parallel_config.py: overlap_p2p_comm "must be
// False if batch_p2p_comm is true").
cost::PeerGroup stages_of(const LatticeDraft& w, int rank, const cluster::Path& path) {
  const int p = w.layout.groups.grid.pipeline;
  cost::PeerGroup out;
  if (!w.layout.batched || p <= 2) {
    return out;
  }
  out.ranks = p;
  cluster::Coordinates far = w.out.at[rank];
  far.pipeline = 2 * far.pipeline < p ? p - 1 : 0;
  const int other = cluster::rank_at(w.layout.groups.grid, far);
  if (path.kind != cluster::PathClass::network &&
      w.topology.domain_of(rank) != w.topology.domain_of(other)) {
    out.network = w.topology.path(rank, other).bandwidth;
  }
  return out;
}

program::ShapeId path_shape(LatticeDraft& w, const cluster::Path& path, const cost::PeerGroup& of,
                            bool copies) {
  for (std::uint32_t i = 0; i < w.out.shapes.size(); ++i) {
    const auto& s = w.out.shapes[i];
    if (s.role == kRoles && s.copies == copies && s.peers == of && s.path.kind == path.kind &&
        s.path.bandwidth == path.bandwidth && s.path.latency == path.latency &&
        s.path.hops == path.hops) {
      return program::ShapeId::at(i);
    }
  }
  w.out.shapes.push_back({kRoles, {}, path, of, copies, {}, {}});
  return program::ShapeId::at(w.out.shapes.size() - 1);
}

// Messages of one direction and kind share a channel: it pairs in order.
void add_channel(LatticeDraft& w, int from, int to, ChannelRole out, ChannelRole in,
                 int stream_class) {
  cluster::Path path = w.topology.path(from, to);
  const bool between_stages = out != kSendContext && out != kSendTensor;
  program::Channel c;
  c.sender = program::RankId::at(from);
  c.receiver = program::RankId::at(to);
  c.shape = path_shape(w, path, between_stages ? stages_of(w, from, path) : cost::PeerGroup(),
                       out == kSendTensor);
  const auto id = program::ChannelId::at(w.out.channels.size());
  w.out.channels.push_back(c);
  const std::vector<cluster::Resource>& all = w.topology.resources();
  for (int resource : path.resources) {
    const bool at_receiver = all[resource].kind == cluster::ResourceKind::nic_in;
    w.users.add(resource, at_receiver ? to : from, stream_class);
  }
  w.channel_resources.push_back(std::move(path.resources));
  w.out.channel_table[std::size_t(from) * kChannelRoles + out] = id;
  w.out.channel_table[std::size_t(to) * kChannelRoles + in] = id;
}

}  // namespace

void make_channels(LatticeDraft& w) {
  w.out.channel_table.assign(w.out.at.size() * kChannelRoles, program::kNone);
  const int p = w.layout.groups.grid.pipeline;
  for (int r = 0; r < w.layout.groups.grid.ranks(); ++r) {
    const auto& a = w.out.at[r];
    for (const int step : {1, -1}) {
      const int next = a.pipeline + step;
      const bool wraps = next < 0 || next >= p;
      if (p == 1 || (wraps && !w.layout.wraps)) {
        continue;
      }
      cluster::Coordinates to = a;
      to.pipeline = (next + p) % p;
      const int peer = cluster::rank_at(w.layout.groups.grid, to);
      const bool down = step > 0;
      add_channel(w, r, peer, down ? kSendForward : kSendBackward,
                  down ? kReceiveForward : kReceiveBackward, pipeline_class(w, down));
      if (w.layout.both_ways) {  // chunks on their way up go forward to the rank above
        add_channel(w, r, peer, down ? kSendBackwardUp : kSendForwardUp,
                    down ? kReceiveBackwardUp : kReceiveForwardUp, pipeline_class(w, down));
      }
    }
    if (w.layout.groups.grid.context > 1) {
      const int next = next_in_context_ring(w.layout.groups, r);
      if (next != r) {
        add_channel(w, r, next, kSendContext, kReceiveContext, kRound);
      }
    }
    if (w.layout.tensor_ring) {
      add_channel(w, r, next_in_tensor_ring(w.layout.groups, r), kSendTensor, kReceiveTensor,
                  kChunks);
    }
  }
}

}  // namespace stepcast::lower
