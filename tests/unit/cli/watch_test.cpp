// simulate --watch: each change of a file that the forecast reads gives a new forecast. The test
// waits for what is printed, and replaces files whole, so that nothing depends on the time.
#include <fcntl.h>
#include <signal.h>

#include <filesystem>

#include "support/folder.h"
#include "unit/cli/run.h"

using namespace stepcast;
using test::check_refused;
using test::Folder;

namespace {

// The running program, whose two streams are one pipe.
class Watched {
 public:
  explicit Watched(const std::string& arguments) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(ends[1], STDERR_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      ::execl("/bin/sh", "sh", "-c", ("exec '" STEPCAST_BINARY "' " + arguments).c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    out_ = ::fdopen(ends[0], "r");
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::fclose(out_);
  }
  // Everything up to the line with which a run ends.
  std::string until_waiting() {
    std::string all;
    for (std::string line = next_line(); !line.empty(); line = next_line()) {
      all += line;
      if (line.starts_with("watching ")) {
        break;
      }
    }
    return all;
  }
  // Sends the signal; what is printed from then on, and the status.
  std::pair<std::string, int> end(int signal) {
    ::kill(pid_, signal);
    std::string all;
    for (std::string line = next_line(); !line.empty(); line = next_line()) {
      all += line;
    }
    int status = -1;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return {all, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
  }

 private:
  std::string next_line() {
    std::string line;
    for (int c = std::fgetc(out_); c != EOF; c = std::fgetc(out_)) {
      line += static_cast<char>(c);
      if (c == '\n') {
        break;
      }
    }
    return line;
  }
  pid_t pid_ = 0;
  std::FILE* out_ = nullptr;
};

// As editors do: a new file takes the place of the old one.
void replace(const Folder& folder, const char* name, const std::string& text) {
  std::ofstream(folder.file("new")) << text;
  std::filesystem::rename(folder.file("new"), folder.file(name));
}

std::string job(const std::string& sequence_length, const std::string& model = "llama-3-8b") {
  return "model: " + model +
         "\ncluster: {use: dgx-h100, nodes: 1}\nsystem: pytorch-fsdp2\nworkload: "
         "{sequence_length: " +
         sequence_length + ", global_batch: 16, micro_batch: 1}\nparallelism: {data: 8}\n";
}

}  // namespace

TEST_CASE("A change of the job's file gives a new forecast, and a fault does not end it") {
  const Folder folder;
  replace(folder, "job.yaml", job("1024"));
  Watched program("--watch --config " + folder.file("job.yaml"));
  CHECK_THAT(program.until_waiting(), ContainsSubstring("16 sequences of 1024 tokens"));
  replace(folder, "job.yaml", job("2048"));
  CHECK_THAT(program.until_waiting(), ContainsSubstring("16 sequences of 2048 tokens"));
  replace(folder, "job.yaml", job("none"));
  CHECK_THAT(program.until_waiting(),
             ContainsSubstring("job.yaml:4:29: error: workload.sequence_length"));
  std::filesystem::remove(folder.file("job.yaml"));
  CHECK_THAT(program.until_waiting(), ContainsSubstring("error: there is no file"));
  replace(folder, "job.yaml", job("512"));
  CHECK_THAT(program.until_waiting(), ContainsSubstring("16 sequences of 512 tokens"));
  const auto [rest, status] = program.end(SIGINT);
  CHECK(rest.empty());
  CHECK(status == 0);
}

TEST_CASE("So does a change of a file that the job uses") {
  const Folder folder;
  const auto model = [](int layers) {
    return "layers: " + std::to_string(layers) +
           "\nhidden: 1024\nheads: 8\nffn: 4096\nvocab: 32000\n";
  };
  replace(folder, "small.yaml", model(4));
  replace(folder, "job.yaml", job("512", folder.file("small.yaml")));
  Watched program("--watch --config " + folder.file("job.yaml"));
  const std::string four = program.until_waiting();
  replace(folder, "small.yaml", model(8));
  const std::string eight = program.until_waiting();
  CHECK_THAT(four, ContainsSubstring("Step time"));
  CHECK_THAT(eight, ContainsSubstring("Step time"));
  CHECK(four.substr(0, four.find("Where")) != eight.substr(0, eight.find("Where")));
  CHECK(program.end(SIGTERM).second == 0);
}

TEST_CASE("What cannot be watched is refused") {
  check_refused("llama8b-fsdp --watch --json -",
                "--watch: error: prints to the terminal; expected no --json");
  check_refused("llama8b-fsdp --watch --show-job",
                "--watch: error: forecasts; expected no --show-job");
  check_refused("--watch", "--config: error: missing");
}
