#include "roles.h"

#include <iterator>

#include "stepcast/lower/lower.h"

namespace stepcast::lower {

const char* group_name(std::uint32_t role) {
  static constexpr const char* kNames[] = {"tensor",
                                           "tensor row",
                                           "tensor column",
                                           "tensor depth",
                                           "data",
                                           "data replicas",
                                           "all data",
                                           "embedding",
                                           "norm",
                                           "context",
                                           "context inner",
                                           "expert",
                                           "expert tensor",
                                           "tensor expert",
                                           "expert data",
                                           "expert replicas",
                                           "all expert data",
                                           "partition",
                                           "pair",
                                           "pipe",
                                           "pipe statistics",
                                           "pipe gradient",
                                           "pipe input",
                                           "pipe input gradient",
                                           "node",
                                           "across nodes"};
  static_assert(std::size(kNames) == kRoles);
  return kNames[role];
}

}  // namespace stepcast::lower
