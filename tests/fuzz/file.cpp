#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "fuzz.h"

namespace stepcast::fuzz {
namespace {

namespace fs = std::filesystem;

// The folder is in memory if the system offers that, since a campaign writes millions of files.
struct Folder {
  fs::path path =
      (fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) /
      ("stepcast-fuzz-" + std::to_string(getpid()));
  Folder() { fs::create_directory(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

}  // namespace

std::string file_with(std::string_view bytes, const char* extension) {
  static const Folder folder;
  const fs::path file = folder.path / (std::string("input") + extension);
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  require(out.good(), "the scratch file could not be written");
  return file.string();
}

}  // namespace stepcast::fuzz
