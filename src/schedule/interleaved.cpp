// Interleaved 1F1B as Megatron-LM runs it (schedules.py,
// forward_backward_pipelining_with_interleaving).
//
// Rank r holds v model chunks; chunk c is global stage c p + r. Micro-batches go in groups of N
// (--microbatch-group-size-per-virtual-pipeline-stage): all of a group pass chunk 0, then all pass
// chunk 1, and so on. Backwards follow the same table with chunk v-1-c. Rank r runs min(2(p-1-r) +
// (v-1)N, mv) forwards, then pairs, then drains. Overlapping expert-parallel communication adds one
// warm-up forward (`extra_warmup`), and forwards and backwards behind it run side by side
// (`pairs`).
//
// Up to megatron-core 0.9 a single round (m = p) is all forwards and then all backwards
// (`round_forwards_first`; 0.9.0 pipeline_parallel/schedules.py:664, gone in 0.10.0:695).
//
// Idle per rank with equal stages and free communication: (p-1)(F+B)/v. Live chunks: one more than
// the warm-up.
//
// interleaved_zb (PyTorch's ScheduleInterleavedZeroBubble) splits the backward: half of that
// warm-up between stages, min((p-1-r) + (v-1)N, mv), then F I and, r passes late, W. With one chunk
// it is ZB-H1.
#include <fmt/format.h>

#include <algorithm>

#include "orders.h"

namespace stepcast::schedule {
namespace {

// The k-th forward: chunk and micro-batch of every virtual micro-batch, the same on all ranks.
std::vector<Slot> forward_table(int micro_batches, int chunks, int group) {
  std::vector<Slot> slots;
  slots.reserve(static_cast<std::size_t>(micro_batches) * static_cast<std::size_t>(chunks));
  for (int first = 0; first < micro_batches; first += group) {
    const int last = std::min(first + group, micro_batches);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int i = first; i < last; ++i) {
        slots.push_back({Pass::forward, i, chunk});
      }
    }
  }
  return slots;
}

struct Shape {
  int group;
  int warm_up_per_stage;
  bool split;  // I and W, W a rank's number of passes late
};

Order interleaved(const Request& request, const Shape& shape) {
  const int p = request.stages;
  const int v = request.chunks;
  const std::vector<Slot> forwards = forward_table(request.micro_batches, v, shape.group);
  const std::size_t total = forwards.size();
  Order order;
  order.ranks.reserve(static_cast<std::size_t>(p));
  for (int rank = 0; rank < p; ++rank) {
    const std::size_t warm_up =
        request.round_forwards_first && request.micro_batches == p
            ? total
            : std::min(static_cast<std::size_t>(shape.warm_up_per_stage * (p - 1 - rank) +
                                                request.extra_warmup) +
                           static_cast<std::size_t>(v - 1) * static_cast<std::size_t>(shape.group),
                       total);
    const std::size_t late = static_cast<std::size_t>(rank);
    std::vector<Slot> slots(forwards.begin(),
                            forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
    slots.reserve((shape.split ? 3 : 2) * total);
    const auto backward = [&](Pass pass, std::size_t k) {
      slots.push_back({pass, forwards[k].micro_batch, v - 1 - forwards[k].chunk});
    };
    for (std::size_t k = 0; k < total; ++k) {
      if (k + warm_up < total) {
        slots.push_back(forwards[k + warm_up]);
        slots.back().with_next = request.pairs;
      }
      backward(shape.split ? Pass::input_grad : Pass::backward, k);
      if (shape.split && k >= late) {
        backward(Pass::weight_grad, k - late);
      }
    }
    for (std::size_t k = total - std::min(late, total); shape.split && k < total; ++k) {
      backward(Pass::weight_grad, k);
    }
    order.ranks.push_back(std::move(slots));
  }
  return order;
}

}  // namespace

Made make_interleaved(const Request& request) {
  const int p = request.stages;
  const int m = request.micro_batches;
  const int v = request.chunks;
  if (v == 1) {
    return make_one_f_one_b(
        request);  // one chunk is no interleaving: Megatron then runs plain 1F1B
  }
  if (p < 2) {
    return refuse("interleaved_1f1b needs at least 2 pipeline stages");
  }
  const int group = request.group == 0 ? p : request.group;
  if (group < p || group > m) {
    return refuse(fmt::format(
        "interleaved_1f1b needs stages <= micro-batch group <= micro-batches, but {} <= {} <= {} "
        "does not hold",
        p, group, m));
  }
  if (const int rest = m % group; rest > 0 && rest < p) {
    return refuse(fmt::format(
        "{} micro-batches in groups of {} leave a last group of {}, fewer than the {} stages: "
        "interleaved_1f1b would wait on itself",
        m, group, rest, p));
  }
  return interleaved(request, {group, 2, false});
}

Made make_interleaved_zb(const Request& request) {
  const int p = request.stages;
  const int m = request.micro_batches;
  const int rounds = std::max(1, m / p);
  if (m % rounds != 0) {
    return refuse(
        fmt::format("{} micro-batches do not divide into {} rounds of {} stages: interleaved_zb "
                    "would wait on itself",
                    m, rounds, p));
  }
  return interleaved(request, {m / rounds, 1, true});
}

}  // namespace stepcast::schedule
