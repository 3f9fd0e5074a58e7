// Empty kernels and kernels that only wait, used for launches and copies.
#pragma once

#include <cuda_runtime.h>

#include <functional>

#include "bench.h"

namespace stepcast::harness::cuda {

void enqueue_empty(cudaStream_t stream);
// Blocks the stream for `seconds`, so that work issued meanwhile queues up behind it.
void enqueue_hold(cudaStream_t stream, double seconds);

// Calls `once`, which returns seconds, for the warm-ups and then until the policy's samples or
// budget are used up (at least five times). The result includes the sensor values at the end.
Samples repeat(const Context& context, const Policy& policy, const std::function<double()>& once);

double host_seconds();  // from a monotonic clock

class Stream {  // does not synchronise with the default stream
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }
  void record(cudaStream_t stream) const;
  bool reached() const;  // returns without waiting

 private:
  cudaEvent_t event_ = nullptr;
};

// Device seconds between two events that have been reached.
double seconds_between(const Event& start, const Event& end);

}  // namespace stepcast::harness::cuda
