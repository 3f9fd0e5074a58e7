#include <chrono>

#include "clock.cuh"
#include "launch_kernels.h"

namespace stepcast::harness::cuda {
namespace {

__global__ void empty_kernel() {}

__global__ void hold_kernel(unsigned long long cycles) {
  const unsigned long long start = clock_now();
  while (clock_now() - start < cycles) {
    pause<1000>();
  }
}

}  // namespace

void enqueue_empty(cudaStream_t stream) {
  empty_kernel<<<1, 1, 0, stream>>>();
  check(cudaGetLastError(), "launch of an empty kernel");
}

void enqueue_hold(cudaStream_t stream, double seconds) {
  hold_kernel<<<1, 1, 0, stream>>>(clock_cycles(seconds));
  check(cudaGetLastError(), "launch of a holding kernel");
}

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Samples repeat(const Context& context, const Policy& policy, const std::function<double()>& once) {
  constexpr std::size_t kMinSamples = 5;
  for (int i = 0; i < policy.warmups; ++i) {
    once();
  }
  Samples samples;
  const double end = host_seconds() + policy.budget;
  while (
      samples.seconds.size() < kMinSamples ||
      (samples.seconds.size() < static_cast<std::size_t>(policy.samples) && host_seconds() < end)) {
    samples.seconds.push_back(once());
  }
  const Sensors sensors = read_sensors(context.gpu);
  samples.sm_clock = sensors.sm_clock;
  samples.power = sensors.power;
  samples.temperature = sensors.temperature;
  return samples;
}

Stream::Stream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Stream::~Stream() { (void)cudaStreamDestroy(stream_); }

Event::Event(unsigned flags) {
  check(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreateWithFlags");
}

Event::~Event() { (void)cudaEventDestroy(event_); }

void Event::record(cudaStream_t stream) const {
  check(cudaEventRecord(event_, stream), "cudaEventRecord");
}

bool Event::reached() const {
  const cudaError_t state = cudaEventQuery(event_);
  if (state == cudaErrorNotReady) {
    // Clears a status that is no error, so that the next check does not report it.
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check(state, "cudaEventQuery");
  return true;
}

double seconds_between(const Event& start, const Event& end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start, end), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace stepcast::harness::cuda
