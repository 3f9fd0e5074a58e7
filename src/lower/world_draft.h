// A world on its way: what build_world() (world.cpp) passes from step to step, each in a file of
// its own: programs, ranks and communicators, channels, resources, prices, memory outside the
// allocator, curves.
#pragma once

#include <string>
#include <vector>

#include "kinds.h"
#include "stage.h"
#include "stepcast/lower/lower.h"

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

// A shape of communicators or paths, which have prices in common.
struct DraftShape {
  Role role;  // kRoles: a path
  cluster::GroupShape group;
  cluster::Path path;
  cost::PeerGroup peers;  // of a path
  bool copies = false;    // by copy engines: products in chunks (passes_tensor_chunks.cpp)
  std::vector<cost::Algorithm> algorithms = {};  // by price
  std::vector<bool> tokens = {};                 // likewise: by a dispatcher's own kernels
};

// Ranks of a communicator, and what their messages cross.
struct DraftGroup {
  std::size_t first;  // into WorldDraft::members
  std::size_t count;
  bool crosses;  // leaves the NVLink domain
  int leaves;    // of one domain, whose bytes meet in the core; 0: stays in its pod
  bool over_switches;
  bool over_sockets;
};

struct WorldDraft {
  WorldDraft(const strategy::Plan& of, const cluster::Topology& on, const Prices& at_prices,
             const Options& with)
      : plan(of),
        topology(on),
        prices(at_prices),
        options(with),
        kinds(of, on),
        users(on.resources().size()),
        blends(kBlendBase) {}

  // Blends are numbered from here until the curve table is complete.
  static constexpr program::CurveId kBlendBase = 0x8000;

  const strategy::Plan& plan;
  const cluster::Topology& topology;
  const Prices& prices;
  const Options& options;
  Kinds kinds;
  program::World world = {};
  Labels labels = {};
  PriceBook book = {};
  Users users;
  Blends blends;
  std::vector<cluster::Coordinates> at = {};  // of each rank
  std::vector<DraftShape> shapes = {};
  std::vector<DraftGroup> groups = {};                   // by communicator
  std::vector<int> members = {};                         // of all groups
  std::vector<std::vector<int>> channel_resources = {};  // by channel
};

// In the order in which build_world() calls them.
// One program a stage and kind of rank, and slowdowns of their kernels.
void make_programs(WorldDraft& w);
void make_ranks(WorldDraft& w);
void make_groups(WorldDraft& w);
void make_channels(WorldDraft& w);
// The topology's resources that several may use at one time, and who uses them.
void make_resources(WorldDraft& w);
void price_shapes(WorldDraft& w);
// What lies beyond the GPUs; returns the curves of CPUs and drives.
std::vector<program::Curve> add_host_side(WorldDraft& w);
void weigh_outside(WorldDraft& w);
// Curves of kernels and collectives, then those of the host, then blends.
void make_curves(WorldDraft& w, const std::vector<program::Curve>& host_curves);

// Number of a shape, made where it is new.
program::ShapeId shape_id(WorldDraft& w, Role role, const cluster::GroupShape& shape);
program::ShapeId path_shape(WorldDraft& w, const cluster::Path& path, const cost::PeerGroup& of,
                            bool copies = false);
// Streams on which a role's collectives move bytes (StreamClass).
int stream_class(const WorldDraft& w, Role role);

}  // namespace stepcast::lower
