// Runs the program as a process, in the source tree or elsewhere: exit status and both streams.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "catch.hpp"

namespace stepcast::test {

struct Result {
  int status = -1;
  std::string out, err;
};

// Runs `simulate ARGUMENTS` from `directory`.
inline Result run(const std::string& arguments,
                  const std::string& directory = STEPCAST_SOURCE_DIR) {
  const std::filesystem::path errors =
      std::filesystem::temp_directory_path() / ("stepcast-cli-err-" + std::to_string(::getpid()));
  const std::string command = "cd '" + directory + "' && '" STEPCAST_BINARY "' " + arguments +
                              " 2>'" + errors.string() + "'";
  Result result;
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  std::size_t n = 0;
  while ((n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
    result.out.append(buffer.data(), n);
  }
  const int status = ::pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ostringstream text;
  text << std::ifstream(errors).rdbuf();
  result.err = text.str();
  std::filesystem::remove(errors);
  return result;
}

inline void check_refused(const std::string& arguments, const std::string& start) {
  INFO(arguments);
  const Result r = run(arguments);
  CHECK(r.status == 2);
  CHECK(r.out.empty());
  INFO(r.err);
  CHECK(r.err.rfind(start, 0) == 0);
  CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 1);
}

}  // namespace stepcast::test
