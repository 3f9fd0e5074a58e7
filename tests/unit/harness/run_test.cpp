// Whole runs of calibrate-gpu on a fake GPU that answers by a known law.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "catch.hpp"
#include "fake_device.h"
#include "harness/output.h"
#include "stepcast/base/diagnostics.h"

using namespace stepcast;
using namespace stepcast::harness;
namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "harness-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name = "m.jsonl") const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::string read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write(const std::string& file, const std::string& text) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
}

std::set<std::string> keys(const interop::GpuMeasurements& all) {
  std::set<std::string> found;
  for (const auto& m : all.measurements) {
    found.insert(interop::to_string(m.what));
  }
  return found;
}

const std::vector<std::string> kShort = {"--only", "launch", "--minutes", "60"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::string& file) {
  arguments.insert(arguments.end(), {"--output", file, "--quiet"});
  return arguments;
}

}  // namespace

TEST_CASE("a run measures the plan within its budget and stores what the device answered") {
  const Folder folder;
  World world;
  const Outcome o = calibrate(world, {"--minutes", "1", "--output", folder.file()});
  CHECK(o.status == 0);
  CHECK(o.out.empty());
  CHECK(world.clock <= 60);
  CHECK(world.clock > 50);
  CHECK(o.err.find("more did not fit into 1 min") != std::string::npos);
  const auto all = interop::read_gpu_measurements(folder.file());
  CHECK(all.warnings.empty());
  REQUIRE(all.sessions.size() == 1);
  CHECK(all.sessions[0].gpu == world.name);
  CHECK(all.sessions[0].harness.size() >= 5);
  CHECK(all.measurements.size() == static_cast<std::size_t>(world.runs));
  std::set<std::size_t> kinds;
  for (const auto& m : all.measurements) {
    kinds.insert(m.what.index());
    CHECK(m.time.median == law(m.what));
    CHECK(m.time.p10 < m.time.median);
    CHECK(m.time.p90 > m.time.median);
    CHECK(m.time.samples == 5);
    CHECK(m.power == 650);
  }
  CHECK(kinds.size() == 8);
}

TEST_CASE("a device that is slower than planned still ends in time") {
  const Folder folder;
  World world;
  world.slower = 3;
  CHECK(calibrate(world, {"--minutes", "2", "--output", folder.file(), "--quiet"}).status == 0);
  CHECK(world.clock < 125);
  CHECK(world.clock > 100);
}

TEST_CASE("a second run goes on with what did not fit") {
  const Folder folder;
  World world;
  const std::vector<std::string> arguments = {"--minutes", "0.5", "--output", folder.file(),
                                              "--quiet"};
  CHECK(calibrate(world, arguments).status == 0);
  const int first = world.runs;
  CHECK(calibrate(world, arguments).status == 0);
  const auto all = interop::read_gpu_measurements(folder.file());
  CHECK(all.warnings.empty());
  CHECK(all.sessions.size() == 2);
  CHECK(world.runs > first);
  CHECK(keys(all).size() == static_cast<std::size_t>(world.runs));
  CHECK(all.measurements.front().session == 0);
  CHECK(all.measurements.back().session == 1);
}

TEST_CASE("a file cut at any byte of its last line is gone on with") {
  const Folder folder;
  World world;
  REQUIRE(calibrate(world, with(kShort, folder.file())).status == 0);
  const std::string whole = read(folder.file());
  const auto expected = keys(interop::read_gpu_measurements(folder.file()));
  const std::size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t cut = last; cut < whole.size(); ++cut) {
    CAPTURE(cut - last);
    write(folder.file(), whole.substr(0, cut));
    world.runs = 0;
    REQUIRE(calibrate(world, with(kShort, folder.file())).status == 0);
    CHECK(world.runs == 1);  // only the interrupted one
    const auto all = interop::read_gpu_measurements(folder.file());
    CHECK(all.warnings.empty());
    CHECK(all.measurements.size() == expected.size());
    CHECK(keys(all) == expected);
  }
}

TEST_CASE("a session line that was cut is written anew") {
  const Folder folder;
  World world;
  REQUIRE(calibrate(world, {"--only", "launch", "--output", folder.file(), "--quiet"}).status == 0);
  const std::string whole = read(folder.file());
  const std::size_t end = whole.find('\n');
  for (std::size_t cut = 0; cut <= end; cut += 7) {
    write(folder.file(), whole.substr(0, cut));
    REQUIRE(calibrate(world, {"--only", "launch", "--output", folder.file(), "--quiet"}).status ==
            0);
    CHECK(read(folder.file()) == whole);
  }
}

TEST_CASE("another GPU's file is refused and left as it is") {
  const Folder folder;
  World world;
  REQUIRE(calibrate(world, with(kShort, folder.file())).status == 0);
  const std::string before = read(folder.file());
  world.name = "NVIDIA H200";
  const Outcome o = calibrate(world, with(kShort, folder.file()));
  CHECK(o.status == 2);
  CHECK(lines(o.err) == 1);
  CHECK(o.err.find("NVIDIA H100 80GB HBM3") != std::string::npos);
  CHECK(read(folder.file()) == before);
}

TEST_CASE("a file that is something else is refused and left as it is") {
  const Folder folder;
  World world;
  for (const std::string text : {"# Notes\n\nno newline at the end", "{\"record\": \"session\"}\n",
                                 "{\"a\": 1}\n", "\n", "x"}) {
    CAPTURE(text);
    write(folder.file(), text);
    const Outcome o = calibrate(world, with(kShort, folder.file()));
    CHECK(o.status == 2);
    CHECK(lines(o.err) >= 1);
    CHECK(read(folder.file()) == text);
  }
}

