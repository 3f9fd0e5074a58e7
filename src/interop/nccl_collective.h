// Finds the collective of a table of nccl-tests where the log does not name it.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nccl_line.h"

namespace stepcast::interop {

// The collective that a line names: "all_reduce" in "./build/all_reduce_perf -b 8" or "# Collective
// test starting: all_reduce_perf".
std::string named_program(std::string_view line);

// The collective in the name of a file: "all_gather" in "a100-40g-1n8-superbench-allgather.txt".
std::string named_in(const std::string& file);

// The collectives that a table's columns allow. `one_rank`: there is only one, whose share is the
// whole.
std::set<std::string> possible(const std::vector<Row>& rows, bool redop_column, bool one_rank);

// One of `names`, or "".
std::string most_likely(const std::set<std::string>& names, const std::vector<Row>& rows);

// Whether the printed bus bandwidth is that of `ranks`; documents may leave out device lines.
bool plausible(const std::string& collective, int ranks, const std::vector<Row>& rows);

}  // namespace stepcast::interop
