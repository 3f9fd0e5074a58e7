#include "harness/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>

#include "harness/statistics.h"

namespace stepcast::harness {
namespace {

// Data sheets say little about the host: what has been run of a kind corrects what is to come.
class Pace {
 public:
  double of(double estimated) const {
    return estimated * (estimated_ < kEnough ? 1.0 : std::clamp(spent_ / estimated_, 0.25, 4.0));
  }
  void add(double estimated, double spent) {
    estimated_ += estimated;
    spent_ += spent;
  }

 private:
  static constexpr double kEnough = 2;  // s
  double estimated_ = 0, spent_ = 0;
};

}  // namespace

RunResult run(Device& device, const std::vector<Planned>& plan, const Policy& policy, double budget,
              Output& output, Progress& progress, const std::function<bool()>& stop,
              const std::function<double()>& clock) {
  RunResult result;
  std::array<Pace, kKinds.size()> paces;
  const double start = clock();
  for (const Planned& planned : plan) {
    if (output.has(planned.key)) {
      ++result.before;
      continue;
    }
    Pace& pace = paces.at(planned.what.index());
    const double begun = clock() - start;
    if (result.interrupted || !result.failure.empty() ||
        begun + pace.of(planned.seconds) > budget) {
      ++result.left_over;
      result.left_over_seconds += pace.of(planned.seconds);
      continue;
    }
    if (stop()) {
      result.interrupted = true;
      ++result.left_over;
      result.left_over_seconds += pace.of(planned.seconds);
      continue;
    }
    progress.start(result.before + result.measured + result.skipped, begun, planned.key);
    interop::GpuMeasurement m;
    m.what = planned.what;
    try {
      const Samples samples = device.run(planned.what, policy);
      m.time = summarize(samples.seconds);
      m.alone = samples.alone;
      m.other_alone = samples.other_alone;
      m.other_together = samples.other_together;
      m.sm_clock = samples.sm_clock;
      m.power = samples.power;
      m.temperature = samples.temperature;
      ++result.measured;
      if (is_wide(m.time)) {
        ++result.wide;
      }
      pace.add(planned.seconds, clock() - start - begun);
    } catch (const NotBuiltIn&) {
      ++result.not_built_in;
      continue;
    } catch (const Unsupported& e) {
      m.skipped = e.what();
      ++result.skipped;
    } catch (const std::exception& e) {
      // In the file, so that the same command goes on behind it.
      m.skipped = fmt::format("the device failed: {}", e.what());
      result.failure = fmt::format("{}: {}", planned.key, e.what());
    }
    if (m.skipped.empty() && !std::isfinite(m.sm_clock + m.power + m.temperature)) {
      m.sm_clock = m.power = m.temperature = 0;
    }
    output.append(m);
  }
  result.elapsed = clock() - start;
  progress.clear();
  return result;
}

}  // namespace stepcast::harness
