// The committed nccl-tests logs: nccl/data/systems.yaml and one CSV a system.
#include <fmt/format.h>

#include <map>

#include "stepcast/cost/nccl_fit.h"
#include "stepcast/text/document.h"
#include "stepcast/text/map.h"

namespace stepcast::cost {
namespace {

using text::need;

std::vector<std::string> list(const text::Value& v) {
  std::vector<std::string> all;
  for (const auto& item : v.items) {
    all.push_back(text::to_string(item));
  }
  return all;
}

// The cluster of a system. Its names are those that the system's fit applies to, so that the fit
// matches the system itself.
job::Cluster cluster_of(const text::Value& v, const NcclSystem& s) {
  job::Cluster c;
  c.nodes = 1;
  c.node.gpus = static_cast<int>(text::to_integer(need(v, "gpus")));
  c.node.nics = static_cast<int>(text::to_integer(need(v, "nics")));
  c.node.nic = text::to_bandwidth(need(v, "nic"));
  c.node.nvls = text::to_bool(need(v, "nvls"));
  c.node.amd_cpu = text::to_bool(need(v, "amd_cpu"));
  c.device.nvlink = text::to_bandwidth(need(v, "nvlink"));
  c.device.pcie = text::to_bandwidth(need(v, "pcie"));
  c.device.compute_capability = text::to_number(need(v, "compute_capability"));
  c.node.intra = c.device.nvlink.count() > 0 ? job::Node::Intra::nvswitch : job::Node::Intra::pcie;
  // Keys of configs/nodes and configs/fabrics that are given only where they differ from the
  // default.
  if (const auto* links = v.find("nvlink_links")) {
    c.node.intra = job::Node::Intra::nvlink_mesh;
    for (const auto& link : links->items) {
      const auto number = [&](std::size_t i) {
        return static_cast<int>(text::to_integer(link.items.at(i)));
      };
      c.node.nvlink_links.push_back({number(0), number(1), number(2)});
    }
  }
  const auto integer = [&](const char* key, int& out) {
    if (const auto* value = v.find(key)) {
      out = static_cast<int>(text::to_integer(*value));
    }
  };
  const auto rate = [&](const char* key, Bandwidth& out) {
    if (const auto* value = v.find(key)) {
      out = text::to_bandwidth(*value);
    }
  };
  const auto flag = [&](const char* key, bool& out) {
    if (const auto* value = v.find(key)) {
      out = text::to_bool(*value);
    }
  };
  integer("sockets", c.node.sockets);
  integer("pcie_switches", c.node.pcie_switches);
  rate("pcie_uplink", c.node.pcie_uplink);
  rate("inter_socket", c.node.inter_socket);
  flag("peer_to_peer", c.node.peer_to_peer);
  flag("sharp", c.fabric.sharp);
  bool tree = false;
  flag("fat_tree", tree);
  if (tree) {
    c.fabric.kind = job::Fabric::Kind::fat_tree;
  }
  c.fabric.nvlink_domain_gpus = static_cast<int>(text::to_integer(need(v, "nvlink_domain_gpus")));
  c.device.name = s.devices.empty() ? "" : s.devices.front();
  c.node.name = s.nodes.empty() ? "" : s.nodes.front();
  c.fabric.name = s.fabrics.empty() ? "" : s.fabrics.front();
  return c;
}

}  // namespace

std::vector<NcclMeasured> read_nccl_data(const std::filesystem::path& calibration_dir) {
  const auto data = calibration_dir / "nccl" / "data";
  const text::Value systems = text::read_yaml(data / "systems.yaml");
  std::vector<NcclMeasured> all;
  for (const auto& entry : systems.entries) {
    const text::Value& about = entry.value;
    NcclMeasured m;
    m.system.name = entry.key;
    m.system.scope =
        text::to_string(need(about, "scope")) == "network" ? NcclScope::network : NcclScope::domain;
    if (const auto* link = about.find("link")) {
      m.system.link = text::to_string(*link);
    }
    m.system.devices = list(need(about, "devices"));
    m.system.nodes = list(need(about, "nodes"));
    m.system.fabrics = list(need(about, "fabrics"));
    m.system.cluster = cluster_of(need(about, "cluster"), m.system);
    std::map<std::string, int> index;
    for (const auto& log : need(about, "logs").entries) {
      index[log.key] = static_cast<int>(m.logs.size());
      const auto* algo = log.value.find("algo");
      const auto* site = log.value.find("site");
      m.logs.push_back({log.key, text::to_string(need(log.value, "source")),
                        text::to_string(need(log.value, "nccl")),
                        algo == nullptr ? "" : text::to_string(*algo),
                        site == nullptr ? log.key : text::to_string(*site)});
    }
    const auto path = data / (entry.key + ".csv");
    const text::Table table = text::read_csv(path);
    const auto column = [&](const char* name) {
      const int at = table.column(name);
      if (at < 0) {
        throw InputError(Fault{{path.string(), 1, 1}, fmt::format("column '{}' is missing", name)});
      }
      return static_cast<std::size_t>(at);
    };
    const auto log = column("log");
    const auto nodes = column("nodes");
    const auto gpus = column("gpus_per_node");
    const auto collective = column("collective");
    const auto size = column("size_bytes");
    const auto time = column("time_us");
    int line = 1;
    for (const auto& r : table.rows) {
      ++line;
      const auto found = index.find(r[log]);
      if (found == index.end()) {
        throw InputError(
            Fault{{path.string(), line, 1}, fmt::format("log '{}' is not listed", r[log])});
      }
      m.points.push_back({found->second, std::stoi(r[nodes]), std::stoi(r[gpus]), r[collective],
                          Bytes(std::stoll(r[size])), seconds(std::stod(r[time]) * 1e-6)});
    }
    all.push_back(std::move(m));
  }
  return all;
}

}  // namespace stepcast::cost
