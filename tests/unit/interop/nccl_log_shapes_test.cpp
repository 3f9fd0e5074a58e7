// Tables disturbed by terminals, launchers and NCCL's own messages, and the other facts of a log.
// The rows are from genuine logs (nccl_logs/); the disturbances are like those that such tools
// cause.
#include <unistd.h>

#include <filesystem>

#include "catch.hpp"
#include "nccl_logs.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/interop/nccl_log.h"
#include "support/slurp.h"

namespace {

using namespace stepcast;
namespace fs = std::filesystem;
using interop::CollectiveLog;
using test::kNcclLogs;
using test::slurp;

CollectiveLog parse_log(const std::string& text) { return interop::parse_nccl_log(text, "x.log"); }

std::string first_fault_of(const std::string& text) {
  try {
    parse_log(text);
  } catch (const InputError& error) {
    return to_string(error.faults().front());
  }
  return "none";
}

void check_same(const CollectiveLog& a, const CollectiveLog& b) {
  REQUIRE(a.runs.size() == b.runs.size());
  for (std::size_t r = 0; r < a.runs.size(); ++r) {
    CHECK(a.runs[r].ranks_per_node == b.runs[r].ranks_per_node);
    REQUIRE(a.runs[r].points.size() == b.runs[r].points.size());
    for (std::size_t i = 0; i < a.runs[r].points.size(); ++i) {
      CHECK(a.runs[r].points[i].collective == b.runs[r].points[i].collective);
      CHECK(a.runs[r].points[i].bytes == b.runs[r].points[i].bytes);
      CHECK(a.runs[r].points[i].seconds == b.runs[r].points[i].seconds);
      CHECK(a.runs[r].points[i].wrong == b.runs[r].points[i].wrong);
    }
  }
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

constexpr const char* kHeader =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time "
    "  algbw   busbw #wrong\n";

}  // namespace

TEST_CASE("Windows line ends and terminal colours change nothing") {
  for (const char* name : {"no-root.txt", "markdown-indented.txt", "five-collectives.txt"}) {
    const std::string text = slurp(kNcclLogs / name);
    const auto plain = parse_log(text);
    check_same(parse_log(with(text, "\n", "\r\n")), plain);
    check_same(parse_log(with(text, "float", "\x1b[1;32mfloat\x1b[0m")), plain);
    check_same(parse_log(with(text, "\n", "\n\x1b[2K")), plain);
  }
}

TEST_CASE("messages of NCCL in the middle of a row, which nccl-tests prints in pieces") {
  const std::string text = slurp(kNcclLogs / "markdown-indented.txt");
  const auto plain = parse_log(text);
  const std::string note = "nid005471:204199:204230 [0] NCCL INFO Channel 00/1 : 0[0] -> 1[1]\n";
  // Directly after the root, two messages one after the other; the times are on a separate line.
  std::string torn = text;
  const std::size_t row = torn.find("float     sum      -1  ");
  REQUIRE(row != std::string::npos);
  torn.insert(row + 21, note + note);
  check_same(parse_log(torn), plain);
  // A message between the two halves of the row as well.
  const std::size_t half = torn.find("      0", torn.find("-1nid")) + 7;
  torn.insert(half, note);
  check_same(parse_log(torn), plain);
  // Messages after a complete row and on separate lines.
  check_same(parse_log(with(text, "0\n", "0" + note)), plain);
  check_same(
      parse_log(with(text, "sum      -1  ", "sum      -1node1:12:34 [3] NCCL WARN slow\n   ")),
      plain);
  // A row that is never completed is a fault at its first line.
  const auto lines =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(row), '\n');
  CHECK(first_fault_of(text.substr(0, row + 21) + note)
            .rfind("x.log:" + std::to_string(lines + 1) + ":1: error: the row is cut short", 0) ==
        0);
}

