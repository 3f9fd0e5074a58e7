// Genuine nccl-tests output in every known format, and text that is no such output.
#include "stepcast/interop/nccl_log.h"

#include <unistd.h>

#include <filesystem>
#include <map>

#include "catch.hpp"
#include "nccl_logs.h"
#include "stepcast/base/diagnostics.h"
#include "support/folder.h"
#include "support/slurp.h"

using stepcast::test::Folder;
using stepcast::test::slurp;
namespace {

using namespace stepcast;
namespace fs = std::filesystem;
using interop::CollectiveLog;
using test::kNcclLogs;

CollectiveLog log(const std::string& name) { return interop::read_collectives(kNcclLogs / name); }

void check_point(const interop::CollectivePoint& p, const std::string& collective,
                 std::int64_t bytes, double microseconds, bool in_place, int line) {
  CHECK(p.collective == collective);
  CHECK(p.bytes == bytes);
  CHECK(p.seconds == Approx(microseconds * 1e-6));
  CHECK(p.in_place == in_place);
  CHECK(p.line == line);
}

std::string fault_of(const std::string& text) {
  try {
    interop::parse_nccl_log(text, "x.log");
  } catch (const InputError& error) {
    REQUIRE(error.faults().size() == 1);
    return to_string(error.faults().front());
  }
  return "none";
}

}  // namespace

TEST_CASE("2020: all_gather without redop and root is known by its columns") {
  const auto read = log("no-redop-no-root.txt");
  REQUIRE(read.runs.size() == 1);
  CHECK(read.runs[0].ranks_per_node == std::vector<int>{8});
  REQUIRE(read.runs[0].points.size() == 14);  // rows of size 0 are left out
  check_point(read.runs[0].points[0], "all_gather", 32, 35.03, false, 19);
  check_point(read.runs[0].points[1], "all_gather", 32, 34.15, true, 19);
  check_point(read.runs[0].points.back(), "all_gather", 8589934592, 32669, true, 25);
}

TEST_CASE("2019: all_reduce without root, on four hosts of one GPU") {
  const auto read = log("no-root.txt");
  REQUIRE(read.runs.size() == 1);
  CHECK(read.runs[0].ranks_per_node == std::vector<int>{1, 1, 1, 1});
  REQUIRE(read.runs[0].points.size() == 10);
  check_point(read.runs[0].points[0], "all_reduce", 8192, 298.7, false, 12);
  check_point(read.runs[0].points[8], "all_reduce", 536870912, 160234, false, 16);
}

TEST_CASE("launchers' prefixes before every line") {
  const auto tag = log("mpirun-tag.txt");
  REQUIRE(tag.runs.size() == 1);
  CHECK(tag.runs[0].ranks_per_node.empty());
  REQUIRE(tag.runs[0].points.size() == 12);
  check_point(tag.runs[0].points[0], "all_reduce", 8, 12.90, false, 5);
  check_point(tag.runs[0].points[11], "all_reduce", 17179869184, 62200, true, 10);

  const auto rank = log("mpirun-rank.txt");
  REQUIRE(rank.runs.size() == 1);
  REQUIRE(rank.runs[0].points.size() == 12);
  check_point(rank.runs[0].points[0], "all_reduce", 8, 164.3, false, 5);

  const auto stat = log("stat-tag.txt");
  REQUIRE(stat.runs.size() == 1);
  CHECK(stat.runs[0].ranks_per_node == std::vector<int>{8});
  REQUIRE(stat.runs[0].points.size() == 10);
  check_point(stat.runs[0].points[0], "all_gather", 128, 28.10, false, 33);
  check_point(stat.runs[0].points[8], "all_gather", 402653184, 1652.7, false, 37);
}

TEST_CASE("2025: indented in Markdown, two hosts") {
  const auto read = log("markdown-indented.txt");
  REQUIRE(read.runs.size() == 1);
  CHECK(read.runs[0].ranks_per_node == std::vector<int>{4, 4});
  REQUIRE(read.runs[0].points.size() == 12);
  check_point(read.runs[0].points[10], "all_reduce", 134217728, 1916.4, false, 23);
}

TEST_CASE("an all-to-all is known by N/A in place alone") {
  const auto read = log("all-to-all.txt");
  REQUIRE(read.runs.size() == 1);
  CHECK(read.runs[0].ranks_per_node == std::vector<int>{8});
  REQUIRE(read.runs[0].points.size() == 6);
  check_point(read.runs[0].points[0], "alltoall", 2048, 12.96, false, 16);
}

TEST_CASE("five collectives in one file") {
  const auto read = log("five-collectives.txt");
  std::vector<std::string> names;
  for (const auto& run : read.runs) {
    CHECK(run.ranks_per_node == std::vector<int>{12});
    names.push_back(run.points.front().collective);
  }
  CHECK(names == std::vector<std::string>{"all_gather", "all_reduce", "broadcast", "reduce",
                                          "reduce_scatter"});
  check_point(read.runs[1].points[0], "all_reduce", 8, 61.03, false, 50);
}

