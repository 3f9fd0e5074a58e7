// Tables of schedules in PyTorch's format, and the same table written and read again.
#include "fuzz.h"
#include "stepcast/schedule/schedule.h"

using namespace stepcast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  schedule::TablePlace place;
  const auto read = schedule::from_csv(fuzz::text(data, size), &place);
  fuzz::require(place.line >= 1 && place.column >= 1, "a place before the table");
  if (const auto* why = std::get_if<Infeasible>(&read)) {
    fuzz::require(!why->reason.empty(), "a refusal without words");
    fuzz::last_refusal() = why->reason;
    return 0;
  }
  fuzz::last_refusal().clear();
  const auto& order = std::get<schedule::Order>(read);
  const schedule::Request request = schedule::request_of(order);
  fuzz::require(request.stages >= 1, "a schedule without stages");
  const std::string written = schedule::to_csv(order, request.stages);
  const auto again = schedule::from_csv(written);
  fuzz::require(std::holds_alternative<schedule::Order>(again), "a table that is not read back");
  return 0;
}
