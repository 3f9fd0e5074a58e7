#include "nccl_match.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace stepcast::cost {
namespace {

// Relative standard deviation of NCCL's plain model against the healthy logs of all systems of
// calibration/nccl/data: the error to expect for a system without a file. Last lines of
// `fit_collectives calibration --table`.
constexpr double kBlindSmall = 0.78;  // below 1 MiB
constexpr double kBlindLarge = 0.60;

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& n) { return normal_name(n) == normal_name(name); });
}

bool near(double a, double b) { return std::abs(a / b - 1) < 0.05; }

// How well a file describes a cluster; 0: not at all. A domain file applies to its devices, a
// pooled one to its generation (an H800 behaves like an H100 with fewer links) or to all. A
// network file applies to its own nodes, else to its fabric, best at its rate; a pooled one to its
// fabrics or to all. A curve is a share of what the links could do: at another rate of the NICs,
// one of the same devices is nearer than a pooled one. The rate is that of the named node: a job
// that asks what another rate would give is answered from the same file.
int match(const NcclFile& file, const job::Cluster& cluster) {
  const bool device = holds(file.devices, cluster.device.name);
  if (file.scope == Scope::domain) {
    const bool nvlink =
        cluster.node.intra != job::Node::Intra::pcie && cluster.device.nvlink.count() > 0;
    if (file.nvlink != nvlink) {
      return 0;
    }
    if (!file.pooled) {
      return device ? 4 : 0;
    }
    const hardware::Vendor vendor = hardware::vendor_of(cluster.device);
    if (vendor == hardware::Vendor::amd || vendor == hardware::Vendor::google) {
      return 0;  // every log of a kind is one of NCCL
    }
    const int domain = cluster.fabric.nvlink_domain_gpus;
    const bool pairs = nvlink && domain > 0 && domain < cluster.node.gpus;
    if (file.compute_capability <= 0) {
      return 1;
    }
    return file.pairs == pairs && generation(file.compute_capability) ==
                                      generation(cluster.device.compute_capability)
               ? 2
               : 0;
  }
  const bool node = holds(file.nodes, cluster.node.name) || holds(file.nodes, cluster.name);
  const bool fabric = holds(file.fabrics, cluster.fabric.name);
  if (file.pooled) {
    return fabric ? 6 : file.fabrics.empty() ? 1 : 0;
  }
  const bool rate = near(named_nic_port(cluster).count(), file.nic);
  return node     ? 16 + (device ? 2 : 0) + (fabric ? 1 : 0)
         : fabric ? 4 +
                        (rate     ? 4
                         : device ? 3
                                  : 0) +
                        (device ? 1 : 0)
                  : 0;
}

// The files of collectives in a folder that a job names; the folder may hold other YAML.
std::vector<std::filesystem::path> yaml_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() != ".yaml") {
      continue;
    }
    std::ifstream in(it->path(), std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    if (text.str().find("kind: nccl") != std::string::npos) {
      paths.push_back(it->path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Operations whose curves are used, in this order, where a file has none of the operation:
// [op][choice].
constexpr int kRelatives[kOps][4] = {{0, 1, 2, -1},   {1, 2, 0, -1}, {2, 1, 0, -1},
                                     {3, -1, -1, -1}, {4, 5, 1, 0},  {5, 4, 2, 0},
                                     {6, 7, 8, 3},    {7, 6, 8, 3},  {8, 3, -1, -1}};

}  // namespace

Release release_of(const std::string& version) {
  int major = 0;
  int minor = 0;
  if (std::sscanf(version.c_str(), "%d.%d", &major, &minor) != 2) {
    return Release::current;
  }
  const int number = 100 * major + minor;
  return number < 220 ? Release::v2_18 : number < 224 ? Release::v2_23 : Release::current;
}

const char* generation(double compute_capability) {
  return compute_capability >= 10  ? "blackwell"
         : compute_capability >= 9 ? "hopper"
         : compute_capability >= 8 ? "ampere"
         : compute_capability > 0  ? "volta"
                                   : "other";
}

std::string normal_name(std::string name) {
  for (char& c : name) {
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

namespace {

Bandwidth port_of(const job::Node& node, Bandwidth nic) {
  const int ports = std::max(1, std::min(node.nics, node.gpus));
  return Bandwidth(nic.count() * node.nics / ports);
}

}  // namespace

Bandwidth nic_port(const job::Cluster& cluster) { return port_of(cluster.node, cluster.node.nic); }

Bandwidth named_nic_port(const job::Cluster& cluster) {
  const job::Node& node = cluster.node;
  return port_of(node, node.named_nic.count() > 0 ? node.named_nic : node.nic);
}

bool scales_nics(const NcclFile& file, const job::Cluster& cluster) {
  return file.scope == Scope::network && !file.pooled && file.nic > 0 &&
         cluster.node.nic.count() > 0 && !near(nic_port(cluster).count(), file.nic);
}

double socket_port(const NcclFile* file, const job::Node& node) {
  return file == nullptr ? 0 : file->sockets / std::max(1, std::min(node.nics, node.gpus));
}

const NcclFile* match_file(const std::vector<NcclFile>& files, Scope scope,
                           const job::Cluster& cluster, const std::vector<std::string>& only) {
  const NcclFile* best = nullptr;
  int score = -1;
  const auto offer_file = [&](const NcclFile& f, int least) {
    const int m = f.scope == scope ? match(f, cluster) : -1;
    if (m >= least && m > score) {
      score = m;
      best = &f;
    }
  };
  for (const std::string& path : only) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
      for (const auto& file : yaml_in(path)) {
        if (const NcclFile* given = read_nccl_file(file)) {
          offer_file(*given, 0);
        }
      }
      continue;
    }
    if (std::filesystem::is_regular_file(path, error)) {
      if (const NcclFile* given = read_nccl_file(path)) {
        offer_file(*given, 0);
      }
      continue;
    }
    for (const NcclFile& f : files) {
      if (std::filesystem::path(path).filename() == std::filesystem::path(f.file).filename()) {
        offer_file(f, 0);
      }
    }
  }
  if (best == nullptr) {
    for (const NcclFile& f : files) {
      offer_file(f, 1);
    }
  }
  return best == nullptr ? nullptr : &with_fits(*best);
}

const std::vector<SizedFit>* find_fits(const NcclFile* file, int op) {
  for (int i = 0; file != nullptr && i < 4 && kRelatives[op][i] >= 0; ++i) {
    const auto& fits = file->fits[kRelatives[op][i]];
    if (!fits.empty()) {
      return &fits;
    }
  }
  return nullptr;
}

Fit fit_for(const std::vector<SizedFit>* fits, int size) {
  if (fits == nullptr) {
    return {};
  }
  const auto above =
      std::find_if(fits->begin(), fits->end(), [&](const SizedFit& f) { return f.size >= size; });
  if (above == fits->begin()) {
    return above->fit;
  }
  if (above == fits->end()) {
    return fits->back().fit;
  }
  const SizedFit& low = *(above - 1);
  const double w = std::log(static_cast<double>(size) / low.size) /
                   std::log(static_cast<double>(above->size) / low.size);
  return mix(low.fit, above->fit, w);
}

Residuals residuals(const NcclFile* file, const std::vector<SizedFit>* fits) {
  for (int op = 0; file != nullptr && op < kOps; ++op) {
    if (&file->fits[op] == fits) {
      return file->residuals[op];
    }
  }
  return {kBlindSmall, kBlindLarge};
}

}  // namespace stepcast::cost
