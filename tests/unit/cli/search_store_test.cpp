// `simulate search` on several threads and processes, with a store, and killed in the middle: the
// answer is always the same.
#include <signal.h>
#include <sqlite3.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "support/count.h"
#include "support/folder.h"
#include "unit/cli/program.h"
#include "unit/cli/run.h"

namespace {

using stepcast::test::check_refused;
using stepcast::test::Folder;
using stepcast::test::kBinary;
using stepcast::test::points;
using stepcast::test::Program;
using stepcast::test::Result;
using stepcast::test::run;
#ifdef STEPCAST_MPIEXEC
using stepcast::test::count;
using stepcast::test::mpirun;
using stepcast::test::under_mpi;
#endif

// About forty of 324 candidates are simulated, each in a few milliseconds.
const char* const kSpace =
    "tensor: {powers: 8}\n"
    "pipeline: {powers: 4}\n"
    "micro_batch: {powers: 4}\n"
    "sharding: [none, zero1, zero3]\n"
    "recompute: [none, selective, full]\n";

struct Job {
  Folder folder;
  std::string arguments =
      "search --config llama8b-fsdp --set system=megatron-lm --json - --space " +
      folder.write("space.yaml", kSpace);
  std::string stored = arguments + " --store " + folder.file("a.db");
};

void forget(const Job& job) {
  for (const char* name : {"a.db", "a.db-wal", "a.db-shm"}) {
    std::filesystem::remove(job.folder / name);
  }
}

// Starts `command` and kills it by `kill` once a few points are in the file; false: it ended
// before.
bool killed(const Job& job, const std::string& command,
            const std::function<void(Program&)>& kill_one, std::string& said) {
  forget(job);
  Program program(job.folder, command);
  while (program.running() && points(job.folder.file("a.db")) < 4) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!program.running()) {
    return false;
  }
  kill_one(program);
  const int status = program.wait();
  said = program.said();
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// A search may end before it is killed, depending on the scheduler, so there are several tries.
bool killed_of_some(const Job& job, const std::string& command,
                    const std::function<void(Program&)>& kill_one, std::string& said) {
  for (int i = 0; i < 8; ++i) {
    if (killed(job, command, kill_one, said)) {
      return true;
    }
  }
  return false;
}

#ifdef STEPCAST_MPIEXEC
// The id of a process below `of` whose environment says that it is rank 1; 0: none.
pid_t rank_one(pid_t of) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    std::ostringstream environment, status;
    environment << std::ifstream(entry.path() / "environ").rdbuf();
    status << std::ifstream(entry.path() / "status").rdbuf();
    if (environment.str().find(std::string("OMPI_COMM_WORLD_RANK=1") + '\0') != std::string::npos &&
        status.str().find("PPid:\t" + std::to_string(of) + "\n") != std::string::npos) {
      return static_cast<pid_t>(std::stol(name));
    }
  }
  return 0;
}

#endif

}  // namespace

TEST_CASE("A search answers the same on one thread and three, without a store and from one") {
  const Job job;
  const Result one = run(job.arguments + " --threads 1");
  REQUIRE(one.status == 0);
  CHECK(run(job.arguments + " --threads 3").out == one.out);
  const Result first = run(job.stored + " --threads 2");
  CHECK(first.out == one.out);
  CHECK_THAT(first.err, ContainsSubstring(" 0 more from the store"));
  const Result again = run(job.stored);
  CHECK(again.out == one.out);
  CHECK_THAT(again.err, ContainsSubstring("simulated; 0 evaluations"));
  // Another job in the same store reuses nothing of the first.
  const std::string other = " --set workload.global_batch=32";
  CHECK(run(job.stored + other).out == run(job.arguments + other).out);
}

TEST_CASE("A search that the time limit stopped says so, and goes on from its store") {
  const Job job;
  const Result stopped = run(job.stored + " --time-limit 0.000001");
  CHECK(stopped.status == 1);
  CHECK_THAT(stopped.out, ContainsSubstring("\"stopped\": true"));
  CHECK(run(job.stored).out == run(job.arguments).out);
}

