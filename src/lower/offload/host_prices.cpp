#include "host_prices.h"

#include <algorithm>
#include <cmath>

namespace stepcast::lower {
namespace {

using cost::CopyDirection;
using program::kWeightOne;
using program::Price;

constexpr double kPicoseconds = 1e12;

// Large copies' bytes per second, and what the first byte waits for.
struct Line {
  double latency = 0;  // picoseconds
  double rate = 0;
  program::CurveId curve;
};

Line line_of(const cost::Kernels& kernels, CopyDirection direction, bool pinned) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  const auto small = static_cast<double>(kernels.copy(direction, pinned, Bytes(1)).time.count());
  const cost::Priced large = kernels.copy(direction, pinned, Bytes(kLarge));
  const double fluid = static_cast<double>(large.time.count()) - small;
  return {small, static_cast<double>(kLarge) * kPicoseconds / fluid, large.curve};
}

// A GPU's host link. With copies both ways at once, each way is slower than alone: a byte one way
// also takes `other` bytes of the other way's capacity.
struct Link {
  Line to_device, to_host;
  double other = 0;
};

Link link_of(const cost::Kernels& kernels, bool pinned) {
  Link l;
  l.to_device = line_of(kernels, CopyDirection::host_to_device, pinned);
  l.to_host = line_of(kernels, CopyDirection::device_to_host, pinned);
  const double each = line_of(kernels, CopyDirection::both, pinned).rate;
  const double alone = (l.to_device.rate + l.to_host.rate) / 2;
  l.other = std::max(0.0, alone / each - 1);
  return l;
}

std::int64_t weight(double bytes) { return std::llround(bytes * kWeightOne); }

class HostPrices {
 public:
  // `ranks`: that share the node's cores.
  HostPrices(const hardware::Node& node, bool pinned, int ranks, program::CurveId first_curve)
      : node_(node),
        pinned_(pinned),
        dram_(node.host_memory_bandwidth.count() * kDramShare),
        all_cpus_(node.host_memory_bandwidth.count() * kCpuAdamShare),
        cpu_(std::min(all_cpus_, kCoreBandwidth * node.cpu_cores / ranks)),
        cpu_curve_(first_curve),
        nvme_curve_(program::CurveId::at(first_curve + 1)) {}

  double dram() const { return dram_; }

  Price price(const Movement& m, const Link& link, Labels& labels) const {
    Price p;
    p.bytes = Bytes(m.bytes);
    p.label = labels.id(to_string(m.by));
    // Pageable memory is staged: the CPU reads and writes it once more.
    double through_memory = pinned_ ? 1 : 3;
    Line line;
    switch (m.by) {
      case Carrier::to_device:
        line = link.to_device;
        p.weight[kToDevice] = weight(1);
        p.weight[kToHost] = weight(link.other);
        break;
      case Carrier::to_host:
        line = link.to_host;
        p.weight[kToHost] = weight(1);
        p.weight[kToDevice] = weight(link.other);
        break;
      case Carrier::nvme_read:
        line = {kNvmeLatency, node_.nvme_read.count(), nvme_curve_};
        p.weight[kNvme] = weight(1);
        through_memory = 1;
        break;
      case Carrier::nvme_write:
        line = {kNvmeLatency, node_.nvme_write.count(), nvme_curve_};
        p.weight[kNvme] = weight(node_.nvme_read / node_.nvme_write);
        through_memory = 1;
        break;
      case Carrier::cpu:  // all CPUs together fill the memory at their own share of its bandwidth
        line = {0, cpu_, cpu_curve_};
        through_memory = dram_ / all_cpus_;
        break;
    }
    p.weight[kDram] = weight(through_memory);
    p.latency = Time(std::llround(line.latency * m.pieces));
    p.rate = std::max<std::int64_t>(1, std::llround(std::min(line.rate, dram_ / through_memory)));
    p.fluid = Time(
        std::llround(static_cast<double>(m.bytes) * kPicoseconds / static_cast<double>(p.rate)));
    p.latency_curve = p.curve = line.curve;
    return p;
  }

