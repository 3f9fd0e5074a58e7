// The events of one rank's profile, as PyTorch's profiler (Kineto) writes them: what ran on the device, how it was
// launched, which operators of the host launched it with which shapes, and the steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/base/spelling.h"

namespace stepcast::trace {

// What a kernel, a copy or a memset does. The table in src/trace/kernel_names.cpp tells them by their names.
enum class Kind : std::uint8_t {
  gemm,
  grouped_gemm,
  attention,
  convolution,
  norm,
  softmax,
  embedding,
  optimizer,
  cast,      // to and from 8 bits and other formats, with or without a transposition
  indexing,  // gather, scatter, sort, permute
  layout,    // copies, transposes, concatenations
  reduction,
  elementwise,
  generated,  // Triton's, whose names do not say what they do
  other,      // no line of the table names it
  communication,
  copy_to_device,
  copy_to_host,
  copy_on_device,
  copy_between_devices,
  copy_other,
  memset,
};

constexpr auto spellings(Kind) {
  return std::to_array<Spelling<Kind>>({{Kind::gemm, "gemm"},
                                        {Kind::grouped_gemm, "grouped_gemm"},
                                        {Kind::attention, "attention"},
                                        {Kind::convolution, "convolution"},
                                        {Kind::norm, "norm"},
                                        {Kind::softmax, "softmax"},
                                        {Kind::embedding, "embedding"},
                                        {Kind::optimizer, "optimizer"},
                                        {Kind::cast, "cast"},
                                        {Kind::indexing, "indexing"},
                                        {Kind::layout, "layout"},
                                        {Kind::reduction, "reduction"},
                                        {Kind::elementwise, "elementwise"},
                                        {Kind::generated, "generated"},
                                        {Kind::other, "other"},
                                        {Kind::communication, "communication"},
                                        {Kind::copy_to_device, "copy_host_to_device"},
                                        {Kind::copy_to_host, "copy_device_to_host"},
                                        {Kind::copy_on_device, "copy_on_device"},
                                        {Kind::copy_between_devices, "copy_between_devices"},
                                        {Kind::copy_other, "copy_other"},
                                        {Kind::memset, "memset"}});
}
inline constexpr std::size_t kKinds = static_cast<std::size_t>(Kind::memset) + 1;

// What a moment of a device goes into: the first of these that is running.
enum class Class : std::uint8_t { compute, communication, copy };
constexpr Class class_of(Kind kind) {
  return kind < Kind::communication ? Class::compute : kind == Kind::communication ? Class::communication : Class::copy;
}

struct KernelName {
  Kind kind = Kind::other;
  std::string operation;  // of communication: "all_reduce", "dispatch"
  std::string shown;      // without types and arguments
};
// What a kernel's full name says. `name` may be mangled.
KernelName kernel_name(std::string_view name);
// The same of copies: "Memcpy HtoD (Pinned -> Device)".
KernelName copy_name(std::string_view name);

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

// One kernel, copy or memset. Times count from the trace's first event.
struct DeviceEvent {
  Time start{0}, duration{0};
  std::int64_t correlation = -1;  // that of its launch; below 0: the trace states none
  std::uint32_t name = 0;         // in Trace::names
  std::uint32_t call = kNone;     // in Trace::calls
  std::uint32_t stream = 0;       // in Trace::streams
  Time end() const { return start + duration; }
};

// The call of the runtime or driver that launched device events.
struct Launch {
  std::int64_t correlation = -1;
  Time start{0};
  std::uint32_t thread = 0;
};

// A call of the runtime in which the host may have waited for the device: one that synchronises, or a copy's.
struct HostCall {
  Time start{0}, end{0};
  std::int64_t correlation = -1;  // of a copy's call: that of the copy
  bool copies = false;
};

// An operator on the host whose shapes or collective are recorded.
struct HostOperator {
  Time start{0}, end{0};
  std::uint32_t thread = 0;
  std::uint32_t what = 0;  // in Trace::operators
};

// An operator with its shapes, as recorded.
struct OperatorShapes {
  std::string name;            // "aten::mm"
  std::string dims;            // "[[4096, 1024], [1024, 512]]"
  std::string types;           // "[\"c10::BFloat16\", ...]"
  std::string inputs;          // concrete scalars; "": not recorded
  std::uint32_t call = kNone;  // the collective that it issues, in Trace::calls
};

// A collective as recorded beside its kernel or its operator.
struct CollectiveCall {
  std::string operation;  // "all_reduce"
  std::string group;      // the process group's name, and its description where it has one
  std::string ranks;      // "[0, 1]", or as much of it as was recorded
  int group_size = 0;     // 0: not recorded
  std::int64_t in_elements = 0, out_elements = 0;
  std::string dtype;  // "BFloat16"
};

struct Stream {
  std::int64_t device = 0, stream = 0;
};

// A part of a step on the host: what its thread launches within belongs to it.
struct HostPhase {
  Time start{0}, end{0};
  std::uint32_t thread = 0;
  bool optimizer = false;  // else a node of the backward pass
};

struct Step {
  std::string name;  // "ProfilerStep#550"
  Time start{0}, duration{0};
};

struct Trace {
  std::string file;
  int rank = -1, world_size = 0;  // -1, 0: not recorded
  std::string device;             // "NVIDIA A100-SXM4-80GB"; "": not recorded
  std::string nccl_version;
  std::vector<std::string> names;
  std::vector<KernelName> known;  // of each name
  std::vector<OperatorShapes> operators;
  std::vector<CollectiveCall> calls;
  std::vector<Stream> streams;
  std::vector<DeviceEvent> events;
  std::vector<Launch> launches;
  std::vector<HostCall> waits;  // in order of the file
  std::vector<HostOperator> host;
  std::vector<HostPhase> phases;     // in order of the file
  std::vector<Step> steps;           // in order of time
  std::int64_t bytes = 0;            // of the text
  std::int64_t objects = 0;          // of the list of events
  std::int64_t damaged = 0;          // events that could not be read
  bool nanoseconds = false;          // the file's unit of time; else microseconds
  std::vector<std::string> remarks;  // what was not whole

  Kind kind_of(const DeviceEvent& event) const { return known[event.name].kind; }
};

// Reads a trace of PyTorch's profiler, plain or compressed by gzip. Throws InputError where the file is something else.
Trace read(const std::filesystem::path& file);

}  // namespace stepcast::trace
