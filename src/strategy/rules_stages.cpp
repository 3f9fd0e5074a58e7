// Layers on stages, and what a schedule asks of chunks and micro-batches. Faults that only show
// while layers are placed or orders are made are found by place_layers() and schedule::make().
#include <numeric>

#include "rules.h"
#include "stepcast/schedule/schedule.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::strategy {
namespace {

std::int64_t virtual_stages(const job::Parallelism& p) {
  return std::int64_t{p.pipeline} * p.virtual_pipeline;
}

// Whether stages take layers in model order, in equal numbers or as a list states. Otherwise
// place_layers() judges them.
bool placed_in_turn(const job::Job& job) {
  const job::Parallelism& p = job.parallelism;
  const schedule::Entry* entry = schedule_of(job);
  const bool plain = entry != nullptr && entry->plain_loop;
  return p.layout.empty() && p.split == StageSplit::even && !p.embedding_as_layer &&
         !p.loss_as_layer && job.model.mtp_layers == 0 && plain;
}

// With more stages than layers, further faults of the stages only follow from that.
bool has_empty_stages(const job::Job& job) {
  return virtual_stages(job.parallelism) > job.model.layers &&
         job.parallelism.layers_per_stage.empty();
}

const char* stages_key(const job::Parallelism& p) {
  return p.virtual_pipeline > 1 ? "parallelism.virtual_pipeline" : "parallelism.pipeline";
}

void listed_layers(const job::Job& job, Faults& out) {
  constexpr const char* kKey = "parallelism.layers_per_stage";
  const job::Parallelism& p = job.parallelism;
  const auto n = static_cast<std::int64_t>(p.layers_per_stage.size());
  const std::int64_t sum =
      std::accumulate(p.layers_per_stage.begin(), p.layers_per_stage.end(), std::int64_t{0});
  if (n != p.pipeline && n != virtual_stages(p)) {
    out.add(kKey,
            "layers_per_stage has {} entries; expected {} (one per stage) or {} (one per virtual "
            "stage)",
            n, p.pipeline, virtual_stages(p));
  } else if (sum != job.model.layers) {
    out.add(kKey, "layers_per_stage adds up to {}; expected the model's {} layers", sum,
            job.model.layers);
  }
}

}  // namespace

bool has_table(const job::Job& job) {
  const auto& schedule = job.parallelism.schedule;
  return schedule && schedule->name.ends_with(".csv");
}

const schedule::Entry* entry_of(const job::Job& job) {
  if (!has_table(job)) {
    return schedule_of(job);
  }
  return job.parallelism.pipeline == 1 ? schedule::find(schedule::implied(1)) : nullptr;
}

void stages_layers(const job::Job& job, Faults& out) {
  const job::Parallelism& p = job.parallelism;
  if (!placed_in_turn(job)) {
    return;
  }
  if (has_empty_stages(job)) {
    out.add(stages_key(p),
            "pipeline {} x virtual_pipeline {} is more than the model's {} layers; expected at "
            "most that",
            p.pipeline, p.virtual_pipeline, job.model.layers);
  } else if (!p.layers_per_stage.empty()) {
    listed_layers(job, out);
  } else if (job.model.layers % virtual_stages(p) != 0) {
    out.add(stages_key(p),
            "{} layers do not divide by pipeline {} x virtual_pipeline {}; expected a divisor, or "
            "layers_per_stage",
            job.model.layers, p.pipeline, p.virtual_pipeline);
  }
}

void stages_chunks(const job::Job& job, Faults& out) {
  const job::Parallelism& p = job.parallelism;
  if (p.virtual_pipeline > 1 && placed_in_turn(job) && !has_empty_stages(job) &&
      schedule_of(job)->chunks == 1) {
    out.add("parallelism.schedule",
            "virtual_pipeline {} needs the schedule interleaved_1f1b; expected it, or "
            "virtual_pipeline 1",
            p.virtual_pipeline);
  }
}

void stages_virtual(const job::Job& job, Faults& out) {
  const job::Parallelism& p = job.parallelism;
  const bool said = placed_in_turn(job) && has_empty_stages(job);
  if (p.virtual_pipeline > 1 && p.pipeline == 1 && !said) {
    out.add("parallelism.virtual_pipeline",
            "virtual_pipeline {} without pipeline stages; expected pipeline above 1",
            p.virtual_pipeline);
  }
}

