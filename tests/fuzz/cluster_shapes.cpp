// Tests the same code as cluster_yaml, but the bytes choose keys and values of a description that
// is mostly well formed, so that the topology is reached more often than the parser's errors. If a
// condition fails, the text is left in the scratch file; it is then kept as YAML among the
// regressions of cluster_yaml.
#include <fmt/format.h>

#include <array>
#include <span>

#include "ask_topology.h"
#include "stepcast/input/input.h"

using namespace stepcast;

namespace {

class Draw {
 public:
  explicit Draw(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::uint8_t next() {
    if (bytes_.empty()) {
      return 0;
    }
    const std::uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  // Chooses mostly small numbers, powers of two, other numbers, and numbers near `most`.
  std::int64_t count(std::int64_t most) {
    const std::uint8_t how = next();
    if (how < 96) {
      return how % 33;
    }
    if (how < 250) {
      std::int64_t wide = 0;
      for (int i = 0; i < 3; ++i) {
        wide = wide << 8 | next();
      }
      // Huge numbers are rare because they take long.
      const int shift = how < 240 ? 12 + how % 12 : how % 8;
      return how < 128 ? std::min<std::int64_t>(most, std::int64_t{1} << (how % 12))
                       : (wide >> shift) % (most + 1);
    }
    return most + how - 253;
  }
  std::string_view choice(std::span<const std::string_view> words) {
    return words[next() % words.size()];
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

enum class Kind { count, share, ratio, boolean, rate, latency, words };

struct Key {
  const char* name;
  Kind kind;
  std::int64_t most = 0;  // count
  std::span<const std::string_view> words = {};
};

constexpr std::array<std::string_view, 3> kIntra{"nvswitch", "nvlink_mesh", "pcie"};
constexpr std::array<std::string_view, 6> kFabrics{"rail_optimized", "fat_tree",  "nvl72",
                                                   "none",           "dragonfly", "torus"};
constexpr std::array<std::string_view, 2> kRouting{"adaptive", "ecmp"};
constexpr std::array<std::string_view, 8> kDevices{"h100-sxm",    "v100-sxm2-16", "rtx4090", "l40s",
                                                   "a100-sxm-80", "gb200",        "mi300x",  "h20"};
constexpr std::array<std::string_view, 6> kNodes{"dgx-h100",    "dgx-1-v100",       "dgx-2",
                                                 "pcie-server", "gb200-nvl72-tray", "polaris"};
constexpr std::array<std::string_view, 5> kNetworks{"ib-ndr-rail", "ethernet-fat-tree", "nvl72",
                                                    "slingshot", "none"};
constexpr std::array<std::string_view, 12> kTargets{
    "node{}/nic{}", "node{}/gpu{}", "node{}/gpu{}-gpu0", "leaf{}",
    "leaf{}/up",    "pod{}/up",     "spine{}",           "rail{}",
    "node0/nic{}",  "node0/gpu{}",  "node{}/gpu1-gpu{}", "leaf0"};

const Key kNodeKeys[] = {{"gpus", Kind::count, 1024},
                         {"intra", Kind::words, 0, kIntra},
                         {"nvls", Kind::boolean},
                         {"nics", Kind::count, 1024},
                         {"nic", Kind::rate},
                         {"nic_latency", Kind::latency},
                         {"sockets", Kind::count, 64},
                         {"pcie_switches", Kind::count, 1024},
                         {"pcie_uplink", Kind::rate},
                         {"inter_socket", Kind::rate},
                         {"peer_to_peer", Kind::boolean}};
const Key kFabricKeys[] = {{"kind", Kind::words, 0, kFabrics},
                           {"oversubscription", Kind::ratio},
                           {"nodes_per_leaf", Kind::count, 10'000'000},
                           {"segment", Kind::count, 100'000},
                           {"nodes_per_pod", Kind::count, 10'000'000},
                           {"core_oversubscription", Kind::ratio},
                           {"spines", Kind::count, 4096},
                           {"uplinks_per_leaf", Kind::count, 65'536},
                           {"flows_per_nic", Kind::count, 1024},
                           {"torus_block", Kind::count, 1024},
                           {"nvlink_domain_gpus", Kind::count, 100'000},
                           {"efficiency", Kind::share},
                           {"routing", Kind::words, 0, kRouting},
                           {"sharp", Kind::boolean},
                           {"pxn", Kind::boolean}};

std::string value(Draw& bytes, const Key& key) {
  switch (key.kind) {
    case Kind::count:
      return fmt::format("{}", bytes.count(key.most));
    case Kind::share:
      return fmt::format("{}", (bytes.next() + 1) / 256.0);
    case Kind::ratio:
      return fmt::format("{}", bytes.next() / 32.0);
    case Kind::boolean:
      return bytes.next() % 2 == 0 ? "true" : "false";
    case Kind::rate:
      return fmt::format("{} Gb/s", bytes.count(1'000'000));
    case Kind::latency:
      return fmt::format("{} ns", bytes.count(1'000'000'000));
    case Kind::words:
      return std::string(bytes.choice(key.words));
  }
  return "";
}

void section(std::string& out, Draw& bytes, const char* name, std::string_view use,
             std::span<const Key> keys) {
  out += fmt::format("{}:\n  use: {}\n", name, use);
  std::uint32_t chosen = bytes.next();
  chosen |= static_cast<std::uint32_t>(bytes.next()) << 8;
  for (const Key& key : keys) {
    if ((chosen & 1) != 0) {
      out += fmt::format("  {}: {}\n", key.name, value(bytes, key));
    }
    chosen >>= 1;
  }
}

std::string describe(std::span<const std::uint8_t> data) {
  Draw bytes(data);
  std::string out = fmt::format("name: fuzz\ndevice: {}\n", bytes.choice(kDevices));
  out += fmt::format("nodes: {}\n", bytes.count(4'000'000));
  if (const std::uint8_t gpus = bytes.next(); gpus % 4 == 3) {
    out += fmt::format("gpus_per_node: {}\n", bytes.count(1024));
  }
  section(out, bytes, "node", bytes.choice(kNodes), kNodeKeys);
  if (const int links = bytes.next() % 8; links > 4) {
    out += "  nvlink_links: [";
    for (int i = 0; i < 3 * links; ++i) {
      out +=
          fmt::format("[{}, {}, {}], ", bytes.next() % 16, bytes.next() % 16, 1 + bytes.next() % 4);
    }
    out += "]\n";
  }
  section(out, bytes, "fabric", bytes.choice(kNetworks), kFabricKeys);
  if (const int dimensions = bytes.next() % 8; dimensions > 4) {
    out += "  torus: [";
    for (int i = 4; i < dimensions; ++i) {
      out += fmt::format("{}, ", bytes.count(100'000));
    }
    out += "]\n";
  }
  const int overrides = bytes.next() % 4;
  out += overrides > 0 ? "overrides:\n" : "";
  for (int i = 0; i < overrides; ++i) {
    out += fmt::format("  - {{first: {}, count: {}, device: {}}}\n", bytes.count(1'000'000),
                       bytes.count(1'000'000), bytes.choice(kDevices));
  }
  const int faults = bytes.next() % 6;
  out += faults > 0 ? "faults:\n" : "";
  for (int i = 0; i < faults; ++i) {
    const auto target =
        fmt::format(fmt::runtime(bytes.choice(kTargets)), bytes.count(2000), bytes.count(16));
    out += bytes.next() % 3 == 0 ? fmt::format("  - {{link: {}, state: down}}\n", target)
                                 : fmt::format("  - {{link: {}, bandwidth: {}}}\n", target,
                                               (bytes.next() + 1) / 256.0);
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    const std::string file = fuzz::file_with(describe({data, size}), ".yaml");
    const input::Network network = input::network(file, 0);
    const auto built = cluster::Topology::build(network.cluster);
    if (const auto* topology = std::get_if<cluster::Topology>(&built)) {
      fuzz::ask(*topology);
    } else {
      fuzz::last_refusal() = std::get<Infeasible>(built).reason;
    }
  });
  return 0;
}
