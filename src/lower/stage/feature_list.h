// The features of a training step: one line each here and in feature_list.cpp, one file each beside
// it.
#pragma once

#include <memory>
#include <span>

#include "feature.h"

namespace stepcast::lower {

// A feature with the name by which tests leave it out.
struct FeatureEntry {
  const char* name;
  std::unique_ptr<Feature> (*make)();
};

// All features, in the order in which a hook is called on them.
std::span<const FeatureEntry> all_features();

std::unique_ptr<Feature> make_activation_offload();
std::unique_ptr<Feature> make_gradient_norm();
std::unique_ptr<Feature> make_sharded_gradients();
std::unique_ptr<Feature> make_sharded_parameters();
std::unique_ptr<Feature> make_traced_parameters();
std::unique_ptr<Feature> make_unit_buffers();
std::unique_ptr<Feature> make_shared_table();
std::unique_ptr<Feature> make_made_gradients();
std::unique_ptr<Feature> make_buckets();
std::unique_ptr<Feature> make_horovod();
std::unique_ptr<Feature> make_parameter_pieces();
std::unique_ptr<Feature> make_states();
std::unique_ptr<Feature> make_state_offload();
std::unique_ptr<Feature> make_optimizer();
std::unique_ptr<Feature> make_host_step();
std::unique_ptr<Feature> make_last_input();
std::unique_ptr<Feature> make_received_tensors();
std::unique_ptr<Feature> make_held_output();
std::unique_ptr<Feature> make_logits_held();
std::unique_ptr<Feature> make_pass_gradients();
std::unique_ptr<Feature> make_router_graph();
std::unique_ptr<Feature> make_cast_cache();
std::unique_ptr<Feature> make_workspaces();
std::unique_ptr<Feature> make_gathered_tiles();
std::unique_ptr<Feature> make_shared_gradients();
std::unique_ptr<Feature> make_blocking_messages();
std::unique_ptr<Feature> make_interleaved_messages();
std::unique_ptr<Feature> make_overlapped_messages();
std::unique_ptr<Feature> make_messages_of_any_order();
std::unique_ptr<Feature> make_vocabulary();
std::unique_ptr<Feature> make_deferred_head();
std::unique_ptr<Feature> make_recomputation();

}  // namespace stepcast::lower
