// Pipeline schedules: the order of forward, input-gradient and weight-gradient passes on each pipeline rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"

namespace stepcast::schedule {

// B is input and weight gradient in one pass (I + W). S and T: the vocabulary passes of vocab_1 and vocab_2 (2411.05288):
// S the output layer's forward on this rank's rows of the vocabulary, T its backward.
enum class Pass : char {
  forward = 'F',
  input_grad = 'I',
  weight_grad = 'W',
  backward = 'B',
  vocabulary = 'S',
  vocabulary_grad = 'T'
};

struct Slot {
  Pass pass = Pass::forward;
  int micro_batch = 0;
  int chunk = 0;           // model chunk on this rank; its global stage: stage_of()
  bool with_next = false;  // runs beside the next slot of this rank, as DualPipe's F&B
};

// Which global stage a rank's chunk is.
// loop: chunk * p + rank. vee: even chunks go down, odd ones come back up (ZB-V: chunk 1 of rank r is stage 2p - 1 - r).
// bidirectional: two replicas of the model; chunk 0 is stage r of the first, chunk 1 stage p - 1 - r of the second
// (DualPipe, Chimera). Micro-batches are numbered through; a chunk's own are those that its slots name.
enum class Placement { loop, vee, bidirectional };

int stage_of(Placement placement, int stages, int rank, int chunk);

struct Request {
  int stages = 1;         // pipeline ranks p
  int micro_batches = 1;  // m
  int chunks = 1;         // model chunks per rank v
  int group = 0;          // micro-batches per virtual-pipeline group N; 0: p
  int extra_warmup = 0;
  // Of automatic schedules: times of a whole rank's passes and of one message, and live activations allowed, in peaks of
  // 1F1B on the first rank.
  double forward = 1;
  double input_grad = 1;
  double weight_grad = 1;
  double comm = 0;
  double memory_limit = 1;
  std::string vocabulary = {};  // "", "vocab_1", "vocab_2": passes S and T are woven in
};

// One order per pipeline rank.
struct Order {
  std::vector<std::vector<Slot>> ranks;
  Placement placement = Placement::loop;
};

struct Entry {
  std::string_view name;
  std::string_view summary;  // one line, with its source
  std::variant<Order, Infeasible> (*make)(const Request&);
  Placement placement = Placement::loop;
  int chunks = 0;                // chunks per rank that the schedule has; 0: as requested
  bool splits_backward = false;  // has passes I and W
};

// All schedules in reading order (what --list prints).
std::span<const Entry> table();

// By name ("1f1b"); unknown names and impossible sizes are Infeasible{"parallelism.schedule", ...}.
std::variant<Order, Infeasible> make(std::string_view name, const Request& request);

// ---------------------------------------------------------------- played on given stage times, without a cluster
struct Times {  // of a whole rank; a chunk costs 1/chunks. Any unit; results are in the same unit
  double forward = 1;
  double input_grad = 1;
  double weight_grad = 1;
  double comm = 0;  // between neighbouring stages
};

struct Played {
  struct Task {
    int rank;
    int stage;
    int micro_batch;
    Pass pass;
    double start;
    double end;
  };
  double makespan = 0;
  std::vector<double> idle;         // per rank, inside the makespan
  std::vector<double> idle_inside;  // per rank, inside the rank's own first..last span
  std::vector<int> peak_until_w;    // live chunks until the weight gradient
  std::vector<int> peak_until_i;    // until the input gradient
  std::vector<Task> tasks;          // by start time, then rank
};

// Runs an order with free or constant-time communication; a schedule that deadlocks is Infeasible.
std::variant<Played, Infeasible> play(const Order& order, const Request& request, const Times& times);

}  // namespace stepcast::schedule
