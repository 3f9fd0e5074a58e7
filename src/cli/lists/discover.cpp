#include "stepcast/interop/discover.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../output/outputs.h"
#include "commands.h"

namespace stepcast::cli {
namespace {

struct DiscoverOptions {
  std::string nccl, smi, slurm, nodelist, kubernetes, device, nodes;
  std::string output = "-";
};

int run_discover(const DiscoverOptions& given) {
  if (!given.nodelist.empty() && given.slurm.empty()) {
    throw option_fault("--nodelist", "names nodes of Slurm; expected --slurm FILE too");
  }
  if (!given.slurm.empty() && !given.kubernetes.empty()) {
    throw option_fault("--kubernetes", "lists nodes, as --slurm does; expected one of them");
  }
  if (!given.nccl.empty() && !given.smi.empty()) {
    throw option_fault("--nvidia-smi-topo",
                       "describes a node, as --nccl-topo does; expected one of them");
  }
  const bool listed = !given.slurm.empty() || !given.kubernetes.empty();
  if (listed && !given.nodes.empty()) {
    throw option_fault("--nodes",
                       "the list of nodes already states their number; expected one of the two");
  }
  Outputs outputs;
  outputs.add("--output", given.output);
  interop::DiscoverRequest request;
  request.device = given.device;
  request.count = integer_option("--nodes", given.nodes, 1, 0);
  std::vector<std::string> sources;
  if (!given.slurm.empty()) {
    request.nodes = interop::read_slurm(given.slurm, given.nodelist);
    sources.push_back(given.slurm);
  } else if (!given.kubernetes.empty()) {
    request.nodes = interop::read_kubernetes(given.kubernetes);
    sources.push_back(given.kubernetes);
  }
  if (!given.nccl.empty()) {
    request.shape = interop::read_nccl_topology(given.nccl);
    sources.push_back(given.nccl);
  } else if (!given.smi.empty()) {
    request.shape = interop::read_nvidia_smi_topology(given.smi);
    sources.push_back(given.smi);
  } else {
    request.shape = interop::ask_host();
    if (!request.shape.nodes.empty()) {
      sources.push_back(request.shape.nodes.front().where.file);
    }
  }
  if (listed && request.nodes.nodes.empty()) {
    std::string why = fmt::format("{}", fmt::join(request.nodes.notes, "; "));
    throw InputError({{given.slurm.empty() ? given.kubernetes : given.slurm, 0, 0},
                      "no node with GPUs that can run" + (why.empty() ? "" : ": " + why)});
  }
  request.sources = fmt::format("{}", fmt::join(sources, ", "));
  if (!listed && request.shape.nodes.empty()) {
    throw option_fault(
        "discover",
        fmt::format("{}; expected --nccl-topo, --nvidia-smi-topo, --slurm or --kubernetes",
                    fmt::join(request.shape.notes, "; ")));
  }
  const interop::ClusterFile found = interop::cluster_file(request);
  outputs.give("--output", [&] { return found.yaml; });
  outputs.finish("--output", [] { return std::string(); });
  for (const std::string& note : found.notes) {
    write_stderr("discover: " + note + "\n");
  }
  return done;
}

}  // namespace

Run add_discover(Command& app) {
  auto given = std::make_shared<DiscoverOptions>();
  app.add_option("--nccl-topo", given->nccl,
                 "describes a node: the file that NCCL_TOPO_DUMP_FILE names")
      .type_name("FILE");
  app.add_option("--nvidia-smi-topo", given->smi, "describes a node: output of nvidia-smi topo -m")
      .type_name("FILE");
  app.add_option("--slurm", given->slurm,
                 "lists the nodes: output of scontrol show nodes, or of sinfo -o '%N %G %t'")
      .type_name("FILE");
  app.add_option("--nodelist", given->nodelist, "use only these of Slurm's nodes: $SLURM_NODELIST")
      .type_name("LIST");
  app.add_option("--kubernetes", given->kubernetes,
                 "lists the nodes: output of kubectl get nodes -o json")
      .type_name("FILE");
  app.add_option("--device", given->device,
                 "the GPU where no source names it, a name in configs/devices")
      .type_name("NAME");
  app.add_option("--nodes", given->nodes,
                 "number of nodes where no list of them is given (by default 1)")
      .type_name("N");
  add_output(app, "--output", given->output, "write the cluster file here").show_default();
  app.footer =
      "Without a topology file this host is examined: GPUs by NVML or the CUDA driver, adapters by "
      "Linux.\n"
      "Examples:\n"
      "  NCCL_TOPO_DUMP_FILE=topo.xml all_reduce_perf -g 8 && simulate discover --nccl-topo "
      "topo.xml --nodes 16\n"
      "  scontrol show nodes > nodes.txt && simulate discover --slurm nodes.txt --output "
      "cluster.yaml\n"
      "  simulate --config llama70b --set cluster=cluster.yaml\n"
      "Exit status: 0 done; 2 bad input, or nothing found.";
  return [given] { return run_discover(*given); };
}

}  // namespace stepcast::cli
