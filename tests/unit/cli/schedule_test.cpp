// `simulate schedule` as a process: every schedule of the list, tables as input and output,
// pictures.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "catch.hpp"
#include "run.h"
#include "support/folder.h"

using stepcast::test::Folder;
using stepcast::test::Result;
using stepcast::test::run;

TEST_CASE("every schedule that is listed plays, and its table plays alike") {
  const Result list = run("schedule --list");
  REQUIRE(list.status == 0);
  std::istringstream lines(list.out);
  int names = 0;
  Folder folder;
  const std::string table = (folder / "order.csv").string();
  for (std::string line; std::getline(lines, line); ++names) {
    const std::string name = line.substr(0, line.find(' '));
    INFO(name);
    const std::string times = " --times 1,2,1.5 --comm 0.25 --json -";
    const Result one =
        run("schedule " + name + " --stages 4 --micro-batches 8 --csv '" + table + "'" + times);
    INFO(one.err);
    CHECK(one.status == 0);
    const Result two = run("schedule '" + table + "'" + times);
    INFO(two.err);
    CHECK(two.status == 0);
    CHECK(one.out == two.out);
  }
  CHECK(names >= 17);
}

TEST_CASE("vocabulary passes have times of their own and are drawn") {
  const Result r =
      run("schedule 1f1b+vocab_1 --stages 4 --micro-batches 8 --vocabulary 0.25,0.5 --svg -");
  CHECK(r.status == 0);
  CHECK_THAT(r.out, ContainsSubstring("vocabulary (S) of micro-batch 7 on stage 3"));
  CHECK_THAT(r.out, ContainsSubstring("its gradient (T)</text>"));
}

TEST_CASE("the automatic schedule takes a memory limit") {
  const std::string sizes =
      " --stages 8 --micro-batches 24 --times 29.718,29.444,19.927 --comm 0.527 --json -";
  const Result tight = run("schedule zb_auto --memory-limit 1" + sizes);
  const Result wide = run("schedule zb_auto --memory-limit 2 --weight-memory 0.43" + sizes);
  CHECK(tight.status == 0);
  CHECK(wide.status == 0);
  const auto makespan = [](const Result& r) {
    return std::stod(r.out.substr(r.out.find(':') + 1));
  };
  CHECK(makespan(wide) < makespan(tight));
  CHECK(run("schedule zb_auto --memory-limit 0.1" + sizes)
            .err.starts_with("--memory-limit: error: 0.1 peaks of 1F1B"));
}

TEST_CASE("faults in tables are named") {
  Folder folder;
  const std::string file = (folder / "bad.csv").string();
  std::ofstream(file) << "0F0,0B0\n1F0,1Q0\n";
  const Result bad = run("schedule '" + file + "'");
  CHECK(bad.status == 2);
  CHECK(bad.out.empty());
  CHECK(bad.err.starts_with(file + ":2:5: error: '1Q0' is not an action"));
  CHECK(run("schedule nowhere.csv").err ==
        "nowhere.csv: error: cannot be opened; expected a schedule's table\n");
  CHECK_THAT(run("schedule '" + file + "' --stages 2").err, ContainsSubstring("--stages: error"));
  CHECK_THAT(run("schedule dualpipe --stages 3 --micro-batches 12").err,
             ContainsSubstring("even number of stages"));
}

TEST_CASE("a job that names a table runs as the schedule that it states") {
  Folder folder;
  const std::string table = (folder / "order.csv").string();
  REQUIRE(run("schedule zb_h1 --stages 4 --micro-batches 8 --csv '" + table + "'").status == 0);
  const std::string job = (folder / "job.yaml").string();
  std::ofstream(job)
      << "model: llama-3-8b\ncluster: {use: dgx-h100, nodes: 1}\nsystem: torchtitan\n"
         "workload: {sequence_length: 4096, global_batch: 8, micro_batch: 1}\n"
         "parallelism: {tensor: 2, pipeline: 4, schedule: order.csv}\n";
  const std::string open = " --json -";
  const Result stated = run("--config '" + job + "'" + open);
  const Result named = run("--config '" + job + "' --set parallelism.schedule=zb_h1" + open);
  INFO(stated.err << named.err);
  CHECK(stated.status == 0);
  const auto step = [](const Result& r) {
    const auto at = r.out.find("\"step_time\"");
    return at == std::string::npos ? std::string("none") : r.out.substr(at, 60);
  };
  CHECK(step(stated) == step(named));
  CHECK(step(stated) != "none");
  const Result fewer = run("--config '" + job + "' --set workload.global_batch=16" + open);
  CHECK(fewer.status == 2);
  CHECK_THAT(fewer.err,
             ContainsSubstring("the table has 8 micro-batches, 4 ranks and 1 chunks per rank"));
}
