// Goodput: the event simulation of a long run with failures, checkpoints and repairs.
//
// Failures of all components are Poisson processes. A run trains for `interval`, pauses for a checkpoint, trains again, and
// so on. A failure costs the training since the last durable checkpoint, its detection, the restart, reading the checkpoint
// and, if no spare node is left, waiting for a repair. ORACLE without spares, stragglers and asynchronous writes, the share
// that trains is Daly's (A higher order estimate of the optimum checkpoint interval, FGCS 22, 2006, eq. 13): interval /
// ((e^{(interval + pause) / M} - 1) M e^{down / M}).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/base/spelling.h"
#include "stepcast/job/job.h"
#include "stepcast/result/goodput.h"
#include "stepcast/result/report.h"

namespace stepcast::planner {

using Seconds = std::chrono::duration<double>;  // for whole runs, whose days exceed the range of Time

// The kind of component that fails: one for each GPU, network port or node of the cluster, or one for the whole job.
enum class Component { gpu, nic, node, job };

struct FailureKind {
  std::string name;
  Component of = Component::gpu;
  double per_hour = 0;  // failures of one component
};

// GPUs that become slow without failing. The whole job runs at their pace until they are detected and replaced.
struct Stragglers {
  double per_hour = 0;  // events of one GPU
  double slowdown = 1;  // of the step, at least 1
  Seconds detection{0};
};

struct Operations {
  std::string name;
  std::vector<FailureKind> failures;
  Seconds detection{0};       // from a failure until the job is stopped
  Seconds restart{0};         // scheduling, starting processes, creating communicators, warming up
  Seconds repair{0};          // of a node, which is then a spare
  int spares = 0;             // nodes
  Bandwidth storage{0};       // of the whole file system, for writing and for reading
  Bandwidth node_storage{0};  // between one node and the file system
  Bandwidth snapshot{0};      // from one GPU to host memory, where checkpoints are written while training goes on
  bool asynchronous = false;
  Seconds data_stall{0};  // time that each step waits for its batch
  Stragglers stragglers;
};

// Reads configs/operations/NAME.yaml, or a path. Throws InputError with a fault for each wrong key.
Operations read_operations(const std::filesystem::path& file);

// Bytes of a checkpoint: parameters, master copies and moments in the number formats in which the job keeps them.
double checkpoint_bytes(const job::Job& job);

// What takes wall clock from training.
enum class Loss { checkpoint, redone, down, repair, slow, data };

constexpr auto spellings(Loss) {
  return std::to_array<Spelling<Loss>>({{Loss::checkpoint, "checkpoints"},
                                        {Loss::redone, "work done again"},
                                        {Loss::down, "detection and restart"},
                                        {Loss::repair, "waiting for repair"},
                                        {Loss::slow, "slowed by stragglers"},
                                        {Loss::data, "waiting for data"}});
}

// What a simulated run depends on.
struct Campaign {
  Seconds step{0};
  int gpus = 1, nodes = 1, nics = 0;
  double checkpoint = 0;  // bytes
};
Campaign campaign_of(const job::Job& job, Seconds step);

struct CheckpointTimes {
  Seconds pause{0};    // time for which training stops
  Seconds durable{0};  // from the beginning of the pause until the checkpoint can be read back
  Seconds load{0};
};
CheckpointTimes checkpoint_times(const Operations& operations, const Campaign& campaign);

// Failures of all components together per hour.
double failures_per_hour(const Operations& operations, const Campaign& campaign);

// The interval of training between checkpoints, by Young's first-order formula (CACM 17, 1974) and by Daly's (eq. 37).
Seconds young_interval(Seconds pause, Seconds mean_time_between_failures);
Seconds daly_interval(Seconds pause, Seconds mean_time_between_failures);

// The expected share of the wall clock that trains.
double expected_share(const Operations& operations, const Campaign& campaign, Seconds interval);
// The interval with the largest expected share. It is at least one step and, where checkpoints are written while training
// goes on, at least one write.
Seconds best_interval(const Operations& operations, const Campaign& campaign);

struct GoodputRequest {
  Seconds duration = std::chrono::hours(24 * 30);  // of a run, by the wall clock
  Seconds interval{0};                             // 0: best_interval
  int runs = 200;
  std::uint64_t seed = 1;
  bool between_steps = false;  // the interval is a whole number of steps, one at least
};

// Simulates the runs and fills `losses` and the interval; the caller adds the figures of the job.
result::Goodput simulate_runs(const Operations& operations, const Campaign& campaign, const GoodputRequest& request);

// The goodput of a forecast job, with its tokens per day and the days that workload.tokens take.
result::Goodput goodput(const job::Job& job, const result::Report& report, const Operations& operations,
                        const GoodputRequest& request);

}  // namespace stepcast::planner
