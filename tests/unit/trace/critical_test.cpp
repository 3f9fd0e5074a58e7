// Critical paths of made-up devices, whose answers are known.
#include <fmt/format.h>

#include <map>

#include "catch.hpp"
#include "made_trace.h"
#include "profiled.h"
#include "stepcast/text/json_stream.h"
#include "stepcast/trace/profile.h"

using namespace stepcast;
using test::kReduce;
using test::MadeTrace;
using test::profiled;

namespace {

using Path = std::map<std::string, std::int64_t>;  // microseconds by kind

const char* const kGather = "ncclDevKernel_AllGather_RING_LL(int)";

Path path_of(const std::vector<result::TracePath>& rows) {
  Path out;
  for (const result::TracePath& row : rows) {
    out[row.kind] = row.time.count() / 1'000'000;
  }
  return out;
}

Path whole_path(const MadeTrace& made) { return path_of(profiled(made).devices.at(0).path); }

MadeTrace& call(MadeTrace& made, const char* name, double start, double duration) {
  made.events.push_back(fmt::format(
      R"({{"ph": "X", "cat": "cuda_runtime", "name": "{}", "pid": 1, "tid": 1, "ts": {}, "dur": {}, "args": {{"correlation": 1}}}})",
      name, 1000000 + start, duration));
  return made;
}

}  // namespace

TEST_CASE("kernels of one stream are the path, with the gaps between them") {
  if (!text::have_json_stream()) {
    return;
  }
  MadeTrace made;
  made.kernel("gemm", 0, 10, 7, -2).kernel("relu", 10, 5, 7, -1).kernel("gemm", 17, 8, 7, 0);
  CHECK(whole_path(made) == Path{{"gemm", 18}, {"elementwise", 5}, {"gap", 2}});
}

TEST_CASE("of communication beside kernels only what is waited for is on the path") {
  if (!text::have_json_stream()) {
    return;
  }
  // The first all-gather ends before the kernel beside it does; for the second, a kernel waits.
  MadeTrace made;
  made.kernel(kGather, 0, 8, 9, -5).kernel("gemm", 0, 20, 7, -4);
  made.kernel(kGather, 20, 30, 9, 1).kernel("relu", 20, 10, 7, 2).kernel("gemm", 50, 10, 7, 3);
  const result::TraceDevice device = profiled(made).devices.at(0);
  CHECK(path_of(device.path) == Path{{"all_gather", 30}, {"gemm", 30}});
  for (const result::TracePath& row : device.path) {
    CHECK(row.count == (row.kind == "gemm" ? 2 : 1));
    CHECK(row.all == (row.kind == "gemm" ? Time(30'000'000) : Time(38'000'000)));
  }
  REQUIRE(device.path_kernels.size() == 2);
  CHECK(device.path_kernels[0].time == device.path_kernels[1].time);
}

TEST_CASE("a kernel behind another on its stream followed that, whatever ended beside it") {
  if (!text::have_json_stream()) {
    return;
  }
  MadeTrace made;
  made.kernel(kReduce, 0, 51, 9, -5).kernel("gemm", 0, 50, 7, -4).kernel("relu", 52, 8, 7, 1);
  CHECK(whole_path(made) == Path{{"gemm", 50}, {"gap", 2}, {"elementwise", 8}});
}

TEST_CASE("where the device waits for launches the host is on the path, and kernels are not") {
  if (!text::have_json_stream()) {
    return;
  }
  // The host issues all kernels without waiting: shorter kernels would end the step no sooner.
  MadeTrace made;
  made.kernel("gemm", 5, 10, 7, 0).kernel("gemm", 35, 10, 7, 30).kernel("gemm", 65, 10, 7, 60);
  CHECK(whole_path(made) == Path{{"host", 55}, {"gap", 5}, {"gemm", 10}});
}

