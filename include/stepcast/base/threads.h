// Work that several threads of one computation share. What comes out of it may not depend on how many they are.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace stepcast {

// More threads than this only wait for each other and each keep what they have read: four for each core, at least sixteen.
inline int most_useful_threads() {
  constexpr int kEach = 4, kLeast = 16;
  return std::max(kLeast, kEach * static_cast<int>(std::min(std::thread::hardware_concurrency(), 65536U)));
}

// How many threads were asked for, as far as they are of use; 0: as many as there are cores.
inline std::size_t threads_of(int asked) {
  return asked > 0 ? static_cast<std::size_t>(std::min(asked, most_useful_threads()))
                   : std::max(1U, std::thread::hardware_concurrency());
}

// Adds a thread that does `work`. False: the process may have no more of them.
template <class Work>
bool add_thread(std::vector<std::thread>& threads, Work&& work) {
  threads.reserve(threads.size() + 1);  // a thread that finds no place would end the process
  try {
    threads.emplace_back(std::forward<Work>(work));
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

// Calls `work` on so many threads at once, of which the caller's is one, and returns when all have. What one throws is
// thrown once the others are done; `failed` tells them that they need not go on.
template <class Work>
void on_threads(std::size_t threads, const Work& work) {
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr error;
  const auto guarded = [&] {
    try {
      work(static_cast<const std::atomic<bool>&>(failed));
    } catch (...) {
      failed = true;
      const std::lock_guard lock(mutex);
      error = error ? error : std::current_exception();
    }
  };
  std::vector<std::thread> others;
  while (others.size() + 1 < threads && add_thread(others, guarded)) {  // fewer do the same work
  }
  guarded();
  for (std::thread& t : others) {
    t.join();
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

// Calls f(i) for each i below `count` on up to so many threads. Of what is thrown, that of the least i is; none above it
// need have been called.
template <class F>
void for_each_on_threads(std::size_t count, std::size_t threads, const F& f) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> errors(count);
  on_threads(std::min(count, threads), [&](const std::atomic<bool>&) {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        f(i);
      } catch (...) {
        errors[i] = std::current_exception();
        next = count;
      }
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) {
      std::rethrow_exception(error);
    }
  }
}

}  // namespace stepcast
