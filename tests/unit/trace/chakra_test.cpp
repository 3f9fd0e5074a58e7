// Chakra's execution traces: what the engine runs is read back equal, and what is no such trace is
// refused.
#include "stepcast/trace/chakra.h"

#include <fstream>

#include "catch.hpp"
#include "made_trace.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/capture/capture.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/text/document.h"
#include "stepcast/text/json_stream.h"
#include "stepcast/trace/profile.h"

using namespace stepcast;
using test::file_of;
using test::Folder;

namespace {

result::Report traced(const std::string& config) {
  forecast::Forecaster forecaster(text::data_directory());
  forecast::Options options;
  options.trace = true;
  return std::get<result::Report>(forecaster.forecast(input::load(config, {}).job, options));
}

std::filesystem::path written(const Folder& folder, const trace::ChakraTrace& trace) {
  const auto path = folder / "rank.et";
  OutputFile file(path);
  trace::write_chakra(trace, file);
  file.commit();
  return path;
}

std::string refused(const std::filesystem::path& file) {
  try {
    trace::read(file);
  } catch (const InputError& error) {
    return error.faults().front().message;
  }
  return "";
}

trace::ChakraTrace small() {
  trace::ChakraTrace out;
  out.version = "0.0.4";
  trace::ChakraNode gemm;
  gemm.id = 3, gemm.name = "gemm", gemm.type = trace::ChakraType::compute;
  gemm.duration = Time(5'000'001);
  trace::ChakraNode reduce;
  reduce.id = 7, reduce.name = "gradients", reduce.type = trace::ChakraType::collective;
  reduce.collective = trace::ChakraCollective::all_reduce;
  reduce.data = {3}, reduce.bytes = 1024, reduce.group = "data", reduce.thread = 1;
  reduce.duration = Time(2'000'000);
  out.nodes = {gemm, reduce};
  return out;
}

}  // namespace

TEST_CASE("chakra: what a captured program runs is read back equal, whole and with its bytes") {
  const capture::Capture captured =
      capture::read(STEPCAST_SOURCE_DIR "/tests/capture/recorded/mcore-tp8-pp2.jsonl.gz");
  job::Job on;
  on.cluster = input::network("dgx-h100", 2).cluster;
  forecast::Forecaster forecaster(text::data_directory());
  forecast::Options options;
  options.trace = true;
  const auto report = std::get<result::Report>(forecaster.forecast(captured, on, 0, options));
  const program::World& world = report.trace->world;
  REQUIRE(world.ranks.size() >= 2);  // both stages
  const Folder folder;
  for (std::uint32_t rank = 0; rank < world.ranks.size(); ++rank) {
    const trace::ChakraTrace given = trace::chakra_of(report, rank);
    CHECK(trace::read_chakra(written(folder, given)) == given);
    const capture::Rank& recorded = captured.ranks.at(world.ranks[rank].program);
    std::int64_t moved = 0;
    for (const trace::ChakraNode& node : given.nodes) {
      moved += node.type == trace::ChakraType::collective ? node.bytes : 0;
    }
    std::int64_t stated = 0;
    for (const capture::Task& task : recorded.tasks) {
      stated += task.kind == capture::TaskKind::collective ? task.bytes : 0;
    }
    CHECK(moved == stated);
  }
}

TEST_CASE("what the engine runs, written as Chakra's traces, is read back equal") {
  for (const char* config : {"llama8b-fsdp", "llama70b"}) {
    const result::Report report = traced(config);
    for (std::uint32_t rank = 0; rank < report.trace->world.ranks.size(); ++rank) {
      const Folder folder;
      const trace::ChakraTrace graph = trace::chakra_of(report, rank);
      CHECK(graph.nodes.size() >=
            report.trace->world.programs[report.trace->world.ranks[rank].program].tasks.size());
      CHECK(trace::read_chakra(written(folder, graph)) == graph);
    }
  }
}

TEST_CASE("nodes of a Chakra trace begin when what they name has ended") {
  if (!text::have_json_stream()) {
    return;
  }
  const Folder folder;
  trace::Trace events = trace::read(written(folder, small()));
  REQUIRE(events.events.size() == 2);
  CHECK(events.events[1].start == Time(5'000'001));
  trace::RankCalls calls;
  const result::TraceRank rank = trace::profile(events, calls);
  CHECK(rank.devices.at(0).share.compute == Time(5'000'001));
  CHECK(rank.devices.at(0).share.communication == Time(2'000'000));
  CHECK(rank.communication.at(0).operation == "all_reduce");
  CHECK(rank.communication.at(0).bytes == 1024);
}

TEST_CASE("Chakra's JSON is read") {
  if (!text::have_json_stream()) {
    return;
  }
  const Folder folder;
  const auto file = file_of(folder, "graph.json", R"({"workload_graph": [
    {"Id": 1, "Name": "aten::mm", "NodeType": 4, "ctrlDeps": [], "data_deps": [], "runtime": 9, "is_cpu_op": true},
    {"Id": 2, "Name": "ampere_sgemm_128x64_nn", "NodeType": 4, "ctrlDeps": [1], "data_deps": [1], "runtime": 30, "is_cpu_op": false},
    {"Id": 3, "Name": "ncclKernel_AllReduce_RING_LL", "NodeType": 7, "data_deps": [2], "runtime": 20, "is_cpu_op": false}]})");
  const trace::ChakraTrace graph = trace::read_chakra(file);
  REQUIRE(graph.nodes.size() == 3);
  CHECK(graph.nodes[1].data == std::vector<std::uint64_t>{1});
  const trace::Trace events = trace::read(file);
  REQUIRE(events.events.size() == 2);
  CHECK(events.events[0].start == Time(9'000'000));
  CHECK(events.events[1].start == Time(39'000'000));
}

TEST_CASE("Chakra traces that are cut, of another version, or something else") {
  if (!text::have_json_stream()) {
    return;
  }
  const Folder folder;
  std::ifstream in(written(folder, small()), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  const auto cut = file_of(folder, "cut.et", whole.substr(0, whole.size() - 5));
  const trace::Trace events = trace::read(cut);
  CHECK(events.events.size() == 1);
  CHECK(!events.remarks.empty());
  trace::ChakraTrace other = small();
  other.version = "9.1";
  CHECK(refused(written(folder, other)).find("schema 9.1; expected 0.0.4") != std::string::npos);
  CHECK(refused(file_of(folder, "v.json", R"({"version": "2", "workload_graph": [{"Id": 1}]})"))
            .find("schema 2") != std::string::npos);
  CHECK(refused(file_of(folder, "et.json", R"({"schema": "1.0.2-chakra.0.0.4", "nodes": []})"))
            .find("operators of the host") != std::string::npos);
  CHECK(!refused(file_of(folder, "x.bin", std::string("\x03\x0a\x01\x31\xff\xff", 6))).empty());
}
