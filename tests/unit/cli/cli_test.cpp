// The program as a process: exit status, contents of both streams, and files that appear completely
// or not at all.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "help.h"
#include "run.h"
#include "support/folder.h"
#include "support/slurp.h"

using stepcast::test::Folder;
using stepcast::test::slurp;
namespace {

namespace fs = std::filesystem;
using stepcast::test::Result;
using stepcast::test::run;

void check_refused(const std::string& arguments, const std::string& line) {
  INFO(arguments);
  const Result r = run(arguments);
  CHECK(r.status == 2);
  CHECK(r.out.empty());
  CHECK(r.err == line + "\n");
}

const char* const kJob = "--config llama8b-fsdp.yaml";

}  // namespace

TEST_CASE("help and version go to standard output, with examples") {
  for (const char* arguments :
       {"--help", "-h", "validate --help", "schedule --help", "schema --help", "systems --help"}) {
    const Result r = run(arguments);
    INFO(arguments);
    CHECK(r.status == 0);
    CHECK_THAT(r.out, ContainsSubstring("Example"));
    CHECK(r.err.empty());
  }
  CHECK(run("--version").out.rfind("stepcast ", 0) == 0);
}

TEST_CASE("the help of every command fits a hundred columns, but for commands to copy") {
  for (const std::string& command : stepcast::test::all_commands()) {
    INFO(command);
    bool examples = false;
    for (const std::string& line : stepcast::test::lines_of(run(command + " --help").out)) {
      examples = examples || line.starts_with("Example");
      CHECK((examples || line.size() <= 100));
    }
  }
}

TEST_CASE("a fault of the command line is one line that names the option, and exits 2") {
  check_refused(
      "--config llama70b.yaml --jsn -",
      "--jsn: error: unknown option; expected one that simulate --help lists (did you mean "
      "'--json'?)");
  check_refused("validat x.jsonl",
                "validat: error: unknown command or job; expected a command that simulate --help "
                "lists, or a job that simulate --list prints (did you "
                "mean 'validate'?)");
  check_refused("--config", "--config: error: its value is missing; expected one value");
  check_refused(
      "--config llama70b.yaml --fidelity foldd",
      "--fidelity: error: unknown fidelity 'foldd'; expected bound, folded or full (did you "
      "mean 'folded'?)");
  check_refused("--config llama70b.yaml --samples -3",
                "--samples: error: '-3' is not valid; expected an integer from 1 to 2147483647");
  check_refused("--config a --config b",
                "--config: error: given more than once; expected at most one");
  check_refused(
      "schedule 1f1b --stages 4 --micro-batches 8 --times 1,x,1",
      "--times: error: 'x' is not a number of at least 0; expected 3 comma-separated numbers");
  check_refused("schedule 1f1b --stages 4 --micro-batches 8 --times 1,1",
                "--times: error: 2 values given; expected 3 comma-separated numbers");
  check_refused("schedule 1f1b --stages 4 --micro-batches 8 --comm 5us",
                "--comm: error: '5us' is not a number of at least 0; expected a number");
  check_refused("schedule 1f1b --micro-batches 8",
                "--stages: error: missing; expected an integer of at least 1");
  check_refused("schedule 1f1b --stages 0 --micro-batches 8",
                "--stages: error: '0' is not valid; expected an integer from 1 to 2147483647");
  check_refused(
      "schedule 1f1b --stages 4 --micro-batches 8 --memory-limit 2",
      "--memory-limit: error: schedule '1f1b' takes no memory limit; expected one that is "
      "built to a limit");
  check_refused(
      "schedule 1f1b --stages 99999999 --micro-batches 99999999",
      "--micro-batches: error: 99999999 stages x 99999999 micro-batches x 1 chunks are too many "
      "to play; expected at most 5000000 passes");
  check_refused(
      "--seed 3 schema",
      "--seed: error: not an option of simulate schema; expected none before the command");
  const Result nothing = run("");
  CHECK(nothing.status == 2);
  CHECK(nothing.err.rfind("--config: error: missing", 0) == 0);
}

TEST_CASE("a time or a power without its unit is a fault; a limit of time may be bare seconds") {
  const std::string plan = "plan llama8b-fsdp --tokens 1T ";
  check_refused(plan + "--deadline 60",
                "--deadline: error: '60' has no unit; expected a time such as 60d");
  check_refused(plan + "--power ' 5e6 '",
                "--power: error: ' 5e6 ' has no unit; expected a power such as 10MW");
  check_refused(plan + "--power 0MW",
                "--power: error: '0MW' is not a power; expected one above 0, such as 10MW");
  check_refused("goodput llama8b-fsdp --duration 30",
                "--duration: error: '30' has no unit; expected a time such as 30d");
  check_refused("goodput llama8b-fsdp --interval 1800",
                "--interval: error: '1800' has no unit; expected a time such as 30min");
  const std::string search = "search llama8b-fsdp --vary tensor=1 --vary recompute=full ";
  for (const std::string limit : {"5m", "-1", "soon"}) {
    check_refused(search + "--time-limit=" + limit,
                  "--time-limit: error: '" + limit +
                      "' is not a time; expected one such as 90s, 10min or 1h, or a number of "
                      "seconds");
  }
  const Result bare = run(search + "--time-limit 600");
  CHECK(bare.status == 0);
  CHECK(run(search + "--time-limit 10min").out == bare.out);
}

