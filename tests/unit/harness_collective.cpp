// The host side of the collectives with a GPU runtime and an NCCL made of threads and host memory.
// It tests who sends what to whom, which elements go where, what the environment says when a
// communicator is made, and that no rank waits forever for one that failed. Streams run
// asynchronously, freeing memory waits for them, and a collective waits for all of its ranks.
#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "cuda/bench.h"
#include "cuda/gemm.h"
#include "cuda/launch_kernels.h"
#include "cuda/memory.h"
#include "cuda/nccl.h"
#include "harness/nccl_table.h"

// ------------------------------------------------------------------------------ streams, memory

struct CUstream_st {
  CUstream_st() : worker([this] { work(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard lock(mutex);
      end = true;
    }
    changed.notify_all();
    worker.join();
  }
  void enqueue(std::function<void()> op) {
    {
      const std::lock_guard lock(mutex);
      ++pending;
      ops.push_back(std::move(op));
    }
    changed.notify_all();
  }
  bool idle() {
    const std::lock_guard lock(mutex);
    return pending == 0;
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return pending == 0; });
  }

 private:
  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return end || !ops.empty(); });
      if (ops.empty()) {
        return;
      }
      const std::function<void()> op = std::move(ops.front());
      ops.pop_front();
      lock.unlock();
      op();
      lock.lock();
      --pending;
      changed.notify_all();
    }
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> ops;
  int pending = 0;
  bool end = false;
  std::thread worker;
};

struct Mark {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  std::chrono::steady_clock::time_point at;
};
struct CUevent_st {
  std::shared_ptr<Mark> mark = std::make_shared<Mark>();  // a stream may still have to reach it
};

