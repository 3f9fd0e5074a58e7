// How much of the wall clock trains, and what GPUs do meanwhile.
#include <algorithm>

#include "stepcast/planner/bill.h"

namespace stepcast::planner {
namespace {

// Simulated runs that give a strategy's effective time.
constexpr int kRuns = 40;

// Largest difference between the shares of two intervals that are both the best to rounding.
constexpr double kRounding = 1e-6;

GoodputRequest runs() {
  GoodputRequest out;
  out.runs = kRuns;
  return out;
}

void shares_of(const result::Report& report, Pace& pace) {
  Time busy{0}, communicating{0}, all{0};
  for (const auto& s : report.breakdown) {
    const Time kernels = s.compute + s.recompute + s.slowdown + s.optimizer;
    const Time waits = s.tensor + s.pipeline + s.data + s.context + s.expert + s.offload + s.other;
    busy += kernels;
    communicating += waits;
    all += kernels + waits + s.bubble + s.host + s.stall;
  }
  pace.busy = all.count() > 0 ? to_seconds(busy) / to_seconds(all) : 1;
  pace.communicating = all.count() > 0 ? to_seconds(communicating) / to_seconds(all) : 0;
}

}  // namespace

Pace pace_of(const job::Job& job, const result::Report& report, const Operations* operations) {
  Pace out;
  out.step = report.step_time;
  shares_of(report, out);
  if (operations != nullptr) {
    const result::Goodput g = goodput(job, report, *operations, runs());
    out.effective = g.effective;
    out.active = g.effective.value;
    for (const auto& [name, share] : g.losses) {
      const auto loss = parse<Loss>(name);
      if (loss == Loss::redone || loss == Loss::slow) {
        out.active += share;
      }
    }
  }
  return out;
}

MostEffective::MostEffective(const Operations* operations, const job::Job& job) : job_(job) {
  if (operations != nullptr) {
    operations_ = *operations;
    operations_->data_stall = Seconds(0);
  }
}

double MostEffective::on(int nodes) {
  if (!operations_) {
    return 1;
  }
  const auto [known, fresh] = known_.try_emplace(nodes, 1);
  if (fresh) {
    job::Job job = job_;
    job.cluster.nodes = nodes;
    const result::Goodput g = simulate_runs(*operations_, campaign_of(job, Seconds(0)), runs());
    known->second = std::min(1.0, g.effective.value + kRounding);
  }
  return known->second;
}

}  // namespace stepcast::planner
