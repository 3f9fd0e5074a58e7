// What kernels lose beside communication, as tables for the engine.
#pragma once

#include <cstdint>

#include "stepcast/cost/collectives.h"
#include "stepcast/cost/kernels.h"
#include "stepcast/hardware/hardware.h"
#include "stepcast/program/program.h"

namespace stepcast::lower {

// Kinds of kernels: eighths of their time that memory bandwidth bounds; arithmetic bounds the rest.
inline constexpr std::uint8_t kArithmeticBound = 0;
inline constexpr std::uint8_t kMemoryBound = 8;
inline constexpr int kKernelKinds = 9;

// Two shares in one number that adds up over the communication kernels on a GPU: SMs held in the
// low byte, 128ths of the memory bandwidth above.
std::uint16_t pressure_of(const cost::CollectivePrice& price, Bandwidth memory);
// The same while it waits for its peers: its thread blocks poll, and move nothing.
std::uint16_t pressure_of_waiting(const cost::CollectivePrice& price);

// LAW: with a share s of the SMs and h of the memory bandwidth taken, arithmetic runs at 1 - a s
// and memory at 1 - b h; what does not bound a kernel does not slow it. A kind's parts follow each
// other: 1 / speed = (1 - w) / (1 - a s) + w / (1 - b h). a and b are 1 where the device's overlap
// was not measured (calibration/<device>/overlap.yaml). The collective is not slowed in return: the
// engine has one direction, and prices of collectives are of those alone.
program::Slowdown slowdown_of(const hardware::Device& device, int kind,
                              const cost::Overlap& overlap = {});

// One entry of that table: parts per million of its speed that a kernel of this kind keeps beside
// one communication kernel.
std::int64_t speed_beside(const hardware::Device& device, int kind, const cost::Overlap& overlap,
                          std::uint16_t pressure);

}  // namespace stepcast::lower
