// Cases whose time is that of bytes, and those that have none: memory-bound kernels, copies,
// launches.
#include <array>
#include <cstddef>
#include <iterator>
#include <string>

#include "harness/plan.h"

namespace stepcast::harness {
namespace {

using interop::CopyCase;
using interop::GpuCase;
using interop::LaunchCase;
using interop::MemoryCase;

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;
constexpr std::int64_t kGiB = 1024 * kMiB;

// from, 4 from, ... up to `to`, ordered so that any first few span the range: ends, middle,
// quarters.
std::vector<std::int64_t> spread(std::int64_t from, std::int64_t to, std::int64_t factor) {
  std::vector<std::int64_t> rising;
  for (std::int64_t size = from; size <= to; size *= factor) {
    rising.push_back(size);
  }
  std::vector<std::int64_t> sizes;
  std::vector<bool> taken(rising.size(), false);
  const auto take = [&](std::size_t i) {
    if (i < rising.size() && !taken[i]) {
      taken[i] = true;
      sizes.push_back(rising[i]);
    }
  };
  take(rising.size() - 1);
  take(0);
  for (std::size_t step = rising.size() / 2; step > 0; step /= 2) {
    for (std::size_t i = step; i < rising.size(); i += step) {
      take(i);
    }
  }
  return sizes;
}

}  // namespace

std::vector<Strand> memory_strands(const Abilities&, const PlanOptions&) {
  struct Op {
    const char* name;
    bool backward;
  };
  constexpr std::array<Op, 9> kOps = {{{"copy", false},
                                       {"add", false},
                                       {"norm", false},
                                       {"norm", true},
                                       {"activation", false},
                                       {"activation", true},
                                       {"cross_entropy", false},
                                       {"cross_entropy", true},
                                       {"optimizer", false}}};
  Strand strand{.share = 8, .cases = {}};
  const auto add = [&](const std::vector<std::int64_t>& sizes, job::DType dtype) {
    for (const std::int64_t bytes : sizes) {
      for (const Op& op : kOps) {
        strand.cases.emplace_back(
            MemoryCase{.op = op.name, .dtype = dtype, .bytes = bytes, .backward = op.backward});
      }
    }
  };
  add(spread(4 * kKiB, 4 * kGiB, 4), job::DType::bf16);
  add(spread(8 * kKiB, 8 * kGiB, 4), job::DType::bf16);
  add(spread(64 * kKiB, 4 * kGiB, 64), job::DType::fp32);
  return {strand};
}

std::vector<Strand> copy_strands() {
  struct Way {
    const char* direction;
    bool pinned;
  };
  constexpr std::array<Way, 6> kWays = {{{"h2d", true},
                                         {"d2h", true},
                                         {"both", true},
                                         {"d2d", true},
                                         {"h2d", false},
                                         {"d2h", false}}};
  Strand strand{.share = 5, .cases = {}};
  for (const std::int64_t bytes : spread(4 * kKiB, kGiB, 4)) {
    for (const Way& way : kWays) {
      strand.cases.emplace_back(
          CopyCase{.direction = way.direction, .pinned = way.pinned, .bytes = bytes});
    }
  }
  return {strand};
}

std::vector<Strand> launch_strands() {
  Strand strand{.share = 20, .cases = {}};  // few and short: first
  for (const char* what : {"launch", "gap", "graph_launch", "graph_kernel", "event_record",
                           "stream_wait", "synchronize"}) {
    strand.cases.emplace_back(LaunchCase{.what = what});
  }
  return {strand};
}

}  // namespace stepcast::harness
