// NVLink meshes whose links are listed one by one, and the rings that a group finds in them.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "stepcast/job/job.h"

namespace stepcast::cluster {

inline constexpr int kMostMeshGpus = 16;

// Links that join `gpus` GPUs: links[a * gpus + b] of them between a and b, each of `rate[...]`
// bytes/s and direction.
struct MeshLinks {
  int gpus = 0;
  std::vector<int> links;
  std::vector<double> rate;

  int at(int a, int b) const { return a * gpus + b; }
  bool linked(int a, int b) const { return links[at(a, b)] > 0 && rate[at(a, b)] > 0; }
  // Bytes/s between two GPUs.
  double between(int a, int b) const { return links[at(a, b)] * rate[at(a, b)]; }
};

// One link's rate: by NVLink generation, or a GPU's whole rate over its most links. Links that are
// stated for GPUs beyond the first `gpus` count towards that, but are left out.
MeshLinks mesh_links(const job::Node& node, const job::Device& device, int gpus);

// GPUs of one connected part, if all parts are runs of equally many neighbours; else all.
int mesh_domain(const MeshLinks& mesh);

// Most directed rings through all `members` such that no link is used more often than there are
// links of at least the rate, times that rate: bytes/s that enter and leave each member. 0: no ring
// goes through them. As NCCL's search does, all rings have one rate; the best of the links' own
// rates is taken. Exact up to a limit of steps; COST: members! in the worst case, milliseconds
// for 8.
double ring_rate(const MeshLinks& mesh, std::span<const int> members);

}  // namespace stepcast::cluster
