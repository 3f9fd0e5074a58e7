// How many micro-batches each data-parallel rank runs. Ranks with different numbers run different
// programs that meet where gradients are reduced. What ranks do together in every micro-batch
// needs equal numbers.
#include "batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "stepcast/hardware/hardware.h"

namespace stepcast::strategy {
namespace {

constexpr const char* kKey = "workload.micro_batches";

Infeasible infeasible_batches(std::string reason) { return Infeasible{kKey, std::move(reason)}; }

const std::string& device_of(const job::Cluster& cluster, int rank) {
  return hardware::device_at(cluster, rank / cluster.node.gpus).name;
}

// A name as stated; overrides that give one name several figures are numbered behind it.
std::string stated_name(const std::string& device) {
  return device.substr(0, device.find(", override "));
}

std::string devices_text(const job::Cluster& cluster) {
  std::set<std::string> names;
  for (int node = 0; node < cluster.nodes; ++node) {
    names.insert(stated_name(device_of(cluster, node * cluster.node.gpus)));
  }
  std::string out;
  for (const std::string& name : names) {
    out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

std::variant<std::vector<int>, Infeasible> by_device(const job::MicroBatches& stated,
                                                     const job::Cluster& cluster,
                                                     const cluster::Grid& grid) {
  std::vector<std::string> found(static_cast<std::size_t>(grid.data));
  std::set<std::string> present;
  for (int r = 0; r < grid.ranks(); ++r) {
    const int data = cluster::coordinates(grid, r).data;
    const std::string name = stated_name(device_of(cluster, r));
    std::string& mine = found[static_cast<std::size_t>(data)];
    if (!mine.empty() && mine != name) {
      return infeasible_batches(
          fmt::format("the stages of data-parallel rank {} run on {} and on {}; expected a list of "
                      "numbers, one per rank",
                      data, mine, name));
    }
    mine = name;
    present.insert(name);
  }
  for (const auto& [name, count] : stated.devices) {
    if (present.count(name) == 0) {
      return infeasible_batches(fmt::format("the cluster has no {}; expected numbers for {}", name,
                                            devices_text(cluster)));
    }
  }
  std::vector<int> out;
  for (const std::string& name : found) {
    const auto count = stated.devices.find(name);
    if (count == stated.devices.end()) {
      return infeasible_batches(
          fmt::format("no number for data-parallel ranks on {}; expected one for {}", name,
                      devices_text(cluster)));
    }
    out.push_back(count->second);
  }
  return out;
}

// Chunks of a rank in the order in which their last weight gradients are computed.
std::vector<int> chunks_as_finished(const std::vector<schedule::Slot>& slots) {
  std::vector<int> out;
  for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) {
    const bool makes =
        slot->pass == schedule::Pass::backward || slot->pass == schedule::Pass::weight_grad;
    if (makes && std::find(out.begin(), out.end(), slot->chunk) == out.end()) {
      out.push_back(slot->chunk);
    }
  }
  return out;
}

}  // namespace

std::variant<std::vector<int>, Infeasible> micro_batches_of(const job::Workload& w,
                                                            const job::Cluster& cluster,
                                                            const cluster::Grid& grid) {
  const auto data = static_cast<std::size_t>(grid.data);
  std::vector<int> out;
  switch (w.micro_batches.kind) {
    case job::MicroBatches::Kind::even: {
      const std::int64_t per_step = w.micro_batch * grid.data;
      if (w.global_batch % per_step != 0) {
        return Infeasible{
            "workload.global_batch",
            fmt::format("global_batch {} is not a multiple of data {} x micro_batch {}; expected a "
                        "multiple of {}",
                        w.global_batch, grid.data, w.micro_batch, per_step)};
      }
      return std::vector<int>(data, static_cast<int>(w.global_batch / per_step));
    }
    case job::MicroBatches::Kind::by_rank:
      out = w.micro_batches.ranks;
      break;
    case job::MicroBatches::Kind::by_device: {
      auto found = by_device(w.micro_batches, cluster, grid);
      if (auto* why = std::get_if<Infeasible>(&found)) {
        return *why;
      }
      out = std::get<std::vector<int>>(std::move(found));
      break;
    }
  }
  if (out.size() != data) {
    return infeasible_batches(
        fmt::format("{} numbers for {} data-parallel ranks; expected one each", out.size(), data));
  }
  if (const auto least = std::min_element(out.begin(), out.end()); *least < 1) {
    return infeasible_batches(fmt::format(
        "data-parallel rank {} runs no micro-batch; expected at least one", least - out.begin()));
  }
  const std::int64_t sum = std::accumulate(out.begin(), out.end(), std::int64_t{0});
  if (w.global_batch % w.micro_batch != 0 || sum != w.global_batch / w.micro_batch) {
    return infeasible_batches(
        fmt::format("{} micro-batches of size {} in all; expected the global batch of {} sequences",
                    sum, w.micro_batch, w.global_batch));
  }
  return out;
}

std::optional<Infeasible> must_be_even(const job::Job& job, const cluster::Grid& grid,
                                       const std::vector<int>& each) {
  const auto no = [&](const char* what) {
    return infeasible_batches(fmt::format(
        "{}, so all data-parallel ranks must run the same number; expected even", what));
  };
  if (job.parallelism.sharding == job::Sharding::zero3) {
    return no("zero3 gathers parameters from all ranks in every micro-batch");
  }
  if (job.parallelism.sharding == job::Sharding::zero2) {
    return no("zero2 reduces gradients or gathers parameters in every micro-batch");
  }
  if (job.system.cycle_time.count() > 0) {
    return no("a background thread on each rank reduces gradients at times of its own");
  }
  if (job.parallelism.reduce_each) {
    return no("gradients are reduced after every micro-batch");
  }
  const int block = job.parallelism.expert * job.parallelism.expert_tensor;
  if (!job.model.moe || block == 1) {
    return std::nullopt;
  }
  // Experts lie on neighbouring ranks of a stage, `block` of them (lower/world/groups.cpp).
  std::vector<std::vector<int>> last(static_cast<std::size_t>(grid.pipeline));
  for (int r = 0; r < grid.ranks(); ++r) {
    const auto at = cluster::coordinates(grid, r);
    auto& stage = last[static_cast<std::size_t>(at.pipeline)];
    stage.push_back(each[static_cast<std::size_t>(at.data)]);
    if (stage.front() != stage.back()) {
      return no(
          "tokens are exchanged between the experts of data-parallel ranks in every micro-batch");
    }
    if (static_cast<int>(stage.size()) == block) {
      stage.clear();
    }
  }
  return std::nullopt;
}

std::optional<Infeasible> reduce_in_one_order(const Plan& plan) {
  for (std::size_t rank = 0; rank < plan.order.ranks.size(); ++rank) {
    const auto first = chunks_as_finished(plan.order.ranks[rank]);
    for (const Batch& batch : plan.batches) {
      if (chunks_as_finished(batch.order.ranks[rank]) != first) {
        return infeasible_batches(fmt::format(
            "stage {} finishes its chunks in another order with {} micro-batches than with "
            "{}, and gradients are reduced in that order; expected another schedule",
            rank, batch.micro_batches, plan.micro_batches));
      }
    }
  }
  return std::nullopt;
}

std::int64_t Plan::all_micro_batches() const {
  if (batches.empty()) {
    return std::int64_t{micro_batches} * grid.data;
  }
  std::int64_t sum = 0;
  for (const int n : batch_of) {
    sum += batches[static_cast<std::size_t>(n)].micro_batches;
  }
  return sum;
}

Plan of_batch(const Plan& plan, std::size_t n) {
  Plan out = plan;
  if (!plan.batches.empty()) {
    out.micro_batches = plan.batches[n].micro_batches;
    out.order = plan.batches[n].order;
    out.batches.clear();
    out.batch_of.clear();
  }
  return out;
}

}  // namespace stepcast::strategy
