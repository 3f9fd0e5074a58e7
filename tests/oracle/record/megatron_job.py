"""megatron-core's configuration of a case, and its GPTModel by the local layer spec: torch's norms and fused attention stand in it."""
import functools
import inspect

import torch
from megatron.core import parallel_state
from megatron.core.models.gpt import GPTModel, gpt_layer_specs
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.transformer.identity_op import IdentityOp
from megatron.core.transformer.transformer_config import TransformerConfig

import megatron_routing
import operators


# What an older version does without another word, so that a case would be recorded as another job.
DECIDES = ("recompute_modules", "mtp_num_layers", "moe_layer_freq", "moe_shared_expert_intermediate_size", "moe_shared_expert_overlap", "moe_shared_expert_gate",
           "microbatch_group_size_per_vp_stage", "account_for_embedding_in_pipeline_split",
           "account_for_loss_in_pipeline_split", "pipeline_model_parallel_layout", "num_layers_in_first_pipeline_stage", "cross_entropy_loss_fusion",
           "optimizer_cpu_offload", "fine_grained_activation_offloading", "moe_expert_capacity_factor", "qk_layernorm", "add_qkv_bias")


def accepted(function, settings):
    """The settings that this version knows."""
    known = inspect.signature(function).parameters
    missing = [name for name in DECIDES if settings.get(name) and name not in known]
    if missing:
        raise ValueError(f"this version has no {', '.join(missing)}")
    return {name: value for name, value in settings.items() if name in known}


def configuration(case):
    m = case.model
    biases = getattr(m, "biases", {})
    biases = dict.fromkeys(("qkv", "attention_out", "mlp"), True) if biases is True else biases
    dropout = getattr(m, "dropout", 0.0)
    plain_gelu = not m.gated_mlp and (not biases.get("mlp") or hasattr(m, "moe"))  # its fused one takes a bias and no probabilities
    settings = {
        "num_layers": m.layers, "hidden_size": m.hidden, "ffn_hidden_size": m.ffn, "num_attention_heads": m.heads,
        "num_query_groups": m.kv_heads, "kv_channels": getattr(m, "head_dim", None), "gated_linear_unit": m.gated_mlp,
        "activation_func": torch.nn.functional.silu if m.gated_mlp else torch.nn.functional.gelu,
        "normalization": {"rms": "RMSNorm", "layer": "LayerNorm"}[m.norm], "layernorm_epsilon": 1e-5, "qk_layernorm": getattr(m, "qk_norm", False),
        "add_bias_linear": bool(biases.get("mlp")), "add_qkv_bias": bool(biases.get("qkv")), "hidden_dropout": dropout, "attention_dropout": dropout,
        "bf16": True, "params_dtype": torch.bfloat16, "pipeline_dtype": torch.bfloat16, "tensor_model_parallel_size": case.tensor,
        "pipeline_model_parallel_size": case.pipeline, "virtual_pipeline_model_parallel_size": case.virtual if case.virtual > 1 else None,
        "context_parallel_size": case.context, "sequence_parallel": bool(case.parallelism.get("sequence_parallel")) and case.tensor > 1,
        "bias_activation_fusion": not plain_gelu, "bias_dropout_fusion": True, "masked_softmax_fusion": False,
        "gradient_accumulation_fusion": False, "persist_layer_norm": False, "apply_rope_fusion": False, "use_cpu_initialization": False,
        "perform_initialization": False, "deallocate_pipeline_outputs": True, "batch_p2p_comm": case.virtual == 1,
        "overlap_p2p_comm": case.virtual > 1, "mtp_num_layers": getattr(m, "mtp_layers", 0) or None, "mtp_loss_scaling_factor": 0.1,  # without a default in 0.14
        **stages(case), **recomputation(case)}
    if case.option("loss_fusion"):
        settings |= {"cross_entropy_loss_fusion": True, "cross_entropy_fusion_impl": "native"}
    schedule = case.parallelism.get("schedule")
    if isinstance(schedule, dict) and schedule.get("group"):
        settings["microbatch_group_size_per_vp_stage"] = schedule["group"]
    offloaded = case.memory.get("offload", {}).get("activation_modules")
    if offloaded:
        settings |= {"fine_grained_activation_offloading": True, "offload_modules": list(offloaded)}
    if hasattr(m, "moe"):
        settings |= experts(case, m.moe)
    mla = getattr(m, "mla", None)
    if mla:
        settings |= {"q_lora_rank": mla["q_lora_rank"] or None, "kv_lora_rank": mla["kv_lora_rank"], "qk_head_dim": mla["qk_nope_dim"],
                     "qk_pos_emb_head_dim": mla["qk_rope_dim"], "v_head_dim": mla["v_dim"], "rope_type": "rope", "qk_layernorm": True}
        # It takes Transformer Engine for there where a part of Megatron's own imports (multi_latent_attention.py:62).
        from megatron.core.transformer import multi_latent_attention
        from megatron.core.transformer.transformer_config import MLATransformerConfig
        multi_latent_attention.HAVE_TE = False
        return MLATransformerConfig(**accepted(MLATransformerConfig, settings))
    return TransformerConfig(**accepted(TransformerConfig, settings))


