#include "stepcast/search/workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "messages.h"
#include "threads.h"

namespace stepcast::search {
namespace {

using namespace std::chrono_literals;

// How long a process sleeps between two polls for messages.
constexpr auto kNap = 300us;
constexpr auto kIdleNap = 2ms;  // for a process with nothing to evaluate
// Extra orders that a remote process holds beyond the number of its threads, so that no thread
// waits for a message.
constexpr int kAhead = 1;

// Composes a message: a head followed by its text.
std::string headed(const std::string& head, const std::string& text) { return head + '\0' + text; }

std::pair<std::string, std::string> parted(const std::string& text) {
  const std::size_t at = text.find('\0');
  return {text.substr(0, at), text.substr(at + 1)};
}

std::uint64_t id_of(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

}  // namespace

struct Workers::State {
  State(const World* world, int count, const std::string& start, const MakeWork& make)
      : threads(count, start, make), slots{std::max(1, threads.count())} {
    const int size = world == nullptr ? 1 : world->size();
    slots.resize(static_cast<std::size_t>(size),
                 0);  // Other processes have 0 until they report that they are ready.
    busy.resize(static_cast<std::size_t>(size), 0);
    for (int to = 1; to < size; ++to) {
      send(to, Tag::start, start);
    }
  }

  Threads threads;
  std::vector<int> slots, busy;  // indexed by rank
  int in_flight = 0;

  Answer finished(int rank, Answer answer) {
    --busy[static_cast<std::size_t>(rank)];
    --in_flight;
    return answer;
  }

  std::optional<Answer> hear() {
    const auto message = receive();
    if (!message) {
      return std::nullopt;
    }
    if (message->tag == Tag::ready) {
      slots[static_cast<std::size_t>(message->from)] = std::atoi(message->text.c_str()) + kAhead;
      return std::nullopt;
    }
    const auto [id, rest] = parted(message->text);
    auto [error, text] = parted(rest);
    Answer answer{id_of(id), std::move(text), std::move(error)};
    if (!answer.error.empty()) {
      answer.error = fmt::format("rank {}: {}", message->from, answer.error);
    }
    return finished(message->from, std::move(answer));
  }
};

Workers::Workers(World* world, int threads, const std::string& start, const MakeWork& make)
    : state_(std::make_unique<State>(world, threads, start, make)) {}

Workers::~Workers() = default;

int Workers::capacity() const {
  int all = 0;
  for (const int n : state_->slots) {
    all += n;
  }
  return all;
}

int Workers::in_flight() const { return state_->in_flight; }

void Workers::submit(std::uint64_t id, std::string order) {
  State& s = *state_;
  std::size_t to = 0;
  for (std::size_t r = 1; r < s.slots.size(); ++r) {
    if (s.slots[r] - s.busy[r] > s.slots[to] - s.busy[to]) {
      to = r;
    }
  }
  ++s.busy[to];
  ++s.in_flight;
  if (to == 0) {
    s.threads.submit(id, std::move(order));
    return;
  }
  send(static_cast<int>(to), Tag::order, headed(fmt::format("{}", id), order));
}

std::optional<Answer> Workers::take(std::chrono::microseconds patience) {
  State& s = *state_;
  if (s.slots.size() == 1) {
    auto answer = s.threads.take(patience);
    return answer ? std::optional(s.finished(0, std::move(*answer))) : std::nullopt;
  }
  const auto until = std::chrono::steady_clock::now() + patience;
  do {
    const int before = capacity();
    if (auto answer = s.hear()) {
      return answer;
    }
    if (capacity() > before) {  // another process has become ready
      return std::nullopt;
    }
    if (auto answer = s.threads.take(kNap)) {
      return s.finished(0, std::move(*answer));
    }
  } while (std::chrono::steady_clock::now() < until);
  return std::nullopt;
}

void serve(World& world, int count, const MakeWork& make) {
  if (world.size() == 1) {
    return;
  }
  std::unique_ptr<Threads> threads;
  int busy = 0;
  for (;;) {
    const auto message = receive();
    if (!message) {
      if (busy == 0) {
        std::this_thread::sleep_for(kIdleNap);
      } else if (auto answer = threads->take(kNap)) {
        --busy;
        send(0, Tag::answer,
             headed(fmt::format("{}", answer->id), headed(answer->error, answer->text)));
      }
      continue;
    }
    if (message->tag == Tag::stop) {
      // The threads are leaked on purpose: an evaluation cannot be interrupted, and the caller ends
      // the process.
      static_cast<void>(threads.release());
      return;
    }
    if (message->tag == Tag::start) {
      threads = std::make_unique<Threads>(count, message->text, make);
      send(0, Tag::ready, fmt::format("{}", std::max(1, threads->count())));
    } else {
      auto [id, text] = parted(message->text);
      threads->submit(id_of(id), std::move(text));
      ++busy;
    }
  }
}

}  // namespace stepcast::search