namespace {

constexpr int kGpus = 4;
// a kernel and a concurrent collective.
constexpr auto kOverlapped = std::chrono::microseconds(500);
thread_local int current = 0;

struct Fake {
  std::mutex mutex;
  std::set<cudaStream_t> streams;
  std::atomic<int> allocations{0};
  std::atomic<std::size_t> available{std::size_t{64} << 30};
  // What NCCL was asked and did.
  std::vector<std::string> settings;  // NCCL_ALGO/NCCL_PROTO/CTAs for each communicator of rank 0
  std::atomic<int> made{0}, destroyed{0}, aborted{0};
  std::map<std::string, int> calls;
  // The faults to simulate.
  std::string refuses;              // a NCCL_ALGO whose collectives are refused
  std::atomic<int> fails_rank{-1};  // a rank whose launches fail
  std::atomic<int> fails_after{0};  // after this many launches
  std::atomic<int> wrong_rank{-1};  // a rank that receives a wrong element
  std::atomic<bool> slow{false};    // collectives take as long as kernels
};
Fake& fake() {
  static Fake one;
  return one;
}

void wait_for_all_streams() {
  std::set<cudaStream_t> all;
  {
    const std::lock_guard lock(fake().mutex);
    all = fake().streams;
  }
  for (cudaStream_t stream : all) {
    stream->wait();
  }
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = kGpus;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  current = device;
  return device < kGpus ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  *p = {};
  p->multiProcessorCount = 132 + device;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  const std::lock_guard lock(fake().mutex);
  fake().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const std::lock_guard lock(fake().mutex);
    fake().streams.erase(stream);
  }
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return stream->idle() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream->wait();
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the fake"; }
cudaError_t cudaMalloc(void** data, size_t bytes) {
  if (bytes > fake().available) {
    return cudaErrorMemoryAllocation;
  }
  *data = std::malloc(bytes);
  ++fake().allocations;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  wait_for_all_streams();  // CUDA is allowed to do that
  std::free(data);
  --fake().allocations;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  *available = fake().available;
  *total = std::size_t{64} << 30;
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) { return cudaMalloc(data, bytes); }
cudaError_t cudaFreeHost(void* data) { return cudaFree(data); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  stream->enqueue([=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  stream->enqueue([mark = event->mark] {
    std::unique_lock lock(mark->mutex);
    mark->changed.wait(lock, [&] { return mark->reached; });
  });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  std::memset(data, value, bytes);
  return cudaSuccess;
}

}  // extern "C"

// ------------------------------------------------------------------------------------------ NCCL

namespace {

struct Clique {  // all ranks of one communicator
  std::mutex mutex;
  std::condition_variable changed;
  int ranks = 0;
  int arrived = 0;
  unsigned round = 0;
  bool aborted = false;
  std::string algo;
  std::vector<const void*> sends;                           // for each rank
  std::vector<std::map<int, std::vector<const void*>>> to;  // for each rank and peer, in order
  // Waits for all ranks. False: the communicator was aborted.
  bool meet() {
    std::unique_lock lock(mutex);
    const unsigned mine = round;
    if (++arrived == ranks) {
      arrived = 0;
      ++round;
      changed.notify_all();
      return !aborted;
    }
    changed.wait(lock, [&] { return round != mine || aborted; });
    return !aborted;
  }
};

std::map<std::string, std::shared_ptr<Clique>>& cliques() {
  static std::map<std::string, std::shared_ptr<Clique>> all;
  return all;
}

struct Message {
  bool sends = false;
  void* data = nullptr;
  std::size_t bytes = 0;
  int peer = 0;
};
struct Group {
  int depth = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Message> messages;
};
thread_local Group group;

std::size_t bytes_of(ncclDataType_t type) {
  return type == ncclFloat32 ? 4 : type == ncclBfloat16 || type == ncclFloat16 ? 2 : 1;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  int gpu = 0;
};

namespace {

ncclResult_t allowed(const char* name, ncclComm_t comm) {
  if (current != comm->gpu) {
    return ncclInternalError;  // the thread of another GPU
  }
  {
    const std::lock_guard lock(fake().mutex);
    ++fake().calls[name];
  }
  if (!fake().refuses.empty() && comm->clique->algo == fake().refuses) {
    return ncclInvalidUsage;
  }
  if (comm->rank == fake().fails_rank && fake().fails_after-- <= 0) {
    return ncclSystemError;
  }
  return ncclSuccess;
}

// Runs `combine(sends of all ranks)` once all ranks have arrived.
void together(ncclComm_t comm, cudaStream_t stream, const void* send,
              std::function<void(const std::vector<const void*>&)> combine, void* receive) {
  stream->enqueue([=] {
    Clique& clique = *comm->clique;
    {
      const std::lock_guard lock(clique.mutex);
      clique.sends[static_cast<std::size_t>(comm->rank)] = send;
    }
    if (!clique.meet()) {
      return;
    }
    if (fake().slow) {
      std::this_thread::sleep_for(kOverlapped);
    }
    combine(clique.sends);
    if (comm->rank == fake().wrong_rank) {
      *static_cast<char*>(receive) ^= 0x40;
    }
    clique.meet();
  });
}

// receive[i] = sum over ranks of send[first + i] (for types other than fp32: the first rank's
// bytes).
void sum(const std::vector<const void*>& sends, void* receive, std::size_t first, std::size_t count,
         ncclDataType_t type) {
  const std::size_t size = bytes_of(type);
  std::memcpy(receive, static_cast<const char*>(sends[0]) + first * size, count * size);
  if (type != ncclFloat32) {
    return;
  }
  for (std::size_t r = 1; r < sends.size(); ++r) {
    for (std::size_t i = 0; i < count; ++i) {
      static_cast<float*>(receive)[i] += static_cast<const float*>(sends[r])[first + i];
    }
  }
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t) { return "an error of the fake NCCL"; }
const char* ncclGetLastError(ncclComm_t) { return "its details"; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> next{0};
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "clique %d", next++);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "-" : value);
  };
  const std::lock_guard lock(fake().mutex);
  std::shared_ptr<Clique>& clique = cliques()[id.internal];
  if (!clique) {
    clique = std::make_shared<Clique>();
    clique->ranks = ranks;
    clique->sends.resize(static_cast<std::size_t>(ranks));
    clique->to.resize(static_cast<std::size_t>(ranks));
    clique->algo = set("NCCL_ALGO");
  }
  if (rank == 0) {
    fake().settings.push_back(
        set("NCCL_ALGO") + " " + set("NCCL_PROTO") + " " +
        (config->maxCTAs == NCCL_CONFIG_UNDEF_INT ? "-" : std::to_string(config->maxCTAs)));
  }
  *comm = new ncclComm{clique, rank, current};
  ++fake().made;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  ++fake().destroyed;
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    const std::lock_guard lock(comm->clique->mutex);
    comm->clique->aborted = true;
  }
  comm->clique->changed.notify_all();
  ++fake().aborted;
  wait_for_all_streams();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  const ncclResult_t result = allowed("all_reduce", comm);
  if (result == ncclSuccess) {
    together(
        comm, stream, send, [=](const auto& sends) { sum(sends, receive, 0, count, type); },
        receive);
  }
  return result;
}
ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t, int root, ncclComm_t comm, cudaStream_t stream) {
  const ncclResult_t result = allowed("reduce", comm);
  if (result == ncclSuccess) {
    together(
        comm, stream, send,
        [=](const auto& sends) {
          if (comm->rank == root) {
            sum(sends, receive, 0, count, type);
          }
        },
        receive);
  }
  return result;
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  const ncclResult_t result = allowed("reduce_scatter", comm);
  if (result == ncclSuccess) {
    together(
        comm, stream, send,
        [=](const auto& sends) {
          sum(sends, receive, static_cast<std::size_t>(comm->rank) * count, count, type);
        },
        receive);
  }
  return result;
}
ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const ncclResult_t result = allowed("all_gather", comm);
  if (result == ncclSuccess) {
    const std::size_t share = count * bytes_of(type);
    together(
        comm, stream, send,
        [=](const auto& sends) {
          for (std::size_t r = 0; r < sends.size(); ++r) {
            std::memcpy(static_cast<char*>(receive) + r * share, sends[r], share);
          }
        },
        receive);
  }
  return result;
}
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  const ncclResult_t result = allowed("broadcast", comm);
  if (result == ncclSuccess) {
    together(
        comm, stream, send,
        [=](const auto& sends) {
          std::memcpy(receive, sends[static_cast<std::size_t>(root)], count * bytes_of(type));
        },
        receive);
  }
  return result;
}
ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  group.comm = comm;
  group.stream = stream;
  group.messages.push_back({true, const_cast<void*>(data), count * bytes_of(type), peer});
  return group.depth > 0 ? allowed("send", comm) : ncclInvalidUsage;
}
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  group.comm = comm;
  group.stream = stream;
  group.messages.push_back({false, data, count * bytes_of(type), peer});
  return group.depth > 0 ? allowed("recv", comm) : ncclInvalidUsage;
}
ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--group.depth > 0) {
    return ncclSuccess;
  }
  const Group whole = group;
  group = {};
  if (whole.comm == nullptr) {
    return ncclSuccess;
  }
  whole.stream->enqueue([whole] {
    Clique& clique = *whole.comm->clique;
    const auto me = static_cast<std::size_t>(whole.comm->rank);
    {
      const std::lock_guard lock(clique.mutex);
      clique.to[me].clear();
      for (const Message& m : whole.messages) {
        if (m.sends) {
          clique.to[me][m.peer].push_back(m.data);
        }
      }
    }
    if (!clique.meet()) {
      return;
    }
    std::map<int, std::size_t> next;
    for (const Message& m : whole.messages) {
      if (!m.sends) {
        const auto& from = clique.to[static_cast<std::size_t>(m.peer)];
        const auto found = from.find(whole.comm->rank);
        if (found != from.end() && next[m.peer] < found->second.size()) {
          std::memcpy(m.data, found->second[next[m.peer]++], m.bytes);
          if (whole.comm->rank == fake().wrong_rank) {
            *static_cast<char*>(m.data) ^= 0x40;
          }
        }
      }
    }
    clique.meet();
  });
  return ncclSuccess;
}

}  // extern "C"

