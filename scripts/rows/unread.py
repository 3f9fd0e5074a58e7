"""Fields of a row that nothing here reads: what a row states there would be lost without a word."""

# Fields of each part that are read, and those that say nothing of a job (where a figure comes from, what was counted).
ROW = ("id source verified verified_in framework framework_version year gpu num_gpus gpus_per_node intra_node inter_node model seq_len global_batch "
       "micro_batch grad_accum parallel recompute offload precision attention compile overlap optimizer extra_args env metric value other_metrics "
       "flops_convention memory_kind inferred notes job level kernel provider mode config x x_name command p20 p80")
PARTS = {
    "model": "name arch layers hidden heads kv_heads head_dim ffn vocab gated_mlp tied_embeddings moe mla biases position learned_pos_emb "
             "sliding_window window_pattern mtp_layers layernorm params params_formula_matches",
    "parallel": "dp tp pp vpp cp ep etp sequence_parallel zero_stage fsdp hsdp_shard schedule",
    "job": "device schedule precision recompute attention compile finetune moe_capacity moe_balance allocator cuda_graph loss zero_group "
           "dispatcher moe_method flops vocab optimizer",
}
EXPERTS = ("experts topk shared_experts moe_ffn shared_ffn layer_freq dense_layers first_dense_layers latent latent_size moe_latent_size "
           "mla note")


def states(value):
    return value is not None and value is not False and value not in ("", [], {})


def beyond(part, known):
    return [key for key, value in part.items() if key not in known.split() and states(value)] if isinstance(part, dict) else []


def unread(row):
    """Paths of the fields that the row states and nothing reads."""
    out = beyond(row, ROW)
    for part, known in PARTS.items():
        out += [f"{part}.{key}" for key in beyond(row.get(part), known)]
    model = row.get("model")
    return out + [f"model.moe.{key}" for key in beyond(model.get("moe") if isinstance(model, dict) else None, EXPERTS)]
