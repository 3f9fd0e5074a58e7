// Devices, nodes, fabric, and settings that are forced upon NCCL.
#include <algorithm>
#include <cstdlib>

#include "rules.h"
#include "stepcast/job/nccl.h"

namespace stepcast::strategy {
namespace {

std::string formats(const job::Device& device) {
  std::string all;
  for (const auto& [type, rate] : device.peak) {
    all += (all.empty() ? "" : " | ") + std::string(job::to_string(type));
  }
  return all;
}

void device_override(const job::Job& job, const job::DeviceOverride& o, const std::string& key,
                     Faults& out) {
  if (o.count < 1) {
    out.add(key, "the override has no count of nodes; expected {{first, count, device}}");
  } else if (o.first + o.count > job.cluster.nodes) {
    out.add(key, "nodes {} to {} are beyond the cluster's {} nodes; expected nodes from 0", o.first,
            o.first + o.count - 1, job.cluster.nodes);
  } else if (o.device.peak.empty()) {
    out.add(key, "the override has no device; expected {{first, count, device}}");
  } else if (job::peak_of(o.device, job.workload.precision).count() <= 0) {
    out.add(key, "the device {} has no peak rate for {}; expected another precision", o.device.name,
            job::to_string(job.workload.precision));
  }
}

// The target's numbers count from 0 and are below the cluster's sizes.
void target_exists(const job::Cluster& c, const std::string& target, const std::string& key,
                   Faults& out) {
  const auto number = [&](std::size_t at) { return std::strtol(target.c_str() + at, nullptr, 10); };
  const auto below = [&](long n, long limit, const char* of, const char* what) {
    if (n >= limit) {
      out.add(key, "'{}' is beyond the {}'s {} {}; expected {} from 0", target, of, limit, what,
              what);
    }
  };
  const int ports = std::min(c.node.nics, c.node.gpus);
  const bool tree =
      c.fabric.kind == job::Fabric::Kind::fat_tree || c.fabric.kind == job::Fabric::Kind::dragonfly;
  const long units = (c.nodes + c.fabric.nodes_per_leaf - 1) / c.fabric.nodes_per_leaf;
  if (target.starts_with("leaf")) {
    below(number(4), units * (tree ? 1 : std::max(1, ports)), "fabric", "leaves");
    return;
  }
  if (target.starts_with("rail")) {
    below(number(4), ports, "node", "rails");
    return;
  }
  if (!target.starts_with("node")) {
    return;  // spines and pods: the topology counts them
  }
  const std::size_t slash = target.find('/');
  const bool nic = target.compare(slash + 1, 3, "nic") == 0;
  const std::size_t dash = target.find('-');
  below(number(4), c.nodes, "cluster", "nodes");
  below(number(slash + 4), nic ? c.node.nics : c.node.gpus, "node", nic ? "NICs" : "GPUs");
  if (dash != std::string::npos) {
    below(number(dash + 4), c.node.gpus, "node", "GPUs");
  }
}

}  // namespace

void device_format(const job::Job& job, Faults& out) {
  const job::Device& device = job.cluster.device;
  if (job::peak_of(device, job.workload.precision).count() <= 0) {
    out.add("workload.precision", "the device {} has no peak rate for {}; expected {}", device.name,
            job::to_string(job.workload.precision), formats(device));
  }
}

void cluster_size(const job::Job& job, Faults& out) {
  constexpr int kMaxGpus = 10'000'000;
  const job::Cluster& c = job.cluster;
  if (c.nodes > kMaxGpus / c.node.gpus) {
    out.add("cluster.nodes", "{} nodes of {} GPUs are too many; expected at most {} GPUs", c.nodes,
            c.node.gpus, kMaxGpus);
  }
}

void cluster_adapters(const job::Job& job, Faults& out) {
  const job::Cluster& c = job.cluster;
  const bool switched = c.fabric.kind != job::Fabric::Kind::none &&
                        (c.fabric.kind != job::Fabric::Kind::torus || c.fabric.slices > 1);
  if (c.nodes > 1 && switched && (c.node.nics == 0 || c.node.nic.count() <= 0)) {
    out.add("cluster.nodes", "{} nodes without network adapters; expected node.nics and node.nic",
            c.nodes);
  }
}

void node_switches(const job::Job& job, Faults& out) {
  const job::Node& n = job.cluster.node;
  if (n.pcie_switches % n.sockets != 0) {
    out.add("cluster.node.pcie_switches",
            "{} switches do not divide among {} sockets; expected a multiple", n.pcie_switches,
            n.sockets);
  }
}

void node_links(const job::Job& job, Faults& out) {
  const job::Node& n = job.cluster.node;
  if (!n.nvlink_links.empty() && n.intra != job::Node::Intra::nvlink_mesh) {
    out.add("cluster.node.nvlink_links",
            "links are listed for GPUs that a switch joins; expected intra: nvlink_mesh");
  }
}

// NVLink SHARP and NVLink beyond a node are NVIDIA's switches'; NCCL and RCCL run on GPUs.
void node_reduction(const job::Job& job, Faults& out) {
  const job::Device& device = job.cluster.device;
  const auto vendor = hardware::vendor_of(device);
  if (vendor != hardware::Vendor::amd && vendor != hardware::Vendor::google) {
    return;
  }
  if (job.cluster.node.nvls) {
    out.add("cluster.node.nvls",
            "no switch reduces among devices {}, which are not NVIDIA's; expected nvls: false",
            device.name);
  }
  if (vendor == hardware::Vendor::google) {
    for (const auto& [key, value] :
         {std::pair("nccl.algo", &job.nccl.algo), std::pair("nccl.proto", &job.nccl.proto)}) {
      if (*value) {
        out.add(key, "the collectives of {} are XLA's; expected neither nccl.algo nor nccl.proto",
                device.name);
      }
    }
    return;
  }
  const int domain = job.cluster.fabric.nvlink_domain_gpus;
  if (domain > job.cluster.node.gpus) {
    out.add("cluster.fabric.nvlink_domain_gpus",
            "the links of {} join the {} of a node; expected no domain of {}", device.name,
            job.cluster.node.gpus, domain);
  }
  const auto parsed = job::parse_nccl_rules(job.nccl.algo.value_or(""), job::nccl_algorithms());
  const auto* rules = std::get_if<job::NcclRules>(&parsed);
  for (const auto& [function, rule] : rules != nullptr ? *rules : job::NcclRules{}) {
    const auto named = std::find_if(rule.names.begin(), rule.names.end(),
                                    [](const auto& name) { return name.starts_with("nvls"); });
    if (!rule.excludes && named != rule.names.end()) {
      out.add("nccl.algo",
              "{} needs NVIDIA's NVLink switches, and the device is {}; expected ring "
              "or tree",
              *named, device.name);
    }
  }
}

// A torus has no switches that could reduce.
void fabric_reduction(const job::Job& job, Faults& out) {
  const job::Fabric& f = job.cluster.fabric;
  if (f.sharp && f.kind == job::Fabric::Kind::torus) {
    out.add("cluster.fabric.sharp", "a torus has no switches to reduce in; expected sharp: false");
  }
}

void fabric_groups(const job::Job& job, Faults& out) {
  const job::Fabric& f = job.cluster.fabric;
  if (f.kind == job::Fabric::Kind::dragonfly && f.nodes_per_pod == 0) {
    out.add("cluster.fabric.kind",
            "a dragonfly consists of groups; expected nodes_per_pod, the nodes of one group");
  }
}

void fabric_pods(const job::Job& job, Faults& out) {
  const job::Fabric& f = job.cluster.fabric;
  if (f.nodes_per_pod % f.nodes_per_leaf != 0) {
    out.add("cluster.fabric.nodes_per_pod",
            "{} nodes per pod are not a multiple of the {} nodes per leaf; expected whole leaves",
            f.nodes_per_pod, f.nodes_per_leaf);
  }
}

void fabric_slices(const job::Job& job, Faults& out) {
  const job::Cluster& c = job.cluster;
  if (c.fabric.slices > 1 && c.fabric.kind != job::Fabric::Kind::torus) {
    out.add("cluster.fabric.slices", "{} slices of a fabric of kind {}; expected slices of a torus",
            c.fabric.slices, to_string(c.fabric.kind));
  } else if (c.nodes % c.fabric.slices != 0) {
    out.add("cluster.fabric.slices", "{} nodes do not divide among {} slices", c.nodes,
            c.fabric.slices);
  }
}

void fabric_torus(const job::Job& job, Faults& out) {
  const job::Cluster& c = job.cluster;
  if (c.fabric.kind != job::Fabric::Kind::torus || c.fabric.torus.empty()) {
    return;
  }
  double chips = 1;
  for (const int size : c.fabric.torus) {
    chips *= size;
  }
  if (chips * c.fabric.slices != static_cast<double>(c.nodes) * c.node.gpus) {
    out.add("cluster.fabric.torus", "the torus has {} chips and {} {} GPUs; expected equal numbers",
            chips, c.fabric.slices > 1 ? "a slice" : "the cluster",
            std::int64_t{c.nodes} * c.node.gpus / c.fabric.slices);
  }
}

void device_overrides(const job::Job& job, Faults& out) {
  for (std::size_t i = 0; i < job.cluster.overrides.size(); ++i) {
    device_override(job, job.cluster.overrides[i], fmt::format("cluster.overrides.{}", i), out);
  }
}

void link_faults(const job::Job& job, Faults& out) {
  for (std::size_t i = 0; i < job.cluster.faults.size(); ++i) {
    const job::LinkFault& fault = job.cluster.faults[i];
    const std::string key = fmt::format("cluster.faults.{}", i);
    if (fault.target.empty()) {
      out.add(key, "the fault names no link; expected one such as node3/nic2");
      continue;
    }
    if (fault.down && fault.bandwidth != 1) {
      out.add(key, "'{}' is down, but has a bandwidth of {}; expected one of the two", fault.target,
              fault.bandwidth);
    }
    target_exists(job.cluster, fault.target, key, out);
  }
}

void nccl_channels(const job::Job& job, Faults& out) {
  const job::Nccl& n = job.nccl;
  if (n.min_ctas && n.max_ctas && *n.min_ctas > *n.max_ctas) {
    out.add("nccl.min_ctas", "nccl.min_ctas is {}, more than nccl.max_ctas ({})", *n.min_ctas,
            *n.max_ctas);
  }
}

}  // namespace stepcast::strategy
