// Goodput: a long run with failures, checkpoints and repairs, by event simulation.
//
// Failures of all components are Poisson processes. A run trains for `interval`, stands for the checkpoint's pause, and so
// on; a failure costs what was trained since the last durable checkpoint, its detection, the restart, reading the
// checkpoint and, where no spare node is left, waiting for a repair.
// ORACLE without spares, stragglers and asynchronous writes the share that trains is Daly's (A higher order estimate of the
// optimum checkpoint interval, FGCS 22, 2006, eq. 13): interval / ((e^{(interval + pause) / M} - 1) M e^{down / M}).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/job/job.h"
#include "stepcast/result/goodput.h"
#include "stepcast/result/report.h"

namespace stepcast::planner {

using Seconds = std::chrono::duration<double>;  // of a whole run: days outlast Time

// What fails, of which there are as many as the cluster has GPUs, network ports, nodes; or one of the job.
enum class Component { gpu, nic, node, job };

struct FailureKind {
  std::string name;
  Component of = Component::gpu;
  double per_hour = 0;  // of one component
};

// GPUs that run slow without failing. The whole job steps at their pace until they are found and replaced.
struct Stragglers {
  double per_hour = 0;  // of one GPU
  double slowdown = 1;  // of the step
  Seconds detection{0};
};

struct Operations {
  std::string name;
  std::vector<FailureKind> failures;
  Seconds detection{0};       // from a failure until the job is stopped
  Seconds restart{0};         // scheduling, processes, communicators, warm-up
  Seconds repair{0};          // of a node, which is a spare from then on
  int spares = 0;             // nodes
  Bandwidth storage{0};       // of the whole file system, writing and reading
  Bandwidth node_storage{0};  // of one node to it
  Bandwidth snapshot{0};      // of one GPU into host memory, where checkpoints are written behind training
  bool asynchronous = false;
  Seconds data_stall{0};  // of a step: waiting for the next batch
  Stragglers stragglers;
};

// configs/operations/NAME.yaml, or a path. Throws InputError, one fault for each wrong key.
Operations read_operations(const std::filesystem::path& file);

// Bytes of a checkpoint: parameters with master copies and moments, as the job keeps them.
double checkpoint_bytes(const job::Job& job);

// What a simulated run needs to know of the job.
struct Campaign {
  Seconds step{0};
  int gpus = 1, nodes = 1, nics = 0;
  double checkpoint = 0;  // bytes
};
Campaign campaign_of(const job::Job& job, Seconds step);

struct CheckpointTimes {
  Seconds pause{0};    // training stands
  Seconds durable{0};  // from the pause's begin until the checkpoint can be read back
  Seconds load{0};
};
CheckpointTimes checkpoint_times(const Operations& operations, const Campaign& campaign);

// Failures an hour, all components together.
double failures_per_hour(const Operations& operations, const Campaign& campaign);

// First order (Young, CACM 17, 1974) and Daly's (eq. 37) interval of training between checkpoints.
Seconds young_interval(Seconds pause, Seconds mean_time_between_failures);
Seconds daly_interval(Seconds pause, Seconds mean_time_between_failures);

// Expected share of the wall clock that trains.
double expected_share(const Operations& operations, const Campaign& campaign, Seconds interval);
// The interval of the largest expected share, at least a step and, written behind training, a write.
Seconds best_interval(const Operations& operations, const Campaign& campaign);

struct GoodputRequest {
  Seconds duration = std::chrono::hours(24 * 30);  // of a run, wall clock
  Seconds interval{0};                             // 0: best_interval
  int runs = 200;
  std::uint64_t seed = 1;
};

// The runs, `losses` and interval; the caller adds the job's own figures.
result::Goodput simulate_runs(const Operations& operations, const Campaign& campaign, const GoodputRequest& request);

// Of a forecast job: tokens a day, days of workload.tokens.
result::Goodput goodput(const job::Job& job, const result::Report& report, const Operations& operations,
                        const GoodputRequest& request);

}  // namespace stepcast::planner
