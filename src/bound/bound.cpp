#include "stepcast/bound/bound.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace stepcast::bound {
namespace {

// Of `bytes`, what stays on the device.
std::int64_t left(std::int64_t bytes, const job::OffloadPart& part) {
  const double share = part.to == job::OffloadTarget::none ? 0 : part.ratio;
  return static_cast<std::int64_t>(static_cast<double>(bytes) * (1 - share));
}

// What decides the price of a unit.
struct Key {
  int tensor;
  bool sequence_parallel;
  std::int64_t micro_batch;
  bool accumulates;  // more than one micro-batch
  job::Recompute recompute;
  bool operator==(const Key&) const = default;
};

}  // namespace

struct Bound::State {
  job::Job base;
  cluster::Topology topology;
  lower::Prices prices;
  std::vector<const job::Device*> devices;      // of the base and of its overrides
  std::vector<model::LayerKind> kinds;          // of the model's layers, each once
  std::vector<std::vector<int>> layers_before;  // [kind][i]: layers of that kind among the first i
  std::vector<std::pair<Key, lower::UnitTimes>> units;
  struct DataPrice {
    int tensor, data;
    std::int64_t bytes;
    bool whole;
    Time time;
  };
  std::vector<DataPrice> data_prices;
  struct Placed {
    int pipeline, chunks;
    std::vector<std::vector<strategy::Chunk>> stages;
  };
  std::vector<Placed> placements;
  schedule::Placement placement = schedule::Placement::loop;
  // Only where ranks begin one after the other and end so can the ramp be added; a split backward
  // pass leaves weight gradients to the end, and vocabulary passes move the ends' work.
  bool ramps = true;
  bool splits_vocabulary = false;
  bool pairs = false;

  // Experts are cut as the dense layers unless the base job cuts them otherwise.
  int expert_tensor(const Candidate& c) const {
    const auto& par = base.parallelism;
    return par.expert_tensor == par.tensor ? c.tensor : par.expert_tensor;
  }

  // Where layers lie, by stages and chunks; empty: they do not divide so.
  const std::vector<std::vector<strategy::Chunk>>& stages_of(const Candidate& c) {
    for (const auto& have : placements) {
      if (have.pipeline == c.pipeline && have.chunks == c.virtual_pipeline) {
        return have.stages;
      }
    }
    job::Job job = base;
    job.parallelism.pipeline = c.pipeline;
    auto placed = strategy::place_layers(job, placement, c.virtual_pipeline);
    auto* stages = std::get_if<std::vector<std::vector<strategy::Chunk>>>(&placed);
    placements.push_back(
        {c.pipeline, c.virtual_pipeline,
         stages == nullptr ? std::vector<std::vector<strategy::Chunk>>() : std::move(*stages)});
    return placements.back().stages;
  }

  const lower::UnitTimes& unit_times(const Candidate& c, bool accumulates) {
    const Key key{c.tensor, c.sequence_parallel, c.micro_batch, accumulates, c.recompute};
    for (const auto& [have, times] : units) {
      if (have == key) {
        return times;
      }
    }
    strategy::Plan plan;
    plan.job = base;
    plan.job.memory.recompute = c.recompute;
    plan.job.workload.micro_batch = c.micro_batch;
    plan.grid.tensor = c.tensor;
    plan.micro_batches = accumulates ? 2 : 1;
    plan.shard.sequences = c.micro_batch;
    plan.shard.sequence_length = base.workload.sequence_length;
    plan.shard.context = plan.grid.context = base.parallelism.context;
    plan.shard.tensor = c.tensor;
    plan.shard.sequence_parallel = c.sequence_parallel && c.tensor > 1;
    plan.shard.expert = base.parallelism.expert;
    plan.shard.expert_tensor = base.model.moe ? expert_tensor(c) : 1;
    plan.style = model::style_of(base);
    plan.job.model.vocab = strategy::padded_vocab(base, c.tensor);
    plan.vocab = plan.job.model.vocab;
    // A pipeline may run on any of a mixed cluster's devices: each unit on its fastest.
    lower::UnitTimes times = lower::unit_times(plan, topology, prices, *devices.front());
    for (std::size_t n = 1; n < devices.size(); ++n) {
      const lower::UnitTimes other = lower::unit_times(plan, topology, prices, *devices[n]);
      const auto least = [](lower::UnitTime& mine, const lower::UnitTime& theirs) {
        mine.forward = std::min(mine.forward, theirs.forward);
        mine.backward = std::min(mine.backward, theirs.backward);
        mine.kernels = std::min(mine.kernels, theirs.kernels);
      };
      least(times.embedding, other.embedding);
      least(times.head, other.head);
      for (std::size_t i = 0; i < times.layers.size(); ++i) {
        least(times.layers[i].second, other.layers[i].second);
      }
    }
    units.emplace_back(key, std::move(times));
    return units.back().second;
  }

