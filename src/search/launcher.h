// Reads the environment that a launcher such as mpirun sets.
#pragma once

namespace stepcast::search {

// Number of processes that were launched together; 1 without a launcher.
int launched_size();

}  // namespace stepcast::search
