#include "export_formats.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "stepcast/base/shell_word.h"
#include "stepcast/config/job_file.h"
#include "stepcast/interop/launch_file.h"

namespace stepcast::cli {
namespace {

constexpr const char* kJob = "job";  // Stepcast's own file

}  // namespace

std::vector<std::string> export_formats() {
  std::vector<std::string> names = interop::launch_targets();
  names.insert(names.begin(), kJob);
  return names;
}

Exported export_job(const config::Loaded& loaded, const std::string& format) {
  if (format == kJob) {
    return {config::job_file(loaded), "simulate --config FILE"};
  }
  interop::LaunchFile file = interop::launch_file(loaded, format);
  return {std::move(file.text), std::move(file.read_back), file.own_cluster};
}

std::string Exported::note(const std::string& file) const {
  std::string command = read_back;
  const std::string_view placeholder = "FILE";
  command.replace(command.find(placeholder), placeholder.size(), shell_word(file));
  return fmt::format("gives the same job{}: {}\n",
                     own_cluster ? " with its own cluster in a file CLUSTER" : "", command);
}

}  // namespace stepcast::cli
