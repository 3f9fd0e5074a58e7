// A CUDA runtime, cublasLt, cuDNN and NCCL that compute nothing, complete enough to run
// calibrate-gpu from end to end without a GPU. It is linked into the program before the real
// libraries and hides their functions; functions that it does not define (descriptors of cublasLt,
// texts of errors) come from the real libraries. FAKE_GPUS is the number of GPUs (default 1).
//
// Device memory is host memory that is not accessed. Each stream has a clock: a kernel starts when
// the previous one has ended, but not before now, and takes the time of a roofline; events read
// that clock. Small NCCL operations really move numbers, since the harness checks them.
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>
#include <nccl.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr double kKernel = 8e-6;               // s, for a kernel of unknown work
constexpr double kFlops = 600e12;              // FLOP/s
constexpr double kBandwidth = 3e12;            // bytes/s
constexpr double kLink = 50e9;                 // bytes/s, host to device
constexpr std::size_t kMemory = 150754820096;  // of an H200
constexpr std::size_t kMoved = 1 << 20;        // bytes; operations up to this size really move data

double host_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct FakeGraph {
  double seconds = 0;
};

std::mutex lock;
std::map<void*, std::size_t> allocated;
std::size_t in_use = 0;
std::map<const void*, std::string> kernels;  // host stub -> name on the device
thread_local FakeGraph* capturing = nullptr;
thread_local int current_gpu = 0;
thread_local cudaError_t last_error = cudaSuccess;
cudaStream_t cudnn_stream = nullptr;  // of the only handle
thread_local struct {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
} configuration;

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) {
    last_error = error;
  }
  return error;
}

int gpus() {
  const char* text = std::getenv("FAKE_GPUS");
  return text == nullptr ? 1 : std::atoi(text);
}

}  // namespace

// The types of the handles are incomplete in the runtime's headers.
struct CUstream_st {
  double time = 0;  // when the last enqueued work ends
};
struct CUevent_st {
  double time = 0;
};

namespace {

CUstream_st& stream_of(cudaStream_t stream) {
  static CUstream_st null_stream;
  return stream == nullptr ? null_stream : *stream;
}

void enqueue(cudaStream_t handle, double seconds) {
  if (capturing != nullptr) {
    capturing->seconds += seconds;
    return;
  }
  const std::lock_guard guard(lock);
  CUstream_st& stream = stream_of(handle);
  stream.time = std::max(stream.time, host_now()) + seconds;
}

void wait_until(double time) {
  while (host_now() < time) {
    std::this_thread::yield();
  }
}

double end_of(cudaStream_t stream) {
  const std::lock_guard guard(lock);
  return stream_of(stream).time;
}

}  // namespace

extern "C" {

// ---------------------------------------------------------------- what nvcc's code calls
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  const std::lock_guard guard(lock);
  kernels[stub] = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                     cudaStream_t stream) {
  configuration = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                             std::size_t, cudaStream_t stream) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x * block.y * block.z == 0 ||
      block.x * block.y * block.z > 1024 || grid.y > 65535 || grid.z > 65535) {
    return result(cudaErrorInvalidConfiguration);
  }
  std::string name;
  {
    const std::lock_guard guard(lock);
    const auto found = kernels.find(kernel);
    if (found == kernels.end()) {
      return result(cudaErrorInvalidDeviceFunction);
    }
    name = found->second;
  }
  const bool waits =
      name.find("hold_kernel") != std::string::npos || name.find("wait_for") != std::string::npos;
  const double seconds =
      waits ? static_cast<double>(*static_cast<unsigned long long*>(arguments[0])) * 1e-9 : kKernel;
  enqueue(stream, seconds);
  return cudaSuccess;
}

// CUDA 13 launches by a handle, CUDA 12 by the stub's address.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

