// The two timing loops. Events on the device time each sample. Before each sample, a waiting kernel
// blocks the stream until the host has enqueued the whole sample, so that the host's speed does not
// matter. Kernels too short for one pair of events are timed in batches.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench.h"
#include "clock.cuh"
#include "sensors.h"

namespace stepcast::harness::cuda {
namespace {

constexpr double kShort = 20e-6;   // s; shorter kernels run in batches, since events take 1-2 us
constexpr double kBatch = 200e-6;  // s; duration of a batch
constexpr int kLongestBatch = 64;  // launches; a stream's queue holds about a thousand
constexpr double kHoldMargin = 10e-6;  // s in addition to the host's own time
constexpr double kLongestHold = 5e-3;  // s
constexpr double kChunk = 50e-3;       // s of work enqueued at once under sustained load
constexpr int kMinSamples = 5;         // taken even if they are slow

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  void wait() { check(cudaEventSynchronize(event_), "kernel"); }
  double seconds_since(const Event& before) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, before.event_, event_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

__global__ void wait_for(unsigned long long cycles) {
  const unsigned long long start = clock_now();
  do {
    pause<100>();
  } while (clock_now() - start < cycles);
}

void hold(const Context& context, double seconds) {
  wait_for<<<1, 1, 0, context.stream>>>(clock_cycles(std::min(seconds, kLongestHold)));
  check(cudaGetLastError(), "launch");
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Runs `launch` until the device is warm. Returns the host's time to issue the last one.
double warm_up(const Context& context, const Policy& policy,
               const std::function<void(int rotate)>& launch, int& index) {
  double issue = 0;
  const double start = now();
  for (int i = 0; i < std::max(policy.warmups, 1); ++i) {
    const double before = now();
    launch(index++);
    issue = now() - before;
    check(cudaGetLastError(), "launch");
    check(cudaStreamSynchronize(context.stream), "kernel");
    if (i > 0 && now() - start > policy.budget) {
      break;
    }
  }
  return issue;
}

// Takes one sample: the mean seconds per launch over a batch of `batch`. `before_wait` runs while
// the device works.
double sample(const Context& context, const std::function<void(int rotate)>& launch, int batch,
              double issue, int& index, Event& begin, Event& end,
              const std::function<void()>& before_wait) {
  if (context.scrub.size() > 0) {
    check(cudaMemsetAsync(context.scrub.data(), index & 0xff, context.scrub.size(), context.stream),
          "cudaMemsetAsync");
  }
  hold(context, 1.5 * issue * batch + kHoldMargin);
  begin.record(context.stream);
  for (int i = 0; i < batch; ++i) {
    launch(index++);
  }
  check(cudaGetLastError(), "launch");
  end.record(context.stream);
  if (before_wait) {
    before_wait();
  }
  end.wait();
  return end.seconds_since(begin) / batch;
}

}  // namespace

Samples time_burst(Context& context, const Policy& policy,
                   const std::function<void(int rotate)>& launch) {
  int index = 0;
  const double issue = warm_up(context, policy, launch, index);
  Event begin;
  Event end;
  const double once = sample(context, launch, 1, issue, index, begin, end, nullptr);
  int batch = 1;
  if (once < kShort) {
    batch =
        std::clamp(static_cast<int>(std::ceil(kBatch / std::max(once, 1e-6))), 2, kLongestBatch);
  }
  Samples samples;
  Sensors sensors;
  double spent = 0;
  const int wanted = std::max(policy.samples, kMinSamples);
  for (int i = 0; i < wanted && (i < kMinSamples || spent < policy.budget); ++i) {
    const double start = now();
    // The sensors are read only once while the device works: further reads would cost more time
    // than they are worth.
    const bool read = i == kMinSamples - 1;
    samples.seconds.push_back(sample(context, launch, batch, issue, index, begin, end, [&] {
      if (read) {
        sensors = read_sensors(context.gpu);
      }
    }));
    spent += now() - start;
  }
  samples.sm_clock = sensors.sm_clock;
  samples.power = sensors.power;
  samples.temperature = sensors.temperature;
  return samples;
}

Samples time_sustained(Context& context, const Policy& policy,
                       const std::function<void(int rotate)>& launch) {
  int index = 0;
  const double issue = warm_up(context, policy, launch, index);
  Event events[3];
  const double once =
      std::max(sample(context, launch, 1, issue, index, events[0], events[1], nullptr), 1e-6);
  const int chunk = std::clamp(static_cast<int>(std::lround(kChunk / once)), 1, 512);

  // Two chunks in flight keep the device busy while the host waits for the older one.
  int recorded = 0;
  const auto enqueue = [&] {
    for (int i = 0; i < chunk; ++i) {
      launch(index++);
    }
    check(cudaGetLastError(), "launch");
    events[recorded++ % 3].record(context.stream);
  };
  Samples samples;
  events[recorded++ % 3].record(context.stream);
  enqueue();
  const double start = now();
  double timed_since = 0;
  SensorLog log;
  while (true) {
    enqueue();
    Event& older = events[(recorded - 2) % 3];
    older.wait();
    const double elapsed = now() - start;
    if (timed_since == 0) {
      if (elapsed >= policy.sustained_warmup) {
        timed_since = now();
        log.start(context.gpu);
      }
      continue;
    }
    samples.seconds.push_back(older.seconds_since(events[(recorded - 3) % 3]) / chunk);
    if (now() - timed_since >= policy.sustained &&
        static_cast<int>(samples.seconds.size()) >= kMinSamples) {
      break;
    }
  }
  const Sensors mean = log.stop();
  check(cudaStreamSynchronize(context.stream), "kernel");
  samples.sm_clock = mean.sm_clock;
  samples.power = mean.power;
  samples.temperature = mean.temperature;
  return samples;
}

}  // namespace stepcast::harness::cuda
