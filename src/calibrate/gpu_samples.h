// Collects measured cases of several files, each once, and converts them to samples for the fits.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "stepcast/calibrate/gpu.h"
#include "stepcast/cost/kernel_fit.h"

namespace stepcast::calibrate {

struct Measured {
  interop::GpuCase what;
  std::string library;  // for GEMMs
  bool engine = false;  // from a published table, which times layers of an inference engine
  double seconds = 0;
  double deviation = 0;  // relative, among repetitions; 0: not known
  double alone = 0, other_alone = 0, other_together = 0;
};

struct Gathered {
  std::vector<Measured> cases;
  std::vector<result::KernelLeftOut> left_out;
  std::vector<std::string> warnings;
};

// Keeps one measurement of each case: the median where files repeat it, none where they contradict
// each other.
Gathered gather(const std::vector<KernelFile>& files, const job::Device& device,
                const std::string& library);

// Samples for the fit of `library`'s GEMMs. The samples of the first library also hold everything
// else.
cost::KernelSamples samples_of(const std::vector<Measured>& cases, const std::string& library,
                               bool with_the_rest, const job::Device& device);

}  // namespace stepcast::calibrate
