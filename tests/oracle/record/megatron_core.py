"""megatron-core's GPTModel by its local layer spec, its DistributedDataParallel, optimizer and pipeline schedules.

Transformer Engine and apex are extensions that would run kernels of their own. Without them megatron-core takes torch's modules
and AdamW. Its local attention is unfused; torch's flash attention stands there unless `attention: unfused` asks for its own.
"""
import inspect
import os

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # its jit_fuser would compile for a GPU (megatron_fusions.py)
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")  # it insists on this with sequence parallelism

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func, schedules
from megatron.core.transformer.transformer_config import TransformerConfig

import megatron_fusions
import megatron_routing
import operators
import step
import world


def stand_alone():
    """What versions ask for that is not here: gloo groups for checkpoints, and fp8 parameters, of which a step has none."""
    new_group = torch.distributed.new_group

    def fake_group(*args, **kwargs):
        if kwargs.get("backend") == "gloo":
            kwargs["backend"] = "fake"
        return new_group(*args, **kwargs)

    torch.distributed.new_group = fake_group
    try:
        from megatron.core import fp8_utils
    except ImportError:
        return
    for name in ("_quantize_param_shard_impl", "_correct_amax_history_if_needed_impl"):
        if hasattr(fp8_utils, name):
            setattr(fp8_utils, name, lambda *_, **__: None)


def record(case):
    world.join(case)
    stand_alone()
    megatron_fusions.stand_in()
    overlap = case.parallelism.get("overlap", {})
    sharded = case.parallelism.get("sharding", "none") == "zero1"
    parallel_state.initialize_model_parallel(
        case.tensor, case.pipeline, case.virtual if case.virtual > 1 else None, context_parallel_size=case.context,
        expert_model_parallel_size=case.expert, **accepted(parallel_state.initialize_model_parallel, {
            "expert_tensor_parallel_size": case.expert_tensor, "create_gloo_process_groups": False}))
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    config = configuration(case)
    chunks = [chunk(case, config, number) for number in range(case.virtual)]
    fp32 = case.memory.get("dtypes", {}).get("reduce", "fp32") == "fp32"
    bucket = case.option("bucket_elements", max(40_000_000, 1_000_000 * case.data * case.context))
    ddp = DistributedDataParallelConfig(**accepted(DistributedDataParallelConfig, {
        "grad_reduce_in_fp32": fp32, "overlap_grad_reduce": bool(overlap.get("grad_reduce")), "use_distributed_optimizer": sharded,
        "overlap_param_gather": bool(overlap.get("param_gather")), "bucket_size": bucket if overlap.get("grad_reduce") else None}))
    models = [DistributedDataParallel(config, ddp, m, disable_bucketing=index > 0) for index, m in enumerate(chunks)]
    settings = {"optimizer": "adam", "lr": 1e-4, "bf16": True, "params_dtype": torch.bfloat16, "use_distributed_optimizer": sharded,
                "clip_grad": 1.0, "overlap_param_gather": bool(overlap.get("param_gather"))}
    # From 0.13 on it makes gloo groups for checkpoints unless told not to; the fake world has none.
    optimizer = get_megatron_optimizer(OptimizerConfig(**accepted(OptimizerConfig, settings)), models,
                                       **accepted(get_megatron_optimizer, {"use_gloo_process_groups": False}))
    config.finalize_model_grads_func = finalize_model_grads
    config.grad_scale_func = optimizer.scale_loss
    each = lambda functions: functions if len(functions) > 1 else functions[0]
    if ddp.overlap_grad_reduce:
        config.no_sync_func = each([m.no_sync for m in models])
    if overlap.get("param_gather"):
        if not hasattr(ddp, "overlap_param_gather"):
            raise ValueError("versions before 0.9 gather ahead from the optimizer's hooks, which this recorder does not set")
        config.param_sync_func = each([m.start_param_sync for m in models])
    return step.measure(train_step(case, config, models, optimizer), passes=watch_passes(case) if case.pipeline > 1 else None)


