// 1F1B with the vocabulary's layers spread over all pipeline ranks (Yeung et al., 2411.05288), as
// building blocks with a forward of 1 and a backward of 2 time units.
//
// vocab_1, vocab_2: the last stage's output goes to all ranks, each runs S on its rows of the
// vocabulary; every communication barrier until the input's gradient is whole takes a period, and
// so keeps one more micro-batch live on every rank: min(m, p-r+2) with two barriers, min(m, p-r+1)
// with one.
//
// interlaced (the tensor-parallel baseline of that paper): all ranks run S and T of a micro-batch
// at once. No pass may lie across that moment, so ranks alternate between F before B and B before F
// in a period, and stages follow each other 1.5 times as slowly: 1.5 times 1F1B's micro-batches are
// live.
#include <fmt/format.h>

#include "building_block.h"
#include "orders.h"

namespace stepcast::schedule {
namespace {

constexpr int kForward = 1, kBackward = 2, kForwardAndBackward = kForward + kBackward;

}  // namespace

int barriers_of(const Request& request) {
  return request.vocabulary == "vocab_1" ? 2 : request.vocabulary == "vocab_2" ? 1 : 0;
}

Made make_one_f_one_b_vocabulary(const Request& request) {
  const int p = request.stages;
  const int barriers = barriers_of(request);
  Order order;
  order.barriers = barriers;
  const int output = p * kForward;  // the last stage has its first output
  const int turn = output + kForwardAndBackward * (barriers + request.extra_warmup);
  // Vocabulary passes start a time unit later than they could, so that no rank idles while a
  // message arrives; a barrier's period has room for that. With one barrier nothing waits for T.
  const int scores = output + 1;
  const int weights = barriers == 2 ? scores + kForwardAndBackward : turn + kBackward;
  for (int r = 0; r < p; ++r) {
    order.ranks.push_back(repeat({{Pass::vocabulary_grad, 0, weights},
                                  {Pass::vocabulary, 0, scores},
                                  {Pass::forward, 0, r * kForward},
                                  {Pass::backward, 0, turn + (p - 1 - r) * kBackward}},
                                 kForwardAndBackward, request.micro_batches));
  }
  return order;
}

Made make_interlaced(const Request& request) {
  const int p = request.stages;
  Order order;
  order.barriers = 2;
  for (int r = 0; r < p; ++r) {
    // Ranks before the last, in pairs: odd ones run F before B, even ones B before F. S and T fall
    // on multiples of the period.
    const int pairs = (p - 1 - r) / 2;
    const int odd = (p - 1 - r) % 2;
    const int forward = kBackward - 3 * pairs - 2 * odd;
    const int backward = kForwardAndBackward + 6 * pairs + 4 * odd;
    order.ranks.push_back(repeat({{Pass::vocabulary, 0, kForwardAndBackward},
                                  {Pass::vocabulary_grad, 0, kForwardAndBackward},
                                  {Pass::forward, 0, forward},
                                  {Pass::backward, 0, backward}},
                                 kForwardAndBackward, request.micro_batches));
  }
  return order;
}

}  // namespace stepcast::schedule
