// Small handwritten worlds for tests of the engine.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "stepcast/program/program.h"

namespace stepcast::testing {

using namespace program;

// A program in issue order. Every call returns the position of its stream after the new task, for
// later waits.
struct ProgramBuilder {
  Program p;
  std::vector<std::uint32_t> counts;
  std::int64_t launch_cost = 0;
  std::uint32_t unissued = 0;

  explicit ProgramBuilder(std::initializer_list<const char*> streams,
                          std::string name = "program") {
    p.name = std::move(name);
    p.labels.emplace_back("task");
    for (const char* s : streams) {
      p.streams.push_back({s});
      counts.push_back(0);
    }
  }

  Task& add(Task t, const std::vector<Wait>& waits) {
    t.first_wait = static_cast<std::uint32_t>(p.waits.size());
    t.waits = static_cast<std::uint16_t>(waits.size());
    p.waits.insert(p.waits.end(), waits.begin(), waits.end());
    p.tasks.push_back(t);
    ++counts[t.stream];
    ++unissued;
    return p.tasks.back();
  }
  std::uint32_t kernel(int stream, std::int64_t duration, const std::vector<Wait>& waits = {},
                       std::uint8_t slowdown = 0, Category category = Category::compute,
                       CurveId curve = {}) {
    Task t;
    t.kind = TaskKind::kernel;
    t.stream = StreamIndex::at(stream);
    t.duration = Time(duration);
    t.slowdown = slowdown;
    t.category = category;
    t.curve = curve;
    add(t, waits);
    return counts[t.stream];
  }
  std::uint32_t collective(int stream, std::uint32_t role, std::uint32_t price,
                           const std::vector<Wait>& waits = {},
                           Category category = Category::tensor,
                           Category wait_category = Category::stall) {
    Task t;
    t.kind = TaskKind::collective;
    t.stream = StreamIndex::at(stream);
    t.communicator = CommunicatorRole::at(role);
    t.price = PriceKey::at(price);
    t.category = category;
    t.wait_category = wait_category;
    add(t, waits);
    return counts[t.stream];
  }
  std::uint32_t exchange(int stream, const std::vector<Transfer>& transfers,
                         const std::vector<Wait>& waits = {},
                         Category category = Category::pipeline,
                         Category wait_category = Category::bubble) {
    Task t;
    t.kind = TaskKind::exchange;
    t.stream = StreamIndex::at(stream);
    t.first_transfer = static_cast<std::uint32_t>(p.transfers.size());
    t.transfers = static_cast<std::uint16_t>(transfers.size());
    t.category = category;
    t.wait_category = wait_category;
    p.transfers.insert(p.transfers.end(), transfers.begin(), transfers.end());
    add(t, waits);
    return counts[t.stream];
  }
  std::uint32_t copy(int stream, std::uint32_t price, const std::vector<Wait>& waits = {}) {
    Task t;
    t.kind = TaskKind::copy;
    t.stream = StreamIndex::at(stream);
    t.price = PriceKey::at(price);
    t.category = Category::offload;
    add(t, waits);
    return counts[t.stream];
  }
  void launch() {
    if (unissued > 0) {
      HostOp op;
      op.kind = HostKind::launch;
      op.duration = Time(launch_cost);
      op.count = unissued;
      p.host.push_back(op);
      unissued = 0;
    }
  }
  void host_work(std::int64_t duration) {
    launch();
    HostOp op;
    op.kind = HostKind::work;
    op.duration = Time(duration);
    p.host.push_back(op);
  }
  void sync(Wait w) {
    launch();
    HostOp op;
    op.kind = HostKind::sync;
    op.wait = w;
    p.host.push_back(op);
  }
  std::uint32_t buffer(std::int64_t bytes, MemoryCategory category, bool persistent = false) {
    p.buffers.push_back({Bytes(bytes), category, 0, persistent, 0});
    return static_cast<std::uint32_t>(p.buffers.size() - 1);
  }
  void allocate(std::uint32_t buffer) { memory(HostKind::allocate, buffer, 0); }
  void release(std::uint32_t buffer, std::uint32_t streams = 0) {
    memory(HostKind::release, buffer, streams);
  }
  void memory(HostKind kind, std::uint32_t buffer, std::uint32_t streams) {
    launch();
    HostOp op;
    op.kind = kind;
    op.buffer = BufferIndex::at(buffer);
    op.streams = streams;
    p.host.push_back(op);
  }
  Program done() {
    launch();
    return p;
  }
};

inline Wait on(int stream, std::uint32_t position, int lag = 0) {
  return {position, StreamIndex::at(stream), static_cast<std::uint8_t>(lag)};
}

struct WorldBuilder {
  World w;

