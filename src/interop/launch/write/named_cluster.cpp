#include "named_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "stepcast/config/job_file.h"
#include "stepcast/input/input.h"

namespace stepcast::interop::launch {
namespace {

namespace fs = std::filesystem;
using config::Difference;

// More than these are a cluster of its own, not changes of a named one.
constexpr std::size_t kMostOverrides = 16;

bool is_below(std::string_view key, std::string_view above) {
  return key.starts_with(above) && (key.size() == above.size() || key[above.size()] == '.');
}

bool of_machine(const std::string& key) {
  return (is_below(key, "cluster") && key != "cluster.order" && key != "cluster.name") ||
         is_below(key, "nccl") || key == "calibration" || key == "seed";
}

bool offered(const std::string& kind, const std::string& name) {
  const auto names = config::list(kind);
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What a part of the job may be named by: its own name in configs/, and files that set its keys.
std::set<std::string> names_of(const config::Loaded& loaded, const std::string& key,
                               const char* kind, const std::string& name) {
  std::set<std::string> out;
  if (offered(kind, name)) {
    out.insert(name);
  }
  const std::string configs = (text::data_directory() / "configs").string() + "/";
  for (const auto& [set, origin] : loaded.origins) {
    const bool job_itself =
        std::find(loaded.files.begin(), loaded.files.end(), origin.file) != loaded.files.end();
    std::error_code error;
    if (is_below(set, key) && !job_itself && !origin.file.starts_with(configs) &&
        fs::is_regular_file(origin.file, error)) {
      out.insert(origin.file);
    }
  }
  return out;
}

// What differs in the machine when the launch file is read on this cluster; nullopt where it is no
// cluster.
std::optional<std::vector<Difference>> differences_on(const NamedCluster& cluster,
                                                      const job::Job& wanted,
                                                      LaunchRequest request) {
  request.cluster = cluster.name;
  request.ranks = 0;
  request.overrides.insert(request.overrides.end(), cluster.overrides.begin(),
                           cluster.overrides.end());
  try {
    const Launch launch = read_launch(request);
    auto out = config::differences(wanted, input::parse(launch.job, request.overrides).job);
    std::erase_if(out, [](const Difference& d) { return !of_machine(d.key); });
    return out;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// A device, node or fabric by its name or file, in place of all its keys.
std::vector<std::string> parts_of(const config::Loaded& loaded) {
  std::vector<std::string> out;
  const auto add = [&](const char* kind, const std::string& key, const std::string& name) {
    for (const std::string& one : names_of(loaded, key, kind, name)) {
      out.push_back(fmt::format("{}={}", key, one));
    }
  };
  const job::Cluster& cluster = loaded.job.cluster;
  add("devices", "cluster.device", cluster.device.name);
  add("nodes", "cluster.node", cluster.node.name);
  add("fabrics", "cluster.fabric", cluster.fabric.name);
  return out;
}

// Adds overrides until the cluster gives the job; false if none does.
bool complete(NamedCluster& cluster, const std::vector<std::string>& parts, const job::Job& wanted,
              const LaunchRequest& request) {
  auto left = differences_on(cluster, wanted, request);
  for (const std::string& part : parts) {
    if (!left || left->empty()) {
      break;
    }
    NamedCluster with = cluster;
    with.overrides.push_back(part);
    const auto fewer = differences_on(with, wanted, request);
    if (fewer && fewer->size() < left->size()) {
      cluster = std::move(with);
      left = fewer;
    }
  }
  constexpr int kRounds = 3;  // a key may change the defaults of others
  for (int round = 0; round < kRounds && left && !left->empty(); ++round) {
    for (const Difference& d : *left) {
      cluster.overrides.push_back(d.key + "=" + d.wanted);
    }
    left = differences_on(cluster, wanted, request);
  }
  return left && left->empty() && cluster.overrides.size() <= kMostOverrides;
}

}  // namespace

std::optional<NamedCluster> named_cluster(const config::Loaded& loaded, const job::Job& wanted,
                                          const LaunchRequest& request) {
  std::optional<NamedCluster> nearest;
  const auto parts = parts_of(loaded);
  for (const std::string& name : names_of(loaded, "cluster", "clusters", loaded.job.cluster.name)) {
    NamedCluster cluster{name, {}};
    if (complete(cluster, parts, wanted, request) &&
        (!nearest || cluster.overrides.size() < nearest->overrides.size())) {
      nearest = std::move(cluster);
    }
  }
  return nearest;
}

}  // namespace stepcast::interop::launch
