// Measured collectives: what nccl-tests printed (any version, as found in logs and documents), or a
// CSV of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::interop {

// Which collective; names are nccl-tests' own: all_reduce, all_gather, reduce_scatter, alltoall,
// broadcast, reduce, sendrecv, gather, scatter, hypercube; "" when the log does not tell.
struct CollectivePoint {
  std::string collective;
  std::int64_t bytes = 0;  // the "size" column
  double seconds = 0;
  bool in_place = false;
  int line = 0;
  std::string type;             // element type as printed: float, half...; "": not stated
  std::optional<double> wrong;  // elements that a check found wrong; nullopt: not checked. Early
                                // versions print the largest deviation instead (2e-07)
};

// One table of a log, or a whole CSV.
struct CollectiveRun {
  int line = 0;                     // of the table's first line
  std::vector<int> ranks_per_node;  // empty: not stated, or not in full
  std::vector<CollectivePoint> points;
  std::vector<std::string> devices;  // names of GPUs, each once, as the log has them
  std::string nccl_version;          // as the log states it: 2.26.6+cuda12.8; "": not stated
  std::string date;                  // YYYY-MM-DD of the rows' time stamps; "": none
  std::string algorithm, protocol;   // what NCCL_ALGO and NCCL_PROTO forced, in lower case; "": free
};

struct CollectiveLog {
  std::string file;
  std::vector<CollectiveRun> runs;
};

// A log, or CSV with the columns collective, size_bytes, time_us (and inplace, dtype where they
// stand), or lines of calibrate-gpu. Nodes and GPUs of each node come from the log's list of
// devices, else from FILE.yaml's `nodes` and `gpus_per_node` beside FILE.EXT; `nccl_version` and
// `gpu` there too. Throws InputError with the line of what is no measurement: binary text, no
// table, a row or a table cut short.
CollectiveLog read_collectives(const std::filesystem::path& file);

// The same from a text in memory, logs only.
CollectiveLog parse_nccl_log(std::string_view text, const std::string& name);

// nccl-tests' name for "AllReduce", "all_to_all", "alltoall_perf"...; "" when there is none.
std::string collective_name(std::string_view text);
// Bytes of an element type as nccl-tests names it: float, half, bfloat16, f8e4m3...
std::optional<int> element_bytes(std::string_view type);
// Every name.
const std::vector<std::string>& collective_names();

}  // namespace stepcast::interop
