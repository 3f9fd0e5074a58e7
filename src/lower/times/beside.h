// What the kernels of a compute stream lose at least beside collectives on other streams.
#pragma once

#include <array>
#include <cstdint>

#include "../passes/roles.h"
#include "../passes/slowdown.h"

namespace stepcast::lower {

// LAW  Let kernels of C seconds in all run on a compute stream from s to e, and beside them, wholly
//      within that time, one collective after the other of d_i seconds; let a kernel beside the
//      i-th lose a share l_i of its speed or more. Of e - s, C is the kernels' own time, I is idle,
//      and the rest is what they lose, each l_i over the part of d_i that is not idle:
//      e >= s + C + I + sum l_i d_i - max l I.
//      Collectives of other streams make kernels slower still.
class Slowed {
 public:
  Slowed(const hardware::Device& device, const cost::Overlap& overlap)
      : device_(device), overlap_(overlap) {}

  // A collective has been launched where the compute stream stands; it ends before lost(stream).
  void launched(Role stream, const cost::CollectivePrice& price);
  // A kernel of this kind runs on the compute stream, alone in its time.
  void ran(int kind);
  // The compute stream runs no kernel.
  void idle(Time time);
  // What kernels have lost since the first collective on the stream that was launched behind the
  // last call; of streams beside each other, only one counts.
  Time lost(Role stream);

 private:
  // From the first launch on a stream to where its collectives are waited for.
  struct Window {
    bool open = false;
    std::int64_t opened = 0;  // number of the event
    std::uint32_t kinds = 0;  // of kernels, a bit each
    std::int64_t kernels = 0;
    Time idle{0};
    std::vector<std::pair<Time, std::uint16_t>> moved;  // time and pressure of each collective
  };

  const hardware::Device& device_;
  const cost::Overlap& overlap_;
  std::array<Window, kRoles> windows_;
  std::int64_t events_ = 0, counted_ = 0;  // `counted_`: up to here a loss has been counted
};

// A share of a time, rounded down.
Time share_of(Time time, std::int64_t ppm);
// The least share of their speed, in parts per million, that kernels of these kinds (a bit each)
// lose beside a communication kernel.
std::int64_t least_loss(const hardware::Device& device, const cost::Overlap& overlap,
                        std::uint32_t kinds, std::uint16_t pressure);
inline constexpr std::uint32_t kEveryKind = (1U << kArithmeticBound) | (1U << kMemoryBound);

}  // namespace stepcast::lower
