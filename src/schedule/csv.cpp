// Orders as PyTorch's pipelining runtime writes and reads them
// (torch.distributed.pipelining.schedules: _Action and _PipelineScheduleRuntime.load_csv): see
// from_csv.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "orders.h"

namespace stepcast::schedule {
namespace {

using Cells = std::vector<std::string_view>;

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '"'; };
  while (!text.empty() && blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

Cells split(std::string_view text, char by) {
  Cells parts;
  for (std::size_t at = 0;;) {
    const std::size_t end = text.find(by, at);
    parts.push_back(trimmed(text.substr(at, end - at)));
    if (end == text.npos) {
      return parts;
    }
    at = end + 1;
  }
}

constexpr std::string_view kPair = "OVERLAP_F_B";
// Actions that the runtime adds to a schedule. A forecast adds its own.
constexpr std::array<std::string_view, 7> kCommunication = {
    "UNSHARD", "RESHARD", "REDUCE_GRAD", "SEND_F", "RECV_F", "SEND_B", "RECV_B"};
constexpr std::string_view kPasses = "FIWBST";
constexpr int kLargest = 1 << 20;  // stage or micro-batch

struct Action {
  Pass pass;
  int stage;
  int micro_batch;
  bool with_next = false;
  std::size_t cell = 0;
};

// Digits at the front of `text`, which is advanced past them; -1 without any, or too large.
int count_at(std::string_view& text) {
  int value = -1;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && value >= 0 && value <= kLargest;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return good ? value : -1;
}

class Reader {
 public:
  // Reads a cell into its row's actions; what is wrong with it, or "".
  static std::string read(std::string_view cell, std::size_t at, std::vector<Action>& row) {
    if (cell.empty()) {
      return "";
    }
    if (cell.front() == '(') {
      return read_pair(cell, at, row);
    }
    std::string_view rest = cell;
    const int stage = count_at(rest);
    if (stage >= 0 && !rest.empty()) {
      std::string_view micro_batch_of = rest;
      while (!micro_batch_of.empty() &&
             (micro_batch_of.front() < '0' || micro_batch_of.front() > '9')) {
        micro_batch_of.remove_prefix(1);
      }
      const std::string_view name = rest.substr(0, rest.size() - micro_batch_of.size());
      if (std::find(kCommunication.begin(), kCommunication.end(), name) != kCommunication.end()) {
        return "";
      }
      const int micro_batch = count_at(micro_batch_of);
      if (name.size() == 1 && kPasses.find(name.front()) != kPasses.npos && micro_batch >= 0 &&
          micro_batch_of.empty()) {
        row.push_back({static_cast<Pass>(name.front()), stage, micro_batch, false, at});
        return "";
      }
    }
    return "is not an action; expected a stage, F, I, W or B and a micro-batch, as 0F3";
  }

 private:
  static std::string read_pair(std::string_view cell, std::size_t at, std::vector<Action>& row) {
    const std::size_t close = cell.find(')');
    if (close == cell.npos || cell.substr(close + 1) != kPair) {
      return "is not a pair; expected (0F1;3B0)OVERLAP_F_B";
    }
    const Cells parts = split(cell.substr(1, close - 1), ';');
    const std::size_t before = row.size();
    for (const std::string_view part : parts) {
      if (part.empty() || part.front() == '(' || !read(part, at, row).empty()) {
        return fmt::format("holds '{}', which is not an action", part);
      }
    }
    if (parts.size() != 2 || row.size() != before + 2) {
      return "is not a pair of a forward and a backward";
    }
    row[before].with_next = true;
    return "";
  }
};

// The first placement that puts every action on the rank where it stands; chunks per rank of it.
bool fits(const std::vector<std::vector<Action>>& rows, Placement placement, int chunks) {
  const int p = static_cast<int>(rows.size());
  for (int rank = 0; rank < p; ++rank) {
    for (const Action& action : rows[static_cast<std::size_t>(rank)]) {
      bool here = action.pass == Pass::vocabulary || action.pass == Pass::vocabulary_grad;
      for (int chunk = 0; chunk < chunks && !here; ++chunk) {
        here = stage_of(placement, p, rank, chunk) == action.stage;
      }
      if (!here) {
        return false;
      }
    }
  }
  return true;
}

std::string at_cell(std::size_t row, std::size_t cell, std::string_view text,
                    std::string_view reason) {
  return fmt::format("row {}, cell {} ('{}'){}", row + 1, cell + 1, text, reason);
}

// The chunk that runs an action's stage on its rank. Where two replicas meet, a rank has the same
// stage twice; the micro-batches that enter on rank 0 are the first replica's.
class Chunks {
 public:
  Chunks(const std::vector<std::vector<Action>>& rows, Placement placement, int chunks)
      : placement_(placement), p_(static_cast<int>(rows.size())), chunks_(chunks) {
    for (const Action& action : rows.front()) {
      if (action.pass == Pass::forward && action.stage == 0) {
        down_.insert(action.micro_batch);
      }
    }
  }
  int of(int rank, const Action& action) const {
    if (placement_ == Placement::bidirectional && 2 * rank == p_ - 1) {
      return down_.contains(action.micro_batch) ? 0 : 1;
    }
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      if (stage_of(placement_, p_, rank, chunk) == action.stage) {
        return chunk;
      }
    }
    return 0;
  }

 private:
  Placement placement_;
  int p_;
  int chunks_;
  std::set<int> down_;
};

// One barrier when a last stage's backward runs before this rank's T of the micro-batch, else two.
int barriers(const std::vector<std::vector<Action>>& rows, int last_stage) {
  int count = 0;
  for (const auto& row : rows) {
    std::set<int> ended;
    for (const Action& action : row) {
      if (action.pass == Pass::vocabulary || action.pass == Pass::vocabulary_grad) {
        count = std::max(count, 2);
      }
      if (action.stage == last_stage &&
          (action.pass == Pass::backward || action.pass == Pass::input_grad)) {
        ended.insert(action.micro_batch);
      }
      if (action.pass == Pass::vocabulary_grad && ended.contains(action.micro_batch)) {
        return 1;
      }
    }
  }
  return count;
}

}  // namespace

