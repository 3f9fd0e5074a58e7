// The command line, dry runs, and the messages if there is no GPU.
#include <algorithm>
#include <set>
#include <sstream>

#include "catch.hpp"
#include "fake_device.h"

using namespace stepcast;
using namespace stepcast::harness;

namespace {

Outcome without_gpu(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"calibrate-gpu"};
  for (const std::string& a : arguments) {
    argv.push_back(a.c_str());
  }
  Hooks hooks;
  hooks.open = [](int) -> std::unique_ptr<Device> {
    throw NoDevice("no usable GPU: no NVIDIA driver is loaded");
  };
  hooks.gpus_per_node = [] { return std::vector<int>(); };
  hooks.stop = [] { return false; };
  hooks.clock = [] { return 0.0; };
  std::ostringstream out;
  std::ostringstream err;
  const int status = command(static_cast<int>(argv.size()), argv.data(), hooks, out, err, false);
  return {status, out.str(), err.str()};
}

struct Listed {
  std::set<std::string> kinds, cases;
  double seconds = 0;
  int count = 0;
};

Listed listed(const std::string& text) {
  Listed l;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) {
      continue;
    }
    ++l.count;
    l.kinds.insert(line.substr(0, line.find(' ')));
    const std::size_t end = line.find_last_not_of(' ', line.rfind(' '));
    l.cases.insert(line.substr(0, end + 1));
    l.seconds += std::stod(line.substr(end + 1));
  }
  return l;
}

}  // namespace

TEST_CASE("without a GPU there is one line and status 2") {
  const Outcome o = without_gpu({});
  CHECK(o.status == 2);
  CHECK(o.out.empty());
  CHECK(o.err == "calibrate-gpu: no usable GPU: no NVIDIA driver is loaded\n");
}

TEST_CASE("a wrong command line is one line and status 2") {
  using Arguments = std::vector<std::string>;
  for (const Arguments& arguments :
       {Arguments{"--bad"}, Arguments{"file"}, Arguments{"--minutes", "0"},
        Arguments{"--minutes", "nan"}, Arguments{"--minutes", "soon"}, Arguments{"--minutes"},
        Arguments{"--only", "gem"}, Arguments{"--gpu", "-1"}, Arguments{"--gpus", "0"},
        Arguments{"--device", "h100-sxm"}, Arguments{"--dry-run", "--device", "h101"},
        Arguments{"--dry-run", "--models", "llama-9"}, Arguments{"--seed", "-3"}}) {
    std::string shown;
    for (const std::string& a : arguments) {
      shown += a + " ";
    }
    CAPTURE(shown);
    const Outcome o = without_gpu(arguments);
    CHECK(o.status == 2);
    CHECK(o.out.empty());
    CHECK(lines(o.err) == 1);
  }
  CHECK(without_gpu({"--only", "gem"}).err.find("did you mean 'gemm'?") != std::string::npos);
}

TEST_CASE("help, version and lists need no GPU") {
  CHECK(without_gpu({"--help"}).out.find("--dry-run") != std::string::npos);
  CHECK(without_gpu({"--version"}).out.find('.') != std::string::npos);
  CHECK(without_gpu({"--list"}).out.find("h200-sxm") != std::string::npos);
  CHECK(without_gpu({"--help"}).status == 0);
}

TEST_CASE("a dry run lists every measurement and the total, the same each time") {
  const std::vector<std::string> arguments = {"--dry-run", "--device", "h200-sxm"};
  const Outcome o = without_gpu(arguments);
  CHECK(o.status == 0);
  CHECK(o.err.empty());
  CHECK(without_gpu(arguments).out == o.out);
  const Listed l = listed(o.out);
  CHECK(l.kinds.size() == 8);
  CHECK(l.cases.size() == static_cast<std::size_t>(l.count));
  CHECK(l.count > 1000);
  CHECK(l.seconds <= 300 + 0.005 * l.count);
  CHECK(l.seconds > 285);
  CHECK(o.out.find("# " + std::to_string(l.count) + " measurements in ") != std::string::npos);
}

TEST_CASE("a dry run's device decides what is in it") {
  const std::string a100 = without_gpu({"--dry-run", "--device", "a100-sxm-80"}).out;
  CHECK(a100.find(" fp8") == std::string::npos);
  const std::string eight =
      without_gpu({"--dry-run", "--device", "h100-sxm", "--gpus", "8", "--only", "collective"}).out;
  CHECK(eight.find("8 ranks") != std::string::npos);
  CHECK(listed(eight).kinds == std::set<std::string>{"collective"});
  CHECK(without_gpu({"--dry-run"}).out.find("no GPU here") != std::string::npos);
}

TEST_CASE("what a run measures is what its dry run lists") {
  World world;
  const Outcome dry = calibrate(world, {"--dry-run", "--minutes", "0.5"});
  CHECK(dry.status == 0);
  CHECK(world.runs == 0);
  // /dev/null keeps nothing, so it is not a file that a run can continue.
  CHECK(calibrate(world, {"--minutes", "0.5", "--output", "/dev/null", "--quiet"}).status == 0);
  CHECK(std::abs(world.runs - listed(dry.out).count) <= 2);  // rounding of the clock at the end
}

TEST_CASE("progress without a terminal is a line every half minute") {
  World world;
  const Outcome o = calibrate(world, {"--minutes", "2", "--output", "/dev/null"});
  CHECK(o.status == 0);
  CHECK(o.err.find("\r") == std::string::npos);
  // Without the summary and the line on cases that did not fit.
  const int progress = lines(o.err) - 2;
  CHECK(progress >= 3);
  CHECK(progress <= 4);
}
