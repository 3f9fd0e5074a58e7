// Kernels that run concurrently with copies on a machine in virtual time: the host takes time to
// issue work, streams run in order, and two streams slow each other down by factors that the
// measurement must find.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

#include "catch.hpp"
#include "cuda/collective.h"
#include "cuda/gemm.h"
#include "cuda/launch_kernels.h"
#include "cuda/memory.h"

struct CUevent_st {
  double at = -1;  // -1: not reached yet
};

namespace {

constexpr double kIssue = 3e-6;    // s of host time for each call
constexpr double kCopyRate = 5e9;  // bytes/s

enum class Kind { kernel, copy, hold, record, wait };
struct Op {
  Kind kind;
  double issued, work;
  CUevent_st* event;
};

}  // namespace

struct CUstream_st {
  std::deque<Op> ops;
};

namespace {

struct Machine {
  double host = 0, now = 0;
  std::set<cudaStream_t> streams;
  double kernel_stretch = 1.5, copy_stretch = 2.0;  // factors while the other stream is busy
  double kernel_seconds = 300e-6;
  int kernels = 0;

  void issue(cudaStream_t stream, Kind kind, double work, CUevent_st* event = nullptr) {
    host += kIssue;
    stream->ops.push_back({kind, host, work, event});
  }

  // Runs all issued work to its end. The host waits for it.
  void finish() {
    const auto blocked = [](const Op& op) { return op.kind == Kind::wait && op.event->at < 0; };
    while (true) {
      // Handles entries that take no time.
      bool moved = true;
      while (moved) {
        moved = false;
        for (cudaStream_t stream : streams) {
          auto& ops = stream->ops;
          while (!ops.empty() && ops.front().issued <= now && ops.front().work <= 0 &&
                 !blocked(ops.front())) {
            if (ops.front().kind == Kind::record) {
              ops.front().event->at = now;
            }
            ops.pop_front();
            moved = true;
          }
        }
      }
      bool kernel = false, copy = false, any = false;
      double next = std::numeric_limits<double>::infinity();
      for (cudaStream_t stream : streams) {
        if (stream->ops.empty()) {
          continue;
        }
        any = true;
        const Op& op = stream->ops.front();
        if (op.issued > now) {
          next = std::min(next, op.issued - now);
        } else {
          kernel = kernel || op.kind == Kind::kernel;
          copy = copy || op.kind == Kind::copy;
        }
      }
      if (!any) {
        break;
      }
      const auto rate = [&](const Op& op) {
        return op.kind == Kind::kernel && copy   ? 1 / kernel_stretch
               : op.kind == Kind::copy && kernel ? 1 / copy_stretch
                                                 : 1.0;
      };
      const auto runs = [&](cudaStream_t stream) {
        return !stream->ops.empty() && stream->ops.front().issued <= now &&
               !blocked(stream->ops.front());
      };
      for (cudaStream_t stream : streams) {
        if (runs(stream)) {
          next = std::min(next, stream->ops.front().work / rate(stream->ops.front()));
        }
      }
      if (next == std::numeric_limits<double>::infinity()) {
        throw std::logic_error("a stream waits for ever");
      }
      std::vector<cudaStream_t> running;
      for (cudaStream_t stream : streams) {
        if (runs(stream)) {
          running.push_back(stream);
        }
      }
      for (cudaStream_t stream : running) {
        Op& op = stream->ops.front();
        op.work -= next * rate(op);
        op.work = op.work < 1e-15 ? 0 : op.work;
      }
      now += next;
    }
    host = std::max(host, now);
    now = host;
  }
};
Machine& machine() {
  static Machine one;
  return one;
}

}  // namespace

extern "C" {
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int) { return cudaErrorUnknown; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  machine().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  machine().finish();
  machine().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t) {
  machine().finish();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  machine().issue(stream, Kind::wait, 0, event);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  machine().finish();
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error"; }
cudaError_t cudaMalloc(void** data, size_t bytes) {
  *data = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) { return cudaMalloc(data, bytes); }
cudaError_t cudaFreeHost(void* data) { return cudaFree(data); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  std::memmove(to, from, std::min<size_t>(bytes, 64));  // both exist in host memory
  static_cast<char*>(to)[bytes - 1] = static_cast<const char*>(from)[bytes - 1];
  machine().issue(stream, Kind::copy, static_cast<double>(bytes) / kCopyRate);
  return cudaSuccess;
}
}  // extern "C"

