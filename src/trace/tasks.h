// Facts about a forecast's tasks that profiles state too.
#pragma once

#include <string>

#include "links.h"
#include "stepcast/result/report.h"

namespace stepcast::trace {

// Recomputation runs in the backward pass.
Phase phase_of(const program::Program& program, const program::Task& task);
// The communicator and the price of a collective.
const program::Communicator& communicator_of(const program::World& world, const program::Rank& rank,
                                             const program::Task& task);
const program::Price& price_of(const program::World& world, const program::Rank& rank,
                               const program::Task& task);
// The kind of kernels that a curve prices.
std::string kind_of_curve(const std::string& name);
// Of a task, that of its largest part.
std::string kind_of_task(const program::World& world, const program::Task& task);
// A name for a kernel that the table of kernels knows; those of libraries depend on versions.
std::string kernel_called(const program::World& world, const program::Task& task,
                          const std::string& label);
// The operation of a collective or exchange: "all_gather", "send_recv".
std::string operation_of(const program::World& world, const program::Rank& rank,
                         const program::Task& task);

}  // namespace stepcast::trace
