#include <algorithm>
#include <map>
#include <numeric>

#include "groups.h"
#include "host_prices.h"
#include "kinds.h"
#include "outside.h"
#include "passes_loss.h"
#include "play_order.h"
#include "slowdown.h"
#include "stage.h"
#include "stepcast/lower/lower.h"

namespace stepcast::lower {
namespace {

using cluster::GroupShape;
using cluster::Topology;
using program::kNone;
using program::World;

// Streams that may move bytes at the same time: compute (with what it waits for), data, messages
// down and up the pipeline, context, expert and tensor exchanges beside compute.
enum StreamClass { kInLine, kBeside, kDown, kUp, kRound, kExperts, kChunks, kStreamClasses };

// Who may move bytes through a resource at the same time: (rank, stream class). One user alone
// cannot make it bind.
class Users {
 public:
  explicit Users(std::size_t resources) : first_(resources, kNone), several_(resources, 0) {}
  void add(int resource, int rank, int stream_class) {
    if (resource < 0) {
      return;
    }
    const auto key = static_cast<std::uint32_t>(rank * kStreamClasses + stream_class);
    if (first_[resource] == kNone) {
      first_[resource] = key;
    } else if (first_[resource] != key) {
      several_[resource] = 1;
    }
  }
  bool can_bind(int resource) const { return several_[resource] != 0; }

 private:
  std::vector<std::uint32_t> first_;
  std::vector<char> several_;
};

class WorldBuilder {
 public:
  WorldBuilder(const strategy::Plan& plan, const Topology& topology, const Prices& prices,
               const Options& options)
      : plan_(plan),
        topology_(topology),
        prices_(prices),
        options_(options),
        kinds_(plan, topology),
        users_(topology.resources().size()),
        blends_(0) {}

  World build() {
    make_programs();
    make_ranks();
    make_groups();
    make_channels();
    choose_resources();
    fill_usages();
    price_shapes();
    add_host_side();
    weigh_outside();
    world_.labels = labels_.all();
    for (program::Program& p : world_.programs) {
      p.labels = world_.labels;
    }
    make_curves();
    return std::move(world_);
  }

 private:
  // ------------------------------------------------------------ programs
  // Ranks of one stage and kind run one program.
  void make_programs() {
    for (const model::LayerKind kind : model::layer_kinds(plan_.model)) {
      layers_.emplace(kind, model::build_layer(plan_.model, kind, plan_.shard, plan_.style));
    }
    embedding_ = model::build_embedding(plan_.model, plan_.shard, plan_.style);
    head_ = with_loss(model::build_head(plan_.model, plan_.shard, plan_.style), plan_);
    STEPCAST_CHECK(kinds_.devices().size() * kKernelKinds < 256, "too many kinds of devices");
    book_.message(message_bytes(plan_));  // number 0: between stages
    std::vector<OrderTimes> times;
    for (const strategy::Plan& plan : kinds_.plans()) {
      const hardware::Device* first = kinds_.devices().front();
      times.push_back(play_order({&plan, prices_.kernels.at(first->name), &labels_, &book_, false},
                                 {&layers_, &embedding_, &head_}));
    }
    // Kernels of all devices are priced before blends are numbered: blends follow the curve table.
    blends_ = Blends(kBlendBase);
    for (const Kind& kind : kinds_.all()) {
      const hardware::Device* device = kinds_.devices()[static_cast<std::size_t>(kind.device)];
      const strategy::Plan& plan = kinds_.plans()[static_cast<std::size_t>(kind.batch)];
      for (int stage = 0; stage < plan_.grid.pipeline; ++stage) {
        StageContext c;
        c.plan = &plan;
        c.device = device;
        c.passes = {&plan, prices_.kernels.at(device->name), &labels_, &book_, options_.merge};
        c.layers = &layers_;
        c.embedding = &embedding_;
        c.head = &head_;
        c.times = &times[static_cast<std::size_t>(kind.batch)];
        c.blends = &blends_;
        c.slowdown_row = static_cast<std::uint8_t>(1 + kind.device * kKernelKinds);
        Recomputed found;
        world_.programs.push_back(lower_stage(c, stage, found));
        if (options_.recomputed != nullptr) {
          Recomputed& all = *options_.recomputed;
          all.flops.push_back(found.flops.front());
          all.least_budget = std::max(all.least_budget, found.least_budget);
        }
      }
    }
    if (kinds_.plans().size() > 1) {
      check_collectives(world_.programs, static_cast<std::size_t>(plan_.grid.pipeline));
    }
    make_slowdowns();
  }

