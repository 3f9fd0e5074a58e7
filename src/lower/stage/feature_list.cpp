#include "feature_list.h"

#include <array>

namespace stepcast::lower {

namespace {

// In reading order. Where the order matters, it is that of a hook's tasks: what comes back before
// it is used stands before its users, streams are numbered as they are made.
constexpr std::array kFeatures = {
    FeatureEntry{"activation offload",
                 make_activation_offload},              // saved activations to the host and back
    FeatureEntry{"gradient norm", make_gradient_norm},  // at once, or behind the optimizer
    FeatureEntry{"shared table", make_shared_table},    // of both ends, ahead of its reduction
    FeatureEntry{"sharded gradients",
                 make_sharded_gradients},  // of units reduced whole: FSDP, ZeRO-3
    FeatureEntry{"sharded parameters", make_sharded_parameters},  // of units gathered whole
    FeatureEntry{"traced parameters",
                 make_traced_parameters},  // gathered array by array as DeepSpeed's trace says
    FeatureEntry{"unit buffers",
                 make_unit_buffers},  // units gathered into and reduced from tensors: Megatron-FSDP
    FeatureEntry{"made gradients", make_made_gradients},  // by operators, whole, in each step anew
    FeatureEntry{"gradient buckets", make_buckets},  // whole arrays: DDP, Megatron-LM, ZeRO-1 and 2
    FeatureEntry{"Horovod", make_horovod},           // its background thread's ticks
    FeatureEntry{"parameter pieces", make_parameter_pieces},  // gathered once a step: ZeRO-1 and 2
    FeatureEntry{"states", make_states},                // parameters, gradients, optimizer states
    FeatureEntry{"state offload", make_state_offload},  // those that live outside the GPU
    FeatureEntry{"optimizer", make_optimizer},          // on the device
    FeatureEntry{"step on the host", make_host_step},   // on the CPUs
    FeatureEntry{"received tensors", make_received_tensors},  // and those that stages send
    FeatureEntry{"last input", make_last_input},              // that a chunk holds on to
    FeatureEntry{"held output", make_held_output},            // of the model, in fp32
    FeatureEntry{"logits held", make_logits_held},            // and the trainer's metrics of them
    FeatureEntry{"pass gradients", make_pass_gradients},      // narrow ones beside the main ones
    FeatureEntry{"router graph", make_router_graph},          // what a layer of experts holds on to
    FeatureEntry{"cast cache", make_cast_cache},              // of weights, under autocast
    FeatureEntry{"workspaces", make_workspaces},              // libraries' scratch memory
    FeatureEntry{"tiles", make_gathered_tiles},  // parts of linears, one after the other
    FeatureEntry{"shared gradients",
                 make_shared_gradients},  // of parameters that other groups hold
    FeatureEntry{"blocking messages", make_blocking_messages},          // 1F1B, GPipe
    FeatureEntry{"interleaved messages", make_interleaved_messages},    // without overlap
    FeatureEntry{"overlapped messages", make_overlapped_messages},      // interleaved
    FeatureEntry{"messages of any order", make_messages_of_any_order},  // any other schedule
    FeatureEntry{"vocabulary", make_vocabulary},                        // over all stages
    FeatureEntry{"deferred head", make_deferred_head},  // its weight gradient behind all passes
    FeatureEntry{"recomputation", make_recomputation},  // forward passes that run again
};

}  // namespace

std::span<const FeatureEntry> all_features() { return kFeatures; }

}  // namespace stepcast::lower
