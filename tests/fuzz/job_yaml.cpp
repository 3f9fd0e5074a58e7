// The reader of whole jobs: the option table, the judgement of what it read, and the printed job,
// which is read back.
#include "fuzz.h"
#include "stepcast/input/input.h"

using namespace stepcast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    const config::Loaded loaded = input::parse(std::string(fuzz::text(data, size)), "fuzz.yaml");
    fuzz::require(loaded.job.cluster.nodes > 0 && loaded.job.model.layers > 0,
                  "a job without a size");
    const std::string printed = config::to_json(loaded.job);
    std::string again;
    try {
      again = config::to_json(input::parse(printed, "printed.json").job);
    } catch (const InputError& error) {
      std::fprintf(stderr, "%s\n", error.faults().front().message.c_str());
      fuzz::require(false, "a printed job that is refused");
    }
    fuzz::require(again == printed, "a printed job that reads back as another");
  });
  return 0;
}
