// The sweep's loop: what the store has is taken, the rest goes out to whoever is free, and each
// point is kept as it comes.
#include "stepcast/planner/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <stdexcept>

#include "stepcast/input/input.h"
#include "stepcast/search/workers.h"
#include "stepcast/store/store.h"
#include "sweep_finish.h"
#include "sweep_keys.h"
#include "sweep_point.h"

namespace stepcast::planner {
namespace {

using result::Sweep;
using result::SweepPoint;
using Clock = std::chrono::steady_clock;

// Time between two calls of SweepRequest::progress.
constexpr auto kProgressEvery = std::chrono::milliseconds(500);

// Threads of a process, and how many of each search inside them. Points go first: they depend on
// nothing.
struct Share {
  int points = 1, inside = 1;
};

Share share_of(const SweepRequest& request) {
  const int threads = search::threads_of(request.threads, request.world);
  const int processes = request.world == nullptr ? 1 : request.world->size();
  const std::int64_t each = (combinations(request.axes) + processes - 1) / processes;
  Share out;
  out.points = static_cast<int>(std::min<std::int64_t>(threads, each));
  out.inside = request.optimize ? std::max(1, threads / out.points) : 1;
  return out;
}

// An order is the number of a combination. `request` is copied: threads may be left behind at the
// end.
search::MakeWork worker(const SweepRequest& request, const std::filesystem::path& data) {
  const auto own = std::make_shared<const SweepRequest>(request);
  const int inside = share_of(request).inside;
  return [=](const std::string&) -> search::Work {
    auto forecaster = std::make_shared<forecast::Forecaster>(data);
    return [=](const std::string& order) {
      SweepPoint p = combination(own->axes, std::stoll(order));
      compute(p, *own, *forecaster, data, inside);
      return to_json(p);
    };
  };
}

std::vector<Fault> faults_of(const SweepRequest& request, const std::vector<std::string>& more) {
  std::vector<std::string> overrides = request.overrides;
  overrides.insert(overrides.end(), more.begin(), more.end());
  try {
    input::load(request.config, overrides);
  } catch (const InputError& error) {
    return error.faults();
  }
  return {};
}

// What no row should say a thousand times: faults of the job that stand whatever is varied, and
// keys that no job has.
void check(const SweepRequest& request) {
  const SweepPoint first = combination(request.axes, 0);
  const SweepPoint last = combination(request.axes, combinations(request.axes) - 1);
  const auto has = [](const std::vector<Fault>& all, const Fault& one) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Fault& f) { return to_string(f) == to_string(one); });
  };
  const std::vector<Fault> with = faults_of(request, first.overrides);
  std::vector<Fault> out;
  for (const std::string& override : first.overrides) {
    for (const Fault& f : with) {
      if (f.where.file == "--set " + override && f.message.starts_with("unknown key")) {
        out.push_back({{"--vary " + override.substr(0, override.find('=')), 0, 0}, f.message});
      }
    }
  }
  if (!with.empty() && out.empty()) {
    const auto without = faults_of(request, {}), at_last = faults_of(request, last.overrides);
    std::copy_if(with.begin(), with.end(), std::back_inserter(out),
                 [&](const Fault& f) { return has(without, f) && has(at_last, f); });
  }
  if (!out.empty()) {
    throw InputError(std::move(out));
  }
}

class Loop {
 public:
  Loop(const SweepRequest& request, const std::filesystem::path& data)
      : request_(request),
        keys_(request.store != nullptr ? std::optional<SweepKeys>(request) : std::nullopt),
        workers_(request.world, share_of(request).points, "", worker(request, data)) {
    for (std::int64_t i = 0; i < combinations(request.axes); ++i) {
      points_.push_back(combination(request.axes, i));
    }
    progress_.points = static_cast<std::int64_t>(points_.size());
    ahead_ = request.optimize ? 0 : share_of(request).points;
  }

  std::vector<SweepPoint> run() {
    while (next_ < points_.size() || workers_.in_flight() > 0) {
      hand_out();
      if (workers_.in_flight() == 0) {
        continue;
      }
      if (const auto answer = workers_.take()) {
        accept(*answer);
      }
      report();
    }
    progress_.finished = true;
    say();
    return std::move(points_);
  }

 private:
  // Some more than what keeps all busy, so that rank 0 may write while its threads work; not of
  // searches, which would wait here while others have nothing to do.
  void hand_out() {
    for (; next_ < points_.size() && workers_.in_flight() < workers_.capacity() + ahead_; ++next_) {
      if (!stored(next_)) {
        workers_.submit(next_, fmt::format("{}", next_));
      } else {
        report();
      }
    }
  }

  bool stored(std::size_t i) {
    const auto found =
        keys_ ? request_.store->find(keys_->key(points_[i].overrides)) : std::nullopt;
    if (!found) {
      return false;
    }
    fill(points_[i], found->payload);
    ++progress_.reused;
    count(points_[i]);
    return true;
  }

  void accept(const search::Answer& answer) {
    SweepPoint& p = points_[static_cast<std::size_t>(answer.id)];
    if (!answer.error.empty()) {
      throw std::runtime_error(fmt::format("{}: {}", fmt::join(p.overrides, " "), answer.error));
    }
    fill(p, answer.text);
    if (keys_ && !p.failed) {  // a mended simulator may do better
      request_.store->put({keys_->key(p.overrides), "point", answer.text});
    }
    ++progress_.computed;
    count(p);
  }

  void count(const SweepPoint& p) {
    ++progress_.done;
    progress_.without += p.ran ? 0 : 1;
  }

  void report() {
    if (Clock::now() - reported_ >= kProgressEvery) {
      say();
      reported_ = Clock::now();
    }
  }

  void say() {
    if (!request_.progress) {
      return;
    }
    progress_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (progress_.computed > 0) {
      progress_.seconds_left = progress_.seconds *
                               static_cast<double>(progress_.points - progress_.done) /
                               static_cast<double>(progress_.computed);
    }
    request_.progress(progress_);
  }

  const SweepRequest& request_;
  std::optional<SweepKeys> keys_;
  std::vector<SweepPoint> points_;
  std::size_t next_ = 0;
  int ahead_ = 0;
  SweepProgress progress_;
  Clock::time_point start_ = Clock::now(), reported_ = start_;
  search::Workers workers_;
};

std::string title_of(const SweepRequest& request) {
  std::vector<std::string> keys;
  for (const result::SweepAxis& axis : request.axes) {
    keys.push_back(fmt::format("{}", fmt::join(axis.keys, ",")));
  }
  return fmt::format("{}: {}", std::filesystem::path(request.config).stem().string(),
                     fmt::join(keys, " x "));
}

}  // namespace

Sweep sweep(const SweepRequest& request, const std::filesystem::path& data_directory) {
  check(request);
  Sweep out;
  out.title = title_of(request);
  out.fidelity = to_string(request.fidelity);
  out.objective = request.optimize ? to_string(request.optimize->objective) : "";
  out.overrides = request.overrides;
  out.axes = request.axes;
  out.points = Loop(request, data_directory).run();
  finish(out);
  return out;
}

void follow_sweep(const SweepRequest& request, const std::filesystem::path& data_directory) {
  search::serve(*request.world, share_of(request).points, worker(request, data_directory));
}

}  // namespace stepcast::planner
