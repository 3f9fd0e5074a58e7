// Every key of a training system sets a field of one policy, and every value of `family` sets a
// group of fields.
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/strategy/plan.h"

using namespace stepcast;
using strategy::GradientSync;
using strategy::Plan;

namespace {

using Overrides = std::vector<std::string>;

// Divisible by every size below. The job names no system, so nothing is refused.
const std::string kJob =
    "model: {layers: 8, hidden: 512, heads: 8, kv_heads: 8, head_dim: 64, ffn: 2048, vocab: 1024, "
    "max_positions: 512}\n"
    "cluster: {use: dgx-a100, nodes: 1}\n"
    "workload: {sequence_length: 512, global_batch: 64}\n";

Plan resolved(const Overrides& overrides) {
  auto plan = strategy::resolve(config::parse(kJob, "job.yaml", overrides).job);
  if (const auto* why = std::get_if<Infeasible>(&plan)) {
    FAIL(why->key << ": " << why->reason);
  }
  return std::get<Plan>(std::move(plan));
}

// With `keys` the field has the value, without them another one. `beside` is part of both jobs.
struct Reaches {
  Overrides keys;
  std::function<bool(const Plan&)> holds;
  Overrides beside = {};
};

void check(const std::vector<Reaches>& all) {
  for (const Reaches& one : all) {
    INFO(one.keys.front());
    Overrides with = one.beside;
    with.insert(with.end(), one.keys.begin(), one.keys.end());
    CHECK(one.holds(resolved(with)));
    CHECK_FALSE(one.holds(resolved(one.beside)));
  }
}

const Overrides kPipeline = {"parallelism.pipeline=4"};
const Overrides kZero1 = {"parallelism.sharding=zero1"};
const Overrides kZero2 = {"parallelism.sharding=zero2"};
const Overrides kZero3 = {"parallelism.sharding=zero3"};
const Overrides kAdapterUnits = {"parallelism.sharding=fsdp", "system.flat_parameters=true",
                                 "system.wraps_adapters=true", "system.casts_adapter_inputs=true"};
const Overrides kNoEngine = {"system.transformer_engine=false"};

Overrides of_family(const std::string& family, Overrides others = {}) {
  others.push_back("system.family=" + family);
  return others;
}

}  // namespace

TEST_CASE("A job says whether an eager loss reads gathered logits, and else its system does") {
  const auto eager = [](Overrides keys) {
    keys.insert(keys.end(), {"kernels.loss=eager", "parallelism.tensor=2"});
    return resolved(keys).loss_form.eager;
  };
  CHECK(eager({"system.family=fsdp2"}) == EagerLoss::shards_logits);
  CHECK(eager({"system.family=fsdp2", "kernels.loss_parallel=false"}) == EagerLoss::gathers_logits);
  CHECK(eager({"system.family=fsdp2", "system.gathers_wide_logits=true"}) ==
        EagerLoss::gathers_logits);
  CHECK(eager({"system.family=megatron"}) == EagerLoss::gathers_logits);
  CHECK(eager({"system.family=megatron", "kernels.loss_parallel=true"}) ==
        EagerLoss::shards_logits);
}