  // One row per device and kind of kernel; only those in use are worked out.
  void make_slowdowns() {
    world_.slowdowns.resize(1 + kinds_.devices().size() * kKernelKinds);
    std::vector<char> used(world_.slowdowns.size(), 0);
    for (const program::Program& p : world_.programs) {
      for (const program::Task& t : p.tasks) {
        used[t.slowdown] = 1;
      }
    }
    for (std::size_t row = 1; row < world_.slowdowns.size(); ++row) {
      program::Slowdown& s = world_.slowdowns[row];
      if (used[row] == 0) {
        s.speed = {1'000'000};
        continue;
      }
      const int kind = static_cast<int>((row - 1) % kKernelKinds);
      const hardware::Device& device = *kinds_.devices()[(row - 1) / kKernelKinds];
      const cost::Overlap overlap = prices_.kernels.at(device.name)->overlap();
      auto curves = prices_.collectives->slowdown_curves();
      if (overlap.measured) {
        curves = {overlap.arithmetic_curve, overlap.memory_curve};
      }
      s = slowdown_of(device, kind, overlap);
      s.curve = kind == kArithmeticBound ? curves.sms
                : kind == kMemoryBound
                    ? curves.memory
                    : blends_.add({{curves.sms, kMemoryBound - kind}, {curves.memory, kind}});
    }
  }

  // ------------------------------------------------------------ ranks and groups
  void make_ranks() {
    const int n = plan_.grid.ranks();
    world_.ranks.resize(n);
    world_.communicator_table.assign(std::size_t(n) * kRoles, kNone);
    world_.channel_table.assign(std::size_t(n) * kChannelRoles, kNone);
    at_.resize(n);
    for (int r = 0; r < n; ++r) {
      at_[r] = cluster::coordinates(plan_.grid, r);
      const std::size_t kind = kinds_.kind_of(r, at_[r].data);
      world_.ranks[r].program =
          static_cast<program::ProgramId>(kind * static_cast<std::size_t>(plan_.grid.pipeline) +
                                          static_cast<std::size_t>(at_[r].pipeline));
      world_.ranks[r].first_communicator = static_cast<std::uint32_t>(r * kRoles);
      world_.ranks[r].first_channel = static_cast<std::uint32_t>(r * kChannelRoles);
    }
  }

  // Tensor collectives and whatever else runs on or in lockstep with the compute stream are class
  // 0.
  int stream_class(Role role) const {
    switch (role) {
      case kData:
      case kReplicas:
      case kExpertData:
      case kExpertReplicas:
      case kPartition:
      case kNode:
      case kAcross: {
        const bool beside = plan_.gradient_sync.overlap_stated ||
                            plan_.parameter_gather.overlap_stated ||
                            plan_.data_comm == strategy::DataComm::shard_all;
        return beside ? kBeside : kInLine;
      }
      case kContext:
      case kContextInner:
        return kRound;
      case kExpert:
      case kExpertTensor:
      case kTensorExpert:
        return kExperts;
      default:
        return kInLine;
    }
  }
  // Interleaved exchanges send both ways at once, or beside compute; otherwise one message moves at
  // a time.
  int pipeline_class(bool forward) const {
    const bool blocking = !plan_.interleaved && plan_.order.placement == schedule::Placement::loop;
    return blocking ? kInLine : forward ? kDown : kUp;
  }

