#include "stepcast/planner/goodput.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <queue>
#include <random>

#include "stepcast/base/calendar.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/model/count.h"

namespace stepcast::planner {
namespace {

double count_of(Component c, const Campaign& campaign) {
  switch (c) {
    case Component::gpu:
      return campaign.gpus;
    case Component::nic:
      return campaign.nics;
    case Component::node:
      return campaign.nodes;
    case Component::job:
      return 1;
  }
  return 0;
}

constexpr std::size_t kLosses = words_of<Loss>().size();

struct Ledger {
  double trained = 0;  // seconds of steps whose work was kept
  std::array<double, kLosses> lost{};
  double interruptions = 0;
  double& of(Loss l) { return lost[static_cast<std::size_t>(l)]; }
};

class Run {
 public:
  Run(const Operations& o, const Campaign& c, double duration, double interval, std::uint64_t seed)
      : o_(o), end_(duration), interval_(interval), random_(seed), spares_(o.spares) {
    const CheckpointTimes t = checkpoint_times(o, c);
    pause_ = t.pause.count();
    durable_ = t.durable.count();
    down_ = o.detection.count() + o.restart.count() + t.load.count();
    restart_ = o.restart.count() + t.load.count();
    data_ = c.step.count() > 0 ? o.data_stall.count() / c.step.count() : 0;
    failure_ = failures_per_hour(o, c) / kHour;
    for (const FailureKind& f : o.failures) {
      if (f.of != Component::job) {
        hardware_ += f.per_hour * count_of(f.of, c) / kHour;
      }
    }
    straggler_ = o.stragglers.per_hour * c.gpus / kHour;
  }

  Ledger play() {
    next_failure_ = wait(failure_);
    next_straggler_ = wait(straggler_);
    while (now_ < end_) {
      skip();
      segment();
    }
    ledger_.trained += safe_;
    return ledger_;
  }

 private:
  double wait(double rate) {
    if (!(rate > 0)) {
      return std::numeric_limits<double>::infinity();
    }
    const double u = static_cast<double>(random_() >> 11) * 0x1p-53;
    return now_ - std::log1p(-u) / rate;
  }

  // Intervals that nothing interrupts are alike: they pass at once, all but the last, which
  // segment() ends.
  void skip() {
    const double cycle = interval_ * (1 + data_) + pause_;
    if (fresh_ != 0 || slow_until_ > now_ || !(durable_ <= cycle)) {
      return;
    }
    const double until = std::min({end_, next_failure_, next_straggler_});
    const double cycles = std::floor((until - now_) / cycle) - 1;
    if (!(cycles >= 1)) {
      return;
    }
    safe_ += pending_ + (cycles - 1) * interval_;
    pending_ = interval_;
    ledger_.of(Loss::data) += cycles * interval_ * data_;
    ledger_.of(Loss::checkpoint) += cycles * pause_;
    now_ += cycles * cycle;
    pending_at_ = now_ - pause_ + durable_;
    settle(now_);
  }

  // Trains one interval and writes its checkpoint, unless something cuts it short. A checkpoint
  // that is written while training goes on becomes safe within the next interval.
  void segment() {
    const double slow = slow_until_ > now_ ? o_.stragglers.slowdown : 1;
    const double pace = (1 + data_) * slow;  // wall clock of a second of steps
    double todo = interval_ - fresh_;
    double stop = std::min({now_ + todo * pace, end_, next_failure_});
    if (slow > 1) {
      stop = std::min(stop, slow_until_);
    } else {
      stop = std::min(stop, next_straggler_);
    }
    const double worked = (stop - now_) / pace;
    ledger_.of(Loss::data) += worked * data_;
    ledger_.of(Loss::slow) += worked * (1 + data_) * (slow - 1);
    fresh_ += worked;
    settle(stop);
    now_ = stop;
    if (now_ >= end_) {
      safe_ += pending_ + fresh_;  // the run ends, nothing is lost
      return;
    }
    if (now_ >= next_failure_) {
      fail();
    } else if (slow > 1 && now_ >= slow_until_) {
      replace_straggler();
    } else if (slow == 1 && now_ >= next_straggler_) {
      slow_until_ = now_ + o_.stragglers.detection.count();
    } else {
      checkpoint();
    }
  }

