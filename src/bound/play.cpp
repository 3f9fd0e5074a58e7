#include "play.h"

#include <algorithm>
#include <utility>

namespace stepcast::bound {
namespace {

using schedule::Slot;
using Kind = schedule::Pass;
using Form = lower::StageMessages::Form;

class Play {
 public:
  Play(const strategy::Plan& plan, const std::vector<std::vector<Pass>>& passes,
       const lower::StageMessages& messages, const lower::DataTimes& data,
       const std::vector<Time>& steps)
      : plan_(plan),
        passes_(passes),
        messages_(messages),
        data_(data),
        ranks_(static_cast<int>(plan.order.ranks.size())),
        begins_again_(plan.stage_transport.host_waits ? plan.host.pass_overhead.count() : 0),
        lanes_(plan.order.ranks.size()) {
    const auto chunks = plan.stages.front().size();
    stages_ = ranks_ * static_cast<int>(chunks);
    where_.resize(static_cast<std::size_t>(stages_));
    travels_ = data.applies;
    for (int r = 0; r < ranks_; ++r) {
      for (std::size_t c = 0; c < chunks; ++c) {
        where_[static_cast<std::size_t>(plan.stages[r][c].stage)] = r;
        const Pass& of = passes[r][c];
        if (data.units_alone) {
          const Time rest = data.reduce(of.parameters - of.layer_parameters, 0);
          gathers_.push_back(of.gathered.moved.count());
          gathers_again_.push_back(of.gathered_again.moved.count());
          reduces_.push_back((of.reduced.moved + rest).count());
          continue;
        }
        gathers_.push_back(data.gather(of.layer_parameters, of.expert_parameters).count());
        gathers_again_.push_back(
            data.gather(of.layer_parameters - of.staying, of.expert_parameters - of.expert_staying)
                .count());
        reduces_.push_back(data.reduce(of.parameters, of.expert_parameters).count());
      }
      Lane& lane = lanes_[r];
      lane.now = lane.wire = steps[r].count();
      lane.whole.assign(chunks, 0);
      lane.backwards_left.assign(chunks, 0);
      for (const Slot& s : plan.order.ranks[r]) {
        lane.backwards_left[s.chunk] += s.pass == Kind::backward ? 1 : 0;
        travels_ = travels_ && s.pass != Kind::input_grad;
      }
    }
    for (int r = 0; travels_ && r < ranks_; ++r) {
      begin(r);
    }
    const auto all = static_cast<std::size_t>(stages_) * plan.micro_batches;
    for (auto& one : made_) {
      one.assign(all, kNotYet);
    }
    for (auto& one : posted_) {
      one.assign(messages.form == Form::exchanged ? all : 0, kNotYet);
    }
  }

