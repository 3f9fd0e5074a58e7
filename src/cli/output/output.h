// Where results go: standard output for "-", else a file that appears whole or not at all.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "stepcast/base/output_file.h"

namespace stepcast::cli {

// Writes `text` to standard output. Throws InputError naming `option` when it cannot be written.
void write_stdout(const std::string& option, const std::string& text);

// Writes `text` to standard error; failures are ignored, as they cannot be reported anywhere.
void write_stderr(const std::string& text);

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

// Standard output's width in columns when it is a terminal, else 100; and whether to colour.
int terminal_width();
bool terminal_colour();

}  // namespace stepcast::cli
