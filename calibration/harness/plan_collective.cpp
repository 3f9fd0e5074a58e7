// Collectives over the GPUs of this node and, under MPI, of all; kernels beside them and beside
// copies. A communicator takes about a second to make, so cases of one follow each other.
#include <algorithm>
#include <array>
#include <set>

#include "harness/nccl_table.h"
#include "harness/plan.h"

namespace stepcast::harness {
namespace {

using interop::CollectiveCase;
using interop::OverlapCase;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kLargest = 8LL * 1024 * kMiB;
constexpr std::array kOps = {"all_reduce", "all_gather", "reduce_scatter",
                             "alltoall",   "broadcast",  "sendrecv"};

struct Group {
  int ranks = 1, nodes = 1;
};

// Largest first: N, then powers of two; then nodes.
std::vector<Group> groups_of(const Abilities& on) {
  std::vector<Group> groups;
  std::set<int> ranks;
  for (int r = 2; r <= on.gpus; r *= 2) {
    ranks.insert(r);
  }
  if (on.gpus > 1) {
    ranks.insert(on.gpus);
  }
  std::set<int> nodes;
  for (int n = 2; n <= on.nodes; n *= 2) {
    nodes.insert(n);
  }
  if (on.nodes > 1) {
    nodes.insert(on.nodes);
  }
  for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
    groups.push_back({*n * on.gpus, *n});
  }
  for (auto r = ranks.rbegin(); r != ranks.rend(); ++r) {
    groups.push_back({*r, 1});
  }
  if (on.gpus > 1) {
    for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
      groups.push_back({*n, *n});  // one GPU of each node: its share of a NIC
    }
  }
  return groups;
}

void add(std::vector<interop::GpuCase>& cases, const char* op, std::int64_t bytes, Group group,
         const char* algo = "", const char* proto = "") {
  CollectiveCase c;
  c.op = op;
  c.bytes = whole_size(op, bytes, group.ranks);
  c.ranks = group.ranks;
  c.nodes = group.nodes;
  c.algo = algo;
  c.proto = proto;
  if (c.bytes > 0 && counts_of(c)) {
    cases.emplace_back(c);
  }
}

void sizes(std::vector<interop::GpuCase>& cases, Group group, std::int64_t from,
           std::int64_t factor) {
  for (std::int64_t bytes = from; bytes <= kLargest; bytes *= factor) {
    for (const char* op : kOps) {
      add(cases, op, bytes, group);
    }
  }
}

struct Forced {
  const char* op;
  const char* algo;
};

void beside(std::vector<interop::GpuCase>& cases, OverlapCase c) {
  c.kernel = "gemm";
  c.m = c.n = c.k = 8192;
  cases.emplace_back(c);
  c.m = c.n = c.k = 0;
  for (const char* kernel : {"norm", "add", "optimizer"}) {
    c.kernel = kernel;
    c.bytes = 1024 * kMiB;
    cases.emplace_back(c);
  }
}

}  // namespace

std::vector<Strand> collective_strands(const Abilities& on, bool collectives, bool overlaps) {
  Strand strand{.share = on.gpus * on.nodes > 1 ? 15.0 : 1.0, .cases = {}};
  const std::vector<Group> groups = groups_of(on);
  if (groups.empty()) {
    for (const std::int64_t bytes : {std::int64_t{8}, kMiB}) {
      for (const char* op : kOps) {
        if (collectives) {
          add(strand.cases, op, bytes, {1, 1});  // what a call costs
        }
      }
    }
    return {strand};
  }
  if (collectives) {
    for (const Group group : groups) {
      sizes(strand.cases, group, 8, 16);
      sizes(strand.cases, group, 32, 16);
    }
  }
  if (overlaps) {
    for (const int channels : {0, 16, 4, 8, 32}) {
      for (const char* op : {"all_reduce", "all_gather", "reduce_scatter"}) {
        OverlapCase c;
        c.op = op;
        c.other_bytes = whole_size(op, 256 * kMiB, groups.front().ranks);
        c.ranks = groups.front().ranks;
        c.channels = channels;
        beside(strand.cases, c);
      }
    }
  }
  if (collectives) {
    constexpr std::array<Forced, 8> kForced = {{{"all_reduce", "Ring"},
                                                {"all_gather", "Ring"},
                                                {"reduce_scatter", "Ring"},
                                                {"broadcast", "Ring"},
                                                {"all_reduce", "Tree"},
                                                {"all_reduce", "NVLS"},
                                                {"all_gather", "NVLS"},
                                                {"reduce_scatter", "NVLS"}}};
    for (const char* algo : {"Ring", "Tree", "NVLS"}) {
      for (const char* proto : {"LL", "LL128", "Simple"}) {
        const bool nvls = std::string_view(algo) == "NVLS";
        if (nvls &&
            (on.amd || on.compute_capability < 9.0 || std::string_view(proto) != "Simple")) {
          continue;
        }
        for (std::int64_t bytes = 1024; bytes <= 1024 * kMiB; bytes *= 16) {
          for (const Forced& forced : kForced) {
            if (std::string_view(forced.algo) == algo) {
              add(strand.cases, forced.op, bytes, groups.front(), algo, proto);
            }
          }
        }
      }
    }
    for (const Group group : groups) {
      sizes(strand.cases, group, 8, 2);  // every power of two that is not above
    }
  }
  return {strand};
}

std::vector<Strand> overlap_strands() {
  Strand strand{.share = 3, .cases = {}};
  for (const char* direction : {"h2d", "d2h"}) {
    OverlapCase c;
    c.direction = direction;
    c.other_bytes = 64 * kMiB;
    beside(strand.cases, c);
  }
  return {strand};
}

}  // namespace stepcast::harness
