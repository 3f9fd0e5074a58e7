// The readers of calibration files: curves of kernels, of collectives, and a site's factors.
#include <cmath>

#include "cost/calibration_file.h"
#include "cost/nccl_calibration.h"
#include "fuzz.h"
#include "stepcast/cost/site.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

void check(const cost::NcclFile& file) {
  for (const auto& fits : file.fits) {
    int before = 0;
    for (const cost::SizedFit& sized : fits) {
      fuzz::require(sized.size >= before, "sizes that descend");
      before = sized.size;
      fuzz::require(std::isfinite(sized.fit.latency), "a latency that is no number");
      for (const double share : sized.fit.log2_share) {
        fuzz::require(std::isfinite(share), "a share that is no number");
      }
    }
  }
}

void check(const cost::CalibrationFile& file) {
  for (const auto& [type, curve] : file.gemm) {
    fuzz::require(std::isfinite(curve.residual) && curve.residual >= 0, "a residual below 0");
  }
  for (const auto& [op, curve] : file.memory) {
    fuzz::require(std::isfinite(curve.share) && std::isfinite(curve.fixed),
                  "a curve that is no number");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text(data, size);
  fuzz::read([&] { check(cost::to_calibration(text::parse_yaml(text, "fuzz.yaml"))); });
  const std::string file = fuzz::file_with(text, ".yaml");
  fuzz::read([&] { check(cost::to_nccl(file, "fuzz")); });
  fuzz::read([&] {
    const cost::Site site = cost::read_site(file);
    fuzz::require(std::isfinite(site.scatter), "a scatter that is no number");
  });
  return 0;
}
