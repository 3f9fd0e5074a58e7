#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "batches.h"
#include "infeasible.h"
#include "rules.h"
#include "stepcast/strategy/plan.h"
#include "stepcast/strategy/rules.h"

namespace stepcast::strategy {
namespace {

schedule::Request request_of(const job::Job& job, const Plan& plan, const schedule::Entry& entry) {
  const auto& par = job.parallelism;
  const job::Schedule schedule = par.schedule.value_or(job::Schedule{});
  schedule::Request request;
  request.stages = par.pipeline;
  request.micro_batches = plan.micro_batches;
  request.pairs = pairs_passes(job);
  request.extra_warmup = request.pairs ? 1 : 0;
  if (par.pipeline == 1) {
    return request;
  }
  request.chunks = entry.chunks > 0 ? entry.chunks : par.virtual_pipeline;
  if (entry.takes_group) {
    request.group = group_of(job, plan.micro_batches);
  } else {
    request.group = schedule.group.value_or(0);
  }
  request.oldest_first = job.system.torch_orders;
  request.round_forwards_first = job.system.round_forwards_first;
  request.extra_warmup += schedule.extra_warmup;
  request.memory_limit = schedule.memory_limit;
  request.vocabulary = schedule.vocabulary;
  return request;
}

std::optional<Infeasible> place_stages(const job::Job& job, Plan& plan) {
  auto stages = place_layers(job, plan.order.placement, plan.order.chunks);
  if (auto* why = std::get_if<Infeasible>(&stages)) {
    return *why;
  }
  plan.stages = std::get<std::vector<std::vector<Chunk>>>(std::move(stages));
  plan.interleaved = job.parallelism.pipeline > 1 && plan.order.chunks > 1;
  plan.vocabulary_split = job.parallelism.pipeline > 1 && plan.order.barriers > 0;
  return std::nullopt;
}

// The order that a CSV file states; the file also states the sizes.
std::optional<Infeasible> follow_table(const job::Job& job, Plan& plan) {
  const auto& par = job.parallelism;
  schedule::TablePlace place;
  auto order = schedule::from_csv(par.schedule->table, &place);
  if (auto* why = std::get_if<Infeasible>(&order)) {
    // The job's line says who names the table.
    return infeasible("parallelism.schedule", fmt::format("{}:{}:{}: {}", par.schedule->name,
                                                          place.line, place.column, why->reason));
  }
  plan.order = std::get<schedule::Order>(std::move(order));
  const schedule::Request of = schedule::request_of(plan.order);
  if (of.stages != par.pipeline || of.micro_batches != plan.micro_batches ||
      (par.virtual_pipeline > 1 && par.virtual_pipeline != of.chunks)) {
    return infeasible("parallelism.schedule",
                      fmt::format("the table has {} micro-batches, {} ranks and {} chunks per "
                                  "rank; the job has {}, {} and {}",
                                  of.micro_batches, of.stages, of.chunks, plan.micro_batches,
                                  par.pipeline, par.virtual_pipeline));
  }
  return place_stages(job, plan);
}

// What a weight gradient waits with, of what a forward keeps: inputs and output gradients of the
// products that have weights (2401.10241, section 3: 32 s b h of 34 s b h + 5 a s^2 b).
double weight_memory(const Plan& plan) {
  const auto kind = model::layer_kind(plan.model, 0);
  const auto layer = model::build_layer(plan.model, kind, plan.shard, plan.style);
  std::map<std::uint32_t, double> kept, waiting;
  double gradients = 0;
  for (const model::Operator& op : layer.operators) {
    const bool weights = op.weight_grad.count() > 0;
    for (const model::Saved& saved : op.saved) {
      (weights ? waiting : kept)[saved.storage] = static_cast<double>(saved.bytes.count());
    }
    gradients += weights ? static_cast<double>(op.forward_output.count()) : 0;
  }
  double all = 0, inputs = 0;
  for (const auto& [storage, bytes] : waiting) {
    inputs += bytes;
    kept[storage] = bytes;
  }
  for (const auto& [storage, bytes] : kept) {
    all += bytes;
  }
  return all > 0 ? std::min(1.0, (inputs + gradients) / all) : 1.0;
}

// The schedule's order and the layers of each rank's chunks.
std::optional<Infeasible> place_and_order(const job::Job& job, Plan& plan) {
  const auto& par = job.parallelism;
  if (has_table(job) && par.pipeline > 1) {
    return follow_table(job, plan);
  }
  const schedule::Entry& entry = *entry_of(job);
  const bool stages = par.pipeline > 1;
  const schedule::Request request = request_of(job, plan, entry);
  plan.schedule.name = entry.name;
  plan.schedule.by_times = stages && entry.orders_by_times;
  plan.schedule.request = request;
  // A loop of whole passes is an order on one stage as well (nanotron 0.4,
  // parallel/pipeline_parallel/engine.py:162): all forward, all backward keeps every micro-batch.
  const bool loops = job.system.schedules_one_stage && entry.plain_loop && !entry.takes_group;
  auto order = schedule::make(stages || loops ? entry.name : schedule::implied(1), request);
  if (auto* why = std::get_if<Infeasible>(&order)) {
    return *why;
  }
  plan.order = std::get<schedule::Order>(std::move(order));
  return place_stages(job, plan);
}

// Ranks with different numbers of micro-batches have orders of their own.
std::optional<Infeasible> make_batches(const job::Job& job, Plan& plan,
                                       const std::vector<int>& each) {
  const std::set<int, std::greater<>> numbers(each.begin(), each.end());
  if (numbers.size() == 1) {
    return std::nullopt;
  }
  for (const int n : numbers) {
    Plan one = plan;
    one.micro_batches = n;
    if (auto why = place_and_order(job, one)) {
      return why;
    }
    plan.batches.push_back({n, std::move(one.order)});
  }
  for (const int n : each) {
    plan.batch_of.push_back(static_cast<int>(std::distance(numbers.begin(), numbers.find(n))));
  }
  return reduce_in_one_order(plan);
}

}  // namespace

std::variant<Plan, Infeasible> resolve(const job::Job& stated) {
  if (auto why = first_fault(stated)) {
    return *why;
  }
  Plan plan;
  // Megatron pads the vocabulary to 128 x tensor (--make-vocab-size-divisible-by); others keep it.
  plan.vocab = padded_vocab(stated, stated.parallelism.tensor);
  job::Job job = stated;
  job.model.vocab = plan.vocab;
  const auto& par = job.parallelism;
  plan.grid = grid_of(job);

  const auto micro_batches =
      std::get<std::vector<int>>(micro_batches_of(job.workload, job.cluster, plan.grid));
  plan.micro_batches = *std::max_element(micro_batches.begin(), micro_batches.end());

  plan.shard = shard_of(job);
  plan.expert_data =
      par.tensor * par.context * plan.grid.data / (plan.shard.expert * plan.shard.expert_tensor);
  plan.style = model::style_of(job);
  if (auto why = place_and_order(job, plan)) {
    return *why;
  }

  plan.shard_ranks = par.shard_size.value_or(plan.data_ranks());
  if (par.sharding == job::Sharding::none) {
    plan.shard_ranks = 1;
  }
  plan.replicas = plan.data_ranks() / plan.shard_ranks;
  // Even a single data-parallel rank moves its shard to the host and back.
  const job::Offload& away = job.memory.offload;
  const bool leaves =
      par.sharding != job::Sharding::none && (away.parameters.to != job::OffloadTarget::none ||
                                              away.gradients.to != job::OffloadTarget::none);
  if (plan.data_ranks() > 1 || leaves || wraps_alone(job, par.sharding, plan.data_ranks())) {
    switch (par.sharding) {
      case job::Sharding::none:
        plan.data_comm = DataComm::all_reduce;
        break;
      case job::Sharding::zero1:
        plan.data_comm = DataComm::shard_states;
        break;
      case job::Sharding::zero2:
        plan.data_comm = DataComm::shard_grads;
        break;
      case job::Sharding::zero3:
        plan.data_comm = DataComm::shard_all;
        break;
    }
  }
  set_policies(job, plan);
  if (auto why = make_batches(job, plan, micro_batches)) {
    return *why;
  }
  return plan;
}

// Megatron-LM's groups are as many micro-batches as stages; torch's are micro-batches over as many
// rounds of stages as there are (torch 2.15 distributed/pipelining/schedules.py:4120).
int group_of(const job::Job& job, int micro_batches) {
  const job::Parallelism& p = job.parallelism;
  if (p.schedule && p.schedule->group) {
    return *p.schedule->group;
  }
  return job.system.torch_orders ? micro_batches / std::max(1, micro_batches / p.pipeline)
                                 : p.pipeline;
}

const schedule::Entry* schedule_of(const job::Job& job) {
  const auto& par = job.parallelism;
  return schedule::find(par.schedule ? std::string_view(par.schedule->name)
                                     : schedule::implied(par.virtual_pipeline));
}

bool orders_by_times(const Plan& plan) { return plan.schedule.by_times; }

std::optional<Infeasible> order_by_times(Plan& plan, const schedule::Times& times) {
  schedule::Request request = plan.schedule.request;
  request.forward = times.forward;
  request.input_grad = times.input_grad;
  request.weight_grad = times.weight_grad;
  request.comm = times.comm;
  request.weight_memory = weight_memory(plan);
  auto order = schedule::make(plan.schedule.name, request);
  if (auto* why = std::get_if<Infeasible>(&order)) {
    return *why;
  }
  std::vector<schedule::Order> of_batches;
  for (const Batch& batch : plan.batches) {
    request.micro_batches = batch.micro_batches;
    auto its = schedule::make(plan.schedule.name, request);
    if (auto* why = std::get_if<Infeasible>(&its)) {
      return *why;
    }
    of_batches.push_back(std::get<schedule::Order>(std::move(its)));
  }
  plan.order = std::get<schedule::Order>(std::move(order));
  for (std::size_t n = 0; n < of_batches.size(); ++n) {
    plan.batches[n].order = std::move(of_batches[n]);
  }
  return std::nullopt;
}

std::int64_t padded_vocab(const job::Job& job, int tensor) {
  // Megatron pads to 128 x tensor (--make-vocab-size-divisible-by); others keep it unless they say
  // so.
  const int divisor =
      job.system.vocab_divisor > 0 ? job.system.vocab_divisor : job.system.habits.vocab_divisor;
  return model::padded_vocab(job.model.vocab, divisor, tensor);
}

bool pairs_passes(const job::Job& job) {
  const auto& par = job.parallelism;
  if (!par.overlap.expert || par.expert == 1) {
    return false;
  }
  const schedule::Entry* entry = schedule_of(job);
  return par.pipeline == 1 || (entry != nullptr && entry->can_pair);
}

// Where all data-parallel ranks share one copy, so do all that hold the same experts, which are
// more where a tensor rank holds whole ones (megatron-core 0.19.2, tensor_parallel/layers.py:961;
// to 0.18 without expert ranks over the data-parallel ones alone, whose tensor ranks then part
// ways).
int expert_shards(int expert_data, int shards, bool one_copy) {
  return one_copy ? expert_data : std::gcd(expert_data, shards);
}

int expert_shards(const Plan& plan) {
  return expert_shards(
      plan.expert_data, plan.shard_ranks,
      plan.model.moe && plan.sharding != job::Sharding::none && plan.replicas == 1);
}

}  // namespace stepcast::strategy
