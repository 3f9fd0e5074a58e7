// Takes candidates in the order of their bounds, has them evaluated, and stops when the best is
// proven.
//
// The set of candidates taken, and so the answer, is that of a single process that evaluates one
// candidate after the other. An evaluation is a pure function of its job, so it may be computed
// ahead of time, in another process, or in an earlier run. Evaluations that turn out not to be
// needed are not counted.
//
// The job as given is evaluated first if it is in the space, so that a search never returns a worse
// strategy than the user's own. At the time limit all known evaluations count, including those
// computed out of order.
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
  // Stops evaluations that still run.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Returns the best strategy that needs at most `memory` bytes, or nullptr. `left` becomes the
  // smallest bound of the candidates that were not taken because the time limit was reached or the
  // list was full. `stage` names the scan in progress reports.
  const result::Strategy* best_within(double memory, double& left, const std::string& stage);

  // Runs candidates that were taken only to find that they are too large for what was asked, but
  // that fit `memory` by the rule: those that may be among the `fastest`.
  void complete(double memory, std::size_t fastest);

  // A candidate that was taken. `strategy` is null if it is impossible, then with the reason, or
  // was not run.
  struct Taken {
    const result::Strategy* strategy = nullptr;
    const Infeasible* why = nullptr;
    double peak = 0;  // bytes
  };
  // The candidates taken, in the order of their bounds.
  std::vector<Taken> taken() const;
  // Number of candidates that were not taken because a lower bound of their memory exceeds
  // `memory`. `limit`: the best objective within it; the tight bound counts for those whose cheap
  // bound of the objective is below that, which every search refines.
  std::int64_t too_large(double memory, double limit) const;

  // The evaluation of the job as given; nullptr if the time limit was reached before it ended. A
  // search for only the best strategy without a time limit needs no early answer and does not
  // evaluate it.
  const Evaluation* stated();

  bool stopped() const { return stopped_; }  // the time limit was reached
  const Stop& stop() const { return *stop_; }
  const Enumerated& all() const { return all_; }
  forecast::Forecaster& forecaster() { return forecaster_; }
  // Calls Request::progress one last time.
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
  Clock::time_point start_, began_;  // start of the search, and of the first evaluation
  std::shared_ptr<Stop> stop_;       // stops every computation, at the time limit or at the end
  forecast::Forecaster forecaster_;
  Workers workers_;
  // The overrides that give the job as given: a combination of the space, or none.
  std::vector<std::string> stated_overrides_;
  bool stated_asked_ = false;
  std::optional<Evaluation> stated_;
  std::string stated_broken_;
  Enumerated all_;
  std::optional<std::size_t> stated_at_;  // position in the list
  Refinements refined_;

  std::unordered_map<std::size_t, Evaluation> known_;  // by position in the list
  std::unordered_map<std::size_t, std::string> broken_;
  std::set<std::size_t> flying_;       // ordered but not answered yet
  std::map<std::size_t, bool> taken_;  // true if the allocator was replayed
  bool stopped_ = false;

  // State of the current scan.
  std::string stage_;
  std::unique_ptr<Queue> queue_;
  const result::Strategy* best_ = nullptr;
  double memory_ = 0;
  std::size_t next_ = 0, ahead_ = 0;  // positions in the queue
  Clock::time_point reported_;
  std::int64_t computed_ = 0, reused_ = 0;
};

}  // namespace stepcast::search
