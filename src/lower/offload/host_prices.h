// Host link, node memory, CPUs and NVMe drives: what moving bytes there costs, and which ranks
// share them.
#pragma once

#include <cstdint>
#include <vector>

#include "../passes/passes.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/lower/lower.h"

namespace stepcast::lower {

// Resources of a movement's price, whose weights they number as cluster::ResourceKind does others.
enum HostResource : std::uint32_t {
  kToDevice,  // a GPU's link, and the PCIe switch's above it
  kToHost,
  kDram,
  kNvme,  // reads and writes share the drives: a write counts as many times as reads are faster
};

// Share of the data sheet's DRAM bandwidth that streams reach: STREAM triad of 2 x EPYC 7742, 340
// of 409.6 GB/s, and of 2 x Xeon 8480+, 500 of 614.4 GB/s (vendors' tuning guides, from memory).
inline constexpr double kDramShare = 0.82;
// DeepSpeed's CPU Adam on a DGX-2 (2 x 24 cores, 256 GB/s): 0.22, 0.51, 1.03, 2.41, 2.57 s for 1,
// 2, 4, 8, 10 billion parameters; PyTorch's own 1.39, 2.75, 5.71, 11.93, 14.76 s (Ren et al.,
// ZeRO-Offload, 2101.06840, table 4, from memory). It touches 30 bytes a parameter: the median, 3.9
// billion a second, is 0.46 of the data sheet's bandwidth. PyTorch's takes 5.5 times as long.
inline constexpr double kCpuAdamShare = 0.46;
inline constexpr double kUnfusedCpuAdam = 5.5;
// Memory bandwidth that one core reaches: single-core STREAM of Skylake to Sapphire Rapids, 11 to
// 14 GB/s (from memory).
inline constexpr double kCoreBandwidth = 12e9;  // bytes per second
// Time until a drive's first byte: 80 to 100 us in data sheets of NVMe flash drives.
inline constexpr std::int64_t kNvmeLatency = 90'000'000;  // picoseconds
// Drives and CPU Adam were not measured for this project; the five points above lie within 0.15 of
// each other.
inline constexpr double kHostResidual = 0.25;

// Adds prices of the book's movements, by device, the nodes' resources and which rank uses them.
// `kernels`, `devices`: by row; `rows`: by rank. `first_curve`: the world's number of the first of
// the returned curves, those of CPUs and drives. A book without movements adds nothing.
std::vector<program::Curve> add_host(program::World& world, const strategy::Plan& plan,
                                     const cluster::Topology& topology, const PriceBook& book,
                                     Labels& labels,
                                     const std::vector<const cost::Kernels*>& kernels,
                                     const std::vector<const hardware::Device*>& devices,
                                     const std::vector<int>& rows, program::CurveId first_curve);

}  // namespace stepcast::lower
