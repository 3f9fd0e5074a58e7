// Fits collectives to the committed nccl-tests logs:
//   fit_collectives CALIBRATION_DIRECTORY [--check]
// reads nccl/data there, writes nccl/<system>.yaml (with --check it writes nothing and ends with 1
// where a file is not what its logs give), and prints how well NCCL's plain model, the fit, and
// fits that did not see a log predict it.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "stepcast/base/diagnostics.h"
#include "stepcast/cost/nccl_fit.h"

namespace {

using namespace stepcast;
using namespace stepcast::cost;

std::string part(const NcclDeviation& d) {
  return d.points == 0 ? std::string("      -      -")
                       : fmt::format("{:6.1f} {:+6.1f}", 100 * d.median, 100 * d.bias);
}

int run(const std::filesystem::path& calibration, bool write) {
  fmt::print("{:44} {:>4} {:>4} | {:13} | {:13} | {:13} | {:13} | {}\n", "% error: median, bias",
             "<1M", ">=1M", "NCCL <1M", "NCCL >=1M", "fit <1M", "fit >=1M", "left out: std");
  int differing = 0;
  for (const NcclMeasured& m : read_nccl_data(calibration)) {
    const NcclFitted fitted = fit_nccl(m.system, m.logs, m.points, calibration);
    for (const NcclSeries& s : fitted.series) {
      fmt::print("{:44} {:4} {:4} | {} | {} | {} | {} | {:5.1f} {:5.1f}\n",
                 fmt::format("{} {} {}", m.system.name, s.collective, s.size), s.blind.small.points,
                 s.blind.large.points, part(s.blind.small), part(s.blind.large),
                 part(s.fitted.small), part(s.fitted.large), 100 * s.left_out.small.spread,
                 100 * s.left_out.large.spread);
    }
    const auto file = calibration / "nccl" / (m.system.name + ".yaml");
    if (write) {
      std::ofstream(file) << fitted.yaml;
      continue;
    }
    std::ifstream committed(file);
    const std::string text((std::istreambuf_iterator<char>(committed)),
                           std::istreambuf_iterator<char>());
    if (text != fitted.yaml) {
      fmt::print("{} is not what its logs give: run fit_collectives without --check\n",
                 file.filename().string());
      ++differing;
    }
  }
  return differing == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string option = argc > 2 ? argv[2] : "";
  if (argc < 2 || (!option.empty() && option != "--check")) {
    fmt::print(stderr, "usage: fit_collectives CALIBRATION_DIRECTORY [--check]\n");
    return 2;
  }
  try {
    return run(argv[1], option.empty());
  } catch (const InputError& e) {
    for (const auto& fault : e.faults()) {
      fmt::print(stderr, "{}\n", to_string(fault));
    }
    return 2;
  }
}
