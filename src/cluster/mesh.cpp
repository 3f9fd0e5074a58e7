// LAW: a directed pair of GPUs has floor(links * rate / t) units for rings of rate t, and a ring
// uses one unit of each pair that it passes. A group has at most as many rings as units cross any
// cut of it, so the search ends when it reaches the narrowest cut.
#include "mesh.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

namespace stepcast::cluster {
namespace {

// Rate of one link per direction, by generation (NVIDIA data sheets: 80 GB/s over 4 links, 150 over
// 6, 300 over 12, 450 and 900 over 18).
double link_rate(int generation) {
  constexpr std::array kRates = {0.0, 20e9, 25e9, 25e9, 25e9, 50e9};
  return generation > 0 && generation < static_cast<int>(kRates.size())
             ? kRates[static_cast<std::size_t>(generation)]
             : 0;
}

constexpr std::size_t kMaxRates = 8;  // rates of links that are tried as the rings' rate
constexpr double kMaxUnits = 256;     // units between two GPUs

using Ring = std::array<int, kMaxMeshGpus>;

class Search {
 public:
  Search(int n, std::vector<int> units) : n_(n), units_(std::move(units)) {}

  int most() {
    bound_ = narrowest_cut();
    if (bound_ == 0) {
      return 0;
    }
    Ring ring{};
    enumerate(ring, 1, 1U);
    pack(0, 0);
    return best_;
  }

 private:
  int& unit(int a, int b) { return units_[std::size_t(a) * n_ + b]; }

  // The least number of units over all partitions of the members in two; by symmetry member 0 stays
  // on the first side.
  int narrowest_cut() {
    int least = std::numeric_limits<int>::max();
    for (std::uint32_t side = 1; side + 1 < (1U << n_); side += 2) {
      int out = 0;
      for (int a = 0; a < n_; ++a) {
        for (int b = 0; b < n_; ++b) {
          out += (side >> a & 1U) != 0 && (side >> b & 1U) == 0 ? unit(a, b) : 0;
        }
      }
      least = std::min(least, out);
    }
    return least;
  }

  void enumerate(Ring& ring, int length, std::uint32_t seen) {
    if (rings_.size() >= kMaxRings) {
      return;
    }
    const int last = ring[static_cast<std::size_t>(length - 1)];
    if (length == n_) {
      if (unit(last, ring[0]) > 0) {
        rings_.push_back(ring);
      }
      return;
    }
    for (int next = 1; next < n_; ++next) {
      if ((seen >> next & 1U) == 0 && unit(last, next) > 0) {
        ring[static_cast<std::size_t>(length)] = next;
        enumerate(ring, length + 1, seen | 1U << next);
      }
    }
  }

  bool fits(const Ring& ring) {
    for (int i = 0; i < n_; ++i) {
      if (unit(ring[static_cast<std::size_t>(i)], ring[static_cast<std::size_t>((i + 1) % n_)]) <=
          0) {
        return false;
      }
    }
    return true;
  }
  void use(const Ring& ring, int by) {
    for (int i = 0; i < n_; ++i) {
      unit(ring[static_cast<std::size_t>(i)], ring[static_cast<std::size_t>((i + 1) % n_)]) -= by;
    }
  }
  // The least number of unused units that leave any one member.
  int left() {
    int least = std::numeric_limits<int>::max();
    for (int a = 0; a < n_; ++a) {
      int out = 0;
      for (int b = 0; b < n_; ++b) {
        out += unit(a, b);
      }
      least = std::min(least, out);
    }
    return least;
  }

  void pack(std::size_t from, int have) {
    best_ = std::max(best_, have);
    for (std::size_t i = from; i < rings_.size() && best_ < bound_; ++i) {
      if (--steps_ < 0 || have + left() <= best_) {
        return;
      }
      if (fits(rings_[i])) {
        use(rings_[i], 1);
        pack(i, have + 1);
        use(rings_[i], -1);
      }
    }
  }

