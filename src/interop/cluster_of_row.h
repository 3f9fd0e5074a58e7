// The nearest named node type for a row's hardware, and what the row says of its network cards.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "fields.h"

namespace stepcast::interop {

struct Nics {
  int per_node = 0;
  double gigabits = 0;  // one card, per direction
  bool operator==(const Nics&) const = default;
};

// Reads texts such as "8x200Gb/s HDR InfiniBand HCAs per node" or "400 Gb/s RDMA per GPU". Nothing:
// no figure in it.
std::optional<Nics> parse_nics(const std::string& text, int gpus_per_node);

// The vendor's reference node of a device ("" when there is none) and its GPUs.
struct ReferenceNode {
  std::string_view name;
  int gpus = 0;
};
ReferenceNode reference_node(std::string_view device);

// How `ranks` GPUs lie on nodes of at most `per_node`: all nodes carry as many.
struct Spread {
  int nodes = 1;
  int gpus_per_node = 1;
  bool operator==(const Spread&) const = default;
};
Spread spread(int ranks, int per_node);

}  // namespace stepcast::interop
