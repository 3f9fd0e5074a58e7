// Reads measured collectives: output of nccl-tests (any version, as found in logs and documents), or CSV files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::interop {

// One size of a collective. `collective` is nccl-tests' own name: all_reduce, all_gather, reduce_scatter, alltoall,
// broadcast, reduce, sendrecv, gather, scatter, hypercube; "" when the log does not state it.
struct CollectivePoint {
  std::string collective;
  std::int64_t bytes = 0;  // the "size" column
  double seconds = 0;
  bool in_place = false;
  int line = 0;
  std::string type;             // element type as printed: float, half...; "": not stated
  std::optional<double> wrong;  // number of wrong elements; nullopt: not checked. Early versions print the largest
                                // deviation instead (2e-07)
};

// One table of a log, or a whole CSV.
struct CollectiveRun {
  int line = 0;                     // of the table's first line
  std::vector<int> ranks_per_node;  // empty: not stated, or not completely
  std::vector<CollectivePoint> points;
  std::vector<std::string> devices;  // names of GPUs as in the log, each once
  std::string nccl_version;          // as the log states it: 2.26.6+cuda12.8; "": not stated
  std::string date;                  // YYYY-MM-DD of the rows' time stamps; "": none
  std::string algorithm, protocol;   // forced by NCCL_ALGO and NCCL_PROTO, in lower case; "": NCCL's choice
};

struct CollectiveLog {
  std::string file;
  std::vector<CollectiveRun> runs;
};

// Reads a log, or CSV with the columns collective, size_bytes, time_us (and perhaps inplace and dtype), or lines of
// calibrate-gpu. The nodes and their GPUs come from the log's list of devices, else from `nodes` and `gpus_per_node` of
// FILE.yaml beside FILE.EXT, which may also have `nccl_version` and `gpu`. Throws InputError with the line of what is no
// measurement: binary text, no table, a row or a table that is cut short.
CollectiveLog read_collectives(const std::filesystem::path& file);

// The same for the text of a log in memory.
CollectiveLog parse_nccl_log(std::string_view text, const std::string& name);

// nccl-tests' name of a collective written as "AllReduce", "all_to_all", "alltoall_perf"...; "" when there is none.
std::string collective_name(std::string_view text);
// Bytes of an element type as nccl-tests names it: float, half, bfloat16, f8e4m3...
std::optional<int> element_bytes(std::string_view type);
// All of nccl-tests' names.
const std::vector<std::string>& collective_names();

}  // namespace stepcast::interop
