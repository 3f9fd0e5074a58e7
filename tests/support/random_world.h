// Random training jobs: grids of tensor x pipeline x data parallel ranks with shared NICs, rings,
// slow devices and degraded links. The same seed gives the same world.
#pragma once

#include <algorithm>
#include <numeric>

#include "stepcast/base/splitmix.h"
#include "support/worlds.h"

namespace stepcast::testing {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * kSplitMixStep + 1) {}
  std::uint64_t next() {
    state_ += kSplitMixStep;
    return splitmix(state_);
  }
  std::int64_t in(std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(to - from + 1));
  }
  bool chance(int percent) { return in(0, 99) < percent; }

 private:
  std::uint64_t state_;
};

struct JobTraits {
  int tp = 1;
  int pp = 1;
  int dp = 1;
  int micro_batches = 1;
  int layers = 1;
  bool grouped_pipeline = false;  // one stream, Megatron's grouped sends and receives
  bool ring = false;              // ring exchange within the tensor group
  bool overlap_tensor = false;    // tensor-parallel collectives on a separate stream
  bool gather_next = false;       // parameters are gathered during the next step
  bool copies = false;
  bool host_syncs = false;
  bool slowdown = true;
  bool transfers_slow = false;
  bool slow_device = false;
  bool thin_link = false;
  bool shuffled = false;
  bool uneven_prices = false;
  std::int64_t launch_cost = 0;
  std::int64_t kernel_time = 1'000'000;  // typical value in picoseconds
  int gpus_per_nic = 1;
  int splits = 1;  // kernels per layer and pass
};