def recomputation(case):
    kinds = {"none": {}, "full": {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1},
             "selective": {"recompute_granularity": "selective"}}
    if not isinstance(case.recompute, dict):
        return kinds[case.recompute]
    (kind, value), = case.recompute.items()
    return ({"recompute_granularity": "selective", "recompute_modules": list(value)} if kind == "modules" else
            {"recompute_granularity": "full", "recompute_method": kind, "recompute_num_layers": value})


def stages(case):
    """How layers are divided over pipeline stages where not evenly."""
    p, out = case.parallelism, {}
    if isinstance(p.get("layers_per_stage"), list):
        layers = p["layers_per_stage"]
        if case.virtual > 1 or len(set(layers[1:-1])) > 1:
            raise ValueError("only the first and the last stage may have another number of layers")
        out = {"num_layers_in_first_pipeline_stage": layers[0], "num_layers_in_last_pipeline_stage": layers[-1]}
    elif isinstance(p.get("layers_per_stage"), str):
        out = {"pipeline_model_parallel_layout": p["layers_per_stage"]}
    if p.get("embedding_as_layer"):
        out["account_for_embedding_in_pipeline_split"] = True
    if p.get("loss_as_layer"):
        out["account_for_loss_in_pipeline_split"] = True
    return out


def experts(case, moe):
    layers, dense, every = case.model.layers, moe.get("dense_layers", 0), moe.get("every", 1)
    kinds = [int(i >= dense and (i - dense) % every == every - 1) for i in range(layers)]
    return {"num_moe_experts": moe["experts"], "moe_router_topk": moe["topk"], "moe_ffn_hidden_size": moe["ffn"],
            "expert_model_parallel_size": case.expert, "expert_tensor_parallel_size": case.expert_tensor, "moe_grouped_gemm": False,
            "moe_token_dispatcher_type": case.option("dispatcher", "allgather"),
            "moe_shared_expert_intermediate_size": moe.get("shared_ffn", moe["ffn"]) if moe.get("shared_experts") else None,
            "moe_shared_expert_overlap": bool(case.option("shared_overlap")), "moe_shared_expert_gate": bool(moe.get("shared_gate")), "moe_expert_capacity_factor": case.option("capacity_factor"),
            "moe_pad_expert_input_to_capacity": case.option("capacity_factor") is not None,
            "moe_router_pre_softmax": moe["topk"] == 1,  # which it asks for there
            "moe_router_enable_expert_bias": bool(moe.get("router_bias")),
            "moe_router_score_function": "sigmoid" if moe.get("router_bias") else "softmax",
            **({} if all(kinds) else {"moe_layer_freq": kinds})}


