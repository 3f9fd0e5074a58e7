// A sweep's store survives kills, full disks and read-only folders.
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "catch.hpp"
#include "unit/cli/program.h"

namespace {

using stepcast::test::Folder;
using stepcast::test::kBinary;
using stepcast::test::points;
using stepcast::test::Program;
using stepcast::test::Result;
using stepcast::test::run;

constexpr int kPoints = 10'000;
// A bound costs a fraction of a millisecond.
const std::string kMany =
    "sweep --config llama8b-fsdp --fidelity bound --vary workload.sequence_length=1024..50524+500 "
    "--vary workload.global_batch=8..800+8 --set workload.micro_batch=1 ";

// The numbers of points that the last run computed and that it took from the store.
std::pair<int, int> computed_and_reused(const std::string& said) {
  std::smatch found;
  const std::regex line("points in [0-9.]+ s: ([0-9]+) computed, [0-9]+ a second, ([0-9]+) more");
  REQUIRE(std::regex_search(said, found, line));
  return {std::stoi(found[1]), std::stoi(found[2])};
}

std::string text(const std::filesystem::path& file) {
  std::ostringstream all;
  all << std::ifstream(file).rdbuf();
  return all.str();
}

}  // namespace

TEST_CASE("Ten thousand points outlive twenty kills, none lost and none computed twice") {
  const Folder folder;
  const std::string whole = folder.file("whole.json"), resumed = folder.file("resumed.json");
  REQUIRE(run(kMany + "--json " + whole).status == 0);
  const std::string db = folder.file("a.db");
  const std::string stored = kMany + "--store " + db + " --json " + resumed;
  std::mt19937 random(20);
  int on_file = 0;
  for (int kill = 0; kill < 20; ++kill) {
    // Twenty of them leave some points for the last run, wherever the kill occurs.
    constexpr int kMaxTries = 400;
    const int until = on_file + 1 + static_cast<int>(random() % kMaxTries);
    Program program(folder, kBinary + stored);
    while (program.running() && points(db) < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    INFO(program.said());
    REQUIRE(program.running());
    ::kill(program.pid(), SIGKILL);
    program.wait();
    const int now = points(db);
    CHECK(now >= until);
    CHECK(now < kPoints);
    on_file = now;
    CHECK_FALSE(std::filesystem::exists(resumed));
  }
  const Result last = run(stored);
  CHECK(last.status == 0);
  CHECK(computed_and_reused(last.err) == std::pair{kPoints - on_file, on_file});
  CHECK(points(db) == kPoints);
  CHECK(text(resumed) == text(whole));
}

TEST_CASE("A full disk is one clear error, and the store goes on once there is room") {
  const Folder folder;
  const std::string few =
      "sweep --config llama8b-fsdp --fidelity bound --vary workload.global_batch=8..2400+8 --json ";
  const std::string db = folder.file("a.db");
  const std::string alone = run(few + "-").out;
  const std::string command = "cd '" STEPCAST_SOURCE_DIR "' && ulimit -f 128 && " + kBinary + few +
                              "- --store " + db + " >/dev/null 2>" + folder.file("err");
  const int status = std::system(command.c_str());
  const std::string said = text(folder / "err");
  INFO(said);
  CHECK(WEXITSTATUS(status) == 2);
  const std::string line = "--store: error: cannot write '" + db + "'";
  REQUIRE_THAT(said, ContainsSubstring(line));
  CHECK(said.find(line) == said.rfind(line));
  const int kept = points(db);
  CHECK(kept < 300);
  const Result again = run(few + "- --store " + db);
  CHECK(again.out == alone);
  CHECK(computed_and_reused(again.err) == std::pair{300 - kept, kept});
  CHECK(points(db) == 300);
}

TEST_CASE("A folder that cannot be written to is one line, and its store still opens elsewhere") {
  const Folder folder;
  const std::string few =
      "sweep --config llama8b-fsdp --fidelity bound --vary workload.global_batch=8,16 --json - "
      "--store ";
  REQUIRE(run(few + folder.file("a.db")).status == 0);
  std::filesystem::permissions(
      folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  // Root may write everywhere unless this capability is dropped.
  const std::string bounded = ::geteuid() == 0
                                  ? "setpriv --bounding-set -dac_override,-dac_read_search "
                                    "--inh-caps -dac_override,-dac_read_search "
                                  : "";
  for (const char* name : {"a.db", "new.db"}) {
    const Folder out;
    const std::string command = "cd '" STEPCAST_SOURCE_DIR "' && " + bounded + kBinary + few +
                                folder.file(name) + " >" + out.file("out") + " 2>" +
                                out.file("err");
    const int status = std::system(command.c_str());
    const std::string said = text(out / "err");
    INFO(said);
    CHECK(WEXITSTATUS(status) == 2);
    CHECK(said.starts_with("--store: error: '" + folder.file(name) + "' can"));
    CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  }
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  const Result again = run(few + folder.file("a.db"));
  CHECK(again.status == 0);
  CHECK(computed_and_reused(again.err) == std::pair{0, 2});
}

TEST_CASE("A sweep with more values takes those that it has from the store") {
  const Folder folder;
  const std::string store = " --json - --store " + folder.file("a.db");
  const std::string sweep =
      "sweep --config llama8b-fsdp --fidelity bound --vary workload.global_batch=8..";
  REQUIRE(run(sweep + "40+8" + store).status == 0);
  const Result more = run(sweep + "80+8" + store);
  CHECK(computed_and_reused(more.err) == std::pair{5, 5});
  CHECK(more.out == run(sweep + "80+8 --json -").out);
}

// The disk is in a separate mount namespace, so that nothing of it remains.
TEST_CASE("A disk without room is one clear error, and the store goes on once there is some") {
  const Folder folder;
  const std::string few =
      "sweep --config llama8b-fsdp --fidelity bound --vary workload.global_batch=8..2400+8 --json ";
  std::filesystem::create_directory(folder / "disk");
  const std::string disk = folder.file("disk"), stored = "- --store " + disk + "/a.db ";
  const std::string outside = "unshare --mount sh -c \"cd '" STEPCAST_SOURCE_DIR
                              "' && mount -t tmpfs -o size=96k none " +
                              disk;
  if (std::system((outside + "\" 2>/dev/null").c_str()) != 0) {
    WARN("SKIPPED: no file system can be mounted here");
    return;
  }
  const auto said_to = [&](const std::string& name) {
    return stored + ">" + folder.file(name + ".out") + " 2>" + folder.file(name + ".err");
  };
  const std::string command = outside + " && { " + kBinary + few + said_to("full") +
                              "; echo \\$? >" + folder.file("status") +
                              "; mount -o remount,size=8m " + disk + " && " + kBinary + few +
                              said_to("more") + "; }\"";
  INFO(command);
  CHECK(std::system(command.c_str()) == 0);
  const std::string said = text(folder / "full.err");
  INFO(said);
  CHECK(text(folder / "status") == "2\n");
  const std::string line = "--store: error: cannot write '" + disk + "/a.db'";
  REQUIRE_THAT(said, ContainsSubstring(line));
  CHECK(said.find(line) == said.rfind(line));
  const auto [computed, reused] = computed_and_reused(text(folder / "more.err"));
  CHECK(computed > 0);
  CHECK(computed + reused == 300);
  const std::string alone = run(few + "-").out;
  CHECK(text(folder / "full.out") == alone);
  CHECK(text(folder / "more.out") == alone);
}

TEST_CASE("A point whose times do not fit is a row with its reason, and the rest goes on") {
  const Folder folder;
  const std::string db = folder.file("a.db");
  // A sequence so long that its step time does not fit into 64-bit picoseconds, between two normal
  // ones.
  const std::string sweep =
      "sweep --config llama8b-fsdp --fidelity bound --json - --vary "
      "workload.sequence_length=4096,1e8,8192 --threads ";
  const Result one = run(sweep + "1 --store " + db);
  CHECK(one.status == 0);
  const auto rows = nlohmann::json::parse(one.out)["points"];
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["ran"] == true);
  CHECK(rows[2]["ran"] == true);
  CHECK(rows[1]["ran"] == false);
  CHECK_THAT(rows[1]["reason"].get<std::string>(), ContainsSubstring("64-bit picoseconds"));
  CHECK(points(db) == 3);
  const Result again = run(sweep + "3 --store " + db);
  CHECK(again.status == 0);
  CHECK(again.out == one.out);
  CHECK(computed_and_reused(again.err) == std::pair{0, 3});
}
