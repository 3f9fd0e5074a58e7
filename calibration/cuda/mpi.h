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
  int node = 0, nodes = 1;             // in the order of their first ranks
  int local_rank = 0, local_size = 1;  // among the processes of this node
};
const World& world();

// The GPU part of a process.
struct Local {
  std::function<int()> count;  // visible GPUs; 0: none, or no driver
  std::function<std::unique_ptr<Device>(int gpu)> open;
  std::function<void()> close;  // communicators, before MPI ends
};
Local local_gpus(std::function<std::unique_ptr<Device>(int gpu)> open_local);  // mpi_local.cpp

int in_world(int& argc, char**& argv, const Local& local, const std::function<int()>& lead);

// The same device where this process is alone; else every process opens its GPUs (NoDevice names
// the rank that has none), and run() of a case of several ranks is run by all of them.
std::unique_ptr<Device> share(std::unique_ptr<Device> device);

// GPUs that the processes of each node bring; one entry, the visible ones, for a process alone.
std::vector<int> gpus_per_node();

// ---- for collective.cpp and overlap.cpp

struct Member {  // a process
  int node = 0;
  int gpus = 0;
};
struct Seat {  // a rank of a collective
  int process = 0;
  int gpu = 0;  // of the process's own, from 0
};
// The first ranks / nodes GPUs of the first `nodes` nodes, node by node. Throws Unsupported where
// there are none.
std::vector<Seat> seats(const std::vector<Member>& processes, int ranks, int nodes);
const std::vector<Member>& members();
// Indices of the visible GPUs that this process uses: all, or one where several processes share a
// node. Throws NoDevice.
std::vector<int> own_gpus(const World& world, int visible);

// The processes that take part in one case. A process alone: nothing to wait for.
class Party {
 public:
  // Collective over all processes. `in`: this one takes part; else only destroy it.
  explicit Party(bool in);
  Party();  // this process alone
  ~Party();
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;
  void barrier() const;
  void maximum(std::vector<double>& values) const;      // element by element
  void broadcast(void* data, std::size_t bytes) const;  // from the first
  // Empty: fine here. Throws Unsupported with the text of the first process that refused.
  void agree(const std::string& refusal) const;

 private:
  struct Group;
  std::unique_ptr<Group> group_;
};

// The case and its policy as text and back: what rank 0 sends.
struct Order {
  interop::GpuCase what;
  Policy policy;
};
bool of_all(const interop::GpuCase& what);  // a case that every process must run
std::string to_text(const Order& order);    // of a case of_all
Order order_of(const std::string& text);

}  // namespace stepcast::harness::cuda
