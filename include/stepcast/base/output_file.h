// The one way to write a file of results: it appears whole or not at all.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace stepcast {

// Why a file could not be written, in the system's words: "No space left on device".
class OutputError : public std::runtime_error {
 public:
  OutputError(std::filesystem::path target, std::string why);  // "cannot write 'TARGET': WHY"
  std::filesystem::path target;
  std::string why;
};

// A file that is written beside its destination under a name of its own, and renamed when it is complete. Unless it was
// committed, nothing of it is left. A destination that exists and is no regular file (a pipe, a device) is written directly;
// a symbolic link is followed.
class OutputFile {
 public:
  // Creates the temporary file, so that a destination that cannot be written is known before any work is done. Throws
  // OutputError.
  explicit OutputFile(std::filesystem::path target);
  ~OutputFile();
  OutputFile(OutputFile&&) = delete;

  // Adds to the end. A failure to write is reported by `flush` at the latest. Both throw OutputError.
  void append(std::string_view bytes);
  void flush();
  // Puts the file in place. Throws OutputError.
  void commit();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void create();
  void name();
  std::FILE* file();
  [[noreturn]] void fail(int error) const;
  std::filesystem::path target_, temporary_;
  std::string nameless_;  // where the system shows the open file as long as it has no name; or it has one
  bool direct_ = false, committed_ = false, named_ = false;
  std::unique_ptr<std::FILE, Close> file_;  // null while nothing was written to a destination that is written directly
};

}  // namespace stepcast