TEST_CASE("values that no job can have are bad input, and what this job cannot have is refused") {
  check_refused(
      "search llama8b-fsdp --vary tensor=1,a",
      "--vary tensor=1,a: error: parallelism.tensor is 'a'; expected an integer from 1 to "
      "10000000");
  const Folder folder;
  const std::string space = (folder / "space.yaml").string();
  std::ofstream(space) << "tensor: [a]\n";
  const std::string line =
      space + ":1:10: error: parallelism.tensor is 'a'; expected an integer from 1 to 10000000";
  check_refused("search llama8b-fsdp --space '" + space + "'", line);
  check_refused("plan llama8b-fsdp --tokens 1T --space '" + space + "'", line);
  check_refused("sweep llama8b-fsdp --vary nodes=1 --optimize --space '" + space + "'", line);
  const Result heads = run("search llama8b-fsdp --vary tensor=3 --vary recompute=full");
  CHECK(heads.status == 1);
  CHECK_THAT(heads.out,
             ContainsSubstring(
                 "No combination of the space is possible for this job: 924 are refused as"));
}

TEST_CASE("more threads than the system gives change nothing") {
  const std::string search = "search llama8b-fsdp --vary tensor=1 --vary recompute=full --threads ";
  const Result one = run(search + "1");
  CHECK(one.status == 0);
  CHECK(run(search + "100000").out == one.out);
}

TEST_CASE("the main job prints its report, and its clock to standard error") {
  const Result r = run(kJob);
  INFO(r.err);
  CHECK(r.status == 0);
  CHECK_FALSE(r.out.empty());
  CHECK(r.out.find("\x1b[") == std::string::npos);  // no colours when output goes to a pipe
  CHECK_THAT(r.err, ContainsSubstring("forecast in"));
  CHECK(run(kJob).out == r.out);
}

TEST_CASE("a dash puts nothing but JSON on standard output; a file gets the same bytes") {
  Folder folder;
  const fs::path file = folder / "report.json";
  const Result dash = run(std::string(kJob) + " --json -");
  REQUIRE(dash.status == 0);
  CHECK(dash.out.front() == '{');
  CHECK_THAT(dash.out, ContainsSubstring("\"step_time\""));
  const Result to_file = run(std::string(kJob) + " --json '" + file.string() + "'");
  CHECK(to_file.status == 0);
  CHECK(slurp(file) == dash.out);
  CHECK(to_file.out == run(kJob).out);
  CHECK(folder.files() == 1);
}

TEST_CASE("an output that cannot be written is refused before any work, and leaves nothing") {
  Folder folder;
  const std::string missing = (folder / "no/such/report.json").string();
  const Result r = run(std::string(kJob) + " --json '" + missing + "'");
  CHECK(r.status == 2);
  CHECK(r.out.empty());
  CHECK(r.err == "--json: error: cannot write '" + missing + "': No such file or directory\n");
  CHECK(folder.files() == 0);
  check_refused(std::string(kJob) + " --trace -",
                "--trace: error: a trace is binary; expected a file name");
}

TEST_CASE("a faulty job leaves an earlier result as it was") {
  Folder folder;
  const fs::path file = folder / "report.json";
  std::ofstream(file) << "earlier";
  const Result r =
      run(std::string(kJob) + " --set parallelism.tensor=3 --json '" + file.string() + "'");
  CHECK(r.status == 2);
  CHECK(slurp(file) == "earlier");
  CHECK(folder.files() == 1);
}

TEST_CASE("a job that does not fit prints its report and exits 1") {
  const Result r = run(
      "--config llama8b-fsdp.yaml --set workload.micro_batch=64 --set workload.global_batch=512 "
      "--set memory.recompute=none --json -");
  INFO(r.err);
  CHECK(r.status == 1);
  CHECK_THAT(r.out, ContainsSubstring("\"fits\": {\"verdict\": \"no\""));
}

TEST_CASE("a trace is written whole") {
  Folder folder;
  const fs::path file = folder / "step.pftrace";
  const Result r = run(std::string(kJob) + " --trace '" + file.string() + "'");
  INFO(r.err);
  CHECK(r.status == 0);
  CHECK(fs::file_size(file) > 1000);
  CHECK(folder.files() == 1);
}

