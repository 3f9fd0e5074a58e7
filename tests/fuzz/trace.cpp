// The reader of profiles, and the sums over what it read.
#include "fuzz.h"
#include "stepcast/trace/profile.h"

using namespace stepcast;

namespace {

void check(const result::TraceShare& s) {
  fuzz::require(s.compute + s.communication + s.copy + s.host_bound + s.idle == s.span,
                "a moment that counts twice, or not at all");
}

Time sum(const std::vector<result::TraceKind>& kinds) {
  Time out{0};
  for (const result::TraceKind& kind : kinds) {
    out += kind.time;
  }
  return out;
}

void check(const result::TraceDevice& device) {
  check(device.share);
  Time in_steps = device.outside ? sum(device.outside->kinds) : Time(0);
  for (const result::TraceStep& step : device.steps) {
    check(step.share);
    in_steps += sum(step.kinds);
  }
  fuzz::require(device.steps.empty() || in_steps == sum(device.kinds),
                "steps do not add up to the device");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file = fuzz::file_with(fuzz::text(data, size), ".json");
  fuzz::read([&] {
    const result::TraceProfile profile = trace::profile_files({file});
    for (const result::TraceRank& rank : profile.ranks) {
      for (const result::TraceDevice& device : rank.devices) {
        check(device);
      }
    }
  });
  return 0;
}
