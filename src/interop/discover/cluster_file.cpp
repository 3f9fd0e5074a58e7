// Writes what was found as a cluster of configs/ and the keys that differ from it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "stepcast/base/suggestion.h"
#include "stepcast/config/config.h"
#include "stepcast/input/input.h"
#include "stepcast/interop/discover.h"

namespace stepcast::interop {
namespace {

// Measured or counted figures closer than this to those of the data sheet are taken to be equal.
constexpr double kSame = 0.05;

// Instance types of clouds, with their cluster of configs/ (their documentation).
constexpr std::pair<const char*, const char*> kInstances[] = {
    {"p3dn.24xlarge", "aws-p3dn"},
    {"p4d.24xlarge", "aws-p4d"},
    {"p4de.24xlarge", "aws-p4de"},
    {"p5.48xlarge", "aws-p5"},
    {"p5e.48xlarge", "aws-p5e"},
    {"p5en.48xlarge", "aws-p5en"},
    {"p6-b200.48xlarge", "aws-p6-b200"},
    {"p6-b300.48xlarge", "aws-p6-b300"},
    {"Standard_ND96asr_v4", "azure-nd-a100-v4"},
    {"Standard_ND96amsr_A100_v4", "azure-nd-a100-v4"},
    {"Standard_NC96ads_A100_v4", "azure-nc96ads-a100-v4"},
    {"Standard_ND96isr_H100_v5", "azure-nd-h100-v5"},
    {"Standard_ND96isr_H200_v5", "azure-nd-h200-v5"},
    {"Standard_ND96isr_MI300X_v5", "azure-nd-mi300x-v5"},
    {"a2-highgpu-8g", "gcp-a2-highgpu"},
    {"a3-highgpu-8g", "gcp-a3-high"},
    {"a3-megagpu-8g", "gcp-a3-mega"},
    {"a3-ultragpu-8g", "gcp-a3-ultra"},
    {"a4-highgpu-8g", "gcp-a4"},
    {"BM.GPU.H100.8", "oci-bm-h100-8"},
    {"BM.GPU4.8", "oci-bm-gpu4-8"}};

bool same(double a, double b) { return std::abs(a - b) <= kSame * std::max(a, b); }

struct Group {
  std::string device;
  int nodes = 0;
};

class Writer {
 public:
  explicit Writer(const DiscoverRequest& request) : request_(request) {}

  ClusterFile write() {
    collect();
    choose();
    std::string yaml = fmt::format("# Written by simulate discover from {}.\n", request_.sources);
    yaml += fmt::format("use: {}\nname: {}\nnodes: {}\n", base_.name, base_.name, nodes_);
    yaml += device_text() + node_text();
    int first = 0;
    std::string unlike;
    for (const Group& g : groups_) {
      if (g.device != groups_.front().device) {
        unlike +=
            fmt::format("  - {{first: {}, count: {}, device: {}}}\n", first, g.nodes, g.device);
      }
      first += g.nodes;
    }
    yaml += unlike.empty() ? "" : "overrides:\n" + unlike;
    not_learnt();
    ClusterFile out{std::move(yaml), request_.shape.notes};
    out.notes.insert(out.notes.begin(), request_.nodes.notes.begin(), request_.nodes.notes.end());
    out.notes.insert(out.notes.end(), notes_.begin(), notes_.end());
    return out;
  }

 private:
  [[noreturn]] static void fault(const Origin& where, const std::string& message) {
    throw InputError({where, message});
  }

  std::string device_of(const NodeFacts& node) const {
    return !node.device.empty() ? node.device : request_.device;
  }

