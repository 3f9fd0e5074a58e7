// The reader of program files, and the forecast of what it read.
#include <variant>

#include "fuzz.h"
#include "stepcast/capture/capture.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

constexpr int kMostNodes =
    8;  // larger clusters take the time of the topology, which is another reader's

void check(const capture::Rank& rank, int world_size) {
  for (const capture::Group& group : rank.groups) {
    for (const int member : group.ranks) {
      fuzz::require(member >= 0 && member < world_size, "a group with a rank that there is not");
    }
  }
  for (const capture::Task& task : rank.tasks) {
    fuzz::require(task.stream >= 0 && task.stream < static_cast<int>(rank.streams.size()),
                  "a stream that there is not");
    fuzz::require(task.operator_number < static_cast<int>(rank.operators.size()),
                  "an operator that there is not");
    fuzz::require(task.host >= 0 && task.bytes >= 0, "less than nothing");
  }
}

// A forecast, or the reason why there is none; of positive length.
void check_forecast(const capture::Capture& capture) {
  static forecast::Forecaster forecaster(text::data_directory());
  const int each = 8;
  if (capture.world_size % each != 0 || capture.world_size / each > kMostNodes) {
    return;
  }
  job::Job on;
  on.cluster = input::network("dgx-h100", capture.world_size / each).cluster;
  const auto outcome = forecaster.forecast(capture, on, 0);
  if (const auto* report = std::get_if<result::Report>(&outcome)) {
    fuzz::require(report->step_time.value >= 0, "a step that ends before it begins");
  } else {
    fuzz::require(!std::get<Infeasible>(outcome).reason.empty(), "a refusal without words");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file = fuzz::file_with(fuzz::text(data, size), ".jsonl");
  fuzz::read([&] {
    const capture::Capture capture = capture::read(file);
    fuzz::require(!capture.ranks.empty(), "a capture without ranks");
    for (const capture::Rank& rank : capture.ranks) {
      check(rank, capture.world_size);
    }
    check_forecast(capture);
  });
  return 0;
}