Request request_of(const Order& order) {
  Request request;
  request.stages = static_cast<int>(order.ranks.size());
  request.micro_batches = 0;
  int chunks = 1;
  for (const auto& rank : order.ranks) {
    for (const Slot& slot : rank) {
      request.micro_batches = std::max(request.micro_batches, slot.micro_batch + 1);
      chunks = std::max(chunks, slot.chunk + 1);
    }
  }
  request.chunks = order.chunks > 0 ? order.chunks : chunks;
  return request;
}

std::variant<Order, Infeasible> from_csv(std::string_view text, TablePlace* place) {
  std::vector<Cells> cells;
  // A fault of a cell, or with an empty one of a row.
  const auto fault_at = [&](std::size_t row, std::size_t cell, std::string_view reason) {
    const std::string_view wrong = cells[row][cell];
    if (place == nullptr) {
      return refuse(at_cell(row, cell, wrong, reason));
    }
    const auto at = static_cast<std::size_t>(wrong.data() - text.data());
    const std::size_t newline = text.substr(0, at).rfind('\n');
    place->line = static_cast<int>(row) + 1;
    place->column = static_cast<int>(newline == text.npos ? at : at - newline - 1) + 1;
    return refuse(fmt::format("'{}'{}", wrong, reason));
  };
  for (std::string_view line : split(text, '\n')) {
    cells.push_back(split(line, ','));
  }
  const auto blank = [](const Cells& row) {
    return std::all_of(row.begin(), row.end(), [](auto c) { return c.empty(); });
  };
  while (!cells.empty() && blank(cells.back())) {
    cells.pop_back();
  }
  if (cells.empty()) {
    return refuse("the table is empty; expected a row of actions for every pipeline rank");
  }
  std::vector<std::vector<Action>> rows(cells.size());
  int last_stage = -1;
  std::size_t actions = 0;
  for (std::size_t r = 0; r < cells.size(); ++r) {
    for (std::size_t c = 0; c < cells[r].size(); ++c) {
      if (const std::string wrong = Reader::read(cells[r][c], c, rows[r]); !wrong.empty()) {
        return fault_at(r, c, " " + wrong);
      }
    }
    actions += rows[r].size();
    for (const Action& action : rows[r]) {
      last_stage = std::max(last_stage, action.stage);
    }
  }
  const int p = static_cast<int>(rows.size());
  const int stages = last_stage + 1;
  if (stages < 1) {
    return refuse("the table holds no pass of a stage");
  }
  const int per_rank = std::max(1, stages / p);
  Order order;
  struct Candidate {
    Placement placement;
    int chunks;
  };
  const std::array candidates{Candidate{Placement::loop, per_rank},
                              Candidate{Placement::vee, per_rank},
                              Candidate{Placement::bidirectional, 2}};
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& c) {
    return (c.placement == Placement::bidirectional ? stages == p : stages % p == 0) &&
           fits(rows, c.placement, c.chunks);
  });
  if (found == candidates.end()) {
    return refuse(
        fmt::format("{} stages do not lie on {} ranks as a loop (rank = stage mod {}), a V or two "
                    "replicas that meet",
                    stages, p, p));
  }
  order.placement = found->placement;
  order.chunks = found->chunks;
  order.barriers = barriers(rows, last_stage);
  const Chunks chunks(rows, order.placement, order.chunks);
  for (int r = 0; r < p; ++r) {
    auto& slots = order.ranks.emplace_back();
    for (const Action& action : rows[static_cast<std::size_t>(r)]) {
      slots.push_back({action.pass, action.micro_batch, chunks.of(r, action), action.with_next});
    }
  }
  const Request request = request_of(order);
  if (static_cast<std::size_t>(stages) * static_cast<std::size_t>(request.micro_batches) >
      actions) {
    return refuse(fmt::format("{} actions cannot run {} micro-batches through {} stages", actions,
                              request.micro_batches, stages));
  }
  if (const auto wrong = examine(order, request)) {
    if (wrong->rank < 0) {
      return refuse(wrong->reason);
    }
    const auto r = static_cast<std::size_t>(wrong->rank);
    if (wrong->slot >= rows[r].size()) {
      if (place != nullptr) {
        place->line = static_cast<int>(r) + 1;
        return refuse(wrong->reason);
      }
      return refuse(fmt::format("row {}: {}", r + 1, wrong->reason));
    }
    const std::size_t c = rows[r][wrong->slot].cell;
    return fault_at(r, c, ": " + wrong->reason);
  }
  return order;
}

std::string to_csv(const Order& order, int stages) {
  const auto action = [&](int rank, const Slot& slot) {
    return fmt::format("{}{}{}", stage_of(order.placement, stages, rank, slot.chunk),
                       static_cast<char>(slot.pass), slot.micro_batch);
  };
  std::string text;
  for (std::size_t r = 0; r < order.ranks.size(); ++r) {
    const auto& slots = order.ranks[r];
    const int rank = static_cast<int>(r);
    for (std::size_t at = 0; at < slots.size(); ++at) {
      text += at > 0 ? "," : "";
      if (slots[at].with_next) {
        text +=
            fmt::format("({};{}){}", action(rank, slots[at]), action(rank, slots[at + 1]), kPair);
        ++at;
      } else {
        text += action(rank, slots[at]);
      }
    }
    text += '\n';
  }
  return text;
}

}  // namespace stepcast::schedule
