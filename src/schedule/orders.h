// The schedules behind the table: each gives every rank's order for a request whose sizes are all
// positive.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include "stepcast/schedule/schedule.h"

namespace stepcast::schedule {

using Made = std::variant<Order, Infeasible>;

Made make_gpipe(const Request& request);
Made make_one_f_one_b(const Request& request);
Made make_one_f_one_b_overlap(const Request& request);
Made make_interleaved(const Request& request);
Made make_interleaved_zb(const Request& request);
Made make_looped_bfs(const Request& request);
Made make_circular(const Request& request);
Made make_zb_h1(const Request& request);
Made make_zb_h2(const Request& request);
Made make_zb_v(const Request& request);
Made make_zb_auto(const Request& request);
Made make_v_half(const Request& request);
Made make_v_min(const Request& request);
Made make_dualpipe(const Request& request);
Made make_dualpipe_v(const Request& request);
Made make_chimera(const Request& request);
Made make_interlaced(const Request& request);

// 1F1B with passes S and T woven in.
Made make_one_f_one_b_vocabulary(const Request& request);

// Communication barriers of Request::vocabulary: 2, 1, or 0 for none.
int barriers_of(const Request& request);

// All refusals name the job's key of the schedule.
inline Infeasible refuse(std::string reason) {
  return Infeasible{"parallelism.schedule", std::move(reason)};
}

// The rank that runs a global stage in a chunk.
int rank_of(Placement placement, int stages, int stage, int chunk);

// What keeps an order from running to its end.
struct Wrong {
  std::string reason;
  int rank = -1;         // -1: of the whole order
  std::size_t slot = 0;  // of that rank
};
std::optional<Wrong> examine(const Order& order, const Request& request);

// How long an order that runs takes, as play() does.
struct Spans {
  double makespan = 0;
  double longest = 0;  // of the ranks' own
};
Spans spans_of(const Order& order, const Request& request, const Times& times);

}  // namespace stepcast::schedule
