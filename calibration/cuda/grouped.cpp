#include "grouped.h"

#include <array>

namespace stepcast::harness::cuda {
namespace {

constexpr int kStreams = 4;
static_assert(kStreams > 1);

struct Stream {
  Stream() { check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "cudaStreamCreate"); }
  ~Stream() { (void)cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t handle = nullptr;
};

struct Event {
  Event() { check(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming), "cudaEventCreate"); }
  ~Event() { (void)cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t handle = nullptr;
};

class Graph {  // an executable CUDA graph
 public:
  explicit Graph(cudaGraph_t graph) {
    const cudaError_t made = cudaGraphInstantiate(&handle_, graph, 0);
    (void)cudaGraphDestroy(graph);
    check(made, "cudaGraphInstantiate");
  }
  ~Graph() {
    if (handle_ != nullptr) {
      (void)cudaGraphExecDestroy(handle_);
    }
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  cudaGraphExec_t get() const { return handle_; }

 private:
  cudaGraphExec_t handle_ = nullptr;
};

}  // namespace

struct GroupedGemm::State {
  State(Context& context_, std::size_t workspace_) : context(context_) {
    for (Buffer& buffer : workspaces) {
      buffer = Buffer(workspace_);
    }
  }

  void enqueue(const GemmDescription& description, const cublasLtMatmulAlgo_t& algorithm,
               const GemmOperands& operands, int groups, int copy) {
    const int used = groups < kStreams ? groups : kStreams;
    check(cudaEventRecord(fork.handle, context.stream), "fork");
    for (int s = 0; s < used; ++s) {
      check(cudaStreamWaitEvent(streams[s].handle, fork.handle, 0), "fork");
    }
    for (int group = 0; group < groups; ++group) {
      const int s = group % kStreams;
      description.run(library_handle(context.gpu), algorithm, operands.a(copy, group),
                      operands.b(copy, group), operands.d(copy, group), workspaces[s].data(),
                      workspaces[s].size(), streams[s].handle);
    }
    for (int s = 0; s < used; ++s) {
      check(cudaEventRecord(joins[s].handle, streams[s].handle), "join");
      check(cudaStreamWaitEvent(context.stream, joins[s].handle, 0), "join");
    }
  }

  Context& context;
  std::array<Buffer, kStreams> workspaces;
  std::array<Stream, kStreams> streams;
  Event fork;
  std::array<Event, kStreams> joins;
  std::vector<std::unique_ptr<Graph>> graphs;  // one for each set of operands
};

GroupedGemm::GroupedGemm(Context& context, const GemmDescription& description,
                         const cublasLtMatmulAlgo_t& algorithm, const GemmOperands& operands,
                         int groups, std::size_t workspace)
    : state_(std::make_unique<State>(context, workspace)) {
  // Runs once without a graph: kernels are loaded on first use, which is not allowed during a
  // capture.
  state_->enqueue(description, algorithm, operands, groups, 0);
  check(cudaStreamSynchronize(context.stream), "grouped product");
  for (int copy = 0; copy < operands.copies(); ++copy) {
    check(cudaStreamBeginCapture(context.stream, cudaStreamCaptureModeThreadLocal), "capture");
    cudaGraph_t graph = nullptr;
    try {
      state_->enqueue(description, algorithm, operands, groups, copy);
    } catch (...) {
      // A stream that stays in capture mode would make every later case fail.
      if (cudaStreamEndCapture(context.stream, &graph) == cudaSuccess) {
        (void)cudaGraphDestroy(graph);
      }
      (void)cudaGetLastError();
      throw;
    }
    check(cudaStreamEndCapture(context.stream, &graph), "end of capture");
    state_->graphs.push_back(std::make_unique<Graph>(graph));
  }
}

GroupedGemm::~GroupedGemm() = default;

void GroupedGemm::launch(int copy) {
  check(cudaGraphLaunch(state_->graphs[static_cast<std::size_t>(copy)]->get(),
                        state_->context.stream),
        "cudaGraphLaunch");
}

}  // namespace stepcast::harness::cuda
