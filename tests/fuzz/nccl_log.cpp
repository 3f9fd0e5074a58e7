// The reader of nccl-tests output.
#include "stepcast/interop/nccl_log.h"

#include <algorithm>
#include <cmath>

#include "fuzz.h"

using namespace stepcast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text(data, size);
  fuzz::read([&] {
    const interop::CollectiveLog log = interop::parse_nccl_log(text, "fuzz.txt");
    const auto& names = interop::collective_names();
    fuzz::require(!log.runs.empty(), "a log without a run");
    const auto lines = static_cast<int>(std::count(text.begin(), text.end(), '\n')) + 1;
    for (const interop::CollectiveRun& run : log.runs) {
      fuzz::require(run.line >= 1 && run.line <= lines, "a run outside the text");
      fuzz::require(run.ranks_per_node.size() <= size, "more nodes than lines");
      fuzz::require(run.date.empty() || run.date.size() == 10, "a date of another form");
      for (const int ranks : run.ranks_per_node) {
        fuzz::require(ranks >= 1, "a node without ranks");
      }
      for (const interop::CollectivePoint& p : run.points) {
        fuzz::require(p.collective.empty() ||
                          std::find(names.begin(), names.end(), p.collective) != names.end(),
                      "a collective without a name of nccl-tests");
        fuzz::require(p.bytes > 0, "a point without bytes");
        fuzz::require(std::isfinite(p.seconds) && p.seconds >= 0, "a time that is none");
        fuzz::require(p.line >= 1 && p.line <= lines, "a point outside the text");
      }
    }
  });
  return 0;
}
