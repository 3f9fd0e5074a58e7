// The reader of a cluster description, from its text to the topology and queries to it.
#include "ask_topology.h"
#include "stepcast/input/input.h"

using namespace stepcast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    const std::string_view text = fuzz::text(data, size);
    const std::string file = fuzz::file_with(text, ".yaml");
    // Files of configs/clusters leave the number of nodes to the job.
    const int nodes = text.find("nodes:") == std::string_view::npos ? 16 : 0;
    const input::Network network = input::network(file, nodes);
    const auto built = cluster::Topology::build(network.cluster);
    if (const auto* topology = std::get_if<cluster::Topology>(&built)) {
      fuzz::ask(*topology);
    } else {
      fuzz::last_refusal() = std::get<Infeasible>(built).reason;
    }
  });
  return 0;
}