  // All gradients in one collective: latency once, so never dearer than its buckets.
  Time gradient_time(const Candidate& c, std::int64_t parameters, bool whole) {
    const auto bytes = static_cast<std::int64_t>(static_cast<double>(parameters) *
                                                 job::bytes_per_element(base.memory.dtypes.reduce));
    for (const DataPrice& have : data_prices) {
      if (have.tensor == c.tensor && have.data == c.data && have.bytes == bytes &&
          have.whole == whole) {
        return have.time;
      }
    }
    const int context = base.parallelism.context;
    const cluster::Grid grid{c.tensor, context, c.data, c.pipeline, 1, base.cluster.order};
    std::vector<int> ranks;
    ranks.reserve(static_cast<std::size_t>(c.data) * context);
    for (int d = 0; d < c.data; ++d) {
      for (int k = 0; k < context; ++k) {
        ranks.push_back(cluster::rank_at(grid, {0, k, d, 0}));
      }
    }
    std::sort(ranks.begin(), ranks.end());
    const auto price = prices.collectives->price(
        whole ? cost::Collective::all_reduce : cost::Collective::reduce_scatter, Bytes(bytes),
        topology.shape(ranks));
    const Time time = price.fluid;
    data_prices.push_back({c.tensor, c.data, bytes, whole, time});
    return time;
  }
};

namespace {

// The cluster without its faults, every GPU linked as the best-linked one: a collective is priced
// once and stands for groups anywhere.
cluster::Topology best_case(const job::Cluster& given, const cluster::Topology& topology) {
  if (given.faults.empty() && given.overrides.empty()) {
    return topology;
  }
  job::Cluster best = given;
  best.faults.clear();
  best.overrides.clear();
  best.fabric.routing = job::Fabric::Routing::adaptive;  // no draw of hashed routes does better
  for (const auto& o : given.overrides) {
    best.device.nvlink = std::max(best.device.nvlink, o.device.nvlink);
    best.device.pcie = std::max(best.device.pcie, o.device.pcie);
  }
  auto built = cluster::Topology::build(best);
  auto* whole = std::get_if<cluster::Topology>(&built);
  return whole != nullptr ? std::move(*whole) : topology;
}

}  // namespace

Bound::Bound(const job::Job& base, const cluster::Topology& topology, const lower::Prices& prices)
    : state_(std::make_unique<State>(
          State{base, best_case(base.cluster, topology), prices, {}, {}, {}, {}, {}, {}})) {
  if (const schedule::Entry* entry = strategy::schedule_of(base)) {
    const bool vocabulary =
        base.parallelism.schedule && !base.parallelism.schedule->vocabulary.empty();
    state_->placement = entry->placement;
    state_->pairs = entry->name.starts_with("dualpipe") || strategy::pairs_passes(base);
    state_->splits_vocabulary = vocabulary || entry->name == "interlaced";
    state_->ramps = entry->placement == schedule::Placement::loop && !entry->splits_backward &&
                    !state_->splits_vocabulary && !base.system.optimizer_post_validation;
  } else {
    state_->ramps = false;
  }
  const job::Cluster& cluster = state_->base.cluster;
  state_->devices.push_back(&cluster.device);
  for (const auto& o : cluster.overrides) {
    state_->devices.push_back(&o.device);
  }
  const int layers = model::layer_count(base.model);
  for (int layer = 0; layer < layers; ++layer) {
    const model::LayerKind kind = model::layer_kind(base.model, layer);
    auto& kinds = state_->kinds;
    auto at = std::find(kinds.begin(), kinds.end(), kind);
    if (at == kinds.end()) {
      at = kinds.insert(at, kind);
      state_->layers_before.emplace_back(layers + 1, 0);
    }
    const auto mine = static_cast<std::size_t>(at - kinds.begin());
    ++state_->layers_before[mine][layer + 1];
  }
  for (auto& before : state_->layers_before) {
    std::partial_sum(before.begin(), before.end(), before.begin());
  }
}
Bound::~Bound() = default;
Bound::Bound(Bound&&) noexcept = default;

Candidate candidate_of(const strategy::Plan& plan) {
  const auto& par = plan.job.parallelism;
  return {par.tensor,
          par.pipeline,
          static_cast<int>(plan.stages.front().size()),
          plan.grid.data,
          plan.job.workload.micro_batch,
          plan.shard.sequence_parallel,
          par.sharding,
          plan.job.memory.recompute};
}

