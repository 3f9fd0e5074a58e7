// NVLink meshes whose links are listed one by one, and the rings that a group finds in them.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "stepcast/job/job.h"

namespace stepcast::cluster {

inline constexpr int kMaxMeshGpus = 16;

// The links among `gpus` GPUs: links[a * gpus + b] between a and b, each with rate[a * gpus + b]
// bytes/s per direction.
struct MeshLinks {
  int gpus = 0;
  std::vector<int> links;
  std::vector<double> rate;

  int at(int a, int b) const { return a * gpus + b; }
  bool linked(int a, int b) const { return links[at(a, b)] > 0 && rate[at(a, b)] > 0; }
  // Bytes/s between two GPUs.
  double between(int a, int b) const { return links[at(a, b)] * rate[at(a, b)]; }
};

// The rate of a link follows from the NVLink generation, or else from a GPU's whole rate divided by
// the largest number of links of any GPU. Links of GPUs beyond the first `gpus` count for that
// number, but are left out of the result.
MeshLinks mesh_links(const job::Node& node, const job::Device& device, int gpus);

// Number of GPUs of one connected component, if all components are equally long runs of consecutive
// GPUs; else all GPUs.
int mesh_domain(const MeshLinks& mesh);

// The largest number of directed rings through all `members` that the links can carry, times the
// rate of a ring: bytes/s that enter and leave each member. 0: no ring passes all of them. As in
// NCCL's search, all rings have one rate; the best of the links' own rates is taken. The search is
// exact up to a limit of steps. COST: members! in the worst case, milliseconds for 8.
double ring_rate(const MeshLinks& mesh, std::span<const int> members);

}  // namespace stepcast::cluster
