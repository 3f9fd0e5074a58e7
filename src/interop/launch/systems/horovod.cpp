// horovodrun's YAML and its command line.
#include <fmt/format.h>

#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/rule.h"
#include "../options/why.h"
#include "readers.h"

namespace stepcast::interop::launch {
namespace {

void milliseconds(Draft& d, const Setting& s, std::string_view key) {
  d.set(s, key, std::string_view(plain_text(s.value) + " ms"));
}

void tuned(Draft& d, const Setting& s, std::string_view) {
  unmodelled_if_true(d, s, "the threshold and cycle time stay as stated");
}

void streams(Draft& d, const Setting& s, std::string_view) {
  if (plain_text(s.value) == "1") {
    d.meaningless(s, "one stream, as modelled");
  } else {
    d.unmodelled(s, "collectives share one stream");
  }
}

void torus(Draft& d, const Setting& s, std::string_view) {
  unmodelled_if_true(d, s, "all-reduces are flat or hierarchical");
}

// In the YAML the options are below "params", on the command line they have no prefix.
const std::vector<Rule>& horovod_rules() {
  static const std::vector<Rule> list = {
      {"params.fusion-threshold-mb", "system.bucket_bytes", mebibytes},
      spelling("fusion-threshold-mb", "params.fusion-threshold-mb"),
      {"params.cycle-time-ms", "system.cycle_time", milliseconds},
      spelling("cycle-time-ms", "params.cycle-time-ms"),
      {"params.hierarchical-allreduce", "system.hierarchical_all_reduce", yes},
      spelling("hierarchical-allreduce", "params.hierarchical-allreduce"),
      flag("no-hierarchical-allreduce", "system.hierarchical_all_reduce", no),
      {"params.torus-allreduce", "", torus},
      spelling("torus-allreduce", "params.torus-allreduce"),
      {"autotune.enabled", "", tuned},
      spelling("autotune", "autotune.enabled"),
      {"library-options.num-nccl-streams", "", streams},
      spelling("num-nccl-streams", "library-options.num-nccl-streams"),
      spelling("np", "num-proc"),
      {"num-proc", "cluster.nodes", stated_processes},
  };
  return list;
}

const std::vector<Unread>& horovod_meaningless() {
  static const std::vector<Unread> list = {
      {"controller", why::kProcesses},
      {"gloo", why::kProcesses},
      {"params.cache-capacity", "responses are cached"},
      {"cache-capacity", "responses are cached"},
      {"params.hierarchical-allgather", "dense gradients are not gathered"},
      {"hierarchical-allgather", "dense gradients are not gathered"},
      {"autotune.*", "part of tuning the fusion threshold"},
      {"autotune-*", "part of tuning the fusion threshold"},
      {"timeline.*", why::kProfiling},
      {"timeline-*", why::kProfiling},
      {"stall-check.*", why::kProcesses},
      {"stall-check-*", why::kProcesses},
      {"library-options.*", why::kProcesses},
      {"thread-affinity", why::kProcesses},
      {"mpi-*", why::kProcesses},
      {"gloo-*", why::kProcesses},
      {"network-interfaces", why::kProcesses},
      {"hosts", why::kProcesses},
      {"ssh-*", why::kProcesses},
      {"start-timeout", why::kProcesses},
      {"elastic.*", why::kProcesses},
      {"verbose", why::kLogging},
      {"logging.*", why::kLogging},
      {"log-*", why::kLogging},
  };
  return list;
}

const std::vector<Unread>& horovod_unmodelled() {
  static const std::vector<Unread> list = {
      {"params.batch-d2d-memcopies", "copies into the fusion buffer are one kernel"},
  };
  return list;
}

void finish_horovod(Draft&) {}

}  // namespace

const Reader& horovod() {
  static const Reader reader = {
      "horovod",
      "horovod",
      {&horovod_rules(), &common_rules()},
      {&horovod_meaningless(), &launcher_options()},
      {&horovod_unmodelled()},
      finish_horovod,
  };
  return reader;
}

}  // namespace stepcast::interop::launch