// ---------------------------------------------------------------- devices
cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpus();
  return gpus() > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int gpu) {
  if (gpu < 0 || gpu >= gpus()) {
    return result(cudaErrorInvalidDevice);
  }
  current_gpu = gpu;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* gpu) {
  *gpu = current_gpu;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  std::memset(p, 0, sizeof *p);
  std::strcpy(p->name, "NVIDIA H200");
  p->major = 9;
  p->multiProcessorCount = 132;
  p->totalGlobalMem = kMemory;
  p->l2CacheSize = 50 << 20;
  p->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char*, int, int) { return result(cudaErrorNotSupported); }
// Every stream has already been waited for.
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

// ---------------------------------------------------------------- memory
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  const std::lock_guard guard(lock);
  if (in_use + bytes > kMemory * static_cast<std::size_t>(std::max(gpus(), 1))) {
    return result(cudaErrorMemoryAllocation);
  }
  void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) {
    return result(cudaErrorMemoryAllocation);
  }
  *data = found;
  allocated[found] = bytes;
  in_use += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  const std::lock_guard guard(lock);
  const auto found = allocated.find(data);
  if (found == allocated.end()) {
    return result(data == nullptr ? cudaSuccess : cudaErrorInvalidValue);
  }
  munmap(data, found->second);
  in_use -= found->second;
  allocated.erase(found);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard guard(lock);
  *total = kMemory;
  *free = kMemory - std::min(in_use, kMemory);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (bytes <= kMoved) {
    std::memcpy(to, from, bytes);
  }
  enqueue(stream,
          static_cast<double>(bytes) / (kind == cudaMemcpyDeviceToDevice ? kBandwidth / 2 : kLink) +
              2e-6);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes <= kMoved) {
    std::memset(data, value, bytes);
  }
  enqueue(stream, static_cast<double>(bytes) / kBandwidth + 2e-6);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  return cudaMemsetAsync(data, value, bytes, nullptr);
}

