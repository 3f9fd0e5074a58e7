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

// B is input and weight gradient in one pass (I + W). S and T: the vocabulary passes (2411.05288) that every rank runs for
// every micro-batch on its own rows of the vocabulary: S the output layer's forward, T its backward (Order::barriers says
// who waits for whom).
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
  double weight_memory = 1;     // of a micro-batch's activations, held from its input gradient to its weight gradient
  std::string vocabulary = {};  // "", "vocab_1", "vocab_2": passes S and T are woven in (or named: "1f1b+vocab_1")
};

// One order per pipeline rank.
struct Order {
  std::vector<std::vector<Slot>> ranks;
  Placement placement = Placement::loop;
  int chunks = 0;  // per rank; 0: the request's
  // Communication barriers of the vocabulary passes. S waits for the last stage's F everywhere. 2: T waits for every rank's
  // S, the last stage's backward for every rank's T. 1: T and the last stage's backward wait for every rank's S. 0: no S, T.
  int barriers = 0;
};

struct Entry {
  std::string_view name;
  std::string_view summary;  // one line, with its source
  std::variant<Order, Infeasible> (*make)(const Request&);
  Placement placement = Placement::loop;
  int chunks = 0;                // chunks per rank that the schedule has; 0: as requested
  bool splits_backward = false;  // has passes I and W
  // Chunks follow each other in the model's order, backwards are whole, and a rank's messages wait for nothing but its own
  // passes: the loops that Megatron-LM runs.
  bool plain_loop = false;
  bool has_pairs = false;          // its order runs forwards and backwards side by side (Slot::with_next)
  bool can_pair = false;           // one more forward in its warm-up lets them run side by side
  bool orders_by_times = false;    // its order follows from the times of passes
  bool splits_vocabulary = false;  // embedding and output layer lie on all ranks in any case
  bool takes_group = false;        // what else of a request it reads; make() refuses what it does not
  bool takes_warmup = false;
  bool takes_memory_limit = false;
  bool takes_vocabulary = false;
};

// All schedules in reading order (what --list prints).
std::span<const Entry> table();

// Their names as messages list them.
std::span<const std::string_view> names();

// The name of the schedule that a job has which names none: by its model chunks per rank.
std::string_view implied(int chunks);

// The entry of a name, with or without "+vocab_1" or "+vocab_2"; null when there is none.
const Entry* find(std::string_view name);

// By name ("1f1b", "1f1b+vocab_1"); unknown names and impossible sizes are Infeasible{"parallelism.schedule", ...}. A
// schedule whose entry fixes its chunks is made with those from a request for 1 or as many.
std::variant<Order, Infeasible> make(std::string_view name, const Request& request);

// A table in the format of PyTorch's pipelining runtime: a row a rank, a cell an action: stage, pass, micro-batch ("0F3");
// "(0F1;3B0)OVERLAP_F_B" for a pair; empty cells wait; cells of communication and of FSDP (RECV_F, UNSHARD, ...) are read
// over. Placement, chunks and barriers are deduced; every pass must run once and no rank wait for ever. Passes S and T are
// written alike, which PyTorch itself does not know. Infeasible names row and cell, counted from 1.
std::variant<Order, Infeasible> from_csv(std::string_view text);
std::string to_csv(const Order& order, int stages);

// Stages, micro-batches and chunks of a complete order (from a table).
Request request_of(const Order& order);

// ---------------------------------------------------------------- played on given stage times, without a cluster
// Of a whole rank: a chunk costs 1/chunks; of a bidirectional placement, where either chunk is a whole stage of its
// replica, all of it. A pair that runs side by side starts when both passes can and takes the time of both. Any unit;
// results are in the same unit.
struct Times {
  double forward = 1;
  double input_grad = 1;
  double weight_grad = 1;
  double comm = 0;        // between neighbouring stages
  double vocabulary = 0;  // passes S and T
  double vocabulary_grad = 0;
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