// -------------------------------------------------------------------- the rest of the GPU part

namespace stepcast::harness::cuda {
void fill_random(Context&, void* data, std::size_t elements, job::DType dtype, std::uint64_t seed) {
  std::memset(data, static_cast<int>(seed & 0xff),
              elements * static_cast<std::size_t>(nccl_type_bytes(dtype)));
}
Sensors read_sensors(int) { return {1.98e9, 700, 60}; }

Stream::Stream() { cudaStreamCreateWithFlags(&stream_, 0); }
Stream::~Stream() { cudaStreamDestroy(stream_); }
Event::Event(unsigned) : event_(new CUevent_st) {}
Event::~Event() { delete event_; }
void Event::record(cudaStream_t stream) const {
  stream->enqueue([mark = event_->mark] {
    const std::lock_guard lock(mark->mutex);
    mark->at = std::chrono::steady_clock::now();
    mark->reached = true;
    mark->changed.notify_all();
  });
}
double seconds_between(const Event& start, const Event& end) {
  const cudaEvent_t a = start;
  const cudaEvent_t b = end;
  return std::chrono::duration<double>(b->mark->at - a->mark->at).count();
}
void enqueue_hold(cudaStream_t stream, double seconds) {
  stream->enqueue(
      [seconds] { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); });
}

// A kernel that sleeps. It must be made and used on the thread of its own GPU, like the collective.
struct Gemm::State {
  cudaStream_t stream;
  int gpu;
};
Gemm::Gemm(Context& context, const interop::GemmCase&, int, std::uint64_t)
    : state_(new State{context.stream, context.gpu}) {}
