// Threads that evaluate orders: as many as are of use, and fewer where the process may have no
// more.
#include "search/threads.h"

#include <pthread.h>

#include <map>
#include <string>

#include "catch.hpp"
#include "stepcast/base/threads.h"
#include "stepcast/search/world.h"

using namespace stepcast;

namespace {

search::MakeWork doubling() {
  return [](const std::string& start) -> search::Work {
    return [start](const std::string& order) -> std::string {
      if (order == "odd") {
        throw std::runtime_error("cannot be halved");
      }
      return start + order + order;
    };
  };
}

// The answers to "0", "1", … and to an order that fails.
std::map<std::uint64_t, search::Answer> answers_of(search::Threads& threads, int orders) {
  for (int n = 0; n < orders; ++n) {
    threads.submit(static_cast<std::uint64_t>(n), std::to_string(n));
  }
  threads.submit(static_cast<std::uint64_t>(orders), "odd");
  std::map<std::uint64_t, search::Answer> out;
  while (out.size() < static_cast<std::size_t>(orders) + 1) {
    if (auto answer = threads.take(std::chrono::milliseconds(1))) {
      out[answer->id] = *answer;
    }
  }
  return out;
}

void check_answers(search::Threads& threads) {
  const auto answers = answers_of(threads, 9);
  CHECK(answers.at(3).text == ">33");
  CHECK(answers.at(8).text == ">88");
  CHECK(answers.at(9).error == "cannot be halved");
  CHECK_FALSE(threads.take(std::chrono::microseconds(1)));
}

#ifdef __GLIBC__
// While one lives no thread can begin: its stack would not fit in the address space.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 60);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoMoreThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  pthread_attr_t before_{};
};
#endif

}  // namespace

TEST_CASE("More threads than are of use are not made", "[search]") {
  constexpr int kMany = 100'000;
  const int most = most_useful_threads();
  CHECK(most >= 16);
  CHECK(most < kMany);
  CHECK(threads_of(kMany) == static_cast<std::size_t>(most));
  CHECK(search::threads_of(kMany, nullptr) == most);
  CHECK(search::threads_of(3, nullptr) == 3);
  CHECK(search::threads_of(0, nullptr) >= 1);
}

TEST_CASE("Threads answer every order", "[search]") {
  search::Threads threads(3, ">", doubling());
  CHECK(threads.count() == 3);
  check_answers(threads);
}

#ifdef __GLIBC__
TEST_CASE("Where no thread can begin the caller does the work", "[search]") {
  const NoMoreThreads none;
  search::Threads threads(3, ">", doubling());
  CHECK(threads.count() == 0);
  check_answers(threads);

  std::vector<std::thread> more;
  CHECK_FALSE(add_thread(more, [] {}));
  std::atomic<int> calls = 0;
  on_threads(4, [&](const std::atomic<bool>&) { ++calls; });
  CHECK(calls == 1);
}
#endif
