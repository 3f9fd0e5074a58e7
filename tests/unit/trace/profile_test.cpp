// Where a made-up device's time goes, moment by moment; which operator a kernel belongs to; who
// waits.
#include "stepcast/trace/profile.h"

#include <fmt/format.h>

#include <map>

#include "catch.hpp"
#include "made_trace.h"
#include "profiled.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/text/json_stream.h"

using namespace stepcast;
using test::file_of;
using test::Folder;
using test::kReduce;
using test::MadeTrace;
using test::profiled;

namespace {

constexpr Time us(std::int64_t n) { return Time(n * 1'000'000); }

Time sum(const result::TraceShare& s) {
  return s.compute + s.communication + s.copy + s.host_bound + s.idle;
}

// Rank `rank` of two, whose all-reduce takes `duration`.
std::string rank_text(int rank, double duration, const std::string& ranks = "[0, 1]") {
  MadeTrace made;
  made.head = "\"distributedInfo\": {\"rank\": " + std::to_string(rank) + ", \"world_size\": 2},\n";
  made.step(1, 0, 100).kernel(
      kReduce, 20, duration, 9, 5,
      ", \"Collective name\": \"allreduce\", \"In msg nelems\": 1000, \"Out msg nelems\": 1000, "
      "\"Group size\": 2, "
      "\"dtype\": \"BFloat16\", \"Process Group Name\": \"7\", \"Process Group Ranks\": \"" +
          ranks + "\"");
  return made.text();
}

}  // namespace

TEST_CASE("every moment of a device is counted once") {
  if (!text::have_json_stream()) {
    return;
  }
  // compute 0-10, communication 5-20, idle 20-40 (the next is launched at 30), compute 40-50
  MadeTrace made;
  made.kernel("gemm", 0, 10, 7, 0).kernel(kReduce, 5, 15, 9, 1).kernel("gemm", 40, 10, 7, 30);
  const result::TraceRank rank = profiled(made.text());
  REQUIRE(rank.devices.size() == 1);
  const result::TraceShare& share = rank.devices[0].share;
  CHECK(share.span == us(50));
  CHECK(share.compute == us(20));
  CHECK(share.communication == us(10));
  CHECK(share.overlapped == us(5));
  CHECK(share.host_bound == us(10));
  CHECK(share.idle == us(10));
  CHECK(sum(share) == share.span);
  REQUIRE(rank.communication.size() == 1);
  CHECK(rank.communication[0].time == us(15));
  CHECK(rank.communication[0].exposed == us(10));
  CHECK(rank.communication[0].group == "stream 9");
}

TEST_CASE("a kernel belongs to the step in which it was launched") {
  if (!text::have_json_stream()) {
    return;
  }
  MadeTrace made;
  made.step(1, 0, 50).step(2, 50, 50);
  made.kernel("gemm", 10, 10, 7, 5)
      .kernel("gemm", 60, 10, 7, 40)    // launched in the first step, runs during the second
      .kernel("gemm", 80, 5, 7, 55)     // second
      .kernel("gemm", 120, 5, 7, 110);  // after both
  const result::TraceRank rank = profiled(made.text());
  const result::TraceDevice& device = rank.devices.at(0);
  REQUIRE(device.steps.size() == 2);
  CHECK(device.steps[0].kinds.at(0).time == us(20));
  CHECK(device.steps[0].share.span == us(70));  // from its first kernel to the second step's first
  CHECK(device.steps[1].kinds.at(0).time == us(5));
  CHECK(device.steps[1].share.span == us(5));
  REQUIRE(device.outside);
  CHECK(device.outside->kinds.at(0).time == us(5));
  CHECK(device.steps[0].share.span + device.steps[1].share.span + device.outside->share.span ==
        device.share.span);
}

TEST_CASE("products get the shapes of the innermost operator around their launch") {
  if (!text::have_json_stream()) {
    return;
  }
  MadeTrace made;
  made.op("aten::addmm", 0, 50, "[[8], [64, 16], [16, 8]]", R"(["float", "float", "float"])")
      .op("aten::mm", 10, 10, "[[4096, 1024], [1024, 512]]",
          R"(["c10::BFloat16", "c10::BFloat16"])")
      .kernel("gemm_a", 100, 7, 7, 15)
      .kernel("splitKreduce_kernel", 107, 1, 7, 16)
      .kernel("ampere_sgemm_tf32_b", 110, 5, 7, 30)
      .kernel("gemm_c", 120, 3, 7, 60);
  const result::TraceRank rank = profiled(made.text());
  REQUIRE(rank.operators.size() == 2);
  const result::TraceOperator& mm = rank.operators[0];
  CHECK(mm.name == "aten::mm");
  CHECK(mm.time == us(8));  // with the reduction of its parts
  CHECK(mm.count == 1);
  CHECK(mm.dtype == "bf16");
  REQUIRE(mm.product);
  CHECK(mm.product->m == 4096);
  CHECK(mm.product->n == 512);
  CHECK(mm.product->k == 1024);
  CHECK(rank.operators[1].product->m == 64);
  CHECK(rank.operators[1].dtype == "tf32");
  CHECK(rank.without_shapes == us(3));
  CHECK(rank.kernels_without_shapes.at(0).name == "gemm_c");
}

