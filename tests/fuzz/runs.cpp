// The reader of measured runs (JSON lines), with the job of each.
#include "fuzz.h"
#include "stepcast/runs/read.h"

using namespace stepcast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    for (const runs::Run& run : runs::read(fuzz::file_with(fuzz::text(data, size), ".jsonl"))) {
      fuzz::read([&] {
        if (!run.op) {
          runs::job_of(run);
        }
      });
    }
  });
  return 0;
}