TEST_CASE("Keys of gradients are fields of GradientSync", "[strategy]") {
  check({
      {{"system.bucket_elements=12345"},
       [](const Plan& p) { return p.gradient_sync.bucket_elements == 12345; }},
      {{"system.bucket_bytes=4000"},
       [](const Plan& p) { return p.gradient_sync.bucket_elements == 1000; },
       {"memory.dtypes.reduce=fp32"}},
      {{"system.sharded_bucket_elements=77"},
       [](const Plan& p) { return p.gradient_sync.bucket_elements == 77; },
       kZero1},
      {{"system.first_bucket_bytes=400"},
       [](const Plan& p) { return p.gradient_sync.first_bucket_elements == 100; },
       {"memory.dtypes.reduce=fp32"}},
      {{"system.bucket_first_stage_only=true"},
       [](const Plan& p) { return p.gradient_sync.first_stage_only; },
       {"system.bucket_first_stage_only=false"}},
      {{"system.bucket_before_overflow=true"},
       [](const Plan& p) { return p.gradient_sync.bucket_before_overflow; }},
      {{"system.bucket_before_backward=true"},
       [](const Plan& p) { return p.gradient_sync.bucket_before_backward; },
       kZero1},
      {{"system.gradient_bucket_view=true"},
       [](const Plan& p) { return p.gradient_sync.live_in_buckets; }},
      {{"system.zero3_buckets=true"},
       [](const Plan& p) { return p.gradient_sync.units_in_buckets; }},
      {{"system.zero3_overlaps=true"},
       [](const Plan& p) { return p.gradient_sync.overlaps && p.parameter_gather.overlaps; },
       {"parallelism.sharding=zero3", "parallelism.overlap.grad_reduce=false",
        "parallelism.overlap.param_gather=false", "system.zero3_overlaps=false"}},
      {{"system.overlap_with_pipeline=false"},
       [](const Plan& p) { return !p.gradient_sync.overlaps; },
       {"parallelism.pipeline=4", "parallelism.overlap.grad_reduce=true"}},
      {{"system.zero1_all_reduces=true"},
       [](const Plan& p) {
         return p.gradient_sync.operation == GradientSync::Operation::all_reduce;
       },
       kZero1},
      {{"system.zero2_all_reduces=true"},
       [](const Plan& p) {
         return p.gradient_sync.operation == GradientSync::Operation::all_reduce;
       },
       kZero2},
      {{"system.zero1_overlaps=false"},
       [](const Plan& p) { return !p.gradient_sync.overlaps && !p.gradient_sync.overlap_stated; },
       {"parallelism.sharding=zero1", "parallelism.overlap.grad_reduce=true"}},
      {{"system.gathers_slices=true"}, [](const Plan& p) { return p.parameter_gather.by_slices; }},
      {{"system.slices_arrays=true"},
       [](const Plan& p) {
         return p.state_layout.master_is_one &&
                p.state_layout.partition == StatePartition::by_array;
       }},
      {{"system.reduce_to_owner=true"},
       [](const Plan& p) {
         return p.gradient_sync.operation == GradientSync::Operation::reduce &&
                p.parameter_gather.from_owners;
       },
       kZero1},
      {{"system.align_grad_reduce=true"},
       [](const Plan& p) { return p.gradient_sync.aligned; },
       {"system.align_grad_reduce=false"}},
      {{"system.cycle_time=5ms"},
       [](const Plan& p) { return p.gradient_sync.cycle_time == Time(5'000'000'000); }},
      {{"system.hierarchical_all_reduce=true"},
       [](const Plan& p) { return p.gradient_sync.hierarchical; }},
      {{"parallelism.accumulation.reduce=each"},
       [](const Plan& p) {
         return p.gradient_sync.after_each_stated && p.gradient_sync.each_pass &&
                p.gradient_sync.sends_as_filled && !p.gradient_sync.sends_behind_backward;
       },
       {"parallelism.overlap.grad_reduce=false"}},
  });
}

TEST_CASE("Gradients in two levels need a link to the host where data ranks are on several nodes",
          "[strategy]") {
  // Hosts of four chips, whose link to them no source states.
  const auto refused = [](Overrides overrides) {
    overrides.insert(overrides.end(), {"cluster.use=tpu-v5p", "cluster.nodes=2",
                                       "system.hierarchical_all_reduce=true"});
    const auto plan = strategy::resolve(config::parse(kJob, "job.yaml", overrides).job);
    const auto* why = std::get_if<Infeasible>(&plan);
    return why != nullptr && why->key == "system.hierarchical_all_reduce";
  };
  CHECK(refused({}));
  CHECK(refused({"parallelism.tensor=2"}));
  CHECK(refused({"parallelism.context=8"}));
  CHECK_FALSE(refused({"parallelism.pipeline=2"}));
  CHECK_FALSE(refused({"parallelism.tensor=8"}));
  CHECK_FALSE(refused({"cluster.device.pcie=32 GB/s"}));
}

TEST_CASE("Gradients' sum is made in the product or beside it", "[strategy]") {
  check({
      {{"memory.dtypes.gradients=fp32"},
       [](const Plan& p) { return p.accumulation.casts_first; },
       {"system.family=deepspeed"}},
      {{"system.gradient_accumulation_fusion=true"},
       [](const Plan& p) { return p.accumulation.in_product; },
       {"system.gradient_accumulation_fusion=false", "memory.dtypes.gradients=fp32"}},
      {{"system.transformer_engine=true"},
       [](const Plan& p) {
         return p.accumulation.in_product && p.accumulation.empty_gradients_stand;
       },
       {"system.transformer_engine=false", "system.gradient_accumulation_fusion=true",
        "memory.dtypes.gradients=bf16"}},
  });
}

TEST_CASE("Keys of sharded units are fields of ParameterGather", "[strategy]") {
  check({
      {{"system.flat_parameters=true"}, [](const Plan& p) { return p.parameter_gather.flat; }},
      {{"system.gathers_arrays=true"}, [](const Plan& p) { return p.parameter_gather.by_arrays; }},
      {{"system.unit_buffers=true"},
       [](const Plan& p) { return p.parameter_gather.unit_buffers; },
       kZero3},
      {{"system.unit_buffers=true"},
       [](const Plan& p) { return p.gradient_sync.bucket_of_pass; },
       kZero2},
      {{"system.double_buffers=true"},
       [](const Plan& p) { return p.parameter_gather.double_buffers; },
       {"system.unit_buffers=true", "parallelism.sharding=zero3"}},
      {{"system.unit_buffer_elements=5000"},
       [](const Plan& p) { return p.parameter_gather.unit_buffer_elements == 5000; },
       {"system.unit_buffers=true", "parallelism.sharding=zero3"}},
      {{"system.wraps_ends=true"},
       [](const Plan& p) { return !p.parameter_gather.ends_join_root; }},
      {{"system.joins_tied_or_frozen_ends=true"},
       [](const Plan& p) { return p.parameter_gather.ends_join_root; },
       {"system.wraps_ends=true", "workload.finetune.lora.rank=16"}},
      {{"system.keeps_head=true"}, [](const Plan& p) { return p.parameter_gather.keeps_head; }},
      {{"system.keeps_last_layer=true"},
       [](const Plan& p) { return p.parameter_gather.keeps_last_layer; }},
      {{"system.holds_previous_gather=true"},
       [](const Plan& p) { return p.parameter_gather.holds_previous_gather; }},
      {{"system.wraps_alone=true"},
       [](const Plan& p) { return p.parameter_gather.alone && p.parameter_gather.by_units; },
       {"parallelism.sharding=zero3", "parallelism.tensor=8"}},
      {{"system.norm_in_root=true"},
       [](const Plan& p) { return p.parameter_gather.norm_in_root; },
       {"system.wraps_ends=true"}},
      {{"system.original_parameters=true"},
       [](const Plan& p) { return p.state_layout.sharded_gradients_stand; },
       {"system.flat_parameters=true"}},
      {{"system.wraps_adapters=true"},
       [](const Plan& p) { return p.parameter_gather.wraps_adapters; },
       {"workload.finetune={lora: {rank: 8}}"}},
      {{"system.clears_output=true"}, [](const Plan& p) { return p.loss_form.clears_output; }},
      {{"system.wide_output=true"}, [](const Plan& p) { return p.loss_form.wide_output; }},
      {{"system.shifted_logits=true", "kernels.loss=eager"},
       [](const Plan& p) { return p.loss_form.shifts; },
       {"kernels.loss=eager"}},
      {{"system.loss_outside_model=true"}, [](const Plan& p) { return p.loss_form.outside_model; }},
      {{"system.unit_layers=3"}, [](const Plan& p) { return p.parameter_gather.unit_layers == 3; }},
      {{"system.forward_prefetch=none"},
       [](const Plan& p) { return p.parameter_gather.forward_prefetch == Prefetch::none; },
       {"system.forward_prefetch=explicit"}},
      {{"system.backward_prefetch=none"},
       [](const Plan& p) { return p.parameter_gather.backward_prefetch == Prefetch::none; },
       {"system.backward_prefetch=explicit"}},
      {{"system.limit_all_gathers=false"},
       [](const Plan& p) { return !p.parameter_gather.limited; }},
      {{"system.prefetch_elements=5"},
       [](const Plan& p) { return p.parameter_gather.prefetch_elements == 5; }},
      {{"system.live_elements=8"},
       [](const Plan& p) { return p.parameter_gather.live_elements == 8; }},
      {{"system.persistent_elements=6"},
       [](const Plan& p) { return p.parameter_gather.persistent_elements == 6; }},
      {{"system.reuse_elements=7"},
       [](const Plan& p) { return p.parameter_gather.reuse_elements == 7; }},
      {{"system.align_param_gather=true"},
       [](const Plan& p) { return p.parameter_gather.aligned; },
       {"system.align_param_gather=false"}},
      {{"system.reshard_with_pipeline=false"},
       [](const Plan& p) { return !p.parameter_gather.reshard_after_forward; },
       kPipeline},
      {{"parallelism.sharding=zero3"}, [](const Plan& p) { return p.parameter_gather.by_units; }},
  });
}

TEST_CASE("Keys of states are fields of StateLayout and OptimizerStep", "[strategy]") {
  check({
      {{"system.gradients_in_parameters=true"},
       [](const Plan& p) { return p.state_layout.gradients_in_parameters; }},
      {{"system.fused_optimizer=false"},
       [](const Plan& p) { return !p.optimizer_step.fused; },
       {"system.fused_optimizer=true"}},
      {{"system.foreach_optimizer=true"}, [](const Plan& p) { return p.optimizer_step.foreach; }},
      {{"system.foreach_denominator=true"},
       [](const Plan& p) { return p.optimizer_step.foreach_denominator; }},
      {{"system.optimizer_post_validation=true"},
       [](const Plan& p) { return p.optimizer_step.post_validated; }},
      {{"system.sync_before_optimizer=false"},
       [](const Plan& p) { return !p.optimizer_step.host_waits; },
       {"system.sync_before_optimizer=true"}},
      {{"system.reduce_to_owner=true"},
       [](const Plan& p) { return p.optimizer_step.by_owner; },
       kZero1},
      {{"system.norm_copies_gradients=true"},
       [](const Plan& p) { return p.optimizer_step.norm_widens; },
       {"memory.dtypes.gradients=bf16"}},
      {{"memory.optimizer=muon"},
       [](const Plan& p) {
         return p.optimizer_step.kind == Optimizer::muon && p.optimizer_step.by_owner &&
                p.gradient_sync.operation == GradientSync::Operation::all_reduce;
       },
       kZero1},
  });
}

TEST_CASE("Keys of stages are fields of StageTransport", "[strategy]") {
  check({
      {{"system.batched_p2p=true"},
       [](const Plan& p) { return p.stage_transport.batched && p.stage_transport.host_waits; },
       {"parallelism.pipeline=4", "system.batched_p2p=false"}},
      {{"system.sync_p2p=true"},
       [](const Plan& p) { return p.stage_transport.host_waits; },
       {"parallelism.pipeline=4", "system.batched_p2p=false"}},
      {{"system.p2p_follows_pass=true"},
       [](const Plan& p) { return p.stage_transport.follows_pass; }},
      {{"system.scatter_gather_p2p=true"},
       [](const Plan& p) { return p.stage_transport.scatter_gather; }},
      {{"system.whole_gradients_p2p=true"},
       [](const Plan& p) { return p.stage_transport.whole_gradients; },
       {"system.scatter_gather_p2p=true"}},
      {{"system.torch_orders=true"},
       [](const Plan& p) { return p.order.ranks[0].back().micro_batch == 7; },
       {"parallelism.pipeline=4", "parallelism.schedule=gpipe", "workload.global_batch=16"}},
      {{"system.round_forwards_first=true"},
       [](const Plan& p) {
         const auto& last = p.order.ranks[3];
         return p.stage_transport.forwards_first && last[7].pass == schedule::Pass::forward &&
                last[8].pass == schedule::Pass::backward && last[8].chunk == 1;
       },
       {"parallelism.pipeline=4", "parallelism.virtual_pipeline=2", "workload.global_batch=8"}},
      {{"system.split_keeps_graph=true"},
       [](const Plan& p) { return p.stage_transport.split_keeps_graph; }},
      {{"system.overlap_pairs=false"},
       [](const Plan& p) { return !p.stage_transport.pairs_side_by_side; }},
      {{"parallelism.schedule=zb_h1"},
       [](const Plan& p) { return !p.stage_transport.holds_compute; },
       kPipeline},
      {{"parallelism.schedule=zb_auto"},
       [](const Plan& p) { return p.schedule.by_times && p.schedule.name == "zb_auto"; },
       kPipeline},
  });
}

TEST_CASE("Keys of the host are fields of HostModel and ExpertDispatch", "[strategy]") {
  check({
      {{"system.launch=9us"}, [](const Plan& p) { return p.host.launch == Time(9'000'000); }},
      {{"system.layer_overhead=11us"},
       [](const Plan& p) { return p.host.layer_overhead == Time(11'000'000); }},
      // Of each of the layer's modules with an adapter.
      {{"system.adapter_overhead=7us"},
       [](const Plan& p) { return p.host.layer_overhead == Time(3 * 7'000'000); },
       {"workload.finetune={lora: {targets: [o, up, down]}}", "system.layer_overhead=0"}},
      {{"system.pass_overhead=17us"},
       [](const Plan& p) { return p.host.pass_overhead == Time(17'000'000); },
       kPipeline},
      {{"system.expert_overhead=13us"},
       [](const Plan& p) { return p.expert_dispatch.overhead == Time(13'000'000); }},
      {{"kernels.cuda_graph=true"},
       [](const Plan& p) {
         return p.host.cuda_graph && p.host.layer_overhead == Time(0) &&
                p.expert_dispatch.overhead == Time(0);
       },
       {"system.layer_overhead=11us", "system.expert_overhead=13us"}},
      {{"kernels.cuda_graph=true", "kernels.cuda_graph_modules=[attn, moe_router]"},
       [](const Plan& p) {
         return !p.host.cuda_graph && p.host.graphed_modules.size() == 2 &&
                p.expert_dispatch.overhead == Time(13'000'000);
       },
       {"system.expert_overhead=13us"}},
      {{"kernels.cuda_graph=true", "kernels.cuda_graph_modules=[attn, moe]"},
       [](const Plan& p) { return p.expert_dispatch.overhead == Time(0); },
       {"system.expert_overhead=13us"}},
      {{"system.sync_micro_batch=true"},
       [](const Plan& p) { return p.host.waits_each_micro_batch; },
       {"system.sync_micro_batch=false"}},
      {{"system.launch_blocking=true"}, [](const Plan& p) { return p.host.waits_each_launch; }},
  });
}

TEST_CASE("Hooks of sharded units cost the host time in each of their passes", "[strategy]") {
  const Overrides stated = {"parallelism.sharding=zero2", "system.layer_overhead=11us",
                            "system.unit_overhead=8us", "system.unit_layers=2"};
  CHECK(resolved(of_family("fsdp2", stated)).host.layer_overhead == Time(15'000'000));
  CHECK(resolved(of_family("ddp", stated)).host.layer_overhead == Time(11'000'000));
}

TEST_CASE("Keys of memory are fields of DeviceMemory", "[strategy]") {
  check({
      {{"system.context_memory=500MB"},
       [](const Plan& p) { return p.device_memory.context == Bytes(500'000'000); }},
      {{"system.gemm_workspace=8MB"},
       [](const Plan& p) { return p.device_memory.gemm_workspace == Bytes(8'000'000); }},
      {{"system.gemm_workspace_stands=false"},
       [](const Plan& p) { return !p.device_memory.gemm_workspace_stands; }},
      {{"system.oldest_segment_first=true"},
       [](const Plan& p) { return p.device_memory.oldest_segment_first; }},
      {{"system.holds_projection=false"},
       [](const Plan& p) { return !p.device_memory.holds_projection; }},
      {{"memory.kept_weight_copies=false"},
       [](const Plan& p) { return p.precision.weight_copies == strategy::WeightCopies::each_pass; },
       {"system.transformer_engine=true"}},
      {{"system.rotary_tables=true"},
       [](const Plan& p) { return p.device_memory.rotary_tables; },
       {"model.positions=rotary"}},
      {{"system.rotary_caches=true"},
       [](const Plan& p) { return p.device_memory.rotary_caches; },
       {"model.positions=rotary"}},
      {{"system.broadcasts_buffers=true"},
       [](const Plan& p) { return p.gradient_sync.broadcasts_buffers; },
       {"model.positions=rotary"}},
      {{"system.transformer_engine=true"},
       [](const Plan& p) {
         return p.device_memory.layer_workspace &&
                p.precision.weight_copies == strategy::WeightCopies::kept &&
                p.recompute.norms_in_products && p.expert_dispatch.launches_each_expert;
       },
       kNoEngine},
      {{"kernels.attention=unfused"},
       [](const Plan& p) { return p.device_memory.scores_buffer; },
       kNoEngine},
      {{"memory.allocator=expandable_segments"},
       [](const Plan& p) {
         return p.device_memory.allocator == AllocatorKind::expandable_segments;
       }},
  });
}

TEST_CASE("Keys of operators are fields of the style", "[strategy]") {
  check({
      {{"system.fused_norm=false"},
       [](const Plan& p) { return !p.style.fused_norm; },
       {"system.fused_norm=true"}},
      {{"system.fused_softmax=false"},
       [](const Plan& p) { return !p.style.fused_softmax; },
       {"system.fused_softmax=true"}},
      {{"system.fused_softmax_keys=1024"},
       [](const Plan& p) { return p.style.fused_softmax_keys == 1024; }},
      {{"system.fused_bias_activation=false"},
       [](const Plan& p) { return !p.style.fused_bias_activation; },
       {"system.fused_bias_activation=true"}},
      {{"system.fused_bias_dropout_add=false"},
       [](const Plan& p) { return !p.style.fused_bias_dropout_add; },
       {"system.fused_bias_dropout_add=true"}},
      {{"system.fused_rotary=false"},
       [](const Plan& p) { return !p.style.fused_rotary; },
       {"system.fused_rotary=true"}},
      {{"system.wide_norm=true"}, [](const Plan& p) { return p.style.wide_norm; }},
      {{"system.casts_adapter_inputs=true"},
       [](const Plan& p) { return p.style.casts_adapter_inputs; }},
      // Of FSDP1, adapters that are units of their own and not 4-bit: always where the original
      // parameters stand in their place, else once.
      {{"system.original_parameters=true"},
       [](const Plan& p) { return p.style.casts_adapter_inputs && !p.style.casts_adapters_once; },
       kAdapterUnits},
      {{"system.wraps_adapters=true"},
       [](const Plan& p) { return p.style.casts_adapters_once && !p.style.casts_adapter_inputs; },
       {"parallelism.sharding=fsdp", "system.flat_parameters=true",
        "system.casts_adapter_inputs=true"}},
      {{"system.repeats_kv=true"}, [](const Plan& p) { return p.style.repeats_kv; }},
      {{"system.stage_keeps_output=true"},
       [](const Plan& p) { return p.style.keeps_logits; },
       kPipeline},
      {{"system.autocast=true"},
       [](const Plan& p) { return p.style.autocast; },
       {"memory.dtypes.parameters=fp32", "memory.dtypes.master=null"}},
      {{"system.linears_sum_apart=true"},
       [](const Plan& p) { return p.tensor_parallel.linears_sum_apart; }},
      {{"system.gathers_wide_logits=true"}, [](const Plan& p) { return p.loss_form.gathers_wide; }},
      {{"system.norm_gradients_apart=true"},
       [](const Plan& p) { return p.tensor_parallel.norm_gradients_apart; }},
      {{"system.context_in_steps=true"}, [](const Plan& p) { return p.context_exchange.in_steps; }},
      {{"system.gate_first=true"}, [](const Plan& p) { return p.style.gate_first; }},
      {{"system.whole_latents=true"}, [](const Plan& p) { return p.style.whole_latents; }},
      {{"system.keeps_scattered_results=false"},
       [](const Plan& p) { return !p.tensor_parallel.keeps_scattered_results; }},
      {{"system.weights_run_again=true"},
       [](const Plan& p) { return p.recompute.for_each_weight; }},
      {{"system.stage_receives=standing"},
       [](const Plan& p) { return p.stage_transport.receives == StageReceives::standing; }},
      {{"system.copies_keys_values=true"},
       [](const Plan& p) { return p.style.copies_keys_values; }},
      {{"system.views_latent_values=true"}, [](const Plan& p) { return p.style.views_values; }},
      {{"system.local_embedding=true"},
       [](const Plan& p) { return p.tensor_parallel.local_embedding; }},
      {{"system.autocasts_units=true"},
       [](const Plan& p) { return p.style.autocasts_units; },
       {"parallelism.sharding=fsdp"}},
      {{"system.composed_gelu=true"}, [](const Plan& p) { return p.style.composed_gelu; }},
      {{"system.complex_rotary=true"}, [](const Plan& p) { return p.style.complex_rotary; }},
      {{"system.rotary_tables_anew=true"},
       [](const Plan& p) { return p.style.rotary_tables_anew; },
       {"system.rotary_tables_anew=false"}},
      {{"system.paired_rotary=true"}, [](const Plan& p) { return p.style.paired_rotary; }},
      {{"system.packed_qkv=true"},
       [](const Plan& p) { return p.style.fused_qkv; },
       of_family("ddp")},
      {{"system.quantized_inputs=true"},
       [](const Plan& p) { return p.style.frozen_inputs; },
       {"workload.finetune=qlora"}},
      {{"system.quantizer=lightning"},
       [](const Plan& p) { return p.style.quantizer == Quantizer::lightning; }},
      {{"system.parted_adapters=true"}, [](const Plan& p) { return p.style.parted_adapters; }},
      {{"system.input_gradients=false"},
       [](const Plan& p) { return p.model.tuned.stops_gradient; },
       {"workload.finetune=lora"}},
      {{"system.loss_metrics=2"}, [](const Plan& p) { return p.style.loss_metrics == 2; }},
      {{"system.vocab_divisor=100"}, [](const Plan& p) { return p.model.vocab == 1100; }},
      {{"system.order=tp-pp-dp-cp-ep"},
       [](const Plan& p) { return p.grid.order == "tp-pp-dp-cp-ep"; }},
      {{"system.async_tensor_backward=false"},
       [](const Plan& p) { return !p.tensor_parallel.async_backward; },
       {"system.async_tensor_backward=true", "parallelism.overlap.tensor=false"}},
      {{"system.activation_offload=pairs"},
       [](const Plan& p) { return p.offload.activation_form == ActivationOffload::pairs; },
       {"system.activation_offload=units"}},
      {{"system.routes_whole_sequence=true"},
       [](const Plan& p) { return p.style.routing.whole_sequence; },
       {"model.moe.experts=8", "model.moe.topk=2", "model.moe.ffn=512", "parallelism.tensor=2",
        "parallelism.sequence_parallel=true", "moe.dispatcher=alltoall"}},
      {{"system.offloads_whole_arrays=true"},
       [](const Plan& p) { return p.offload.whole_arrays; },
       {"system.offloads_whole_arrays=false"}},
  });
}

TEST_CASE("What a job states of recomputation and offloading is resolved", "[strategy]") {
  check({
      {{"system.early_stop=true"},
       [](const Plan& p) { return p.recompute.stops_early; },
       {"memory.recompute=full"}},
      {{"system.early_stop=false"},
       [](const Plan& p) { return p.recompute.holds_result; },
       {"memory.recompute=full", "system.early_stop=true"}},
      {{"memory.recompute.uniform=1"},
       [](const Plan& p) { return p.recompute.stops_early; },
       {"memory.recompute.uniform=2", "system.early_stop=true"}},
      {{"system.backward_leftovers=true"},
       [](const Plan& p) { return p.parameter_gather.leaves_leftovers; }},
      {{"system.memory_efficient_linear=false"},
       [](const Plan& p) { return p.parameter_gather.kept_by_autograd; }},
      {{"system.checkpoints_units=true"},
       [](const Plan& p) { return p.parameter_gather.checkpointed; },
       {"memory.recompute=full"}},
      {{"system.checkpoints_blocks=true"},
       [](const Plan& p) { return p.recompute.kind == RecomputeKind::modules; },
       {"memory.recompute=full"}},
      {{"memory.recompute=selective"},
       [](const Plan& p) { return p.recompute.modules == std::vector<std::string>{"core_attn"}; }},
      {{"memory.offload.activations.to=cpu"},
       [](const Plan& p) { return p.offload.any() && p.offload.activations.share() == 1; }},
  });
}

TEST_CASE("PEFT hides the final norm from accelerate, so that it is the root unit's",
          "[strategy]") {
  check(
      {{{"workload.finetune.lora.rank=16"},
        [](const Plan& p) { return p.parameter_gather.norm_in_root; },
        {"system.wraps_ends=true", "system.keeps_head=true", "system.casts_adapter_inputs=true"}}});
}

TEST_CASE("A family is a row of habits", "[strategy]") {
  const Plan megatron = resolved(of_family("megatron", {"parallelism.sharding=zero1"}));
  CHECK(megatron.state_layout.partition == StatePartition::buffer_range);
  CHECK(megatron.gradient_sync.storage == BucketStorage::main_gradients);
  CHECK(megatron.optimizer_step.fp32_gradients_stand);
  CHECK(megatron.optimizer_step.norm_has_its_group);
  CHECK(megatron.accumulation.hands_on_gradients);
  CHECK(megatron.stage_transport.keeps_last_received);
  CHECK(megatron.device_memory.input_gradient_first);
  CHECK(megatron.device_memory.layer_holds_normed_input);

  const Plan ddp = resolved(of_family("ddp"));
  CHECK_FALSE(ddp.device_memory.input_gradient_first);
  CHECK_FALSE(ddp.device_memory.layer_holds_normed_input);
  CHECK(ddp.state_layout.partition == StatePartition::by_array);
  CHECK(ddp.gradient_sync.copies_into_buckets());
  CHECK_FALSE(ddp.state_layout.gradients_stand);
  CHECK_FALSE(ddp.optimizer_step.zeroes_gradients);

  const Plan fsdp = resolved(of_family("fsdp2", kZero2));
  CHECK(fsdp.parameter_gather.by_units);
  CHECK(fsdp.parameter_gather.reshards_before_reduction);
  CHECK_FALSE(fsdp.gradient_sync.each_pass);
  CHECK(fsdp.state_layout.partition == StatePartition::by_row);
  CHECK(fsdp.state_layout.makes_sharded_gradients);
  CHECK(fsdp.offload.gradient_sum == HostGradientSum::on_host);
  CHECK(resolved(of_family("fsdp2", {"system.flat_parameters=true"})).state_layout.partition ==
        StatePartition::by_array);

  const Plan deepspeed = resolved(of_family("deepspeed", kZero3));
  CHECK(deepspeed.state_layout.partition == StatePartition::flat);
  CHECK(deepspeed.gradient_sync.always_in_buckets);
  CHECK(deepspeed.gradient_sync.each_pass);
  CHECK_FALSE(deepspeed.parameter_gather.ends_join_root);
  CHECK(deepspeed.precision.gradients == deepspeed.precision.parameters);
  CHECK(deepspeed.state_layout.gradients_stand);
  // Stages 0 to 2 make gradients anew in every step, in the parameters' format; wider ones stand.
  CHECK_FALSE(resolved(of_family("deepspeed", kZero2)).state_layout.gradients_stand);
  const Plan first = resolved(of_family("deepspeed", kZero1));
  CHECK_FALSE(first.state_layout.gradients_stand);
  CHECK_FALSE(first.optimizer_step.zeroes_gradients);
  CHECK_FALSE(first.gradient_sync.sends_as_filled);
  Overrides wide = kZero1;
  wide.push_back("memory.dtypes.gradients=fp32");
  CHECK(resolved(of_family("deepspeed", wide)).state_layout.gradients_stand);

  const Plan internevo = resolved(of_family("internevo", kZero1));
  CHECK(internevo.state_layout.partition == StatePartition::flat);
  CHECK_FALSE(internevo.state_layout.gradients_stand);
  CHECK(internevo.optimizer_step.gives_up_narrow);
  CHECK_FALSE(internevo.gradient_sync.sends_as_filled);
}

TEST_CASE("An eager loss does what its system does where sizes ask for it", "[strategy]") {
  const Overrides eager = {"kernels.loss=eager", "parallelism.tensor=2"};
  const auto loss_of = [&](const std::string& family, Overrides more) {
    more.insert(more.end(), eager.begin(), eager.end());
    return resolved(of_family(family, std::move(more))).loss_form.eager;
  };
  CHECK(loss_of("megatron", {}) == EagerLoss::gathers_logits);
  CHECK(loss_of("fsdp2", {}) == EagerLoss::shards_logits);
  CHECK(loss_of("ddp", {}) == EagerLoss::as_built);
  CHECK(loss_of("deepspeed", {}) == EagerLoss::as_built);
  CHECK(loss_of("deepspeed", {"workload.precision=fp16"}) == EagerLoss::narrow_under_fp16);
  CHECK(resolved(of_family("megatron", {"kernels.loss=eager"})).loss_form.eager ==
        EagerLoss::as_built);
}
