#include "runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "objective.h"

namespace stepcast::search {
namespace {

using result::Strategy;

// Between two words to Request::progress.
constexpr auto kProgressEvery = std::chrono::milliseconds(500);

int threads_each(const Request& request) {
  return request.threads > 0 ? request.threads : threads_of(request.world);
}

}  // namespace

Runner::Runner(const Request& request, const JobLoader& loader, const std::filesystem::path& data)
    : request_(request),
      start_(Clock::now()),
      forecaster_(data),
      all_(enumerate(request, loader, forecaster_, kMoreMemory)),
      workers_(request.world, threads_each(request), start_of(request.objective),
               evaluator(loader, data)),
      reported_(Clock::now()) {
  began_ = reported_;
  refined_.bound.assign(all_.items.size(), -1);
}

double Runner::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

bool Runner::out_of_time() {
  stopped_ = stopped_ || (request_.time_limit > 0 && seconds() >= request_.time_limit);
  return stopped_;
}

std::string Runner::key(std::size_t i) const {
  return fmt::format("{} {} {}", request_.store_key, to_string(request_.objective),
                     fmt::join(all_.overrides(all_.items[i]), " "));
}

// What is known of a candidate, from this run or the store; nullptr: nothing.
Evaluation* Runner::lookup(std::size_t i) {
  if (const auto at = known_.find(i); at != known_.end()) {
    return &at->second;
  }
  if (const auto at = refined_.refused.find(i); at != refined_.refused.end()) {
    return &(known_[i] = {at->second, {}, {}});
  }
  if (request_.store == nullptr) {
    return nullptr;
  }
  const auto point = request_.store->find(key(i));
  if (!point) {
    return nullptr;
  }
  ++reused_;
  return &(known_[i] = evaluation_of(point->payload, all_.overrides(all_.items[i])));
}

void Runner::order(std::size_t i, double limit, double memory) {
  const Evaluation* e = lookup(i);
  if ((e != nullptr && e->enough(limit, memory)) || broken_.count(i) != 0 ||
      !flying_.insert(i).second) {
    return;
  }
  workers_.submit(i, packed({all_.overrides(all_.items[i]), limit, memory, e != nullptr}));
}

// Keeps all workers busy with what is likely needed next.
void Runner::look_ahead(double limit, double memory) {
  ahead_ = std::max(ahead_, next_ + 1);
  while (workers_.in_flight() < workers_.capacity()) {
    const auto i = queue_->at(ahead_, limit);
    if (!i || queue_->bound(*i) >= limit) {
      return;
    }
    order(*i, limit, memory);
    ++ahead_;
  }
}

void Runner::accept(const Answer& answer) {
  const auto i = static_cast<std::size_t>(answer.id);
  flying_.erase(i);
  ++computed_;
  if (!answer.error.empty()) {
    broken_[i] = answer.error;
    return;
  }
  Evaluation found = evaluation_of(answer.text, all_.overrides(all_.items[i]));
  Evaluation& e = known_[i];
  if (found.impossible) {
    e = {std::move(found.impossible), {}, {}};
  }
  if (found.rule) {
    e.rule = std::move(found.rule);
  }
  if (found.exact) {
    e.exact = std::move(found.exact);
  }
  if (request_.store != nullptr) {
    const char* status = e.impossible ? "impossible" : e.exact ? "exact" : "rule";
    request_.store->put({key(i), status, to_json(e)});
  }
}

// Waits until enough is known of a candidate; nullptr: time ran out.
const Evaluation* Runner::need(std::size_t i, double limit, double memory) {
  for (;;) {
    const Evaluation* e = lookup(i);
    if (e != nullptr && e->enough(limit, memory)) {
      return e;
    }
    if (const auto at = broken_.find(i); at != broken_.end()) {
      throw std::runtime_error(at->second);
    }
    if (out_of_time()) {
      return nullptr;
    }
    order(i, limit, memory);
    look_ahead(limit, memory);
    if (auto answer = workers_.take()) {
      accept(*answer);
    }
    report();
  }
}

const Strategy* Runner::best_within(double memory, double& left, const std::string& stage) {
  stage_ = stage;
  best_ = nullptr;
  memory_ = memory;
  ahead_ = 0;
  left = all_.complete_below;
  double limit = std::numeric_limits<double>::infinity();
  queue_ = std::make_unique<Queue>(all_, refined_, memory, [this] { return out_of_time(); });
  for (next_ = 0;; ++next_) {
    const auto i = queue_->at(next_, limit);
    if (!i && !stopped_) {
      break;
    }
    if (i && queue_->bound(*i) >= limit) {
      break;
    }
    const Evaluation* e = stopped_ || out_of_time() ? nullptr : need(*i, limit, memory);
    if (e == nullptr) {
      left = std::min(left, queue_->least_behind(next_));
      break;
    }
    const bool near = !e->impossible && e->rule->objective < limit && e->least_peak() <= memory;
    taken_[*i] = taken_[*i] || near;
    if (near && e->exact->peak.value <= memory && e->exact->objective < limit) {
      best_ = &*e->exact;
      limit = best_->objective;
    }
  }
  return best_;
}

std::vector<Runner::Taken> Runner::taken() const {
  std::vector<Taken> out;
  for (const auto& [i, exact] : taken_) {
    const Evaluation& e = known_.at(i);
    out.push_back(e.impossible ? Taken{nullptr, &*e.impossible}
                               : Taken{exact ? &*e.exact : &*e.rule, nullptr});
  }
  return out;
}

Progress Runner::progress() const {
  Progress p;
  p.counts = all_.counts;
  p.counts.simulated = static_cast<std::int64_t>(taken_.size());
  p.stage = stage_;
  p.seconds = seconds();
  p.computed = computed_;
  p.reused = reused_;
  if (best_ == nullptr) {
    return p;
  }
  p.best = best_->objective;
  p.gap = std::max(0.0, 1 - std::min(p.best, queue_->least_behind(next_)) / p.best);
  p.open = 0;
  for (std::size_t i = 0; i < all_.items.size() && all_.items[i].bound < p.best; ++i) {
    if (all_.items[i].memory <= memory_ && refined_.bound[i] < p.best) {
      const auto at = known_.find(i);
      p.open += at == known_.end() || !at->second.enough(p.best, memory_) ? 1 : 0;
    }
  }
  const double running = std::chrono::duration<double>(Clock::now() - began_).count();
  if (computed_ > 0) {
    p.seconds_left = static_cast<double>(p.open) * running / static_cast<double>(computed_);
  }
  return p;
}

void Runner::report() {
  if (request_.progress && Clock::now() - reported_ >= kProgressEvery) {
    request_.progress(progress());
    reported_ = Clock::now();
  }
}

void Runner::finish(const result::SearchCounts& counts) {
  if (request_.progress) {
    Progress p = progress();
    p.counts = counts;
    p.finished = true;
    p.stopped = stopped_;
    request_.progress(p);
  }
}

}  // namespace stepcast::search
