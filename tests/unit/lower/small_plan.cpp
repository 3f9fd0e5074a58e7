#include "small_plan.h"

#include <variant>

#include "small_unit.h"

namespace stepcast::lower::test {
namespace {

constexpr int kRanks = 8;
constexpr double kGiga = 1e9;

hardware::Cluster small_cluster() {
  hardware::Cluster out;
  out.name = "made-up";
  out.nodes = 1;
  out.device = stepcast::test::made_up_device();
  out.device.memory_bandwidth = Bandwidth(3000 * kGiga);
  hardware::Node& node = out.node;
  node.name = "made-up";
  node.gpus = kRanks;
  node.nics = kRanks;
  node.nic = Bandwidth(50 * kGiga);
  node.host_memory = Bytes(std::int64_t{1} << 40);
  node.host_memory_bandwidth = Bandwidth(500 * kGiga);
  node.cpu_cores = 64;
  node.nvme = Bytes(std::int64_t{1} << 44);
  node.nvme_read = Bandwidth(50 * kGiga);
  node.nvme_write = Bandwidth(25 * kGiga);
  return out;
}

strategy::Model small_model(int layers) {
  strategy::Model out;
  out.name = "made-up";
  out.layers = layers;
  out.hidden = 1024;
  out.heads = out.kv_heads = 8;
  out.head_dim = 128;
  out.ffn = 4096;
  out.vocab = 32000;
  out.max_positions = 512;
  return out;
}

// Gives each stage the same number of layers in order; the first and the last stage get the ends.
std::vector<std::vector<strategy::Chunk>> even_stages(const Small& sizes,
                                                      schedule::Placement placement) {
  const bool replicas = placement == schedule::Placement::bidirectional;
  const int stages = sizes.pipeline * (replicas ? 1 : sizes.chunks);
  const int layers = sizes.layers / stages;
  std::vector<std::vector<strategy::Chunk>> out;
  for (int rank = 0; rank < sizes.pipeline; ++rank) {
    out.emplace_back();
    for (int chunk = 0; chunk < sizes.chunks; ++chunk) {
      const int stage = schedule::stage_of(placement, sizes.pipeline, rank, chunk);
      out.back().push_back({stage * layers, layers, stage == 0, stage == stages - 1, stage});
    }
  }
  return out;
}

}  // namespace

strategy::Plan small_plan(const Small& sizes) {
  strategy::Plan out;
  out.model = small_model(sizes.layers);
  out.vocab = out.model.vocab;
  out.cluster = small_cluster();
  out.grid.tensor = out.shard.tensor = sizes.tensor;
  out.grid.pipeline = sizes.pipeline;
  out.grid.data = kRanks / sizes.tensor / sizes.pipeline;
  out.shard.sequence_length = out.model.max_positions;
  out.micro_batches = sizes.micro_batches;
  out.replicas = out.grid.data;
  out.expert_data = out.grid.data * sizes.tensor;
  out.data_comm = strategy::DataComm::all_reduce;
  out.gradient_sync.bucket_elements = 40'000'000;

  schedule::Request& request = out.schedule.request;
  out.schedule.name = sizes.schedule;
  request.stages = sizes.pipeline;
  request.micro_batches = sizes.micro_batches;
  request.chunks = sizes.chunks;
  out.order = std::get<schedule::Order>(schedule::make(sizes.schedule, request));
  out.interleaved = sizes.chunks > 1;
  out.vocabulary_split = out.order.barriers > 0;
  out.stages = even_stages(sizes, out.order.placement);
  out.stage_transport.group = sizes.pipeline;
  return out;
}

void share(strategy::Plan& plan, strategy::DataComm comm) {
  using strategy::DataComm;
  plan.data_comm = comm;
  plan.sharding = comm == DataComm::shard_states  ? Sharding::zero1
                  : comm == DataComm::shard_grads ? Sharding::zero2
                                                  : Sharding::zero3;
  plan.shard_ranks = plan.data_ranks();
  plan.replicas = 1;
  plan.gradient_sync.operation = strategy::GradientSync::Operation::reduce_scatter;
  plan.parameter_gather.by_units = comm == DataComm::shard_all;
}

void run_eagerly(strategy::Plan& plan) {
  model::Style& style = plan.style;
  style.fused_softmax = style.fused_bias_activation = style.fused_bias_dropout_add = false;
  style.fused_rotary = style.fused_qkv = false;
  style.fused_linear_bias = true;
  style.loss = plan.loss_form.kernel = LossKernel::eager;
  plan.accumulation.hands_on_gradients = false;
  plan.state_layout.partition = StatePartition::by_array;
}

void keep_narrow_gradients(strategy::Plan& plan) {
  plan.precision.gradients = plan.precision.reduce = DType::bf16;
  plan.state_layout.partition = StatePartition::flat;
  plan.optimizer_step.copies_partition = true;
}

void share_units(strategy::Plan& plan) {
  share(plan, strategy::DataComm::shard_all);
  plan.precision.parameters = DType::fp32;
  plan.precision.master.reset();
  plan.state_layout.partition = StatePartition::by_row;
  plan.state_layout.gradients_stand = false;
  plan.state_layout.makes_sharded_gradients = true;
  strategy::GradientSync& sync = plan.gradient_sync;
  sync.overlaps = sync.each_pass = true;
  sync.accumulates_whole = false;
  strategy::ParameterGather& gather = plan.parameter_gather;
  gather.overlaps = gather.reshard_after_forward = gather.reshards_before_reduction = true;
}

void share_modules(strategy::Plan& plan) {
  share(plan, strategy::DataComm::shard_all);
  keep_narrow_gradients(plan);
  plan.optimizer_step.copies_partition = false;
  strategy::GradientSync& sync = plan.gradient_sync;
  sync.overlaps = sync.each_pass = sync.units_in_buckets = true;
  sync.accumulates_whole = false;
  sync.bucket_elements = 500'000'000;
  sync.storage = BucketStorage::flat;
  strategy::ParameterGather& gather = plan.parameter_gather;
  gather.overlaps = gather.reshard_after_forward = true;
  gather.ends_join_root = false;
  gather.forward_prefetch = Prefetch::explicit_;
  gather.prefetch_elements = 50'000'000;
  gather.persistent_elements = 100'000;
  gather.reuse_elements = 1'000'000'000;
}

program::World lower_small(const strategy::Plan& plan, std::span<const FeatureEntry> features) {
  static const char* const kCalibration = STEPCAST_SOURCE_DIR "/calibration";
  static cost::CurveTable curves;
  static const cost::Kernels kernels(plan.cluster.device, "", kCalibration, {}, curves);
  const cost::Collectives collectives(plan.cluster, plan.nccl, kCalibration, {}, curves);
  const auto topology = cluster::Topology::build(plan.cluster);
  Prices prices;
  prices.kernels[plan.cluster.device.name] = &kernels;
  prices.collectives = &collectives;
  prices.curves = &curves;
  Options options;
  options.features = features;
  return build_world(plan, std::get<cluster::Topology>(topology), prices, options);
}

}  // namespace stepcast::lower::test
