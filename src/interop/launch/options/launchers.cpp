#include "launchers.h"

#include "rule.h"

namespace stepcast::interop::launch {
namespace {

constexpr const char* kProcess = "how the processes start";
constexpr const char* kProfile = "profiling";

}  // namespace

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
      {"nproc*", kProcess},
      {"num-gpus", kProcess},
      {"num-processes", kProcess},
      {"num-machines", kProcess},
      {"machine-rank", kProcess},
      {"main-process-*", kProcess},
      {"node*", kProcess},
      {"master*", kProcess},
      {"rdzv*", kProcess},
      {"standalone", kProcess},
      {"max-restarts", kProcess},
      {"monitor-interval", kProcess},
      {"tee", kProcess},
      {"redirects", kProcess},
      {"role", kProcess},
      {"start-method", kProcess},
      {"use-env", kProcess},
      {"no-python", kProcess},
      {"module", kProcess},
      {"local-ranks-filter", kProcess},
      {"m", kProcess},
      {"u", kProcess},
      // deepspeed, colossalai
      {"hostfile", kProcess},
      {"host", kProcess},
      {"include", kProcess},
      {"exclude", kProcess},
      {"launcher*", kProcess},
      {"enable-each-rank-log", kProcess},
      // mpirun, srun
      {"mca", kProcess},
      {"x", kProcess},
      {"H", kProcess},
      {"n", kProcess},
      {"np", kProcess},
      {"N", kProcess},
      {"npernode", kProcess},
      {"bind-to*", kProcess},
      {"cpu-bind", kProcess},
      {"map-by*", kProcess},
      {"allow-run-as-root", kProcess},
      {"oversubscribe", kProcess},
      {"tag-output", kProcess},
      {"label", kProcess},
      {"l", kProcess},
      {"container-*", kProcess},
      {"no-container-*", kProcess},
      {"gres", kProcess},
      {"ntasks*", kProcess},
      {"gpus*", kProcess},
      {"cpus-per-task", kProcess},
      {"mpi", kProcess},
      {"job-name", kProcess},
      {"output", kProcess},
      {"error", kProcess},
      {"time", kProcess},
      {"partition", kProcess},
      {"kill-on-bad-exit", kProcess},
      // nsys
      {"sample", kProfile},
      {"cpuctxsw", kProfile},
      {"trace", kProfile},
      {"capture-range*", kProfile},
      {"cuda-graph-trace", kProfile},
      {"cuda-memory-usage", kProfile},
      {"force-overwrite", kProfile},
      {"stats", kProfile},
      {"s", kProfile},
      {"t", kProfile},
      {"o", kProfile},
      {"f", kProfile},
      {"c", kProcess},
  };
  return list;
}

void stated_processes(Draft& draft, const Setting& setting, std::string_view) {
  if (draft.request().nodes == 0) {
    draft.set(setting, "processes", setting.value);
  }
}

}  // namespace stepcast::interop::launch
