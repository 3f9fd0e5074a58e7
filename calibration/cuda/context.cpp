#include <utility>

#include "bench.h"

namespace stepcast::harness::cuda {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) {
    return;
  }
  const std::string text = std::string(what) + ": " + cudaGetErrorString(error);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // clears the error, which the next check would report
    throw Unsupported(text);
  }
  throw std::runtime_error(text);
}

Buffer::Buffer(std::size_t bytes) : size_(bytes) {
  if (bytes > 0) {
    check(cudaMalloc(&data_, bytes), "cudaMalloc");
  }
}

Buffer::~Buffer() {
  if (data_ != nullptr) {
    (void)cudaFree(data_);  // the call that found a failed device has already reported it
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace stepcast::harness::cuda
