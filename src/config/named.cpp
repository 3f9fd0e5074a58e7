#include "named.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <mutex>
#include <type_traits>
#include <unordered_map>

#include "huggingface.h"
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

// "meta-llama/Llama-3.1-8B", as the Hugging Face Hub names models: an owner and a name.
bool is_hub_name(const std::string& s) {
  return std::count(s.begin(), s.end(), '/') == 1 && s.front() != '/' && s.front() != '.' &&
         s.back() != '/' && !s.ends_with(".yaml") && !s.ends_with(".yml") && !s.ends_with(".json");
}

// Underscores and dashes are the same, and case does not matter.
std::string canonical(std::string name) {
  for (char& c : name) {
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

// Ready jobs are in configs/ itself.
fs::path folder_of(const std::string& kind) {
  return kind == "jobs" ? configs() : configs() / kind;
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// The path that a value holds, from the folder of the file that holds it.
fs::path beside_its_file(const Value& value) {
  const fs::path given(value.scalar);
  return given.is_relative() && value.origin.line > 0
             ? (fs::path(value.origin.file).parent_path() / given).lexically_normal()
             : given;
}

}  // namespace

bool looks_like_path(const std::string& word) {
  return word.find('/') != std::string::npos || word.ends_with(".yaml") || word.ends_with(".yml") ||
         word.ends_with(".json") || word.ends_with(".csv");
}

std::string as_named(const Value& value) {
  const std::string& name = text::to_string(value);
  const fs::path relative = looks_like_path(name) ? beside_its_file(value) : fs::path(name);
  return is_file(relative) ? relative.string() : name;
}

std::string nearest(const std::string& name, const std::string& folder) {
  return suggestion(canonical(name), list(folder));
}

std::optional<fs::path> find_file(Reader& reader, const Value& value, const std::string& folder,
                                  const std::string& noun) {
  if (value.kind != Value::Kind::scalar || value.scalar.empty()) {
    reader.expected(value, fmt::format("the name of a {} or a path", noun));
    return std::nullopt;
  }
  const std::string& name = value.scalar;
  if (looks_like_path(name)) {
    const fs::path given(name);
    const fs::path relative = beside_its_file(value);
    if (is_file(relative)) {
      return relative;
    }
    if (is_file(given)) {
      return given;
    }
    if (folder == "models" && is_hub_name(name)) {
      if (const auto known = known_model(name)) {
        Value preset = value;
        preset.scalar = *known;
        return find_file(reader, preset, folder, noun);
      }
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
  message += nearest(name, folder);
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

namespace {

template <class T>
void read_named(Reader& reader, const Value& value, T& out, const Part<T>& part);

// The content of a file.
template <class T>
struct LoadedPart {
  T value;
  std::map<std::string, Origin> origins;
  std::vector<Fault> faults;
  std::vector<Reader::Feature> features;
};

template <class T>
std::shared_ptr<const LoadedPart<T>> load_part(Reader& reader, const std::filesystem::path& file,
                                               const Part<T>& part) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::shared_ptr<const LoadedPart<T>>> cache;
  const std::string key = file.string();
  const bool preset = is_preset(file);
  if (preset) {
    const std::lock_guard lock(mutex);
    if (const auto found = cache.find(key); found != cache.end()) {
      return found->second;
    }
  }
  auto loaded = std::make_shared<LoadedPart<T>>();
  Reader sub;
  sub.including = reader.including;
  sub.subject = "a " + part.noun;
  sub.begin(key);
  try {
    const Value doc = read_part(file);
    bool done = false;
    if constexpr (std::is_same_v<T, job::Model>) {
      if (is_huggingface(doc)) {
        read_huggingface(sub, doc, loaded->value);
        done = true;
      }
    }
    if (!done && doc.kind != Value::Kind::map) {
      sub.expected(doc, "the fields of a " + part.noun);
    } else if (!done) {
      read_named(sub, doc, loaded->value, part);
    }
    if (loaded->value.name.empty()) {
      loaded->value.name = file.stem().string();
    }
  } catch (const InputError& error) {
    sub.add(error.faults());
  }
  loaded->origins = sub.origins();
  loaded->faults = sub.faults();
  loaded->features = sub.features;
  if (preset && sub.clean()) {
    const std::lock_guard lock(mutex);
    cache.emplace(key, loaded);
  }
  return loaded;
}

}  // namespace

template <class T>
void include(Reader& reader, const Value& value, T& out, const Part<T>& part) {
  out = T{};
  const auto file = find_file(reader, value, part.folder, part.noun);
  if (!file || !enter(reader, value, *file)) {
    return;
  }
  const auto loaded = load_part(reader, *file, part);
  reader.including.pop_back();
  out = loaded->value;
  reader.add(loaded->faults);
  for (const auto& [key, origin] : loaded->origins) {
    reader.record(key, origin);
  }
  reader.features.insert(reader.features.end(), loaded->features.begin(), loaded->features.end());
}

namespace {

// The part of configs/ that has a name; nullopt: there is none.
template <class T>
std::optional<T> preset(const std::string& name, const Part<T>& part) {
  if (name.empty() || looks_like_path(name) ||
      !is_file(folder_of(part.folder) / (name + ".yaml"))) {
    return std::nullopt;
  }
  Reader reader;
  Value value = tree::string(name);
  value.origin = {name, 0, 0};
  T out;
  include(reader, value, out, part);
  return reader.clean() ? std::optional(std::move(out)) : std::nullopt;
}

void name_rates(job::Device& device, const job::Device& named) {
  device.named_nvlink = named.nvlink;
  device.named_pcie = named.pcie;
}

}  // namespace

void find_named_rates(job::Cluster& cluster) {
  const auto whole = preset(cluster.name, cluster_part());
  if (whole && whole->device.name == cluster.device.name) {
    name_rates(cluster.device, whole->device);
  } else if (const auto device = preset(cluster.device.name, device_part())) {
    name_rates(cluster.device, *device);
  }
  for (job::DeviceOverride& one : cluster.overrides) {
    if (whole && whole->device.name == one.device.name) {
      name_rates(one.device, whole->device);
    } else if (const auto device = preset(one.device.name, device_part())) {
      name_rates(one.device, *device);
    }
  }
  const auto name_node = [&](const job::Node& named) {
    cluster.node.named_nic = named.nic;
    cluster.node.named_pcie_uplink = named.pcie_uplink;
    cluster.node.named_inter_socket = named.inter_socket;
  };
  if (whole && whole->node.name == cluster.node.name) {
    name_node(whole->node);
  } else if (const auto node = preset(cluster.node.name, node_part())) {
    name_node(*node);
  } else if (whole) {  // a name of the user's own for a node of this cluster
    name_node(whole->node);
  }
}

namespace {

template <class T>
void read_named(Reader& reader, const Value& value, T& out, const Part<T>& part) {
  if (value.kind == Value::Kind::scalar) {
    include(reader, value, out, part);
    reader.record(value.origin);
    return;
  }
  if (value.kind != Value::Kind::map) {
    reader.expected(value, "the name of a " + part.noun + ", {use: NAME, ...}, or its fields");
    return;
  }
  if (const Value* use = value.find("use")) {
    include(reader, *use, out, part);
    reader.record("use", use->origin);
    std::erase_if(reader.features, [&](const Reader::Feature& feature) {
      return value.find(feature.key) != nullptr;
    });
  }
  read_table(reader, value, part.table(), out, "use");
}

}  // namespace

template <class T>
Row named_row(std::size_t at, const char* key, const Part<T>& part, const char* description) {
  const Table<T>& table = part.table();
  Spec spec{key, description, {}, true, true, specs(table)};
  spec.children.insert(
      spec.children.begin(),
      Spec{"use", "The " + part.noun + " to start from: a name or a path.", type_schema("string")});
  return {std::move(spec),
          [at, &part](Reader& r, const Value& v, void* into) {
            read_named(r, v, *reinterpret_cast<T*>(static_cast<char*>(into) + at), part);
          },
          [at, &table](const void* from) -> std::optional<Value> {
            return write_rows(table.rows, static_cast<const char*>(from) + at);
          }};
}

template void include(Reader&, const Value&, job::Device&, const Part<job::Device>&);
template void include(Reader&, const Value&, job::Model&, const Part<job::Model>&);
template Row named_row(std::size_t, const char*, const Part<job::Model>&, const char*);
template Row named_row(std::size_t, const char*, const Part<job::Device>&, const char*);
template Row named_row(std::size_t, const char*, const Part<job::Node>&, const char*);
template Row named_row(std::size_t, const char*, const Part<job::Fabric>&, const char*);
template Row named_row(std::size_t, const char*, const Part<job::Cluster>&, const char*);

}  // namespace stepcast::config
