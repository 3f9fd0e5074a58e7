// Inputs that once crashed the program, took its memory, or passed in silence: each is one line and
// exits 2.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "catch.hpp"
#include "run.h"
#include "support/folder.h"

using stepcast::test::check_refused;
using stepcast::test::Folder;
using stepcast::test::Result;
using stepcast::test::run;

namespace {

namespace fs = std::filesystem;

fs::path write(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
  return file;
}

// Of a processor: a busy machine makes everything wait.
double seconds_of_children() {
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  return static_cast<double>(used.ru_utime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec);
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) {
    out += text;
  }
  return out;
}

}  // namespace

TEST_CASE("times that do not fit picoseconds are a fault of the job, for every command") {
  for (const char* command : {"", "explain ", "memory ", "goodput "}) {
    check_refused(fmt::format("{}--config llama70b --set workload.sequence_length=1e8", command),
                  STEPCAST_SOURCE_DIR "/configs/llama70b.yaml:1:1: error: ");
  }
  check_refused("--config llama70b --set workload.sequence_length=1e8 --fidelity bound",
                STEPCAST_SOURCE_DIR "/configs/llama70b.yaml:1:1: error: ");
}

TEST_CASE("a job that fills the memory is refused before it does") {
  check_refused("--config gpt3-175b --set workload.global_batch=65536",
                "--set workload.global_batch=65536: error: ");
  check_refused("--config gpt3-175b --set workload.global_batch=1e8",
                "--set workload.global_batch=1e8: error: ");
}

TEST_CASE("a file of another tool that is nested without end is refused") {
  const Folder folder;
  const auto deep = write(folder / "deep.toml", "a" + repeated(".a", 100'000) + " = 1\n");
  check_refused("--from torchtitan '" + deep.string() + "' --cluster dgx-h100 --nodes 1",
                deep.string() + ":1:130: error: is nested too deeply");
  // Inside strings and comments dots are no parts of a key.
  const std::string dots(1000, '.');
  const auto flat =
      write(folder / "flat.toml", "# " + dots + "\nx = \"" + dots + "\\\"\"\ny = '''\n" + dots +
                                      "'\n'''\n[model]\nname = 1.5.5\n");
  check_refused("--from torchtitan '" + flat.string() + "' --cluster dgx-h100 --nodes 1",
                flat.string() + ":7:");
}

TEST_CASE("a fault stays one line, whatever the file contains") {
  const Folder folder;
  const auto toml = write(folder / "half.toml", "[metrics]\nenable = fal\nother = 1\n");
  check_refused("--from torchtitan '" + toml.string() + "' --cluster dgx-h100 --nodes 1",
                toml.string() + ":2:");
  const Result r = run("--config llama8b-fsdp --set \"$(printf 'model.name=\"a\\\\e[31mred\"')\"");
  CHECK(r.status == 2);
  CHECK(r.err.find('\x1b') == std::string::npos);
}

TEST_CASE("200,000 unknown keys are a hundred lines, soon") {
  const Folder folder;
  std::string text = "model: gpt2\n";
  for (int i = 0; i < 200'000; ++i) {
    text += fmt::format("key_{}: 1\n", i);
  }
  const auto job = write(folder / "keys.yaml", text);
  const double before = seconds_of_children();
  const Result r = run("--config '" + job.string() + "'");
  CHECK(seconds_of_children() - before < 30);  // quadratic, it took minutes
  CHECK(r.status == 2);
  CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 101);
  CHECK_THAT(r.err, ContainsSubstring("more faults are left out"));
}

TEST_CASE("a job beyond 16 MiB is refused") {
  const Folder folder;
  const auto job = write(folder / "large.json", "[" + repeated("1,", 9'000'000) + "1]");
  check_refused("--config '" + job.string() + "'", job.string() + ":1:1: error: is beyond 16 MiB");
}

TEST_CASE("a table of passes names the place of its fault") {
  const Folder folder;
  const auto table = write(folder / "two.csv", "0F0,0F1,0B0,0B1\n1F0,B0\n");
  check_refused("schedule '" + table.string() + "'", table.string() + ":2:5: error: 'B0'");
}

TEST_CASE("a calibration that does not exist is a fault of the job's line") {
  const Folder folder;
  const auto job =
      write(folder / "job.yaml", "use: llama8b-fsdp\ncalibration: [auto, nothere.yaml]\n");
  check_refused("--config '" + job.string() + "'",
                job.string() + ":2:14: error: there is no file 'nothere.yaml'");
}

TEST_CASE("one process of a launch answers what is not divided among them") {
  const auto as = [](int rank, const std::string& arguments) {
    return run("--version >/dev/null; OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=" +
               std::to_string(rank) + " '" STEPCAST_BINARY "' " + arguments);
  };
  CHECK_THAT(as(0, "--config llama8b-fsdp").out, ContainsSubstring("Step time"));
  const Result second = as(1, "--config llama8b-fsdp");
  CHECK(second.status == 0);
  CHECK(second.out.empty());
  CHECK(second.err.empty());
  CHECK(as(1, "--config llama9b").err.empty());
}

TEST_CASE("collectives of NICs that were not measured say so") {
  const std::string common =
      "collective --cluster dgx-h200 --nodes 2 --op all_reduce -b 256M -e 256M --set "
      "'cluster.node.nic=";
  CHECK_THAT(run(common + "800 Gb/s'").out,
             ContainsSubstring("measured with NICs of 50 GB/s, scaled to 100 GB/s"));
  CHECK(run(common + "400 Gb/s'").out.find("scaled") == std::string::npos);
}

TEST_CASE("a rate without its unit is refused with one that may be meant") {
  check_refused("--config llama70b --set cluster.device.nvlink=450",
                "--set cluster.device.nvlink=450: error: cluster.device.nvlink is 450 B/s; "
                "expected at least 1 MB/s, such as '450 GB/s'");
  check_refused("--config llama70b --set cluster.node.nic=400",
                "--set cluster.node.nic=400: error: cluster.node.nic is 400 B/s; expected at "
                "least 1 MB/s, such as '400 Gb/s'");
  check_refused("--config llama70b --set cluster.device.memory=80",
                "--set cluster.device.memory=80: error: ");
}

TEST_CASE("a file that was asked for is kept where standard output cannot take the text") {
  if (!fs::exists("/dev/full")) {
    SKIP("no /dev/full");
  }
  const Folder folder;
  const fs::path page = folder / "page.html";
  const Result r = run(fmt::format("--config llama70b --html {} > /dev/full", page.string()));
  CHECK(r.status == 2);
  CHECK(r.err.find("cannot write to standard output") != std::string::npos);
  CHECK(fs::file_size(page) > 1000);
}
