#include "output.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "../command_line/command_line.h"

namespace stepcast::cli {

void write_stdout(const std::string& option, const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw option_fault(option,
                       fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
}

void write_stderr(const std::string& text) { std::fputs(text.c_str(), stderr); }

namespace {

template <class Work>
void naming(const std::string& option, const Work& work) {
  try {
    work();
  } catch (const OutputError& error) {
    throw option_fault(option, error.what());
  }
}

}  // namespace

OutputFile::OutputFile(std::string option, const std::filesystem::path& target)
    : option_(std::move(option)) {
  naming(option_, [&] { file_ = std::make_unique<stepcast::OutputFile>(target); });
}

void OutputFile::write(const std::string& text) {
  naming(option_, [&] {
    file_->append(text);
    file_->flush();
  });
}

void OutputFile::commit() {
  naming(option_, [&] { file_->commit(); });
}

int terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col >= 60) {
    return size.ws_col;
  }
  return 100;
}

bool terminal_colour() {
  const char* kind = std::getenv("TERM");
  const char* refused = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) == 1 && (refused == nullptr || *refused == '\0') &&
         kind != nullptr && std::string_view(kind) != "dumb";
}

}  // namespace stepcast::cli
