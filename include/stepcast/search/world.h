// The processes that search together when mpirun starts several.
#pragma once

#include <filesystem>

#include "stepcast/search/search.h"

namespace stepcast::search {

// The rank that the launcher's environment variables give this process; 0 without a launcher.
int launched_rank();

// Whether a launcher started this process. Open MPI's launcher connects standard output to a terminal of its own, which is
// not the user's.
bool launched();

// Initialises MPI where a launcher started this process and finalises it at the end, when rank 0 also releases the other
// ranks. At most one exists in a process at a time. Without a launcher, or in a build without MPI, the world has one
// process.
class World {
 public:
  World();
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Number of the world's processes on this host.
  int local_size() const { return local_size_; }
  // Whether a launcher started several processes, but this build lacks MPI and cannot reach the others.
  bool without_mpi() const { return without_mpi_; }

 private:
  int rank_ = 0;
  int size_ = 1;
  int local_size_ = 1;
  bool joined_ = false;
  bool without_mpi_ = false;
};

// The number of threads that was asked for, as far as they are of use. 0: one for each CPU that this process may use, its
// share of the host's where several processes run there. `world` may be null.
int threads_of(int asked, const World* world);

// What every rank above 0 does: it evaluates the candidates that rank 0 hands out until the search ends. `loader` must load
// the same job as rank 0's. `threads`: 0 for the process's share of the host's CPUs. Unfinished evaluations run on until the
// process ends.
void follow(World& world, int threads, const JobLoader& loader, const std::filesystem::path& data_directory);

}  // namespace stepcast::search
