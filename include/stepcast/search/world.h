// Processes that search together, as mpirun starts them.
#pragma once

#include <filesystem>

#include "stepcast/search/search.h"

namespace stepcast::search {

// The rank that a launcher's environment gives this process; 0 where there is none.
int launched_rank();

// Whether a launcher started this process. Open MPI's gives it a terminal of its own for standard output, which is not the
// user's.
bool launched();

// Joins MPI where a launcher started this process, and leaves it at the end; rank 0 then lets the others go. One at a time
// in a process. Without a launcher, or in a build without MPI, it is a world of one.
class World {
 public:
  World();
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Of those on this host, how many started here.
  int local_size() const { return local_size_; }
  // Started beside others that this build cannot talk to.
  bool without_mpi() const { return without_mpi_; }

 private:
  int rank_ = 0;
  int size_ = 1;
  int local_size_ = 1;
  bool joined_ = false;
  bool without_mpi_ = false;
};

// CPUs that this process may use for itself: its share of the host's where others were started beside it. null: alone.
int threads_of(const World* world);

// What every rank above 0 does: evaluates what rank 0 hands out, until that ends. `loader` must load rank 0's job.
// `threads`: 0: its share of the host's CPUs. What is unfinished at the end runs on until the process ends.
void follow(World& world, int threads, const JobLoader& loader, const std::filesystem::path& data_directory);

}  // namespace stepcast::search
