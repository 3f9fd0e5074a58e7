#include <fmt/core.h>

#include <algorithm>

#include "machine.h"

namespace stepcast::engine {

using program::kNone;
using program::Price;
using program::TaskKind;

std::uint32_t Machine::open_operation(TaskKind kind, std::uint32_t home, std::uint32_t rs) {
  std::uint32_t id = 0;
  const bool shared = kind == TaskKind::collective && communicators_[home].shared;
  std::vector<std::uint32_t>& free = shared ? free_shared_ : free_operations_;
  if (free.empty()) {
    id = static_cast<std::uint32_t>(operations_.size());
    operations_.emplace_back();
  } else {
    id = free.back();
    free.pop_back();
  }
  Operation& op = operations_[id];
  op.kind = kind;
  op.home = home;
  op.first = rs;
  op.last = rs;
  op.next = kNone;
  op.arrived = 1;
  op.flowing = false;
  op.open = true;
  return id;
}

void Machine::set_fault(std::string text) {
  if (fault_.empty()) {
    fault_ = std::move(text);
  }
}

void Machine::join_collective(RankState& r, std::uint32_t rs, const CompiledTask& t, Time now) {
  StreamState& s = streams_[rs];
  const std::uint32_t entry = r.first_communicator + t.communicator;
  const std::uint32_t home = world_.communicator_table[entry];
  const program::Communicator& c = world_.communicators[home];
  const Price& price = world_.shapes[c.shape].prices[t.price];
  const std::uint32_t use = uses_[entry]++;
  press_to(r, rs, price.pressure_waiting);
  std::uint32_t* link = &communicators_[home].open;
  while (*link != kNone && operations_[*link].use != use) {
    link = &operations_[*link].next;
  }
  std::uint32_t id = *link;
  if (id == kNone) {
    id = open_operation(TaskKind::collective, home, rs);  // may move operations_
    Operation& op = operations_[id];
    op.use = use;
    op.key = t.price;
    op.price = &price;
    s.next_member = kNone;
    if (c.members > 1) {
      op.next = communicators_[home].open;
      communicators_[home].open = id;
      return;
    }
  } else {
    Operation& op = operations_[id];
    if (op.key != t.price) {
      set_fault(fmt::format("{} joins use {} of communicator {} as another collective than {}",
                            name(s.rank, s.index), use, home,
                            name(streams_[op.first].rank, streams_[op.first].index)));
      return;
    }
    s.next_member = op.first;
    op.first = rs;
    ++op.arrived;
    if (op.arrived < c.members) {
      return;
    }
    *link = op.next;
  }
  Operation& op = operations_[id];
  op.last = rs;
  op.last_ordinal = s.completed;
  begin_operation(id, now);
}

void Machine::post_exchange(RankState& r, std::uint32_t rs, const CompiledTask& t, Time now) {
  StreamState& s = streams_[rs];
  const program::Transfer* transfers = r.program->source->transfers.data() + t.first_transfer;
  s.pending = t.transfers;
  s.moving = 0;
  press_to(r, rs, waiting_exchange(s, t));
  for (std::uint32_t k = 0; k < t.transfers; ++k) {
    post(r, rs, transfers[k], now);
  }
}

// One grouped kernel serves all its transfers, so it holds what the largest of them needs.
std::uint16_t Machine::waiting_exchange(const StreamState& s, const CompiledTask& t) const {
  const RankState& r = ranks_[s.rank];
  const program::Transfer* transfers = r.program->source->transfers.data() + t.first_transfer;
  std::uint16_t pressure = 0;
  for (std::uint32_t k = 0; k < t.transfers; ++k) {
    const program::Channel& c =
        world_.channels[world_.channel_table[r.first_channel + transfers[k].channel]];
    pressure =
        std::max(pressure, world_.shapes[c.shape].prices[transfers[k].price].pressure_waiting);
  }
  return pressure;
}

// The k-th send on a channel meets the k-th receive.
void Machine::post(RankState& r, std::uint32_t rs, const program::Transfer& x, Time now) {
  StreamState& s = streams_[rs];
  const std::uint32_t home = world_.channel_table[r.first_channel + x.channel];
  const program::Channel& c = world_.channels[home];
  ChannelState& channel = channels_[home];
  const Price& price = world_.shapes[c.shape].prices[x.price];
  if (channel.head == kNone || operations_[channel.head].send == x.send) {
    const std::uint32_t id = open_operation(TaskKind::exchange, home, rs);
    Operation& op = operations_[id];
    op.key = x.key;
    op.price = &price;
    op.send = x.send;
    if (channel.head == kNone) {
      channel.head = id;
    } else {
      operations_[channel.tail].next = id;
    }
    channel.tail = id;
    return;
  }
  const std::uint32_t id = channel.head;
  Operation& op = operations_[id];
  channel.head = op.next;
  const StreamState& peer = streams_[op.first];
  if (!keys_agree_ && (op.key != x.key || op.price != &price)) {
    set_fault(fmt::format("{} {} key {} but {} {} key {} on channel {}", name(s.rank, s.index),
                          x.send ? "sends" : "receives", x.key, name(peer.rank, peer.index),
                          op.send ? "sends" : "receives", op.key, home));
    return;
  }
  op.last = rs;
  op.last_ordinal = s.completed;
  op.arrived = 2;
  streams_[rs].begin = now;
  streams_[op.first].begin = now;
  begin_operation(id, now);
}

void Machine::start_copy(RankState&, std::uint32_t rs, const CompiledTask& t, Time now) {
  StreamState& s = streams_[rs];
  const Price& price = world_.shapes[world_.ranks[s.rank].copy_shape].prices[t.price];
  const std::uint32_t id = open_operation(TaskKind::copy, s.rank, rs);
  operations_[id].price = &price;
  operations_[id].last_ordinal = s.completed;
  begin_operation(id, now);
}

void Machine::usages(const Operation& op, const program::Usage*& first,
                     std::uint32_t& count) const {
  std::uint32_t from = 0;
  switch (op.kind) {
    case TaskKind::collective:
      from = communicators_[op.home].first_usage;
      count = communicators_[op.home].usages;
      break;
    case TaskKind::exchange:
      from = channels_[op.home].first_usage;
      count = channels_[op.home].usages;
      break;
    default:
      from = ranks_[op.home].first_usage;
      count = ranks_[op.home].usages;
      break;
  }
  first = usages_.data() + from;
}

// Everyone is there.
bool Machine::begun(const Operation& op) const {
  switch (op.kind) {
    case TaskKind::collective:
      return op.arrived == world_.communicators[op.home].members;
    case TaskKind::exchange:
      return op.arrived == 2;
    default:
      return true;
  }
}

template <class F>
void Machine::for_each_member(const Operation& op, F&& f) const {
  if (op.kind == TaskKind::collective) {
    for (std::uint32_t rs = op.first; rs != kNone; rs = streams_[rs].next_member) {
      f(rs);
    }
  } else {
    f(op.first);
    if (op.kind == TaskKind::exchange) {
      f(op.last);
    }
  }
}

// Everyone is there: latency first, then the fluid part. What can neither share nor be slowed needs
// no network.
void Machine::begin_operation(std::uint32_t id, Time now) {
  Operation& op = operations_[id];
  op.begin = now;
  note(op, Noted::begin, now, 0);
  for_each_member(op, [&](std::uint32_t rs) {
    StreamState& s = streams_[rs];
    ++s.moving;
    press_to(ranks_[s.rank], rs, std::max(s.pressure, op.price->pressure));
  });
  const program::Usage* first = nullptr;
  std::uint32_t count = 0;
  usages(op, first, count);
  if ((count == 0 && !transfers_slow_) || op.price->fluid == Time{0}) {
    push(now + op.price->latency + op.price->fluid, EventKind::operation_end, id, op.generation);
  } else {
    push(now + op.price->latency, EventKind::flow, id, op.generation);
  }
}

// A transfer runs at the speed of its slowest member's GPU.
std::int64_t Machine::capped_rate(const Operation& op) const {
  if (!transfers_slow_) {
    return op.price->rate;
  }
  std::int64_t speed = kFullSpeed;
  for_each_member(op, [&](std::uint32_t rs) {
    speed = std::min<std::int64_t>(speed, ranks_[streams_[rs].rank].transfer_speed);
  });
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(Int128{op.price->rate} * speed / kFullSpeed));
}

