#include <fmt/format.h>

#include <array>
#include <limits>

#include "orders.h"

namespace stepcast::schedule {
namespace {

constexpr std::array kTable = {
    Entry{"gpipe", "all forwards, then all backwards (GPipe; torchgpipe)", make_gpipe},
    Entry{"1f1b", "one forward, one backward after the warm-up (PipeDream-flush; Megatron-LM)",
          make_one_f_one_b},
    Entry{"interleaved_1f1b", "1f1b over several model chunks per rank (Megatron-LM)",
          make_interleaved},
    Entry{"looped_bfs", "all micro-batches through each chunk in turn (PyTorch ScheduleLoopedBFS)",
          make_looped_bfs},
};

}  // namespace

std::span<const Entry> table() { return kTable; }

Made make(std::string_view name, const Request& request) {
  if (request.stages < 1 || request.micro_batches < 1 || request.chunks < 1 || request.group < 0 ||
      request.extra_warmup < 0) {
    return refuse(
        "stages, micro-batches and chunks must be at least 1, group and extra warm-up at least 0");
  }
  // Passes of a rank are counted in ints, here and by whoever walks an order.
  constexpr std::int64_t kMostPasses = std::numeric_limits<int>::max() / 8;
  if (std::int64_t{request.micro_batches} * request.chunks > kMostPasses ||
      std::int64_t{request.stages} * request.chunks > kMostPasses ||
      request.extra_warmup > kMostPasses) {
    return refuse(fmt::format("{} micro-batches in {} chunks are too many to schedule",
                              request.micro_batches, request.chunks));
  }
  std::vector<std::string> names;
  for (const Entry& entry : kTable) {
    if (entry.name == name) {
      return entry.make(request);
    }
    names.emplace_back(entry.name);
  }
  const std::string near = nearest(name, names);
  return refuse(fmt::format("unknown schedule '{}'; expected {}{}", name, fmt::join(names, ", "),
                            near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
}

}  // namespace stepcast::schedule
