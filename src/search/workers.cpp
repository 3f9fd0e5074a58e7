#include "workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>

#include "messages.h"
#include "threads.h"

namespace stepcast::search {
namespace {

using namespace std::chrono_literals;

// How long a process sleeps between two looks for messages.
constexpr auto kNap = 300us;
constexpr auto kIdleNap = 2ms;  // of those who have nothing to evaluate
// Orders beyond its threads that another process holds, so that none waits for a message.
constexpr int kAhead = 1;

// Texts that hold no zero byte, one behind the other.
std::string packed(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) {
    out += text;
    out += '\0';
  }
  return out;
}

std::vector<std::string> unpacked(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\0', at);
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string packed(const Order& o) {
  std::vector<std::string> texts = {fmt::format("{}", o.id), fmt::format("{}", o.limit),
                                    fmt::format("{}", o.memory), o.replay_only ? "1" : "0"};
  texts.insert(texts.end(), o.overrides.begin(), o.overrides.end());
  return packed(texts);
}

Order order_of(const std::string& text) {
  const auto texts = unpacked(text);
  Order o;
  o.id = std::strtoull(texts.at(0).c_str(), nullptr, 10);
  o.limit = std::strtod(texts.at(1).c_str(), nullptr);
  o.memory = std::strtod(texts.at(2).c_str(), nullptr);
  o.replay_only = texts.at(3) == "1";
  o.overrides.assign(texts.begin() + 4, texts.end());
  return o;
}

std::string packed(const Answer& a) {
  return packed(std::vector<std::string>{fmt::format("{}", a.id), a.error,
                                         a.error.empty() ? to_json(a.found) : ""});
}

}  // namespace

struct Workers::State {
  State(World* w, int count, Objective objective, const JobLoader& loader,
        const std::filesystem::path& data)
      : world(w), threads(count, objective, loader, data), slots{count} {
    const int size = world == nullptr ? 1 : world->size();
    slots.resize(static_cast<std::size_t>(size),
                 0);  // of others: when they say that they are ready
    busy.resize(static_cast<std::size_t>(size), 0);
    for (int to = 1; to < size; ++to) {
      send(to, Tag::start, fmt::format("{}", static_cast<int>(objective)));
    }
  }

  World* world;
  Threads threads;
  std::vector<int> slots, busy;  // of each rank
  struct Sent {
    int to = 0;
    std::vector<std::string> overrides;
  };
  std::map<std::uint64_t, Sent> away;
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
    const auto texts = unpacked(message->text);
    Answer answer;
    answer.id = std::strtoull(texts.at(0).c_str(), nullptr, 10);
    const auto sent = away.extract(answer.id);
    if (!texts.at(1).empty()) {
      answer.error = fmt::format("rank {}: {}", message->from, texts.at(1));
    } else {
      answer.found = evaluation_of(texts.at(2), sent.mapped().overrides);
    }
    return finished(message->from, std::move(answer));
  }
};

Workers::Workers(World* world, int threads, Objective objective, const JobLoader& loader,
                 const std::filesystem::path& data_directory)
    : state_(std::make_unique<State>(world, threads, objective, loader, data_directory)) {}

Workers::~Workers() = default;

int Workers::capacity() const {
  int all = 0;
  for (const int n : state_->slots) {
    all += n;
  }
  return all;
}

int Workers::in_flight() const { return state_->in_flight; }

void Workers::submit(Order order) {
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
    s.threads.submit(std::move(order));
    return;
  }
  send(static_cast<int>(to), Tag::order, packed(order));
  s.away[order.id] = {static_cast<int>(to), std::move(order.overrides)};
}

std::optional<Answer> Workers::take() {
  State& s = *state_;
  constexpr auto kPatience = 200ms;
  if (s.slots.size() == 1) {
    auto answer = s.threads.take(kPatience);
    return answer ? std::optional(s.finished(0, std::move(*answer))) : std::nullopt;
  }
  const auto until = std::chrono::steady_clock::now() + kPatience;
  do {
    const int before = capacity();
    if (auto answer = s.hear()) {
      return answer;
    }
    if (capacity() > before) {  // someone new to give work to
      return std::nullopt;
    }
    if (auto answer = s.threads.take(kNap)) {
      return s.finished(0, std::move(*answer));
    }
  } while (std::chrono::steady_clock::now() < until);
  return std::nullopt;
}

void follow(World& world, int threads_wanted, const JobLoader& loader,
            const std::filesystem::path& data_directory) {
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
        send(0, Tag::answer, packed(*answer));
      }
      continue;
    }
    if (message->tag == Tag::stop) {
      // Left to the caller, who ends the process: an evaluation cannot be interrupted.
      static_cast<void>(threads.release());
      return;
    }
    if (message->tag == Tag::start) {
      const int count = threads_wanted > 0 ? threads_wanted : threads_of(&world);
      threads = std::make_unique<Threads>(
          count, static_cast<Objective>(std::atoi(message->text.c_str())), loader, data_directory);
      send(0, Tag::ready, fmt::format("{}", count));
    } else {
      threads->submit(order_of(message->text));
      ++busy;
    }
  }
}

}  // namespace stepcast::search
