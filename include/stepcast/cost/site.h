// A few factors of a site's machines, fitted to steps measured there, on top of curves that were
// measured elsewhere. A site file is written by `simulate calibrate runs` and named under
// `calibration:` of a job.
//
//   kind: site
//   name: lab
//   devices: [h100-sxm]      # clock and overlap hold for these
//   system: megatron-lm      # launch and layer hold for it
//   fabric: quantum-2        # the factor `fabric` holds for it
//   provenance: "..."
//   scatter: 0.036           # relative standard deviation of steps about the forecast
//   parameters:              # deviation: standard deviation; 0: the file does not change it
//     clock: {value: 0.93, prior: 1, deviation: 0.021, determined: true}
//     ...
//   correlations:
//     - {of: [clock, launch], value: -0.42}
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/spelling.h"

namespace stepcast::cost {

enum class SiteParameter {
  clock,    // rates that arithmetic bounds, over the calibration's
  launch,   // host time to issue one kernel, seconds
  layer,    // extra host time per layer and pass, seconds
  overlap,  // time that kernels lose beside communication, over the calibration's
  fabric,   // bandwidth of the network between nodes, over the calibration's
};
inline constexpr int kSiteParameters = 5;

constexpr auto spellings(SiteParameter) {
  return std::to_array<Spelling<SiteParameter>>({{SiteParameter::clock, "clock"},
                                                 {SiteParameter::launch, "launch"},
                                                 {SiteParameter::layer, "layer"},
                                                 {SiteParameter::overlap, "overlap"},
                                                 {SiteParameter::fabric, "fabric"}});
}

const char* describe(SiteParameter p);  // in words, for reports

struct SiteValue {
  double value = 0;
  double prior = 0;
  // Standard deviation of ln(value); for `layer`, which may be 0, of the value in seconds. 0: forecasts use the same
  // deviation as without the file.
  double deviation = 0;
  bool determined = false;  // false: `value` is `prior`
  std::string reason;       // why it is not determined
};

struct Site {
  std::string name;
  std::string file;                  // as a job names it
  std::vector<std::string> devices;  // empty: all
  std::string system;
  std::string fabric;
  std::string provenance;
  // Relative standard deviation of steps from the forecast with the site's parameters: errors of single shapes, averaged
  // over a step, and noise.
  double scatter = 0;
  std::array<SiteValue, kSiteParameters> values;  // as without any site: see Site()
  std::array<std::array<double, kSiteParameters>, kSiteParameters> correlation{};

  Site();
  SiteValue& operator[](SiteParameter p) { return values[static_cast<std::size_t>(p)]; }
  const SiteValue& operator[](SiteParameter p) const { return values[static_cast<std::size_t>(p)]; }
};

// The range that physics allows for a value.
struct SiteRange {
  double low = 0;
  double high = 0;
};
SiteRange range_of(SiteParameter p);

// Throws InputError with the line of what is wrong.
Site read_site(const std::filesystem::path& file);
std::string to_yaml(const Site& site);

// Removes the site file from a job's list of calibration files and reads it. Names are looked for as paths, then below
// `directory`; other files stay in the list. Two site files are an InputError.
std::optional<Site> take_site(std::vector<std::string>& calibration, const std::filesystem::path& directory);

}  // namespace stepcast::cost