// ---------------------------------------------------------------- streams, events, graphs
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  wait_until(end_of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return host_now() >= end_of(stream) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (capturing == nullptr) {
    const std::lock_guard guard(lock);
    stream_of(stream).time = std::max(stream_of(stream).time, event->time);
  }
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  enqueue(handle, 0);
  if (capturing == nullptr) {
    const std::lock_guard guard(lock);
    event->time = stream_of(handle).time;
  }
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  wait_until(event->time);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return host_now() >= event->time ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = static_cast<float>((to->time - from->time) * 1e3);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  capturing = new FakeGraph;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = reinterpret_cast<cudaGraph_t>(capturing);
  capturing = nullptr;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable =
      reinterpret_cast<cudaGraphExec_t>(new FakeGraph(*reinterpret_cast<FakeGraph*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<FakeGraph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete reinterpret_cast<FakeGraph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  enqueue(stream, reinterpret_cast<FakeGraph*>(graph)->seconds);
  return cudaSuccess;
}

// ---------------------------------------------------------------- cublasLt
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int one = 0;
  *handle = reinterpret_cast<cublasLtHandle_t>(&one);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t found[], int* count) {
  std::memset(&found[0], 0, sizeof found[0]);
  found[0].state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void*,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t, const void*, const void*,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t*, void*, std::size_t,
                              cudaStream_t stream) {
  const auto aligned = [](const void* p) {
    return p != nullptr && reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
  };
  if (!aligned(a) || !aligned(b) || !aligned(d)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto size = [](cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which) {
    std::uint64_t value = 0;
    std::size_t written = 0;
    cublasLtMatrixLayoutGetAttribute(layout, which, &value, sizeof value, &written);
    return static_cast<double>(value);
  };
  std::int32_t transposed = 0;
  std::size_t written = 0;
  cublasLtMatmulDescGetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                 sizeof transposed, &written);
  const double m = size(d_layout, CUBLASLT_MATRIX_LAYOUT_ROWS);
  const double n = size(d_layout, CUBLASLT_MATRIX_LAYOUT_COLS);
  const double k = size(a_layout, transposed == CUBLAS_OP_T ? CUBLASLT_MATRIX_LAYOUT_ROWS
                                                            : CUBLASLT_MATRIX_LAYOUT_COLS);
  std::int32_t batch = 1;
  cublasLtMatrixLayoutGetAttribute(d_layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                   sizeof batch, &written);
  enqueue(stream, 3e-6 + batch * std::max(2 * m * n * k / kFlops,
                                          2 * (m * n + n * k + m * k) / kBandwidth));
  return CUBLAS_STATUS_SUCCESS;
}

// ---------------------------------------------------------------- cuDNN
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  static int one = 0;
  *handle = reinterpret_cast<cudnnHandle_t>(&one);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t stream) {
  cudnn_stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t,
                                           cudnnBackendDescriptor_t* made) {
  *made = reinterpret_cast<cudnnBackendDescriptor_t>(new int(0));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t gone) {
  delete reinterpret_cast<int*>(gone);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, std::int64_t, const void*) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t type, std::int64_t,
                                       std::int64_t* count, void* values) {
  *count = 1;  // one engine configuration; one number
  if (type == CUDNN_TYPE_INT64 && values != nullptr) {
    *static_cast<std::int64_t*>(values) = 1 << 20;  // bytes of workspace
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t,
                                  cudnnBackendDescriptor_t) {
  enqueue(cudnn_stream, 100e-6);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"

// ---------------------------------------------------------------- NCCL
namespace {

struct Move {  // one rank's part of an operation
  enum class Kind { all_reduce, all_gather, reduce_scatter, broadcast, reduce, send, receive } kind;
  const void* from;
  void* to;
  std::size_t count;
  std::size_t element;
  int peer;
};

struct Ring {  // the ranks of one communicator meet here, each in its own thread
  int ranks = 0;
  std::map<int, std::vector<Move>> posted;
  std::uint64_t round = 0;
  std::mutex mutex;
  std::condition_variable met;
};

std::map<std::string, Ring> rings;  // by unique id

std::size_t element_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
    case ncclInt64:
    case ncclUint64:
      return 8;
    case ncclFloat32:
    case ncclInt32:
    case ncclUint32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

void move_all(std::map<int, std::vector<Move>>& posted, int ranks) {
  const std::size_t steps = posted.begin()->second.size();
  for (std::size_t s = 0; s < steps; ++s) {
    const Move& first = posted.at(0).size() > s ? posted.at(0)[s] : posted.begin()->second[s];
    const auto n = static_cast<std::size_t>(ranks);
    if (first.count * first.element * n > kMoved || first.kind == Move::Kind::send ||
        first.kind == Move::Kind::receive) {
      continue;
    }
    const std::size_t bytes = first.count * first.element;
    const auto sum = [&](std::size_t at, std::size_t count) {
      std::vector<float> total(count, 0);
      for (int r = 0; r < ranks; ++r) {
        const auto* x = static_cast<const float*>(posted.at(r)[s].from) + at;
        for (std::size_t i = 0; i < count; ++i) {
          total[i] += x[i];
        }
      }
      return total;
    };
    std::vector<std::vector<unsigned char>> results(n);
    for (int r = 0; r < ranks; ++r) {
      auto& out = results[static_cast<std::size_t>(r)];
      const auto keep = [&](const void* data, std::size_t size) {
        const auto* b = static_cast<const unsigned char*>(data);
        out.insert(out.end(), b, b + size);
      };
      const bool floats = first.element == 4;
      if (first.kind == Move::Kind::all_gather) {
        for (int from = 0; from < ranks; ++from) {
          keep(posted.at(from)[s].from, bytes);
        }
      } else if (first.kind == Move::Kind::broadcast) {
        keep(posted.at(0)[s].from, bytes);
      } else if (floats && first.kind == Move::Kind::reduce_scatter) {
        keep(sum(static_cast<std::size_t>(r) * first.count, first.count).data(), bytes);
      } else if (floats && (first.kind == Move::Kind::all_reduce || r == 0)) {
        keep(sum(0, first.count).data(), bytes);
      }
    }
    for (int r = 0; r < ranks; ++r) {
      const auto& out = results[static_cast<std::size_t>(r)];
      if (!out.empty()) {
        std::memcpy(posted.at(r)[s].to, out.data(), out.size());
      }
    }
  }
  // Sends and receives are matched in the order in which each rank posted them to its peer.
  std::map<std::pair<int, int>, std::vector<const Move*>> sent;
  for (const auto& [rank, moves] : posted) {
    for (const Move& m : moves) {
      if (m.kind == Move::Kind::send) {
        sent[{rank, m.peer}].push_back(&m);
      }
    }
  }
  std::map<std::pair<int, int>, std::size_t> taken;
  for (const auto& [rank, moves] : posted) {
    for (const Move& m : moves) {
      if (m.kind == Move::Kind::receive) {
        const Move* from = sent.at({m.peer, rank}).at(taken[{m.peer, rank}]++);
        if (from->count != m.count) {
          std::abort();
        }
        if (m.count * m.element <= kMoved) {
          std::memcpy(m.to, from->from, m.count * m.element);
        }
      }
    }
  }
}

}  // namespace

struct ncclComm {
  Ring* ring = nullptr;
  int rank = 0;
};

namespace {

struct Open {  // per thread: the operations that a group has collected
  int depth = 0;
  std::vector<Move> moves;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};
thread_local Open open_group;

ncclResult_t flush() {
  Open group = std::move(open_group);
  open_group = {};
  if (group.comm == nullptr) {
    return ncclSuccess;
  }
  double bytes = 0;
  for (const Move& m : group.moves) {
    bytes += static_cast<double>(m.count * m.element);
  }
  Ring& ring = *group.comm->ring;
  std::unique_lock guard(ring.mutex);
  const std::uint64_t round = ring.round;
  ring.posted[group.comm->rank] = std::move(group.moves);
  if (static_cast<int>(ring.posted.size()) == ring.ranks) {
    move_all(ring.posted, ring.ranks);
    ring.posted.clear();
    ++ring.round;
    ring.met.notify_all();
  } else {
    ring.met.wait(guard, [&] { return ring.round != round; });
  }
  enqueue(group.stream, 10e-6 + bytes / 300e9);
  return ncclSuccess;
}

ncclResult_t post(const Move& move, ncclComm_t comm, cudaStream_t stream) {
  open_group.moves.push_back(move);
  open_group.comm = comm;
  open_group.stream = stream;
  return open_group.depth == 0 ? flush() : ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int made = 0;
  std::memset(id, 0, sizeof *id);
  const std::string text = "fake " + std::to_string(++made);
  std::memcpy(id, text.data(), text.size());
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  const std::lock_guard guard(lock);
  Ring& ring = rings[std::string(id.internal, sizeof id.internal)];
  ring.ranks = ranks;
  *comm = new ncclComm{&ring, rank};
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = ncclSuccess;
  return ncclSuccess;
}
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclGroupStart() {
  ++open_group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  --open_group.depth;
  return open_group.depth == 0 ? flush() : ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return post({Move::Kind::all_reduce, from, to, count, element_of(type), 0}, comm, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return post({Move::Kind::all_gather, from, to, count, element_of(type), 0}, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return post({Move::Kind::reduce_scatter, from, to, count, element_of(type), 0}, comm, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int,
                           ncclComm_t comm, cudaStream_t stream) {
  return post({Move::Kind::broadcast, from, to, count, element_of(type), 0}, comm, stream);
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t, int, ncclComm_t comm, cudaStream_t stream) {
  return post({Move::Kind::reduce, from, to, count, element_of(type), 0}, comm, stream);
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return post({Move::Kind::send, from, nullptr, count, element_of(type), peer}, comm, stream);
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return post({Move::Kind::receive, nullptr, to, count, element_of(type), peer}, comm, stream);
}

}  // extern "C"
