#include "named.h"

#include <algorithm>
#include <cctype>

#include "stepcast/config/config.h"

namespace stepcast::config {

namespace fs = std::filesystem;

const Part<job::Model>& model_part() {
  static const Part<job::Model> part{"models", "model", model_table};
  return part;
}
const Part<job::Device>& device_part() {
  static const Part<job::Device> part{"devices", "device", device_table};
  return part;
}
const Part<job::Node>& node_part() {
  static const Part<job::Node> part{"nodes", "node", node_table};
  return part;
}
const Part<job::Fabric>& fabric_part() {
  static const Part<job::Fabric> part{"fabrics", "fabric", fabric_table};
  return part;
}
const Part<job::Cluster>& cluster_part() {
  static const Part<job::Cluster> part{"clusters", "cluster", cluster_table};
  return part;
}

namespace {

const fs::path& configs() {
  static const fs::path path = text::data_directory() / "configs";
  return path;
}

bool looks_like_path(const std::string& s) {
  return s.find('/') != std::string::npos || s.ends_with(".yaml") || s.ends_with(".yml") ||
         s.ends_with(".json") || s.ends_with(".csv");
}

// Underscores and dashes are the same, and case does not matter.
std::string canonical(std::string name) {
  for (char& c : name) {
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

// Ready jobs lie in configs/ itself.
fs::path folder_of(const std::string& kind) {
  return kind == "jobs" ? configs() : configs() / kind;
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

}  // namespace

std::optional<fs::path> find_file(Reader& reader, const Value& value, const std::string& folder,
                                  const std::string& noun) {
  if (value.kind != Value::Kind::scalar || value.scalar.empty()) {
    reader.expected(value, fmt::format("the name of a {} or a path", noun));
    return std::nullopt;
  }
  const std::string& name = value.scalar;
  if (looks_like_path(name)) {
    const fs::path given(name);
    fs::path relative = given;
    if (given.is_relative() && value.origin.line > 0) {
      relative = (fs::path(value.origin.file).parent_path() / given).lexically_normal();
    }
    if (is_file(relative)) {
      return relative;
    }
    if (is_file(given)) {
      return given;
    }
    reader.fault(
        value, fmt::format("there is no file '{}'; expected the path of a {}", shown(name), noun));
    return std::nullopt;
  }
  for (const std::string& stem : {name, canonical(name)}) {
    for (const char* extension : {".yaml", ".json"}) {
      const fs::path file = folder_of(folder) / (stem + extension);
      if (is_file(file)) {
        return file;
      }
    }
  }
  std::string message =
      fmt::format("there is no {} '{}'; expected a name in {} or a path", noun, shown(name),
                  folder == "jobs" ? "configs" : "configs/" + folder);
  message += suggestion(canonical(name), list(folder));
  reader.fault(value, std::move(message));
  return std::nullopt;
}

bool is_preset(const fs::path& file) {
  const std::string root = configs().string() + "/";
  return file.string().starts_with(root);
}

bool enter(Reader& reader, const Value& value, const fs::path& file) {
  std::error_code error;
  const std::string name = fs::weakly_canonical(file, error).string();
  for (const std::string& open : reader.including) {
    if (open == name) {
      reader.fault(value, fmt::format("'{}' includes itself; expected no cycle of 'use'",
                                      shown(value.scalar)));
      return false;
    }
  }
  reader.including.push_back(name);
  return true;
}

std::vector<std::string> list(const std::string& kind) {
  std::vector<std::string> names;
  const fs::path folder = folder_of(kind);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".yaml" || path.extension() == ".json") {
      names.push_back(path.stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace stepcast::config
