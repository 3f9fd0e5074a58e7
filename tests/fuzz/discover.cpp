// The readers of what other tools say of a cluster (NCCL's XML, nvidia-smi, Slurm, Kubernetes), and
// the cluster file of what they read.
#include "stepcast/interop/discover.h"

#include "fuzz.h"

using namespace stepcast;

namespace {

void check(interop::NodeList list, bool shape) {
  for (const interop::NodeFacts& node : list.nodes) {
    fuzz::require(node.gpus >= 0 && node.nics >= 0 && node.cores >= 0 && node.sockets >= 0,
                  "a node with less than nothing");
  }
  if (list.nodes.size() > 1000) {
    return;  // the cluster file has a line for each
  }
  interop::DiscoverRequest request;
  (shape ? request.shape : request.nodes) = std::move(list);
  request.device = "h100-sxm";
  request.sources = "fuzz";
  fuzz::require(!interop::cluster_file(request).yaml.empty(), "an empty cluster file");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file = fuzz::file_with(fuzz::text(data, size), ".txt");
  fuzz::read([&] { check(interop::read_nccl_topology(file), true); });
  fuzz::read([&] { check(interop::read_nvidia_smi_topology(file), true); });
  fuzz::read([&] { check(interop::read_slurm(file, ""), false); });
  fuzz::read([&] { check(interop::read_kubernetes(file), false); });
  return 0;
}
