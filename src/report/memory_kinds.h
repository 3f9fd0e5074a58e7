// What fills a GPU, as bars, charts and pictures show it: the categories of memory in their order,
// then what the allocator keeps beyond them, then what lies outside.
#pragma once

#include <array>

#include "bar.h"
#include "stepcast/program/program.h"
#include "stepcast/result/report.h"

namespace stepcast::report {

inline constexpr std::array kMemoryKinds = {
    Kind{"parameters", "█", "38;5;33"},
    Kind{"gradients", "▓", "38;5;75"},
    Kind{"optimizer", "▒", "38;5;35"},
    Kind{"activations", "░", "38;5;208"},
    Kind{"communication", "C", "38;5;170"},
    Kind{"workspace", "w", "38;5;178"},
    Kind{"other", "o", "38;5;138"},
    Kind{"cached", "+", "38;5;101"},
    Kind{"outside the allocator", "x", "38;5;245"},
};
static_assert(kMemoryKinds.size() == program::kMemoryCategories + 2);

// The categories of a stage's peak, in the order of kMemoryKinds.
inline constexpr std::array<Bytes result::StageMemory::*, program::kMemoryCategories> kMemoryParts =
    {&result::StageMemory::parameters,    &result::StageMemory::gradients,
     &result::StageMemory::optimizer,     &result::StageMemory::activations,
     &result::StageMemory::communication, &result::StageMemory::workspace,
     &result::StageMemory::other};

}  // namespace stepcast::report
