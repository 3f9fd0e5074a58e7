// The reader of published measurements (JSON lines), with the job and the quantities that are
// derived from a row.
#include "stepcast/interop/published_rows.h"

#include <cmath>

#include "fuzz.h"
#include "stepcast/input/input.h"

using namespace stepcast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    for (const interop::PublishedRow& row :
         interop::read_rows(fuzz::file_with(fuzz::text(data, size), ".jsonl"))) {
      fuzz::read([&] {
        const auto made = interop::job_of(row.configuration);
        if (const auto* job = std::get_if<interop::RowJob>(&made)) {
          interop::measurements(row, *job);
          input::parse(job->yaml, "row.yaml");
        }
      });
    }
  });
  return 0;
}
