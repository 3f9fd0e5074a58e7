// Where results go: standard output for "-", else a file that appears whole or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace stepcast::cli {

// Writes `text` to standard output. Throws InputError naming `option` when it cannot be written.
void write_stdout(const std::string& option, const std::string& text);

// Writes `text` to standard error; where that is closed or full, there is nobody left to tell.
void write_stderr(const std::string& text);

// A file being prepared beside its destination; `commit` renames it into place, anything else
// removes it. Opening fails (InputError naming `option`) before any work is done. A destination
// that exists and is no regular file (a pipe, a device) is written directly.
class OutputFile {
 public:
  OutputFile(std::string option, std::filesystem::path target);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const std::string& text);
  const std::filesystem::path& path() const {
    return temporary_;
  }  // for writers that open it themselves
  void commit();

 private:
  [[noreturn]] void fail(const std::string& why) const;
  std::string option_;
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  bool direct_ = false;
  bool committed_ = false;
};

// Standard output's width in columns when it is a terminal, else 100; and whether to colour.
int terminal_width();
bool terminal_colour();

}  // namespace stepcast::cli
