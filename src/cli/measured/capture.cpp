// simulate capture -- COMMAND: what a training command does in a step, recorded on a machine
// without a GPU.
#include "stepcast/capture/capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../output/output.h"
#include "commands.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct CaptureOptions {
  std::vector<std::string> command;
  std::string out = "program.jsonl.gz";
  std::string world_size, record = "0", steps = "5";
  std::string routing = "zeros";
  bool format = false;
};

// A program in the path, or where it is named.
std::string found(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return name;
  }
  const char* path = std::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string candidate = rest.substr(0, end) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    rest.erase(0, std::min(end + 1, rest.size()));
  }
  throw option_fault("capture",
                     fmt::format("'{}' is not in the path; expected torchrun or python", name));
}

// The Python that a command would run: itself, or the one that a script such as torchrun names in
// its first line.
std::string python_of(const std::string& name) {
  const std::string program = found(name);
  if (std::filesystem::path(program).filename().string().starts_with("python")) {
    return program;
  }
  std::ifstream in(program);
  std::string line;
  std::getline(in, line);
  if (!line.starts_with("#!") || line.find("python") == std::string::npos) {
    throw option_fault(
        "capture",
        fmt::format("'{}' is no script of Python; expected torchrun or python", program));
  }
  line = line.substr(2);
  return line.substr(0, line.find(' '));
}

int run(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));  // NOLINT: execv's interface
  }
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    execv(arguments.front(), arguments.data());
    write_stderr(fmt::format("simulate: {}: {}\n", words.front(), std::strerror(errno)));
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0) {
    throw option_fault("capture",
                       fmt::format("cannot start {}: {}", words.front(), std::strerror(errno)));
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? done : cannot_run;
}

int run_capture(const CaptureOptions& given) {
  if (given.format) {
    write_stdout("--format", capture::format_text());
    return done;
  }
  if (given.command.empty()) {
    throw option_fault(
        "capture",
        "no command given; expected it behind --: simulate capture -- torchrun train.py");
  }
  if (given.routing != "zeros" && given.routing != "even") {
    throw option_fault("--routing", fmt::format("'{}'; expected zeros or even", given.routing));
  }
  const int steps = integer_option("--steps", given.steps, 4, 5);
  const int world = integer_option("--world-size", given.world_size, 1, 0);
  const std::filesystem::path launch =
      text::data_directory() / "src" / "capture" / "recorder" / "launch.py";
  std::vector<std::string> words = {python_of(given.command.front()),
                                    launch.string(),
                                    "--out",
                                    given.out,
                                    "--record",
                                    given.record,
                                    "--steps",
                                    std::to_string(steps),
                                    "--routing",
                                    given.routing};
  if (world > 0) {
    words.insert(words.end(), {"--world-size", std::to_string(world)});
  }
  words.emplace_back("--");
  words.insert(words.end(), given.command.begin(), given.command.end());
  return run(words);
}

}  // namespace

Run add_capture(Command& app) {
  auto given = std::make_shared<CaptureOptions>();
  app.add_option("command", given->command,
                 "behind --: the command, which begins with torchrun or python")
      .type_name("COMMAND");
  app.add_option("--out", given->out, "the program file; compressed where its name ends in .gz")
      .type_name("FILE")
      .show_default();
  app.add_option("--world-size", given->world_size,
                 "number of ranks; left out: that of torchrun's options")
      .type_name("N");
  app.add_option("--record", given->record,
                 "ranks to record, 0 first: one of each kind of rank that does other work, such as "
                 "the first of each pipeline stage")
      .type_name("LIST")
      .show_default();
  app.add_option("--steps", given->steps, "optimizer steps to run, of which the last is recorded")
      .type_name("N")
      .show_default();
  app.add_option("--routing", given->routing,
                 "of tokens to experts: even, so that the forecast can take a load by --set "
                 "moe.balance={spread: 1.3}; zeros: what a router makes of zeros")
      .type_name("zeros|even")
      .show_default();
  app.add_flag("--format", given->format, "print what a program file holds");
  app.footer =
      "Examples:\n"
      "  simulate capture -- torchrun --nproc-per-node 8 train.py --batch 4\n"
      "  simulate capture --world-size 512 --record 0,128,256,384 --out job.jsonl.gz -- torchrun "
      "-m train\n"
      "  simulate --program job.jsonl.gz --cluster dgx-h100 --nodes 64\n"
      "It needs the torch for CUDA that the command runs with, and gcc; it needs no GPU.";
  return [given] { return run_capture(*given); };
}

}  // namespace stepcast::cli
