// Measures the cost of issuing work. LaunchCase defines what each name measures.
#include <stdexcept>

#include "launch_kernels.h"

namespace stepcast::harness::cuda {
namespace {

// Calls per batch. A stream accepts about a thousand calls before the host has to wait.
constexpr int kBatch = 256;
constexpr int kBatches = 16;  // per sample, which makes thousands of calls
// About as many kernels as a few layers have, forward and backward.
constexpr int kGraphKernels = 1000;
constexpr double kHold = 0.02;  // longer than the host takes to issue a batch

void synchronize(cudaStream_t stream) { check(cudaStreamSynchronize(stream), "synchronize"); }

// Host seconds of one call. Before each batch the stream is empty and one call has been made, since
// the first call after idling also wakes the device.
template <typename Call>
double host_time(cudaStream_t stream, Call&& call) {
  double total = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    synchronize(stream);
    call();
    const double start = host_seconds();
    for (int i = 0; i < kBatch; ++i) {
      call();
    }
    total += host_seconds() - start;
  }
  synchronize(stream);
  return total / (kBatches * kBatch);
}

// Device seconds of the work that `issue` enqueues. The stream is held until all of it is queued,
// and held longer if the host was too slow.
template <typename Issue>
double queued_time(cudaStream_t stream, Issue&& issue) {
  const Event start;
  const Event end;
  for (double hold = kHold; hold < 2; hold *= 4) {
    synchronize(stream);
    enqueue_hold(stream, hold);
    start.record(stream);
    issue();
    end.record(stream);
    const bool queued = !start.reached();
    synchronize(stream);
    if (queued) {
      return seconds_between(start, end);
    }
  }
  throw std::runtime_error("the host is too slow to keep a stream of empty kernels full");
}

class Graph {  // a graph of `kernels` empty kernels that depend on each other in a chain
 public:
  Graph(cudaStream_t stream, int kernels) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
    for (int i = 0; i < kernels; ++i) {
      enqueue_empty(stream);
    }
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph), "end capture");
    const cudaError_t made = cudaGraphInstantiate(&executable_, graph, 0);
    (void)cudaGraphDestroy(graph);
    check(made, "cudaGraphInstantiate");
    check(cudaGraphUpload(executable_, stream), "cudaGraphUpload");
    synchronize(stream);
  }
  ~Graph() { (void)cudaGraphExecDestroy(executable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(cudaStream_t stream) const {
    check(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

// The awaited event has not been reached yet, so that the stream really has to wait.
double wait_time(cudaStream_t stream) {
  const Stream other;
  const Event event(cudaEventDisableTiming);
  for (double hold = kHold; hold < 2; hold *= 4) {
    synchronize(stream);
    enqueue_hold(other, hold);
    event.record(other);
    check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
    const double start = host_seconds();
    for (int i = 0; i < kBatch; ++i) {
      check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
    }
    const double seconds = (host_seconds() - start) / kBatch;
    const bool pending = !event.reached();
    synchronize(other);
    synchronize(stream);
    if (pending) {
      return seconds;
    }
  }
  throw std::runtime_error("the host is too slow to wait for a pending event");
}

// Time from the end of issuing a short kernel until the host knows that it is finished.
double synchronize_time(cudaStream_t stream) {
  double total = 0;
  for (int i = 0; i < kBatch; ++i) {
    enqueue_empty(stream);
    const double start = host_seconds();
    synchronize(stream);
    total += host_seconds() - start;
  }
  return total / kBatch;
}

double graph_launch_time(cudaStream_t stream, const Graph& graph) {
  constexpr int kLaunches = 8;
  double total = 0;
  for (int i = 0; i < kLaunches; ++i) {
    synchronize(stream);
    const double start = host_seconds();
    graph.launch(stream);
    total += host_seconds() - start;
  }
  synchronize(stream);
  return total / kLaunches;
}

}  // namespace

Samples run_launch(Context& context, const interop::LaunchCase& what, const Policy& policy) {
  const Stream stream;
  const auto sampled = [&](const std::function<double()>& once) {
    return repeat(context, policy, once);
  };
  if (what.what == "launch") {
    return sampled([&] { return host_time(stream, [&] { enqueue_empty(stream); }); });
  }
  if (what.what == "gap") {
    return sampled([&] {
      return queued_time(stream,
                         [&] {
                           for (int i = 0; i < kBatch; ++i) {
                             enqueue_empty(stream);
                           }
                         }) /
             kBatch;
    });
  }
  if (what.what == "graph_launch" || what.what == "graph_kernel") {
    const Graph graph(stream, kGraphKernels);
    if (what.what == "graph_launch") {
      return sampled([&] { return graph_launch_time(stream, graph); });
    }
    return sampled(
        [&] { return queued_time(stream, [&] { graph.launch(stream); }) / kGraphKernels; });
  }
  if (what.what == "event_record") {
    const Event event(cudaEventDisableTiming);
    return sampled([&] { return host_time(stream, [&] { event.record(stream); }); });
  }
  if (what.what == "stream_wait") {
    return sampled([&] { return wait_time(stream); });
  }
  if (what.what == "synchronize") {
    return sampled([&] { return synchronize_time(stream); });
  }
  throw Unsupported("no measurement of launches named \"" + what.what + "\"");
}

}  // namespace stepcast::harness::cuda