  // Counts a checkpoint that was written while training went on as safe if it is complete by then.
  void settle(double by) {
    if (pending_ > 0 && pending_at_ <= by) {
      safe_ += pending_;
      pending_ = 0;
    }
  }

  void checkpoint() {
    const double stop = std::min({now_ + pause_, end_, next_failure_});
    ledger_.of(Loss::checkpoint) += stop - now_;
    const double began = now_;
    now_ = stop;
    settle(stop);
    if (now_ >= end_) {
      safe_ += pending_ + fresh_;
      pending_ = fresh_ = 0;
      return;
    }
    if (now_ >= next_failure_) {
      fail();
      return;
    }
    pending_ += fresh_;
    fresh_ = 0;
    pending_at_ = began + durable_;
    settle(now_);
  }

  // Work that was not safe is done again. A failure during the restart stops the job once more.
  void fail() {
    ledger_.interruptions += 1;
    ledger_.of(Loss::redone) += pending_ + fresh_;
    pending_ = fresh_ = 0;
    for (;;) {
      const double repaired = take_spare();
      next_failure_ = wait(failure_);
      const double begin = std::max(now_, repaired);
      charge(Loss::repair, begin);
      const double up = now_ + down_;
      if (next_failure_ >= up || now_ >= end_) {
        charge(Loss::down, up);
        break;
      }
      charge(Loss::down, next_failure_);
      ledger_.interruptions += 1;
    }
    slow_until_ = std::min(slow_until_, now_);
    next_straggler_ = wait(straggler_);
  }

  // The job writes a checkpoint before a straggler is replaced: nothing is lost but the restart.
  void replace_straggler() {
    const double up = now_ + pause_ + restart_;
    safe_ += pending_ + fresh_;
    pending_ = fresh_ = 0;
    charge(Loss::slow, up);
    next_straggler_ = wait(straggler_);
    if (next_failure_ < now_) {
      next_failure_ = wait(failure_);
    }
  }

  void charge(Loss l, double until) {
    const double stop = std::min(until, end_);
    ledger_.of(l) += std::max(0.0, stop - now_);
    now_ = std::max(now_, stop);
  }

  // When the job has its nodes again: at once with a spare, else when the first repair is done.
  double take_spare() {
    while (!repairs_.empty() && repairs_.top() <= now_) {
      repairs_.pop();
      ++spares_;
    }
    const double u = static_cast<double>(random_() >> 11) * 0x1p-53;
    if (!(failure_ > 0) || u * failure_ >= hardware_) {
      return now_;  // no node is lost
    }
    repairs_.push(now_ + o_.repair.count());
    if (spares_ > 0) {
      --spares_;
      return now_;
    }
    const double first = repairs_.top();
    repairs_.pop();
    return first;
  }

  const Operations& o_;
  double end_, interval_;
  std::mt19937_64 random_;
  int spares_;
  double pause_ = 0, durable_ = 0, down_ = 0, restart_ = 0, data_ = 0;
  double failure_ = 0, hardware_ = 0, straggler_ = 0;  // events per second
  double now_ = 0, next_failure_ = 0, next_straggler_ = 0, slow_until_ = 0;
  double fresh_ = 0;    // seconds of steps since the last checkpoint's pause
  double pending_ = 0;  // in a checkpoint that is not safe before `pending_at_`
  double pending_at_ = 0;
  double safe_ = 0;
  std::priority_queue<double, std::vector<double>, std::greater<>> repairs_;
  Ledger ledger_;
};

result::Estimate spread(std::vector<double> values) {
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) {
    return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
  };
  // Where hardly a run fails, the few that do can draw the mean below nearly all runs.
  return {mean, std::min(mean, at(0.05)), std::max(mean, at(0.95))};
}

}  // namespace

