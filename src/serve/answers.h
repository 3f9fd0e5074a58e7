// Answers requests: JSON in, JSON out. HTTP is in http.cpp.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "answer.h"
#include "request.h"
#include "stepcast/base/stop.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/serve/serve.h"

namespace stepcast::serve {

// A pool of Forecasters, one for each request that runs at the same time. The pool lends the most
// recently used one first, because its caches are warm. One that keeps more devices than the job of
// the server has, or many more curves of links, is replaced by a new one: a server runs for days.
class Forecasters {
 public:
  Forecasters(const std::filesystem::path& data, int count);
  // Has each forecast the job, all at the same time, so that no later request reads its
  // calibration.
  void warm(const job::Job& job, const forecast::Options& options);
  class Loan {
   public:
    // Throws Stopped when `stop` is asked before a forecaster is free.
    explicit Loan(Forecasters& from, const Stop& stop = {}) : from_(from), lent_(from.take(stop)) {}
    ~Loan() { from_.give_back(std::move(lent_)); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    forecast::Forecaster& operator*() const { return *lent_; }

   private:
    Forecasters& from_;
    std::unique_ptr<forecast::Forecaster> lent_;
  };

 private:
  std::unique_ptr<forecast::Forecaster> take(const Stop& stop);
  void give_back(std::unique_ptr<forecast::Forecaster> one);
  std::filesystem::path data_;
  std::mutex mutex_;
  std::condition_variable free_again_;
  std::vector<std::unique_ptr<forecast::Forecaster>> free_;
  forecast::Forecaster::Kept warm_;  // of the server's own job
};

// Keeps the most recently used answers, at most `capacity` bytes of them.
class Remembered {
 public:
  explicit Remembered(std::size_t capacity) : capacity_(capacity) {}
  std::shared_ptr<const Answer> find(const std::string& key);
  void keep(const std::string& key, std::shared_ptr<const Answer> answer);

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const Answer>>;
  std::mutex mutex_;
  std::size_t capacity_;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;  // the most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> places_;
};

class Answers {
 public:
  // Forecasts the job itself, so that the first reader waits for nothing. Throws InputError.
  explicit Answers(const Options& options);

  // `stop`: once it is asked, the answer says only that it was stopped, and is not remembered.
  Answer forecast(const std::string& body, const Stop& stop);
  // Returns the report with advice: changes that would make the job fit in memory.
  Answer advice(const std::string& body, const Stop& stop);

  const std::string& title() const { return title_; }

 private:
  enum class Asked { bound, headline, folded, advice };
  Answer answer(const std::string& body, bool advice, const Stop& stop);
  Answer compute(const Request& request, Asked asked, const Stop& stop);
  static Asked asked_by(Request::Detail detail);
  static std::string name_of(const Request& request, Asked asked);
  std::vector<std::string> with(const std::vector<std::string>& more) const;

  std::string config_, title_;
  std::vector<std::string> overrides_;
  Forecasters folded_,
      quick_;  // separate pools, so that a headline never waits for whole forecasts
  Remembered remembered_;
};

// An error as JSON.
Answer refusal(int status, const std::string& key, const std::string& message);

}  // namespace stepcast::serve
