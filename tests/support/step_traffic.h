// The communication of a job's step according to its program: the collectives and messages of one
// rank, in order of issue.
#pragma once

#include <string>
#include <vector>

#include "stepcast/config/config.h"
#include "stepcast/lower/lower.h"
#include "stepcast/text/document.h"

namespace stepcast::testing {

struct Lowered {
  strategy::Plan plan;
  program::World world;
};

inline Lowered lower_job(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const job::Job job = config::parse(text, "job", overrides).job;
  const auto files = text::data_directory() / "calibration";
  cost::CurveTable curves;
  const cost::Kernels kernels(job.cluster.device, job.kernels.library, files, {}, curves);
  const cost::Collectives prices(job.cluster, job.nccl, files, {}, curves);
  const auto topology = std::get<cluster::Topology>(cluster::Topology::build(job.cluster));
  lower::Prices all;
  all.kernels[job.cluster.device.name] = &kernels;
  all.collectives = &prices;
  all.curves = &curves;
  auto plan = strategy::resolve(job);
  if (const auto* why = std::get_if<Infeasible>(&plan)) {
    throw InputError(Fault{{why->key, 0, 0}, why->reason});
  }
  Lowered out{std::get<strategy::Plan>(std::move(plan)), {}};
  out.world = lower::build_world(out.plan, topology, all);
  return out;
}

struct Transmission {
  std::string what;        // "gradients", "parameters", …
  std::string op;          // "all_reduce", …; "send" or "receive"
  std::int64_t bytes = 0;  // as NCCL counts them
  int micro_batch = 0;     // -1: none
  int ranks = 0;
  bool beside = false;  // on a separate stream
  bool operator==(const Transmission&) const = default;
};

// Transmissions of one category, by default data-parallel ones.
inline std::vector<Transmission> transmissions(
    const program::World& world, program::RankId rank,
    program::Category category = program::Category::data) {
  const program::Rank& r = world.ranks[rank];
  const program::Program& p = world.programs[r.program];
  std::vector<Transmission> out;
  for (const program::Task& task : p.tasks) {
    if (task.category != category) {
      continue;
    }
    Transmission t;
    t.micro_batch = task.micro_batch == 0xffff ? -1 : task.micro_batch;
    t.beside = task.stream != 0;
    if (task.kind == program::TaskKind::collective) {
      const auto id = world.communicator_table[r.first_communicator + task.communicator];
      const program::Communicator& c = world.communicators[id];
      const std::string& label = p.labels[task.label];
      const auto space = label.rfind(' ');
      t.what = label.substr(0, space);
      t.op = label.substr(space + 1);
      t.bytes = world.shapes[c.shape].prices[task.price].bytes.count();
      t.ranks = static_cast<int>(c.size);
      out.push_back(t);
    } else if (task.kind == program::TaskKind::exchange) {
      for (int i = 0; i < task.transfers; ++i) {
        const program::Transfer& x = p.transfers[task.first_transfer + i];
        const auto id = world.channel_table[r.first_channel + x.channel];
        t.op = x.send ? "send" : "receive";
        t.bytes = world.shapes[world.channels[id].shape].prices[x.price].bytes.count();
        t.ranks = 2;
        out.push_back(t);
      }
    }
  }
  return out;
}

}  // namespace stepcast::testing
