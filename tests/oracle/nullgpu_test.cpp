// The null GPU without PyTorch: what its allocator promises to PyTorch's.
#include <cuda_runtime_api.h>

#include <array>
#include <cstdlib>

#include "catch.hpp"

extern "C" long nullgpu_launches();

namespace {

constexpr std::size_t kGib = std::size_t{1} << 30;

std::size_t available() {
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  return free;
}

TEST_CASE("null GPU: memory is counted, runs out and comes back") {
  setenv("NULLGPU_GIB", "4", 1);
  const std::size_t before = available();
  CHECK(before == 4 * kGib);
  void* most = nullptr;
  REQUIRE(cudaMalloc(&most, 3 * kGib) == cudaSuccess);
  CHECK(available() == before - 3 * kGib);
  void* more = nullptr;
  CHECK(cudaMalloc(&more, 2 * kGib) == cudaErrorMemoryAllocation);
  REQUIRE(cudaFree(most) == cudaSuccess);
  CHECK(available() == before);
  void* next = nullptr;
  REQUIRE(cudaMalloc(&next, 2 * kGib) == cudaSuccess);
  CHECK(next != most);
  CHECK(cudaFree(next) == cudaSuccess);
}

TEST_CASE("null GPU: each device has its own memory") {
  setenv("NULLGPU_GIB", "4", 1);
  void* here = nullptr;
  REQUIRE(cudaMalloc(&here, kGib) == cudaSuccess);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(available() == 4 * kGib);
  REQUIRE(cudaFree(here) == cudaSuccess);  // by whichever device is current
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(available() == 4 * kGib);
}

TEST_CASE("null GPU: an address says where it lies") {
  void* device = nullptr;
  void* pinned = nullptr;
  int plain = 0;
  REQUIRE(cudaMalloc(&device, 64) == cudaSuccess);
  REQUIRE(cudaMallocHost(&pinned, 64) == cudaSuccess);
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, device) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  REQUIRE(cudaPointerGetAttributes(&attributes, pinned) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeHost);
  REQUIRE(cudaPointerGetAttributes(&attributes, &plain) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  CHECK(cudaFree(device) == cudaSuccess);
}

TEST_CASE("null GPU: small values reach the device and come back, kernels only count") {
  const std::array<int, 4> values{1, 2, 3, 4};
  std::array<int, 4> read{};
  void* device = nullptr;
  REQUIRE(cudaMalloc(&device, sizeof values) == cudaSuccess);
  REQUIRE(cudaMemcpy(device, values.data(), sizeof values, cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(cudaMemcpy(read.data(), device, sizeof read, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(read == values);
  const long before = nullgpu_launches();
  CHECK(cudaLaunchKernel(nullptr, dim3(1), dim3(1), nullptr, 0, nullptr) == cudaSuccess);
  CHECK(nullgpu_launches() == before + 1);
}

}  // namespace