double checkpoint_bytes(const job::Job& job) {
  const auto& m = job.memory;
  double width = job::bytes_per_element(m.dtypes.parameters);
  if (m.dtypes.master) {
    width += job::bytes_per_element(*m.dtypes.master);
  }
  // Adafactor's rows and columns are next to nothing.
  const double moments =
      m.optimizer == job::Optimizer::sgd ? (m.momentum > 0 ? 1 : 0)
      : m.optimizer == job::Optimizer::lion || m.optimizer == job::Optimizer::muon ? 1
      : m.optimizer == job::Optimizer::adafactor                                   ? 0
                                                                                   : 2;
  const double moment =
      m.optimizer == job::Optimizer::adamw_8bit || m.optimizer == job::Optimizer::adamw_8bit_paged
          ? 1
      : m.optimizer == job::Optimizer::adamw_bf16 ? 2
                                                  : job::bytes_per_element(m.dtypes.moments);
  return static_cast<double>(model::count_parameters(job.model).total) * (width + moments * moment);
}

CheckpointTimes checkpoint_times(const Operations& o, const Campaign& c) {
  const double all = o.storage.count(), node = o.node_storage.count() * c.nodes;
  const double rate = all > 0 && node > 0 ? std::min(all, node) : std::max(all, node);
  const double write = rate > 0 ? c.checkpoint / rate : 0;
  CheckpointTimes out{Seconds(write), Seconds(write), Seconds(write)};
  if (o.asynchronous) {
    const double copy = o.snapshot.count() * c.gpus;
    out.pause = Seconds(copy > 0 ? c.checkpoint / copy : 0);
    out.durable = out.pause + Seconds(write);
  }
  return out;
}

double failures_per_hour(const Operations& o, const Campaign& c) {
  double sum = 0;
  for (const FailureKind& f : o.failures) {
    sum += f.per_hour * count_of(f.of, c);
  }
  return sum;
}

Seconds young_interval(Seconds pause, Seconds mean) {
  return Seconds(std::sqrt(2 * pause.count() * mean.count()));
}

Seconds daly_interval(Seconds pause, Seconds mean) {
  const double c = pause.count(), m = mean.count();
  if (c >= 2 * m) {
    return mean;
  }
  const double x = c / (2 * m);
  return Seconds(std::sqrt(2 * c * m) * (1 + std::sqrt(x) / 3 + x / 9) - c);
}

double expected_share(const Operations& o, const Campaign& c, Seconds interval) {
  const CheckpointTimes t = checkpoint_times(o, c);
  const double rate = failures_per_hour(o, c) / kHour;
  const double data = c.step.count() > 0 ? o.data_stall.count() / c.step.count() : 0;
  const double work = interval.count() * (1 + data);
  const double length = work + t.pause.count();
  double wall = length;
  if (rate > 0) {
    const double down = o.detection.count() + o.restart.count() + t.load.count();
    const double failures = std::expm1(rate * length);  // until an interval ends without one
    // With asynchronous writes the work of a checkpoint is lost too until the checkpoint is
    // complete.
    const double exposed = std::max(0.0, t.durable.count() - t.pause.count());
    wall = failures * std::exp(rate * down) / rate + rate * exposed * length;
  }
  return interval.count() / wall;
}

Seconds best_interval(const Operations& o, const Campaign& c) {
  const CheckpointTimes t = checkpoint_times(o, c);
  const double rate = failures_per_hour(o, c) / kHour;
  double low = std::max(c.step.count(), o.asynchronous ? t.durable.count() : 0.0);
  low = std::max(low, 1e-6);
  if (!(rate > 0)) {
    return Seconds(30 * kDay);
  }
  double high = std::max(2 * low, 10 / rate);
  // The share has one maximum; in logarithms its neighbourhood is as wide on both sides. A golden
  // section search: Boost's Brent stops at another digit of the flat top, which simulated runs
  // show.
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  double a = std::log(low), b = std::log(high);
  const auto share = [&](double x) { return expected_share(o, c, Seconds(std::exp(x))); };
  for (int i = 0; i < 100; ++i) {
    const double left = b - ratio * (b - a), right = a + ratio * (b - a);
    if (share(left) < share(right)) {
      a = left;
    } else {
      b = right;
    }
  }
  return Seconds(std::exp((a + b) / 2));
}

