#include "output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>

#include "command_line.h"

namespace stepcast::cli {

void write_stdout(const std::string& option, const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw option_fault(option,
                       fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
}

void write_stderr(const std::string& text) { std::fputs(text.c_str(), stderr); }

OutputFile::OutputFile(std::string option, std::filesystem::path target)
    : option_(std::move(option)), target_(std::move(target)) {
  std::error_code ignored;
  if (std::filesystem::is_directory(target_, ignored)) {
    fail("is a directory");
  }
  if (std::filesystem::is_symlink(target_, ignored)) {
    const auto real = std::filesystem::canonical(target_, ignored);
    target_ = ignored ? target_ : real;
  }
  direct_ = std::filesystem::exists(target_, ignored) &&
            !std::filesystem::is_regular_file(target_, ignored);
  if (direct_) {
    temporary_ = target_;
    return;
  }
  temporary_ = target_;
  temporary_ += fmt::format(".{}.part", ::getpid());
  const int handle = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (handle < 0) {
    fail(std::strerror(errno));
  }
  ::close(handle);
}

OutputFile::~OutputFile() {
  if (!direct_ && !committed_) {
    std::error_code ignored;
    std::filesystem::remove(temporary_, ignored);
  }
}

void OutputFile::fail(const std::string& why) const {
  throw option_fault(option_, fmt::format("cannot write '{}': {}", target_.string(), why));
}

void OutputFile::write(const std::string& text) {
  std::ofstream file(temporary_, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) {
    fail(std::strerror(errno));
  }
}

void OutputFile::commit() {
  if (!direct_) {
    std::error_code error;
    std::filesystem::rename(temporary_, target_, error);
    if (error) {
      fail(error.message());
    }
  }
  committed_ = true;
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
