// The files in which an answer's job is written beside it: --export FORMAT=FILE.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../output/output.h"
#include "job_options.h"

namespace stepcast::cli {

struct ExportFile {
  std::string format;
  std::string target;
  std::unique_ptr<OutputFile> file;
};

// Opens the files of `exports`, each FORMAT=FILE. Throws InputError for another form or a file that
// cannot be written.
std::vector<ExportFile> prepare_exports(const std::vector<std::string>& exports);

// Writes the job with `found`, overrides that the answer adds to those of the user, and says how it
// is read back.
void write_exports(const JobOptions& job, const std::vector<std::string>& found,
                   const std::vector<ExportFile>& exports);

// "FORMAT=FILE ...", with the formats in its help; `what`: "the strategy found".
void add_exports(Command& app, std::vector<std::string>& exports, const std::string& what);

}  // namespace stepcast::cli
