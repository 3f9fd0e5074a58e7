// Times copies between host and device. Pinned copies are timed on the device. Pageable copies are
// timed on the host, since the call returns only when the data have left the caller's memory.
#include <algorithm>
#include <barrier>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "launch_kernels.h"

namespace stepcast::harness::cuda {
namespace {

constexpr std::size_t kAlign = 256;
// Size of the host memory through which the copies of one case rotate: larger than the processor's
// caches.
constexpr std::size_t kHostSpan = std::size_t{256} << 20;

class HostBuffer {  // filled with incompressible bytes, so that its pages are allocated
 public:
  HostBuffer(std::size_t bytes, bool pinned) : pinned_(pinned) {
    if (pinned) {
      check(cudaMallocHost(&data_, bytes), "cudaMallocHost");
    } else {
      pageable_.reset(new (std::nothrow) char[bytes]);
      if (!pageable_) {
        throw Unsupported("not enough host memory");
      }
      data_ = pageable_.get();
    }
    std::uint64_t word = 0x9E3779B97F4A7C15ull;  // xorshift64
    for (std::size_t i = 0; i < bytes; i += sizeof word) {
      word ^= word << 13;
      word ^= word >> 7;
      word ^= word << 17;
      std::memcpy(static_cast<char*>(data_) + i, &word, std::min(sizeof word, bytes - i));
    }
  }
  ~HostBuffer() {
    if (pinned_) {
      (void)cudaFreeHost(data_);
    }
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  char* at(std::size_t offset) const { return static_cast<char*>(data_) + offset; }

 private:
  bool pinned_;
  void* data_ = nullptr;
  std::unique_ptr<char[]> pageable_;
};

// One end of a copy: slots of `bytes`, used in turn.
struct Slots {
  std::size_t stride = 0, count = 1;
  Slots(std::size_t bytes, std::size_t span)
      : stride((bytes + kAlign - 1) / kAlign * kAlign),
        count(std::max<std::size_t>(1, span / stride)) {}
  std::size_t size() const { return stride * count; }
  std::size_t offset(int rotate) const { return static_cast<std::size_t>(rotate) % count * stride; }
};

void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync");
}

// Copies both ways from two threads, since a pageable copy blocks its caller. Returns the time
// until the later one is finished.
double both_pageable(int gpu, const HostBuffer& from, const HostBuffer& to, const Buffer& in,
                     const Buffer& out, std::size_t offset, std::size_t bytes,
                     const Stream& up_stream, const Stream& down_stream) {
  std::barrier ready(2);
  std::exception_ptr failure;
  double other_end = 0;
  std::thread other([&] {
    try {
      check(cudaSetDevice(gpu), "cudaSetDevice");
    } catch (...) {
      failure = std::current_exception();
    }
    // Must be reached even after a failure, or the other thread would wait forever.
    ready.arrive_and_wait();
    if (failure) {
      return;
    }
    try {
      copy(to.at(offset), out.as<char>() + offset, bytes, cudaMemcpyDeviceToHost, down_stream);
      check(cudaStreamSynchronize(down_stream), "device to host copy");
      other_end = host_seconds();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  double start = 0;
  double end = 0;
  std::exception_ptr mine;
  try {
    ready.arrive_and_wait();
    start = host_seconds();
    copy(in.as<char>() + offset, from.at(offset), bytes, cudaMemcpyHostToDevice, up_stream);
    check(cudaStreamSynchronize(up_stream), "host to device copy");
    end = host_seconds();
  } catch (...) {
    mine = std::current_exception();
  }
  other.join();
  if (mine || failure) {
    std::rethrow_exception(mine ? mine : failure);
  }
  return std::max(end, other_end) - start;
}

}  // namespace

Samples run_copy(Context& context, const interop::CopyCase& what, const Policy& policy) {
  if (what.bytes <= 0) {
    throw Unsupported("a copy of no bytes");
  }
  const auto bytes = static_cast<std::size_t>(what.bytes);
  const bool up = what.direction == "h2d" || what.direction == "both";
  const bool down = what.direction == "d2h" || what.direction == "both";
  if (what.direction == "d2d") {
    const Slots slots(bytes, 4 * static_cast<std::size_t>(context.properties.l2CacheSize));
    const Buffer from(slots.size());
    const Buffer to(slots.size());
    fill_random(context, from.data(), slots.size() / 2, job::DType::bf16, policy.seed);
    return time_burst(context, policy, [&](int rotate) {
      const std::size_t offset = slots.offset(rotate);
      copy(to.as<char>() + offset, from.as<char>() + offset, bytes, cudaMemcpyDeviceToDevice,
           context.stream);
    });
  }
  if (!up && !down) {
    throw Unsupported("no copy direction \"" + what.direction + "\"");
  }

  const Slots slots(bytes, kHostSpan);
  std::unique_ptr<HostBuffer> from, to;
  Buffer in, out;  // device memory that is written and that is read
  if (up) {
    from = std::make_unique<HostBuffer>(slots.size(), what.pinned);
    in = Buffer(slots.size());
  }
  if (down) {
    to = std::make_unique<HostBuffer>(slots.size(), what.pinned);
    out = Buffer(slots.size());
    fill_random(context, out.data(), slots.size() / 2, job::DType::bf16, policy.seed);
  }
  const auto copy_up = [&](std::size_t offset, cudaStream_t stream) {
    copy(in.as<char>() + offset, from->at(offset), bytes, cudaMemcpyHostToDevice, stream);
  };
  const auto copy_down = [&](std::size_t offset, cudaStream_t stream) {
    copy(to->at(offset), out.as<char>() + offset, bytes, cudaMemcpyDeviceToHost, stream);
  };
  check(cudaStreamSynchronize(context.stream), "preparing a copy");

  if (what.pinned) {
    const Stream other;
    const Event fork(cudaEventDisableTiming);
    const Event join(cudaEventDisableTiming);
    return time_burst(context, policy, [&](int rotate) {
      const std::size_t offset = slots.offset(rotate);
      if (!down) {
        copy_up(offset, context.stream);
      } else if (!up) {
        copy_down(offset, context.stream);
      } else {
        fork.record(context.stream);
        check(cudaStreamWaitEvent(other, fork, 0), "cudaStreamWaitEvent");
        copy_down(offset, other);
        join.record(other);
        copy_up(offset, context.stream);
        check(cudaStreamWaitEvent(context.stream, join, 0), "cudaStreamWaitEvent");
      }
    });
  }

  const Stream up_stream;
  const Stream down_stream;
  int rotate = 0;
  return repeat(context, policy, [&] {
    const std::size_t offset = slots.offset(rotate++);
    if (up && down) {
      return both_pageable(context.gpu, *from, *to, in, out, offset, bytes, up_stream, down_stream);
    }
    const double start = host_seconds();
    if (up) {
      copy_up(offset, up_stream);
    } else {
      copy_down(offset, up_stream);
    }
    check(cudaStreamSynchronize(up_stream), "pageable copy");
    return host_seconds() - start;
  });
}

}  // namespace stepcast::harness::cuda
