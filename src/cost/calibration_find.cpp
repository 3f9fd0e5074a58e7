// Finds the calibration files of kernels that hold for a device, among those below calibration/ and
// those that a job names.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <string_view>
#include <system_error>

#include "calibration_file.h"
#include "stepcast/cost/calibration_list.h"

namespace stepcast::cost {
namespace {

constexpr const char* kAuto = "auto";  // in a job's list: the committed files of the device

[[noreturn]] void file_fault(const std::filesystem::path& file, std::string message) {
  throw InputError(Fault{{file.string(), 0, 0}, std::move(message)});
}

// A cached file; `parsed` is empty until a device is asked for whose name occurs in the text.
struct CachedFile {
  std::filesystem::file_time_type time;
  std::string text;
  std::shared_ptr<const CalibrationFile> parsed;
};

struct Cache {
  std::mutex mutex;
  std::map<std::string, CachedFile> entries;
};

Cache& cache() {
  static Cache instance;
  return instance;
}

std::string short_name(const std::filesystem::path& file) {
  return file.has_parent_path() ? (file.parent_path().filename() / file.filename()).generic_string()
                                : file.filename().generic_string();
}

// Empty where it cannot be read.
std::string whole_text(const std::filesystem::path& file) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error) {
    return {};
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

// With the cache's mutex held.
CachedFile& entry_of(const std::filesystem::path& file) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(file, error);
  if (error) {
    file_fault(file, "cannot be read: " + error.message());
  }
  CachedFile& e = cache().entries[file.string()];
  if (e.text.empty() || e.time != time) {
    e = {time, whole_text(file), nullptr};
  }
  return e;
}

std::shared_ptr<const CalibrationFile> parse_entry(CachedFile& e,
                                                   const std::filesystem::path& file) {
  if (!e.parsed) {
    CalibrationFile parsed = to_calibration(text::read_yaml(file));
    parsed.name = short_name(file);
    e.parsed = std::make_shared<const CalibrationFile>(std::move(parsed));
  }
  return e.parsed;
}

bool is_for_device(const CalibrationFile& file, const std::string& device) {
  return std::find(file.devices.begin(), file.devices.end(), device) != file.devices.end();
}

// Kernel files state their kind in the first line, so that files of other kinds need not be parsed
// here.
bool is_kernel_file(const std::string& text) {
  constexpr std::string_view kKey = "kind: ";
  if (!text.starts_with(kKey)) {
    return false;
  }
  const std::string_view kind = std::string_view(text).substr(kKey.size());
  const auto words = words_of<CalibrationFile::Kind>();
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return kind.starts_with(word); });
}

using Files = std::vector<std::shared_ptr<const CalibrationFile>>;

std::vector<std::filesystem::path> yaml_below(const std::filesystem::path& directory) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  for (std::filesystem::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".yaml") {
      paths.push_back(it->path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// With the cache's mutex held, as below. A file in whose text the device's name does not occur need
// not be parsed. Returns false where it is no file of kernels.
bool add_if_named(const std::filesystem::path& path, const std::string& device, Files& found) {
  CachedFile& e = entry_of(path);
  if (!is_kernel_file(e.text)) {
    return false;
  }
  if (e.parsed || e.text.find(device) != std::string::npos) {
    auto parsed = parse_entry(e, path);
    if (is_for_device(*parsed, device)) {
      found.push_back(std::move(parsed));
    }
  }
  return true;
}

// Adds a file that a job names: it must be of collectives or of this device.
void add_file(const std::filesystem::path& path, const std::string& device, Files& found) {
  CachedFile& e = entry_of(path);
  auto parsed = parse_entry(e, path);
  if (!is_kernel_file(e.text)) {
    return;  // files of collectives have readers of their own; a file that is no mapping was
             // refused above
  }
  if (!is_for_device(*parsed, device)) {
    file_fault(path, fmt::format("the file is of {}, not of device '{}'",
                                 fmt::join(parsed->devices, ", "), device));
  }
  found.push_back(std::move(parsed));
}

// Adds a folder that a job names. It may also hold files of other devices, and other YAML.
void add_folder(const std::filesystem::path& path, const std::string& device, bool restricts,
                Files& found) {
  const std::size_t before = found.size();
  bool kernels = false;
  bool collectives = false;
  for (const auto& file : yaml_below(path)) {
    kernels = add_if_named(file, device, found) || kernels;
    collectives = collectives || entry_of(file).text.find("kind: nccl") != std::string::npos;
  }
  if (!kernels && !collectives) {
    file_fault(path, "the folder holds no calibration files");
  }
  if (restricts && kernels && found.size() == before) {
    file_fault(path, fmt::format("no file of the folder is of device '{}'", device));
  }
}

// The path that a job's name stands for: relative to the working directory, else below the
// committed files.
std::filesystem::path located(const std::string& name, const std::filesystem::path& directory) {
  const std::filesystem::path path(name);
  return path.is_relative() && !std::filesystem::exists(path) ? directory / name : path;
}

}  // namespace

std::shared_ptr<const CalibrationFile> read_calibration(const std::filesystem::path& file) {
  const std::scoped_lock lock(cache().mutex);
  return parse_entry(entry_of(file), file);
}

std::vector<std::shared_ptr<const CalibrationFile>> find_calibration(
    const std::filesystem::path& directory, const std::string& device,
    const std::vector<std::string>& given) {
  std::vector<std::shared_ptr<const CalibrationFile>> found;
  const std::scoped_lock lock(cache().mutex);
  const bool committed = std::find(given.begin(), given.end(), kAuto) != given.end();
  for (const std::string& name : given) {
    if (name == kAuto) {
      continue;
    }
    const std::filesystem::path path = located(name, directory);
    if (std::filesystem::is_directory(path)) {
      add_folder(path, device, !committed, found);
    } else {
      add_file(path, device, found);
    }
  }
  // Where a job names only files of collectives, kernels use the committed files. Those of
  // collectives, which are half of all, have a folder of their own (nccl_calibration.h).
  if (found.empty() || committed) {
    const std::filesystem::path collectives = directory / "nccl";
    for (const auto& path : yaml_below(directory)) {
      if (path.parent_path() != collectives) {
        add_if_named(path, device, found);
      }
    }
  }
  return found;
}

std::optional<std::string> missing_entry(const std::vector<std::string>& list,
                                         const std::filesystem::path& directory) {
  for (const std::string& name : list) {
    std::error_code error;
    if (name != kAuto && !std::filesystem::exists(located(name, directory), error)) {
      return name;
    }
  }
  return std::nullopt;
}

void check_folders(const std::vector<std::string>& list, const std::vector<std::string>& devices,
                   const std::filesystem::path& directory) {
  const std::scoped_lock lock(cache().mutex);
  for (const std::string& name : list) {
    const std::filesystem::path path = located(name, directory);
    if (name == kAuto || !std::filesystem::is_directory(path)) {
      continue;
    }
    Files found;
    bool kernels = false;
    for (const auto& file : yaml_below(path)) {
      for (const std::string& device : devices) {
        kernels = add_if_named(file, device, found) || kernels;
      }
    }
    if (kernels && found.empty()) {
      file_fault(path, fmt::format("no file of the folder is of device '{}'",
                                   fmt::join(devices, "' or '")));
    }
  }
}

}  // namespace stepcast::cost
