// What the engine executes: types only.
//
// A rank runs a program: device streams, each a FIFO of tasks, and a host stream that issues them in order, allocates
// and frees. Because streams are FIFOs, a recorded event is a position: "stream s has completed its first k tasks of
// the step". So a wait is {stream, position} and no event objects exist. Programs are cyclic: a step's tasks follow
// those of the step before on every stream, and a wait may reach back one step.
//
// Peers, communicators and buffers are roles, resolved by a table per rank (World), so that one program serves all
// ranks that run the same one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stepcast/base/id.h"
#include "stepcast/base/quantity.h"
#include "stepcast/base/spelling.h"

namespace stepcast::program {

using stepcast::to_string;

// Into the tables of a World.
using RankId = Id<struct RankTag>;
using ProgramId = Id<struct ProgramTag>;
using CommunicatorId = Id<struct CommunicatorTag>;
using ChannelId = Id<struct ChannelTag>;
using ResourceId = Id<struct ResourceTag>;
using ShapeId = Id<struct ShapeTag>;
using stepcast::CurveId;
// Into the prices of a Shape.
using PriceKey = Id<struct PriceTag>;
// Into the tables of a Program.
using StreamIndex = Id<struct StreamTag, std::uint8_t>;
using TaskIndex = Id<struct TaskTag>;
using BufferIndex = Id<struct BufferTag>;
using LabelIndex = Id<struct LabelTag>;  // of its program or, for a price, its World
// Into a rank's own part of World::communicator_table and World::channel_table.
using CommunicatorRole = Id<struct CommunicatorRoleTag>;
using ChannelRole = Id<struct ChannelRoleTag>;

constexpr std::uint32_t kNone = 0xffffffffU;

// Where time goes: a task's own category, and what a compute stream's idle time is charged to when it waits for it.
enum class Category : std::uint8_t {
  compute,
  recompute,
  optimizer,
  tensor,  // exposed communication, by the parallelism that caused it
  pipeline,
  data,
  context,
  expert,
  offload,
  other,     // gradient norm, tied embeddings and the like
  bubble,    // waiting for another pipeline stage
  host,      // waiting for the host to issue
  stall,     // waiting for a slower peer of the same stage, or for memory
  slowdown,  // a kernel's extra time beside communication
};
constexpr int kCategories = 14;

constexpr auto spellings(Category) {
  return std::to_array<Spelling<Category>>({{Category::compute, "compute"},
                                            {Category::recompute, "recompute"},
                                            {Category::optimizer, "optimizer"},
                                            {Category::tensor, "tensor"},
                                            {Category::pipeline, "pipeline"},
                                            {Category::data, "data"},
                                            {Category::context, "context"},
                                            {Category::expert, "expert"},
                                            {Category::offload, "offload"},
                                            {Category::other, "other"},
                                            {Category::bubble, "bubble"},
                                            {Category::host, "host"},
                                            {Category::stall, "stall"},
                                            {Category::slowdown, "slowdown"}});
}

enum class TaskKind : std::uint8_t { kernel, collective, exchange, copy };

// "Stream `stream` has completed `position` tasks of step (now - lag)". Lag is 0 or 1; before the first step a wait
// with lag 1 is satisfied.
struct Wait {
  std::uint32_t position = 0;
  StreamIndex stream;
  std::uint8_t lag = 0;
};

// One send or receive of an exchange: `channel` is a role (index into the rank's channel table), `key` must be equal on
// both ends (a mismatch is a fault of the program), `price` indexes World::prices of the channel's shape.
struct Transfer {
  ChannelRole channel;
  std::uint32_t key = 0;
  PriceKey price;
  bool send = false;
};

struct Task {
  Time duration{0};                  // kernel: alone. Others: unused
  std::uint32_t first_wait = 0;      // into Program::waits
  std::uint32_t first_transfer = 0;  // exchange: into Program::transfers
  CommunicatorRole communicator;     // collective
  PriceKey price;                    // collective, copy
  LabelIndex label;
  std::uint16_t waits = 0;
  std::uint16_t transfers = 0;
  CurveId curve;  // kernel: the curve that priced it
  std::uint16_t micro_batch = 0xffff;
  std::uint16_t launches = 1;  // that the host issues for it: merged kernels are many
  std::uint8_t slowdown = 0;   // kernel: row of World::slowdowns. 0: never slowed
  StreamIndex stream;
  TaskKind kind = TaskKind::kernel;
  Category category = Category::compute;     // communication: what waiting for its transfer is charged to
  Category wait_category = Category::stall;  // communication: what waiting for its peers is charged to
  std::uint8_t chunk = 0;                    // model chunk (virtual stage), for pictures
};

enum class HostKind : std::uint8_t {
  work,      // `duration` of host time
  launch,    // issue `count` tasks, the next ones in order, each after `duration` of host time
  sync,      // wait until `wait` holds on the device
  allocate,  // buffer `buffer`
  release,   // buffer `buffer`; its memory is reusable once the uses issued so far on `streams` have completed
};

struct HostOp {
  Time duration{0};
  std::uint32_t count = 0;
  BufferIndex buffer;
  Wait wait;
  std::uint32_t streams = 0;  // release: bit mask of streams other than its own that used the buffer
  HostKind kind = HostKind::work;
};

enum class MemoryCategory : std::uint8_t { parameters, gradients, optimizer, activations, communication, workspace, other };
constexpr int kMemoryCategories = 7;

constexpr auto spellings(MemoryCategory) {
  return std::to_array<Spelling<MemoryCategory>>({{MemoryCategory::parameters, "parameters"},
                                                  {MemoryCategory::gradients, "gradients"},
                                                  {MemoryCategory::optimizer, "optimizer"},
                                                  {MemoryCategory::activations, "activations"},
                                                  {MemoryCategory::communication, "communication"},
                                                  {MemoryCategory::workspace, "workspace"},
                                                  {MemoryCategory::other, "other"}});
}

// Where a buffer lives. What is not on the device is counted against the node's host memory or NVMe, and is no part of an
// allocator trace.
enum class Place : std::uint8_t { device, host, nvme };
constexpr int kPlaces = 3;

// A tensor as the framework's allocator sees it: what a buffer consists of. `begin` and `end` are places among the
// operators of a pass, so that the tensors of one pass are allocated and freed in their true order: `begin` in the pass
// that allocates the buffer, `end` in the one that releases it. Of a transient buffer both lie in the one pass.
struct Block {
  Bytes bytes;  // as requested, before the allocator rounds
  LabelIndex label;
  std::uint16_t begin = 0;
  std::uint16_t end = 0xffff;  // behind the pass's last operator
};

struct Buffer {
  Bytes bytes;
  MemoryCategory category = MemoryCategory::other;
  StreamIndex stream;
  bool persistent = false;  // allocated before the first step, never released
  LabelIndex label;
  // Its tensors, into Program::blocks; none: one of `bytes`. Buffers of equal shape may share them.
  std::uint32_t first_block = 0;
  std::uint32_t blocks = 0;
  // A pass's temporaries: `bytes` is what they add to the peak at most, each block lives from its `begin` to its `end`.
  bool transient = false;
  bool lazy = false;   // persistent, made at the end of the first step (PyTorch's optimizer states)
  bool later = false;  // not in the first step (what a framework fetches ahead once it has seen one)
  // Made ahead of the first step, behind what is persistent, and given up at once: its memory stays cached.
  bool initial = false;
  bool among_persistent = false;  // such a buffer is made in its order among those, and given up behind them
  Place place = Place::device;
  // Among its tensors the one that the pass before handed over, and the one that this pass hands to the next: the same
  // tensor, which is made once.
  static constexpr std::uint32_t kNoTensor = 0xffffffff;
  std::uint32_t taken = kNoTensor;
  std::uint32_t handed = kNoTensor;
  // Into Program::first_steps: the tensors that stand in its place in the first step; none: its own.
  std::uint32_t first_step = kNone;
};

// A buffer as the first step makes it, where that is unlike all later steps (a framework whose parameters have another
// format until they are gathered first). It is released within that step.
struct FirstStepBuffer {
  Bytes bytes;
  std::uint32_t first_block = 0;
  std::uint32_t blocks = 0;
  std::uint32_t taken = Buffer::kNoTensor;
  std::uint32_t handed = Buffer::kNoTensor;
};

// A call of the allocator while the model is made, ahead of the first step.
struct Making {
  Bytes bytes;                 // asked for; 0: the tensor is given up
  BufferIndex buffer = kNone;  // a persistent one, whose tensor it is; none: one that making the model alone needs
  std::uint32_t tensor = 0;    // of that buffer, or of all that making the model alone needs
};

struct Stream {
  std::string name;  // "compute", "tensor", "data", "pipeline send"...
};

struct Program {
  std::string name;             // "stage 3"
  int stage = 0;                // pipeline rank
  std::vector<Stream> streams;  // device streams; 0 is the compute stream
  std::vector<Task> tasks;      // in issue order
  // Ranges [from, to) of tasks. Every task outside them repeats one inside, except for its waits, the keys of its transfers,
  // micro-batch and chunk: who asks which kinds of tasks there are reads these alone. Empty: not known.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> distinct;
  std::vector<Wait> waits;
  std::vector<Transfer> transfers;
  std::vector<HostOp> host;  // the launches add up to tasks.size()
  std::vector<Buffer> buffers;
  std::vector<Block> blocks;
  std::vector<FirstStepBuffer> first_steps;
  std::vector<Making> making;  // then segments without a live block are given back
  std::vector<std::string> labels;
  std::uint32_t communicator_roles = 0;
  std::uint32_t channel_roles = 0;
  Bytes outside_allocator;                                   // context, NCCL buffers, libraries
  std::vector<std::pair<std::string, Bytes>> outside_parts;  // what that is made of
  Bytes first_step_extra;                                    // transient bytes that only the first step needs
  // Allocations and releases of `host` before the optimizer's first step makes lazy buffers; none: behind all of them.
  std::optional<std::uint32_t> lazy_from;
};

// ---------------------------------------------------------------- the shared world
// A resource that can bind: capacity in whole bytes per second.
struct Resource {
  std::int64_t capacity = 0;
};

// Fixed point of weights: bytes that cross a resource per payload byte, times 2^16.
constexpr std::int64_t kWeightOne = 1 << 16;
constexpr int kResourceKinds = 4;

// Price of one operation on one shape of communicator, channel or copy path: `latency` first, then `fluid` alone at the
// payload rate `rate` (whole bytes per second). `weight[k]` is what crosses each resource of kind k.
struct Price {
  Time latency{0};
  Time fluid{0};
  std::int64_t rate = 1;
  std::int64_t weight[kResourceKinds] = {0, 0, 0, 0};
  Bytes bytes;  // as NCCL counts them, for the traffic table
  CurveId latency_curve;
  CurveId curve;
  // On kernels beside it, in the units of World::slowdowns: from its launch while it waits for its peers (it holds SMs and
  // moves nothing), then until its end.
  std::uint16_t pressure_waiting = 0;
  std::uint16_t pressure = 0;
  LabelIndex label;  // into World::labels: "all_reduce ring simple"
};

// A use of a resource by a communicator or channel; `count` members use it alike.
struct Usage {
  ResourceId resource;
  std::uint32_t kind = 0;
  std::int64_t count = 1;
};

// Price keys of tasks index `prices` of the shape of whatever they resolve to.
struct Shape {
  std::vector<Price> prices;
};

struct Communicator {
  ShapeId shape;
  std::uint32_t members = 0;  // arrivals that start a collective (in a folded world: classes)
  std::uint32_t first_usage = 0;
  std::uint32_t usages = 0;
  std::uint32_t size = 0;  // true number of ranks
};

// A directed pair: `sender` and `receiver` pair their posts in FIFO order.
struct Channel {
  ShapeId shape;
  RankId sender;
  RankId receiver;
  std::uint32_t first_usage = 0;
  std::uint32_t usages = 0;
};

struct Rank {
  ProgramId program;
  std::uint32_t first_communicator = 0;  // into World::communicator_table
  std::uint32_t first_channel = 0;       // into World::channel_table
  std::uint32_t first_usage = 0;         // of its copies (host link)
  std::uint32_t usages = 0;
  ShapeId copy_shape;
};

struct Curve {
  std::string name;     // "gemm bf16 a100-sxm-80 cublas"
  std::string file;     // calibration file, or "datasheet"
  double residual = 0;  // relative standard deviation of the fit
  // Merged kernels: shares of their time by other curves; empty for a curve proper.
  std::vector<std::pair<CurveId, double>> parts;
};

// Speed of a kernel in parts per million when the pressures of the communication kernels on its GPU add up to `pressure`:
// entry i of `speed` holds for pressure in [i * step, (i + 1) * step); the last entry for all above. Never zero. entry 0
// is 1'000'000. `curve`: what the time lost hangs on; kNoCurve: the kernel's own.
inline constexpr CurveId kNoCurve = 0xffff;
struct Slowdown {
  std::uint16_t step = 1;
  std::vector<std::int64_t> speed;
  CurveId curve = kNoCurve;
};

struct World {
  std::vector<Program> programs;
  std::vector<Rank> ranks;
  std::vector<CommunicatorId> communicator_table;  // rank's roles to communicators
  std::vector<ChannelId> channel_table;
  std::vector<Communicator> communicators;
  std::vector<Channel> channels;
  std::vector<Shape> shapes;
  std::vector<Usage> usages;
  std::vector<Resource> resources;
  std::vector<Curve> curves;
  std::vector<Slowdown> slowdowns;           // row 0 is unused: "never slowed"
  std::vector<std::int64_t> transfer_speed;  // communication cap in ppm while a kernel of row i runs beside it; empty: 1
  std::vector<std::string> labels;
  std::vector<std::uint32_t> multiplicity;  // folded: ranks that each entry of `ranks` stands for; empty: 1 each
};

}  // namespace stepcast::program