  // Sorts nodes by groups of equal ones, the largest group first.
  void collect() {
    const auto& list = request_.nodes.nodes;
    if (!request_.shape.nodes.empty()) {
      shape_ = request_.shape.nodes.front();
    }
    if (list.empty() && request_.shape.nodes.empty()) {
      fault({"discover", 0, 0}, "no source names a node with GPUs");
    }
    shape_.device = request_.device.empty() ? shape_.device : request_.device;
    if (list.empty()) {
      nodes_ = std::max(1, request_.count);
      if (shape_.device.empty()) {
        unknown(shape_);
      }
      groups_ = {{shape_.device, nodes_}};
      return;
    }
    std::map<int, int> sizes;  // number of nodes by their number of GPUs
    for (const NodeFacts& n : list) {
      ++sizes[n.gpus];
    }
    const auto most = std::max_element(
        sizes.begin(), sizes.end(),
        [](const auto& a, const auto& b) { return a.first * a.second < b.first * b.second; });
    std::vector<NodeFacts> kept;
    for (const NodeFacts& n : list) {
      if (n.gpus == most->first) {
        kept.push_back(n);
      }
    }
    if (kept.size() < list.size()) {
      notes_.push_back(
          fmt::format("{} nodes that do not have {} GPUs are left out: all nodes of a cluster have "
                      "the same number",
                      list.size() - kept.size(), most->first));
    }
    for (NodeFacts& n : kept) {
      // The shape's full name decides where a short name is ambiguous.
      n.device =
          n.device.empty() ? (shape_.device.empty() ? device_of(n) : shape_.device) : n.device;
      if (!request_.device.empty() && n.device.empty()) {
        n.device = request_.device;
      }
      if (n.device.empty()) {
        unknown(n);
      }
      const auto at = std::find_if(groups_.begin(), groups_.end(),
                                   [&](const Group& g) { return g.device == n.device; });
      if (at == groups_.end()) {
        groups_.push_back({n.device, 1});
      } else {
        ++at->nodes;
      }
    }
    std::stable_sort(groups_.begin(), groups_.end(),
                     [](const Group& a, const Group& b) { return a.nodes > b.nodes; });
    nodes_ = static_cast<int>(kept.size());
    const NodeFacts& first = *std::find_if(kept.begin(), kept.end(), [&](const NodeFacts& n) {
      return n.device == groups_.front().device;
    });
    if (shape_.gpus > 0 && shape_.gpus != first.gpus) {
      notes_.push_back(
          fmt::format("the topology has {} GPUs and {} has {}: the topology is ignored",
                      shape_.gpus, first.name, first.gpus));
      shape_ = {};
    }
    NodeFacts all = shape_;
    all.gpus = first.gpus;
    all.device = groups_.front().device;
    all.instance = first.instance;
    all.sockets = shape_.sockets > 0 ? shape_.sockets : first.sockets;
    all.cores = first.cores;
    all.host_memory = first.host_memory;
    shape_ = std::move(all);
  }

  [[noreturn]] static void unknown(const NodeFacts& n) {
    Origin where = n.where;
    if (where.file.empty()) {
      where = {"discover", 0, 0};
    }
    fault(where,
          n.product.empty()
              ? "nothing names the GPUs' product; expected --device NAME, one of configs/devices"
              : fmt::format("the product '{}' is none of configs/devices; expected --device NAME",
                            n.product));
  }

  // Chooses the cluster of configs/ that agrees with most of the known facts.
  void choose() {
    const std::string& device = groups_.front().device;
    const auto& known = config::list("devices");
    if (std::find(known.begin(), known.end(), device) == known.end()) {
      fault({"--device", 0, 0},
            fmt::format("unknown device '{}'{}", device, suggestion(device, known)));
    }
    std::string named;
    for (const auto& [instance, cluster] : kInstances) {
      named = shape_.instance == instance ? cluster : named;
    }
    double best = -1;
    for (const std::string& name : config::list("clusters")) {
      const job::Cluster c = input::network(name, 1).cluster;
      if (c.name != name) {
        continue;  // an alias
      }
      double score = name == named ? 100 : 0;
      score += c.device.name == device ? 20 : 0;
      score += c.node.gpus == shape_.gpus ? 10 : 0;
      score += shape_.nics > 0 && c.node.nics == shape_.nics ? 2 : 0;
      score += shape_.nic.count() > 0 && same(c.node.nic.count(), shape_.nic.count()) ? 2 : 0;
      score += shape_.switched == (c.node.intra == job::Node::Intra::nvswitch) ? 1 : 0;
      // Of clusters that agree equally, a plain one is preferred to a cloud's.
      score += name.starts_with("dgx") ? 0.5 : name.starts_with("hgx") ? 0.4 : 0;
      if (score > best) {
        best = score;
        base_ = c;
      }
    }
    if (base_.device.name != device || base_.node.gpus != shape_.gpus) {
      notes_.push_back(
          fmt::format("no cluster of configs/ has {} GPUs of {} a node: {} is the nearest",
                      shape_.gpus, device, base_.name));
    }
  }

