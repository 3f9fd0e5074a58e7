// Which input files this process has opened, so that a command can run again when one of them changes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace stepcast::text {

// What tells one content of a file from another without reading it. All zero: there is no such regular file.
struct FileState {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t modified = 0;  // nanoseconds since the epoch
  friend bool operator==(const FileState&, const FileState&) = default;
};
FileState state_of(const std::filesystem::path& file);

// Keeps a list from now on. Of each file the list has the state that it had before it was first read, so that a change
// while it is being read is seen as one. Files that do not exist are listed too.
void remember_opened();
std::map<std::string, FileState> opened_files();

}  // namespace stepcast::text