namespace stepcast::harness::cuda {

Stream::Stream() { cudaStreamCreateWithFlags(&stream_, 0); }
Stream::~Stream() { cudaStreamDestroy(stream_); }
Event::Event(unsigned) : event_(new CUevent_st) {}
Event::~Event() { delete event_; }
void Event::record(cudaStream_t stream) const { machine().issue(stream, Kind::record, 0, event_); }
double seconds_between(const Event& start, const Event& end) {
  const cudaEvent_t a = start;
  const cudaEvent_t b = end;
  if (a->at < 0 || b->at < 0) {
    throw std::logic_error("an event was read before it was reached");
  }
  return b->at - a->at;
}
void enqueue_hold(cudaStream_t stream, double seconds) {
  machine().issue(stream, Kind::hold, seconds);
}
void fill_random(Context&, void* data, std::size_t elements, job::DType, std::uint64_t) {
  std::memset(data, 1, std::min<std::size_t>(elements * 2, 64));
}
Sensors read_sensors(int) { return {1.98e9, 650, 55}; }

struct Gemm::State {
  cudaStream_t stream;
};
Gemm::Gemm(Context& context, const interop::GemmCase& what, int, std::uint64_t)
    : state_(new State{context.stream}) {
  if (what.m != 4096 || what.n != 2048 || what.k != 1024 || what.dtype != job::DType::bf16) {
    throw std::logic_error("another GEMM");
  }
}
Gemm::~Gemm() = default;
void Gemm::launch(int) {
  ++machine().kernels;
  machine().issue(state_->stream, Kind::kernel, machine().kernel_seconds);
}
struct MemoryKernel::State {
  cudaStream_t stream;
};
MemoryKernel::MemoryKernel(Context& context, const interop::MemoryCase& what)
    : state_(new State{context.stream}) {
  if (what.op != "norm" || what.bytes != 1 << 20) {
    throw Unsupported("no such kernel");
  }
}
MemoryKernel::~MemoryKernel() = default;
void MemoryKernel::launch(int) {
  machine().issue(state_->stream, Kind::kernel, machine().kernel_seconds);
}

// harness_collective tests collectives.
Collective::Collective(Team&, const interop::CollectiveCase&, int, std::uint64_t) {
  throw std::logic_error("no collectives here");
}
void Collective::launch(const Slot&, cudaStream_t) const {}
CommunicatorKey key_of(const interop::CollectiveCase&, int, const Team&) { return {}; }
std::string never_supported(const interop::CollectiveCase&) { return ""; }
void end_communicator_unless(const CommunicatorKey&) {}
std::string error_elsewhere(ncclComm_t) { return ""; }

}  // namespace stepcast::harness::cuda

namespace {

using namespace stepcast;
using namespace stepcast::harness;
using namespace stepcast::harness::cuda;

interop::OverlapCase beside(const char* direction, std::int64_t bytes) {
  interop::OverlapCase c;
  c.kernel = "gemm";
  c.m = 4096;
  c.n = 2048;
  c.k = 1024;
  c.direction = direction;
  c.other_bytes = bytes;
  return c;
}

Samples run(const interop::OverlapCase& what, double kernel_seconds) {
  machine().kernel_seconds = kernel_seconds;
  Context context;
  cudaStreamCreateWithFlags(&context.stream, 0);
  struct End {
    cudaStream_t stream;
    ~End() { cudaStreamDestroy(stream); }
  } end{context.stream};
  Policy policy;
  policy.budget = 0.05;
  return run_overlap(context, what, policy);
}

std::int64_t bytes_for(double seconds) { return static_cast<std::int64_t>(seconds * kCopyRate); }

}  // namespace

TEST_CASE("how much a kernel and a copy slow each other down, whichever is longer") {
  for (const char* direction : {"h2d", "d2h", "d2d"}) {
    for (const double kernel : {40e-6, 300e-6, 5e-3}) {
      for (const double copy : {40e-6, 350e-6, 6e-3}) {
        for (const double stretch : {1.0, 1.5, 4.0}) {
          CAPTURE(direction, kernel, copy, stretch);
          machine().kernel_stretch = stretch;
          machine().copy_stretch = 2;
          const Samples s = run(beside(direction, bytes_for(copy)), kernel);
          REQUIRE(s.seconds.size() >= 5);
          std::vector<double> sorted = s.seconds;
          std::sort(sorted.begin(), sorted.end());
          CHECK(s.alone == Approx(kernel).epsilon(0.01));
          CHECK(s.other_alone == Approx(copy).epsilon(0.01));
          CHECK(sorted[sorted.size() / 2] == Approx(kernel * stretch).epsilon(0.02));
          // None of them ran without a concurrent copy.
          CHECK(sorted.front() > 0.98 * kernel * stretch);
          CHECK(s.other_together == Approx(copy * 2).epsilon(0.02));
          CHECK(s.sm_clock == 1.98e9);
        }
      }
    }
  }
}

TEST_CASE("memory-bound kernels, and what cannot be measured side by side") {
  machine().kernel_stretch = 1.25;
  interop::OverlapCase norm = beside("h2d", bytes_for(500e-6));
  norm.kernel = "norm";
  norm.bytes = 1 << 20;
  const Samples s = run(norm, 200e-6);
  CHECK(s.alone == Approx(200e-6).epsilon(0.01));
  CHECK(s.seconds.front() == Approx(250e-6).epsilon(0.02));

  CHECK_THROWS_AS(run(beside("h2d", bytes_for(500e-6)), 4e-6), Unsupported);  // too short
  CHECK_THROWS_AS(run(beside("h2d", bytes_for(5e-6)), 400e-6), Unsupported);
  // Durations differ too much.
  CHECK_THROWS_AS(run(beside("h2d", bytes_for(40e-3)), 12e-6), Unsupported);
  CHECK_THROWS_AS(run(beside("sideways", 1 << 20), 1e-3), Unsupported);
  CHECK_THROWS_AS(run(beside("h2d", 0), 1e-3), Unsupported);
  norm.kernel = "sort";
  CHECK_THROWS_AS(run(norm, 1e-3), Unsupported);
  interop::OverlapCase alone = beside("", 0);
  alone.op = "all_reduce";
  alone.ranks = 1;
  CHECK_THROWS_AS(run(alone, 1e-3), Unsupported);
}
