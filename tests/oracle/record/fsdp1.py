"""torch's FullyShardedDataParallel (FSDP1) over LlamaForCausalLM, a flat parameter for each layer."""
import functools

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

import llama
import step
import world


def record(case):
    world.join(case)
    model = llama.build(case, norm=case.option("norm", "fused"))
    low = torch.bfloat16
    reduce = {"fp32": torch.float32, "bf16": low}[case.option("reduce", "bf16")]
    whole = not case.parallelism.get("reshard_after_forward", True)
    strategy = {(False, False): ShardingStrategy.FULL_SHARD, (True, False): ShardingStrategy.SHARD_GRAD_OP,
                (False, True): ShardingStrategy.HYBRID_SHARD, (True, True): ShardingStrategy._HYBRID_SHARD_ZERO2}[whole, case.replicas > 1]
    mesh = init_device_mesh("cuda", (case.replicas, case.world // case.replicas), mesh_dim_names=("replicate", "shard"))
    prefetch = {"pre": BackwardPrefetch.BACKWARD_PRE, "post": BackwardPrefetch.BACKWARD_POST, "none": None}
    if model.config.tie_word_embeddings:  # made module by module, the two would be told apart: a script makes such a model on the host
        model = model.to_empty(device="cpu")
        llama.tie(model)
        for module in model.modules():
            for name, buffer in list(module.named_buffers(recurse=False)):
                setattr(module, name, torch.ones(buffer.shape, dtype=buffer.dtype))
    model = FullyShardedDataParallel(
        model, device_mesh=mesh if case.replicas > 1 else None, sharding_strategy=strategy, device_id=0,
        auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={type(llama.layers_of(model)[0])}),
        mixed_precision=MixedPrecision(param_dtype=low, reduce_dtype=reduce, buffer_dtype=low),
        backward_prefetch=prefetch[case.option("backward_prefetch", "pre")], forward_prefetch=bool(case.option("forward_prefetch", False)),
        limit_all_gathers=bool(case.option("limit_all_gathers", True)), use_orig_params=bool(case.option("use_orig_params", False)),
        cpu_offload=CPUOffload(offload_params=True) if case.option("offload") else None, sync_module_states=False,
        param_init_fn=lambda module: module.to_empty(device="cuda", recurse=False))
    each = case.parallelism.get("accumulation", {}).get("reduce", "each") == "each"

    def last_only(last):  # what no_sync() sets
        for unit in FullyShardedDataParallel.fsdp_modules(model):
            unit._sync_gradients = last or each

    clip = (lambda: model.clip_grad_norm_(1.0)) if case.option("clip", True) else None
    return step.measure(llama.train_step(case, model, llama.adamw(case, model), last_only, clip=clip))
