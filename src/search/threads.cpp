#include "threads.h"

#include <exception>
#include <utility>

namespace stepcast::search {

Threads::Threads(int count, std::string start, MakeWork make)
    : start_(std::move(start)), make_(std::move(make)) {
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

void Threads::submit(std::uint64_t id, std::string order) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back({id, std::move(order)});
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
  Work mine;
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
    Answer answer{order.id, {}, {}};
    try {
      if (!mine) {
        mine = make_(start_);
      }
      answer.text = mine(order.text);
    } catch (const std::exception& error) {
      answer.error = error.what();
    }
    {
      const std::lock_guard lock(mutex_);
      answers_.push_back(std::move(answer));
    }
    finished_.notify_one();
  }
}

}  // namespace stepcast::search
