// Chakra's execution traces: the nodes of one rank's graph, with what they wait for and how long they take. Read as protobuf
// (a message GlobalMetadata and one message Node after the other, each with its length before it) and as JSON
// (workload_graph); written as protobuf. Schema: mlcommons/chakra, et_def.proto, version 0.0.4.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/output_file.h"
#include "stepcast/base/quantity.h"
#include "stepcast/result/report.h"
#include "stepcast/trace/trace.h"

namespace stepcast::trace {

// Numbers as in the schema.
enum class ChakraType : std::uint8_t {
  invalid,
  metadata,
  memory_load,
  memory_store,
  compute,
  send,
  receive,
  collective,
};
enum class ChakraCollective : std::uint8_t {
  all_reduce,
  reduce,
  all_gather,
  gather,
  scatter,
  broadcast,
  all_to_all,
  reduce_scatter,
  reduce_scatter_block,
  barrier,
};

struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  ChakraType type = ChakraType::invalid;
  std::vector<std::uint64_t> control;  // ids of nodes that called it
  std::vector<std::uint64_t> data;     // ids of nodes that end before it begins
  Time start{0};                       // microseconds in the file; 0: not stated
  Time duration{0};                    // microseconds in the file, exact in the attribute duration_ps
  bool on_host = false;                // is_cpu_op
  std::int64_t thread = 0;             // tid: of the device its stream
  std::optional<ChakraCollective> collective;
  std::int64_t bytes = 0;  // comm_size
  std::string group;       // pg_name
  std::int64_t source = -1, destination = -1, tag = -1;
  bool operator==(const ChakraNode&) const = default;
};

struct ChakraTrace {
  std::string version;  // of the metadata; "": not stated
  std::vector<ChakraNode> nodes;
  std::vector<std::string> remarks;  // what was not whole
  bool operator==(const ChakraTrace&) const = default;
};

// Throws InputError where the file is something else, or of another version.
ChakraTrace read_chakra(const std::filesystem::path& file);
// Whether the bytes at the beginning of a file can be those of Chakra's protobuf.
bool begins_as_chakra(std::string_view head);

// The nodes as events, for a profile. Where they state no start, each begins when all that it names has ended and its
// stream or thread is free.
Trace events_of(const ChakraTrace& chakra, const std::filesystem::path& file);

// What a rank of a forecast's world runs in a step: its tasks with their times alone. Waits for the step before are left
// out, as is the host.
ChakraTrace chakra_of(const result::Report& report, std::uint32_t rank);
void write_chakra(const ChakraTrace& trace, OutputFile& file);

}  // namespace stepcast::trace
