// Makes random operands on the device by hashing a counter, so that element i of a seed is the same
// on every GPU and for every launch configuration. Zeros or constants would draw less power and run
// at higher clocks than training does.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>

#include "bench.h"

namespace stepcast::harness::cuda {
namespace {

// Finaliser of MurmurHash3 with the constants of splitmix64 (Steele, Lea, Flood 2014).
__device__ unsigned long long mix(unsigned long long z) {
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

template <typename T>
__device__ T convert(float value);
template <>
__device__ float convert<float>(float value) {
  return value;
}
template <>
__device__ __nv_bfloat16 convert<__nv_bfloat16>(float value) {
  return __float2bfloat16(value);
}
template <>
__device__ __half convert<__half>(float value) {
  return __float2half(value);
}
template <>
__device__ __nv_fp8_e4m3 convert<__nv_fp8_e4m3>(float value) {
  return __nv_fp8_e4m3(value);  // saturates: never NaN
}
template <>
__device__ signed char convert<signed char>(float value) {
  return static_cast<signed char>(fminf(fmaxf(rintf(32.0F * value), -127.0F), 127.0F));
}

// Each thread makes two deviates per iteration (Box and Muller 1958).
template <typename T>
__global__ void normal(T* data, unsigned long long elements, unsigned long long seed) {
  const unsigned long long pairs = (elements + 1) / 2;
  const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long i =
           static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < pairs; i += stride) {
    const unsigned long long bits = mix(seed + i * 0xd1342543de82ef95ULL);
    // Both are in (0, 1) with 24 bits each, so that the logarithm is finite.
    const float u = (static_cast<float>(bits >> 40) + 0.5F) * 0x1p-24F;
    const float v = (static_cast<float>((bits >> 8) & 0xffffffU) + 0.5F) * 0x1p-24F;
    // The fast logarithm may be slightly above 0 if u is nearly 1.
    const float radius = sqrtf(fmaxf(-2.0F * __logf(u), 0.0F));
    float sine = 0;
    float cosine = 0;
    sincospif(2.0F * v, &sine, &cosine);
    data[2 * i] = convert<T>(radius * cosine);
    if (2 * i + 1 < elements) {
      data[2 * i + 1] = convert<T>(radius * sine);
    }
  }
}

template <typename T>
void fill(const Context& context, void* data, std::size_t elements, unsigned long long seed) {
  constexpr unsigned kThreads = 256;
  const std::size_t blocks = (elements / 2 + kThreads) / kThreads;
  const auto grid = static_cast<unsigned>(std::min<std::size_t>(
      blocks, static_cast<std::size_t>(std::max(context.properties.multiProcessorCount, 1)) * 8));
  normal<T>
      <<<std::max(grid, 1U), kThreads, 0, context.stream>>>(static_cast<T*>(data), elements, seed);
  check(cudaGetLastError(), "fill_random");
}

}  // namespace

void fill_random(Context& context, void* data, std::size_t elements, job::DType dtype,
                 std::uint64_t seed) {
  if (elements == 0) {
    return;
  }
  // Consecutive seeds must not give shifted copies of one sequence.
  const unsigned long long start = (seed + 1) * 0xaef17502108ef2d9ULL;
  switch (dtype) {
    case job::DType::fp32:
    case job::DType::tf32:
      fill<float>(context, data, elements, start);
      break;
    case job::DType::bf16:
      fill<__nv_bfloat16>(context, data, elements, start);
      break;
    case job::DType::fp16:
      fill<__half>(context, data, elements, start);
      break;
    case job::DType::fp8:
    case job::DType::fp8_block:
    case job::DType::mxfp8:
      fill<__nv_fp8_e4m3>(context, data, elements, start);
      break;
    case job::DType::int8:
      fill<signed char>(context, data, elements, start);
      break;
    case job::DType::nvfp4:
    case job::DType::mxfp4:
      // Two 4-bit floats per byte: every bit pattern is a finite number.
      fill<signed char>(context, data, (elements + 1) / 2, start);
      break;
  }
}

}  // namespace stepcast::harness::cuda
