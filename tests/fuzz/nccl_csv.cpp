// The reader of measured collectives from a file: CSV, or a log if there is no line of columns.
#include <cmath>

#include "fuzz.h"
#include "stepcast/interop/nccl_log.h"

using namespace stepcast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    const interop::CollectiveLog log =
        interop::read_collectives(fuzz::file_with(fuzz::text(data, size), ".csv"));
    for (const interop::CollectiveRun& run : log.runs) {
      for (const interop::CollectivePoint& p : run.points) {
        fuzz::require(p.bytes > 0, "a point without bytes");
        fuzz::require(std::isfinite(p.seconds) && p.seconds >= 0, "a time that is none");
      }
    }
  });
  return 0;
}
