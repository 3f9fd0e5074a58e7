// Kernels that do nothing, or nothing for a while; one kernel file for launches and copies.
#pragma once

#include <cuda_runtime.h>

#include <functional>

#include "bench.h"

namespace stepcast::harness::cuda {

void enqueue_empty(cudaStream_t stream);
// Holds the stream for `seconds` so that what is issued meanwhile queues up behind it.
void enqueue_hold(cudaStream_t stream, double seconds);

// Calls `once` for the warm-ups, then until the policy's samples or budget are spent (at least five
// times); `once` returns seconds. With the sensors' figures at the end.
Samples repeat(const Context& context, const Policy& policy, const std::function<double()>& once);

double host_seconds();  // of a clock that never steps

class Stream {  // does not wait for the default stream
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
  bool reached() const;  // without waiting

 private:
  cudaEvent_t event_ = nullptr;
};

// Seconds on the device between two reached events.
double seconds_between(const Event& start, const Event& end);

}  // namespace stepcast::harness::cuda
