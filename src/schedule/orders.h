// The schedules behind the table: each gives every rank's order for a request whose sizes are all
// positive.
#pragma once

#include <string>
#include <variant>

#include "stepcast/schedule/schedule.h"

namespace stepcast::schedule {

using Made = std::variant<Order, Infeasible>;

Made make_gpipe(const Request& request);
Made make_one_f_one_b(const Request& request);
Made make_interleaved(const Request& request);
Made make_looped_bfs(const Request& request);

// All refusals name the job's key of the schedule.
inline Infeasible refuse(std::string reason) {
  return Infeasible{"parallelism.schedule", std::move(reason)};
}

}  // namespace stepcast::schedule