  ProgramId program(Program p) {
    w.programs.push_back(std::move(p));
    return ProgramId::at(w.programs.size() - 1);
  }
  RankId rank(ProgramId program) {
    Rank r;
    r.program = program;
    r.first_communicator = static_cast<std::uint32_t>(w.communicator_table.size());
    r.first_channel = static_cast<std::uint32_t>(w.channel_table.size());
    w.communicator_table.resize(
        w.communicator_table.size() + w.programs[program].communicator_roles, kNone);
    w.channel_table.resize(w.channel_table.size() + w.programs[program].channel_roles, kNone);
    w.ranks.push_back(r);
    return RankId::at(w.ranks.size() - 1);
  }
  ShapeId shape(std::vector<Price> prices) {
    w.shapes.push_back({std::move(prices)});
    return ShapeId::at(w.shapes.size() - 1);
  }
  ResourceId resource(std::int64_t capacity) {
    w.resources.push_back({capacity});
    return ResourceId::at(w.resources.size() - 1);
  }
  std::uint32_t usages(const std::vector<Usage>& u) {
    w.usages.insert(w.usages.end(), u.begin(), u.end());
    return static_cast<std::uint32_t>(w.usages.size() - u.size());
  }
  struct Member {
    RankId rank;
    std::uint32_t role = 0;
  };
  CommunicatorId communicator(ShapeId shape, const std::vector<Member>& members,
                              const std::vector<Usage>& u = {}) {
    Communicator c;
    c.shape = shape;
    c.members = static_cast<std::uint32_t>(members.size());
    c.size = c.members;
    c.first_usage = usages(u);
    c.usages = static_cast<std::uint32_t>(u.size());
    w.communicators.push_back(c);
    const auto id = CommunicatorId::at(w.communicators.size() - 1);
    for (const Member& m : members) {
      w.communicator_table[w.ranks[m.rank].first_communicator + m.role] = id;
    }
    return id;
  }
  ChannelId channel(ShapeId shape, Member from, Member to, const std::vector<Usage>& u = {}) {
    Channel c;
    c.shape = shape;
    c.sender = from.rank;
    c.receiver = to.rank;
    c.first_usage = usages(u);
    c.usages = static_cast<std::uint32_t>(u.size());
    w.channels.push_back(c);
    const auto id = ChannelId::at(w.channels.size() - 1);
    w.channel_table[w.ranks[from.rank].first_channel + from.role] = id;
    w.channel_table[w.ranks[to.rank].first_channel + to.role] = id;
    return id;
  }
};

inline Price price(std::int64_t latency, std::int64_t fluid, std::int64_t rate = 1'000'000'000,
                   std::uint16_t pressure = 0) {
  Price p;
  p.latency = Time(latency);
  p.fluid = Time(fluid);
  p.rate = rate;
  p.pressure = p.pressure_waiting = pressure;
  p.weight[0] = kWeightOne;
  p.weight[1] = kWeightOne;
  p.bytes = Bytes(fluid * (rate / 1'000'000) / 1'000'000);
  return p;
}

}  // namespace stepcast::testing
