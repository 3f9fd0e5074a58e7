#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iostream>

#include "harness/command.h"
#ifdef STEPCAST_HAVE_NCCL
#include "cuda/mpi.h"
#include "cuda/open.h"
#endif

namespace {

volatile std::sig_atomic_t stopped = 0;

void on_signal(int) { stopped = 1; }

// The case that runs is finished first; a second signal ends it at once.
void finish_on(int signal) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(signal, &action, nullptr);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

#ifdef __SANITIZE_ADDRESS__
// The driver maps where the sanitizer keeps a gap, and NVIDIA's libraries keep what they allocate.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "protect_shadow_gap=0:detect_leaks=0"; }
#endif

int main(int argc, char** argv) {
  using namespace stepcast::harness;
  Hooks hooks;
  hooks.open = open_device;
  hooks.stop = [] { return stopped != 0; };
  hooks.clock = now;
  const auto lead = [&] {
    finish_on(SIGINT);
    finish_on(SIGTERM);
    return command(argc, argv, hooks, std::cout, std::cerr, isatty(STDERR_FILENO) != 0);
  };
#ifdef STEPCAST_HAVE_NCCL
  hooks.gpus_per_node = cuda::gpus_per_node;
  return cuda::in_world(argc, argv, cuda::local_gpus(cuda::open_local), lead);
#else
  hooks.gpus_per_node = [] { return std::vector<int>(); };
  return lead();
#endif
}
