#include "harness/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace stepcast::harness {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
  throw std::runtime_error(fmt::format("{}: {}: {}", file.string(), what, std::strerror(errno)));
}

std::string read_all(int descriptor, const std::filesystem::path& file) {
  std::string text;
  char block[1 << 16];
  while (true) {
    const ssize_t got = ::read(descriptor, block, sizeof block);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      fail(file, "cannot be read");
    }
    if (got == 0) {
      return text;
    }
    text.append(block, static_cast<std::size_t>(got));
  }
}

// What an interrupted write leaves: the beginning of a record, never another file's last line.
bool begins_a_record(std::string_view text) {
  constexpr std::string_view kBegin = "{\"record\": \"";
  const std::size_t common = std::min(text.size(), kBegin.size());
  return text.substr(0, common) == kBegin.substr(0, common);
}

void same_gpu(const interop::GpuSession& before, const interop::GpuSession& now,
              const std::filesystem::path& file) {
  if (before.gpu != now.gpu || before.compute_capability != now.compute_capability ||
      before.architecture != now.architecture || before.sms != now.sms ||
      before.memory != now.memory) {
    throw InputError(Fault{
        {file.string(), 0, 0},
        fmt::format("holds measurements of another GPU ({}, {} SMs, {:.1f} GB; this is {}, {} SMs, "
                    "{:.1f} GB): name another file with --output",
                    before.gpu, before.sms, static_cast<double>(before.memory) * 1e-9, now.gpu,
                    now.sms, static_cast<double>(now.memory) * 1e-9)});
  }
}

}  // namespace

std::string default_output(const std::string& gpu) {
  std::string name;
  for (const char c : gpu) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') {
    name.pop_back();
  }
  constexpr std::string_view kVendor = "nvidia-";
  if (name.starts_with(kVendor)) {
    name.erase(0, kVendor.size());
  }
  return fmt::format("measurements-{}.jsonl", name.empty() ? "gpu" : name);
}

Output::Output(std::filesystem::path file, const interop::GpuSession& session)
    : file_(std::move(file)) {
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    fail(file_, "cannot be written");
  }
  try {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw std::runtime_error(fmt::format("{}: another calibrate-gpu writes it", file_.string()));
    }
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) {
      fail(file_, "cannot be read");
    }
    if (S_ISREG(status.st_mode)) {
      const std::string text = read_all(descriptor_, file_);
      const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
      if (!begins_a_record(text) || !begins_a_record(std::string_view(text).substr(whole))) {
        throw InputError(Fault{{file_.string(), 0, 0},
                               "holds no measurements of calibrate-gpu: name another file with "
                               "--output"});
      }
      if (whole > 0) {
        const interop::GpuMeasurements before =
            interop::parse_gpu_measurements(text.substr(0, whole), file_.string());
        for (const interop::GpuSession& s : before.sessions) {
          same_gpu(s, session, file_);
        }
        for (const interop::GpuMeasurement& m : before.measurements) {
          keys_.insert(interop::to_string(m.what));
        }
        resumed_ = keys_.size();
      }
      if (whole < text.size() && ::ftruncate(descriptor_, static_cast<off_t>(whole)) != 0) {
        fail(file_, "cannot be cut at its last whole line");
      }
      if (::lseek(descriptor_, 0, SEEK_END) < 0) {
        fail(file_, "cannot be written");
      }
    }
    write(interop::to_json_line(session));
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

Output::~Output() { ::close(descriptor_); }

void Output::append(const interop::GpuMeasurement& measurement) {
  write(interop::to_json_line(measurement));
  keys_.insert(interop::to_string(measurement.what));
}

void Output::write(const std::string& line) {
  std::string_view left = line;
  while (!left.empty()) {
    const ssize_t put = ::write(descriptor_, left.data(), left.size());
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put < 0) {
      fail(file_, "cannot be written");
    }
    left.remove_prefix(static_cast<std::size_t>(put));
  }
  // Pipes and /dev/null have nothing to keep.
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) {
    fail(file_, "cannot be written");
  }
}

}  // namespace stepcast::harness
