#include <fmt/core.h>

#include <algorithm>
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

std::optional<std::string> read_rank_order(Reader& reader, const Value& value) {
  const std::set<std::string> wanted = {"tp", "cp", "ep", "dp", "pp"};
  std::set<std::string> seen;
  std::string word;
  std::size_t words = 0;
  for (const char ch : value.scalar + "-") {
    if (ch == '-') {
      seen.insert(word);
      ++words;
      word.clear();
    } else {
      word += ch;
    }
  }
  if (value.kind == Value::Kind::scalar && seen == wanted && words == wanted.size()) {
    return value.scalar;
  }
  reader.expected(value, "a permutation of tp-cp-ep-dp-pp");
  return std::nullopt;
}

namespace {

Field<Device> peak() {
  Field<Device> f = custom<Device>(
      "peak",
      "Dense peak rates by number format (no sparsity); fp32 is the rate without tensor cores.", {},
      [](Reader& r, const Value& v, Device& d) {
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
      },
      [](const Device& d) {
        Value v = tree::map();
        for (const auto& [type, rate] : d.peak) {
          tree::put(v, to_string(type), write_quantity(rate));
        }
        return v;
      });
  f.spec.section = true;
  for (const std::string_view name : words_of<DType>()) {
    f.spec.children.push_back(
        Spec{std::string(name), "Peak at this number format.", quantity_schema("FLOP/s")});
  }
  return f;
}

// Cards are sold as "96 GB", of which the usable share is that of the overridden device. "95 GiB"
// or bytes is what a tool shows: the usable memory itself.
Field<Device> memory() {
  Field<Device> f = quantity("memory", &Device::memory, true,
                             "Memory as sold. An override in GB keeps the device's usable share; "
                             "one in GiB or bytes is taken as usable memory.");
  f.reads([](Reader& r, const Value& v, Device& d) {
    const auto bytes = read_quantity(r, v, Bytes{});
    if (!bytes) {
      return;
    }
    if (bytes->count() == 0) {
      r.expected(v, "a value above zero");
      return;
    }
    constexpr Bytes kLeast(1 << 20);
    if (*bytes < kLeast) {  // "80" for 80 GB
      r.fault(v, fmt::format("{} is {}; expected at least {}, such as '{} GB'", r.path(),
                             to_string(*bytes), to_string(kLeast), shown(v.scalar)));
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
  });
  return f;
}

Field<Cluster> gpus_per_node() {
  return custom<Cluster>(
      "gpus_per_node", "GPUs that the job uses in each node; left out: all of them.",
      integer_schema(1),
      [](Reader& r, const Value& v, Cluster& c) {
        const auto n = read_integer(r, v, 1, 1024);
        if (n && c.node.gpus > 0 && *n > c.node.gpus) {
          r.fault(v, fmt::format("gpus_per_node {} is more than the node's {}; expected at most "
                                 "that, or a larger node.gpus",
                                 *n, c.node.gpus));
        } else if (n) {
          c.node.gpus = static_cast<int>(*n);
          // One GPU of a pair has no partner; links that are listed do not leave the node.
          if (!c.node.nvlink_links.empty()) {
            c.fabric.nvlink_domain_gpus = std::min(c.fabric.nvlink_domain_gpus, c.node.gpus);
          }
        }
      },
      [](const Cluster& c) { return tree::number(std::int64_t{c.node.gpus}); });
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
  Value out = tree::list({});
  for (const T& one : from) {
    out.items.push_back(write_table(table, one));
  }
  return out;
}

// The end of a numbered part ("nic2") that begins at `at`, or nothing.
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
  Field<LinkFault> f =
      choice("state", &LinkFault::down, Words<bool>{{{"up", false}, {"down", true}}},
             "up, or down: no capacity is left.");
  f.writes([](const LinkFault& fault) {
    return fault.down ? std::optional(tree::string("down")) : std::nullopt;
  });
  return f;
}

// The part at fault, which any of four keys may state; `link` is the one that is printed.
Field<LinkFault> target(const char* key, const char* description, const char* example) {
  Field<LinkFault> f = string(key, &LinkFault::target, description);
  f.reads([=](Reader& r, const Value& v, LinkFault& fault) {
    if (v.kind != Value::Kind::scalar || !is_target(v.scalar)) {
      r.expected(v, example);
    } else if (!fault.target.empty()) {
      r.fault(v, fmt::format("the fault already names '{}'; expected one target per fault",
                             fault.target));
    } else {
      fault.target = v.scalar;
    }
  });
  if (std::string_view(key) != "link") {
    f.writes([](const LinkFault&) { return std::nullopt; });
  }
  return f;
}

// [[0, 1, 2], ...]: two links between GPUs 0 and 1.
Field<Node> nvlink_links() {
  return custom<Node>(
      "nvlink_links",
      "NVLink links of an nvlink_mesh as [GPU, GPU, links]; left out: every GPU linked "
      "evenly to all others.",
      array_schema(array_schema(type_schema("integer"))),
      [](Reader& r, const Value& v, Node& n) {
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
      },
      [](const Node& n) -> std::optional<Value> {
        if (n.nvlink_links.empty()) {
          return std::nullopt;
        }
        Value edges = tree::list({});
        for (const auto& edge : n.nvlink_links) {
          edges.items.push_back(tree::integers(std::vector{edge.a, edge.b, edge.links}));
        }
        return edges;
      });
}

// A figure that is printed only if it is known, that is, not zero.
template <class T>
Field<Node> where_known(Field<Node> f, T Node::*member) {
  f.writes([write = f.write, member](const Node& n) {
    return n.*member == T{} ? std::nullopt : write(&n);
  });
  return f;
}

template <class Q>
Field<Node> stated(const char* key, Q Node::*member, const char* description) {
  return where_known(quantity(key, member, true, description), member);
}

Field<Node> cpu_cores() {
  return where_known(integer("cpu_cores", &Node::cpu_cores, 1, 65'536,
                             "Physical CPU cores of a node; left out: not known."),
                     &Node::cpu_cores);
}

Field<Fabric> torus() {
  return custom<Fabric>(
      "torus",
      "Chips of a slice along each dimension, the innermost first: [8, 8, 16]; left out: three "
      "dimensions, as "
      "nearly cubic as the number of chips allows.",
      array_schema(type_schema("integer")),
      [](Reader& r, const Value& v, Fabric& fabric) {
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
      },
      [](const Fabric& fabric) -> std::optional<Value> {
        if (fabric.torus.empty()) {
          return std::nullopt;
        }
        return tree::integers(fabric.torus);
      });
}

const Table<LinkFault>& fault_table() {
  static const Table<LinkFault> table = {
      target("link",
             "The faulty target: node3/nic2, node3/gpu1 (its NVLink), node3/gpu0-gpu1 (the links "
             "between two GPUs of a mesh), leaf0/up, pod1/up (core or global links), leaf0, "
             "spine2, or rail3 (NIC port 3 of every node).",
             "a link such as node3/nic2, node3/gpu1 or leaf0/up"),
      target("nic", "The faulty NIC, in place of link.", "a NIC such as node3/nic2"),
      target("switch", "The faulty switch, in place of link.", "a switch such as leaf0 or spine2"),
      target("rail", "The faulty rail, in place of link.", "a rail such as rail3"),
      number("bandwidth", &LinkFault::bandwidth, 1e-6, 1, "Share of the capacity that remains."),
      state(),
  };
  return table;
}

const Table<DeviceOverride>& override_table() {
  static const Table<DeviceOverride> table = {
      integer("first", &DeviceOverride::first, 0, kManyRanks, "First node, from 0."),
      integer("count", &DeviceOverride::count, 1, kManyRanks, "How many nodes."),
      named("device", &DeviceOverride::device, device_part(), "Their device."),
  };
  return table;
}

template <class T>
Field<Cluster> list_of(const char* key, std::vector<T> Cluster::*member, const Table<T>& table,
                       std::string what, const char* description) {
  const Table<T>* rows = &table;
  return custom<Cluster>(
      key, description, array_schema(object_schema(specs(table))),
      [=](Reader& r, const Value& v, Cluster& c) { c.*member = read_list(r, v, *rows, what); },
      [=](const Cluster& c) { return write_list(c.*member, *rows); });
}

}  // namespace

