// Checks the calls of Gemm and GroupedGemm to cublasLt without a GPU. A CUDA runtime of host memory
// is below them, and a cublasLtMatmul multiplies nothing but compares each call's pointers with
// what was allocated, filled and chosen. The descriptors are those of the real library.
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calibration/cuda/bench.h"
#include "calibration/cuda/gemm.h"
#include "calibration/cuda/gemm_library.h"
#include "calibration/cuda/gemm_operands.h"
#include "catch.hpp"

using namespace stepcast;
using namespace stepcast::harness::cuda;
using interop::GemmCase;
using interop::GemmLayout;
using job::DType;

// ---------------------------------------------------------------- a device of host memory
struct CUstream_st {
  bool in_capture = false;
  bool joined = true;  // has rejoined the stream that is being captured
};
struct CUevent_st {
  cudaStream_t recorded_in_capture = nullptr;
};

namespace {

struct Call {
  const void *a, *b;
  void* d;
  cudaStream_t stream;
  float beta;
};
using Region = std::map<std::uintptr_t, std::size_t>;  // start and bytes

struct Fake {
  Region allocated, random;
  std::size_t free = std::size_t{80} << 30;
  std::size_t live = 0;
  std::vector<Call> calls;  // in order of execution
  std::optional<std::vector<Call>> capture;
  std::set<cudaStream_t> captured;
  cudaStream_t origin = nullptr;
  std::uint64_t preferred = 0;  // workspace that was passed to the heuristic
  cublasStatus_t heuristic = CUBLAS_STATUS_SUCCESS;
  int found = 1;
  int streams = 0, events = 0, graphs = 0;
};
Fake fake;

bool within(const Region& region, const void* data, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  auto after = region.upper_bound(at);
  if (after == region.begin()) {
    return false;
  }
  --after;
  return at + bytes <= after->first + after->second;
}

template <typename T>
T get(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which) {
  T value{};
  std::size_t written = 0;
  REQUIRE(cublasLtMatrixLayoutGetAttribute(layout, which, &value, sizeof value, &written) ==
          CUBLAS_STATUS_SUCCESS);
  return value;
}
template <typename T>
T get(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t which) {
  T value{};
  std::size_t written = 0;
  REQUIRE(cublasLtMatmulDescGetAttribute(desc, which, &value, sizeof value, &written) ==
          CUBLAS_STATUS_SUCCESS);
  return value;
}

std::size_t bits(std::uint32_t type) {
  switch (type) {
    case CUDA_R_32F:
      return 32;
    case CUDA_R_16BF:
    case CUDA_R_16F:
      return 16;
    case CUDA_R_8F_E4M3:
      return 8;
    case CUDA_R_4F_E2M1:
      return 4;
    default:
      FAIL("a type that no case has");
      return 0;
  }
}

struct Extent {
  std::int64_t rows, cols;
  std::size_t bytes;
};
Extent extent(cublasLtMatrixLayout_t layout) {
  const auto rows =
      static_cast<std::int64_t>(get<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS));
  const auto cols =
      static_cast<std::int64_t>(get<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS));
  const auto ld = get<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD);
  const auto batch = get<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  const auto stride = get<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  CHECK(ld >= rows);
  if (batch > 1) {
    CHECK(stride >= ld * cols);
  }
  const std::int64_t last = (batch - 1) * stride + (cols - 1) * ld + rows;
  return {rows, cols,
          (static_cast<std::size_t>(last) *
               bits(get<std::uint32_t>(layout, CUBLASLT_MATRIX_LAYOUT_TYPE)) +
           7) /
              8};
}