// Megatron-LM, core/pipeline_parallel/schedules.py: pipeline <= group <= micro-batches, and what
// remains of the last group is nothing or at least a pipeline full.
void stages_groups(const job::Job& job, Faults& out) {
  const job::Parallelism& p = job.parallelism;
  const job::Workload& w = job.workload;
  if (p.virtual_pipeline == 1 || p.pipeline == 1 || !placed_in_turn(job) || has_empty_stages(job) ||
      !schedule_of(job)->takes_group || w.micro_batches.kind != job::MicroBatches::Kind::even) {
    return;
  }
  const std::int64_t at_once = data_ranks(job).value() * w.micro_batch;
  if (w.global_batch % at_once != 0) {
    return;
  }
  const std::int64_t micro_batches = w.global_batch / at_once;
  const std::int64_t group = group_of(job, static_cast<int>(micro_batches));
  const char* key =
      p.schedule && p.schedule->group ? "parallelism.schedule" : "workload.global_batch";
  const std::int64_t rest = micro_batches % group;
  if (micro_batches < p.pipeline) {
    out.add("workload.global_batch",
            "{} micro-batches are fewer than the {} stages; expected at least as many",
            micro_batches, p.pipeline);
  } else if (group < p.pipeline || group > micro_batches) {
    out.add(key,
            "a group of {} micro-batches does not suit {} micro-batches on {} stages; expected a "
            "group from {} to {}",
            group, micro_batches, p.pipeline, p.pipeline, micro_batches);
  } else if (rest != 0 && rest < p.pipeline) {
    out.add(key,
            "{} micro-batches in groups of {} leave {}, less than the {} stages; expected a "
            "multiple of the group",
            micro_batches, group, rest, p.pipeline);
  }
}

// A rank's order lists its passes: the plan takes their memory even where nothing is simulated.
void schedule_size(const job::Job& job, Faults& out) {
  constexpr std::int64_t kMostPasses = 4'000'000;
  const job::Parallelism& p = job.parallelism;
  const std::int64_t data = data_ranks(job).value();
  const std::int64_t chunks = std::int64_t{p.pipeline} * std::max(1, p.virtual_pipeline);
  const std::int64_t micro_batches = job.workload.global_batch / data / job.workload.micro_batch;
  if (micro_batches > kMostPasses / chunks) {
    out.add("workload.global_batch",
            "{} micro-batches on {} stages are more than a forecast holds; expected at most {}: a "
            "smaller global batch, or larger micro-batches",
            micro_batches, chunks, kMostPasses / chunks);
  }
}

void schedule_known(const job::Job& job, Faults& out) {
  if (entry_of(job) == nullptr && !has_table(job)) {
    out.add("parallelism.schedule", "unknown schedule '{}'", job.parallelism.schedule->name);
  }
}

void schedule_chunks(const job::Job& job, Faults& out) {
  const schedule::Entry* entry = entry_of(job);
  const int asked = job.parallelism.virtual_pipeline;
  if (entry != nullptr && asked > 1 && entry->chunks > 0 && entry->chunks != asked) {
    out.add("parallelism.schedule", "{} runs {} per rank; virtual_pipeline is {}", entry->name,
            entry->chunks == 1 ? "one chunk" : fmt::format("{} chunks", entry->chunks), asked);
  }
}

// A forward pass that runs in a pair reaches the last stage late, so that without chunks too few
// micro-batches are in flight (Megatron-LM requires a virtual pipeline).
void schedule_pairs(const job::Job& job, Faults& out) {
  const auto& par = job.parallelism;
  const schedule::Entry* entry = entry_of(job);
  if (entry != nullptr && par.overlap.expert && par.expert > 1 && par.pipeline > 1 &&
      !pairs_passes(job) && !entry->has_pairs) {
    out.add("parallelism.overlap.expert",
            "{} has no pairs of passes; expected interleaved_1f1b, dualpipe, dualpipe_v, or no "
            "pipeline",
            entry->name);
  }
}

// megatron-core 0.16.0, model_parallel_config.py:425 to 440; the other schedules order weight
// gradients themselves.
void schedule_deferred_head(const job::Job& job, Faults& out) {
  constexpr const char* kKey = "parallelism.deferred_head_wgrad";
  const auto& par = job.parallelism;
  if (par.deferred_head_wgrad == 0) {
    return;
  }
  const schedule::Entry* entry = entry_of(job);
  if (par.pipeline == 1) {
    out.add(kKey, "weight gradients wait for the end of a pipeline's passes; pipeline is 1");
  } else if (entry == nullptr || !entry->plain_loop || pairs_passes(job) ||
             (par.schedule && !par.schedule->vocabulary.empty())) {
    out.add(kKey,
            "only whole passes leave a weight gradient for later; expected the schedule 1f1b or "
            "interleaved_1f1b");
  }
  if (!job.system.gradient_accumulation_fusion) {
    out.add(
        kKey,
        "weight gradients that wait are added to the main gradients by their products; expected "
        "system.gradient_accumulation_fusion");
  }
  if (job.memory.offload.activations.to != OffloadTarget::none) {
    out.add(kKey, "weight gradients that wait are not modelled beside offloaded activations");
  }
}

}  // namespace stepcast::strategy
