// Lowers a job given as text, and measures what its programs exchange.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "stepcast/config/config.h"
#include "stepcast/lower/lower.h"
#include "stepcast/strategy/plan.h"
#include "stepcast/text/document.h"

namespace stepcast::support {

class Lowered {
 public:
  // `edit` changes the plan before it is lowered. `features` replaces the list of all features.
  explicit Lowered(const std::string& text, bool merge = false,
                   const std::function<void(strategy::Plan&)>& edit = {},
                   std::span<const lower::FeatureEntry> features = {})
      : job(config::parse(text, "job").job) {
    const auto files = text::data_directory() / "calibration";
    const auto price = [&](const job::Device& device) {
      kernels_.try_emplace(device.name, device, job.kernels.library, files,
                           std::vector<std::string>{}, curves_);
    };
    price(job.cluster.device);
    for (const auto& other : job.cluster.overrides) {
      price(other.device);
    }
    collectives_ = std::make_unique<cost::Collectives>(job.cluster, job.nccl, files,
                                                       std::vector<std::string>{}, curves_);
    topology_ = std::make_unique<cluster::Topology>(
        std::get<cluster::Topology>(cluster::Topology::build(job.cluster)));
    plan = std::get<strategy::Plan>(strategy::resolve(job));
    if (edit) {
      edit(plan);
    }
    for (const auto& [name, kernels] : kernels_) {
      prices.kernels[name] = &kernels;
    }
    prices.collectives = collectives_.get();
    prices.curves = &curves_;
    lower::Options options;
    options.merge = merge;
    options.features = features;
    world = lower::build_world(plan, *topology_, prices, options);
  }
  const cluster::Topology& topology() const { return *topology_; }

  // Makes all communication take no time and slow no kernels.
  void free_links() {
    for (program::Shape& shape : world.shapes) {
      for (program::Price& price : shape.prices) {
        price.latency = price.fluid = Time{0};
        price.pressure = price.pressure_waiting = 0;
      }
    }
  }

  const program::Program& program(std::size_t rank = 0) const {
    return world.programs[world.ranks[rank].program];
  }
  const program::Price& price(const program::Task& task, std::size_t rank = 0) const {
    const auto id =
        world.communicator_table[world.ranks[rank].first_communicator + task.communicator];
    return world.shapes[world.communicators[id].shape].prices[task.price];
  }
  std::uint32_t size(const program::Task& task, std::size_t rank = 0) const {
    return world
        .communicators[world.communicator_table[world.ranks[rank].first_communicator +
                                                task.communicator]]
        .size;
  }
  const program::Price& price(const program::Transfer& transfer, std::size_t rank = 0) const {
    const auto id = world.channel_table[world.ranks[rank].first_channel + transfer.channel];
    return world.shapes[world.channels[id].shape].prices[transfer.price];
  }

  // Bytes of the tasks of a category whose label (the name of the collective and its operator)
  // contains `text`: as NCCL counts them for collectives, and the bytes that this rank sends for
  // exchanges.
  struct Sent {
    std::int64_t bytes = 0;
    int count = 0;
  };
  Sent sent(program::Category category, const std::string& text, std::size_t rank = 0) const {
    Sent out;
    const program::Program& p = program(rank);
    for (const program::Task& task : p.tasks) {
      const bool named = p.labels[task.label].find(text) != std::string::npos;
      if (task.category != category || !named) {
        continue;
      }
      if (task.kind == program::TaskKind::collective) {
        out.bytes += price(task, rank).bytes.count();
        ++out.count;
      } else if (task.kind == program::TaskKind::exchange) {
        for (int i = 0; i < task.transfers; ++i) {
          const program::Transfer& t =
              p.transfers[task.first_transfer + static_cast<std::uint32_t>(i)];
          out.bytes += t.send ? price(t, rank).bytes.count() : 0;
        }
        ++out.count;
      }
    }
    return out;
  }

  // Time of the kernels whose label contains `text`.
  std::int64_t kernels(const std::string& text, std::size_t rank = 0) const {
    std::int64_t out = 0;
    const program::Program& p = program(rank);
    for (const program::Task& task : p.tasks) {
      if (task.kind == program::TaskKind::kernel &&
          p.labels[task.label].find(text) != std::string::npos) {
        out += task.duration.count();
      }
    }
    return out;
  }

  job::Job job;
  strategy::Plan plan;
  program::World world;
  lower::Prices prices;

 private:
  cost::CurveTable curves_;
  std::map<std::string, cost::Kernels> kernels_;  // by device
  std::unique_ptr<cost::Collectives> collectives_;
  std::unique_ptr<cluster::Topology> topology_;
};

}  // namespace stepcast::support