def chunk(case, config, number):
    """A rank's model chunk, in bf16 on the device."""
    m = case.model
    moe = getattr(m, "moe", None)
    if moe:
        megatron_routing.balance(moe["topk"], moe["experts"], moe["experts"] // case.expert, case.option("capacity_factor"))
        of_experts = getattr(gpt_layer_specs, "_get_moe_module_spec", None)
        if of_experts:  # 0.10 takes Transformer Engine for there
            gpt_layer_specs._get_moe_module_spec = functools.partial(of_experts, use_te=False)
    latent = hasattr(m, "mla")
    of = {"vp_stage": number} if case.virtual > 1 else {}
    if of:
        parallel_state.set_virtual_pipeline_model_parallel_rank(number)
    if moe and isinstance(getattr(config, "moe_layer_freq", 1), list):
        spec = gpt_layer_specs.get_gpt_decoder_block_spec(config, use_transformer_engine=False, **accepted(
            gpt_layer_specs.get_gpt_decoder_block_spec, {"normalization": config.normalization, **of}))
        layers = spec.layer_specs
        spec.layer_norm = Norm
    else:
        spec = get_gpt_layer_local_spec(**accepted(get_gpt_layer_local_spec, {
            "num_experts": moe["experts"] if moe else None, "moe_grouped_gemm": False, "normalization": config.normalization,
            "qk_layernorm": config.qk_layernorm, **({"multi_latent_attention": True} if latent else {})}))
        layers = [spec]
    for layer in {id(one): one for one in layers}.values():
        use_torch_norm(config, layer)
        if case.option("attention", "flash") == "flash":
            layer.submodules.self_attention.submodules.core_attention = FlashAttention
    ahead = {}
    if getattr(config, "mtp_num_layers", None):
        from megatron.core.models import backends
        backends.LocalSpecProvider.layer_norm = lambda self, *_, **__: Norm
        ahead["mtp_block_spec"] = gpt_layer_specs.get_gpt_mtp_block_spec(
            config, spec, use_transformer_engine=False, **accepted(gpt_layer_specs.get_gpt_mtp_block_spec, of))
    multiple = 128 * case.tensor
    ends = {name: call(**accepted(call, {"ignore_virtual": False, **of})) for name, call in (
        ("pre_process", parallel_state.is_pipeline_first_stage), ("post_process", parallel_state.is_pipeline_last_stage))}
    model = GPTModel(config, spec, -(-m.vocab // multiple) * multiple, case.sequence,
                     share_embeddings_and_output_weights=getattr(m, "tied_embeddings", False),
                     position_embedding_type={"rotary": "rope", "learned": "learned_absolute", "none": "none"}[m.positions],
                     **ends, **ahead, **accepted(GPTModel, {"rotary_base": 500000, **of}))
    return model.cuda().bfloat16()


class Norm:
    """torch's norm, one kernel as Transformer Engine's, where the local norm refuses sequence parallelism or composes several."""

    def __new__(cls, config, hidden_size, eps=1e-5, **_):
        kind = torch.nn.RMSNorm if config.normalization == "RMSNorm" else torch.nn.LayerNorm
        norm = kind(hidden_size, eps=eps, dtype=config.params_dtype, device="cuda")
        for weight in norm.parameters():
            weight.sequence_parallel = config.sequence_parallel  # its gradient is all-reduced over tensor ranks
        return norm


def use_torch_norm(config, spec):
    import megatron.core.transformer.transformer_block as block
    attention = spec.submodules.self_attention.submodules
    if config.qk_layernorm and hasattr(attention, "kv_layernorm"):
        attention.kv_layernorm = Norm
        attention.q_layernorm = Norm if config.q_lora_rank else IdentityOp
    elif config.qk_layernorm:
        attention.q_layernorm = attention.k_layernorm = Norm
    spec.submodules.input_layernorm = spec.submodules.pre_mlp_layernorm = Norm
    block.LayerNormImpl = Norm


class FlashAttention(torch.nn.Module):
    """torch's flash attention as a core: heads in their groups, sequence first."""

    def __init__(self, config, layer_number, *_, **__):
        super().__init__()
        self.dropout = config.attention_dropout

    def forward(self, query, key, value, *_, **__):
        query, key, value = (t.permute(1, 2, 0, 3) for t in (query, key, value))
        if value.shape[-1] != query.shape[-1]:  # latent attention: torch's flash kernel wants equal widths
            return LatentCore.apply(query, key, value).permute(2, 0, 1, 3).reshape(query.shape[2], query.shape[0], -1)
        out = torch.nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=self.dropout, is_causal=True,
                                                               enable_gqa=query.shape[1] != key.shape[1])
        return out.permute(2, 0, 1, 3).reshape(out.shape[2], out.shape[0], -1)


class LatentCore(torch.autograd.Function):
    """A fused core whose values are narrower than its keys, as cuDNN's: saves its inputs, its output and a sum of each row."""

    @staticmethod
    def forward(ctx, query, key, value):
        batch, heads, rows, _ = query.shape
        out = torch.empty(rows, batch, heads, value.shape[-1], dtype=value.dtype, device=value.device).permute(1, 2, 0, 3)
        sums = torch.empty(batch, heads, rows, dtype=torch.float32, device=value.device)
        ctx.save_for_backward(query, key, value, out, sums)
        ctx.flops = 2 * batch * heads * rows * key.shape[2] * (key.shape[3] + value.shape[3])
        operators.count_attention("attention_forward", ctx.flops)
        return out

    @staticmethod
    def backward(ctx, gradient):
        operators.count_attention("attention_backward", ctx.flops * 5 // 2)
        query, key, value, _, sums = ctx.saved_tensors
        within = torch.empty_like(sums), torch.empty_like(query, dtype=torch.float32)
        out = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
        del within
        return out
