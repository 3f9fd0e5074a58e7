#include "export_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "export_formats.h"
#include "stepcast/input/input.h"

namespace stepcast::cli {

std::vector<ExportFile> prepare_exports(const std::vector<std::string>& exports) {
  const std::vector<std::string> formats = export_formats();
  std::vector<ExportFile> out;
  for (const std::string& text : exports) {
    const std::size_t equals = text.find('=');
    const std::string format = text.substr(0, equals);
    if (equals == std::string::npos || equals + 1 == text.size() || text.ends_with("=-") ||
        std::find(formats.begin(), formats.end(), format) == formats.end()) {
      throw option_fault("--export", fmt::format("is '{}'; expected FORMAT=FILE with one of {}",
                                                 text, fmt::join(formats, " | ")));
    }
    const std::string target = text.substr(equals + 1);
    out.push_back({format, target, std::make_unique<OutputFile>("--export", target)});
  }
  return out;
}

void write_exports(const JobOptions& job, const std::vector<std::string>& found,
                   const std::vector<ExportFile>& exports) {
  std::vector<std::string> overrides = job.overrides;
  overrides.insert(overrides.end(), found.begin(), found.end());
  std::string notes;
  for (const ExportFile& one : exports) {
    const Exported exported = export_job(input::load(job.config, overrides), one.format);
    one.file->write(exported.text);
    notes += exported.note(one.target);
  }
  for (const ExportFile& one : exports) {
    one.file->commit();
  }
  write_stderr(notes);
}

void add_exports(Command& app, std::vector<std::string>& exports, const std::string& what) {
  app.add_option("--export", exports,
                 fmt::format("write {} as {}", what, fmt::join(export_formats(), " | ")))
      .type_name("FORMAT=FILE")
      .one_value();
}

}  // namespace stepcast::cli