  static constexpr std::size_t kMaxRings = 20'000;
  int n_;
  std::vector<int> units_;  // unused units of each directed pair
  std::vector<Ring> rings_;
  int bound_ = 0;
  int best_ = 0;
  int steps_ = 300'000;  // rings tried: a tenth of a second for 16 GPUs
};

}  // namespace

MeshLinks mesh_links(const job::Node& node, const job::Device& device, int gpus) {
  MeshLinks mesh;
  mesh.gpus = gpus;
  mesh.links.assign(static_cast<std::size_t>(gpus) * static_cast<std::size_t>(gpus), 0);
  std::map<int, int> degree;
  for (const auto& edge : node.nvlink_links) {
    degree[edge.a] += edge.links;
    degree[edge.b] += edge.links;
    if (edge.a < gpus && edge.b < gpus) {
      mesh.links[static_cast<std::size_t>(mesh.at(edge.a, edge.b))] += edge.links;
      mesh.links[static_cast<std::size_t>(mesh.at(edge.b, edge.a))] += edge.links;
    }
  }
  int most = 1;
  for (const auto& [gpu, links] : degree) {
    most = std::max(most, links);
  }
  const double even = device.nvlink.count() / most;
  const double known = link_rate(device.nvlink_generation);
  mesh.rate.assign(mesh.links.size(), known > 0 ? std::min(known, even) : even);
  return mesh;
}

int mesh_domain(const MeshLinks& mesh) {
  std::vector<int> part(static_cast<std::size_t>(mesh.gpus));
  std::iota(part.begin(), part.end(), 0);
  for (int round = 0; round < mesh.gpus; ++round) {
    for (int a = 0; a < mesh.gpus; ++a) {
      for (int b = 0; b < mesh.gpus; ++b) {
        if (mesh.links[static_cast<std::size_t>(mesh.at(a, b))] > 0) {
          part[static_cast<std::size_t>(a)] = part[static_cast<std::size_t>(b)] =
              std::min(part[static_cast<std::size_t>(a)], part[static_cast<std::size_t>(b)]);
        }
      }
    }
  }
  const int size = std::max(1, static_cast<int>(std::count(part.begin(), part.end(), 0)));
  for (int gpu = 0; gpu < mesh.gpus; ++gpu) {
    if (part[static_cast<std::size_t>(gpu)] != gpu / size * size) {
      return mesh.gpus;
    }
  }
  return mesh.gpus % size == 0 ? size : mesh.gpus;
}

double ring_rate(const MeshLinks& mesh, std::span<const int> members) {
  const int n = static_cast<int>(members.size());
  if (n < 2 || n > kMaxMeshGpus) {
    return 0;
  }
  std::vector<double> rates;
  for (const int a : members) {
    for (const int b : members) {
      if (a != b && mesh.linked(a, b)) {
        rates.push_back(mesh.rate[static_cast<std::size_t>(mesh.at(a, b))]);
      }
    }
  }
  std::sort(rates.begin(), rates.end());
  rates.erase(std::unique(rates.begin(), rates.end()), rates.end());
  double best = 0;
  const std::size_t skip = rates.size() / kMaxRates + 1;
  for (std::size_t r = 0; r < rates.size(); r += skip) {
    double widest = 0;
    for (const int a : members) {
      for (const int b : members) {
        widest = std::max(widest, a != b ? mesh.between(a, b) : 0);
      }
    }
    // Hundreds of rings between two GPUs come close to a continuous flow, so coarser units are
    // exact enough.
    const double rate = std::max(rates[r], widest / kMaxUnits);
    std::vector<int> units(static_cast<std::size_t>(n) * static_cast<std::size_t>(n), 0);
    for (int i = 0; i < n; ++i) {
      for (int k = 0; k < n; ++k) {
        const int a = members[static_cast<std::size_t>(i)];
        const int b = members[static_cast<std::size_t>(k)];
        if (i != k && mesh.linked(a, b)) {
          units[std::size_t(i) * n + k] = static_cast<int>(mesh.between(a, b) / rate * (1 + 1e-9));
        }
      }
    }
    best = std::max(best, rate * Search(n, std::move(units)).most());
  }
  return best;
}

}  // namespace stepcast::cluster
