// For which GPU a product is set up.
#pragma once

#include <string>

namespace stepcast::harness::cuda {

struct GpuTarget {
  double compute_capability = 0;  // of an NVIDIA GPU: 9.0 is Hopper
  std::string architecture;  // of an AMD GPU, without its features: "gfx942" is MI300; "": NVIDIA's
  GpuTarget(double capability) : compute_capability(capability) {}
  explicit GpuTarget(std::string gfx) : architecture(std::move(gfx)) {}
  bool amd() const { return !architecture.empty(); }
};

}  // namespace stepcast::harness::cuda
