#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "batches.h"
#include "cut.h"
#include "features.h"
#include "infeasible.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::strategy {
namespace {

std::optional<Infeasible> check_features(const job::Job& job) {
  if (auto why = refused(job)) {
    return why;
  }
  // FlashAttention-1 needs Turing, -2 and cuDNN's fused attention Ampere, -3 Hopper (their
  // READMEs).
  using job::AttentionKernel;
  const AttentionKernel attention = job.kernels.attention;
  const double needed = attention == AttentionKernel::unfused  ? 0
                        : attention == AttentionKernel::flash1 ? 7.5
                        : attention == AttentionKernel::flash3 ? 9.0
                                                               : 8.0;
  const double have = job.cluster.device.compute_capability;
  if (have > 0 && have < needed) {
    return infeasible(
        "kernels.attention",
        fmt::format(
            "this kernel needs compute capability {:.1f}; {} has {:.1f}; expected 'unfused'",
            needed, job.cluster.device.name, have));
  }
  return std::nullopt;
}

schedule::Request request_of(const Plan& plan, const schedule::Entry& entry) {
  const auto& par = plan.job.parallelism;
  const job::Schedule schedule = par.schedule.value_or(job::Schedule{});
  schedule::Request request;
  request.stages = par.pipeline;
  request.micro_batches = plan.micro_batches;
  const int pairs = pairs_passes(plan.job) ? 1 : 0;
  request.extra_warmup = pairs;
  if (par.pipeline == 1) {
    return request;
  }
  request.chunks = entry.chunks > 0 ? entry.chunks : par.virtual_pipeline;
  request.group = schedule.group.value_or(0);
  request.extra_warmup = schedule.extra_warmup + pairs;
  request.memory_limit = schedule.memory_limit;
  request.vocabulary = schedule.vocabulary;
  return request;
}

std::optional<Infeasible> place_stages(Plan& plan) {
  auto stages = place_layers(plan.job, plan.order.placement, plan.order.chunks);
  if (auto* why = std::get_if<Infeasible>(&stages)) {
    return *why;
  }
  plan.stages = std::get<std::vector<std::vector<Chunk>>>(std::move(stages));
  plan.interleaved = plan.job.parallelism.pipeline > 1 && plan.order.chunks > 1;
  plan.vocabulary_split = plan.job.parallelism.pipeline > 1 && plan.order.barriers > 0;
  return std::nullopt;
}

// The order that a CSV file states, which has sizes of its own.
std::optional<Infeasible> follow_table(Plan& plan, const std::string& table) {
  const auto& par = plan.job.parallelism;
  auto order = schedule::from_csv(table);
  if (auto* why = std::get_if<Infeasible>(&order)) {
    return *why;
  }
  plan.order = std::get<schedule::Order>(std::move(order));
  const schedule::Request of = schedule::request_of(plan.order);
  if (of.stages != par.pipeline || of.micro_batches != plan.micro_batches ||
      (par.virtual_pipeline > 1 && par.virtual_pipeline != of.chunks)) {
    return infeasible("parallelism.schedule",
                      fmt::format("the table is of {} micro-batches through {} ranks of {} chunks; "
                                  "the job has {} through {} of {}",
                                  of.micro_batches, of.stages, of.chunks, plan.micro_batches,
                                  par.pipeline, par.virtual_pipeline));
  }
  return place_stages(plan);
}

// What a weight gradient waits with, of what a forward keeps: inputs and output gradients of the
// products that have weights (2401.10241, section 3: 32 s b h of 34 s b h + 5 a s^2 b).
double weight_memory(const Plan& plan) {
  const auto kind = model::layer_kind(plan.job.model, 0);
  const auto layer = model::build_layer(plan.job.model, kind, plan.shard, plan.style);
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

// Each forward runs beside the backward behind it.
void pair_passes(schedule::Order& order) {
  for (auto& slots : order.ranks) {
    for (std::size_t i = 0; i + 1 < slots.size(); ++i) {
      if (slots[i].pass == schedule::Pass::forward &&
          slots[i + 1].pass == schedule::Pass::backward) {
        slots[i].with_next = true;
        ++i;
      }
    }
  }
}

// The schedule's order and the layers of each rank's chunks.
std::optional<Infeasible> place_and_order(Plan& plan) {
  const job::Job& job = plan.job;
  const auto& par = job.parallelism;
  const int p = par.pipeline;
  job::Schedule schedule = par.schedule.value_or(job::Schedule{});
  const bool table = schedule.name.ends_with(".csv");
  if (table && p > 1) {
    return follow_table(plan, schedule.table);
  }
  const schedule::Entry* entry = table ? schedule::find("1f1b") : schedule_of(job);
  if (entry == nullptr) {
    return infeasible("parallelism.schedule", fmt::format("unknown schedule '{}'", schedule.name));
  }
  schedule.name = entry->name;
  plan.schedule.name = entry->name;
  plan.schedule.by_times = p > 1 && entry->name == "zb_auto";
  const bool one_chunk = schedule.name == "gpipe" || schedule.name == "1f1b";
  if (par.virtual_pipeline > 1 &&
      (one_chunk || (entry->chunks > 0 && entry->chunks != par.virtual_pipeline))) {
    return infeasible(
        "parallelism.schedule",
        fmt::format(
            "{} runs {} per rank; virtual_pipeline is {}", schedule.name,
            one_chunk || entry->chunks == 1 ? "one chunk" : fmt::format("{} chunks", entry->chunks),
            par.virtual_pipeline));
  }
  if (par.overlap.expert && par.expert > 1 && p > 1 && !pairs_passes(job) &&
      !schedule.name.starts_with("dualpipe")) {
    // A forward that leaves with its pair reaches the last stage late: without chunks too few
    // micro-batches are under way (Megatron-LM asks for a virtual pipeline).
    return infeasible(
        "parallelism.overlap.expert",
        fmt::format(
            "{} has no pairs of passes; expected interleaved_1f1b, dualpipe, dualpipe_v, or no "
            "pipeline",
            schedule.name));
  }
  const schedule::Request request = request_of(plan, *entry);
  plan.schedule.request = request;
  auto order = p == 1 ? schedule::make("1f1b", request) : schedule::make(schedule.name, request);
  if (auto* why = std::get_if<Infeasible>(&order)) {
    return *why;
  }
  plan.order = std::get<schedule::Order>(std::move(order));
  if (pairs_passes(job)) {
    pair_passes(plan.order);
    if (const auto played = schedule::play(plan.order, request, {});
        std::holds_alternative<Infeasible>(played)) {
      return infeasible("parallelism.overlap.expert",
                        "forwards and backwards of this schedule cannot run as pairs");
    }
  }
  return place_stages(plan);
}

// Orders of their own for ranks of unlike numbers of micro-batches.
std::optional<Infeasible> make_batches(Plan& plan, const std::vector<int>& each) {
  const std::set<int, std::greater<>> numbers(each.begin(), each.end());
  if (numbers.size() == 1) {
    return std::nullopt;
  }
  if (auto why = must_be_even(plan, each)) {
    return why;
  }
  for (const int n : numbers) {
    Plan one = plan;
    one.micro_batches = n;
    if (auto why = place_and_order(one)) {
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

std::variant<Plan, Infeasible> resolve(const job::Job& job) {
  if (auto why = check_features(job)) {
    return *why;
  }
  Plan plan;
  plan.job = job;
  const auto& par = job.parallelism;
  const int ranks = job.cluster.ranks();
  const int model_ranks = par.tensor * par.context * par.pipeline;
  if (model_ranks > ranks || ranks % model_ranks != 0) {
    return infeasible(
        "parallelism.tensor",
        fmt::format("tensor {} x context {} x pipeline {} = {} does not divide {} ranks",
                    par.tensor, par.context, par.pipeline, model_ranks, ranks));
  }
  const int data = par.data.value_or(ranks / model_ranks);
  if (data * model_ranks != ranks) {
    return infeasible(
        "parallelism.data",
        fmt::format("data {} x tensor {} x context {} x pipeline {} = {}, not {} ranks", data,
                    par.tensor, par.context, par.pipeline, data * model_ranks, ranks));
  }
  plan.grid = {par.tensor, par.context, data, par.pipeline, par.expert, job.cluster.order};

  auto each = micro_batches_of(job.workload, job.cluster, plan.grid);
  if (auto* why = std::get_if<Infeasible>(&each)) {
    return *why;
  }
  const auto& micro_batches = std::get<std::vector<int>>(each);
  plan.micro_batches = *std::max_element(micro_batches.begin(), micro_batches.end());

  plan.shard.sequences = job.workload.micro_batch;
  plan.shard.sequence_length = job.workload.sequence_length;
  plan.shard.context = par.context;
  plan.shard.tensor = par.tensor;
  plan.shard.sequence_parallel = par.sequence_parallel && par.tensor > 1;
  plan.shard.expert = par.expert;
  plan.shard.expert_tensor = job.model.moe ? par.expert_tensor : 1;
  const int stage_ranks = par.tensor * par.context * data;
  const int expert_ranks = plan.shard.expert * plan.shard.expert_tensor;
  if (stage_ranks % expert_ranks != 0) {
    return infeasible(
        par.expert > 1 ? "parallelism.expert" : "parallelism.expert_tensor",
        fmt::format("expert {} x expert_tensor {} does not divide the {} ranks of a stage",
                    par.expert, plan.shard.expert_tensor, stage_ranks));
  }
  plan.expert_data = stage_ranks / expert_ranks;
  plan.style = model::style_of(job);
  // Megatron pads the vocabulary to 128 x tensor (--make-vocab-size-divisible-by); others keep it.
  plan.vocab = padded_vocab(job, par.tensor);
  plan.job.model.vocab = plan.vocab;
  if (auto why = cut(plan)) {
    return *why;
  }
  if (auto why = model::check_shard(plan.job.model, plan.shard)) {
    return *why;
  }

  if (auto why = place_and_order(plan)) {
    return *why;
  }

  plan.shard_ranks = par.shard_size.value_or(plan.data_ranks());
  if (plan.shard_ranks < 1 || plan.data_ranks() % plan.shard_ranks != 0) {
    return infeasible("parallelism.shard_size",
                      fmt::format("{} does not divide {} data-parallel ranks", plan.shard_ranks,
                                  plan.data_ranks()));
  }
  if (par.sharding == job::Sharding::none) {
    plan.shard_ranks = 1;
  }
  plan.replicas = plan.data_ranks() / plan.shard_ranks;
  // Alone, a rank's shard still travels to the host and back.
  const job::Offload& away = job.memory.offload;
  const bool leaves =
      par.sharding != job::Sharding::none && (away.parameters.to != job::OffloadTarget::none ||
                                              away.gradients.to != job::OffloadTarget::none);
  if (plan.data_ranks() > 1 || leaves) {
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
  set_policies(plan.job, plan);
  if (auto why = make_batches(plan, micro_batches)) {
    return *why;
  }
  return plan;
}

const schedule::Entry* schedule_of(const job::Job& job) {
  const auto& par = job.parallelism;
  const std::string_view implied = par.virtual_pipeline > 1 ? "interleaved_1f1b" : "1f1b";
  return schedule::find(par.schedule ? std::string_view(par.schedule->name) : implied);
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
  return par.pipeline == 1 || (entry != nullptr && entry->name == "interleaved_1f1b");
}

int expert_shards(const Plan& plan) { return std::gcd(plan.expert_data, plan.shard_ranks); }

}  // namespace stepcast::strategy
