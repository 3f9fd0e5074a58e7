#include "stepcast/planner/presets.h"

#include <map>

#include "stepcast/config/config.h"
#include "stepcast/input/input.h"
#include "stepcast/model/count.h"
#include "stepcast/text/document.h"

namespace stepcast::planner {
namespace {

// By device, the folder of calibration/ whose curves price its matrix products: its own where there
// is one, else that of the device which stands for it.
std::map<std::string, std::string> folders_of_products(const std::filesystem::path& calibration) {
  std::map<std::string, std::string> out;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator it(calibration, error), end;
       !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with("gemm-") || !name.ends_with(".yaml")) {
      continue;
    }
    const std::string folder = it->path().parent_path().filename().string();
    const text::Value document = text::read_yaml(it->path());
    static const std::vector<text::Value> kNone;
    const text::Value* devices = document.find("devices");
    for (const text::Value& device : devices == nullptr ? kNone : devices->items) {
      std::string& of = out[device.scalar];
      if (of.empty() || device.scalar == folder) {
        of = folder;
      }
    }
  }
  return out;
}

int shares_links(const job::Cluster& cluster) {
  if (cluster.fabric.nvlink_domain_gpus > 0) {
    return cluster.fabric.nvlink_domain_gpus;
  }
  return cluster.device.nvlink.count() > 0 && cluster.node.intra != job::Node::Intra::pcie
             ? cluster.node.gpus
             : 0;
}

}  // namespace

std::vector<result::ModelPreset> models() {
  std::vector<result::ModelPreset> out;
  for (const std::string& name : config::list("models")) {
    const job::Model m = config::model(name);
    const model::Parameters p = model::count_parameters(m);
    out.push_back({name, static_cast<double>(p.total), static_cast<double>(p.active), m.layers,
                   m.hidden, m.heads, m.kv_heads, m.moe ? m.moe->experts : 0,
                   m.moe ? m.moe->topk : 0, m.vocab});
  }
  return out;
}

std::vector<result::DevicePreset> devices(const std::filesystem::path& data) {
  const std::map<std::string, std::string> folders = folders_of_products(data / "calibration");
  std::vector<result::DevicePreset> out;
  for (const std::string& name : config::list("devices")) {
    const job::Device d = config::device(name);
    const auto folder = folders.find(d.name);
    out.push_back({name, d.memory, d.memory_bandwidth, job::peak_of(d, DType::bf16),
                   job::peak_of(d, DType::fp8), d.nvlink, d.power,
                   folder == folders.end()    ? "data sheet"
                   : folder->second == d.name ? "measured"
                                              : "as " + folder->second});
  }
  return out;
}

std::vector<result::ClusterPreset> clusters() {
  std::vector<result::ClusterPreset> out;
  for (const std::string& name : config::list("clusters")) {
    const job::Cluster c = config::network(name, 1).job.cluster;
    out.push_back({name, c.device.name, c.node.gpus, shares_links(c),
                   std::string(to_string(c.fabric.kind)), c.node.nics, c.node.nic});
  }
  return out;
}

std::vector<result::JobPreset> jobs() {
  std::vector<result::JobPreset> out;
  for (const std::string& name : config::list("jobs")) {
    const job::Job j = input::load(name).job;
    out.push_back({name, j.model.name, j.cluster.name, j.system.name, j.cluster.ranks(),
                   j.workload.global_batch * j.workload.sequence_length});
  }
  return out;
}

}  // namespace stepcast::planner
