// Habits of a family of training systems for which there are no keys. `config` fills this from the system's `family`;
// every other room reads what is done, never by which system.
#pragma once

#include "stepcast/terms/habits.h"

namespace stepcast::job {

// Defaults: the family "megatron".
struct Habits {
  // Operators.
  bool packs_projections = true;       // one product for queries, keys and values, and one for gate and up
  bool adds_linear_bias_apart = true;  // after the product; else in its epilogue
  bool adds_expert_bias_apart = true;  // expert by expert, after grouped products of Transformer Engine
  bool sends_probabilities = true;     // rows travel to experts with their probabilities; else these wait where rows return
  bool widens_scores_first = true;     // an eager softmax in fp32: scores are cast ahead of the mask
  bool casts_operands_twice = false;   // narrow operands are cast by plain kernels, once for each product that reads them
  int vocab_divisor = 128;             // of the padded vocabulary where the system states none, times tensor; 1: not padded
  EagerLoss eager_loss = EagerLoss::gathers_logits;
  bool input_gradient_first = true;  // a product's function makes the gradient of its input ahead of its weight's
  bool layer_holds_normed_input =
      true;  // a layer's frame holds what it normed until the residual is added; else the module's

  // Tensor parallelism.
  bool saves_gathered_inputs = false;  // with sequence parallelism a linear keeps the input that it gathered

  // Gradients.
  bool gradients_stand = true;            // kept from step to step and zeroed; else allocated by the backward pass
  bool frees_narrow_gradients = false;    // gradients as narrow as parameters live from the backward pass to the step alone
  bool hands_on_weight_gradients = true;  // backward passes return a tensor of the weight's size to autograd
  BucketStorage bucket_storage = BucketStorage::main_gradients;
  bool always_in_buckets = false;     // also without overlap: buckets are filled and reduced on the compute stream
  bool adds_wide_after_pass = false;  // a micro-batch's gradients are added to wider ones once its pass is over
  bool sends_behind_backward = true;  // without overlap gradients are reduced after the step's last backward pass
  GradientFormat gradient_format = GradientFormat::parameters_if_fp16;
  // Gradients and optimizer states have the parameters' format where the job states none (torch 2.15, optim/adam.py:
  // zeros_like of each parameter; _fsdp_collectives.py, foreach_reduce: reduced gradients in its orig_dtype).
  bool states_follow_parameters = false;

  // Units whose parameters are sharded.
  bool zero2_shards_parameters = false;    // zero2 also keeps parameters sharded from step to step
  bool keeps_whole_gradients = false;      // units may hold whole gradients until the last micro-batch
  bool ends_join_root = true;              // embedding and head are one root unit that stays whole until its backward
  bool reshards_before_reduction = false;  // parameters are dropped before the unit's gradients are reduced, not after
  bool makes_sharded_gradients = false;    // allocated in the first backward pass of a step; else kept
  bool tiles_linears = false;              // linears can be gathered and run tile by tile

  // Optimizer.
  StatePartition partition = StatePartition::buffer_range;
  bool owns_whole_matrices = true;  // if the optimizer needs whole matrices, each belongs to one rank
  bool flattens_before_widening =
      false;                            // narrow gradients are copied into one tensor and given up before fp32 copies exist
  bool checkpoint_frees_input = false;  // a checkpoint without reentrance: its input goes with what is made again
  bool fp32_gradients_stand = true;     // fp32 copies of narrow gradients live until the next step, not only during it
  bool orthogonalises_in_fp32 = true;   // matrix iterations of Muon
  bool norm_has_its_group = true;       // the gradient norm of all ranks runs in a group of its own

  // Offloading.
  bool gradients_follow_optimizer = false;  // gradients are offloaded where the optimizer is
  HostGradientSum host_gradient_sum = HostGradientSum::none;
  bool norm_on_host = false;  // of gradients that are offloaded

  // Pipeline.
  bool waits_behind_batched_p2p = true;  // the host waits for the device after each batch of sends and receives
  bool keeps_last_received = true;       // a chunk keeps the tensor that it last received, and its gradient

  // Memory.
  bool keeps_scores_buffer = true;  // unfused attention adds its scores to a buffer that is kept
};

}  // namespace stepcast::job
