// Measured cases of several files, each once, as what the fits take.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "stepcast/calibrate/gpu.h"
#include "stepcast/cost/kernel_fit.h"

namespace stepcast::calibrate {

struct Measured {
  interop::GpuCase what;
  std::string library;  // of GEMMs
  bool engine = false;  // from a published table: what an inference engine's layer takes
  double seconds = 0;
  double deviation = 0;  // relative, of the repetitions; 0: not known
  double alone = 0, other_alone = 0, other_together = 0;
};

struct Gathered {
  std::vector<Measured> cases;
  std::vector<result::KernelLeftOut> left_out;
  std::vector<std::string> warnings;
};

// One measurement a case: the median where files repeat it, none where they contradict each other.
Gathered gather(const std::vector<KernelFile>& files, const job::Device& device,
                const std::string& library);

// What a fit of `library`'s GEMMs takes; the first library's samples hold everything else too.
cost::KernelSamples samples_of(const std::vector<Measured>& cases, const std::string& library,
                               bool with_the_rest, const job::Device& device);

}  // namespace stepcast::calibrate
