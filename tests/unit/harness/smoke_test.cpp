// The whole of calibrate-gpu, including the kernels' launchers, on a runtime that computes nothing:
// CUDA's, or ROCm's.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "catch.hpp"
#include "stepcast/interop/gpu_measurements.h"
#include "support/folder.h"

using stepcast::test::Folder;
using namespace stepcast;
namespace fs = std::filesystem;

namespace {

struct Outcome {
  int status = 0;
  std::string err;
};

std::string read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

pid_t start(const Folder& folder, const std::string& arguments, int gpus) {
  const std::string command =
      "exec \"$0\" " + arguments + " >" + folder.file("out") + " 2>" + folder.file("err");
  const pid_t child = fork();
  if (child == 0) {
    setenv("FAKE_GPUS", std::to_string(gpus).c_str(), 1);
    execl("/bin/sh", "sh", "-c", command.c_str(), STEPCAST_FAKE_CALIBRATE_GPU, nullptr);
    _exit(127);
  }
  return child;
}

Outcome finish(const Folder& folder, pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read(folder.file("err"))};
}

Outcome calibrate(const Folder& folder, const std::string& arguments, int gpus = 1) {
  return finish(folder, start(folder, arguments, gpus));
}

}  // namespace

TEST_CASE("every kind of case runs from end to end into one file") {
  const Folder folder;
  struct Kind {
    const char* name;
    const char* minutes;
  };
  std::size_t sessions = 0;
  for (const Kind kind : {Kind{"gemm", "0.02"}, Kind{"attention", "0.03"}, Kind{"memory", "0.01"},
                          Kind{"copy", "0.02"}, Kind{"launch", "0.04"}, Kind{"collective", "0.01"},
                          Kind{"overlap", "0.03"}, Kind{"layer", "0.05"}}) {
    CAPTURE(kind.name);
    const Outcome o = calibrate(folder, std::string("--only ") + kind.name + " --minutes " +
                                            kind.minutes + " --output " + folder.file("m"));
    INFO(o.err);
    REQUIRE(o.status == 0);
    const auto all = interop::read_gpu_measurements(folder.file("m"));
    CHECK(all.warnings.empty());
    CHECK(all.sessions.size() == ++sessions);
    CHECK(all.sessions.back().gpu == STEPCAST_FAKE_GPU);
    int measured = 0;
    for (const auto& m : all.measurements) {
      if (m.session + 1 == static_cast<int>(sessions)) {
        INFO(interop::to_string(m.what) << " " << m.skipped);
        measured += m.skipped.empty() ? 1 : 0;
        CHECK((m.skipped.empty() ? m.time.samples >= 5 : m.time.samples == 0));
      }
    }
    CHECK(measured > 0);
  }
}

TEST_CASE("collectives of two GPUs run from end to end") {
  const Folder folder;
  const Outcome o =
      calibrate(folder, "--minutes 0.05 --only collective --quiet --output " + folder.file("m"), 2);
  INFO(o.err);
  REQUIRE(o.status == 0);
  bool two = false;
  for (const auto& m : interop::read_gpu_measurements(folder.file("m")).measurements) {
    two = two || (std::get<interop::CollectiveCase>(m.what).ranks == 2 && m.skipped.empty());
  }
  CHECK(two);
}

TEST_CASE("an interrupt from the keyboard keeps what was measured") {
  const Folder folder;
  const pid_t child = start(folder, "--only memory,copy --output " + folder.file("m"), 1);
  for (int i = 0;
       i < 600 &&
       std::count(std::istreambuf_iterator<char>(std::ifstream(folder.file("m")).rdbuf()), {},
                  '\n') < 4;
       ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  kill(child, SIGINT);
  const Outcome o = finish(folder, child);
  INFO(o.err);
  CHECK(o.status == 130);
  CHECK(o.err.find("the same command goes on") != std::string::npos);
  const auto kept = interop::read_gpu_measurements(folder.file("m"));
  CHECK(kept.warnings.empty());
  CHECK(kept.measurements.size() >= 3);
}
