// Traces are read whole or as far as they are whole; what is something else is refused.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "made_trace.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/text/json_stream.h"
#include "stepcast/trace/profile.h"

using namespace stepcast;
using test::file_of;
using test::Folder;
using test::MadeTrace;

namespace {

namespace fs = std::filesystem;

const fs::path kExcerpts = fs::path(STEPCAST_SOURCE_DIR) / "tests/unit/trace/excerpts";

trace::Trace read_text(const std::string& text) {
  const Folder folder;
  return trace::read(file_of(folder, "made.json", text));
}

std::string refusal(const std::string& text) {
  try {
    read_text(text);
  } catch (const InputError& error) {
    return error.faults().front().message;
  }
  return "";
}

Time sum(const trace::Trace& read) {
  Time out{0};
  for (const trace::DeviceEvent& event : read.events) {
    out += event.duration;
  }
  return out;
}

// A time of a trace, in microseconds with at most three decimals, by another way than the reader's.
std::int64_t nanoseconds(const nlohmann::json& number) {
  return static_cast<std::int64_t>(std::llround(number.get<double>() * 1000));
}

bool communicates(const std::string& name) { return name.find("nccl") != std::string::npos; }

}  // namespace

TEST_CASE("totals by kind are the sums over the raw events") {
  if (!text::have_json_stream()) {
    return;
  }
  for (const char* name :
       {"a100-2ranks.json", "a100-16ranks.json", "v100-2ranks.json", "128ranks.json"}) {
    INFO(name);
    std::ifstream in(kExcerpts / name);
    const auto raw = nlohmann::json::parse(in);
    std::map<std::string, std::int64_t> expected, count;  // by category; ns
    for (const auto& event : raw["traceEvents"]) {
      const std::string cat = event.value("cat", "");
      if (cat == "kernel" || cat == "gpu_memcpy" || cat == "gpu_memset") {
        const std::string kind = cat == "kernel" && communicates(event["name"]) ? "nccl" : cat;
        expected[kind] += nanoseconds(event["dur"]);
        ++count[kind];
      }
    }
    trace::Trace read = trace::read(kExcerpts / name);
    CHECK(read.damaged == 0);
    CHECK(read.remarks.empty());
    trace::RankCalls calls;
    const result::TraceRank rank = trace::profile(read, calls);
    std::map<std::string, std::int64_t> found, found_count;
    std::int64_t in_steps = 0, in_streams = 0, of_names = 0, all = 0;
    for (const result::TraceDevice& device : rank.devices) {
      for (const result::TraceKind& kind : device.kinds) {
        const std::string cat = kind.kind == "communication"       ? "nccl"
                                : kind.kind == "memset"            ? "gpu_memset"
                                : kind.kind.rfind("copy_", 0) == 0 ? "gpu_memcpy"
                                                                   : "kernel";
        found[cat] += kind.time.count() / 1000;
        found_count[cat] += kind.count;
        all += kind.time.count();
      }
      for (const result::TraceStep& step : device.steps) {
        for (const result::TraceKind& kind : step.kinds) {
          in_steps += kind.time.count();
        }
      }
      for (const result::TraceKind& kind :
           device.outside ? device.outside->kinds : std::vector<result::TraceKind>()) {
        in_steps += kind.time.count();
      }
      for (const result::TraceStream& stream : device.streams) {
        in_streams += stream.time.count();
      }
      const result::TraceShare& s = device.share;
      CHECK(s.compute + s.communication + s.copy + s.host_bound + s.idle == s.span);
    }
    for (const result::TraceKernel& kernel : rank.kernels) {
      of_names += kernel.time.count();
    }
    CHECK(found == expected);
    CHECK(found_count == count);
    CHECK(in_steps == all);
    CHECK(in_streams == all);
    CHECK(of_names == all);
  }
}

TEST_CASE("what excerpts of real traces say of themselves is read") {
  if (!text::have_json_stream()) {
    return;
  }
  const trace::Trace nccl = trace::read(kExcerpts / "a100-2ranks.json");
  CHECK(nccl.rank == 0);
  CHECK(nccl.world_size == 2);
  CHECK(nccl.device == "NVIDIA A100-PG509-200");
  CHECK(nccl.nccl_version == "2.17.1");
  CHECK(nccl.steps.size() == 3);
  REQUIRE(!nccl.calls.empty());
  CHECK(nccl.calls[0].operation == "all_reduce");
  CHECK(nccl.calls[0].group == "0 default_pg");
  CHECK(nccl.calls[0].group_size == 2);
  const trace::Trace amd = trace::read(kExcerpts / "mi250-toy.json.gz");
  CHECK(amd.device == "AMD Radeon Graphics");
  CHECK(amd.streams.at(0).device == 2);
  CHECK(amd.events.size() == 16);
  CHECK(sum(amd) == Time(149'042'000));  // summed by hand over the text
  // Old traces have one thread of whole microseconds; kernels of one CUDA graph share its launch.
  CHECK(trace::read(kExcerpts / "128ranks.json").world_size == 128);
}

