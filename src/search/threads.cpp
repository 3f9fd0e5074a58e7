#include "threads.h"

#include <exception>
#include <utility>

#include "stepcast/base/threads.h"

namespace stepcast::search {

Threads::Threads(int count, std::string start, MakeWork make)
    : start_(std::move(start)), make_(std::move(make)) {
  while (this->count() < count && add_thread(threads_, [this] { work(); })) {
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
  if (threads_.empty()) {
    return take_without_threads();
  }
  std::unique_lock lock(mutex_);
  finished_.wait_for(lock, patience, [&] { return !answers_.empty(); });
  if (answers_.empty()) {
    return std::nullopt;
  }
  Answer out = std::move(answers_.front());
  answers_.pop_front();
  return out;
}

std::optional<Answer> Threads::take_without_threads() {
  if (orders_.empty()) {
    return std::nullopt;
  }
  const Order order = std::move(orders_.front());
  orders_.pop_front();
  return answer_to(order, own_);
}

Answer Threads::answer_to(const Order& order, Work& mine) const {
  Answer answer{order.id, {}, {}};
  try {
    if (!mine) {
      mine = make_(start_);
    }
    answer.text = mine(order.text);
  } catch (const std::exception& error) {
    answer.error = error.what();
  }
  return answer;
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
    Answer answer = answer_to(order, mine);
    {
      const std::lock_guard lock(mutex_);
      answers_.push_back(std::move(answer));
    }
    finished_.notify_one();
  }
}

}  // namespace stepcast::search
