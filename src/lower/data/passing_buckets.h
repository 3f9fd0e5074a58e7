// Buckets that live from the first gradient in them to their last reduction: what lies in memory
// meanwhile. buckets.cpp says when they are sent.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "../stage/feature.h"

namespace stepcast::lower {

// The stage's gradients pass through flat buckets (fills_passing_buckets).
bool passing(const Stage& stage);
// Elements of the buffers where gradients are copied to be sent: DDP's buckets, Horovod's fusion
// buffer, DeepSpeed's flat buckets, two of them when reduction overlaps. DeepSpeed's are as large
// as a bucket may be, however few gradients there are (0.19.8, runtime/zero/stage_1_and_2.py:3266;
// stage3.py:782).
double bucket_buffers(const Stage& stage);

// DeepSpeed's flat buckets under ZeRO-1 and 2, and Megatron-FSDP's of a backward pass.
class PassingBuckets {
 public:
  // Ahead of the step; the stage has all its units.
  void begin(const Stage& stage);
  // The operators of a unit make its gradients, and the bucket behind the first of them.
  void before_weight_gradients(Stage& stage, int chunk, std::size_t unit);
  // Gradients of a unit that no operator makes, behind its backward pass.
  void hold(Stage& stage, int chunk, std::size_t unit, const TensorList& made);
  // Behind a unit's backward pass: gradients that left at once have no tensor any more.
  void backward_passed(Stage& stage, int chunk, std::size_t unit);
  // A unit's gradients are in the bucket; what this rank keeps of the reduced ones has a tensor of
  // its own until the step.
  void hand_over(Stage& stage, int chunk, std::size_t unit);
  // All that was in the bucket is sent.
  void give_up(Stage& stage);

 private:
  // A unit's gradients, each up to its copy in a bucket, and the copies in which overfull buckets
  // are reduced; the bytes that are in the bucket behind the unit.
  struct Leaving {
    TensorList list;
    std::int64_t left = 0;
    TensorList last;  // the pass's last gradient, if it is larger than a bucket
  };
  const Leaving& leaving(Stage& stage, const Passes& passes, bool ends);
  void open_flat_bucket(Stage& stage, std::uint16_t from);
  void open_bucket_of_pass(Stage& stage, int chunk, const Passes& passes);

  std::vector<std::vector<program::BufferIndex>> made_;  // by chunk and unit: to be copied
  program::BufferIndex bucket_ = program::kNone;
  TensorList bucket_list_;                      // the bucket, behind a step's first gradient
  bool partitioned_ = false;                    // the shard of reduced gradients exists
  program::BufferIndex last_ = program::kNone;  // the pass's last gradient, which goes by itself
  std::int64_t in_bucket_ = 0;                  // bytes
  // By the unit's kind and the bytes that are in the bucket ahead of it.
  std::map<std::pair<const Passes*, std::int64_t>, Leaving> leaving_;
};

}  // namespace stepcast::lower
