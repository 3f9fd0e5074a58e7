// simulate --watch: runs again whenever a file that the run read has changed.
#pragma once

#include <functional>

namespace stepcast::cli {

// Runs `run` in a process of its own, prints its faults, waits until one of the files that it
// opened has changed, and begins again, until SIGINT or SIGTERM. Returns the exit status: that of
// the first run where no file of it can change (a job that does not exist), else done.
int watch(const std::function<int()>& run);

}  // namespace stepcast::cli
