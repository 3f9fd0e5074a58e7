#include "stepcast/text/opened.h"

#include <sys/stat.h>

#include <atomic>
#include <mutex>

#include "files.h"

namespace stepcast::text {
namespace {

constexpr std::int64_t kNanosecondsOfASecond = 1'000'000'000;

struct OpenedList {
  std::atomic<bool> kept{false};
  std::mutex mutex;
  std::map<std::string, FileState> files;
};

OpenedList& opened_list() {
  static OpenedList list;
  return list;
}

}  // namespace

FileState state_of(const std::filesystem::path& file) {
  struct stat facts {};
  if (::stat(file.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return {};
  }
  return {static_cast<std::uint64_t>(facts.st_dev), static_cast<std::uint64_t>(facts.st_ino),
          static_cast<std::uint64_t>(facts.st_size),
          static_cast<std::int64_t>(facts.st_mtim.tv_sec) * kNanosecondsOfASecond +
              static_cast<std::int64_t>(facts.st_mtim.tv_nsec)};
}

void remember_opened() { opened_list().kept = true; }

void note_opened(const std::filesystem::path& file) {
  OpenedList& list = opened_list();
  if (list.kept) {
    const std::lock_guard lock(list.mutex);
    list.files.emplace(file.string(), state_of(file));
  }
}

std::map<std::string, FileState> opened_files() {
  OpenedList& list = opened_list();
  const std::lock_guard lock(list.mutex);
  return list.files;
}

}  // namespace stepcast::text