TEST_CASE("the rank that arrives last waits for nobody, the others for it") {
  if (!text::have_json_stream()) {
    return;
  }
  const Folder folder;
  const auto profile = trace::profile_files(
      {file_of(folder, "0.json", rank_text(0, 50)), file_of(folder, "1.json", rank_text(1, 20))});
  REQUIRE(profile.ranks.size() == 2);
  const auto& first = profile.ranks[0].communication.at(0);
  const auto& second = profile.ranks[1].communication.at(0);
  CHECK(first.operation == "all_reduce");
  CHECK(first.group_size == 2);
  CHECK(first.bytes == 2000);
  CHECK(first.compared == 1);
  CHECK(first.waiting == us(30));
  CHECK(first.time - first.waiting == second.time);
  CHECK(second.waiting == us(0));
  CHECK(profile.notes.empty());
}

TEST_CASE("ranks of different groups are not compared, nor is one rank twice") {
  if (!text::have_json_stream()) {
    return;
  }
  const Folder folder;
  const auto apart = trace::profile_files({file_of(folder, "0.json", rank_text(0, 50, "[0, 2]")),
                                           file_of(folder, "1.json", rank_text(1, 20, "[1, 3]"))});
  CHECK(apart.ranks[0].communication.at(0).compared == 0);
  CHECK(apart.notes.size() == 1);
  const auto same = file_of(folder, "2.json", rank_text(0, 20));
  CHECK_THROWS_AS(trace::profile_files({file_of(folder, "0.json", rank_text(0, 50)), same}),
                  InputError);
}

TEST_CASE("a kernel belongs to the phase in which the host launched it") {
  if (!text::have_json_stream()) {
    return;
  }
  MadeTrace made;
  made.step(1, 0, 100).step(2, 100, 100);
  const auto host = [&](const char* category, const char* name, double start, double duration) {
    made.events.push_back(fmt::format(
        R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 1, "tid": 1, "ts": {}, "dur": {}}})",
        category, name, 1000000 + start, duration));
  };
  host("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 20, 30);
  host("cpu_op", "autograd::engine::evaluate_function: AddBackward0", 22, 2);  // within the other
  host("user_annotation", "Optimizer.step#AdamW.step", 60, 10);
  made.kernel("gemm", 0, 10, 7, 1).kernel("gemm", 30, 20, 7, 45).kernel("relu", 50, 5, 7, 23);
  made.kernel("relu", 70, 7, 7, 61).kernel(kReduce, 31, 14, 9, 46).kernel("gemm", 110, 5, 7, 105);
  const result::TraceRank rank = profiled(made.text());
  std::map<std::string, std::pair<Time, Time>> found;  // with what runs beside communication
  for (const result::TracePhase& phase : rank.devices.at(0).steps.at(0).phases) {
    found[phase.phase + " " + phase.kind] = {phase.time, phase.beside};
  }
  CHECK(found.size() == 4);
  CHECK(found["forward gemm"] == std::pair(us(10), us(0)));
  CHECK(found["backward gemm"] == std::pair(us(20), us(14)));
  CHECK(found["backward memory_bound"] == std::pair(us(5), us(0)));
  CHECK(found["optimizer optimizer"] == std::pair(us(7), us(0)));
  CHECK(rank.communication.at(0).beside_backward == us(14));
  CHECK(rank.communication.at(0).beside_forward == us(0));
}

TEST_CASE("collectives are summed by size; of ranks, the last to arrive shows the transfer") {
  if (!text::have_json_stream()) {
    return;
  }
  const Folder folder;
  const auto both = trace::profile_files(
      {file_of(folder, "0.json", rank_text(0, 30)), file_of(folder, "1.json", rank_text(1, 12))});
  for (const result::TraceRank& rank : both.ranks) {
    REQUIRE(rank.collectives.size() == 1);
    const result::TraceCollective& row = rank.collectives[0];
    CHECK(row.bytes == 2000);
    CHECK(row.ranks == std::vector<int>{0, 1});
    CHECK(row.compared);
    CHECK(row.transfer == us(12));
  }
  const auto cut = profiled(rank_text(0, 30, "[0, ..., 5, 9]"));
  CHECK(cut.collectives.at(0).ranks.empty());
}