void Machine::flow(std::uint32_t id, Time now) {
  Operation& op = operations_[id];
  const program::Usage* first = nullptr;
  std::uint32_t count = 0;
  usages(op, first, count);
  op.flowing = true;
  network_.start(id, first, count, *op.price, capped_rate(op), now);
  note(op, Noted::cap, now, network_.cap(id));
  if (transfers_slow_) {
    for_each_member(op, [&](std::uint32_t rs) { flowing_[streams_[rs].rank].push_back(id); });
  }
}

// Kernels that run on a rank changed: its transfers may have another cap.
void Machine::recap(std::uint32_t rank) {
  RankState& r = ranks_[rank];
  std::int64_t speed = kFullSpeed;
  for (std::uint32_t left = r.slowed; left != 0; left &= left - 1) {
    const std::uint8_t row =
        streams_[r.first_stream + static_cast<std::uint32_t>(std::countr_zero(left))].credit_row;
    if (row < world_.transfer_speed.size()) {
      speed = std::min(speed, world_.transfer_speed[row]);
    }
  }
  if (speed == r.transfer_speed) {
    return;
  }
  r.transfer_speed = static_cast<std::int32_t>(speed);
  for (const std::uint32_t id : flowing_[rank]) {
    network_.set_cap(id, capped_rate(operations_[id]));
    if (is_part_) {
      recapped_.push_back(id);
    }
  }
}

void Machine::end_operation(std::uint32_t id, Time now) {
  Operation op = operations_[id];  // a copy: completing may not touch it, but readers keep it
  if (op.flowing) {
    network_.finish(id);
    if (transfers_slow_) {
      for_each_member(op, [&](std::uint32_t rs) {
        std::vector<std::uint32_t>& list = flowing_[streams_[rs].rank];
        const auto at = std::find(list.begin(), list.end(), id);
        if (at != list.end()) {
          list.erase(at);
        }
      });
    }
  }
  ++operations_[id].generation;
  operations_[id].open = false;
  note(op, Noted::end, now, 0);
  (is_shared(op) ? free_shared_ : free_operations_).push_back(id);
  if (op.kind == TaskKind::exchange) {
    for (const std::uint32_t rs : {op.first, op.last}) {
      StreamState& s = streams_[rs];
      --s.moving;
      if (--s.pending == 0) {
        complete(rs, now, &op);
      } else if (s.moving == 0) {
        press_to(ranks_[s.rank], rs, waiting_exchange(s, s.tasks[s.position]));
      }
    }
    return;
  }
  for (std::uint32_t rs = op.first; rs != kNone;) {
    StreamState& s = streams_[rs];
    const std::uint32_t next = op.kind == TaskKind::collective ? s.next_member : kNone;
    s.begin = op.begin;
    complete(rs, now, &op);
    rs = next;
  }
}

}  // namespace stepcast::engine
