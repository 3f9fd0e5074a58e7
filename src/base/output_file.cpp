#include "stepcast/base/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace stepcast {

OutputError::OutputError(std::filesystem::path file, std::string reason)
    : std::runtime_error(fmt::format("cannot write '{}': {}", file.string(), reason)),
      target(std::move(file)),
      why(std::move(reason)) {}

OutputFile::OutputFile(std::filesystem::path target) : target_(std::move(target)) {
  std::error_code ignored;
  if (std::filesystem::is_directory(target_, ignored)) {
    throw OutputError(target_, "is a directory");
  }
  if (std::filesystem::is_symlink(target_, ignored)) {
    const auto real = std::filesystem::canonical(target_, ignored);
    target_ = ignored ? target_ : real;
  }
  direct_ = std::filesystem::exists(target_, ignored) &&
            !std::filesystem::is_regular_file(target_, ignored);
  temporary_ = target_;
  if (!direct_) {
    temporary_ += fmt::format(".{}.part", ::getpid());
    file();
  }
}

OutputFile::~OutputFile() {
  if (!direct_ && !committed_) {
    file_.reset();
    std::error_code ignored;
    std::filesystem::remove(temporary_, ignored);
  }
}

void OutputFile::fail(int error) const { throw OutputError(target_, std::strerror(error)); }

// "e" (O_CLOEXEC): programs that are started meanwhile do not inherit the file.
std::FILE* OutputFile::file() {
  if (!file_) {
    file_.reset(std::fopen(temporary_.c_str(), "wbe"));
    if (!file_) {
      fail(errno);
    }
  }
  return file_.get();
}

void OutputFile::append(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file()) != bytes.size()) {
    fail(errno);
  }
}

void OutputFile::flush() {
  if (std::fflush(file()) != 0) {
    fail(errno);
  }
}

void OutputFile::commit() {
  if (file_ && std::fclose(file_.release()) != 0) {
    fail(errno);
  }
  if (!direct_) {
    std::error_code error;
    std::filesystem::rename(temporary_, target_, error);
    if (error) {
      throw OutputError(target_, error.message());
    }
  }
  committed_ = true;
}

}  // namespace stepcast
