#include "launcher.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <thread>

#include "stepcast/base/threads.h"
#include "stepcast/search/world.h"

namespace stepcast::search {
namespace {

int number_of(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

// The variables of Open MPI; of MPICH and Intel MPI; of MVAPICH2; of PMIx under Slurm.
constexpr const char* kSizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};

}  // namespace

int launched_size() {
  for (const char* size : kSizes) {
    if (std::getenv(size) != nullptr) {
      return std::max(1, number_of(size, 1));
    }
  }
  return std::getenv("PMIX_RANK") == nullptr ? 1
                                             : std::max(1, number_of("SLURM_STEP_NUM_TASKS", 1));
}

bool launched() {
  return std::getenv("PMIX_RANK") != nullptr ||
         std::any_of(std::begin(kSizes), std::end(kSizes),
                     [](const char* size) { return std::getenv(size) != nullptr; });
}

int launched_rank() {
  for (const char* rank :
       {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "PMIX_RANK"}) {
    if (std::getenv(rank) != nullptr) {
      return launched_size() > 1 ? number_of(rank, 0) : 0;
    }
  }
  return 0;
}

int threads_of(int asked, const World* world) {
  if (asked > 0) {
    return std::min(asked, most_useful_threads());
  }
  const int host = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  cpu_set_t mine;
  const int own = ::sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : host;
  return std::max(1, std::min(own, host / (world == nullptr ? 1 : world->local_size())));
}

}  // namespace stepcast::search