// The factors of whole blocks are read, and all of them are one.
void require_scales(cublasLtMatmulDesc_t desc, bool of_a, std::int64_t outer, std::int64_t k,
                    bool narrow) {
  const auto mode = get<std::int32_t>(
      desc, of_a ? CUBLASLT_MATMUL_DESC_A_SCALE_MODE : CUBLASLT_MATMUL_DESC_B_SCALE_MODE);
  const auto* scales = get<const std::uint8_t*>(
      desc, of_a ? CUBLASLT_MATMUL_DESC_A_SCALE_POINTER : CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
  if (!narrow) {
    CHECK(scales == nullptr);
    return;
  }
  const auto blocks = [](std::int64_t size, std::int64_t each) { return (size + each - 1) / each; };
  std::size_t count = 1;
  bool fp32 = true;
  std::uint8_t byte = 0;
  switch (mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F:
      break;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
      count = static_cast<std::size_t>(outer * blocks(k, 128));
      break;
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
      count = static_cast<std::size_t>(4 * blocks(blocks(k, 128), 4) * blocks(outer, 128));
      break;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0:  // tiles of 128 x 4
      count = static_cast<std::size_t>(512 * blocks(outer, 128) * blocks(k, 128));
      fp32 = false;
      byte = 0x7f;
      break;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3:
      count = static_cast<std::size_t>(512 * blocks(outer, 128) * blocks(k, 64));
      fp32 = false;
      byte = 0x38;
      break;
    default:
      FAIL("a mode that no case has");
  }
  REQUIRE(within(fake.allocated, scales, count * (fp32 ? 4 : 1)));
  CHECK(reinterpret_cast<std::uintptr_t>(scales) % 16 == 0);
  const std::size_t last = count - 1;
  if (fp32) {
    float first_value = 0, last_value = 0;
    std::memcpy(&first_value, scales, 4);
    std::memcpy(&last_value, scales + 4 * last, 4);
    CHECK((first_value == 1.0F && last_value == 1.0F));
  } else {
    CHECK((scales[0] == byte && scales[last] == byte));
  }
}

}  // namespace