  std::string device_text() const {
    const std::string& name = groups_.front().device;
    const job::Device device = config::device(name);
    const double found = shape_.nvlink.count();
    if (found > 0 && !same(found, device.nvlink.count())) {
      return fmt::format("device: {{use: {}, nvlink: {:.6g} GB/s}} # {} links a GPU\n", name,
                         found / 1e9, shape_.nvlinks);
    }
    return base_.device.name == name ? "" : fmt::format("device: {}\n", name);
  }

  std::string node_text() const {
    const job::Node& n = base_.node;
    std::vector<std::string> keys;
    if (shape_.gpus > 0 && shape_.gpus != n.gpus) {
      keys.push_back(fmt::format("gpus: {}", shape_.gpus));
    }
    if (!shape_.mesh.empty() && !shape_.switched) {
      std::string links;
      for (const NodeFacts::Edge& e : shape_.mesh) {
        links += fmt::format("{}[{}, {}, {}]", links.empty() ? "" : ", ", e.a, e.b, e.links);
      }
      keys.push_back("intra: nvlink_mesh");
      keys.push_back("nvlink_links: [" + links + "]");
    } else if (shape_.switched && n.intra != job::Node::Intra::nvswitch) {
      keys.push_back("intra: nvswitch");
    }
    if (shape_.nics > 0 && shape_.nics != n.nics) {
      keys.push_back(fmt::format("nics: {}", shape_.nics));
    }
    if (shape_.nic.count() > 0 && !same(shape_.nic.count(), n.nic.count())) {
      keys.push_back(fmt::format("nic: {:.6g} GB/s", shape_.nic.count() / 1e9));
    }
    if (shape_.sockets > 0 && shape_.sockets != n.sockets && shape_.gpus % shape_.sockets == 0) {
      keys.push_back(fmt::format("sockets: {}", shape_.sockets));
    }
    if (shape_.amd_cpu && *shape_.amd_cpu != n.amd_cpu) {
      keys.push_back(fmt::format("amd_cpu: {}", *shape_.amd_cpu));
    }
    if (shape_.cores > 0 && shape_.cores != n.cpu_cores) {
      keys.push_back(fmt::format("cpu_cores: {}", shape_.cores));
    }
    const auto memory = static_cast<double>(shape_.host_memory.count());
    if (memory > 0 && !same(memory, static_cast<double>(n.host_memory.count()))) {
      keys.push_back(fmt::format("host_memory: {:.6g} GiB", memory / (1 << 30)));
    }
    if (keys.empty()) {
      return "";
    }
    std::string out = "node:\n  use: " + n.name + "\n";
    for (const std::string& key : keys) {
      out += "  " + key + "\n";
    }
    return out;
  }

  void not_learnt() {
    std::string missing;
    const auto add = [&](bool known, const char* what) {
      missing += known ? "" : (missing.empty() ? "" : ", ") + std::string(what);
    };
    add(shape_.nvlinks > 0 || shape_.nvlink.count() > 0, "NVLinks");
    add(shape_.nics > 0, "number of adapters");
    add(shape_.nic.count() > 0, "their rate");
    add(shape_.host_memory.count() > 0, "host memory");
    notes_.push_back(fmt::format("assumed from {} (not in your input): {}{}switches and routes",
                                 base_.name, missing, missing.empty() ? "" : ", "));
  }

  const DiscoverRequest& request_;
  NodeFacts shape_;
  std::vector<Group> groups_;
  int nodes_ = 0;
  job::Cluster base_;
  std::vector<std::string> notes_;
};

}  // namespace

ClusterFile cluster_file(const DiscoverRequest& request) { return Writer(request).write(); }

}  // namespace stepcast::interop