Gemm::~Gemm() = default;
void Gemm::launch(int) {
  if (current != state_->gpu) {
    throw std::logic_error("a kernel on another GPU's thread");
  }
  state_->stream->enqueue([] { std::this_thread::sleep_for(kOverlapped); });
}
struct MemoryKernel::State {};
MemoryKernel::MemoryKernel(Context& context, const interop::MemoryCase&) {
  throw Unsupported("no memory on GPU " + std::to_string(context.gpu));
}
MemoryKernel::~MemoryKernel() = default;
void MemoryKernel::launch(int) {}
}  // namespace stepcast::harness::cuda

// ---------------------------------------------------------------------------------------- tests

namespace {

using namespace stepcast;
using namespace stepcast::harness;
using namespace stepcast::harness::cuda;
using interop::CollectiveCase;

// A session on GPU `gpu`; its destructor checks that nothing is left behind.
struct Machine {
  explicit Machine(int gpu = 0) {
    Fake& f = fake();
    f.settings.clear();
    f.calls.clear();
    f.made = f.destroyed = f.aborted = 0;
    f.refuses.clear();
    f.fails_rank = f.wrong_rank = -1;
    f.fails_after = 0;
    f.slow = false;
    f.available = std::size_t{64} << 30;
    context.gpu = gpu;
    cudaSetDevice(gpu);
    cudaStreamCreateWithFlags(&context.stream, cudaStreamNonBlocking);
  }
  ~Machine() {
    close_collectives();
    cudaStreamDestroy(context.stream);
    CHECK(fake().allocations == 0);
    CHECK(fake().streams.empty());
    CHECK(fake().made == fake().destroyed + fake().aborted);
    CHECK(current == context.gpu);
  }
  Samples run(const CollectiveCase& what) {
    Policy policy;
    policy.budget = 0.002;
    policy.samples = 6;
    return run_collective(context, what, policy);
  }
  Context context;
};

CollectiveCase collective(const std::string& op, int ranks, std::int64_t bytes = 1 << 14) {
  CollectiveCase c;
  c.op = op;
  c.ranks = ranks;
  c.bytes = whole_size(op, bytes, ranks);
  return c;
}

const std::vector<std::string> kOps = {"all_reduce", "all_gather", "reduce_scatter", "alltoall",
                                       "sendrecv",   "broadcast",  "reduce"};

}  // namespace

TEST_CASE("every operation among 1 to 4 GPUs gives right results and times") {
  Machine machine;
  for (int ranks = 1; ranks <= kGpus; ++ranks) {
    for (const std::string& op : kOps) {
      CAPTURE(op, ranks);
      const Samples samples = machine.run(collective(op, ranks));
      CHECK(samples.seconds.size() >= 5);
      CHECK(std::all_of(samples.seconds.begin(), samples.seconds.end(),
                        [](double s) { return s > 0; }));
      CHECK(samples.power == 700);
    }
  }
  // One communicator for each number of ranks is used by all operations.
  CHECK(fake().settings == std::vector<std::string>(4, "- - -"));
  CHECK(fake().made == 1 + 2 + 3 + 4);
}

TEST_CASE("wrong results of any rank end the run") {
  for (const std::string& op : kOps) {
    for (const int rank : {0, 2}) {
      if (op == "reduce" && rank != 0) {
        continue;  // only the root has a result
      }
      CAPTURE(op, rank);
      Machine machine;
      fake().wrong_rank = rank;
      std::string text;
      try {
        machine.run(collective(op, 3));
      } catch (const Unsupported&) {
        text = "unsupported";
      } catch (const std::runtime_error& error) {
        text = error.what();
      }
      CHECK_THAT(text, ContainsSubstring("wrong result of " + op));
      CHECK_THAT(text, ContainsSubstring("rank " + std::to_string(rank)));
    }
  }
}

TEST_CASE("forced algorithms and protocols are set while a communicator is made, and undone") {
  setenv("NCCL_ALGO", "Tree", 1);
  unsetenv("NCCL_PROTO");
  {
    Machine machine;
    CollectiveCase what = collective("all_reduce", 2);
    machine.run(what);
    what.algo = "Ring";
    what.proto = "LL128";
    machine.run(what);
    what.bytes *= 2;
    machine.run(what);
    // A case's own algorithm and protocol have priority over the user's environment.
    CHECK(fake().settings == std::vector<std::string>{"- - -", "ring ll128 -"});
    CHECK(fake().made == 4);
    CHECK(fake().destroyed == 2);
  }
  CHECK(std::string(std::getenv("NCCL_ALGO")) == "Tree");
  CHECK(std::getenv("NCCL_PROTO") == nullptr);
  unsetenv("NCCL_ALGO");
}