extern "C" {

const char* cudaGetErrorString(cudaError_t) { return "an error"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  if (fake.live + bytes > fake.free) {
    return cudaErrorMemoryAllocation;
  }
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  fake.allocated[reinterpret_cast<std::uintptr_t>(*data)] = bytes;
  fake.live += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  fake.live -= fake.allocated.at(at);
  fake.allocated.erase(at);
  fake.random.erase(at);
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = fake.free;
  *free = fake.free - fake.live;
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t) {
  CHECK(within(fake.allocated, data, bytes));
  std::memset(data, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  CHECK(within(fake.allocated, to, bytes));
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  CHECK_FALSE(fake.capture.has_value());  // not allowed while capturing
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  CHECK(flags == cudaStreamNonBlocking);
  *stream = new CUstream_st;
  ++fake.streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  --fake.streams;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  ++fake.events;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  --fake.events;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->recorded_in_capture = stream->in_capture ? stream : nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event->recorded_in_capture == nullptr) {
    return fake.capture && stream->in_capture ? cudaErrorStreamCaptureIsolation : cudaSuccess;
  }
  if (stream == fake.origin) {
    event->recorded_in_capture->joined = true;
  } else {
    stream->in_capture = true;
    stream->joined = false;
    fake.captured.insert(stream);
  }
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  fake.capture.emplace();
  fake.origin = stream;
  stream->in_capture = true;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  bool joined = true;
  for (cudaStream_t other : fake.captured) {
    joined = joined && other->joined;
    other->in_capture = false;
  }
  fake.captured.clear();
  stream->in_capture = false;
  *graph = nullptr;
  std::vector<Call> calls = std::move(*fake.capture);
  fake.capture.reset();
  if (!joined) {
    return cudaErrorStreamCaptureUnjoined;
  }
  *graph = reinterpret_cast<cudaGraph_t>(new std::vector<Call>(std::move(calls)));
  ++fake.graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = reinterpret_cast<cudaGraphExec_t>(
      new std::vector<Call>(*reinterpret_cast<std::vector<Call>*>(graph)));
  ++fake.graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<std::vector<Call>*>(graph);
  --fake.graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete reinterpret_cast<std::vector<Call>*>(graph);
  --fake.graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  const auto& calls = *reinterpret_cast<std::vector<Call>*>(graph);
  fake.calls.insert(fake.calls.end(), calls.begin(), calls.end());
  return cudaSuccess;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int one = 0;
  *handle = reinterpret_cast<cublasLtHandle_t>(&one);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t found[], int* count) {
  std::size_t written = 0;
  REQUIRE(cublasLtMatmulPreferenceGetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &fake.preferred, sizeof fake.preferred,
                                               &written) == CUBLAS_STATUS_SUCCESS);
  found[0].state = CUBLAS_STATUS_SUCCESS;
  *count = fake.found;
  return fake.heuristic;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t*,
                              void* workspace, std::size_t workspace_size, cudaStream_t stream) {
  const Extent ea = extent(a_layout), eb = extent(b_layout), ed = extent(d_layout);
  const bool ta = get<std::int32_t>(desc, CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_T;
  const bool tb = get<std::int32_t>(desc, CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_T;
  const std::int64_t k = ta ? ea.rows : ea.cols;
  CHECK((ta ? ea.cols : ea.rows) == ed.rows);
  CHECK((tb ? eb.rows : eb.cols) == ed.cols);
  CHECK((tb ? eb.cols : eb.rows) == k);
  CHECK(within(fake.random, a, ea.bytes));  // all of it random, no zeros
  CHECK(within(fake.random, b, eb.bytes));
  CHECK(within(fake.allocated, d, ed.bytes));
  CHECK_FALSE(within(fake.random, d, 1));
  CHECK((c == d && c_layout == d_layout));
  for (const void* operand : {a, b, static_cast<const void*>(d)}) {
    CHECK(reinterpret_cast<std::uintptr_t>(operand) % 256 == 0);
  }
  const std::uint32_t type = get<std::uint32_t>(a_layout, CUBLASLT_MATRIX_LAYOUT_TYPE);
  const bool narrow = bits(type) <= 8;
  require_scales(desc, true, ed.rows, k, narrow);
  require_scales(desc, false, ed.cols, k, narrow);
  CHECK(workspace_size >= fake.preferred);
  CHECK(within(fake.allocated, workspace, workspace_size));
  CHECK(*static_cast<const float*>(alpha) == 1);
  const Call call{a, b, d, stream, *static_cast<const float*>(beta)};
  if (fake.capture) {
    CHECK(stream->in_capture);
    fake.capture->push_back(call);
  } else {
    fake.calls.push_back(call);
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"

namespace stepcast::harness::cuda {

void fill_random(Context&, void* data, std::size_t elements, DType dtype, std::uint64_t) {
  const auto bytes =
      static_cast<std::size_t>(storage_bytes(dtype, static_cast<std::int64_t>(elements)));
  REQUIRE(within(fake.allocated, data, bytes));
  fake.random[reinterpret_cast<std::uintptr_t>(data)] = bytes;
}

Samples time_burst(Context&, const Policy&, const std::function<void(int)>& launch) {
  for (int i = 0; i < 5; ++i) {
    launch(i);
  }
  return {};
}
Samples time_sustained(Context&, const Policy&, const std::function<void(int)>& launch) {
  for (int i = 0; i < 7; ++i) {
    launch(i);
  }
  return {};
}

}  // namespace stepcast::harness::cuda

namespace {

CUstream_st main_stream;

void device(Context& context, int major, int minor, int l2 = 1 << 20) {
  fake = {};
  main_stream = {};
  context.gpu = 0;
  context.stream = &main_stream;
  context.properties.major = major;
  context.properties.minor = minor;
  context.properties.l2CacheSize = l2;
}

GemmCase make(DType dtype, GemmLayout layout, std::int64_t m, std::int64_t n, std::int64_t k) {
  GemmCase c;
  c.dtype = dtype;
  c.layout = layout;
  c.m = m;
  c.n = n;
  c.k = k;
  return c;
}

void check_nothing_left() {
  CHECK(fake.live == 0);
  CHECK(fake.streams == 0);
  CHECK(fake.events == 0);
  CHECK(fake.graphs == 0);
}

}  // namespace

TEST_CASE("every type, pass, batch and group: each call stays inside what was allocated for it") {
  for (const double cc : {9.0, 10.0}) {
    for (const DType dtype : {DType::bf16, DType::fp16, DType::tf32, DType::fp32, DType::fp8,
                              DType::fp8_block, DType::mxfp8, DType::nvfp4}) {
      for (const GemmLayout layout :
           {GemmLayout::forward, GemmLayout::input_grad, GemmLayout::weight_grad}) {
        for (const auto& [batch, groups] : {std::pair{1, 1}, {3, 1}, {1, 6}, {1, 2}}) {
          for (const bool accumulate : {false, true}) {
            Context context;
            device(context, static_cast<int>(cc), 0);
            GemmCase c = make(dtype, layout, 96, 160, 416);  // multiples of 32, not of 128
            c.batch = batch;
            c.groups = groups;
            c.accumulate_fp32 = accumulate;
            CAPTURE(cc, job::to_string(dtype), static_cast<int>(layout), batch, groups, accumulate);
            if (refusal(c, cc)) {
              CHECK_THROWS_AS(run_gemm(context, c, {}), harness::Unsupported);
              check_nothing_left();
              continue;
            }
            run_gemm(context, c, {});
            const int untimed = groups > 1 ? groups : 0;  // one untimed run before the capture
            REQUIRE(static_cast<int>(fake.calls.size()) == untimed + 5 * groups);
            for (const Call& call : fake.calls) {
              CHECK(call.beta == (accumulate ? 1.0F : 0.0F));
            }
            check_nothing_left();
          }
        }
      }
    }
  }
}

TEST_CASE("unaligned sizes of 16- and 32-bit products keep their operands aligned") {
  for (const DType dtype : {DType::bf16, DType::fp32}) {
    Context context;
    device(context, 8, 0);
    GemmCase c = make(dtype, GemmLayout::weight_grad, 13, 7, 5);
    c.groups = 5;
    run_gemm(context, c, {});
    CHECK(fake.preferred == workspace_bytes(8.0));
    check_nothing_left();
  }
}

TEST_CASE("repetitions rotate through operands that exceed twice the L2 cache") {
  Context context;
  device(context, 9, 0, 1 << 20);
  {
    // A set has 3 matrices of 128 KiB: six sets exceed 2 MiB.
    Gemm gemm(context, make(DType::bf16, GemmLayout::forward, 256, 256, 256));
    for (int i = 0; i < 12; ++i) {
      gemm.launch(i);
    }
    std::set<const void*> a, d;
    for (int i = 0; i < 6; ++i) {
      a.insert(fake.calls[i].a);
      d.insert(fake.calls[i].d);
      CHECK(fake.calls[i].a == fake.calls[i + 6].a);
      CHECK(fake.calls[i].b == fake.calls[i + 6].b);
    }
    CHECK(a.size() == 6);
    CHECK(d.size() == 6);
  }
  check_nothing_left();
}

TEST_CASE("a set beyond the cache is not copied; nor are more than a third of memory's") {
  Context context;
  device(context, 9, 0, 1 << 20);
  CHECK(rotated_copies(context, 2 * (1 << 20) + 1, 100) == 1);
  CHECK(rotated_copies(context, 1 << 20, 100) == 3);
  CHECK(rotated_copies(context, 1, 100) == 100);
  fake.free = 3 << 20;
  CHECK(rotated_copies(context, 1 << 19, 100) == 2);
  CHECK(rotated_copies(context, 1 << 24, 100) == 1);
}

TEST_CASE("groups are dealt to four streams that fork from the caller's and join it") {
  Context context;
  device(context, 9, 0);
  {
    GemmCase c = make(DType::bf16, GemmLayout::forward, 64, 64, 64);
    c.groups = 10;
    Gemm gemm(context, c);
    fake.calls.clear();
    gemm.launch(0);
    REQUIRE(fake.calls.size() == 10);
    std::set<cudaStream_t> streams;
    std::set<const void*> results;
    for (std::size_t i = 0; i < 10; ++i) {
      streams.insert(fake.calls[i].stream);
      results.insert(fake.calls[i].d);
      CHECK(fake.calls[i].stream == fake.calls[i % 4].stream);
    }
    CHECK(streams.size() == 4);
    CHECK(streams.count(context.stream) == 0);
    CHECK(results.size() == 10);
    fake.calls.clear();
    gemm.launch(1);
    CHECK(results.count(fake.calls[0].d) == 0);  // a different set
  }
  check_nothing_left();
}

TEST_CASE("sustained cases go to the sustained loop") {
  Context context;
  device(context, 9, 0);
  GemmCase c = make(DType::bf16, GemmLayout::forward, 64, 64, 64);
  c.sustained = true;
  run_gemm(context, c, {});
  CHECK(fake.calls.size() == 7);
}

TEST_CASE("what the library or the memory cannot do is skipped, and leaves nothing behind") {
  Context context;
  const GemmCase c = make(DType::bf16, GemmLayout::forward, 4096, 4096, 4096);
  for (const cublasStatus_t status : {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INVALID_VALUE}) {
    device(context, 9, 0);
    fake.heuristic = status;
    CHECK_THROWS_AS(run_gemm(context, c, {}), harness::Unsupported);
    check_nothing_left();
  }
  device(context, 9, 0);
  fake.found = 0;
  CHECK_THROWS_AS(run_gemm(context, c, {}), harness::Unsupported);
  check_nothing_left();
  device(context, 9, 0);
  fake.free = 90 << 20;  // less than the 96 MiB of operands
  CHECK_THROWS_AS(run_gemm(context, c, {}), harness::Unsupported);
  device(context, 9, 0);
  fake.free = 100 << 20;  // enough for the operands but not for the workspace
  CHECK_THROWS_AS(run_gemm(context, c, {}), harness::Unsupported);
  check_nothing_left();
  device(context, 9, 0);
  fake.heuristic = CUBLAS_STATUS_EXECUTION_FAILED;
  CHECK_THROWS_AS(run_gemm(context, c, {}), std::runtime_error);
  check_nothing_left();
}