  Time run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < ranks_; ++r) {
        while (exchange(r) && lanes_[r].next < plan_.order.ranks[r].size() && step(r)) {
          moved = true;
        }
        moved = std::exchange(lanes_[r].posts, false) || moved;
      }
    }
    std::int64_t end = 0;
    for (const Lane& lane : lanes_) {
      end = std::max(end, std::max(lane.now + lane.sends, lane.wire) + lane.late);
    }
    return Time(end);
  }

 private:
  static constexpr std::int64_t kNotYet = -1;

  struct Lane {
    std::size_t next = 0;
    std::int64_t now = 0;          // of the compute stream
    std::int64_t sends = 0;        // blocking: what the slot before it still sends
    std::int64_t queued = 0;       // exchanged: behind the slot's messages
    std::int64_t wire = 0;         // of data-parallel traffic beside it
    std::int64_t first = kNotYet;  // its first pass began
    std::int64_t copied = 0;       // activations, until the pass that runs
    std::int64_t late = 0;         // gradients that go when all is done
    std::size_t exchanges = 0;     // that are through
    bool posted = false;           // the next one is
    bool posts = false;            // it has been posted just now
    bool waited = false;           // the slot's start, or what lies before it
    std::int64_t leaving = 0;      // lost beside the last reduction, if that ends after the slot
    std::int64_t same[2] = {kNotYet, kNotYet};  // the end of the last slot of that direction
    std::vector<char> whole;                    // by chunk: parameters are gathered
    std::vector<int> backwards_left;            // by chunk
  };

  std::size_t chunk(int r, int c) const {
    return static_cast<std::size_t>(r) * plan_.stages.front().size() + static_cast<std::size_t>(c);
  }
  std::int64_t& made(int stage, int micro_batch, bool forward) {
    return made_[forward ? 0 : 1]
                [static_cast<std::size_t>(stage) * plan_.micro_batches + micro_batch];
  }

  // When the end of a message that goes into a stage, or comes out of its receive, was posted.
  std::int64_t& posted(bool sends, int stage, const Slot& of) {
    return posted_[(sends ? 2 : 0) + (of.pass == Kind::forward ? 1 : 0)]
                  [static_cast<std::size_t>(stage) * plan_.micro_batches + of.micro_batch];
  }

  // Posts and ends the exchanges that are due; false: another rank has not posted its end.
  bool exchange(int r) {
    Lane& lane = lanes_[r];
    if (messages_.form != Form::exchanged) {
      return true;
    }
    const std::vector<lower::Exchange>& exchanges = messages_.exchanges[r];
    for (; lane.exchanges < exchanges.size(); ++lane.exchanges) {
      const lower::Exchange& all = exchanges[lane.exchanges];
      if (all.behind != lane.next) {
        break;
      }
      std::int64_t ends = lane.now;
      bool known = true;
      for (const auto& [at, sends] : all.messages) {
        const Slot& of = plan_.order.ranks[r][at];
        const bool forward = of.pass == Kind::forward;
        const int here = plan_.stages[r][of.chunk].stage;
        const int there = here + (forward == sends ? 1 : -1);
        const int into = sends ? there : here;
        if (!lane.posted) {
          posted(sends, into, of) = lane.now;
        }
        const int peer = where_[static_cast<std::size_t>(there)];
        const std::int64_t other = posted(!sends, into, of);
        known = known && other != kNotYet;
        ends = std::max(ends, std::max(lane.now, other) +
                                  (sends ? hop(r, peer, forward) : hop(peer, r, forward)));
      }
      lane.posts = lane.posts || !lane.posted;
      lane.posted = !known;
      if (!known) {
        return false;
      }
      lane.now = ends + begins_again_;
      lane.waited = true;
    }
    lane.now += std::exchange(lane.queued, 0);
    return true;
  }

  // Updated parameters come behind the optimizer of the step before, which waits for all ranks.
  void begin(int r) {
    Lane& lane = lanes_[r];
    if (!data_.shards_states || plan_.order.ranks[r].empty()) {
      return;
    }
    std::int64_t all = 0;
    for (const Pass& of : passes_[r]) {
      all += data_.gather(of.parameters, of.expert_parameters).count();
    }
    const std::int64_t stepped = lane.now;
    if (!data_.gather_beside) {
      lane.now += all;
      return;
    }
    const int c = plan_.order.ranks[r].front().chunk;
    const Pass& first = passes_[r][c];
    const std::int64_t elements = first.parameters + first.expert_parameters;
    const std::int64_t piece = data_.first_piece(r, c, elements);
    if (piece == elements) {
      lane.now += data_.gather(first.parameters, first.expert_parameters).count();
    } else if (first.expert_parameters == 0) {
      lane.now += data_.gather(piece, 0).count();
    }
    lane.wire = data_.each_pass ? lane.now : stepped + all;
  }

  bool step(int r) {
    Lane& lane = lanes_[r];
    const auto& slots = plan_.order.ranks[r];
    const Slot& slot = slots[lane.next];
    const bool forward = slot.pass == Kind::forward;
    const bool makes = slot.pass != Kind::weight_grad;
    const int stage = plan_.stages[r][slot.chunk].stage;
    const int before = stage + (forward ? -1 : 1);
    const int behind = stage + (forward ? 1 : -1);
    const bool receives = makes && before >= 0 && before < stages_;
    const std::int64_t ready = receives ? made(before, slot.micro_batch, forward) : 0;
    if (ready == kNotYet) {
      return false;
    }
    const bool turns = lane.next > 0 && (slots[lane.next - 1].pass == Kind::forward) != forward;
    const std::int64_t ended = lane.now;
    receive(r, receives ? where_[static_cast<std::size_t>(before)] : r, ready, forward, turns);
    lane.waited = lane.waited || lane.now > ended;
    const Pass& of = passes_[r][slot.chunk];
    const std::int64_t start = lane.now;
    lane.first = lane.first == kNotYet ? start : lane.first;
    lane.now += slot.pass == Kind::forward       ? of.forward.count()
                : slot.pass == Kind::weight_grad ? of.weight_grad.count()
                : slot.pass == Kind::input_grad  ? (of.backward - of.weight_grad).count()
                                                 : of.backward.count();
    const std::int64_t queued = travels_ ? travel(r, slot, start) : 0;
    if (slot.pass == Kind::backward || slot.pass == Kind::input_grad) {
      lane.copied += of.copies.count();
      if (of.copies.count() > 0 && lane.first + lane.copied > lane.now) {
        lane.now = lane.first + lane.copied;
        lane.waited = true;
      }
    }
    if (makes) {
      made(stage, slot.micro_batch, forward) = lane.now;
      lane.same[forward ? 0 : 1] = lane.now;
    }
    (messages_.form == Form::exchanged ? lane.queued : lane.now) += queued;
    const bool sends = makes && behind >= 0 && behind < stages_;
    const int to = sends ? where_[static_cast<std::size_t>(behind)] : r;
    lane.sends = messages_.form == Form::blocking ? hop(r, to, forward) : 0;
    ++lane.next;
    return true;
  }

  std::int64_t hop(int from, int to, bool forward) const {
    const bool loop = plan_.order.placement == schedule::Placement::loop;
    return from == to                     ? 0
           : (loop ? forward : from < to) ? messages_.forward[from].count()
                                          : messages_.backward[to].count();
  }

  // As lower/pipeline/pipeline.cpp posts messages.
  void receive(int r, int from, std::int64_t ready, bool forward, bool turns) {
    Lane& lane = lanes_[r];
    const std::int64_t takes = hop(from, r, forward);
    const bool comes = from != r;
    const auto arrive = [&](std::int64_t posted) {
      return comes ? std::max(posted, ready) + takes : std::max(posted, ready);
    };
    if (messages_.form == Form::blocking) {
      const std::int64_t sent = lane.now + lane.sends;
      const bool receives_first = messages_.follows_pass ? forward : r % 2 == 1;
      lane.now = turns && messages_.batched ? std::max(sent, arrive(lane.now))
                 : turns && receives_first  ? arrive(lane.now) + lane.sends
                                            : arrive(sent);
      lane.now += comes ? begins_again_ : 0;
      return;
    }
    if (messages_.form == Form::exchanged) {
      return;  // as exchange() found
    }
    // The next receive of a direction is posted behind the slot before it.
    const std::int64_t posted =
        messages_.form == Form::overlapped && comes ? lane.same[forward ? 0 : 1] : kNotYet;
    lane.now = std::max(lane.now, arrive(posted));
  }

  // What a pass gathers and reduces; it began at `start`. What the compute stream does of it behind
  // the message to the next stage is returned.
  std::int64_t travel(int r, const Slot& slot, std::int64_t start) {
    using Drops = lower::DataTimes::Drops;
    Lane& lane = lanes_[r];
    const Pass& of = passes_[r][slot.chunk];
    const std::size_t at = chunk(r, slot.chunk);
    const bool forward = slot.pass == Kind::forward;
    const bool last = !forward && --lane.backwards_left[slot.chunk] == 0;
    const bool gathers = data_.wraps && !lane.whole[slot.chunk];
    const bool reduces = !forward && (data_.each_pass || last);
    const bool as_it_goes =
        data_.wraps ? data_.drops_after_backward != Drops::never : data_.bucketed(r, slot.chunk);
    const bool waited = std::exchange(lane.waited, false);
    lane.now += waited ? 0 : lane.leaving;
    lane.leaving = 0;
    if (gathers) {
      const OneByOne& units = forward ? of.gathered : of.gathered_again;
      lane.now += (units.copied + units.lost - (waited ? units.lost_to_one : Time(0))).count();
    }
    std::int64_t behind = 0;  // of all units, once the last backward pass of the chunk is through
    if (reduces && data_.wraps) {
      const OneByOne& units = of.reduced;
      lane.leaving = units.lost_to_one.count();
      (as_it_goes ? lane.now : behind) += (units.copied + units.lost - units.lost_to_one).count();
    }
    if (gathers) {
      gather(lane, forward ? gathers_[at] : gathers_again_[at]);
    }
    if (data_.wraps) {
      const bool drops = data_.drops_after_backward == Drops::always ||
                         (data_.drops_after_backward == Drops::when_reduced && reduces);
      lane.whole[slot.chunk] = forward ? !data_.drops_after_forward : !drops;
    }
    if (!reduces) {
      return 0;
    }
    if (data_.reduce_beside) {
      lane.wire = std::max(lane.wire, as_it_goes ? start : lane.now) + reduces_[at];
    } else if (data_.wraps && !as_it_goes) {
      behind += reduces_[at];
    } else if (data_.wraps || data_.sends_as_it_goes) {
      lane.now += reduces_[at];
    } else {
      lane.late += reduces_[at];
    }
    return behind;
  }

  void gather(Lane& lane, std::int64_t takes) const {
    if (!data_.gather_beside) {
      lane.now += takes;
      return;
    }
    lane.wire += takes;
    lane.waited = lane.wire > lane.now;
    lane.now = std::max(lane.now, lane.wire);
  }

  const strategy::Plan& plan_;
  const std::vector<std::vector<Pass>>& passes_;
  const lower::StageMessages& messages_;
  const lower::DataTimes& data_;
  int ranks_;
  std::int64_t begins_again_;  // behind a message that the host waits for, until the first kernel
  int stages_ = 0;
  bool travels_ = false;
  std::vector<int> where_;  // rank of a stage
  // By rank and chunk; those that are gathered again, for the backward pass.
  std::vector<std::int64_t> gathers_, gathers_again_, reduces_;
  std::vector<Lane> lanes_;
  std::vector<std::int64_t> made_[2];  // what a stage passes on, by micro-batch; forward, backward
  std::vector<std::int64_t> posted_[4];
};

}  // namespace

bool can_play(const strategy::Plan& plan) {
  return plan.order.placement != schedule::Placement::bidirectional && plan.order.barriers == 0 &&
         !plan.stage_transport.pairs_passes && !strategy::orders_by_times(plan) &&
         !plan.optimizer_step.post_validated;
}

Time play(const strategy::Plan& plan, const std::vector<std::vector<Pass>>& passes,
          const lower::StageMessages& messages, const lower::DataTimes& data,
          const std::vector<Time>& steps) {
  return Play(plan, passes, messages, data, steps).run();
}

}  // namespace stepcast::bound
