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

// A pass of one micro-batch through one model chunk. B computes the input gradient and the weight gradient in one pass
// (I + W). S and T are the vocabulary passes (2411.05288): every rank runs them for every micro-batch on its own rows of the
// vocabulary. S is the forward pass of the output layer, T its backward pass; Order::barriers says which passes wait for
// them.
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
  bool with_next = false;  // runs at the same time as the next slot of this rank, as DualPipe's F&B does
  bool operator==(const Slot&) const = default;
};

// The global stage that a chunk of rank r is, among p ranks.
// loop: chunk * p + r. vee: even chunks follow the ranks downwards, odd chunks come back upwards (ZB-V: chunk 1 of rank r is
// stage 2p - 1 - r). bidirectional: the ranks hold two replicas of the model; chunk 0 is stage r of the first replica,
// chunk 1 is stage p - 1 - r of the second (DualPipe, Chimera). Both replicas share one numbering of micro-batches; a
// chunk runs those that its slots name.
enum class Placement { loop, vee, bidirectional };

int stage_of(Placement placement, int stages, int rank, int chunk);

struct Request {
  int stages = 1;         // pipeline ranks p
  int micro_batches = 1;  // m
  int chunks = 1;         // model chunks per rank v
  int group = 0;          // micro-batches per virtual-pipeline group N; 0: p
  int extra_warmup = 0;
  // For automatic schedules: the times of a whole rank's passes and of one message in any one unit, and the limit of live
  // activations as a multiple of the peak of 1F1B on the first rank.
  double forward = 1;
  double input_grad = 1;
  double weight_grad = 1;
  double comm = 0;
  double memory_limit = 1;
  double weight_memory = 1;     // share of a micro-batch's activations that is held from its I to its W
  std::string vocabulary = {};  // "vocab_1" or "vocab_2": the order has passes S and T; the name may say it: "1f1b+vocab_1"
  bool oldest_first = false;    // gpipe's backward passes: else the youngest micro-batch first
  bool round_forwards_first = false;  // interleaved 1F1B of one round, m = p: all forwards, then all backwards
  bool pairs = false;  // forwards behind the warm-up run side by side with the backward that follows (Slot::with_next)
  bool operator==(const Request&) const = default;
};

// One order per pipeline rank.
struct Order {
  std::vector<std::vector<Slot>> ranks;
  Placement placement = Placement::loop;
  int chunks = 0;  // model chunks per rank; 0: as many as were requested
  // Communication barriers of the vocabulary passes. On every rank S waits for the last stage's F. With 2 barriers T waits
  // for the S of every rank, and the last stage's backward pass for the T of every rank. With 1 barrier both T and the
  // last stage's backward pass wait for the S of every rank. 0: the order has no S and T.
  int barriers = 0;
  bool operator==(const Order&) const = default;
};

struct Entry {
  std::string_view name;
  std::string_view summary;  // one line, with its source
  std::variant<Order, Infeasible> (*make)(const Request&);
  Placement placement = Placement::loop;
  int chunks = 0;                // model chunks per rank that the schedule has; 0: as many as are requested
  bool splits_backward = false;  // has passes I and W
  // Chunks follow each other in the model's order, backwards are whole, and a rank's messages wait for nothing but its own
  // passes: the loops that Megatron-LM runs.
  bool plain_loop = false;
  bool has_pairs = false;          // its order runs forwards and backwards side by side (Slot::with_next)
  bool can_pair = false;           // one more forward in its warm-up lets them run side by side
  bool orders_by_times = false;    // its order follows from the times of passes
  bool splits_vocabulary = false;  // embedding and output layer lie on all ranks in any case
  bool takes_group = false;        // fields of a request that the schedule reads; make() refuses those that it does not
  bool takes_warmup = false;
  bool takes_memory_limit = false;
  bool takes_vocabulary = false;
};

// All schedules in reading order, which --list prints.
std::span<const Entry> table();

// The names of all schedules in the order in which messages list them.
std::span<const std::string_view> names();

// The name of the schedule of a job that names none; it follows from the job's model chunks per rank.
std::string_view implied(int chunks);

// The entry of a name, with or without "+vocab_1" or "+vocab_2"; nullptr where no schedule has the name.
const Entry* find(std::string_view name);

// Makes the order of a named schedule ("1f1b", "1f1b+vocab_1"). Unknown names and impossible sizes are
// Infeasible{"parallelism.schedule", ...}. A schedule whose entry fixes the number of chunks takes requests for 1 chunk or
// for that number, and makes that number.
std::variant<Order, Infeasible> make(std::string_view name, const Request& request);

// Reads a table in the format of PyTorch's pipelining runtime. A row is a rank and a cell is an action: stage, pass,
// micro-batch ("0F3"), or "(0F1;3B0)OVERLAP_F_B" for a pair. A rank waits in an empty cell. Cells of communication and of
// FSDP (RECV_F, UNSHARD, ...) are ignored. Placement, chunks and barriers follow from the table. Every pass must run exactly
// once, and no rank may wait for ever. Passes S and T are written in the same form, which PyTorch itself does not read.
// Infeasible names row and cell, counted from 1; with a `place`, that says where instead.
struct TablePlace {
  int line = 1;
  int column = 1;  // in bytes, as of all files
};
std::variant<Order, Infeasible> from_csv(std::string_view text, TablePlace* place = nullptr);
std::string to_csv(const Order& order, int stages);

// The stages, micro-batches and chunks of a complete order, such as one read from a table.
Request request_of(const Order& order);

// ---------------------------------------------------------------- played on given stage times, without a cluster
// The time of each pass of a whole rank, in any one unit; results are in the same unit. A pass of one chunk takes 1/chunks
// of it, except in a bidirectional placement, where each chunk is a whole stage of its replica and takes all of it. A pair
// that runs side by side starts when both passes can start and takes the time of both.
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
