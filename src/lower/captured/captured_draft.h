// A captured world on its way: what its steps pass on (captured.cpp).
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../passes/labels.h"
#include "stepcast/lower/captured.h"

namespace stepcast::lower {

struct CapturedDraft {
  const capture::Capture& capture;
  const cluster::Topology& topology;
  const Prices& prices;
  const cost::Kernels& kernels;
  Time launch;  // host time to issue one kernel, at least, where the captured times do not count
  // Rows that the most loaded rank's experts get, over those of even routing: by program.
  std::vector<double> loads = {};
  CapturedWorld out = {};
  Labels labels = {};
  // Collectives and messages of all programs: a price key is a number here, for communicators and
  // channels of every shape.
  std::vector<std::pair<cost::Collective, std::int64_t>> collectives = {};
  std::vector<std::int64_t> messages = {};
  // By program and channel role: the group's role, places from the rank to its peer, and whether it
  // sends.
  struct ChannelUse {
    std::uint32_t group = 0;
    int step = 0;
    bool send = false;
    bool operator==(const ChannelUse&) const = default;
  };
  std::vector<std::vector<ChannelUse>> channels = {};
  std::map<std::string, Time> by_bytes = {};   // operators without a curve of their own
  std::vector<std::vector<int>> members = {};  // of each communicator
};

// What a kernel of the capture costs, and how it is slowed beside communication (row of
// World::slowdowns).
struct CapturedKernel {
  cost::Priced priced;
  std::uint8_t slowdown = 0;
  double flops = 0;
};
inline constexpr std::uint8_t kCapturedArithmetic = 1;
inline constexpr std::uint8_t kCapturedMemory = 2;
// `load`: of the rank's experts, for operators on routed rows. `relief`: captured_relief.
CapturedKernel price_captured(CapturedDraft& w, const capture::Operator& op, capture::Phase phase,
                              int launches, double load, double relief);
// The level of the rank's products over that of products alone (cost::Kernels::relief), by the
// kernels of its passes.
double captured_relief(const CapturedDraft& w, const capture::Rank& rank, double load);
// Rows or bytes under a load.
inline std::int64_t loaded(std::int64_t amount, double load) {
  return std::llround(static_cast<double>(amount) * load);
}
// The parallelism of a process group, by its name.
program::Category captured_category(const std::string& group);
DType captured_type(const std::string& type);

// The program of one recorded rank, with the prices and channels that it needs.
program::Program captured_program(CapturedDraft& w, const capture::Rank& rank);

// Communicators, channels and resources of all ranks, by the groups of the recorded ones. The
// reason where that cannot be.
std::optional<Infeasible> captured_groups(CapturedDraft& w);

}  // namespace stepcast::lower
