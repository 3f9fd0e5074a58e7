// Units that are gathered into a tensor each, of which their parameters are views, and whose
// gradients leave from another one: Megatron-FSDP's fully sharded strategy. Places are those of
// megatron-core 0.16.1, distributed/fsdp/src/megatron_fsdp: hooks in megatron_fsdp.py, both
// pipelines and all buffers in param_and_grad_buffer.py.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <utility>

#include "../stage/feature_list.h"
#include "../tensors/unit_tensors.h"
#include "buckets.h"
#include "parameter_formats.h"
#include "sharded_units.h"

namespace stepcast::lower {

using cost::Collective;
using program::kNone;
using program::MemoryCategory;
using program::StreamIndex;

namespace {

// megatron_fsdp.py:393: "Cap to 1B elements", which is a lower limit there (max).
constexpr std::int64_t kLeastUnderWay = 1'000'000'000;
// param_and_grad_buffer.py:1875: UB_BUFFER_NUM.
constexpr int kStandingBuffers = 2;

enum class Ahead { none, forward, backward };

// The parameters of one wrap that one group of ranks shards: a ParameterGroup of the framework.
struct Gathered {
  std::size_t wrap = 0;
  bool expert = false;
  double bytes = 0;       // whole, in the format of the passes
  double elements = 0;    // whole
  bool pooled = false;    // in one of two buffers that stand
  bool stays = false;     // its buffer is never given up
  bool whole = false;     // gathered, or on its way
  bool given_up = false;  // it goes ahead of the next gather, unless that asks for it
  Mark done;
  program::BufferIndex buffer = kNone;
  program::BufferIndex standing = kNone;  // holds it when a step begins
  bool stands = false;                    // the standing one is there
};

struct Reduction {
  Mark done;
  program::BufferIndex buffer = kNone;
  double elements = 0;
  std::size_t wrap = 0;
};

class UnitBuffers final : public Feature {
 public:
  void make_streams(Stage& stage) override;
  void make_workspaces(Stage& stage) override;
  void before_forward(Stage& stage, int chunk, std::size_t unit) override;
  void after_forward(Stage& stage, int chunk, std::size_t unit) override;
  void before_backward(Stage& stage, int chunk, std::size_t unit) override;
  void before_second_use(Stage& stage, int chunk, std::size_t unit) override;
  void before_weight_gradients(Stage& stage, int chunk, std::size_t unit) override;
  void after_backward(Stage& stage, int chunk, std::size_t unit) override;
  void end_of_backward(Stage& stage, int chunk) override;
  void end_of_step(Stage& stage, StepEnd part) override;

 private:
  using Range = std::pair<std::size_t, std::size_t>;

  void add(Stage& stage, std::size_t wrap);
  void pool_units(Stage& stage);
  Range range_of(const Stage& stage, int chunk, std::size_t wrap, Ahead ahead) const;
  void bring(Stage& stage, int chunk, std::size_t wrap, Ahead ahead);
  void gather(Stage& stage, Gathered& g);
  void drop(Stage& stage, Gathered& g);
  void drop_unit(Stage& stage, int chunk, std::size_t wrap);
  void reduce(Stage& stage, Wrap& w, bool expert);
  void wait_for_oldest(Stage& stage);
  void keep_two_units(Stage& stage, std::size_t wrap);

