// A lattice on its way: what make_lattice() (lattice.cpp) passes from step to step, each in a file
// of its own: communicators, channels, resources.
#pragma once

#include <vector>

#include "lattice.h"

namespace stepcast::lower {

// Streams that may move bytes at the same time: compute (with what it waits for), data, messages
// down and up the pipeline, context, expert and tensor exchanges beside compute.
enum StreamClass { kInLine, kBeside, kDown, kUp, kRound, kExperts, kChunks, kStreamClasses };

// Who may move bytes through a resource at the same time: (rank, stream class). One user alone
// cannot make it bind.
class Users {
 public:
  explicit Users(std::size_t resources)
      : first_(resources, program::kNone), several_(resources, 0) {}
  void add(int resource, int rank, int stream_class) {
    if (resource < 0) {
      return;
    }
    const auto key = static_cast<std::uint32_t>(rank * kStreamClasses + stream_class);
    if (first_[resource] == program::kNone) {
      first_[resource] = key;
    } else if (first_[resource] != key) {
      several_[resource] = 1;
    }
  }
  bool can_bind(int resource) const { return several_[resource] != 0; }

 private:
  std::vector<std::uint32_t> first_;
  std::vector<char> several_;
};

// Ranks of a communicator, and what their messages cross.
struct DraftGroup {
  std::size_t first;  // into LatticeDraft::members
  std::size_t count;
  bool crosses;  // leaves the NVLink domain
  int leaves;    // of one domain, whose bytes meet in the core; 0: stays in its pod
  bool over_switches;
  bool over_sockets;
};

struct LatticeDraft {
  LatticeDraft(const RankLayout& of, const cluster::Topology& on)
      : layout(of), topology(on), users(on.resources().size()) {}

  const RankLayout& layout;
  const cluster::Topology& topology;
  Users users;
  Lattice out = {};
  std::vector<DraftGroup> groups = {};                   // by communicator
  std::vector<int> members = {};                         // of all groups
  std::vector<std::vector<int>> channel_resources = {};  // by channel
};

// In the order in which make_lattice() calls them.
void make_groups(LatticeDraft& w);
void make_channels(LatticeDraft& w);
// The topology's resources that several may use at one time, and who uses them.
void make_resources(LatticeDraft& w);

}  // namespace stepcast::lower
