#include "threads.h"

#include <exception>

namespace stepcast::search {

Threads::Threads(int count, Objective objective, const JobLoader& loader,
                 const std::filesystem::path& data_directory)
    : objective_(objective), loader_(loader), data_(data_directory) {
  for (int i = 0; i < count; ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

Threads::~Threads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ordered_.notify_all();
  for (std::thread& t : threads_) {
    t.join();
  }
}

void Threads::submit(Order order) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back(std::move(order));
  }
  ordered_.notify_one();
}

std::optional<Answer> Threads::take(std::chrono::microseconds patience) {
  std::unique_lock lock(mutex_);
  finished_.wait_for(lock, patience, [&] { return !answers_.empty(); });
  if (answers_.empty()) {
    return std::nullopt;
  }
  Answer out = std::move(answers_.front());
  answers_.pop_front();
  return out;
}

void Threads::work() {
  std::optional<forecast::Forecaster> forecaster;
  for (;;) {
    Order order;
    {
      std::unique_lock lock(mutex_);
      ordered_.wait(lock, [&] { return stop_ || !orders_.empty(); });
      if (stop_) {
        return;
      }
      order = std::move(orders_.front());
      orders_.pop_front();
    }
    Answer answer;
    try {
      if (!forecaster) {
        forecaster.emplace(data_);
      }
      answer = evaluate(order, objective_, loader_, *forecaster);
    } catch (const std::exception& error) {  // the data directory cannot be read
      answer = {order.id, {}, error.what()};
    }
    {
      const std::lock_guard lock(mutex_);
      answers_.push_back(std::move(answer));
    }
    finished_.notify_one();
  }
}

}  // namespace stepcast::search
