#include "launchers.h"

#include "rule.h"
#include "why.h"

namespace stepcast::interop::launch {
namespace {}  // namespace

void cluster_nodes(Draft& draft, const Setting& setting, std::string_view) {
  if (draft.request().nodes == 0) {
    draft.set(setting, "cluster.nodes", setting.value);
  }
}

const std::vector<Rule>& launcher_rules() {
  static const std::vector<Rule> rules = {
      {"nnodes", "cluster.nodes", cluster_nodes},
      {"num-nodes", "cluster.nodes", cluster_nodes},
  };
  return rules;
}

const std::vector<Unread>& launcher_options() {
  static const std::vector<Unread> list = {
      // torchrun, torch.distributed.launch; also names that are cut short in excerpts
      {"nproc*", why::kProcesses},
      {"num-gpus", why::kProcesses},
      {"num-processes", why::kProcesses},
      {"num-machines", why::kProcesses},
      {"machine-rank", why::kProcesses},
      {"main-process-*", why::kProcesses},
      {"node*", why::kProcesses},
      {"master*", why::kProcesses},
      {"rdzv*", why::kProcesses},
      {"standalone", why::kProcesses},
      {"max-restarts", why::kProcesses},
      {"monitor-interval", why::kProcesses},
      {"tee", why::kProcesses},
      {"redirects", why::kProcesses},
      {"role", why::kProcesses},
      {"start-method", why::kProcesses},
      {"use-env", why::kProcesses},
      {"no-python", why::kProcesses},
      {"module", why::kProcesses},
      {"local-ranks-filter", why::kProcesses},
      {"m", why::kProcesses},
      {"u", why::kProcesses},
      // deepspeed, colossalai
      {"hostfile", why::kProcesses},
      {"host", why::kProcesses},
      {"include", why::kProcesses},
      {"exclude", why::kProcesses},
      {"launcher*", why::kProcesses},
      {"enable-each-rank-log", why::kProcesses},
      // mpirun, srun
      {"mca", why::kProcesses},
      {"x", why::kProcesses},
      {"H", why::kProcesses},
      {"n", why::kProcesses},
      {"np", why::kProcesses},
      {"N", why::kProcesses},
      {"npernode", why::kProcesses},
      {"bind-to*", why::kProcesses},
      {"cpu-bind", why::kProcesses},
      {"map-by*", why::kProcesses},
      {"allow-run-as-root", why::kProcesses},
      {"oversubscribe", why::kProcesses},
      {"tag-output", why::kProcesses},
      {"label", why::kProcesses},
      {"l", why::kProcesses},
      {"container-*", why::kProcesses},
      {"no-container-*", why::kProcesses},
      {"gres", why::kProcesses},
      {"ntasks*", why::kProcesses},
      {"gpus*", why::kProcesses},
      {"cpus-per-task", why::kProcesses},
      {"mpi", why::kProcesses},
      {"job-name", why::kProcesses},
      {"output", why::kProcesses},
      {"error", why::kProcesses},
      {"time", why::kProcesses},
      {"partition", why::kProcesses},
      {"kill-on-bad-exit", why::kProcesses},
      // nsys
      {"sample", why::kProfiling},
      {"cpuctxsw", why::kProfiling},
      {"trace", why::kProfiling},
      {"capture-range*", why::kProfiling},
      {"cuda-graph-trace", why::kProfiling},
      {"cuda-memory-usage", why::kProfiling},
      {"force-overwrite", why::kProfiling},
      {"stats", why::kProfiling},
      {"s", why::kProfiling},
      {"t", why::kProfiling},
      {"o", why::kProfiling},
      {"f", why::kProfiling},
      {"c", why::kProcesses},
  };
  return list;
}

void stated_processes(Draft& draft, const Setting& setting, std::string_view) {
  if (draft.request().nodes == 0) {
    draft.set(setting, "processes", setting.value);
  }
}

}  // namespace stepcast::interop::launch
