// A capture to programs: recorded ranks, priced on a cluster, as a world of all its ranks.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/capture/capture.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/job/job.h"
#include "stepcast/lower/lower.h"
#include "stepcast/program/program.h"
#include "stepcast/terms/number_format.h"

namespace stepcast::lower {

// A process group of a recorded rank, and the algorithms that NCCL runs on it (a bit for each, cost/buffers.h).
struct CapturedGroup {
  std::string name;
  program::Category category = program::Category::data;  // of its exposed communication
  cluster::GroupShape shape;
  unsigned algorithms = 0;
};

struct CapturedWorld {
  program::World world;                            // a program for each recorded rank
  std::vector<std::vector<CapturedGroup>> groups;  // by program: its communicators' roles
  // By program: FLOPs of products and attention in a step, half of the scores of causal attention; what is recomputed apart.
  std::vector<double> flops, recomputed;
  std::vector<double> loads;           // by program: rows of its experts over those of even routing
  DType type = DType::bf16;            // of the operands of most FLOPs
  std::vector<std::string> operators;  // without a curve of their own, bound by their bytes: those of most time first
};

// LAW: rank r runs the program of capture::recorded_for(r), and its groups are those of the recorded rank, moved to r's
// place. Infeasible where the cluster has another number of GPUs, unlike devices, or a group is no lattice of ranks.
// `launch`: host time to issue one kernel, at least, where the captured times do not count. `loads`: by recorded rank,
// rows of its experts over those of even routing; every rank runs what the most loaded one of its group does, as in jobs.
std::variant<CapturedWorld, Infeasible> build_world(const capture::Capture& capture, const cluster::Topology& topology,
                                                    const Prices& prices, Time launch, std::vector<double> loads);

// Device memory of the context and its kernels; `stated`: where the user states it, else 0.
double context_bytes(Bytes stated, const hardware::Device& device);

}  // namespace stepcast::lower