def accepted(function, settings):
    """The settings that this version knows."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in settings.items() if name in known}


def configuration(case):
    m, kinds = case.model, {"none": {}, "full": {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1},
                            "selective": {"recompute_granularity": "selective"}}
    if isinstance(case.recompute, dict):
        (kind, value), = case.recompute.items()
        recompute = ({"recompute_granularity": "selective", "recompute_modules": list(value)} if kind == "modules" else
                     {"recompute_granularity": "full", "recompute_method": kind, "recompute_num_layers": value})
    else:
        recompute = kinds[case.recompute]
    settings = {
        "num_layers": m.layers, "hidden_size": m.hidden, "ffn_hidden_size": m.ffn, "num_attention_heads": m.heads,
        "num_query_groups": m.kv_heads, "gated_linear_unit": m.gated_mlp, "activation_func": torch.nn.functional.silu,
        "normalization": "RMSNorm", "layernorm_epsilon": 1e-5, "add_bias_linear": False, "hidden_dropout": 0.0, "attention_dropout": 0.0,
        "bf16": True, "params_dtype": torch.bfloat16, "pipeline_dtype": torch.bfloat16, "tensor_model_parallel_size": case.tensor,
        "pipeline_model_parallel_size": case.pipeline, "virtual_pipeline_model_parallel_size": case.virtual if case.virtual > 1 else None,
        "context_parallel_size": case.context, "sequence_parallel": bool(case.parallelism.get("sequence_parallel")) and case.tensor > 1,
        "bias_activation_fusion": True, "bias_dropout_fusion": True, "masked_softmax_fusion": False, "gradient_accumulation_fusion": False,
        "persist_layer_norm": False, "apply_rope_fusion": False, "use_cpu_initialization": False, "perform_initialization": False,
        "deallocate_pipeline_outputs": True, "batch_p2p_comm": case.virtual == 1, "overlap_p2p_comm": case.virtual > 1, **recompute}
    if hasattr(m, "moe"):
        moe = m.moe
        settings |= {"num_moe_experts": moe["experts"], "moe_router_topk": moe["topk"], "moe_ffn_hidden_size": moe["ffn"],
                     "expert_model_parallel_size": case.expert, "expert_tensor_parallel_size": case.expert_tensor, "moe_grouped_gemm": False,
                     "moe_token_dispatcher_type": case.option("dispatcher", "allgather"),
                     "moe_shared_expert_intermediate_size": moe.get("shared_ffn", moe["ffn"]) if moe.get("shared_experts") else None,
                     "moe_expert_capacity_factor": case.option("capacity_factor"),
                     "moe_pad_expert_input_to_capacity": case.option("capacity_factor") is not None}
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


def chunk(case, config, number):
    """A rank's model chunk, in bf16 on the device."""
    m = case.model
    moe = getattr(m, "moe", None)
    if moe:
        megatron_routing.balance(moe["topk"], moe["experts"])
    spec = get_gpt_layer_local_spec(**accepted(get_gpt_layer_local_spec, {
        "num_experts": moe["experts"] if moe else None, "moe_grouped_gemm": False, "normalization": "RMSNorm",
        **({"multi_latent_attention": True, "qk_layernorm": True} if hasattr(m, "mla") else {})}))
    use_torch_norm(spec)
    if case.option("attention", "flash") == "flash":
        spec.submodules.self_attention.submodules.core_attention = FlashAttention
    multiple = 128 * case.tensor
    of = {"vp_stage": number} if case.virtual > 1 else {}
    if of:
        parallel_state.set_virtual_pipeline_model_parallel_rank(number)
    ends = {name: call(**accepted(call, {"ignore_virtual": False, **of})) for name, call in (
        ("pre_process", parallel_state.is_pipeline_first_stage), ("post_process", parallel_state.is_pipeline_last_stage))}
    model = GPTModel(config, spec, -(-m.vocab // multiple) * multiple, case.sequence, share_embeddings_and_output_weights=False,
                     position_embedding_type="rope", **ends, **accepted(GPTModel, {"rotary_base": 500000, **of}))
    return model.cuda().bfloat16()


def use_torch_norm(spec):
    """nn.RMSNorm, one kernel as Transformer Engine's, where the local norm refuses sequence parallelism or composes several."""
    import megatron.core.transformer.transformer_block as block

    class Norm:
        def __new__(cls, config, hidden_size, eps=1e-5, **_):
            norm = torch.nn.RMSNorm(hidden_size, eps=eps, dtype=config.params_dtype, device="cuda")
            norm.weight.sequence_parallel = config.sequence_parallel  # its gradient is all-reduced over tensor ranks
            return norm

    attention = spec.submodules.self_attention.submodules
    if hasattr(attention, "kv_layernorm"):
        attention.q_layernorm = attention.kv_layernorm = Norm
    spec.submodules.input_layernorm = spec.submodules.pre_mlp_layernorm = Norm
    block.LayerNormImpl = Norm


class FlashAttention(torch.nn.Module):
    """torch's flash attention as a core: heads in their groups, sequence first."""

    def __init__(self, config, layer_number, *_, **__):
        super().__init__()

    def forward(self, query, key, value, *_, **__):
        query, key, value = (t.permute(1, 2, 0, 3) for t in (query, key, value))
        if value.shape[-1] != query.shape[-1]:  # latent attention: torch's flash kernel wants equal widths
            return LatentCore.apply(query, key, value).permute(2, 0, 1, 3).reshape(query.shape[2], query.shape[0], -1)
        out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=query.shape[1] != key.shape[1])
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


