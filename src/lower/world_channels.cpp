// Channels of a world: messages of one direction and kind share one, which pairs in order.
#include <utility>

#include "groups.h"
#include "pipeline.h"
#include "world_draft.h"

namespace stepcast::lower {

namespace {

// Interleaved exchanges send both ways at once, or beside compute; otherwise one message moves at
// a time.
int pipeline_class(const WorldDraft& w, bool forward) {
  const bool blocking = !w.plan.interleaved && w.plan.order.placement == schedule::Placement::loop;
  return blocking ? kInLine : forward ? kDown : kUp;
}

// The communicator of a message to the next stage: of all stages where messages are posted in
// batches, else of the two ranks (torch 2.7 c10d/ProcessGroupNCCL.hpp:1103, the key of
// point-to-point operations). Beside compute Megatron-LM's loop posts them one by one (core 0.8
// pipeline_parallel/p2p_communication.py:308; model_parallel_config.py: overlap_p2p_comm "must be
// False if batch_p2p_comm is true").
cost::PeerGroup stages_of(const WorldDraft& w, int rank, const cluster::Path& path) {
  const int p = w.plan.grid.pipeline;
  cost::PeerGroup out;
  const bool batched =
      w.plan.stage_transport.batched && transport_of(w.plan) != Transport::overlapped;
  if (!batched || p <= 2) {
    return out;
  }
  out.ranks = p;
  cluster::Coordinates far = w.at[rank];
  far.pipeline = 2 * far.pipeline < p ? p - 1 : 0;
  const int other = cluster::rank_at(w.plan.grid, far);
  if (path.kind != cluster::PathClass::network &&
      w.topology.domain_of(rank) != w.topology.domain_of(other)) {
    out.network = w.topology.path(rank, other).bandwidth;
  }
  return out;
}

// Messages of one direction and kind share a channel: it pairs in order.
void add_channel(WorldDraft& w, int from, int to, ChannelRole out, ChannelRole in,
                 int stream_class) {
  cluster::Path path = w.topology.path(from, to);
  const bool between_stages = out != kSendContext && out != kSendTensor;
  program::Channel c;
  c.sender = program::RankId::at(from);
  c.receiver = program::RankId::at(to);
  c.shape = path_shape(w, path, between_stages ? stages_of(w, from, path) : cost::PeerGroup(),
                       out == kSendTensor);
  const auto id = program::ChannelId::at(w.world.channels.size());
  w.world.channels.push_back(c);
  const std::vector<cluster::Resource>& all = w.topology.resources();
  for (int resource : path.resources) {
    const bool at_receiver = all[resource].kind == cluster::ResourceKind::nic_in;
    w.users.add(resource, at_receiver ? to : from, stream_class);
  }
  w.channel_resources.push_back(std::move(path.resources));
  w.world.channel_table[std::size_t(from) * kChannelRoles + out] = id;
  w.world.channel_table[std::size_t(to) * kChannelRoles + in] = id;
}

}  // namespace

void make_channels(WorldDraft& w) {
  const int p = w.plan.grid.pipeline;
  const bool both_ways = w.plan.order.placement != schedule::Placement::loop;
  for (int r = 0; r < w.plan.grid.ranks(); ++r) {
    const auto& a = w.at[r];
    for (const int step : {1, -1}) {
      const int next = a.pipeline + step;
      const bool wraps = next < 0 || next >= p;
      if (p == 1 || (wraps && (both_ways || !w.plan.interleaved))) {
        continue;
      }
      cluster::Coordinates to = a;
      to.pipeline = (next + p) % p;
      const int peer = cluster::rank_at(w.plan.grid, to);
      const bool down = step > 0;
      add_channel(w, r, peer, down ? kSendForward : kSendBackward,
                  down ? kReceiveForward : kReceiveBackward, pipeline_class(w, down));
      if (both_ways) {  // chunks on their way up go forward to the rank above
        add_channel(w, r, peer, down ? kSendBackwardUp : kSendForwardUp,
                    down ? kReceiveBackwardUp : kReceiveForwardUp, pipeline_class(w, down));
      }
    }
    if (w.plan.grid.context > 1) {
      const int next = next_in_context_ring(w.plan, r);
      if (next != r) {
        add_channel(w, r, next, kSendContext, kReceiveContext, kRound);
      }
    }
    if (w.plan.grid.tensor > 1 && w.plan.tensor_parallel.overlap != TensorOverlap::none) {
      add_channel(w, r, next_in_tensor_ring(w.plan, r), kSendTensor, kReceiveTensor, kChunks);
    }
  }
}

}  // namespace stepcast::lower
