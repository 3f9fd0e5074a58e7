#include <set>

#include "named.h"

namespace stepcast::config {

using job::Cluster;
using job::Device;
using job::DeviceOverride;
using job::DType;
using job::Fabric;
using job::LinkFault;
using job::Node;

bool is_rank_order(const std::string& order) {
  const std::set<std::string> wanted = {"tp", "cp", "ep", "dp", "pp"};
  std::set<std::string> seen;
  std::string word;
  std::size_t words = 0;
  for (const char ch : order + "-") {
    if (ch == '-') {
      seen.insert(word);
      ++words;
      word.clear();
    } else {
      word += ch;
    }
  }
  return seen == wanted && words == wanted.size();
}

namespace {

Field<Device> peak() {
  Field<Device> f;
  std::vector<Spec> children;
  for (const std::string_view name : words_of<DType>()) {
    children.push_back({std::string(name),
                        "Peak at this number format.",
                        quantity_schema("FLOP/s"),
                        false,
                        false,
                        {}});
  }
  f.spec = {"peak", "Dense peak rates by number format (no sparsity); fp32 without tensor cores.",
            {},     true,
            false,  std::move(children)};
  f.read = [](Reader& r, const Value& v, Device& d) {
    if (v.kind != Value::Kind::map) {
      r.expected(v, "a map such as {bf16: 989 TFLOP/s}");
      return;
    }
    for (const auto& entry : v.entries) {
      const auto type = parse<DType>(entry.key);
      Reader::Scope scope(r, entry.key);
      if (!type) {
        r.unknown(entry, all_words<DType>().names());
        continue;
      }
      r.record(entry.value.origin);
      if (const auto rate = read_quantity(r, entry.value, FlopRate{})) {
        if (rate->count() <= 0) {
          r.expected(entry.value, "a rate above zero");
        } else {
          d.peak[*type] = *rate;
        }
      }
    }
  };
  f.write = [](const Device& d) -> std::optional<Value> {
    Value v = tree::map();
    for (const auto& [type, rate] : d.peak) {
      tree::put(v, to_string(type), write_quantity(rate));
    }
    return v;
  };
  return f;
}

// "96 GB" is how cards are sold: the visible share is that of the device overridden. "95 GiB" (or
// bytes) is what a tool shows: it is taken as usable.
Field<Device> memory() {
  Field<Device> f =
      quantity("memory", &Device::memory, true,
               "Memory as sold. An override in GB keeps the device's usable share; one in GiB or "
               "bytes is taken as usable.");
  f.read = [](Reader& r, const Value& v, Device& d) {
    const auto bytes = read_quantity(r, v, Bytes{});
    if (!bytes) {
      return;
    }
    if (bytes->count() == 0) {
      r.expected(v, "a value above zero");
      return;
    }
    const bool as_sold = v.scalar.find("GB") != std::string::npos;
    if (as_sold && d.memory.count() > 0 && d.usable_memory.count() > 0) {
      const double share = d.usable_memory / d.memory;
      d.usable_memory =
          Bytes(static_cast<std::int64_t>(share * static_cast<double>(bytes->count())));
    } else {
      d.usable_memory = Bytes(0);
    }
    d.memory = *bytes;
  };
  return f;
}

Field<Cluster> gpus_per_node() {
  Field<Cluster> f;
  Value schema = type_schema("integer");
  tree::put(schema, "minimum", tree::number(std::int64_t{1}));
  f.spec = {"gpus_per_node",
            "GPUs used of each node; left out: all of them.",
            std::move(schema),
            false,
            false,
            {}};
  f.read = [](Reader& r, const Value& v, Cluster& c) {
    const auto n = read_integer(r, v, 1, 1024);
    if (n && c.node.gpus > 0 && *n > c.node.gpus) {
      r.fault(
          v, fmt::format(
                 "gpus_per_node {} is more than the node's {}; expected at most that, or node.gpus",
                 *n, c.node.gpus));
    } else if (n) {
      c.node.gpus = static_cast<int>(*n);
    }
  };
  f.write = [](const Cluster& c) { return tree::number(std::int64_t{c.node.gpus}); };
  return f;
}

Field<Cluster> device_order() {
  Field<Cluster> f =
      string("order", &Cluster::order,
             "Which parallel dimensions are neighbours first: a permutation of tp-cp-ep-dp-pp.");
  f.read = [](Reader& r, const Value& v, Cluster& c) {
    if (v.kind != Value::Kind::scalar || !is_rank_order(v.scalar)) {
      r.expected(v, "a permutation of tp-cp-ep-dp-pp");
      return;
    }
    c.order = v.scalar;
  };
  return f;
}

// A list of maps, read item by item: "cluster.faults.0.bandwidth".
template <class T>
std::vector<T> read_list(Reader& r, const Value& v, const Table<T>& table, std::string_view what) {
  std::vector<T> out;
  if (is_null(v)) {
    return out;
  }
  if (v.kind != Value::Kind::sequence) {
    r.expected(v, what);
    return out;
  }
  for (std::size_t i = 0; i < v.items.size(); ++i) {
    Reader::Scope scope(r, std::to_string(i));
    r.record(v.items[i].origin);
    T one;
    read_table(r, v.items[i], table, one);
    out.push_back(std::move(one));
  }
  return out;
}

template <class T>
Value write_list(const std::vector<T>& from, const Table<T>& table) {
  std::vector<Value> items;
  for (const T& one : from) {
    items.push_back(write_table(table, one));
  }
  return tree::list(std::move(items));
}

Value list_schema(const std::vector<Spec>& children) {
  Value v = type_schema("array");
  tree::put(v, "items", object_schema(children));
  return v;
}

// A part with its number ("nic2"), from `at`: where it ends, or nothing.
std::optional<std::size_t> numbered(const std::string& s, std::size_t at, std::string_view part) {
  if (s.compare(at, part.size(), part) != 0) {
    return std::nullopt;
  }
  const std::size_t first = at + part.size();
  std::size_t end = first;
  while (end < s.size() && s[end] >= '0' && s[end] <= '9') {
    ++end;
  }
  return end > first && end - first < 8 ? std::optional(end) : std::nullopt;
}

// "node3/nic2", "node3/gpu1", "node3/gpu0-gpu1", "leaf0", "leaf0/up", "pod1/up", "spine2", "rail3".
bool is_target(const std::string& s) {
  for (const auto* whole : {"leaf", "spine", "rail"}) {
    if (numbered(s, 0, whole) == s.size()) {
      return true;
    }
  }
  for (const auto* below : {"leaf", "pod"}) {
    if (const auto end = numbered(s, 0, below)) {
      return s.compare(*end, std::string::npos, "/up") == 0;
    }
  }
  const auto slash = numbered(s, 0, "node");
  if (!slash || *slash >= s.size() || s[*slash] != '/') {
    return false;
  }
  const auto gpu = numbered(s, *slash + 1, "gpu");
  if (gpu && *gpu < s.size() && s[*gpu] == '-') {
    return numbered(s, *gpu + 1, "gpu") == s.size();
  }
  return gpu == s.size() || numbered(s, *slash + 1, "nic") == s.size();
}

Field<LinkFault> state() {
  const Words<bool> words = {{{"up", false}, {"down", true}}, {}};
  Field<LinkFault> f = choice("state", &LinkFault::down, words, "down: nothing is left.");
  f.write = [](const LinkFault& fault) -> std::optional<Value> {
    return fault.down ? std::optional(tree::string("down")) : std::nullopt;
  };
  return f;
}

// What is at fault, by any of the keys: `link` is the one that is written.
Field<LinkFault> target(std::string key, std::string_view description, const char* example) {
  const bool primary = key == "link";
  Field<LinkFault> f = string(std::move(key), &LinkFault::target, std::string(description));
  f.read = [=](Reader& r, const Value& v, LinkFault& fault) {
    if (v.kind != Value::Kind::scalar || !is_target(v.scalar)) {
      r.expected(v, example);
    } else if (!fault.target.empty()) {
      r.fault(v, fmt::format("the fault names '{}' already; expected one target a fault",
                             fault.target));
    } else {
      fault.target = v.scalar;
    }
  };
  if (!primary) {
    f.write = [](const LinkFault&) -> std::optional<Value> { return std::nullopt; };
  }
  return f;
}

// [[0, 1, 2], ...]: two links between GPUs 0 and 1.
Field<Node> nvlink_links() {
  Field<Node> f;
  Value numbers = type_schema("array");
  tree::put(numbers, "items", type_schema("integer"));
  Value schema = type_schema("array");
  tree::put(schema, "items", std::move(numbers));
  f.spec = {"nvlink_links",
            "NVLink links of an nvlink_mesh as [GPU, GPU, links]; left out: every GPU linked "
            "evenly to all others.",
            std::move(schema),
            false,
            false,
            {}};
  f.read = [](Reader& r, const Value& v, Node& n) {
    n.nvlink_links.clear();
    if (is_null(v)) {
      return;
    }
    if (v.kind != Value::Kind::sequence) {
      r.expected(v, "a list such as [[0, 1, 2], [0, 2, 1]]");
      return;
    }
    for (std::size_t i = 0; i < v.items.size(); ++i) {
      Reader::Scope scope(r, std::to_string(i));
      const Value& item = v.items[i];
      r.record(item.origin);
      if (item.kind != Value::Kind::sequence || item.items.size() != 3) {
        r.expected(item, "two GPUs and how many links join them, as [0, 1, 2]");
        continue;
      }
      const auto a = read_integer(r, item.items[0], 0, 15);
      const auto b = read_integer(r, item.items[1], 0, 15);
      const auto links = read_integer(r, item.items[2], 1, 1024);
      if (a && b && links && *a == *b) {
        r.fault(item, fmt::format("GPU {} is linked to itself; expected two GPUs", *a));
      } else if (a && b && links) {
        n.nvlink_links.push_back(
            {static_cast<int>(*a), static_cast<int>(*b), static_cast<int>(*links)});
      }
    }
  };
  f.write = [](const Node& n) -> std::optional<Value> {
    if (n.nvlink_links.empty()) {
      return std::nullopt;
    }
    std::vector<Value> edges;
    edges.reserve(n.nvlink_links.size());
    for (const auto& edge : n.nvlink_links) {
      edges.push_back(
          tree::list({tree::number(std::int64_t{edge.a}), tree::number(std::int64_t{edge.b}),
                      tree::number(std::int64_t{edge.links})}));
    }
    return tree::list(std::move(edges));
  };
  return f;
}

// A figure above zero, or none: what is not known is not written either.
template <class Q>
Field<Node> stated(std::string key, Q Node::*member, std::string description) {
  Field<Node> f = quantity(std::move(key), member, true, std::move(description));
  f.write = [=](const Node& n) -> std::optional<Value> {
    return n.*member == Q{} ? std::nullopt : std::optional(write_quantity(n.*member));
  };
  return f;
}

Field<Node> cpu_cores() {
  Field<Node> f = integer("cpu_cores", &Node::cpu_cores, 1, 65'536,
                          "Physical CPU cores of a node; left out: not known.");
  f.write = [](const Node& n) -> std::optional<Value> {
    return n.cpu_cores == 0 ? std::nullopt : std::optional(tree::number(std::int64_t{n.cpu_cores}));
  };
  return f;
}

Field<Fabric> torus() {
  Field<Fabric> f;
  Value schema = type_schema("array");
  tree::put(schema, "items", type_schema("integer"));
  f.spec = {"torus",
            "Chips along each dimension, the nearest first: [8, 8, 16]; left out: three, as cubic "
            "as the cluster's chips divide.",
            std::move(schema),
            false,
            false,
            {}};
  f.read = [](Reader& r, const Value& v, Fabric& fabric) {
    fabric.torus.clear();
    if (is_null(v)) {
      return;
    }
    if (v.kind != Value::Kind::sequence || v.items.empty() || v.items.size() > 3) {
      r.expected(v, "one to three dimensions such as [8, 8, 16]");
      return;
    }
    for (std::size_t i = 0; i < v.items.size(); ++i) {
      Reader::Scope scope(r, std::to_string(i));
      if (const auto n = read_integer(r, v.items[i], 1, 100'000)) {
        fabric.torus.push_back(static_cast<int>(*n));
      }
    }
  };
  f.write = [](const Fabric& fabric) -> std::optional<Value> {
    if (fabric.torus.empty()) {
      return std::nullopt;
    }
    std::vector<Value> sizes;
    sizes.reserve(fabric.torus.size());
    for (const int size : fabric.torus) {
      sizes.push_back(tree::number(std::int64_t{size}));
    }
    return tree::list(std::move(sizes));
  };
  return f;
}

const Table<LinkFault>& fault_table() {
  static const Table<LinkFault> table = {
      target("link",
             "What is at fault: node3/nic2, node3/gpu1 (its NVLink), node3/gpu0-gpu1 (the links "
             "between two GPUs of a mesh), leaf0/up, pod1/up (core or global links), leaf0, "
             "spine2, or rail3 (NIC port 3 of every node).",
             "a link such as node3/nic2, node3/gpu1 or leaf0/up"),
      target("nic", "The same, for a NIC.", "a NIC such as node3/nic2"),
      target("switch", "The same, for a switch.", "a switch such as leaf0 or spine2"),
      target("rail", "The same, for a rail.", "a rail such as rail3"),
      number("bandwidth", &LinkFault::bandwidth, 1e-6, 1, "Share of the capacity that is left."),
      state(),
  };
  return table;
}

const Table<DeviceOverride>& override_table() {
  static const Table<DeviceOverride> table = {
      integer("first", &DeviceOverride::first, 0, kManyRanks, "First node, from 0."),
      integer("count", &DeviceOverride::count, 1, kManyRanks, "How many nodes."),
      named("device", &DeviceOverride::device, device_part, "Their device."),
  };
  return table;
}

template <class T>
Field<Cluster> list_of(std::string key, std::vector<T> Cluster::*member, const Table<T>& table,
                       std::string what, std::string description) {
  Field<Cluster> f;
  f.spec = {std::move(key), std::move(description), list_schema(specs(table)), false, false, {}};
  const Table<T>* rows = &table;
  f.read = [=](Reader& r, const Value& v, Cluster& c) { c.*member = read_list(r, v, *rows, what); };
  f.write = [=](const Cluster& c) { return write_list(c.*member, *rows); };
  return f;
}

}  // namespace

const Table<Device>& device_table() {
  static const Table<Device> table = {
      string("name", &Device::name, "Chooses the calibration files."),
      number("compute_capability", &Device::compute_capability, 0, 1000,
             "NVIDIA's compute capability; 0: another vendor's device."),
      peak(),
      memory(),
      quantity("usable_memory", &Device::usable_memory, false,
               "Memory that a process can see; 0: all of it."),
      quantity("memory_bandwidth", &Device::memory_bandwidth, true,
               "Memory bandwidth by data sheet."),
      quantity("l2", &Device::l2, false,
               "Second-level cache; a fact for reports, no curve reads it yet."),
      integer("sms", &Device::sms, 0, 1'000'000, "Streaming multiprocessors (compute units)."),
      quantity("nvlink", &Device::nvlink, false,
               "GPU-to-GPU bandwidth per direction of one GPU (NVLink, xGMI); 0: none."),
      integer("nvlink_generation", &Device::nvlink_generation, 0, 100,
              "NVLink generation; 0: none. A fact for reports: rates are `nvlink`'s."),
      quantity("pcie", &Device::pcie, false, "Host link bandwidth per direction."),
      quantity(
          "power", &Device::power, false,
          "Board power limit; a fact for reports: curves hold the clocks they were measured at."),
      string("source", &Device::source, "Where the figures come from."),
  };
  return table;
}

const Table<Node>& node_table() {
  static const Table<Node> table = {
      string("name", &Node::name, "Shown in reports."),
      integer("gpus", &Node::gpus, 1, 1024, "GPUs of one host."),
      choice("intra", &Node::intra, "How its GPUs are linked."),
      boolean("nvls", &Node::nvls, "The NVLink switches reduce (NVLink SHARP)."),
      integer("nics", &Node::nics, 0, 1024, "Network adapters of one host."),
      quantity("nic", &Node::nic, false, "Line rate of one adapter per direction."),
      quantity("nic_latency", &Node::nic_latency, false,
               "One way through the adapter and first switch; 0: the fabric's figure."),
      boolean("amd_cpu", &Node::amd_cpu, "AMD hosts: other latency constants in NCCL."),
      nvlink_links(),
      integer("sockets", &Node::sockets, 1, 64,
              "CPU sockets (NUMA domains), each with its own PCIe root; GPUs divide evenly."),
      integer("pcie_switches", &Node::pcie_switches, 0, 1024,
              "PCIe switches, evenly below the sockets; 0: each GPU on a root port of its own."),
      quantity("pcie_uplink", &Node::pcie_uplink, false,
               "A PCIe switch's link to its root port per direction; 0: as fast as a GPU's."),
      quantity("inter_socket", &Node::inter_socket, false,
               "Links between two sockets (UPI, xGMI) per direction, as reached; 0: no limit."),
      boolean("peer_to_peer", &Node::peer_to_peer,
              "GPUs reach each other over PCIe; false: through host memory (GeForce)."),
      stated("host_memory", &Node::host_memory,
             "Host memory of a node, which its GPUs share; left out: not known, and offloading "
             "there is refused."),
      stated("host_memory_bandwidth", &Node::host_memory_bandwidth,
             "Of all sockets together, by data sheet."),
      cpu_cores(),
      stated("nvme", &Node::nvme, "Local NVMe drives together; left out: none known."),
      stated("nvme_read", &Node::nvme_read, "Their read bandwidth together."),
      stated("nvme_write", &Node::nvme_write, "Their write bandwidth together."),
      string("source", &Node::source, "Where the figures come from."),
  };
  return table;
}

const Table<Fabric>& fabric_table() {
  static const Table<Fabric> table = {
      string("name", &Fabric::name, "Shown in reports."),
      choice("kind", &Fabric::kind,
             "The network's shape; dragonfly: dragonfly+ (groups of leaves and spines)."),
      number("oversubscription", &Fabric::oversubscription, 1, 1000,
             "Capacity below a leaf over capacity above it."),
      integer("nodes_per_leaf", &Fabric::nodes_per_leaf, 1, kManyRanks,
              "Nodes below one leaf (rail-optimised: one group of rail leaves)."),
      integer("nodes_per_pod", &Fabric::nodes_per_pod, 0, kManyRanks,
              "Nodes of a pod of a three-level tree, or of a dragonfly's group; 0: two levels."),
      number("core_oversubscription", &Fabric::core_oversubscription, 0.01, 1000,
             "Capacity below a pod over that of its core links (dragonfly: global links, the "
             "taper)."),
      integer("spines", &Fabric::spines, 0, 4096,
              "Spine switches of a pod; 0: at most 4, as many as matter to routes."),
      integer("uplinks_per_leaf", &Fabric::uplinks_per_leaf, 0, 65'536,
              "Cables above a leaf that a hash chooses from; 0: uplink capacity over a NIC's "
              "rate."),
      integer("flows_per_nic", &Fabric::flows_per_nic, 1, 1024,
              "Connections that a NIC's traffic is cut into (NCCL channels times queue pairs)."),
      torus(),
      integer("torus_block", &Fabric::torus_block, 0, 1024,
              "Dimensions that are a multiple of it close into rings; 0: all of them do."),
      integer("nvlink_domain_gpus", &Fabric::nvlink_domain_gpus, 0, 100'000,
              "GPUs that share NVLink; 0: those of one node."),
      number("efficiency", &Fabric::efficiency, 0.001, 1, "Reachable share of the line rate."),
      choice("routing", &Fabric::routing,
             "How switches spread flows: adaptively, or by a hash whose collisions are drawn from "
             "the seed."),
      boolean("sharp", &Fabric::sharp, "Switches reduce (SHARP), and NCCL uses it (CollNet)."),
      boolean("pxn", &Fabric::pxn,
              "NCCL's PXN: data moves over NVLink to the GPU beside the right rail."),
      string("source", &Fabric::source, "Where the figures come from."),
  };
  return table;
}

const Table<Cluster>& cluster_table() {
  static const Table<Cluster> table = {
      string("name", &Cluster::name, "Shown in reports."),
      named("device", &Cluster::device, device_part, "The GPU."),
      named("node", &Cluster::node, node_part, "The host."),
      named("fabric", &Cluster::fabric, fabric_part, "The network between hosts."),
      integer("nodes", &Cluster::nodes, 1, kManyRanks,
              "Hosts of the job (on NVL72: trays of 4 GPUs)."),
      gpus_per_node(),
      list_of("overrides", &Cluster::overrides, override_table(),
              "a list such as [{first: 0, count: 1, device: a100-sxm-80}]",
              "Nodes that carry another device."),
      list_of("faults", &Cluster::faults, fault_table(),
              "a list such as [{link: node3/nic2, bandwidth: 0.5}]", "Links with less capacity."),
      device_order(),
  };
  return table;
}

}  // namespace stepcast::config