TEST_CASE("A search that was killed goes on from its store to the same answer") {
  const Job job;
  const Result whole = run(job.arguments);
  std::string said;
  SECTION("kill -9") {
    REQUIRE(killed_of_some(
        job, kBinary + job.stored, [](Program& p) { ::kill(p.pid(), SIGKILL); }, said));
  }
  SECTION("an interrupt, which says what is kept") {
    REQUIRE(killed_of_some(
        job, kBinary + job.stored, [](Program& p) { ::kill(p.pid(), SIGINT); }, said));
    CHECK_THAT(said,
               ContainsSubstring("simulate: the search was stopped: the results so far are in '" +
                                 job.folder.file("a.db")));
  }
  CHECK(points(job.folder.file("a.db")) >= 4);
  const Result resumed = run(job.stored);
  CHECK(resumed.out == whole.out);
  CHECK(resumed.err.find(" 0 more from the store") == std::string::npos);
}

TEST_CASE("A file that is no store of this version is refused in one line") {
  const Job job;
  REQUIRE(run(job.stored).status == 0);
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(job.folder.file("a.db").c_str(), &db) == SQLITE_OK);
  CHECK(sqlite3_exec(db, "UPDATE about SET value = 'stepcast 0.0.1'", nullptr, nullptr, nullptr) ==
        SQLITE_OK);
  sqlite3_close(db);
  check_refused(job.stored, "--store: error: '" + job.folder.file("a.db") +
                                "' holds results of another version (stepcast 0.0.1)");
  job.folder.write("a.db", "not a database, but some text that stands in its place\n");
  check_refused(job.stored, "--store: error: '" + job.folder.file("a.db") + "' is not a store");
  check_refused(job.arguments + " --store /proc/a.db",
                "--store: error: '/proc/a.db' cannot be opened as a store");
}

#ifdef STEPCAST_MPIEXEC
TEST_CASE("A search answers the same on 1, 2 and 4 processes, with a store and without") {
  const Job job;
  const Result alone = run(job.arguments);
  std::string text = job.arguments;
  text.replace(text.find("--json - "), 9, "");
  const std::string table = run(text).out;  // mpirun's pseudo-terminal must not add colours
  for (const int processes : {1, 2, 4}) {
    INFO(processes);
    forget(job);
    const Result r = under_mpi(processes, job.folder, job.arguments);
    INFO(r.err);
    CHECK(r.status == 0);
    CHECK(r.out == alone.out);
    CHECK(under_mpi(processes, job.folder, job.stored).out == alone.out);
    const Result again = under_mpi(processes, job.folder, job.stored + " --threads 1");
    CHECK(again.out == alone.out);
    CHECK_THAT(again.err, ContainsSubstring("simulated; 0 evaluations"));
    CHECK(under_mpi(processes, job.folder, text).out == table);
  }
}

TEST_CASE("When a worker dies the run ends with one line, and the next goes on from the store") {
  const Job job;
  const Result whole = run(job.arguments);
  std::string said;
  REQUIRE(killed_of_some(
      job, mpirun(3) + kBinary + job.stored,
      [](Program& p) {
        if (const pid_t worker = rank_one(p.pid()); worker > 0) {
          ::kill(worker, SIGKILL);
        }
      },
      said));
  INFO(said);
  CHECK(count(said, "simulate: ") == 1);
  CHECK_THAT(
      said, ContainsSubstring(
                "simulate: the search was stopped, or a process died: the results so far are in '" +
                job.folder.file("a.db") + "'"));
  CHECK(points(job.folder.file("a.db")) >= 4);
  CHECK(under_mpi(2, job.folder, job.stored).out == whole.out);
}

TEST_CASE("Of several processes one says what is wrong") {
  const Job job;
  for (const std::string wrong : {"search --config nowhere", "search --nonsense",
                                  "search --config llama8b-fsdp --store /proc/a.db"}) {
    INFO(wrong);
    const Result r = under_mpi(3, job.folder, wrong);
    INFO(r.err);
    CHECK(r.status == 2);
    CHECK(r.out.empty());
    CHECK(count(r.err, "error:") == 1);
  }
}
#endif
