// The readers of Chakra's execution traces, and the profile of what they read.
#include "stepcast/trace/chakra.h"

#include "fuzz.h"
#include "stepcast/trace/profile.h"

using namespace stepcast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file = fuzz::file_with(fuzz::text(data, size), ".et");
  fuzz::read([&] {
    trace::Trace events = trace::events_of(trace::read_chakra(file), file);
    trace::RankCalls calls;
    for (const result::TraceDevice& device : trace::profile(events, calls).devices) {
      const result::TraceShare& s = device.share;
      fuzz::require(s.compute + s.communication + s.copy + s.host_bound + s.idle == s.span,
                    "a moment that counts twice, or not at all");
    }
  });
  return 0;
}