TEST_CASE("what NCCL refuses is unsupported, is asked once, and the next case goes on") {
  Machine machine;
  fake().refuses = "nvls";
  CollectiveCase what = collective("all_reduce", 4);
  what.algo = "NVLS";
  CHECK_THROWS_AS(machine.run(what), Unsupported);
  CHECK(fake().aborted == 4);
  CHECK_THROWS_AS(machine.run(what), Unsupported);
  CHECK(fake().made == 4);
  what.algo.clear();
  CHECK(machine.run(what).seconds.size() >= 5);
  CHECK(fake().made == 8);
}

TEST_CASE("what is known to be impossible is not tried") {
  Machine machine;
  const auto refused = [&](const char* op, const char* algo, const char* proto) {
    CollectiveCase what = collective(op, 2);
    what.algo = algo;
    what.proto = proto;
    CHECK_THROWS_AS(machine.run(what), Unsupported);
  };
  refused("all_gather", "Tree", "");
  refused("broadcast", "NVLS", "");
  refused("alltoall", "Ring", "");
  refused("sendrecv", "", "LL");
  refused("all_reduce", "NVLSTree", "LL128");
  refused("all_reduce", "", "LL256");
  CHECK_THROWS_AS(machine.run(collective("all_reduce", kGpus + 1)), Unsupported);
  CollectiveCase odd = collective("all_gather", 3);
  odd.bytes += 4;
  CHECK_THROWS_AS(machine.run(odd), Unsupported);
  fake().available = 3 << 20;
  CHECK_THROWS_AS(machine.run(collective("all_reduce", 2, 2 << 20)), Unsupported);
  CHECK(fake().aborted == 0);
}

TEST_CASE("a rank that fails ends the run: the others, waiting on their GPUs, are freed") {
  for (const int rank : {0, 3}) {
    for (const int after : {0, 1, 7}) {  // in the check, in the first launch, and in a timed batch
      CAPTURE(rank, after);
      Machine machine;
      fake().fails_rank = rank;
      fake().fails_after = after;
      std::string text;
      try {
        machine.run(collective("all_reduce", 4));
      } catch (const std::runtime_error& error) {
        text = error.what();
      }
      CHECK_THAT(text, ContainsSubstring("ncclAllReduce"));
      CHECK(fake().aborted == 4);
    }
  }
}

TEST_CASE("a GEMM beside a collective of four GPUs") {
  Machine machine;
  interop::OverlapCase what;
  what.kernel = "gemm";
  what.m = what.n = what.k = 1024;
  what.op = "reduce_scatter";
  what.other_bytes = 1 << 16;
  what.ranks = 4;
  what.channels = 8;
  Policy policy;
  policy.budget = 0.02;
  fake().slow = true;
  const Samples samples = run_overlap(machine.context, what, policy);
  const double slept = std::chrono::duration<double>(kOverlapped).count();
  CHECK(samples.seconds.size() >= 5);
  CHECK(*std::min_element(samples.seconds.begin(), samples.seconds.end()) >= slept);
  CHECK(samples.alone >= slept);
  CHECK(samples.other_alone >= slept);
  CHECK(samples.other_together >= slept);
  CHECK(fake().settings == std::vector<std::string>{"- - 8"});
  // The kernel is refused on every GPU, so the case is refused too, and the communicator is kept.
  what.kernel = "norm";
  what.bytes = 1 << 20;
  CHECK_THROWS_AS(run_overlap(machine.context, what, policy), Unsupported);
  CHECK(fake().aborted == 0);
  CHECK(fake().made == 4);
  what.kernel = "gemm";
  what.channels = 65;
  CHECK_THROWS_AS(run_overlap(machine.context, what, policy), Unsupported);
  what.channels = 8;
  fake().fails_rank = 2;
  fake().fails_after = 12;  // during the repetitions
  CHECK_THROWS_AS(run_overlap(machine.context, what, policy), std::runtime_error);
  CHECK(fake().aborted == 4);
}

TEST_CASE("the GPU that the session is on always takes part") {
  Machine machine(3);
  CHECK(machine.run(collective("all_gather", 2)).seconds.size() >= 5);
  CHECK(machine.run(collective("all_gather", 4)).seconds.size() >= 5);
}