result::Goodput simulate_runs(const Operations& o, const Campaign& c,
                              const GoodputRequest& request) {
  STEPCAST_CHECK(request.runs > 0 && request.duration.count() > 0, "no runs to simulate");
  result::Goodput out;
  const CheckpointTimes t = checkpoint_times(o, c);
  const double rate = failures_per_hour(o, c) / kHour;
  const Seconds mean(rate > 0 ? 1 / rate : 0);
  out.operations = o.name;
  out.days = request.duration.count() / kDay;
  out.runs = request.runs;
  out.chosen = !(request.interval.count() > 0);
  out.interval = (out.chosen ? best_interval(o, c) : request.interval).count();
  if (request.between_steps && c.step.count() > 0) {
    out.steps = std::max(1.0, std::round(out.interval / c.step.count()));
    out.interval = out.steps * c.step.count();
  }
  out.storage = o.storage.count();
  out.node_storage = o.node_storage.count();
  out.young = young_interval(t.pause, mean).count();
  out.daly = daly_interval(t.pause, mean).count();
  out.mean_time_between_failures = mean.count();
  out.checkpoint_bytes = c.checkpoint;
  out.pause = t.pause.count();
  out.durable = t.durable.count();
  out.load = t.load.count();
  out.expected = expected_share(o, c, Seconds(out.interval));
  std::vector<double> shares, interruptions;
  std::array<double, kLosses> lost{};
  std::mt19937_64 seeds(request.seed);
  for (int r = 0; r < request.runs; ++r) {
    const Ledger l = Run(o, c, request.duration.count(), out.interval, seeds()).play();
    shares.push_back(l.trained / request.duration.count());
    interruptions.push_back(l.interruptions);
    for (std::size_t i = 0; i < lost.size(); ++i) {
      lost[i] += l.lost[i] / request.duration.count() / request.runs;
    }
  }
  out.effective = spread(std::move(shares));
  out.interruptions = spread(std::move(interruptions));
  for (std::size_t i = 0; i < lost.size(); ++i) {
    out.losses.emplace_back(to_string(static_cast<Loss>(i)), lost[i]);
  }
  for (const FailureKind& f : o.failures) {
    out.failures.emplace_back(f.name,
                              f.per_hour * count_of(f.of, c) / kHour * request.duration.count());
  }
  std::stable_sort(out.failures.begin(), out.failures.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

Campaign campaign_of(const job::Job& job, Seconds step) {
  Campaign c;
  c.step = step;
  c.gpus = job.cluster.ranks();
  c.nodes = job.cluster.nodes;
  c.nics = job.cluster.nodes * std::max(1, job.cluster.node.nics);
  c.checkpoint = checkpoint_bytes(job);
  return c;
}

result::Goodput goodput(const job::Job& job, const result::Report& report, const Operations& o,
                        const GoodputRequest& request) {
  const int ranks = job.cluster.ranks();
  result::Goodput out =
      simulate_runs(o, campaign_of(job, Seconds(report.step_time.value)), request);
  out.title = fmt::format("{} on {} x {}", job.model.name, job.cluster.nodes, job.cluster.name);
  const auto& t = report.tokens_per_second_per_gpu;
  const double all = ranks * kDay;
  out.tokens_per_day = {t.value * all * out.effective.value, t.low * all * out.effective.low,
                        t.high * all * out.effective.high};
  if (job.workload.tokens) {
    const double n = *job.workload.tokens;
    out.training_days = {n / out.tokens_per_day.value, n / out.tokens_per_day.high,
                         n / out.tokens_per_day.low};
  }
  return out;
}

}  // namespace stepcast::planner