  std::vector<std::vector<Gathered>> all_;  // [chunk], in the framework's order
  std::int64_t under_way_ = 0;              // elements of gradients that may be reduced at a time
  std::deque<Reduction> reductions_;
  // By wrap, for dense and expert parameters: what the pass under way has filled.
  std::map<std::size_t, std::array<program::BufferIndex, 2>> filled_;
  std::map<std::pair<const TensorList*, double>, TensorList> gradients_;  // from the first on
  std::map<const TensorList*, TensorList> passing_;  // one by one, until each is copied
  program::BufferIndex made_ = kNone;
};

bool is_unit(const Stage& stage, std::size_t wrap) { return !stage.sharded.wraps[wrap].stays; }

// ---------------------------------------------------------------- ahead of the step
// Of parameters that one rank alone holds nothing is gathered (:1974: `size() > 1`).
void UnitBuffers::add(Stage& stage, std::size_t wrap) {
  const Wrap& w = stage.sharded.wraps[wrap];
  const double wide = width(stage.plan.style.dtype);
  for (const bool expert : {false, true}) {
    const auto frozen = static_cast<double>(expert ? w.gathered_frozen_experts
                                                   : w.gathered_frozen - w.gathered_frozen_experts);
    const auto trained = static_cast<double>(expert ? w.elements.expert : w.elements.dense);
    Gathered g;
    g.wrap = wrap;
    g.expert = expert;
    g.bytes = gathered_bytes(stage.plan, w.elements, expert) + frozen;
    g.elements = trained + frozen / wide;
    if (g.bytes >= 1 && sharing(stage.plan, expert).shards > 1) {
      all_[static_cast<std::size_t>(w.chunk)].push_back(g);
    }
  }
}

// Groups are listed as named_parameters() meets them: the root's first where it holds the
// embedding (:1333).
void UnitBuffers::make_streams(Stage& stage) {
  if (!stage.sharded.buffered) {
    return;
  }
  const std::vector<Wrap>& wraps = stage.sharded.wraps;
  all_.resize(stage.units.size());
  for (const bool ends : {true, false}) {
    for (std::size_t i = 0; i < wraps.size(); ++i) {
      const bool first = wraps[i].first() == 0 && !is_unit(stage, i);
      if (first == ends) {
        add(stage, i);
      }
    }
  }
  std::int64_t elements = 0, units = 0;
  for (std::size_t i = 0; i < wraps.size(); ++i) {
    elements += is_unit(stage, i) ? gathered_elements(stage, wraps[i]) : 0;
    units += is_unit(stage, i) ? 1 : 0;
  }
  const std::int64_t stated = stage.plan.parameter_gather.unit_buffer_elements;
  under_way_ =
      stated > 0 ? stated : std::max(kLeastUnderWay, units > 0 ? 2 * (elements / units) : 0);
}

// Units of the size that most of them have share the buffers (:651, FixedPoolAllocator).
void UnitBuffers::pool_units(Stage& stage) {
  std::map<std::pair<double, double>, std::vector<std::size_t>> alike;
  std::map<std::size_t, std::pair<double, double>> sizes, bytes;
  for (const std::vector<Gathered>& chunk : all_) {
    for (const Gathered& g : chunk) {
      if (is_unit(stage, g.wrap)) {
        (g.expert ? sizes[g.wrap].second : sizes[g.wrap].first) = g.elements;
        (g.expert ? bytes[g.wrap].second : bytes[g.wrap].first) = g.bytes;
      }
    }
  }
  for (const auto& [wrap, size] : sizes) {
    alike[size].push_back(wrap);
  }
  const auto most = std::max_element(alike.begin(), alike.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  if (most == alike.end()) {
    return;
  }
  const auto& [size, members] = *most;
  for (std::vector<Gathered>& chunk : all_) {
    for (Gathered& g : chunk) {
      g.pooled = std::binary_search(members.begin(), members.end(), g.wrap);
    }
  }
  const auto stand = [&](double of_each, const char* label) {
    for (int n = 0; n < kStandingBuffers && of_each > 0; ++n) {
      stage.builder.persistent(whole_blocks(of_each), MemoryCategory::communication,
                               label_of(stage, label));
    }
  };
  for (const bool expert : {false, true}) {
    const auto& gathered = bytes.at(members.front());
    stand(expert ? gathered.second : gathered.first, "buffers of gathered parameters");
    stand((expert ? size.second : size.first) * width(stage.plan.precision.reduce),
          "buffers of gradients to reduce");
  }
}

// The optimizer's step ends with a gather of the first parameter's group, and of what is gathered
// ahead of it (megatron_fsdp.py: start_param_sync; optimizer/distrib_optimizer.py:2611). It fills
// what the next step begins with; that of the next step stands for it in time.
void UnitBuffers::make_workspaces(Stage& stage) {
  if (!stage.sharded.buffered) {
    return;
  }
  if (stage.plan.parameter_gather.double_buffers) {
    pool_units(stage);
  }
  const program::LabelIndex label = label_of(stage, "unsharded parameters");
  for (std::size_t c = 0; c < all_.size(); ++c) {
    for (Gathered& g : all_[c]) {
      if (!is_unit(stage, g.wrap)) {
        g.buffer =
            stage.builder.persistent(whole_blocks(g.bytes), MemoryCategory::communication, label);
        g.stays = g.buffer != kNone;
      }
    }
    if (all_[c].empty()) {
      continue;
    }
    const Range begun = range_of(stage, static_cast<int>(c), all_[c].front().wrap, Ahead::forward);
    for (std::size_t i = begun.first; i < begun.second; ++i) {
      Gathered& g = all_[c][i];
      if (!g.stays && !g.pooled) {
        g.standing =
            stage.builder.declare(whole_blocks(g.bytes), MemoryCategory::communication, label);
        g.stands = true;
      }
    }
  }
}

// ---------------------------------------------------------------- gathering
// What is asked for when a wrap is about to run: its own groups, and those behind them in the
// direction of the pass until they have half the elements that may be under way (:3447,
// all_gather_params); with two buffers, of two units.
UnitBuffers::Range UnitBuffers::range_of(const Stage& stage, int chunk, std::size_t wrap,
                                         Ahead ahead) const {
  const std::vector<Gathered>& order = all_[static_cast<std::size_t>(chunk)];
  const auto own = [&](const Gathered& g) { return g.wrap == wrap; };
  const auto begin = std::find_if(order.begin(), order.end(), own);
  const auto end = std::find_if_not(begin, order.end(), own);
  Range out{static_cast<std::size_t>(begin - order.begin()),
            static_cast<std::size_t>(end - order.begin())};
  if (begin == order.end() || ahead == Ahead::none) {
    return out;
  }
  const bool two = stage.plan.parameter_gather.double_buffers;
  const double most = static_cast<double>(under_way_ / 2);
  double sum = 0;
  int units = begin->pooled ? 1 : 0;
  std::size_t last = wrap;
  while (sum < most) {
    const bool over = ahead == Ahead::forward ? out.second == order.size() : out.first == 0;
    if (over) {
      break;
    }
    const std::size_t next = ahead == Ahead::forward ? out.second : out.first - 1;
    units += order[next].wrap == last ? 0 : 1;
    last = order[next].wrap;
    if (two && units > kStandingBuffers) {
      break;
    }
    sum += order[next].elements;
    (ahead == Ahead::forward ? out.second : out.first) = ahead == Ahead::forward ? next + 1 : next;
  }
  return out;
}

void UnitBuffers::drop(Stage& stage, Gathered& g) {
  if (!g.whole) {
    return;
  }
  // It is of the gathers' stream, which waits for the compute stream ahead of each gather.
  stage.builder.release(g.buffer);
  g.stands = g.stands && g.buffer != g.standing;
  g.buffer = kNone;
  g.whole = false;
  g.given_up = false;
}

void UnitBuffers::drop_unit(Stage& stage, int chunk, std::size_t wrap) {
  for (Gathered& g : all_[static_cast<std::size_t>(chunk)]) {
    if (g.wrap == wrap) {
      drop(stage, g);
    }
  }
}

void UnitBuffers::gather(Stage& stage, Gathered& g) {
  const bool beside = gather_beside(stage.plan);
  const StreamIndex stream = beside ? stage.streams.gather : stage.streams.compute;
  for (std::vector<Gathered>& chunk : all_) {  // recycle_unused_buckets
    for (Gathered& other : chunk) {
      if (other.given_up) {
        drop(stage, other);
      }
    }
  }
  if (beside && !stage.sharded.waited_for_step) {
    stage.builder.wait_previous_step(stage.streams.gather, stage.streams.compute);
    stage.sharded.waited_for_step = true;
  }
  stage.builder.wait(stream, stage.builder.mark(stage.streams.compute));
  // One communicator runs its operations in order of issue.
  stage.builder.wait(stream, stage.builder.mark(stage.streams.data));
  if (g.stands) {
    g.buffer = g.standing;
  } else if (!g.pooled && !g.stays) {
    g.buffer = stage.builder.allocate(whole_blocks(g.bytes), MemoryCategory::communication,
                                      label_of(stage, "unsharded parameters"), stream);
  }
  data_collective(stage, stream, sharing(stage.plan, g.expert).group, Collective::all_gather,
                  g.bytes, "parameters");
  g.done = stage.builder.mark(stream);
  g.whole = true;
}

// Gathers are issued in the framework's order of groups, in either pass (:3558).
void UnitBuffers::bring(Stage& stage, int chunk, std::size_t wrap, Ahead ahead) {
  std::vector<Gathered>& order = all_[static_cast<std::size_t>(chunk)];
  for (Gathered& g : order) {
    g.given_up = g.given_up && g.wrap != wrap;
  }
  const Range range = range_of(stage, chunk, wrap, ahead);
  for (std::size_t i = range.first; i < range.second; ++i) {
    if (!order[i].whole) {
      order[i].given_up = false;
      gather(stage, order[i]);
    }
  }
  for (const Gathered& g : order) {
    if (g.wrap == wrap) {
      stage.builder.wait(stage.streams.compute, g.done);
    }
  }
}

// ---------------------------------------------------------------- hooks of the passes
// Modules outside of units have a hook ahead of their forward pass as well: that of the final norm
// gathers the first units again, which the backward pass reads last (megatron_fsdp.py:680).
void UnitBuffers::before_forward(Stage& stage, int chunk, std::size_t unit) {
  if (!stage.sharded.buffered) {
    return;
  }
  const std::size_t wrap = stage.sharded.wrap_of[chunk][unit];
  if (unit == stage.sharded.wraps[wrap].first() || !is_unit(stage, wrap)) {
    bring(stage, chunk, wrap, Ahead::forward);
  }
}

void UnitBuffers::after_forward(Stage& stage, int chunk, std::size_t unit) {
  if (!stage.sharded.buffered) {
    return;
  }
  const std::size_t wrap = stage.sharded.wrap_of[chunk][unit];
  if (unit == stage.sharded.wraps[wrap].last() && is_unit(stage, wrap) &&
      stage.plan.parameter_gather.reshard_after_forward) {
    drop_unit(stage, chunk, wrap);
  }
}

// What runs again is gathered without more ahead of it, and goes with the next gather but for the
// unit whose backward pass follows (megatron_fsdp.py:688, :880).
void UnitBuffers::before_backward(Stage& stage, int chunk, std::size_t unit) {
  if (!stage.sharded.buffered) {
    return;
  }
  std::vector<Gathered>& order = all_[static_cast<std::size_t>(chunk)];
  const bool begins = unit + 1 == stage.units[static_cast<std::size_t>(chunk)].size();
  for (Gathered& g : order) {  // megatron_fsdp.py:831, _root_pre_backward
    g.given_up = g.given_up || (begins && g.whole && is_unit(stage, g.wrap) &&
                                stage.plan.parameter_gather.reshard_after_forward);
  }
  const std::size_t wrap = stage.sharded.wrap_of[chunk][unit];
  const auto& again = stage.units[static_cast<std::size_t>(chunk)][unit].again;
  for (const Again& one : again) {
    bring(stage, chunk, stage.sharded.wrap_of[chunk][one.unit], Ahead::none);
  }
  for (const Again& one : again) {
    for (Gathered& g : order) {
      const bool ran = g.wrap == stage.sharded.wrap_of[chunk][one.unit];
      g.given_up = g.given_up || (ran && is_unit(stage, g.wrap));
    }
  }
  if (again.empty() && is_unit(stage, wrap) && unit == stage.sharded.wraps[wrap].last()) {
    bring(stage, chunk, wrap, Ahead::backward);
  }
}

void UnitBuffers::before_second_use(Stage& stage, int chunk, std::size_t unit) {
  if (stage.sharded.buffered && is_unit(stage, stage.sharded.wrap_of[chunk][unit])) {
    bring(stage, chunk, stage.sharded.wrap_of[chunk][unit], Ahead::backward);
  }
}

// ---------------------------------------------------------------- gradients
// A hook copies each gradient into the unit's tensor behind the operator that makes it, and gives
// it up (megatron_fsdp.py: _grad_acc); the first makes that tensor.
void UnitBuffers::before_weight_gradients(Stage& stage, int chunk, std::size_t unit) {
  if (!stage.sharded.buffered) {
    return;
  }
  const TensorList& made = stage.units[chunk][unit].passes->memory.gradients;
  const std::size_t wrap = stage.sharded.wrap_of[chunk][unit];
  const Elements count = gradient_elements(stage, stage.sharded.wraps[wrap]);
  const std::vector<Gathered>& order = all_[static_cast<std::size_t>(chunk)];
  const auto [at, first] = filled_.try_emplace(
      wrap, std::array{program::BufferIndex{kNone}, program::BufferIndex{kNone}});
  for (const bool expert : {false, true}) {
    const auto elements = static_cast<double>(expert ? count.expert : count.dense);
    const auto mine = std::find_if(order.begin(), order.end(), [&](const Gathered& g) {
      return g.wrap == wrap && g.expert == expert;
    });
    if (!first || elements < 1 || mine == order.end()) {
      continue;
    }
    if (mine->pooled) {
      keep_two_units(stage, wrap);
      continue;
    }
    const auto bytes = whole_blocks(elements * width(stage.plan.precision.reduce));
    TensorList& list = gradients_[{&made, elements}];
    if (list.blocks.empty()) {
      const std::uint16_t from = made.blocks.empty() ? 0 : hook(made.blocks.front());
      list = {{{Bytes(bytes), label_of(stage, "gradients to reduce"), from, kPassEnd}}, bytes};
    }
    at->second[expert ? 1 : 0] = stage.builder.allocate(
        list, MemoryCategory::communication, label_of(stage, "gradients to reduce"), false);
  }
  const auto [one, fresh] = passing_.try_emplace(&made, made);
  if (fresh) {
    for (program::Block& block : one->second.blocks) {
      block.end = hook(block);
    }
  }
  made_ = stage.builder.allocate(one->second, MemoryCategory::communication,
                                 label_of(stage, "unsharded gradients"), false);
}

void UnitBuffers::wait_for_oldest(Stage& stage) {
  stage.builder.wait(stage.streams.compute, reductions_.front().done);
  stage.builder.release(reductions_.front().buffer);
  reductions_.pop_front();
}

// :3127, _enforce_double_buffer_limit.
void UnitBuffers::keep_two_units(Stage& stage, std::size_t wrap) {
  const auto others = [&] {
    std::vector<std::size_t> out;
    for (const Reduction& r : reductions_) {
      if (r.wrap != wrap && (out.empty() || out.back() != r.wrap)) {
        out.push_back(r.wrap);
      }
    }
    return static_cast<int>(out.size());
  };
  while (!reductions_.empty() && others() >= kStandingBuffers) {
    wait_for_oldest(stage);
  }
}

// :3182, _bucket_group_gradient_reduce: into a tensor of the shard's size, which is added to the
// shard that stands; over replicas with the step's last micro-batch.
void UnitBuffers::reduce(Stage& stage, Wrap& w, bool expert) {
  const Elements count = gradient_elements(stage, w);
  const auto elements = static_cast<double>(expert ? count.expert : count.dense);
  if (elements < 1) {
    return;
  }
  const Sharing s = sharing(stage.plan, expert);
  const auto& types = stage.plan.precision;
  const std::size_t wrap = stage.sharded.wrap_of[w.chunk][w.first()];
  const auto queued = [&] {
    double sum = 0;
    for (const Reduction& r : reductions_) {
      sum += r.elements;
    }
    return sum;
  };
  while (queued() > static_cast<double>(under_way_)) {
    wait_for_oldest(stage);
  }
  StreamIndex stream = reduce_beside(stage.plan) ? stage.streams.data : stage.streams.compute;
  stage.builder.wait(stream, stage.builder.mark(stage.streams.compute));
  stage.builder.wait(stream, stage.builder.mark(stage.streams.gather));
  const double shard = elements / s.shards;
  if (s.shards > 1) {
    const program::BufferIndex part =
        stage.plan.parameter_gather.double_buffers
            ? program::BufferIndex{kNone}
            : stage.builder.allocate(whole_blocks(shard * width(types.reduce)),
                                     MemoryCategory::communication,
                                     label_of(stage, "reduced gradients"), stream);
    data_collective(stage, stream, s.group, Collective::reduce_scatter,
                    elements * width(types.reduce), "gradients");
    data_kernel(stage, stream, shard * (width(types.reduce) + 2 * width(types.gradients)),
                cost::MemoryOp::elementwise, "add to sharded gradients");
    stage.builder.release(part);
  }
  if (s.copies > 1 && last_backward(stage, w.chunk)) {
    const StreamIndex beside = stage.streams.replicas != 0 && stream != stage.streams.compute
                                   ? stage.streams.replicas
                                   : stream;
    stage.builder.wait(beside, stage.builder.mark(stream));
    data_collective(stage, beside, s.replicas, Collective::all_reduce,
                    shard * width(types.gradients), "gradients");
    stream = beside;
  }
  each<&Feature::gradients_reduced>(stage, ReducedGradients{shard, stream, w.chunk});
  program::BufferIndex& filled = filled_[wrap][expert ? 1 : 0];
  reductions_.push_back({stage.builder.mark(stream), filled, elements, wrap});
  filled = kNone;
}

void UnitBuffers::after_backward(Stage& stage, int chunk, std::size_t unit) {
  if (!stage.sharded.buffered) {
    return;
  }
  stage.builder.release(made_);
  made_ = kNone;
  const double own = width(stage.plan.style.dtype);
  const auto bytes = static_cast<double>(stage.units[chunk][unit].passes->memory.gradients.bytes);
  data_kernel(stage, stage.streams.compute,
              bytes / own * (own + width(stage.plan.precision.reduce)), cost::MemoryOp::copy,
              "copy gradients in");
  Wrap& w = wrap_of(stage, chunk, unit);
  if (unit != w.first()) {
    return;
  }
  const std::size_t wrap = stage.sharded.wrap_of[chunk][unit];
  reduce(stage, w, true);
  reduce(stage, w, false);
  filled_.erase(wrap);
  if (is_unit(stage, wrap)) {
    drop_unit(stage, chunk, wrap);
  }
}

// megatron_fsdp.py: _root_post_backward.
void UnitBuffers::end_of_backward(Stage& stage, int /*chunk*/) {
  while (!reductions_.empty()) {
    wait_for_oldest(stage);
  }
}

void UnitBuffers::end_of_step(Stage& stage, StepEnd part) {
  for (std::vector<Gathered>& chunk : all_) {
    for (Gathered& g : chunk) {
      if (part == StepEnd::gather && g.standing != kNone && !g.stands) {
        stage.builder.allocate(g.standing);
        g.stands = true;
      }
    }
  }
}

}  // namespace

std::unique_ptr<Feature> make_unit_buffers() { return std::make_unique<UnitBuffers>(); }

}  // namespace stepcast::lower