TEST_CASE("times are exact, in microseconds or nanoseconds") {
  if (!text::have_json_stream()) {
    return;
  }
  const auto at = [](const char* ts, const char* dur) {
    return fmt::format(
        R"({{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {}, "dur": {}}})",
        ts, dur);
  };
  const trace::Trace fractions =
      read_text("{\"traceEvents\": [" + at("4458676522690.655", "0.001") + "," +
                at("4458676522691.656", "12.5") + "]}");
  CHECK(fractions.events.at(0).duration == Time(1'000));
  CHECK(fractions.events[1].start - fractions.events[0].start == Time(1'001'000));
  const trace::Trace nano =
      read_text("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [" +
                at("1740461679479712345", "1500") + "," + at("1740461679479713345", "7") + "]}");
  CHECK(nano.nanoseconds);
  CHECK(nano.events[0].duration == Time(1'500'000));
  CHECK(nano.events[1].start - nano.events[0].start == Time(1'000'000));
  // The rate that is stated for a copy says that its 20000 are nanoseconds.
  const trace::Trace relative = read_text(
      R"x({"traceEvents": [{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7,
"ts": 500, "dur": 20000, "args": {"bytes": 200000, "memory bandwidth (GB/s)": 10.0}}]})x");
  CHECK(relative.nanoseconds);
  CHECK(relative.events.at(0).duration == Time(20'000'000));
}

TEST_CASE("a trace that is cut short is used as far as it is whole") {
  if (!text::have_json_stream()) {
    return;
  }
  MadeTrace made;
  for (int i = 0; i < 20; ++i) {
    made.kernel("gemm", 10 * i, 5);
  }
  const std::string text = made.text();
  const trace::Trace whole = read_text(text);
  CHECK(whole.events.size() == 20);
  CHECK(whole.remarks.empty());
  const trace::Trace cut = read_text(text.substr(0, text.size() / 2));
  CHECK(cut.events.size() >= 9);
  CHECK(cut.events.size() < 20);
  CHECK(cut.remarks.size() == 1);
  for (std::size_t i = 0; i < cut.events.size(); ++i) {
    CHECK(cut.events[i].start == whole.events[i].start);
  }
}

TEST_CASE("damage costs the events that it is in, and no others") {
  if (!text::have_json_stream()) {
    return;
  }
  MadeTrace made;
  for (int i = 0; i < 20; ++i) {
    made.kernel("gemm", 10 * i, 5);
  }
  const char* const faults[] = {
      R"({"ph": "X", "cat": "kernel", "name": "no end, "ts": 1, "dur": 2})",     // a quote is lost
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "args": {"a": 1})",  // a bracket is
                                                                                 // lost
      R"({"ph": "X", "cat": "kernel", "name": "k" "ts": 1})",                    // a comma is lost
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": now, "dur": 2})",       // a time is none
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 12, "dur": -3})",
      "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"\xff\xfe\", \"ts\": 12, \"dur\": 3}",
      "#!?",
  };
  for (const char* fault : faults) {
    INFO(fault);
    MadeTrace damaged = made;
    damaged.events.insert(damaged.events.begin() + 10, fault);
    const trace::Trace read = read_text(damaged.text());
    CHECK(read.events.size() == 20);
    CHECK(read.damaged >= 1);
    CHECK(!read.remarks.empty());
  }
}

TEST_CASE("a compressed trace that is cut short is used as far as it goes") {
  if (!text::have_json_stream()) {
    return;
  }
  std::ifstream in(kExcerpts / "mi250-toy.json.gz", std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  const Folder folder;
  const trace::Trace read = trace::read(
      file_of(folder, "cut.json.gz", bytes.str().substr(0, bytes.str().size() * 9 / 10)));
  CHECK(!read.remarks.empty());
  CHECK(!read.events.empty());
}

TEST_CASE("a profile of host work alone is read, and said to be one") {
  if (!text::have_json_stream()) {
    return;
  }
  const trace::Trace read = read_text(
      R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 5, "dur": 2}]})");
  CHECK(read.events.empty());
  REQUIRE(read.remarks.size() == 1);
  CHECK_THAT(read.remarks[0], ContainsSubstring("host alone"));
}

TEST_CASE("files that are no trace are refused with what they are") {
  if (!text::have_json_stream()) {
    return;
  }
  CHECK_THAT(refusal(""), ContainsSubstring("is empty"));
  CHECK_THAT(refusal("\x0a\x10 text"), ContainsSubstring("no JSON document"));
  CHECK_THAT(refusal(R"({"schemaVersion": 2, "traceEvents": []})"),
             ContainsSubstring("schemaVersion 2; expected 1"));
  CHECK_THAT(refusal(R"({"a": {"traceEvents": []}, "b": [1, 2]})"),
             ContainsSubstring("no list traceEvents"));
  CHECK_THAT(refusal(R"({"workload_graph": [{"Name": "mm"}]})"), ContainsSubstring("Chakra"));
  CHECK_THAT(refusal(R"({"schema": "1.0.2-chakra.0.0.4", "pid": 1, "nodes": []})"),
             ContainsSubstring("Chakra"));
  CHECK_THAT(refusal(std::string("^\x12\x10\x0a\x06schema\xea\x01\x05") + "1.0.1"),
             ContainsSubstring("Chakra"));
  CHECK_THROWS_AS(trace::read("/no/such/trace.json"), InputError);
}

TEST_CASE("several devices of one trace are kept apart") {
  if (!text::have_json_stream()) {
    return;
  }
  MadeTrace made;
  made.kernel("gemm", 0, 10);
  made.device = 3;
  made.kernel("gemm", 5, 20);
  trace::Trace read = read_text(made.text());
  trace::RankCalls calls;
  const result::TraceRank rank = trace::profile(read, calls);
  REQUIRE(rank.devices.size() == 2);
  CHECK(rank.devices[0].device == 0);
  CHECK(rank.devices[0].share.span == Time(10'000'000));
  CHECK(rank.devices[1].device == 3);
  CHECK(rank.devices[1].share.compute == Time(20'000'000));
}