def train_step(case, config, models, optimizer):
    """As training.py's train_step, with the same tokens in each micro-batch."""
    length = case.sequence // case.context
    tokens = torch.zeros(case.micro_batch, length, dtype=torch.long, device="cuda")
    positions = torch.arange(length, device="cuda").unsqueeze(0).expand(case.micro_batch, -1)
    unfused = case.option("attention", "flash") == "unfused"
    mask = torch.zeros(1, 1, case.sequence, case.sequence, dtype=torch.bool, device="cuda") if unfused else None
    run = get_forward_backward_func()
    mark_pass = [lambda phase: None]

    def forward(_, model):
        mark_pass[0]("forward")
        losses = model(tokens, positions, mask, labels=tokens)

        def mean(values):
            mark_pass[0]("backward")
            return values.float().mean(), {}
        return losses, mean

    def step_of(mark):
        mark("forward")
        mark_pass[0] = mark if case.accumulate == case.pipeline == 1 else lambda phase: None
        for model in models:
            model.zero_grad_buffer()
        optimizer.zero_grad()
        several = len(models) > 1
        run(forward_step_func=forward, data_iterator=[iter(())] * len(models) if several else iter(()),
            model=models if several else models[0], num_microbatches=case.accumulate, seq_length=case.sequence,
            micro_batch_size=case.micro_batch, forward_only=False)
        mark("optimizer")
        optimizer.step()

    return step_of


def watch_passes(case):
    """Records the schedule's calls, written as torch.distributed.pipelining does: 3F0 is stage 3's first forward."""
    log, stage_of = [], {}
    forward, backward = schedules.forward_step, schedules.backward_step
    first = lambda value: value[0] if isinstance(value, (list, tuple)) else value

    def watched_forward(*args, **kwargs):
        chunk = kwargs.get("vp_stage")
        if chunk is None:  # versions before 0.13, and without chunks
            chunk = parallel_state.get_virtual_pipeline_model_parallel_rank() or 0
        stage = chunk * case.pipeline + parallel_state.get_pipeline_model_parallel_rank()
        log.append((stage, "F"))
        out = forward(*args, **kwargs)
        stage_of[id(first(first(out)))] = stage
        return out

    def watched_backward(input_tensor, output_tensor, *args, **kwargs):
        log.append((stage_of.pop(id(first(output_tensor))), "B"))  # of the chunk that made this output
        return backward(input_tensor, output_tensor, *args, **kwargs)

    schedules.forward_step, schedules.backward_step = watched_forward, watched_backward

    def last_step():
        passes, counts = log[-2 * case.accumulate * case.virtual:], {}
        out = []
        for key in passes:
            out.append(f"{key[0]}{key[1]}{counts.get(key, 0)}")
            counts[key] = counts.get(key, 0) + 1
        return " ".join(out)

    return last_step
