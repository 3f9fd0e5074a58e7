#include "tasks.h"

#include <fmt/format.h>

#include <algorithm>

namespace stepcast::trace {
namespace {

using program::Task;

bool backward_label(const std::string& label) {
  for (const char* word : {" backward", " dgrad", " wgrad", " grad", "gradient"}) {
    if (label.find(word) != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

Phase phase_of(const program::Program& program, const Task& task) {
  return task.category == program::Category::optimizer ? Phase::optimizer
         : task.category == program::Category::recompute ||
                 backward_label(program.labels[task.label])
             ? Phase::backward
             : Phase::forward;
}

const program::Communicator& communicator_of(const program::World& world, const program::Rank& rank,
                                             const Task& task) {
  return world.communicators[world.communicator_table[rank.first_communicator + task.communicator]];
}

const program::Price& price_of(const program::World& world, const program::Rank& rank,
                               const Task& task) {
  return world.shapes[communicator_of(world, rank, task).shape].prices[task.price];
}

// A curve's name begins with the kind of its kernels.
std::string kind_of_curve(const std::string& name) {
  for (const auto& [begin, kind] :
       {std::pair{"grouped gemm", Kind::grouped_gemm}, std::pair{"gemm", Kind::gemm},
        std::pair{"attention", Kind::attention}, std::pair{"memory optimizer", Kind::optimizer}}) {
    if (name.starts_with(begin)) {
      return to_string(kind);
    }
  }
  return "memory_bound";
}

std::string kind_of_task(const program::World& world, const Task& task) {
  const program::Curve& curve = world.curves[task.curve];
  if (curve.parts.empty()) {
    return kind_of_curve(curve.name);
  }
  const auto largest =
      std::max_element(curve.parts.begin(), curve.parts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return kind_of_curve(world.curves[largest->first].name);
}

std::string kernel_called(const program::World& world, const Task& task, const std::string& label) {
  const std::string kind = kind_of_task(world, task);
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"gemm", "gemm"},
      {"grouped_gemm", "grouped_gemm"},
      {"attention", "flash_attention"},
      {"optimizer", "multi_tensor_apply_kernel"},
  };
  for (const auto& [of, name] : kNames) {
    if (kind == of) {
      return fmt::format("{} {}", name, label);
    }
  }
  return "elementwise_kernel " + label;
}

// The first word of its price's label, "all_gather ring simple".
std::string operation_of(const program::World& world, const program::Rank& rank, const Task& task) {
  if (task.kind != program::TaskKind::collective) {
    return "send_recv";
  }
  const std::string& label = world.labels[price_of(world, rank, task).label];
  return label.substr(0, label.find(' '));
}

}  // namespace stepcast::trace