TEST_CASE("several element types in one table, and time stamps behind rows") {
  const auto read = parse_log(
      std::string("# nccl-tests version 2.17.4 nccl-headers=22807 nccl-library=22902\n"
                  "# Collective test starting: all_reduce_perf\n") +
      kHeader +
      "        1024           256     float     sum      -1    20.10    0.05    0.10      0  "
      "  20.00  "
      "  0.05    0.10      0  2026-01-28 14:50:17\n"
      "        1024           512      half     sum      -1    21.10    0.05    0.09      3  "
      "  21.00  "
      "  0.05    0.09      0  2026-01-28 14:50:18\n"
      "        1024           512  bfloat16     sum      -1    22.10    0.05    0.09   -nan  "
      "  22.00  "
      "  0.05    0.09   -nan  2026-01-28 14:50:19\n");
  REQUIRE(read.runs.size() == 1);
  const auto& run = read.runs[0];
  CHECK(run.nccl_version == "2.29.2");
  CHECK(run.date == "2026-01-28");
  REQUIRE(run.points.size() == 6);
  CHECK(run.points[0].type == "float");
  CHECK(run.points[2].type == "half");
  CHECK(run.points[4].type == "bfloat16");
  CHECK(run.points[0].wrong == 0.0);
  CHECK(run.points[2].wrong == 3.0);
  CHECK_FALSE(run.points[4].wrong);
  CHECK_FALSE(run.points[5].wrong);
  CHECK(run.points[0].collective == "all_reduce");
}

TEST_CASE("GPUs, NCCL's version and what was forced upon it, as far as the log states them") {
  const std::string text = slurp(kNcclLogs / "markdown-indented.txt");
  const auto plain = parse_log(text).runs.at(0);
  CHECK(plain.devices == std::vector<std::string>{"NVIDIA GH200 120GB"});
  CHECK(plain.nccl_version.empty());
  CHECK(plain.algorithm.empty());
  const auto told =
      parse_log("mpirun -x NCCL_ALGO=Ring -x NCCL_PROTO=\"LL128\" all_reduce_perf\n" +
                with(text, "    #                                                              out",
                     "NCCL version 2.26.6+cuda12.8\n#       out"))
          .runs.at(0);
  CHECK(told.algorithm == "ring");
  CHECK(told.protocol == "ll128");
  CHECK(told.nccl_version == "2.26.6+cuda12.8");
  // With a list NCCL still chooses among several: nothing is forced. A variable that one command
  // set does not apply to the next.
  CHECK(parse_log("NCCL_ALGO=Ring,Tree\n" + text).runs.at(0).algorithm.empty());
  const auto twice = parse_log("mpirun -x NCCL_ALGO=Tree all_reduce_perf\n" + text + text);
  REQUIRE(twice.runs.size() == 2);
  CHECK(twice.runs[0].algorithm == "tree");
  CHECK(twice.runs[1].algorithm.empty());
}

TEST_CASE("a row whose bandwidth is not size over time is refused") {
  const std::string text = slurp(kNcclLogs / "no-root.txt");
  // 536870912 bytes in 160234 us are 3.35 GB/s.
  CHECK(first_fault_of(with(text, "160234", "16023")) ==
        "x.log:16:1: error: the row contradicts itself: 536870912 bytes in 16023 us are not 3.35 "
        "GB/s; expected size, count, type, redop, root, time, algbw, busbw and #wrong");
  CHECK(first_fault_of(std::string(kHeader) +
                       "1024 256 float sum -1 inf 0.00 0.00 0 1.0 0.00 0.00 0\n")
            .rfind("x.log:2:1: error: the row is cut short", 0) == 0);
  CHECK(first_fault_of(with(kHeader, "  time", "cputime"))
            .rfind("x.log:1:1: error: the table gives the host's time", 0) == 0);
}

TEST_CASE("a long list of devices is read in linear time") {
  // One host and one device are listed very often, together with many that are not: copies times
  // devices would be 10^10.
  std::string text;
  constexpr int kEach = 100'000;
  for (int i = 0; i < 2 * kEach; ++i) {
    text += "# Rank " + std::to_string(i) + " Pid 1 on a device " +
            std::to_string(i < kEach ? i : 0) + " [0x00] GPU\n";
  }
  text += kHeader;
  text += "8 2 float sum -1 20.1 0.00 0.00 0 20.0 0.00 0.00 0\n";
  const auto run = parse_log(text).runs.at(0);
  REQUIRE(run.ranks_per_node.size() == kEach + 1);
  CHECK(run.ranks_per_node[0] == kEach);
  CHECK(run.ranks_per_node[1] == 1);
}
