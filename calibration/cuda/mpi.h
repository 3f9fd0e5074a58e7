// One process alone, or many under MPI (one for each GPU, or one for each node). No CUDA in here:
// the test of the protocol puts a fake where the GPU part is.
//
// Rank 0 alone reads the command line, plans, writes and decides; the others open their GPUs when
// rank 0 opens its own, take part in cases of several ranks, and end with rank 0's exit status. How
// main uses it:
//
//   int main(int argc, char** argv) {
//     return cuda::in_world(argc, argv, cuda::local_gpus(open_local), [&] {
//       return ...;  // what rank 0 does, its exit status; a process alone does just this
//     });
//   }
//
// and open.cpp, where open_local(gpu) opens a GPU of this process:
//
//   std::unique_ptr<Device> open_device(int gpu) { return cuda::share(open_local(gpu)); }
//
// The plan asks gpus_per_node() after open_device for the ranks and nodes that cases may have.
// `lead` must not call exit(). Built without STEPCAST_HAVE_MPI: one process, the same calls.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../harness/device.h"

namespace stepcast::harness::cuda {

struct World {
  int rank = 0, size = 1;
  int node = 0, nodes = 1;             // numbered in the order of their lowest ranks
  int local_rank = 0, local_size = 1;  // among the processes of this node
};
const World& world();

// The GPU functions of a process.
struct Local {
  std::function<int()> count;  // number of visible GPUs; 0: none, or no driver
  std::function<std::unique_ptr<Device>(int gpu)> open;
  std::function<void()> close;  // closes communicators before MPI ends
};
// Defined in mpi_local.cpp.
Local local_gpus(std::function<std::unique_ptr<Device>(int gpu)> open_local);

int in_world(int& argc, char**& argv, const Local& local, const std::function<int()>& lead);

// Returns the same device if this is the only process. Otherwise every process opens its GPUs
// (NoDevice names the rank that has none), and all of them execute run() for a case of several
// ranks.
std::unique_ptr<Device> share(std::unique_ptr<Device> device);

// Number of GPUs that the processes of each node have; for a single process one entry, its visible
// GPUs.
std::vector<int> gpus_per_node();

// ---- Used by collective.cpp and overlap.cpp.

struct Member {  // a process
  int node = 0;
  int gpus = 0;
};
struct Seat {  // a rank of a collective
  int process = 0;
  int gpu = 0;  // index among the process's own GPUs
};
// Assigns the first ranks / nodes GPUs of each of the first `nodes` nodes, node by node. Throws
// Unsupported if there are not enough.
std::vector<Seat> seats(const std::vector<Member>& processes, int ranks, int nodes);
const std::vector<Member>& members();
// Indices of the visible GPUs that this process uses: all, or one if several processes share a
// node. Throws NoDevice.
std::vector<int> own_gpus(const World& world, int visible);

// The processes that take part in one case. In a single process its functions return at once.
class Party {
 public:
  // All processes must call this. `in`: this process takes part; otherwise it may only destroy the
  // object.
  explicit Party(bool in);
  Party();  // only this process
  ~Party();
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;
  void barrier() const;
  void maximum(std::vector<double>& values) const;      // elementwise
  void broadcast(void* data, std::size_t bytes) const;  // from the first process
  // An empty `refusal` means that the case is possible here. Throws Unsupported with the text of
  // the first process that refused.
  void agree(const std::string& refusal) const;

 private:
  struct Group;
  std::unique_ptr<Group> group_;
};

// A case and its policy, which rank 0 sends as text.
struct Order {
  interop::GpuCase what;
  Policy policy;
};
bool of_all(const interop::GpuCase& what);  // true for a case that every process must run
std::string to_text(const Order& order);    // for a case for which of_all() is true
Order order_of(const std::string& text);

}  // namespace stepcast::harness::cuda