const Table<Device>& device_table() {
  static const Table<Device> table = {
      string("name", &Device::name, "Name of the device, by which calibration files are chosen."),
      number("compute_capability", &Device::compute_capability, 0, 1000,
             "NVIDIA's compute capability; 0: another vendor's device."),
      choice("vendor", &Device::vendor,
             "Who makes the device; left out: NVIDIA where it has a compute capability."),
      peak(),
      memory(),
      quantity("usable_memory", &Device::usable_memory, false,
               "Memory that a process can see; 0: all of it."),
      quantity("memory_bandwidth", &Device::memory_bandwidth, true,
               "Memory bandwidth by data sheet."),
      quantity("l2", &Device::l2, false,
               "Size of the L2 cache; shown in reports, used by no forecast."),
      integer("sms", &Device::sms, 0, 1'000'000, "Streaming multiprocessors (compute units)."),
      integer("matrix_unit", &Device::matrix_unit, 0, 65536,
              "Side of the square arrays that multiply matrices (a TPU's MXU), in elements; 0: the "
              "device has no such arrays."),
      quantity("nvlink", &Device::nvlink, false,
               "GPU-to-GPU bandwidth per direction of one GPU (NVLink, xGMI); 0: none."),
      integer("nvlink_generation", &Device::nvlink_generation, 0, 100,
              "NVLink generation; 0: none. Shown in reports; `nvlink` states the rate."),
      quantity("pcie", &Device::pcie, false, "Host link bandwidth per direction."),
      quantity("power", &Device::power, false,
               "Power cap of the board. Below the named device's own it lowers the sustained "
               "clock, and so the "
               "rate of large matrix products."),
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
      quantity("nic", &Node::nic, false,
               "Line rate of one adapter per direction, or the name of its speed such as HDR or "
               "NDR200."),
      quantity("nic_latency", &Node::nic_latency, false,
               "One-way latency through the adapter and the first switch; 0: the fabric's."),
      boolean("amd_cpu", &Node::amd_cpu,
              "The hosts have AMD CPUs, for which NCCL has other latency constants."),
      nvlink_links(),
      integer("sockets", &Node::sockets, 1, 64,
              "CPU sockets (NUMA domains), each with its own PCIe root; GPUs are spread evenly "
              "over them."),
      integer(
          "pcie_switches", &Node::pcie_switches, 0, 1024,
          "PCIe switches, spread evenly over the sockets; 0: each GPU has a root port of its own."),
      quantity("pcie_uplink", &Node::pcie_uplink, false,
               "A PCIe switch's link to its root port per direction; 0: as fast as a GPU's."),
      quantity("inter_socket", &Node::inter_socket, false,
               "Achieved bandwidth between two sockets (UPI, xGMI) per direction; 0: no limit."),
      boolean("peer_to_peer", &Node::peer_to_peer,
              "GPUs access each other over PCIe; false: data moves through host memory (GeForce)."),
      stated("host_memory", &Node::host_memory,
             "Host memory of a node, which its GPUs share; left out: not known, and offloading "
             "there is refused."),
      stated("host_memory_bandwidth", &Node::host_memory_bandwidth,
             "Bandwidth of host memory, all sockets together, by data sheet."),
      cpu_cores(),
      stated("nvme", &Node::nvme, "Capacity of all local NVMe drives; left out: not known."),
      stated("nvme_read", &Node::nvme_read, "Read bandwidth of all local NVMe drives."),
      stated("nvme_write", &Node::nvme_write, "Write bandwidth of all local NVMe drives."),
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
              "Spine switches of a pod; 0: as many as routes can use, at most 4."),
      integer("uplinks_per_leaf", &Fabric::uplinks_per_leaf, 0, 65'536,
              "Uplinks of a leaf among which hashed routing chooses; 0: uplink capacity over the "
              "rate of a NIC."),
      integer("flows_per_nic", &Fabric::flows_per_nic, 1, 1024,
              "Connections among which the traffic of a NIC is divided (NCCL channels times queue "
              "pairs)."),
      torus(),
      integer("slices", &Fabric::slices, 1, 100'000,
              "Slices of a torus (TPU multislice): equal parts of the nodes, each a torus of its "
              "own, joined by "
              "the nodes' network adapters (DCN)."),
      integer("torus_dimensions", &Fabric::torus_dimensions, 1, 3,
              "Dimensions of a torus whose sizes are not stated."),
      integer("torus_block", &Fabric::torus_block, 0, 1024,
              "Dimensions whose size is a multiple of this number are rings; 0: all of them are."),
      integer("nvlink_domain_gpus", &Fabric::nvlink_domain_gpus, 0, 100'000,
              "GPUs in one NVLink domain; 0: those of one node."),
      integer("segment", &Fabric::segment, 0, 100'000,
              "Nodes that the scheduler keeps together in one NVLink domain of several nodes "
              "(Slurm's --segment), so that a domain holds whole segments of the job; 0: the "
              "largest number that a domain holds and that divides the nodes."),
      number("efficiency", &Fabric::efficiency, 0.001, 1,
             "Share of the line rate that can be reached."),
      choice("routing", &Fabric::routing,
             "How switches spread flows: adaptively, or by a hash whose collisions are drawn from "
             "the seed."),
      boolean("sharp", &Fabric::sharp,
              "Switches reduce in the network (SHARP), and NCCL uses them (CollNet)."),
      boolean("pxn", &Fabric::pxn,
              "NCCL's PXN: data moves over NVLink to the GPU that is attached to the destination's "
              "rail."),
      string("source", &Fabric::source, "Where the figures come from."),
  };
  return table;
}

const Table<Cluster>& cluster_table() {
  static const Table<Cluster> table = {
      string("name", &Cluster::name, "Shown in reports."),
      named("device", &Cluster::device, device_part(), "The GPU."),
      named("node", &Cluster::node, node_part(), "The host."),
      named("fabric", &Cluster::fabric, fabric_part(), "The network between hosts."),
      integer("nodes", &Cluster::nodes, 1, kManyRanks,
              "Hosts of the job (on NVL72: trays of 4 GPUs)."),
      gpus_per_node(),
      list_of("overrides", &Cluster::overrides, override_table(),
              "a list such as [{first: 0, count: 1, device: a100-sxm-80}]",
              "Nodes that have another device."),
      list_of("faults", &Cluster::faults, fault_table(),
              "a list such as [{link: node3/nic2, bandwidth: 0.5}]", "Links with less capacity."),
      rank_order("order", &Cluster::order,
                 "Order of the parallel dimensions over ranks, the innermost first: a permutation "
                 "of tp-cp-ep-dp-pp."),
  };
  return table;
}

}  // namespace stepcast::config
