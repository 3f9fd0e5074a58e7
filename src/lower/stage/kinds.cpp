#include "kinds.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "../passes/passes.h"
#include "stepcast/base/diagnostics.h"

namespace stepcast::lower {

Kinds::Kinds(const strategy::Plan& plan, const cluster::Topology& topology)
    : batch_of_(plan.batch_of) {
  std::map<std::string, int> rows;
  const bool uniform = plan.cluster.overrides.empty();
  for (int rank = 0; rank < topology.devices(); ++rank) {
    const hardware::Device& device = topology.device(rank);
    const auto [row, fresh] = rows.emplace(device.name, static_cast<int>(devices_.size()));
    if (fresh) {
      devices_.push_back(&device);
    }
    if (uniform) {
      break;
    }
    device_of_.push_back(row->second);
  }
  const std::size_t batches = std::max<std::size_t>(1, plan.batches.size());
  for (std::size_t n = 0; n < batches; ++n) {
    plans_.push_back(strategy::of_batch(plan, n));
  }
  // Of one batch, every device has a kind; else those that some rank is.
  constexpr auto kNone = static_cast<std::size_t>(-1);
  number_.assign(batches * devices_.size(), kNone);
  const auto add = [&](int batch, int device) {
    std::size_t& number = number_[static_cast<std::size_t>(batch) * devices_.size() +
                                  static_cast<std::size_t>(device)];
    if (number == kNone) {
      number = all_.size();
      all_.push_back({device, batch});
    }
  };
  if (batches == 1) {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      add(0, static_cast<int>(d));
    }
    return;
  }
  for (int rank = 0; rank < plan.grid.ranks(); ++rank) {
    const int data = cluster::coordinates(plan.grid, rank).data;
    add(batch_of_[static_cast<std::size_t>(data)], device_of(rank));
  }
}

std::size_t Kinds::kind_of(int rank, int data) const {
  const int batch = batch_of_.empty() ? 0 : batch_of_[static_cast<std::size_t>(data)];
  return number_[static_cast<std::size_t>(batch) * devices_.size() +
                 static_cast<std::size_t>(device_of(rank))];
}

namespace {

// Groups within one data-parallel rank; experts lie among ranks of one batch.
bool in_one_batch(std::uint32_t role) {
  switch (role) {
    case kData:
    case kReplicas:
    case kAllData:
    case kNorm:
    case kExpertData:
    case kExpertReplicas:
    case kAllExpertData:
    case kPartition:
    case kNode:
    case kAcross:
      return false;
    default:
      return true;
  }
}

}  // namespace

void check_collectives(const std::vector<program::Program>& programs, std::size_t stages) {
  const auto calls = [&](std::size_t p) {
    std::map<std::uint32_t, std::vector<std::uint32_t>> prices;  // by role
    for (const program::Task& t : programs[p].tasks) {
      if (t.kind == program::TaskKind::collective && !in_one_batch(t.communicator)) {
        prices[t.communicator].push_back(t.price);
      }
    }
    return prices;
  };
  for (std::size_t p = stages; p < programs.size(); ++p) {
    STEPCAST_CHECK(calls(p) == calls(p % stages),
                   "data-parallel ranks of unlike batches meet in unlike collectives");
  }
}

}  // namespace stepcast::lower
