// Times a kernel that runs concurrently with a collective or a copy, on two streams that are both
// busy throughout. Repetitions of the two are issued alternately so that both streams take about
// equally long. On each side, only repetitions that lie entirely within the other's span count.
// Every repetition is between two events, also when it runs alone, so that the cost of events
// cancels.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "collective.h"
#include "gemm.h"
#include "launch_kernels.h"
#include "memory.h"
#include "stepcast/base/statistics.h"

namespace stepcast::harness::cuda {
namespace {

using interop::OverlapCase;

constexpr double kShortest = 10e-6;  // s; below, the host cannot keep two streams busy
constexpr int kMinKernels = 10;      // minimum number of repetitions issued
constexpr int kMinOthers = 8;
constexpr int kMaxRepeats = 20000;
constexpr int kMinInside = 5;  // minimum number of repetitions that count
constexpr int kAttempts = 4;
constexpr double kIssue = 12e-6;  // s per repetition: the host's time for a launch and an event
constexpr double kLongestHold = 5e-3;  // s

// Host memory that the copy engine can access directly.
class Pinned {
 public:
  explicit Pinned(std::size_t bytes) {
    check(cudaMallocHost(&data_, bytes), "cudaMallocHost");
    std::memset(data_, 0x5a, bytes);
  }
  ~Pinned() { (void)cudaFreeHost(data_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// The work of one GPU.
struct Pair {
  std::unique_ptr<Gemm> gemm;
  std::unique_ptr<MemoryKernel> memory;
  std::unique_ptr<Stream> stream;  // stream of the other work; the kernel uses the context's
  std::function<void()> other;     // enqueues one repetition
  Buffer from, to;
  std::unique_ptr<Pinned> host;

  void kernel(int rotate) const {
    if (gemm) {
      gemm->launch(rotate);
    } else {
      memory->launch(rotate);
    }
  }
};

// Repetitions of one side: repetition i is between marks[i] and marks[i + 1].
class Reel {
 public:
  void mark(cudaStream_t stream) {
    marks_.push_back(std::make_unique<Event>());
    marks_.back()->record(stream);
  }
  // Seconds from `base` to every mark.
  std::vector<double> times(const Event& base) const {
    std::vector<double> out;
    for (const auto& mark : marks_) {
      out.push_back(seconds_between(base, *mark));
    }
    return out;
  }

 private:
  std::vector<std::unique_ptr<Event>> marks_;
};

// Durations of the repetitions that lie within the span of `others`, without the first one.
std::vector<double> inside(const std::vector<double>& marks, const std::vector<double>& others) {
  std::vector<double> out;
  for (std::size_t i = 1; i + 1 < marks.size(); ++i) {
    if (marks[i] >= others.front() && marks[i + 1] <= others.back()) {
      out.push_back(marks[i + 1] - marks[i]);
    }
  }
  return out;
}

struct Counts {
  int kernels = 0, others = 0;
};

// Numbers of repetitions for which both sides last about `seconds`, or longer if a single one is
// long.
Counts counts_for(double seconds, double kernel, double other) {
  const double span = std::max({seconds, kMinKernels * kernel, kMinOthers * other});
  const double shorter = std::min(kernel, other);
  if (span / shorter > kMaxRepeats) {
    throw Unsupported("one of the two takes too much longer than the other");
  }
  return {static_cast<int>(std::ceil(span / kernel)), static_cast<int>(std::ceil(span / other))};
}

class Bench {
 public:
  Bench(Team& team, std::vector<Pair>& pairs, const Collective* collective)
      : team_(team), pairs_(pairs), collective_(collective) {}

  // Median seconds of one repetition while the other stream is empty, for each slot.
  std::vector<double> alone(bool kernel, int repetitions) {
    std::vector<double> medians(pairs_.size(), 0);
    team_.run([&](Slot& slot) {
      const Pair& pair = of(slot);
      const cudaStream_t stream = kernel ? slot.context->stream : *pair.stream;
      team_.meet(slot);
      const Event base;
      base.record(stream);
      enqueue_hold(stream, hold_of(repetitions));
      Reel reel;
      reel.mark(stream);
      for (int i = 0; i < repetitions; ++i) {
        issue(pair, kernel, i);
        reel.mark(stream);
      }
      finish(slot, stream);
      const std::vector<double> marks = reel.times(base);
      std::vector<double> lengths;
      for (std::size_t i = 1; i + 1 < marks.size(); ++i) {  // the first repetition is a warm-up
        lengths.push_back(marks[i + 1] - marks[i]);
      }
      medians[static_cast<std::size_t>(slot.index)] = median(std::move(lengths));
    });
    return medians;
  }

  // The repetitions that counted on each slot, and the mean time of a repetition of each side.
  struct Together {
    std::vector<std::vector<double>> kernels, others;
    double kernel_mean = 0, other_mean = 0;  // of the slowest slot over all processes
    bool enough = false;                     // for every slot of every process
  };
  Together together(Counts counts) {
    Together out;
    out.kernels.resize(pairs_.size());
    out.others.resize(pairs_.size());
    std::vector<double> kernel_means(pairs_.size(), 0), other_means(pairs_.size(), 0);
    team_.run([&](Slot& slot) {
      const Pair& pair = of(slot);
      const auto index = static_cast<std::size_t>(slot.index);
      const cudaStream_t first = slot.context->stream;
      const cudaStream_t second = *pair.stream;
      team_.meet(slot);
      const Event base;
      base.record(first);
      check(cudaStreamWaitEvent(second, base, 0), "cudaStreamWaitEvent");
      const double hold = hold_of(counts.kernels + counts.others);
      enqueue_hold(first, hold);
      enqueue_hold(second, hold);
      Reel kernels, others;
      kernels.mark(first);
      others.mark(second);
      int i = 0, j = 0;
      while (i < counts.kernels || j < counts.others) {
        // Issues the side that is behind.
        if (static_cast<std::int64_t>(i) * counts.others <=
            static_cast<std::int64_t>(j) * counts.kernels) {
          issue(pair, true, i++);
          kernels.mark(first);
        } else {
          issue(pair, false, j++);
          others.mark(second);
        }
      }
      finish(slot, first);
      finish(slot, second);
      const std::vector<double> k = kernels.times(base);
      const std::vector<double> o = others.times(base);
      out.kernels[index] = inside(k, o);
      out.others[index] = inside(o, k);
      kernel_means[index] = (k.back() - k.front()) / counts.kernels;
      other_means[index] = (o.back() - o.front()) / counts.others;
    });
    std::vector<double> worst{0, 0, 0};
    for (std::size_t s = 0; s < pairs_.size(); ++s) {
      const bool few = out.kernels[s].size() < kMinInside || out.others[s].size() < kMinInside;
      worst = {std::max(worst[0], kernel_means[s]), std::max(worst[1], other_means[s]),
               std::max(worst[2], few ? 1.0 : 0.0)};
    }
    team_.party().maximum(worst);
    out.kernel_mean = worst[0];
    out.other_mean = worst[1];
    out.enough = worst[2] == 0;
    return out;
  }

 private:
  const Pair& of(const Slot& slot) const { return pairs_[static_cast<std::size_t>(slot.index)]; }
  static void issue(const Pair& pair, bool kernel, int index) {
    if (kernel) {
      pair.kernel(index);
    } else {
      pair.other();
    }
  }
  // Time that the host needs to get ahead of the device.
  static double hold_of(int repetitions) { return std::min(kIssue * repetitions, kLongestHold); }
  void finish(const Slot& slot, cudaStream_t stream) {
    check(cudaGetLastError(), "launch");
    team_.wait(stream, [&] {
      return collective_ != nullptr ? error_elsewhere(collective_->of(slot)) : std::string();
    });
  }
  Team& team_;
  std::vector<Pair>& pairs_;
  const Collective* collective_;
};

void make_kernel(Pair& pair, Context& context, const OverlapCase& what) {
  if (what.kernel == "gemm") {
    interop::GemmCase gemm;
    gemm.m = what.m;
    gemm.n = what.n;
    gemm.k = what.k;
    pair.gemm = std::make_unique<Gemm>(context, gemm);
  } else {
    interop::MemoryCase memory;
    memory.op = what.kernel;
    memory.bytes = what.bytes;
    pair.memory = std::make_unique<MemoryKernel>(context, memory);
  }
}

void make_copy(Pair& pair, Context& context, const OverlapCase& what) {
  const auto bytes = static_cast<std::size_t>(what.other_bytes);
  const bool up = what.direction == "h2d";
  const bool down = what.direction == "d2h";
  pair.to = Buffer(bytes);
  void* from = nullptr;
  void* to = pair.to.data();
  cudaMemcpyKind kind = cudaMemcpyDeviceToDevice;
  if (up || down) {
    pair.host = std::make_unique<Pinned>(bytes);
    from = up ? pair.host->data() : pair.to.data();
    to = up ? pair.to.data() : pair.host->data();
    kind = up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  } else {
    pair.from = Buffer(bytes);
    from = pair.from.data();
  }
  if (!up) {  // a copy to the device reads host memory
    fill_random(context, down ? pair.to.data() : pair.from.data(), bytes / 2, job::DType::bf16, 1);
  }
  pair.other = [=, stream = static_cast<cudaStream_t>(*pair.stream)] {
    check(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync");
  };
}

double largest(const Team& team, const std::vector<double>& by_slot) {
  std::vector<double> one{*std::max_element(by_slot.begin(), by_slot.end())};
  team.party().maximum(one);
  return one.front();
}

Samples measure(Team& team, const Context& context, const OverlapCase& what, const Policy& policy,
                std::vector<Pair>& pairs, const Collective* collective) {
  team.together([&](Slot& slot) {
    Pair& pair = pairs[static_cast<std::size_t>(slot.index)];
    pair.stream = std::make_unique<Stream>();
    make_kernel(pair, *slot.context, what);
    if (collective != nullptr) {
      pair.other = [collective, &slot, stream = static_cast<cudaStream_t>(*pair.stream)] {
        collective->launch(slot, stream);
      };
    } else {
      make_copy(pair, *slot.context, what);
    }
    check(cudaDeviceSynchronize(), "preparing an overlap");
  });
  Bench bench(team, pairs, collective);
  // A few repetitions show how long one takes; then as many follow as the budget allows.
  const auto time_alone = [&](bool kernel, double* all) {
    const int few = std::max(policy.warmups, kMinInside);
    const double once = std::max(largest(team, bench.alone(kernel, few)), 1e-7);
    const int many = std::clamp(static_cast<int>(policy.budget / once), kMinKernels, 1000);
    const std::vector<double> medians = bench.alone(kernel, many);
    *all = largest(team, medians);
    return medians;
  };
  double kernel = 0, other = 0;
  const std::vector<double> kernel_alone = time_alone(true, &kernel);
  const std::vector<double> other_alone = time_alone(false, &other);
  if (std::min(kernel, other) < kShortest) {  // every process has the same numbers here
    throw Unsupported("too short to be kept running beside the other");
  }
  std::size_t own = 0;  // index of the caller's GPU
  for (std::size_t s = 0; s < pairs.size(); ++s) {
    own = team.gpus()[s] == context.gpu ? s : own;
  }
  double seconds = std::max(policy.budget, 0.02);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Bench::Together run = bench.together(counts_for(seconds, kernel, other));
    if (run.enough) {
      Samples samples;
      samples.alone = kernel_alone[own];
      samples.other_alone = other_alone[own];
      samples.other_together = median(std::move(run.others[own]));
      samples.seconds = std::move(run.kernels[own]);
      const Sensors sensors = read_sensors(context.gpu);
      samples.sm_clock = sensors.sm_clock;
      samples.power = sensors.power;
      samples.temperature = sensors.temperature;
      return samples;
    }
    // Concurrent repetitions took longer than expected from those alone, so the numbers are
    // balanced by the concurrent times.
    kernel = run.kernel_mean;
    other = run.other_mean;
    seconds *= 1.5;
  }
  throw Unsupported("the two never ran beside each other for long enough");
}

int nodes_for(int ranks) {
  const std::vector<int> gpus = gpus_per_node();
  return gpus.empty() || gpus.front() < 1 || ranks <= gpus.front() ? 1 : ranks / gpus.front();
}

}  // namespace

Samples run_overlap(Context& context, const OverlapCase& what, const Policy& policy) {
  if (what.op.empty()) {
    if (what.direction != "h2d" && what.direction != "d2h" && what.direction != "d2d") {
      throw Unsupported("no copy direction \"" + what.direction + "\" beside a kernel");
    }
    if (what.other_bytes < 1) {
      throw Unsupported("a copy of no bytes");
    }
    Team team(context);
    std::vector<Pair> pairs(1);
    return measure(team, context, what, policy, pairs, nullptr);
  }
  if (what.ranks < 2) {
    throw Unsupported("a collective of one rank is a copy");
  }
  interop::CollectiveCase beside;
  beside.op = what.op;
  beside.dtype = job::DType::bf16;
  beside.bytes = what.other_bytes;
  beside.ranks = what.ranks;
  beside.nodes = nodes_for(what.ranks);
  if (const std::string never = never_supported(beside); !never.empty()) {
    throw Unsupported(never);
  }
  Team team(context, beside.ranks, beside.nodes);
  end_communicator_unless(key_of(beside, what.channels, team));
  if (!team.in()) {
    return {};
  }
  const Collective collective(team, beside, what.channels, policy.seed);
  std::vector<Pair> pairs(team.size());
  return measure(team, context, what, policy, pairs, &collective);
}

}  // namespace stepcast::harness::cuda