Result Bound::evaluate(const Candidate& c) {
  State& s = *state_;
  const job::Job& job = s.base;
  const std::int64_t per_step = c.micro_batch * c.data;
  const auto& stages = s.stages_of(c);
  if (per_step <= 0 || job.workload.global_batch % per_step != 0 ||
      c.tensor * job.parallelism.context * c.pipeline * c.data != job.cluster.ranks() ||
      job.model.heads % c.tensor != 0 || job.model.kv_heads % c.tensor != 0 || stages.empty()) {
    return {};
  }
  const std::int64_t micro_batches = job.workload.global_batch / per_step;
  const lower::UnitTimes& u = s.unit_times(c, micro_batches > 1);

  Time ramp{
      0};  // forward and backward of one micro-batch through the first chunks of earlier ranks
  Time longest{0};
  Time data{0};
  std::int64_t memory = 0;
  using Kind = job::Recompute::Kind;
  const Kind kind = c.recompute.kind;
  const auto kept = [&](const lower::UnitTime& unit) {
    return kind == Kind::none || kind == Kind::selective ? unit.kept
           : kind == Kind::full                          ? unit.input
                                                         : 0;
  };
  // Where forward and backward passes run as pairs, collectives of one may hide behind the other.
  const auto both = [&](const lower::UnitTime& unit) {
    return s.pairs ? unit.kernels : unit.forward + unit.backward;
  };
  const strategy::DataComm comm =
      c.data * job.parallelism.context == 1 ? strategy::DataComm::none
      : c.sharding == job::Sharding::zero1  ? strategy::DataComm::shard_states
      : c.sharding == job::Sharding::zero2  ? strategy::DataComm::shard_grads
      : c.sharding == job::Sharding::zero3  ? strategy::DataComm::shard_all
                                            : strategy::DataComm::all_reduce;
  const int shards = c.sharding == job::Sharding::none
                         ? 1
                         : job.parallelism.shard_size.value_or(c.data * job.parallelism.context);
  const int ranks_of_data = c.data * job.parallelism.context;
  for (int rank = 0; rank < c.pipeline; ++rank) {
    std::int64_t least_chunk = std::numeric_limits<std::int64_t>::max();
    Time work{0};
    Time first_chunk{0};
    std::int64_t parameters = 0;
    for (int chunk = 0; chunk < c.virtual_pipeline; ++chunk) {
      const strategy::Chunk& here = stages[rank][chunk];
      const int first = here.first_layer;
      const int layers = here.layers;
      Time pass{0};
      std::int64_t chunk_kept = 0;
      for (std::size_t k = 0; k < u.layers.size(); ++k) {
        const int count = s.layers_before[k][first + layers] - s.layers_before[k][first];
        const lower::UnitTime& unit = u.layers[k].second;
        pass += count * both(unit);
        parameters += count * unit.parameters;
        chunk_kept += count * kept(unit);
      }
      if (here.embedding && !s.splits_vocabulary) {
        pass += both(u.embedding);
        parameters += u.embedding.parameters;
      }
      if (here.head && !s.splits_vocabulary) {
        pass += both(u.head);
        parameters += job.model.tied_embeddings && c.pipeline == 1 ? 0 : u.head.parameters;
      }
      // A micro-batch runs through one of a bidirectional pipeline's two copies.
      work += s.placement == schedule::Placement::bidirectional ? pass / 2 : pass;
      least_chunk = std::min(least_chunk, chunk_kept);
      if (chunk == 0) {
        first_chunk = pass;
      }
    }
    longest = std::max(longest, ramp + micro_batches * work);
    ramp += s.ramps ? first_chunk : Time(0);
    // Chunks in flight under 1F1B; GPipe and wider groups hold more.
    const std::int64_t in_flight =
        !s.ramps ? 1
        : c.virtual_pipeline == 1
            ? std::min<std::int64_t>(micro_batches, c.pipeline - rank)
            : std::min<std::int64_t>(
                  micro_batches * c.virtual_pipeline,
                  2 * (c.pipeline - rank - 1) + (c.virtual_pipeline - 1) * c.pipeline + 1);
    const lower::StateBytes states = lower::state_bytes(job, comm, shards, parameters);
    std::int64_t activations = in_flight * least_chunk;
    if (rank + 1 == c.pipeline &&
        s.ramps) {  // the logits stand on top of their own micro-batch's activations
      activations = std::max(activations, least_chunk + u.head.kept);
    }
    const job::Offload& away = job.memory.offload;
    memory = std::max(
        memory, left(states.parameters, away.parameters) + left(states.gradients, away.gradients) +
                    left(states.optimizer, away.optimizer) + left(activations, away.activations));
    if (ranks_of_data > 1) {
      data = std::max(data, s.gradient_time(c, parameters, c.sharding == job::Sharding::none));
    }
  }
  return {true, std::max(longest, data), Bytes(memory)};
}

}  // namespace stepcast::bound
