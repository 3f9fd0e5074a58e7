// The kinds of memory in bars, charts and pictures: the categories of memory in their order,
// then memory that the allocator keeps beyond them, then memory outside the allocator.
#pragma once

#include <array>

#include "../text/bar.h"
#include "stepcast/program/program.h"
#include "stepcast/result/report.h"

namespace stepcast::report {

inline constexpr std::array kMemoryKinds = {
    BarKind{to_string(program::MemoryCategory::parameters), "█", "38;5;33"},
    BarKind{to_string(program::MemoryCategory::gradients), "▓", "38;5;75"},
    BarKind{to_string(program::MemoryCategory::optimizer), "▒", "38;5;35"},
    BarKind{to_string(program::MemoryCategory::activations), "░", "38;5;208"},
    BarKind{to_string(program::MemoryCategory::communication), "C", "38;5;170"},
    BarKind{to_string(program::MemoryCategory::workspace), "w", "38;5;178"},
    BarKind{to_string(program::MemoryCategory::other), "o", "38;5;138"},
    BarKind{"cached", "+", "38;5;101"},
    BarKind{"outside the allocator", "x", "38;5;245"},
};
static_assert(kMemoryKinds.size() == program::kMemoryCategories + 2);

}  // namespace stepcast::report
