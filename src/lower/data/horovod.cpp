#include "horovod.h"

#include "../stage/feature_list.h"
#include "buckets.h"

namespace stepcast::lower {

using program::Category;
using program::StreamIndex;

bool leaves_at_ticks(const Stage& stage, StreamIndex stream) {
  return stage.streams.ticks != 0 && stream == stage.streams.data;
}

// Half a cycle later on average (horovod/common/operations.cc).
void wait_for_tick(Stage& stage, StreamIndex stream, double copied) {
  const StreamIndex ticks = stage.streams.ticks;
  stage.builder.wait(ticks, stage.builder.mark(stage.streams.compute));
  program::Task& tick =
      stage.builder.kernel(ticks, stage.plan.gradient_sync.cycle_time / 2, 0, Category::compute,
                           label_of(stage, "wait for the next cycle"), Time{0});
  tick.slowdown = 0;
  stage.builder.wait(stream, stage.builder.mark(ticks));
  data_kernel(stage, stream, copied, cost::MemoryOp::copy, "copy gradients into the fusion buffer");
}

void leave_fusion_buffer(Stage& stage, StreamIndex stream, double copied) {
  data_kernel(stage, stream, copied, cost::MemoryOp::copy,
              "copy gradients out of the fusion buffer");
}

namespace {

class Horovod final : public Feature {
 public:
  void make_streams(Stage& stage) override;
  void after_backward(Stage& stage, int chunk, std::size_t unit) override;

 private:
  Time cycle_{0};  // backward time since the last tick
};

Time backward_time(const Passes& passes) {
  Time sum{0};
  for (const Item& item : passes.backward) {
    sum += item.kind == Item::Kind::kernel ? item.duration : Time{0};
  }
  return sum;
}

void Horovod::make_streams(Stage& stage) {
  if (travels(stage) && !wraps(stage) && stage.plan.gradient_sync.cycle_time.count() > 0) {
    stage.streams.ticks = stage.builder.stream("background thread");
  }
}

// Once a cycle has passed, what is ready leaves, however full the buckets are.
void Horovod::after_backward(Stage& stage, int chunk, std::size_t unit) {
  if (stage.streams.ticks == 0 || !reduces(stage, chunk) || !bucketed(stage, chunk) ||
      !sends_as_it_goes(stage.plan)) {
    return;
  }
  cycle_ += backward_time(*stage.units[static_cast<std::size_t>(chunk)][unit].passes);
  if (cycle_ >= stage.plan.gradient_sync.cycle_time) {
    cycle_ = Time{0};
    flush_gradients(stage, chunk,
                    reduce_beside(stage.plan) ? stage.streams.data : stage.streams.compute);
  }
}

}  // namespace

std::unique_ptr<Feature> make_horovod() { return std::make_unique<Horovod>(); }

}  // namespace stepcast::lower
