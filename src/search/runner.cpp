#include "runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "stated.h"
#include "stepcast/search/objective.h"
#include "stepcast/store/store.h"

namespace stepcast::search {
namespace {

using result::Strategy;

using namespace std::chrono_literals;
using Overrides = std::vector<std::string>;

constexpr auto kPatience = 200ms;  // longest wait for an answer before the loop goes on
// Seconds; longer limits count as none and would overflow the clock.
constexpr double kLongest = 1e9;
// Time between two calls of Request::progress.
constexpr auto kProgressEvery = std::chrono::milliseconds(500);

// The order id of the job as given, which has no position in the list.
constexpr std::uint64_t kStated = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

std::shared_ptr<Stop> stop_of(const Request& request, Stop::Clock::time_point start) {
  if (request.time_limit <= 0) {
    return std::make_shared<Stop>();
  }
  const std::chrono::duration<double> limit(std::min(request.time_limit, kLongest));
  return std::make_shared<Stop>(start + std::chrono::duration_cast<Stop::Clock::duration>(limit));
}

}  // namespace

Runner::Runner(const Request& request, const JobLoader& loader, const std::filesystem::path& data)
    : request_(request),
      start_(Clock::now()),
      stop_(stop_of(request, start_)),
      forecaster_(data),
      workers_(request.world, threads_of(request.threads, request.world),
               start_of(request.objective), evaluator(loader, data, stop_)),
      reported_(Clock::now()) {
  if (!request.best_only || request.time_limit > 0) {
    ask_stated(loader);
  }
  all_ = enumerate(request, loader, forecaster_, kMoreMemory, stop_.get());
  reported_ = began_ = Clock::now();
  refined_.bound.assign(all_.items.size(), -1);
  refined_.memory.assign(all_.items.size(), 0);
  if (stated_asked_ && !stated_overrides_.empty()) {
    stated_at_ = place_of(all_, stated_overrides_);
  }
  if (stated_at_ && stated_) {
    known_[*stated_at_] = *stated_;
  } else if (stated_at_) {
    flying_.insert(*stated_at_);
  }
}

Runner::~Runner() { stop_->ask(); }

// Orders the evaluation of the job as given first, so that workers are busy while the space is
// still being bounded.
void Runner::ask_stated(const JobLoader& loader) {
  stated_asked_ = true;
  stated_overrides_ = stated_combination(request_.space, loader).value_or(Overrides());
  if (request_.store != nullptr) {
    if (const auto point = request_.store->find(key(stated_overrides_))) {
      Evaluation known = evaluation_of(point->payload, stated_overrides_);
      if (known.impossible || (known.rule && known.exact)) {
        ++reused_;
        stated_ = std::move(known);
        return;
      }
    }
  }
  constexpr double kAny = std::numeric_limits<double>::infinity();
  workers_.submit(kStated, packed({stated_overrides_, kAny, kAny, false}));
}

const Evaluation* Runner::stated() {
  while (stated_asked_ && !stated_ && stated_broken_.empty()) {
    const bool late = out_of_time();
    if (auto answer = workers_.take(late ? 0us : kPatience)) {
      accept(*answer);
    } else if (late) {
      break;
    }
  }
  if (!stated_broken_.empty()) {
    throw std::runtime_error(stated_broken_);
  }
  return stated_ ? &*stated_ : nullptr;
}

double Runner::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

bool Runner::out_of_time() {
  stopped_ = stopped_ || stop_->asked();
  return stopped_;
}

std::string Runner::key(const Overrides& overrides) const {
  return fmt::format("{} {} {}", request_.store_key, to_string(request_.objective),
                     fmt::join(overrides, " "));
}

// Returns the evaluation of a candidate from this run or the store; nullptr if there is none.
Evaluation* Runner::lookup(std::size_t i) {
  if (const auto at = known_.find(i); at != known_.end()) {
    return &at->second;
  }
  if (const auto at = refined_.refused.find(i); at != refined_.refused.end()) {
    return &(known_[i] = {at->second, {}, {}, {}});
  }
  if (request_.store == nullptr) {
    return nullptr;
  }
  const auto point = request_.store->find(key(all_.overrides(all_.items[i])));
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
  workers_.submit(i,
                  packed({all_.overrides(all_.items[i]), limit, memory, e != nullptr && e->rule}));
}

// Keeps all workers busy with the candidates that will probably be needed next.
void Runner::look_ahead(double limit, double memory) {
  ahead_ = std::max(ahead_, next_);
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
  const bool stated = answer.id == kStated;
  const auto i = static_cast<std::size_t>(answer.id);
  flying_.erase(stated ? stated_at_.value_or(kNowhere) : i);
  if (!answer.error.empty()) {
    if (stop_->asked()) {  // the stop caused the error
      return;
    }
    ++computed_;
    if (stated) {
      stated_broken_ = answer.error;
    } else {
      broken_[i] = answer.error;
    }
    return;
  }
  ++computed_;
  if (stated) {
    stated_ = evaluation_of(answer.text, stated_overrides_);
    if (stated_at_) {
      known_[*stated_at_] = *stated_;
    }
    keep(stated_overrides_, *stated_);
    return;
  }
  const Overrides overrides = all_.overrides(all_.items[i]);
  Evaluation found = evaluation_of(answer.text, overrides);
  Evaluation& e = known_[i];
  if (found.impossible) {
    e = {std::move(found.impossible), {}, {}, {}};
  }
  if (found.rule) {
    e.rule = std::move(found.rule);
    e.memory.reset();
  } else if (!e.rule) {
    e.memory = found.memory;
  }
  if (found.exact) {
    e.exact = std::move(found.exact);
  }
  keep(overrides, e);
}

void Runner::keep(const Overrides& overrides, const Evaluation& e) {
  if (request_.store != nullptr) {
    const char* status = e.impossible ? "impossible"
                         : e.exact    ? "exact"
                         : e.rule     ? "rule"
                                      : "memory";
    request_.store->put({key(overrides), status, to_json(e)});
  }
}

// Waits until a candidate is known well enough; nullptr: the time limit was reached.
const Evaluation* Runner::need(std::size_t i, double limit, double memory) {
  for (;;) {
    const Evaluation* e = lookup(i);
    if (e != nullptr && e->enough(limit, memory)) {
      return e;
    }
    if (const auto at = broken_.find(i); at != broken_.end()) {
      throw std::runtime_error(at->second);
    }
    if (!stated_broken_.empty()) {
      throw std::runtime_error(stated_broken_);
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

// Takes a candidate, which may become the best one; false: the time limit was reached.
bool Runner::consider(std::size_t i, double& limit, double memory) {
  const Evaluation* e = stopped_ || out_of_time() ? nullptr : need(i, limit, memory);
  if (e == nullptr) {
    return false;
  }
  const bool near = !e->impossible && e->least_peak() <= memory && e->rule->objective < limit;
  taken_[i] = taken_[i] || near;
  if (near && e->exact->peak.value <= memory && e->exact->objective < limit) {
    best_ = &*e->exact;
    limit = best_->objective;
  }
  return true;
}

// Counts what was computed ahead as well, after the time limit was reached.
void Runner::salvage(double& limit, double memory) {
  while (auto answer = workers_.take(0us)) {
    accept(*answer);
  }
  for (const auto& [i, e] : known_) {
    if (e.exact && e.exact->peak.value <= memory && e.exact->objective < limit) {
      taken_[i] = true;
      best_ = &*e.exact;
      limit = best_->objective;
    }
  }
}

const Strategy* Runner::best_within(double memory, double& left, const std::string& stage) {
  stage_ = stage;
  best_ = nullptr;
  memory_ = memory;
  next_ = ahead_ = 0;
  left = all_.complete_below;
  double limit = std::numeric_limits<double>::infinity();
  queue_ = std::make_unique<Queue>(all_, refined_, memory, [this] { return out_of_time(); });
  const bool first = stated_at_ && all_.items[*stated_at_].memory <= memory;
  bool whole = !out_of_time() && (!first || consider(*stated_at_, limit, memory));
  for (; whole; ++next_) {
    const auto i = queue_->at(next_, limit);
    if ((!i && !stopped_) || (i && queue_->bound(*i) >= limit)) {
      break;
    }
    whole = i && consider(*i, limit, memory);
  }
  if (!whole) {
    left = std::min(left, queue_->least_behind(next_));
    salvage(limit, memory);
  }
  return best_;
}

std::vector<Runner::Taken> Runner::taken() const {
  std::vector<Taken> out;
  for (const auto& [i, exact] : taken_) {
    const Evaluation& e = known_.at(i);
    if (e.impossible) {
      out.push_back({nullptr, &*e.impossible, 0});
    } else if (exact) {
      out.push_back({&*e.exact, nullptr, e.exact->peak.value});
    } else {
      out.push_back({e.rule ? &*e.rule : nullptr, nullptr, e.peak_by_rule().value});
    }
  }
  return out;
}

void Runner::complete(double memory, std::size_t fastest) {
  std::vector<double> times;         // of those that are known, and fit
  std::vector<std::size_t> unknown;  // that fit by the rule
  for (const auto& [i, exact] : taken_) {
    const Evaluation& e = known_.at(i);
    if (e.impossible) {
      continue;
    }
    const Strategy* s = exact ? &*e.exact : e.rule ? &*e.rule : nullptr;
    if ((s != nullptr ? s->peak : e.peak_by_rule()).value > memory) {
      continue;
    }
    s != nullptr ? times.push_back(s->objective) : unknown.push_back(i);
  }
  std::stable_sort(unknown.begin(), unknown.end(), [&](std::size_t a, std::size_t b) {
    return refined_.bound[a] < refined_.bound[b];
  });
  constexpr double kAny = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < unknown.size(); ++k) {
    std::sort(times.begin(), times.end());
    if (times.size() >= fastest &&
        (fastest == 0 || refined_.bound[unknown[k]] > times[fastest - 1])) {
      return;
    }
    for (std::size_t next = k; next < unknown.size() && workers_.in_flight() < workers_.capacity();
         ++next) {
      order(unknown[next], 0, kAny);
    }
    const Evaluation* e = need(unknown[k], 0, kAny);
    if (e == nullptr) {
      return;
    }
    if (!e->impossible) {
      times.push_back(e->rule->objective);
    }
  }
}

std::int64_t Runner::too_large(double memory, double limit) const {
  std::int64_t out = 0;
  for (std::size_t i = 0; i < all_.items.size(); ++i) {
    const Item& item = all_.items[i];
    const bool large = item.memory > memory || (item.bound < limit && refined_.memory[i] > memory);
    out += large && taken_.count(i) == 0 ? 1 : 0;
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
    const double memory = std::max(all_.items[i].memory, refined_.memory[i]);
    if (memory <= memory_ && refined_.bound[i] < p.best) {
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