inline JobTraits random_traits(Random& r) {
  JobTraits t;
  const int sizes[] = {1, 2, 3, 4};
  do {
    t.tp = sizes[r.in(0, 3)];
    t.pp = static_cast<int>(r.in(1, 4));
    t.dp = sizes[r.in(0, 3)];
  } while (t.tp * t.pp * t.dp > 64);
  t.micro_batches = static_cast<int>(r.in(1, 6));
  t.layers = static_cast<int>(r.in(1, 3));
  t.grouped_pipeline = r.chance(40);
  t.ring = r.chance(30);
  t.overlap_tensor = r.chance(50);
  t.gather_next = r.chance(40);
  t.copies = r.chance(30);
  t.host_syncs = r.chance(25);
  t.slowdown = r.chance(75);
  t.transfers_slow = r.chance(25);
  t.slow_device = r.chance(30);
  t.thin_link = r.chance(30);
  t.shuffled = r.chance(50);
  t.launch_cost = r.chance(40) ? r.in(0, 900'000) : 0;
  t.gpus_per_nic = static_cast<int>(r.in(1, 4));
  t.splits = static_cast<int>(r.in(1, 3));
  return t;
}

// Streams and communicator roles of the jobs below.
enum JobStream { kCompute, kTensor, kData, kForward, kBackward, kCopy };
enum JobChannel {
  kNextForward,
  kPreviousForward,
  kNextBackward,
  kPreviousBackward,
  kRingNext,
  kRingPrevious
};

struct StageTimes {
  std::vector<std::int64_t> forward;
  std::vector<std::int64_t> backward;
  std::int64_t optimizer = 0;
};

// The program of one stage; `slow` scales its kernels by per cent.
inline Program stage_program(const JobTraits& t, int stage, const StageTimes& times, int slow) {
  ProgramBuilder b({"compute", "tensor", "data", "forward", "backward", "copy"},
                   "stage " + std::to_string(stage));
  b.p.communicator_roles = 3;  // tensor, data, all ranks
  b.p.channel_roles = 6;
  b.launch_cost = t.launch_cost;
  b.p.stage = stage;
  const bool first = stage == 0;
  const bool last = stage == t.pp - 1;
  const auto weights = b.buffer(1'000'000 * (stage + 1), MemoryCategory::parameters, true);
  (void)weights;
  std::vector<std::uint32_t> activations;
  for (int m = 0; m < t.micro_batches; ++m) {
    activations.push_back(b.buffer(50'000 + 1000 * stage, MemoryCategory::activations));
  }
  const auto bucket = b.buffer(300'000, MemoryCategory::communication);
  std::vector<Wait> pending;  // waits of the next compute task
  bool step_begun = false;
  const auto compute = [&](std::int64_t duration, Category c, std::uint8_t row, CurveId curve) {
    if (!step_begun && t.gather_next) {
      // Parameters were gathered at the end of the previous step, by the last task of the data
      // stream.
      pending.push_back(on(kData, 2, 1));
    }
    step_begun = true;
    const auto at = b.kernel(kCompute, duration * slow / 100, pending,
                             t.slowdown ? row : std::uint8_t{0}, c, curve);
    pending.clear();
    return at;
  };
  const auto tensor = [&](std::uint32_t price) {
    if (t.tp == 1) {
      return;
    }
    if (t.ring) {
      const auto at =
          b.exchange(kTensor, {{kRingNext, price, 0, true}, {kRingPrevious, price, 0, false}},
                     {on(kCompute, b.counts[kCompute])}, Category::context, Category::stall);
      pending.push_back(on(kTensor, at));
    }
    if (t.overlap_tensor) {
      const auto at = b.collective(kTensor, 0, price, {on(kCompute, b.counts[kCompute])});
      if (price % 2 == 0) {
        pending.push_back(on(kTensor, at));
      }
    } else {
      b.collective(kCompute, 0, price, pending);
      pending.clear();
    }
  };
  const auto pass = [&](const std::vector<std::int64_t>& durations, Category c, CurveId curve) {
    for (int l = 0; l < t.layers; ++l) {
      for (int k = 0; k < t.splits; ++k) {
        compute(durations[l] / t.splits + k, c, static_cast<std::uint8_t>(1 + k % 2), curve);
      }
      tensor(static_cast<std::uint32_t>(l % 2));
    }
  };
  std::uint32_t key = 0;
  const auto pipe = [&](std::vector<Transfer> transfers, int stream) {
    const auto at = b.exchange(stream, transfers, {on(kCompute, b.counts[kCompute])});
    bool receives = false;
    for (const Transfer& x : transfers) {
      receives = receives || !x.send;
    }
    if (t.grouped_pipeline || receives) {
      pending.push_back(on(stream, at));
    }
  };
  int forwards = 0;
  int backwards = 0;
  int received_forward = 0;
  int received_backward = 0;
  (void)key;
  const auto receive_forward = [&] {
    return Transfer{kPreviousForward, static_cast<std::uint32_t>(received_forward++), 0, false};
  };
  const auto receive_backward = [&] {
    return Transfer{kNextBackward, static_cast<std::uint32_t>(received_backward++), 0, false};
  };
  const auto send_forward = [&] {
    return Transfer{kNextForward, static_cast<std::uint32_t>(forwards - 1), 0, true};
  };
  const auto send_backward = [&] {
    return Transfer{kPreviousBackward, static_cast<std::uint32_t>(backwards - 1), 0, true};
  };
  const auto forward = [&] {
    b.allocate(activations[forwards]);
    ++forwards;
    pass(times.forward, Category::compute, 1);
    if (t.copies && forwards == 1) {
      b.copy(kCopy, 0, {on(kCompute, b.counts[kCompute])});
    }
  };
  const auto backward = [&] {
    pass(times.backward, Category::compute, 2);
    b.release(activations[backwards]);
    ++backwards;
    if (t.host_syncs && backwards % 2 == 1) {
      b.sync(on(kCompute, b.counts[kCompute]));
      b.host_work(400'000);
    }
  };
  const int warm = std::min(t.pp - 1 - stage, t.micro_batches);
  // Grouped: groups of at most one pair. Otherwise each transfer has its own stream.
  const auto both = [&](std::vector<Transfer> transfers) {
    if (transfers.empty()) {
      return;
    }
    if (t.grouped_pipeline) {
      pipe(transfers, kForward);
      return;
    }
    for (const Transfer& x : transfers) {
      pipe({x}, x.channel == kNextForward || x.channel == kNextBackward
                    ? (x.send ? kForward : kBackward)
                    : (x.send ? kBackward : kForward));
    }
  };
  const auto maybe = [&](bool yes, auto make) {
    std::vector<Transfer> v;
    if (yes) {
      v.push_back(make());
    }
    return v;
  };
  const auto join = [](std::vector<Transfer> a, const std::vector<Transfer>& c) {
    a.insert(a.end(), c.begin(), c.end());
    return a;
  };
  for (int m = 0; m < warm; ++m) {
    both(maybe(!first, receive_forward));
    forward();
    both(maybe(!last, send_forward));
  }
  const int steady = t.micro_batches - warm;
  if (steady > 0) {
    both(maybe(!first, receive_forward));
  }
  for (int m = 0; m < steady; ++m) {
    forward();
    both(join(maybe(!last, send_forward), maybe(!last, receive_backward)));
    backward();
    if (m + 1 < steady) {
      both(join(maybe(!first, send_backward), maybe(!first, receive_forward)));
    } else {
      both(maybe(!first, send_backward));
    }
  }
  for (int m = 0; m < warm; ++m) {
    both(maybe(!last, receive_backward));
    backward();
    both(maybe(!first, send_backward));
  }
  b.allocate(bucket);
  const auto reduced =
      b.collective(kData, 1, 0, {on(kCompute, b.counts[kCompute])}, Category::data);
  b.release(bucket, 1U << kData);
  pending.push_back(on(kData, reduced));
  compute(times.optimizer, Category::optimizer, 1, 3);
  const auto optimized = b.counts[kCompute];
  b.collective(kData, 1, 1, {on(kCompute, optimized)}, Category::data);
  if (!t.gather_next) {
    pending.push_back(on(kData, 2));
    b.collective(kCompute, 2, 0, pending, Category::other);
    pending.clear();
  }
  return b.done();
}

inline World random_world(const JobTraits& t, Random& r) {
  WorldBuilder w;
  const int size = t.tp * t.pp * t.dp;
  std::vector<StageTimes> times(t.pp);
  for (StageTimes& s : times) {
    for (int l = 0; l < t.layers; ++l) {
      s.forward.push_back(t.kernel_time + r.in(0, 2) * t.kernel_time / 7);
      s.backward.push_back(2 * s.forward.back());
    }
    s.optimizer = t.kernel_time / 2;
  }
  w.w.slowdowns = {
      {}, {8, {1'000'000, 873'211, 700'001, 612'345}}, {4, {1'000'000, 950'000, 912'347}}};
  if (t.transfers_slow) {
    w.w.transfer_speed = {1'000'000, 812'345, 999'999};
  }
  for (const char* name : {"none", "forward", "backward", "optimizer", "link", "start"}) {
    Curve c;
    c.name = name;
    w.w.curves.push_back(c);
  }
  std::vector<ProgramId> programs;
  for (int s = 0; s < t.pp; ++s) {
    programs.push_back(w.program(stage_program(t, s, times[s], 100)));
  }
  // Position in the grid by rank: tensor varies fastest, then data, then pipeline. Positions may be
  // shuffled.
  std::vector<int> place(size);
  std::iota(place.begin(), place.end(), 0);
  if (t.shuffled) {
    for (int i = size - 1; i > 0; --i) {
      std::swap(place[i], place[r.in(0, i)]);
    }
  }
  const int slow = t.slow_device ? static_cast<int>(r.in(0, size - 1)) : -1;
  std::vector<RankId> at(size);  // by position in the grid
  for (int i = 0; i < size; ++i) {
    const int stage = place[i] / (t.tp * t.dp);
    ProgramId program = programs[stage];
    if (i == slow) {
      program = w.program(stage_program(t, stage, times[stage], 130));
    }
    at[place[i]] = w.rank(program);
  }
  const auto member = [&](int tp, int dp, int pp) { return at[(pp * t.dp + dp) * t.tp + tp]; };
  // Two resources per NIC, one per host link of two GPUs, and one per NVLink port of a GPU.
  const std::int64_t rate = 25'000'000'000;
  std::vector<ResourceId> out;
  std::vector<ResourceId> in;
  std::vector<ResourceId> port;
  std::vector<ResourceId> host;
  const int nics = (size + t.gpus_per_nic - 1) / t.gpus_per_nic;
  const int thin = t.thin_link ? static_cast<int>(r.in(0, nics - 1)) : -1;
  for (int n = 0; n < nics; ++n) {
    out.push_back(w.resource(n == thin ? rate / 3 : rate));
    in.push_back(w.resource(n == thin ? rate / 3 : rate));
  }
  for (int i = 0; i < size; ++i) {
    port.push_back(w.resource(rate * 12));
    if (i % 2 == 0) {
      host.push_back(w.resource(rate));
    }
  }
  const auto nic = [&](RankId rank) { return static_cast<int>(rank) / t.gpus_per_nic; };
  const auto random_price = [&](std::int64_t speed, std::uint16_t pressure) {
    Price p = price(r.in(1, 9) * 1000, r.in(1, 20) * 100'000 + r.in(0, 99), speed, pressure);
    p.pressure_waiting = pressure / 2;
    p.weight[0] = kWeightOne * 7 / 8;
    p.weight[1] = kWeightOne;
    p.curve = 4;
    p.latency_curve = 5;
    return p;
  };
  const auto tensor_shape = w.shape({random_price(rate * 10, 16), random_price(rate * 9, 8)});
  const auto data_shape = w.shape({random_price(rate, 20), random_price(rate * 9 / 10, 6)});
  const auto all_shape = w.shape({random_price(rate / 4, 1)});
  const auto pipe_shape = w.shape({random_price(rate * 8 / 10, 2)});
  const auto ring_shape = w.shape({random_price(rate * 11, 4)});
  const auto copy_shape = w.shape({random_price(rate * 3 / 4, 0)});
  const auto over_nics = [&](const std::vector<WorldBuilder::Member>& members) {
    std::vector<Usage> u;
    std::vector<std::int64_t> count(nics, 0);
    for (const auto& m : members) {
      ++count[nic(m.rank)];
    }
    for (int n = 0; n < nics; ++n) {
      if (count[n] > 0) {
        u.push_back({out[n], 0, count[n]});
        u.push_back({in[n], 1, count[n]});
      }
    }
    return u;
  };
  std::vector<WorldBuilder::Member> everyone;
  for (int s = 0; s < t.pp; ++s) {
    for (int d = 0; d < t.dp; ++d) {
      std::vector<WorldBuilder::Member> group;
      std::vector<Usage> ports;
      for (int k = 0; k < t.tp; ++k) {
        group.push_back({member(k, d, s), 0});
        ports.push_back({port[member(k, d, s)], 0, 1});
        everyone.push_back({member(k, d, s), 2});
      }
      w.communicator(tensor_shape, group, ports);
      for (int k = 0; k < t.tp; ++k) {
        const RankId from = member(k, d, s);
        const RankId to = member((k + 1) % t.tp, d, s);
        w.channel(ring_shape, {from, kRingNext}, {to, kRingPrevious},
                  {{port[from], 0, 1}, {port[to], 1, 1}});
        if (s + 1 < t.pp) {
          const RankId next = member(k, d, s + 1);
          w.channel(pipe_shape, {from, kNextForward}, {next, kPreviousForward},
                    {{out[nic(from)], 0, 1}, {in[nic(next)], 1, 1}});
          w.channel(pipe_shape, {next, kPreviousBackward}, {from, kNextBackward},
                    {{out[nic(next)], 0, 1}, {in[nic(from)], 1, 1}});
        }
      }
    }
    for (int k = 0; k < t.tp; ++k) {
      std::vector<WorldBuilder::Member> group;
      for (int d = 0; d < t.dp; ++d) {
        group.push_back({member(k, d, s), 1});
      }
      w.communicator(data_shape, group, over_nics(group));
    }
  }
  w.communicator(all_shape, everyone, over_nics(everyone));
  for (RankId i = 0; i < w.w.ranks.size(); ++i) {
    w.w.ranks[i].copy_shape = copy_shape;
    w.w.ranks[i].first_usage = w.usages({{host[i / 2], 0, 1}});
    w.w.ranks[i].usages = 1;
  }
  return w.w;
}

}  // namespace stepcast::testing