TEST_CASE("an interrupt finishes the case that runs, keeps everything and says how to go on") {
  const Folder folder;
  World world;
  world.before = [&](const interop::GpuCase&, int run) { world.stop = run == 9; };
  const Outcome o = calibrate(world, {"--output", folder.file()});
  CHECK(o.status == 130);
  CHECK(o.err.find("the same command goes on") != std::string::npos);
  CHECK(interop::read_gpu_measurements(folder.file()).measurements.size() == 10);
  world.stop = false;
  world.before = nullptr;
  CHECK(calibrate(world, {"--minutes", "0.5", "--output", folder.file()}).status == 0);
  const auto all = interop::read_gpu_measurements(folder.file());
  CHECK(all.measurements.size() == static_cast<std::size_t>(world.runs));
  CHECK(keys(all).size() == all.measurements.size());
}

TEST_CASE("what a device cannot do is in the file with its reason, and not tried again") {
  const Folder folder;
  World world;
  world.before = [](const interop::GpuCase& what, int) {
    if (std::get<interop::CopyCase>(what).direction == "both") {
      throw Unsupported("one copy engine");
    }
  };
  const std::vector<std::string> arguments = {"--only",   "copy",        "--minutes", "60",
                                              "--output", folder.file(), "--quiet"};
  REQUIRE(calibrate(world, arguments).status == 0);
  int skipped = 0;
  for (const auto& m : interop::read_gpu_measurements(folder.file()).measurements) {
    const bool both = std::get<interop::CopyCase>(m.what).direction == "both";
    CHECK(m.skipped == (both ? "one copy engine" : ""));
    skipped += both ? 1 : 0;
  }
  CHECK(skipped == 10);
  world.runs = 0;
  REQUIRE(calibrate(world, arguments).status == 0);
  CHECK(world.runs == 0);
}

TEST_CASE("what a build lacks the library for is left to another build") {
  const Folder folder;
  World world;
  world.before = [](const interop::GpuCase& what, int) {
    if (!std::get<interop::CopyCase>(what).pinned) {
      throw NotBuiltIn("not built in");
    }
  };
  const std::vector<std::string> arguments = {"--only", "copy",     "--minutes",
                                              "60",     "--output", folder.file()};
  const Outcome o = calibrate(world, arguments);
  CHECK(o.status == 0);
  CHECK(o.err.find("20 need a library") != std::string::npos);
  CHECK(interop::read_gpu_measurements(folder.file()).measurements.size() == 40);
  world.before = nullptr;
  REQUIRE(calibrate(world, arguments).status == 0);
  CHECK(interop::read_gpu_measurements(folder.file()).measurements.size() == 60);
}

TEST_CASE("a device that fails ends the run; the same command goes on behind the case") {
  const Folder folder;
  World world;
  world.before = [](const interop::GpuCase&, int run) {
    if (run == 5) {
      throw std::runtime_error("kernel: an illegal memory access was encountered");
    }
  };
  const Outcome o = calibrate(world, {"--output", folder.file()});
  CHECK(o.status == 1);
  CHECK(o.err.find("illegal memory access") != std::string::npos);
  CHECK(world.runs == 6);
  auto all = interop::read_gpu_measurements(folder.file());
  REQUIRE(all.measurements.size() == 6);
  CHECK(all.measurements.back().skipped.find("illegal") != std::string::npos);
  CHECK(calibrate(world, {"--minutes", "0.2", "--output", folder.file()}).status == 0);
  all = interop::read_gpu_measurements(folder.file());
  CHECK(keys(all).size() == static_cast<std::size_t>(world.runs));
}

TEST_CASE("a full disk and a folder that is not there end with one line and status 1") {
  World world;
  for (const std::string file : {"/dev/full", "/nowhere/m.jsonl"}) {
    const Outcome o = calibrate(world, with(kShort, file));
    CHECK(o.status == 1);
    CHECK(lines(o.err) == 1);
    CHECK(o.err.find(file) != std::string::npos);
  }
}

TEST_CASE("two runs do not write one file") {
  const Folder folder;
  World world;
  const FakeDevice device(world);
  auto session = device.session();
  session.harness = "0.1.0";
  const Output first(folder.file(), session);
  const Outcome o = calibrate(world, with(kShort, folder.file()));
  CHECK(o.status == 1);
  CHECK(o.err.find("another calibrate-gpu") != std::string::npos);
}

TEST_CASE("nccl-tests' table is printed of the collectives in the file") {
  const Folder folder;
  World world;
  world.gpus = 2;
  const Outcome o =
      calibrate(world, {"--nccl-table", "--minutes", "600", "--output", folder.file(), "--quiet"});
  CHECK(o.status == 0);
  CHECK(o.out.find("algbw") != std::string::npos);
  for (const auto& m : interop::read_gpu_measurements(folder.file()).measurements) {
    CHECK(std::holds_alternative<interop::CollectiveCase>(m.what));
  }
}

TEST_CASE("names of files follow the GPU's") {
  CHECK(default_output("NVIDIA H200") == "measurements-h200.jsonl");
  CHECK(default_output("NVIDIA A100-SXM4-80GB") == "measurements-a100-sxm4-80gb.jsonl");
  CHECK(default_output("") == "measurements-gpu.jsonl");
}