TEST_CASE("elided device lists are not believed") {
  std::string text = slurp(kNcclLogs / "no-root.txt");
  text.erase(text.find("#   Rank  2"), text.find("#\n#  ") - text.find("#   Rank  2"));
  const auto read = interop::parse_nccl_log(text, "x.log");
  CHECK(read.runs.at(0).ranks_per_node.empty());  // no two ranks reach this bus bandwidth
}

TEST_CASE("a table of two hosts under one name: a device that comes twice is on another") {
  std::string text = slurp(kNcclLogs / "markdown-indented.txt");
  for (std::size_t at = 0; (at = text.find("nid005487")) != std::string::npos;) {
    text.replace(at, 9, "nid005471");
  }
  CHECK(interop::parse_nccl_log(text, "x.log").runs.at(0).ranks_per_node == std::vector<int>{4, 4});
}

TEST_CASE("what is no log, or half of one, is a fault with its line") {
  CHECK(fault_of("hello\nworld\n") ==
        "x.log:1:1: error: there is no nccl-tests table; expected lines of size, count, type, "
        "time...");
  CHECK(fault_of("") == "x.log:1:1: error: is empty; expected nccl-tests output or CSV");
  CHECK(fault_of(std::string("a log\n\x7f"
                             "ELF\0\1",
                             12)) ==
        "x.log:2:5: error: the byte 0x00 is not text; expected nccl-tests output or CSV");

  const std::string whole = slurp(kNcclLogs / "no-root.txt");
  // The log is cut at every byte of the table: the result is a fault or fewer rows, but never a
  // wrong number.
  const auto all = interop::parse_nccl_log(whole, "x.log").runs.at(0).points;
  const std::size_t table = whole.find("        8192 ");
  const std::size_t end = whole.find("# Out of bounds");
  int faults = 0;
  for (std::size_t cut = table; cut < end; ++cut) {
    try {
      interop::parse_nccl_log(std::string_view(whole).substr(0, cut), "x.log");
      CHECK(cut + 1 >= end);  // only the end of the line is lost
    } catch (const InputError& error) {
      ++faults;
      CHECK(error.faults().front().where.line >= 10);
    }
  }
  CHECK(faults > 300);
  CHECK(fault_of(whole.substr(0, whole.find("   268435456"))) ==
        "x.log:14:1: error: the log ends at 1048576 bytes; expected sizes up to 536870912");
  CHECK(fault_of(whole.substr(0, whole.find("     1048576") + 40))
            .rfind("x.log:14:1: error: the row is cut short", 0) == 0);
  CHECK(fault_of(whole.substr(0, table)) ==
        "x.log:10:1: error: the table has no rows; expected at least one after its header");
}

TEST_CASE("CSV, with the placement in the YAML beside it") {
  const Folder folder;
  const auto csv = folder.write("a.csv",
                                "collective,size_bytes,time_us,inplace,run\n"
                                "AllReduce,1024,10.5,0,1\nall_to_all,0,1.5,0,1\n"
                                "reduce_scatter,2048,20,1,1\n");
  auto read = interop::read_collectives(csv);
  REQUIRE(read.runs.size() == 1);
  CHECK(read.runs[0].ranks_per_node.empty());
  REQUIRE(read.runs[0].points.size() == 2);
  check_point(read.runs[0].points[0], "all_reduce", 1024, 10.5, false, 2);
  check_point(read.runs[0].points[1], "reduce_scatter", 2048, 20, true, 4);
  folder.write("a.yaml", "nodes: 2\ngpus_per_node: 4\nnranks: 8\n");
  read = interop::read_collectives(csv);
  CHECK(read.runs[0].ranks_per_node == std::vector<int>{4, 4});

  const auto bad = folder.write("b.csv",
                                "collective,size_bytes,time_us\nall_reduce,x,1\nnothing,8,1\n"
                                "all_reduce,8,-1\n");
  try {
    interop::read_collectives(bad);
    FAIL("a faulty CSV was read");
  } catch (const InputError& error) {
    REQUIRE(error.faults().size() == 3);
    CHECK(error.faults()[0].where.line == 2);
    CHECK(error.faults()[1].where.line == 3);
    CHECK(error.faults()[2].where.line == 4);
  }
  CHECK_THROWS_AS(interop::read_collectives(folder.write("c.csv", "a,b\n1,2\n")), InputError);
  CHECK_THROWS_AS(interop::read_collectives(fs::temp_directory_path()), InputError);
}

TEST_CASE("names of collectives in any spelling") {
  CHECK(interop::collective_name("AllReduce") == "all_reduce");
  CHECK(interop::collective_name("all_to_all") == "alltoall");
  CHECK(interop::collective_name("reduce_scatter_perf") == "reduce_scatter");
  CHECK(interop::collective_name("x") == "");
}