  void add_group(Role role, const std::vector<int>& ranks) {
    const GroupShape shape = topology_.shape(ranks);
    program::Communicator c;
    c.shape = shape_id(role, shape);
    c.members = c.size = static_cast<std::uint32_t>(ranks.size());
    const auto id = static_cast<program::CommunicatorId>(world_.communicators.size());
    world_.communicators.push_back(c);
    members_.push_back({first_member_.size(), ranks.size(), shape.domains > 1,
                        shape.crosses_core
                            ? std::max(1, shape.nics_per_domain / std::max(1, shape.nics_per_leaf))
                            : 0,
                        shape.crosses_pcie_switch, shape.crosses_socket});
    first_member_.insert(first_member_.end(), ranks.begin(), ranks.end());
    for (int r : ranks) {
      world_.communicator_table[std::size_t(r) * kRoles + role] = id;
      if (ranks.size() > 1) {
        const int k = stream_class(role);
        if (shape.ranks_per_domain > 1) {
          users_.add(topology_.nvlink_port(r), r, k);
        }
        if (shape.domains > 1) {
          users_.add(topology_.nic_out(r), r, k);
          users_.add(topology_.nic_in(r), r, k);
        }
        if (shape.crosses_spine || shape.pairs_cross_spine) {
          users_.add(topology_.spine(r), r, k);
        }
        if (shape.crosses_core) {
          users_.add(topology_.core(r), r, k);
        }
        if (shape.crosses_pcie_switch) {
          users_.add(topology_.pcie_uplink(r), r, k);
        }
        if (shape.crosses_socket) {
          users_.add(topology_.socket_link(r), r, k);
        }
      }
    }
  }

  void make_groups() {
    each_group(plan_, [&](Role role, const std::vector<int>& ranks) { add_group(role, ranks); });
  }

  // Messages of one direction and kind share a channel: it pairs in order.
  void add_channel(int from, int to, ChannelRole out, ChannelRole in, int stream_class) {
    const cluster::Path path = topology_.path(from, to);
    program::Channel c;
    c.sender = static_cast<program::RankId>(from);
    c.receiver = static_cast<program::RankId>(to);
    c.shape = path_shape(path, out == kSendTensor);
    const auto id = static_cast<program::ChannelId>(world_.channels.size());
    world_.channels.push_back(c);
    channel_resources_.push_back(path.resources);
    for (int resource : path.resources) {
      const bool at_receiver =
          topology_.resources()[resource].kind == cluster::ResourceKind::nic_in;
      users_.add(resource, at_receiver ? to : from, stream_class);
    }
    world_.channel_table[std::size_t(from) * kChannelRoles + out] = id;
    world_.channel_table[std::size_t(to) * kChannelRoles + in] = id;
  }

  void make_channels() {
    const int p = plan_.grid.pipeline;
    const bool both_ways = plan_.order.placement != schedule::Placement::loop;
    for (int r = 0; r < plan_.grid.ranks(); ++r) {
      const auto& a = at_[r];
      for (const int step : {1, -1}) {
        const int next = a.pipeline + step;
        const bool wraps = next < 0 || next >= p;
        if (p == 1 || (wraps && (both_ways || !plan_.interleaved))) {
          continue;
        }
        cluster::Coordinates to = a;
        to.pipeline = (next + p) % p;
        const int peer = cluster::rank_at(plan_.grid, to);
        const bool down = step > 0;
        add_channel(r, peer, down ? kSendForward : kSendBackward,
                    down ? kReceiveForward : kReceiveBackward, pipeline_class(down));
        if (both_ways) {  // chunks on their way up go forward to the rank above
          add_channel(r, peer, down ? kSendBackwardUp : kSendForwardUp,
                      down ? kReceiveBackwardUp : kReceiveForwardUp, pipeline_class(down));
        }
      }
      if (plan_.grid.context > 1) {
        const int next = next_in_context_ring(plan_, r);
        if (next != r) {
          add_channel(r, next, kSendContext, kReceiveContext, kRound);
        }
      }
      if (plan_.grid.tensor > 1 && plan_.tensor_parallel.overlap != TensorOverlap::none) {
        add_channel(r, next_in_tensor_ring(plan_, r), kSendTensor, kReceiveTensor, kChunks);
      }
    }
  }

