// Words of what training systems do with gradients, states and losses where a job states nothing.
#pragma once

namespace stepcast {

// How optimizer states are divided over ranks.
enum class StatePartition {
  by_array,      // each array by itself
  by_row,        // each array by itself, by whole rows of a matrix, padded to equal numbers
  flat,          // one flat partition of all arrays
  buffer_range,  // a range of one contiguous buffer, which may begin and end within an array
};

// Where gradients are while a bucket of them is reduced.
enum class BucketStorage {
  as_made,         // where the backward pass allocated them
  main_gradients,  // in the kept main gradients, of which buckets are ranges; apart from them where those are sharded
  standing,        // in buckets for all gradients, which are kept from step to step
  flat,            // copied into one flat buffer, or two that alternate where reductions overlap
};

// What an unfused loss does with logits that are divided over tensor ranks, and with their format.
enum class EagerLoss {
  as_built,           // nothing
  gathers_logits,     // tensor ranks gather the logits, and each computes the whole loss
  shards_logits,      // each tensor rank computes its part of the loss (PyTorch's loss parallel)
  narrow_under_fp16,  // under fp16 the loss stays in the logits' format, without a copy in fp32
};

// Whether accumulated and reduced gradients take the parameters' format where the job states none.
enum class GradientFormat {
  own,                     // no
  parameters_if_fp16,      // where parameters are fp16
  parameters,              // yes
  reduced_as_accumulated,  // whole gradients are reduced in the format in which they are accumulated
};

// Where gradients that are offloaded to the host are added up when a step reduces several times.
enum class HostGradientSum {
  none,       // nowhere: later ones replace earlier ones
  on_device,  // the sum so far comes back to the device
  on_host,    // the host's cores add
};

}  // namespace stepcast
