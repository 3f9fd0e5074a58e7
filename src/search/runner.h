// Takes candidates in the order of their bounds, has them evaluated, and stops where the proof is
// complete.
//
// The candidates that are taken, and so the answer, are those of one process that evaluates one
// candidate after the other. An evaluation is a pure function of its job, so it may be computed
// ahead of time, elsewhere, or in an earlier run; evaluations that turn out not to be needed are
// not counted.
//
// The job as given is evaluated first, where it lies in the space: a search then never answers
// worse than what the user runs. When time runs out, all that is known counts, also out of order.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include "enumerate.h"
#include "evaluation.h"
#include "queue.h"
#include "stepcast/store/store.h"

namespace stepcast::search {

class Runner {
 public:
  Runner(const Request& request, const JobLoader& loader, const std::filesystem::path& data);
  // Ends evaluations that still run.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // The best strategy of at most `memory` bytes, or nullptr. `left`: the smallest bound that was
  // not looked at, where time ran out or the list was cut. `stage` names the scan in progress
  // reports.
  const result::Strategy* best_within(double memory, double& left, const std::string& stage);

  // A candidate that was taken. `strategy`: null where it is impossible.
  struct Taken {
    const result::Strategy* strategy = nullptr;
    const Infeasible* why = nullptr;
  };
  // In the order of their bounds.
  std::vector<Taken> taken() const;
  // Candidates not taken whose least memory is above `memory`.
  std::int64_t too_large(double memory) const;

  // The evaluation of the job as given; nullptr where time ran out before it. A search for the best
  // strategy alone without a time limit needs no first answer and does not evaluate it.
  const Evaluation* stated();

  bool stopped() const { return stopped_; }  // by the time limit
  const Stop& stop() const { return *stop_; }
  const Enumerated& all() const { return all_; }
  forecast::Forecaster& forecaster() { return forecaster_; }
  // Calls Request::progress a last time.
  void finish(const result::SearchCounts& counts);

 private:
  using Clock = std::chrono::steady_clock;

  double seconds() const;
  bool out_of_time();
  std::string key(const std::vector<std::string>& overrides) const;
  void ask_stated(const JobLoader& loader);
  Evaluation* lookup(std::size_t i);
  void order(std::size_t i, double limit, double memory);
  void look_ahead(double limit, double memory);
  bool consider(std::size_t i, double& limit, double memory);
  void salvage(double& limit, double memory);
  void keep(const std::vector<std::string>& overrides, const Evaluation& e);
  const Evaluation* need(std::size_t i, double limit, double memory);
  void accept(const Answer& answer);
  void report();
  Progress progress() const;

  const Request& request_;
  Clock::time_point start_, began_;  // of the search, of the first evaluation
  std::shared_ptr<Stop> stop_;       // of all that computes; at the time limit, or at the end
  forecast::Forecaster forecaster_;
  Workers workers_;
  // Overrides that make the job as given: a combination of the space, or none.
  std::vector<std::string> stated_overrides_;
  bool stated_asked_ = false;
  std::optional<Evaluation> stated_;
  std::string stated_broken_;
  Enumerated all_;
  std::optional<std::size_t> stated_at_;  // in the list
  Refinements refined_;

  std::unordered_map<std::size_t, Evaluation> known_;  // by place in the list
  std::unordered_map<std::size_t, std::string> broken_;
  std::set<std::size_t> flying_;       // ordered, not answered yet
  std::map<std::size_t, bool> taken_;  // whether the allocator was replayed
  bool stopped_ = false;

  // State of the scan that runs.
  std::string stage_;
  std::unique_ptr<Queue> queue_;
  const result::Strategy* best_ = nullptr;
  double memory_ = 0;
  std::size_t next_ = 0, ahead_ = 0;  // of the queue
  Clock::time_point reported_;
  std::int64_t computed_ = 0, reused_ = 0;
};

}  // namespace stepcast::search