  // ------------------------------------------------------------ resources
  void choose_resources() {
    const auto& all = topology_.resources();
    resource_id_.assign(all.size(), kNone);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (users_.can_bind(static_cast<int>(i))) {
        resource_id_[i] = static_cast<program::ResourceId>(world_.resources.size());
        world_.resources.push_back({static_cast<std::int64_t>(all[i].capacity.count())});
      }
    }
  }

  static constexpr int kEachMember = -1;
  void add_usage(int resource, int count = 1) {
    if (resource < 0 || resource_id_[resource] == kNone) {
      return;
    }
    world_.usages.push_back({resource_id_[resource],
                             static_cast<std::uint32_t>(topology_.resources()[resource].kind),
                             count});
  }

  // A NIC or uplink that several members share is one resource that the price counts once; through
  // host memory, the bytes of every member pass its PCIe switch's uplink.
  void merge_usages(std::size_t first) {
    auto& all = world_.usages;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    std::sort(begin, all.end(),
              [](const auto& a, const auto& b) { return a.resource < b.resource; });
    auto out = begin;
    for (auto in = begin; in != all.end();) {
      program::Usage one = *in;
      std::int64_t members = 0;
      for (; in != all.end() && in->resource == one.resource; ++in) {
        ++members;
      }
      one.count = one.count == kEachMember ? members : one.count;
      *out++ = one;
    }
    all.erase(out, all.end());
  }

  void fill_usages() {
    if (world_.resources.empty()) {
      return;
    }
    const auto& host = plan_.cluster.node;
    for (std::size_t i = 0; i < world_.communicators.size(); ++i) {
      auto& c = world_.communicators[i];
      c.first_usage = static_cast<std::uint32_t>(world_.usages.size());
      const Members& m = members_[i];
      if (m.count > 1) {
        for (std::size_t k = 0; k < m.count; ++k) {
          const int r = first_member_[m.first + k];
          add_usage(topology_.nvlink_port(r));
          if (m.crosses) {
            add_usage(topology_.nic_out(r));
            add_usage(topology_.nic_in(r));
            add_usage(topology_.spine(r));
          }
          if (m.leaves > 0) {
            add_usage(topology_.core(r), m.leaves);
          }
          if (m.over_switches) {
            add_usage(topology_.pcie_uplink(r), host.peer_to_peer ? 1 : kEachMember);
          }
          if (m.over_sockets) {
            add_usage(topology_.socket_link(r));
          }
        }
        merge_usages(c.first_usage);
      }
      c.usages = static_cast<std::uint32_t>(world_.usages.size()) - c.first_usage;
    }
    for (std::size_t i = 0; i < world_.channels.size(); ++i) {
      auto& c = world_.channels[i];
      c.first_usage = static_cast<std::uint32_t>(world_.usages.size());
      for (int resource : channel_resources_[i]) {
        add_usage(resource);
      }
      c.usages = static_cast<std::uint32_t>(world_.usages.size()) - c.first_usage;
    }
  }

  // ------------------------------------------------------------ prices
  std::uint32_t shape_id(Role role, const GroupShape& shape) {
    for (std::uint32_t i = 0; i < shapes_.size(); ++i) {
      if (shapes_[i].role == role && shapes_[i].group == shape) {
        return i;
      }
    }
    shapes_.push_back({role, shape, {}, false, {}, {}});
    return static_cast<std::uint32_t>(shapes_.size() - 1);
  }

