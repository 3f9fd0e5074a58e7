#include "named_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "classify.h"
#include "inputs.h"

namespace stepcast::interop::launch {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// The last setting of an option that names a file; nullptr where there is none.
const Setting* naming(const std::vector<Setting>& settings, std::string_view option) {
  const auto found = std::find_if(settings.rbegin(), settings.rend(),
                                  [&](const Setting& s) { return s.name == option; });
  if (found == settings.rend() || found->value.kind != Value::Kind::scalar ||
      says_nothing(*found) || !found->open.empty() || found->value.scalar.empty()) {
    return nullptr;
  }
  return &*found;
}

// A text in memory comes from elsewhere, so that no file lies beside it.
bool in_memory(const LaunchRequest& request, const Setting& by) {
  return std::any_of(request.texts.begin(), request.texts.end(),
                     [&](const auto& text) { return text.first == by.origin.file; });
}

bool is_input(const LaunchRequest& request, const fs::path& path) {
  return std::any_of(request.inputs.begin(), request.inputs.end(), [&](const std::string& input) {
    return is_file(input) && fs::path(input).filename() == path.filename();
  });
}

std::optional<fs::path> found(const Setting& by) {
  const fs::path path = by.value.scalar;
  const bool by_file = by.origin.line > 0;
  if (path.is_relative() && by_file) {
    std::error_code error;
    fs::path folder = fs::absolute(by.origin.file, error).parent_path();
    while (true) {
      if (is_file(folder / path)) {
        return folder / path;
      }
      if (folder == folder.parent_path()) {
        break;
      }
      folder = folder.parent_path();
    }
  }
  return is_file(path) ? std::optional(path) : std::nullopt;
}

// nullopt where the file is not there.
std::optional<std::vector<Setting>> settings_named(const LaunchRequest& request,
                                                   const Setting& by) {
  const std::string& path = by.value.scalar;
  if (path.front() == '{') {
    return settings_in_json(path, by.shown, request);
  }
  const auto file = in_memory(request, by) ? std::nullopt : found(by);
  if (!file) {
    return std::nullopt;
  }
  return settings_of_document(file->lexically_proximate(fs::current_path()).string(), request);
}

[[noreturn]] void refuse_missing(const LaunchRequest& request, const Setting& by) {
  const char* where = in_memory(request, by) ? ""
                      : by.origin.line == 0  ? " and is not there"
                                             : ", nor found from the folder of this file or above";
  throw InputError(Fault{
      by.origin, fmt::format("{} names {}, which is not among the inputs{}; expected that file "
                             "behind this one",
                             by.shown, by.value.scalar, where)});
}

}  // namespace

void add_named_files(const LaunchRequest& request, const Reader& reader,
                     std::vector<Setting>& settings) {
  for (const NamedFile& file : reader.files) {
    const Setting* by = naming(settings, file.option);
    const auto stated = [&](bool in_a_file) {
      return std::any_of(settings.begin(), settings.end(), [&](const Setting& s) {
        return file.states(s) && (s.origin.line > 0) == in_a_file;
      });
    };
    if (by == nullptr || !by->value.scalar.ends_with(file.extension) ||
        is_input(request, by->value.scalar) || stated(true)) {
      continue;
    }
    auto named = settings_named(request, *by);
    if (named) {
      add_sections(reader, *named);
      settings.insert(settings.begin(), named->begin(), named->end());
    } else if (!stated(false)) {  // arguments may state it in the file's place
      refuse_missing(request, *by);
    }
  }
}

}  // namespace stepcast::interop::launch
