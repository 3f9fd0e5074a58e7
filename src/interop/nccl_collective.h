// Which collective a table of nccl-tests is, where a log does not say it in words.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nccl_line.h"

namespace stepcast::interop {

// "all_reduce" in "./build/all_reduce_perf -b 8" or "# Collective test starting: all_reduce_perf".
std::string named_program(std::string_view line);

// "all_gather" of "a100-40g-1n8-superbench-allgather.txt".
std::string named_in(const std::string& file);

// What a table's columns say by themselves; several where they cannot tell. One rank's share is the
// whole.
std::set<std::string> possible(const std::vector<Row>& rows, bool redop_column, bool one_rank);

// One of `names`, or "".
std::string most_likely(const std::set<std::string>& names, const std::vector<Row>& rows);

// Whether the bus bandwidth that the table printed is that of so many ranks; documents leave out
// device lines.
bool plausible(const std::string& collective, int ranks, const std::vector<Row>& rows);

}  // namespace stepcast::interop