 private:
  const hardware::Node& node_;
  bool pinned_;
  double dram_;
  double all_cpus_;
  double cpu_;
  program::CurveId cpu_curve_;
  program::CurveId nvme_curve_;
};

}  // namespace

std::vector<program::Curve> add_host(program::World& world, const strategy::Plan& plan,
                                     const cluster::Topology& topology, const PriceBook& book,
                                     Labels& labels,
                                     const std::vector<const cost::Kernels*>& kernels,
                                     const std::vector<const hardware::Device*>& devices,
                                     const std::vector<int>& rows, program::CurveId first_curve) {
  const auto& movements = book.movements();
  if (movements.empty()) {
    return {};
  }
  const hardware::Node& node = plan.cluster.node;
  const bool pinned = plan.offload.pinned;
  const HostPrices prices(node, pinned, node.gpus, first_curve);
  const auto first_shape = static_cast<std::uint32_t>(world.shapes.size());
  std::vector<Link> links;
  bool drives = false;
  for (const cost::Kernels* of : kernels) {
    links.push_back(link_of(*of, pinned));
    program::Shape shape;
    for (const Movement& m : movements) {
      shape.prices.push_back(prices.price(m, links.back(), labels));
      drives = drives || shape.prices.back().weight[kNvme] > 0;
    }
    world.shapes.push_back(std::move(shape));
  }
  // A price alone never exceeds a capacity, however it was rounded.
  const auto resource = [&](double capacity) {
    world.resources.push_back({static_cast<std::int64_t>(capacity) + 2});
    return program::ResourceId::at(world.resources.size() - 1);
  };
  struct Shared {
    program::ResourceId memory, drives;
    std::vector<std::pair<program::ResourceId, program::ResourceId>> switches;  // down, up
  };
  std::vector<Shared> nodes;
  const auto switch_links = [&](const Link& link, const hardware::Device& device) {
    const double width =
        node.pcie_uplink.count() > 0 ? node.pcie_uplink / device.pcie : 1.0;  // in GPUs' links
    return std::pair{resource(link.to_device.rate * width), resource(link.to_host.rate * width)};
  };
  for (std::size_t r = 0; r < world.ranks.size(); ++r) {
    program::Rank& rank = world.ranks[r];
    const auto slot = static_cast<int>(r);
    const auto row = static_cast<std::size_t>(rows[r]);
    const auto at = static_cast<std::size_t>(topology.node_of(slot));
    while (nodes.size() <= at) {
      Shared n{resource(prices.dram()),
               drives ? resource(node.nvme_read.count()) : program::ResourceId{},
               {}};
      for (int s = 0; s < node.pcie_switches; ++s) {
        n.switches.push_back(switch_links(links[row], *devices[row]));
      }
      nodes.push_back(std::move(n));
    }
    const Shared& shared = nodes[at];
    rank.copy_shape = program::ShapeId::at(first_shape + row);
    rank.first_usage = static_cast<std::uint32_t>(world.usages.size());
    const auto use = [&](program::ResourceId id, HostResource kind) {
      world.usages.push_back({id, kind, 1});
    };
    use(resource(links[row].to_device.rate), kToDevice);
    use(resource(links[row].to_host.rate), kToHost);
    if (!shared.switches.empty()) {
      const auto& [down, up] = shared.switches[static_cast<std::size_t>(
          (slot % node.gpus) * node.pcie_switches / node.gpus)];
      use(down, kToDevice);
      use(up, kToHost);
    }
    use(shared.memory, kDram);
    if (drives) {
      use(shared.drives, kNvme);
    }
    rank.usages = static_cast<std::uint32_t>(world.usages.size()) - rank.first_usage;
  }
  return {{"CPU Adam", "datasheet", kHostResidual, {}}, {"NVMe", "datasheet", kHostResidual, {}}};
}

}  // namespace stepcast::lower
