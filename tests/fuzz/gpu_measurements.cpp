// The reader of calibrate-gpu's files: what it accepts must be written and read back unchanged.
#include "stepcast/interop/gpu_measurements.h"

#include <cmath>

#include "fuzz.h"

using namespace stepcast;

namespace {

std::string written(const interop::GpuMeasurements& all) {
  std::string text;
  int session = -1;
  for (const auto& m : all.measurements) {
    while (session < m.session) {
      ++session;
      text += to_json_line(all.sessions[static_cast<std::size_t>(session)]);
    }
    text += to_json_line(m);
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    const auto all = interop::parse_gpu_measurements(fuzz::text(data, size), "input");
    for (const auto& m : all.measurements) {
      fuzz::require(m.session >= 0 && m.session < static_cast<int>(all.sessions.size()),
                    "a measurement without a session");
      fuzz::require(m.skipped.empty() == (m.time.median > 0), "a time that is none");
      fuzz::require(std::isfinite(m.time.median) && m.time.p10 <= m.time.median &&
                        m.time.median <= m.time.p90,
                    "times that do not rise");
      fuzz::require(!to_string(m.what).empty(), "a case without a name");
    }
    const std::string text = written(all);
    const auto again = interop::parse_gpu_measurements(text, "again");
    fuzz::require(again.measurements.size() == all.measurements.size(), "a case was lost");
    fuzz::require(written(again) == text, "a record that reads back otherwise");
  });
  return 0;
}