TEST_CASE("a closed standard error costs the progress line alone") {
  const std::string binary = "cd '" STEPCAST_SOURCE_DIR "' && '" STEPCAST_BINARY "' ";
  const int done = std::system((binary + kJob + " >/dev/null 2>&-").c_str());
  CHECK(WIFEXITED(done));
  CHECK(WEXITSTATUS(done) == 0);
  const int refused = std::system((binary + "--bogus >/dev/null 2>&-").c_str());
  CHECK(WIFEXITED(refused));
  CHECK(WEXITSTATUS(refused) == 2);
}

TEST_CASE("lists, schema and the resolved job") {
  CHECK_THAT(run("--list").out, ContainsSubstring("interleaved_1f1b"));
  CHECK_THAT(run("systems").out, ContainsSubstring("megatron-lm-2021"));
  CHECK_THAT(run("schema").out, ContainsSubstring("sequence_length"));
  CHECK_THAT(run("schema --runs").out, ContainsSubstring("peak_memory"));
  const Result job = run(std::string(kJob) + " --show-job --set workload.micro_batch=1");
  CHECK(job.status == 0);
  CHECK_THAT(job.out, ContainsSubstring("--set workload.micro_batch=1"));
}

TEST_CASE("a schedule is played: the makespan of 1F1B with equal passes is (m + p - 1) (F + B)") {
  const Result r = run("schedule 1f1b --stages 4 --micro-batches 8 --times 1,1,1 --json -");
  CHECK(r.status == 0);
  CHECK_THAT(r.out, ContainsSubstring("\"makespan\": 33"));
  const Result text = run("schedule 1f1b --stages 4 --micro-batches 8");
  CHECK_THAT(text.out, ContainsSubstring("total time 33"));
}

TEST_CASE("validate reads runs and refuses what is none") {
  Folder folder;
  const fs::path file = folder / "runs.jsonl";
  std::ofstream(file) << "{\"config\": \"llama70b\", \"measured\": {\"mfu\": 0.4}}\n"
                      << "{\"config\": \"llama70b\"}\n";
  const Result r = run("validate '" + file.string() + "'");
  CHECK(r.status == 2);
  CHECK(r.out.empty());
  CHECK(r.err == file.string() +
                     ":2:1: error: key 'measured' is missing; expected {\"config\": "
                     "\"job.yaml\", \"measured\": {\"step_time\": 8.5}}\n");
  const Result good = run("validate tests/validation/korthikanti.jsonl --json -");
  INFO(good.err);
  CHECK(good.status == 0);
  CHECK_THAT(good.out, ContainsSubstring("\"summary\""));
  CHECK_THAT(good.out, ContainsSubstring("layer_time"));
}

TEST_CASE("validate says each job that cannot be read, and keeps what it compared") {
  const Folder folder;
  const auto validate = [&](const std::string& lines) {
    std::ofstream(folder / "runs.jsonl") << lines;
    std::ofstream(folder / "bad.yaml") << "use: llama8b-fsdp\nworkload: {global_batch: many}\n";
    return run("validate '" + (folder / "runs.jsonl").string() + "'");
  };
  const std::string good =
      "{\"id\": \"good\", \"config\": \"llama8b-fsdp\", \"measured\": {\"step_time\": 2.3}}\n";
  const std::string none = "{\"config\": \"nofile.yaml\", \"measured\": {\"step_time\": 1}}\n";
  const std::string bad = "{\"config\": \"bad.yaml\", \"measured\": {\"mfu\": 0.3}}\n";
  const std::string refused =
      "{\"config\": \"llama8b-fsdp\", \"set\": [\"tensor=3\"], \"measured\": {\"mfu\": 0.3}}\n";
  const std::string at = folder.file("runs.jsonl");

  const Result nothing = validate(none);
  CHECK(nothing.status == 2);
  CHECK_THAT(nothing.out, ContainsSubstring("None of the 1 measurement could be forecast."));
  CHECK(nothing.out.find("0.0 %, worst") == std::string::npos);
  CHECK(nothing.out.find("median 0.0 %") == std::string::npos);
  CHECK_THAT(nothing.err, ContainsSubstring(at + ":1:12: error: there is no file 'nofile.yaml'"));

  const Result mixed = validate(good + none + bad + bad);
  CHECK(mixed.status == 2);
  CHECK_THAT(mixed.out,
             ContainsSubstring("Half of the 1 measurement") && ContainsSubstring("good"));
  CHECK_THAT(mixed.err, ContainsSubstring(at + ":2:12: error: there is no file"));
  const std::string fault =
      folder.file("bad.yaml") + ":2:26: error: workload.global_batch is 'many'";
  CHECK_THAT(mixed.err, ContainsSubstring(fault));
  CHECK(mixed.err.find(fault) == mixed.err.rfind(fault));  // said once

  const Result of_plan = validate(good + refused);  // such a job cannot run, which is a result
  CHECK(of_plan.status == 0);
  CHECK_THAT(of_plan.out, ContainsSubstring("not possible: tensor 3 does not divide heads 32"));
  CHECK(of_plan.err.find("error:") == std::string::npos);
}