TEST_CASE("the host's part of a path begins where it had last waited for the device") {
  if (!text::have_json_stream()) {
    return;
  }
  MadeTrace made;
  made.kernel("gemm", 0, 100, 7, -5).kernel(kReduce, 100, 40, 9, -4);
  call(made, "cudaStreamSynchronize", 20, 122);  // returns at 142, 2 us after the all-reduce
  made.kernel("multi_tensor_apply_kernel", 165, 10, 7, 160);
  CHECK(whole_path(made) ==
        Path{{"gemm", 100}, {"all_reduce", 40}, {"host", 20}, {"gap", 5}, {"optimizer", 10}});
  // A call within which nothing ended did not wait.
  MadeTrace idle;
  idle.kernel("gemm", 0, 100, 7, -5);
  call(idle, "cudaStreamSynchronize", 120, 5);
  idle.kernel("gemm", 165, 10, 7, 160);
  CHECK(whole_path(idle) == Path{{"host", 160}, {"gap", 5}, {"gemm", 10}});
}

TEST_CASE("a host that launches nothing until a kernel has ended waited for it") {
  if (!text::have_json_stream()) {
    return;
  }
  // The host reads what the exchange wrote to its memory, while the other stream is busy.
  const char* const notify = "void deep_ep::internode::notify_dispatch<false, 8>(int const*)";
  const char* const dispatch = "void deep_ep::internode::dispatch<false, 8>(int const*)";
  MadeTrace made;
  made.kernel("gemm", 0, 100, 7, 0).kernel("gemm", 100, 1100, 7, 1);
  made.kernel(notify, 0, 1000, 9, 2).kernel(dispatch, 1025, 500, 9, 1020);
  CHECK(whole_path(made) == Path{{"notify", 1000}, {"host", 20}, {"gap", 5}, {"dispatch", 500}});
  // One that launches it later than a tenth of its pause did something else.
  MadeTrace slow;
  slow.kernel("gemm", 0, 100, 7, 0).kernel(notify, 0, 1000, 9, 2).kernel("relu", 1305, 50, 7, 1300);
  CHECK(whole_path(slow) == Path{{"host", 1300}, {"gap", 5}, {"elementwise", 50}});
  // Nor did it wait for a kernel behind which others of its stream were launched before.
  MadeTrace ahead;
  ahead.kernel("gemm", 0, 995, 7, 0).kernel("relu", 995, 1000, 7, 1);
  ahead.kernel(dispatch, 1005, 1500, 9, 1000);
  CHECK(whole_path(ahead) == Path{{"host", 1000}, {"gap", 5}, {"dispatch", 1500}});
}

TEST_CASE("each step has a path that fills it") {
  if (!text::have_json_stream()) {
    return;
  }
  MadeTrace made;
  made.step(1, 0, 100).step(2, 100, 100);
  made.kernel("gemm", 10, 50, 7, 5).kernel(kGather, 60, 48, 9, 6);
  made.kernel("gemm", 108, 60, 7, 101).kernel("relu", 168, 12, 7, 102);
  const result::TraceDevice device = profiled(made).devices.at(0);
  REQUIRE(device.steps.size() == 2);
  CHECK(path_of(device.steps[0].path) == Path{{"gemm", 50}, {"all_gather", 48}});
  CHECK(path_of(device.steps[1].path) == Path{{"gemm", 60}, {"elementwise", 12}});
  CHECK(path_of(device.path) == Path{{"gemm", 110}, {"all_gather", 48}, {"elementwise", 12}});
  REQUIRE(device.timeline);
  REQUIRE(device.timeline->path.size() == 2);  // of the second step
  CHECK(device.timeline->path.front().kind == "products");
  CHECK(device.timeline->path.back().longest == "relu");
}

TEST_CASE("events without a length lead no path round") {
  if (!text::have_json_stream()) {
    return;
  }
  MadeTrace made;
  for (int i = 0; i < 4; ++i) {
    made.kernel("gemm", 10, 0, 7 + i % 2).kernel("relu", 10, 0, 7 + i % 2, 10);
  }
  made.kernel("gemm", 0, 10).kernel("relu", 10, 5);
  CHECK(whole_path(made) == Path{{"gemm", 10}, {"elementwise", 5}});
}
