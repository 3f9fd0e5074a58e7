// A program file: what ranks of a training command were recorded to do in one step (simulate capture). Types, and their
// reader. The format is in src/capture/README.md.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/spelling.h"
#include "stepcast/terms/kernels.h"

namespace stepcast::capture {

inline constexpr int kVersion = 1;  // of the format; a file of another version is refused

enum class Phase : std::uint8_t { forward, backward, recompute, optimizer };
inline constexpr int kPhases = 4;

// C[m,n] = A[m,k] B[k,n], `batch` times. transposed: how the operand lies in memory.
struct Product {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false;
  bool grouped = false;  // `batch` products in one launch, as experts'
};

struct Attention {
  std::int64_t sequences = 0, heads = 0, kv_heads = 0, query_length = 0, key_length = 0, qk_dim = 0, v_dim = 0;
  bool causal = false, backward = false;
  // cudnn: what PyTorch prefers on Hopper and Blackwell; elsewhere FlashAttention-2 runs.
  AttentionKernel kernel = AttentionKernel::flash2;
};

// Which of an operator's sizes counts rows that were routed to the rank's experts. rows: those of what it makes (m of a
// product); sum: what it sums over (k of a product: the gradient of an expert's weight).
enum class Routed : std::uint8_t { none, rows, sum };

constexpr auto spellings(Routed) {
  return std::to_array<Spelling<Routed>>({{Routed::none, "none"}, {Routed::rows, "rows"}, {Routed::sum, "sum"}});
}

// An operator with its shapes. What is neither a product nor attention is bound by the bytes that it reads and writes.
struct Operator {
  std::string name;  // "aten.mm"
  std::string type;  // of its operands: "bfloat16"
  std::optional<Product> product;
  std::optional<Attention> attention;
  std::int64_t bytes = 0;
  Routed routed = Routed::none;
};

enum class TaskKind : std::uint8_t { kernel, collective, exchange, copy, sync, host };

constexpr auto spellings(TaskKind) {
  return std::to_array<Spelling<TaskKind>>({{TaskKind::kernel, "kernel"},
                                            {TaskKind::collective, "collective"},
                                            {TaskKind::exchange, "exchange"},
                                            {TaskKind::copy, "copy"},
                                            {TaskKind::sync, "sync"},
                                            {TaskKind::host, "host"}});
}

// Until `stream` has done its first `position` tasks of the step `lag` steps back.
struct Wait {
  int stream = 0, position = 0, lag = 0;
};

struct Message {
  int peer = 0;  // its place in the group
  bool send = false;
  std::int64_t bytes = 0;
};

// In the order in which the host issues them. `host`: ns that the host takes ahead of it. sync: the host waits; host: it
// works.
struct Task {
  TaskKind kind = TaskKind::kernel;
  Phase phase = Phase::forward;  // kernel
  bool to_device = false;        // copy
  int stream = 0;                // 0: the compute stream
  int operator_number = -1;      // kernel: in Rank::operators; -1: of no operator
  int launches = 1;              // kernel
  int group = 0;                 // collective, exchange: in Rank::groups
  std::int64_t host = 0;         // ns
  std::int64_t bytes = 0;        // collective: as nccl-tests counts them; copy
  std::string operation;         // collective: "all_gather"
  std::vector<Wait> waits;
  std::vector<Message> messages;  // exchange
};

// Experts that are divided among the ranks of a group: its all-to-alls carry the rows that they are sent.
struct RoutedExperts {
  int experts = 0;        // of all ranks of the group
  std::int64_t rows = 0;  // that each rank got in one all-to-all, under the even routing of a capture
};

struct Group {
  std::string name;        // "mesh_tp"
  std::vector<int> ranks;  // in order of their places
  std::optional<RoutedExperts> routed;
};

// Bytes, by PyTorch's allocator.
struct Memory {
  std::int64_t first_peak = 0, peak = 0, reserved = 0, between = 0;  // of the first step, of a later one; between steps
  std::int64_t parameters = 0, gradients = 0, optimizer = 0;
  std::int64_t trained = 0;  // elements of all parameters that are trained, over all ranks that share them
};

struct Rank {
  int rank = 0;
  std::vector<std::string> streams;
  std::vector<Group> groups;
  std::vector<Operator> operators;
  std::vector<Task> tasks;
  std::vector<std::string> remarks;  // what the recorder had to leave out
  Memory memory;
};

struct Capture {
  std::string file;
  int world_size = 1;
  std::string command, torch, host;  // host: the CPU whose times the tasks carry
  std::vector<Rank> ranks;           // by rank; the first is rank 0
  // What counts of the host times, which are those of the machine that captured. Nothing: each launch takes what it takes in
  // jobs. A factor: they count by it, 1 / 2 where the training node's CPU is twice as fast, 0 where it never is late.
  std::optional<double> host_scale;
};

// A file of simulate capture, plain or compressed by gzip. Throws InputError with the line of what is wrong.
Capture read(const std::filesystem::path& file);

// The recorded rank whose program `rank` runs: the last that is not above it.
int recorded_for(const Capture& capture, int rank);

// Text on the format, for `simulate capture --format`.
std::string format_text();

}  // namespace stepcast::capture
