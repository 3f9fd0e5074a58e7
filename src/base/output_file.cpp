#include "stepcast/base/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
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
    create();
  }
}

namespace {
// Names of an unfinished file are tried until one is free.
constexpr int kNames = 100;

std::filesystem::path unfinished_name(std::filesystem::path target, int n) {
  target += fmt::format(".{}.{}.part", ::getpid(), n);
  return target;
}

// A file of this process, without a name for as long as it is open: what kills the process leaves
// nothing. Not every file system can do that, and only /proc can give it a name later.
int open_nameless(const std::filesystem::path& target, std::string& name) {
#ifdef O_TMPFILE
  std::filesystem::path folder = target.parent_path();
  if (folder.empty()) {
    folder = ".";
  }
  constexpr mode_t kForAll = 0666;  // less the umask, as every program creates files
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kForAll);
  name = fmt::format("/proc/self/fd/{}", fd);
  if (fd >= 0 && ::access(name.c_str(), F_OK) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
#else
  return -1;
#endif
}
}  // namespace

// Under a name that nobody else made, or that leads elsewhere.
void OutputFile::create() {
  int fd = open_nameless(target_, nameless_);
  if (fd < 0) {
    nameless_.clear();
    for (int n = 0; n < kNames && fd < 0; ++n) {
      temporary_ = unfinished_name(target_, n);
      constexpr mode_t kForAll = 0666;
      fd =
          ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kForAll);
      if (fd < 0 && errno != EEXIST) {
        break;
      }
    }
  }
  if (fd < 0) {
    fail(errno);
  }
  file_.reset(::fdopen(fd, "wb"));
  if (!file_) {
    const int error = errno;
    ::close(fd);
    fail(error);
  }
}

// Gives a nameless file its temporary name, from which it can replace what stands at the target.
void OutputFile::name() {
  for (int n = 0; n < kNames; ++n) {
    temporary_ = unfinished_name(target_, n);
    if (::linkat(AT_FDCWD, nameless_.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) ==
        0) {
      named_ = true;
      return;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  fail(errno);
}

OutputFile::~OutputFile() {
  if (!direct_ && !committed_) {
    file_.reset();
    if (!nameless_.empty() && !named_) {
      return;
    }
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
  if (file_ && !nameless_.empty()) {
    flush();
    name();
  }
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
