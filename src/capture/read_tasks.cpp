#include "read_tasks.h"

#include <fmt/format.h>

#include <limits>

#include "stepcast/text/map.h"

namespace stepcast::capture {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 50;  // bytes, nanoseconds: 1 PiB, 13 days

// The members of a task, taken one after another.
class Members {
 public:
  explicit Members(const text::Value& v)
      : v_(text::expect_list(v, "expected a task, which is a list")) {}
  const text::Value& next() {
    if (at_ == v_.items.size()) {
      text::fault(v_.origin, fmt::format("a task of {} members; expected more", v_.items.size()));
    }
    return v_.items[at_++];
  }
  int small(std::size_t below, const char* what) {
    return static_cast<int>(whole(next(), 0, static_cast<std::int64_t>(below) - 1, what));
  }
  std::int64_t amount(const char* what) { return whole(next(), 0, kMost, what); }
  void done() const {
    if (at_ != v_.items.size()) {
      text::fault(v_.items[at_].origin, "a member too many; see simulate capture --format");
    }
  }

 private:
  const text::Value& v_;
  std::size_t at_ = 0;
};

std::vector<Wait> read_waits(const text::Value& v, const Rank& rank) {
  std::vector<Wait> out;
  for (const text::Value& one : text::expect_list(v, "expected a list of waits").items) {
    Members members(one);
    Wait wait;
    wait.stream = members.small(rank.streams.size(), "stream");
    wait.position =
        static_cast<int>(whole(members.next(), 1, std::numeric_limits<int>::max(), "position"));
    wait.lag = members.small(2, "lag");
    members.done();
    out.push_back(wait);
  }
  return out;
}

void read_messages(const text::Value& v, const Rank& rank, Task& task) {
  for (const text::Value& one : text::expect_list(v, "expected a list of messages").items) {
    Members members(one);
    Message message;
    message.peer =
        members.small(rank.groups[static_cast<std::size_t>(task.group)].ranks.size(), "peer");
    message.send = members.small(2, "direction") == 1;
    message.bytes = members.amount("bytes");
    members.done();
    task.messages.push_back(message);
  }
}

void read_rest(Members& members, const Rank& rank, Task& task) {
  switch (task.kind) {
    case TaskKind::kernel:
      task.operator_number = static_cast<int>(whole(
          members.next(), -1, static_cast<std::int64_t>(rank.operators.size()) - 1, "operator"));
      task.phase = static_cast<Phase>(members.small(kPhases, "phase"));
      task.launches = static_cast<int>(whole(members.next(), 1, 65535, "launches"));
      return;
    case TaskKind::collective:
      task.group = members.small(rank.groups.size(), "group");
      task.operation = text::to_string(members.next());
      task.bytes = members.amount("bytes");
      return;
    case TaskKind::exchange:
      task.group = members.small(rank.groups.size(), "group");
      read_messages(members.next(), rank, task);
      return;
    case TaskKind::copy: {
      const text::Value& direction = members.next();
      task.to_device = text::to_string(direction) == "to_device";
      if (!task.to_device && direction.scalar != "to_host") {
        text::fault(direction.origin, "expected to_device or to_host");
      }
      task.bytes = members.amount("bytes");
      return;
    }
    case TaskKind::sync:
    case TaskKind::host:
      return;
  }
}

}  // namespace

std::int64_t whole(const text::Value& v, std::int64_t least, std::int64_t most, const char* what) {
  const std::int64_t value = text::to_integer(v);
  if (value < least || value > most) {
    text::fault(v.origin, fmt::format("{} is {}; expected {} to {}", what, value, least, most));
  }
  return value;
}

Task read_task(const text::Value& v, const Rank& rank) {
  Members members(v);
  Task task;
  const text::Value& kind = members.next();
  const auto known = stepcast::parse<TaskKind>(text::to_string(kind));
  if (!known) {
    text::fault(kind.origin, fmt::format("unknown kind of task '{}'", kind.scalar));
  }
  task.kind = *known;
  const bool issued = task.kind != TaskKind::sync && task.kind != TaskKind::host;
  if (issued) {
    task.stream = members.small(rank.streams.size(), "stream");
  }
  task.host = members.amount("host time");
  if (task.kind != TaskKind::host) {
    task.waits = read_waits(members.next(), rank);
  }
  read_rest(members, rank, task);
  members.done();
  return task;
}

}  // namespace stepcast::capture
