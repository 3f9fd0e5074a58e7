// Where results go: standard output for "-", else a file that appears whole or not at all.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "stepcast/base/output_file.h"

namespace stepcast::cli {

// Writes `text` to standard output. Throws InputError naming `option` when it cannot be written.
void write_stdout(const std::string& option, const std::string& text);

// The file that an option names (stepcast/base/output_file.h); its failures are InputErrors that
// name the option.
class OutputFile {
 public:
  OutputFile(std::string option, const std::filesystem::path& target);

  void write(const std::string& text);
  void commit();
  stepcast::OutputFile& file() { return *file_; }  // for writers that fill it themselves

 private:
  std::string option_;
  std::unique_ptr<stepcast::OutputFile> file_;
};

}  // namespace stepcast::cli