  std::uint32_t path_shape(const cluster::Path& path, bool copies = false) {
    for (std::uint32_t i = 0; i < shapes_.size(); ++i) {
      const auto& s = shapes_[i];
      if (s.role == kRoles && s.copies == copies && s.path.kind == path.kind &&
          s.path.bandwidth == path.bandwidth && s.path.latency == path.latency &&
          s.path.hops == path.hops) {
        return i;
      }
    }
    shapes_.push_back({kRoles, {}, path, copies, {}, {}});
    return static_cast<std::uint32_t>(shapes_.size() - 1);
  }

  // Of the device with the least: a price holds for groups of any.
  Bandwidth memory_bandwidth() const {
    Bandwidth least = kinds_.devices().front()->memory_bandwidth;
    for (const hardware::Device* d : kinds_.devices()) {
      least = std::min(least, d->memory_bandwidth);
    }
    return least;
  }

  program::Price price_of(const cost::CollectivePrice& c, std::int64_t bytes,
                          const std::string& label) {
    program::Price p;
    p.latency = c.latency.count();
    p.fluid = c.fluid.count();
    p.bytes = bytes;
    p.latency_curve = c.latency_curve;
    p.curve = c.curve;
    p.pressure = pressure_of(c, memory_bandwidth());
    p.label = labels_.id(label);
    const std::int64_t payload = std::max({c.nvlink.count(), c.nic.count(), std::int64_t{1}});
    if (p.fluid > 0) {
      p.rate =
          std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(payload) * 1e12 /
                                                              static_cast<double>(p.fluid)));
      const auto weight = [&](Bytes b) {
        return static_cast<std::int64_t>(static_cast<double>(b.count()) * program::kWeightOne /
                                         static_cast<double>(payload));
      };
      p.weight[0] = weight(c.nvlink);
      p.weight[1] = weight(c.nic);
      p.weight[2] = weight(c.nic);
      p.weight[3] = weight(c.spine);
    }
    return p;
  }

  void price_shapes() {
    world_.shapes.resize(shapes_.size());
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      const Shape& s = shapes_[i];
      auto& out = world_.shapes[i].prices;
      if (s.role == kRoles) {
        for (const std::int64_t bytes : book_.messages()) {
          out.push_back(price_of(s.copies
                                     ? prices_.collectives->peer_copy(Bytes(bytes), s.path)
                                     : prices_.collectives->point_to_point(Bytes(bytes), s.path),
                                 bytes, s.copies ? "copy" : "send"));
        }
        continue;
      }
      for (const PriceBook::Entry& e : book_.entries(s.role)) {
        const auto c = e.price(*prices_.collectives, s.group);
        shapes_[i].algorithms.push_back(c.algorithm);
        shapes_[i].tokens.push_back(e.tokens.has_value());
        out.push_back(price_of(
            c, e.bytes,
            e.name() + " " + cost::to_string(c.algorithm) + " " + cost::to_string(c.protocol)));
      }
    }
    // An operation alone never exceeds what it was measured at: capacity is at least any single
    // demand.
    auto widen = [&](const auto& user) {
      for (const program::Price& price : world_.shapes[user.shape].prices) {
        for (std::uint32_t u = 0; u < user.usages; ++u) {
          const auto& usage = world_.usages[user.first_usage + u];
          const double demand = static_cast<double>(price.rate) *
                                static_cast<double>(price.weight[usage.kind] * usage.count) /
                                static_cast<double>(program::kWeightOne);
          auto& capacity = world_.resources[usage.resource].capacity;
          capacity = std::max(capacity, static_cast<std::int64_t>(demand) + 1);
        }
      }
    };
    if (!world_.resources.empty()) {
      std::for_each(world_.communicators.begin(), world_.communicators.end(), widen);
      std::for_each(world_.channels.begin(), world_.channels.end(), widen);
    }
  }

  void add_host_side() {
    std::vector<const cost::Kernels*> kernels;
    for (const hardware::Device* device : kinds_.devices()) {
      kernels.push_back(prices_.kernels.at(device->name));
    }
    std::vector<int> rows;
    for (std::size_t r = 0; r < world_.ranks.size(); ++r) {
      rows.push_back(kinds_.device_of(static_cast<int>(r)));
    }
    host_curves_ = add_host(world_, plan_, topology_, book_, labels_, kernels, kinds_.devices(),
                            rows, static_cast<program::CurveId>(prices_.curves->curves().size()));
  }

  // ------------------------------------------------------------ memory outside the allocator
  // Of the first rank of each program: its communicators and what its tasks run on them.
  void weigh_outside() {
    std::vector<int> all(static_cast<std::size_t>(plan_.grid.ranks()));
    std::iota(all.begin(), all.end(), 0);
    const GroupShape world = topology_.shape(all);
    std::vector<char> done(world_.programs.size(), 0);
    for (int r = 0; r < plan_.grid.ranks(); ++r) {
      const program::ProgramId id = world_.ranks[r].program;
      if (done[id] == 0) {
        done[id] = 1;
        program::Program& p = world_.programs[id];
        p.outside_parts = lower::outside_parts(plan_, topology_.device(r), groups_of(r, world));
        for (const auto& [name, bytes] : p.outside_parts) {
          p.outside_allocator = p.outside_allocator + bytes;
        }
      }
    }
  }

  std::vector<UsedGroup> groups_of(int rank, const GroupShape& world) const {
    const program::Program& p = world_.programs[world_.ranks[rank].program];
    std::vector<unsigned> algorithms(kRoles, 0);
    std::vector<bool> tokens(kRoles, false);
    bool messages = false;
    const auto table = static_cast<std::size_t>(rank) * kRoles;
    for (const program::Task& t : p.tasks) {
      if (t.kind == program::TaskKind::exchange) {
        messages = messages || std::any_of(p.transfers.begin() + t.first_transfer,
                                           p.transfers.begin() + t.first_transfer + t.transfers,
                                           [](const auto& x) { return x.channel < kSendContext; });
        continue;
      }
      const auto id = t.kind == program::TaskKind::collective
                          ? world_.communicator_table[table + t.communicator]
                          : kNone;
      if (id == kNone || world_.communicators[id].size <= 1) {
        continue;
      }
      const Shape& s = shapes_[world_.communicators[id].shape];
      if (s.tokens[t.price]) {
        tokens[t.communicator] = true;
      } else {
        algorithms[t.communicator] |= cost::bit(s.algorithms[t.price]);
        // Where switches multicast, NVLS is connected too: eight B200 that gather and reduce under
        // FSDP2 hold its buffers beside two communicators' rings (tests/laws/outside.cpp).
        constexpr std::int64_t kLarge = 1 << 20;
        const std::int64_t bytes =
            world_.shapes[world_.communicators[id].shape].prices[t.price].bytes;
        if (s.group.nvls && s.group.domains == 1 && s.group.ranks > 2 && bytes >= kLarge) {
          algorithms[t.communicator] |= cost::bit(cost::Algorithm::nvls);
        }
      }
    }
    // The group of all ranks, on which barriers and the loss are summed: the framework's default
    // one, and Megatron-LM's for the norm where that is of all ranks. FSDP2's norms run on its
    // mesh.
    const unsigned few =
        plan_.grid.ranks() > 1
            ? cost::bit(prices_.collectives->price(cost::Collective::all_reduce, Bytes(4), world)
                            .algorithm)
            : 0;
    if (plan_.optimizer_step.norm_has_its_group) {
      const auto norm = world_.communicator_table[table + kNorm];
      if (norm != kNone &&
          world_.communicators[norm].size == static_cast<std::uint32_t>(plan_.grid.ranks())) {
        algorithms[kNorm] = 0;
      }
    } else {
      algorithms[kNorm] = 0;
    }
    std::vector<UsedGroup> out;
    if (few != 0) {
      out.push_back({"all ranks", world, few, false});
    }
    for (std::uint32_t role = 0; role < kRoles; ++role) {
      if (algorithms[role] != 0 || tokens[role]) {
        const auto id = world_.communicator_table[table + role];
        out.push_back({group_name(role), shapes_[world_.communicators[id].shape].group,
                       algorithms[role], tokens[role]});
      }
    }
    if (messages) {
      out.push_back({"pipeline", neighbours_of(rank), cost::bit(cost::Algorithm::direct), false});
    }
    return out;
  }

  // A rank with those it sends to and receives from.
  GroupShape neighbours_of(int rank) const {
    std::vector<int> ranks = {rank};
    for (std::uint32_t role = 0; role < kSendContext; ++role) {
      const auto id = world_.channel_table[static_cast<std::size_t>(rank) * kChannelRoles + role];
      if (id != kNone) {
        const program::Channel& c = world_.channels[id];
        ranks.push_back(static_cast<int>(
            c.sender == static_cast<program::RankId>(rank) ? c.receiver : c.sender));
      }
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return topology_.shape(ranks);
  }

  void make_curves() {
    for (const cost::Curve& c : prices_.curves->curves()) {
      world_.curves.push_back({c.name, c.file, c.residual, {}});
    }
    world_.curves.insert(world_.curves.end(), host_curves_.begin(), host_curves_.end());
    const auto base = static_cast<program::CurveId>(world_.curves.size());
    STEPCAST_CHECK(base + blends_.all().size() < kBlendBase, "too many curves");
    for (const auto& parts : blends_.all()) {
      world_.curves.push_back({"merged kernels", "", 0, parts});
    }
    for (program::Program& p : world_.programs) {
      for (program::Task& t : p.tasks) {
        if (t.curve >= kBlendBase) {
          t.curve = static_cast<program::CurveId>(t.curve - kBlendBase + base);
        }
      }
    }
    for (program::Slowdown& s : world_.slowdowns) {
      if (s.curve >= kBlendBase && s.curve != program::kNoCurve) {
        s.curve = static_cast<program::CurveId>(s.curve - kBlendBase + base);
      }
    }
  }

  // Blends are numbered from here until the curve table is complete.
  static constexpr program::CurveId kBlendBase = 0x8000;

  struct Shape {
    Role role;  // kRoles: a path
    GroupShape group;
    cluster::Path path;
    bool copies = false;  // by copy engines: products in chunks (passes_tensor_overlap.cpp)
    std::vector<cost::Algorithm> algorithms = {};  // by price
    std::vector<bool> tokens = {};                 // likewise: by a dispatcher's own kernels
  };
  struct Members {
    std::size_t first;
    std::size_t count;
    bool crosses;
    int leaves;  // of one domain, whose bytes meet in the core; 0: stays in its pod
    bool over_switches;
    bool over_sockets;
  };

  const strategy::Plan& plan_;
  const Topology& topology_;
  const Prices& prices_;
  const Options& options_;
  Kinds kinds_;
  World world_;
  Labels labels_;
  PriceBook book_;
  std::vector<program::Curve> host_curves_;
  Users users_;
  Blends blends_;
  std::map<model::LayerKind, model::OperatorGraph> layers_;
  model::OperatorGraph embedding_, head_;
  std::vector<cluster::Coordinates> at_;
  std::vector<Shape> shapes_;
  std::vector<Members> members_;
  std::vector<int> first_member_;
  std::vector<std::vector<int>> channel_resources_;
  std::vector<program::ResourceId> resource_id_;
};

}  // namespace

World build_world(const strategy::Plan& plan, const Topology& topology, const Prices& prices,
                  const Options& options) {
  return WorldBuilder(plan, topology, prices, options).build();
}

}  // namespace stepcast::lower
