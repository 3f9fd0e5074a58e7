// NCCL's topology dump (NCCL_TOPO_DUMP_FILE): system > cpu > pci > ... > gpu > nvlink, nic > net
// (nccl, src/graph/xml.cc).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "nvlink.h"
#include "stepcast/interop/discover.h"
#include "stepcast/text/xml.h"

namespace stepcast::interop {
namespace {

using text::Element;

[[noreturn]] void fault(const Element& at, const std::string& message) {
  throw InputError({at.origin, message});
}

const std::string& need(const Element& e, const char* attribute) {
  const std::string* value = e.find(attribute);
  if (value == nullptr) {
    fault(e, fmt::format("<{}> has no {}; expected one as NCCL writes it", e.name, attribute));
  }
  return *value;
}

int whole(const Element& e, const char* attribute) {
  const std::string& text = need(e, attribute);
  int out = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || stop != text.data() + text.size() || out < 0) {
    fault(e, fmt::format("{}=\"{}\" of <{}> is not a number; expected one of at least 0", attribute,
                         text, e.name));
  }
  return out;
}

struct Gpu {
  std::string bus;
  std::string id;  // of its PCI function
  int sm = 0;
  std::map<std::string, int> links;  // number of links by target; "": a switch
};

struct Reader {
  std::vector<Gpu> gpus;
  std::map<int, int> speeds;  // number of adapters by Mbit/s
  std::set<std::string> nets;
  std::set<std::string> sockets;

  void walk(const Element& e, const Element* pci, const std::string& socket) {
    if (e.name == "gpu") {
      Gpu gpu;
      gpu.bus = pci == nullptr ? "" : need(*pci, "busid");
      const std::string* id = pci == nullptr ? nullptr : pci->find("device");
      gpu.id = id == nullptr ? "" : *id;
      gpu.sm = whole(e, "sm");
      for (const Element& link : e.children) {
        if (link.name != "nvlink") {
          continue;
        }
        const std::string* type = link.find("tclass");
        const bool to_gpu = type != nullptr && type->starts_with("0x03");
        gpu.links[to_gpu ? need(link, "target") : ""] += whole(link, "count");
      }
      gpus.push_back(std::move(gpu));
      sockets.insert(socket);
      return;
    }
    if (e.name == "net") {
      // An adapter with two ports is listed twice under one name, with different ports.
      const std::string* port = e.find("port");
      if (nets.insert(need(e, "name") + "/" + (port == nullptr ? "" : *port)).second) {
        ++speeds[whole(e, "speed")];
      }
      return;
    }
    const Element* below = e.name == "pci" ? &e : pci;
    for (const Element& child : e.children) {
      walk(child, below, socket);
    }
  }
};

}  // namespace

NodeList read_nccl_topology(const std::filesystem::path& file) {
  const Element root = text::read_xml(file);
  if (root.name != "system") {
    fault(root, fmt::format("<{}> is not a topology of NCCL; expected <system>", root.name));
  }
  NodeList out;
  NodeFacts node;
  node.where = root.origin;
  Reader reader;
  std::string host;
  std::set<std::string> hosts;
  for (const Element& cpu : root.children) {
    if (cpu.name != "cpu") {
      continue;
    }
    const std::string* hash = cpu.find("host_hash");
    const std::string of = hash == nullptr ? "" : *hash;
    host = hosts.empty() ? of : host;
    hosts.insert(of);
    if (of != host) {
      continue;
    }
    reader.walk(cpu, nullptr, need(cpu, "numaid"));
    if (const std::string* vendor = cpu.find("vendor")) {
      node.amd_cpu = *vendor == "AuthenticAMD";
    }
  }
  if (reader.gpus.empty()) {
    fault(root, "no <gpu> below <system>; expected those of the node that wrote the file");
  }
  if (hosts.size() > 1) {
    out.notes.push_back(fmt::format("{}: {} hosts share NVLink; the first is taken as a node",
                                    file.string(), hosts.size()));
  }
  node.gpus = static_cast<int>(reader.gpus.size());
  node.sockets = static_cast<int>(reader.sockets.size());
  node.product = reader.gpus.front().id;
  node.device = device_of_product(node.product);
  std::map<std::string, int> number;
  for (std::size_t i = 0; i < reader.gpus.size(); ++i) {
    number[reader.gpus[i].bus] = static_cast<int>(i);
  }
  int fewest = -1;
  for (std::size_t i = 0; i < reader.gpus.size(); ++i) {
    int all = 0;
    for (const auto& [target, links] : reader.gpus[i].links) {
      all += links;
      const auto at = number.find(target);
      if (target.empty()) {
        node.switched = true;
      } else if (at != number.end() && at->second > static_cast<int>(i)) {
        node.mesh.push_back({static_cast<int>(i), at->second, links});
      }
    }
    if (fewest >= 0 && all != fewest) {
      out.notes.push_back(
          fmt::format("{}: GPUs have different numbers of NVLinks; the smallest number is used",
                      file.string()));
    }
    fewest = fewest < 0 ? all : std::min(fewest, all);
  }
  node.nvlinks = fewest;
  node.nvlink = Bandwidth(fewest * per_nvlink(reader.gpus.front().sm).count());
  if (!reader.speeds.empty()) {
    // The speed that most adapters have; a management port is slower and just one.
    const auto most = std::max_element(
        reader.speeds.begin(), reader.speeds.end(), [](const auto& a, const auto& b) {
          return static_cast<double>(a.first) * a.second < static_cast<double>(b.first) * b.second;
        });
    node.nics = most->second;
    node.nic = Bandwidth(most->first * 1e6 / 8);
    for (const auto& [speed, count] : reader.speeds) {
      if (speed != most->first) {
        out.notes.push_back(
            fmt::format("{}: {} adapters of {} Mbit/s are left out", file.string(), count, speed));
      }
    }
  }
  out.nodes.push_back(std::move(node));
  return out;
}

}  // namespace stepcast::interop
