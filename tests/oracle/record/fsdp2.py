"""torch's fully_shard (FSDP2) and its hybrid form over LlamaForCausalLM, a unit for each layer."""
import torch
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

import llama
import step
import world


def record(case):
    world.join(case)
    model = llama.build(case, norm=case.option("norm", "fused"))
    reduce = {"fp32": torch.float32, "bf16": torch.bfloat16}[case.option("reduce", "fp32")]
    settings = {"mesh": mesh(case), "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce),
                "offload_policy": CPUOffloadPolicy() if case.option("offload") else OffloadPolicy()}
    reshard = case.parallelism.get("reshard_after_forward", True)
    layers = llama.layers_of(model)
    if case.option("compile"):  # each layer by itself, before it is sharded, as torchtitan does
        for layer in layers:
            layer.compile(fullgraph=True)
    group = case.option("unit_layers", 1)
    for first in range(0, len(layers), group):
        fully_shard(list(layers[first:first + group]) if group > 1 else layers[first], reshard_after_forward=reshard, **settings)
    if case.option("ends"):  # embedding, and norm with head, as units of their own
        fully_shard(model.model.embed_tokens, reshard_after_forward=reshard, **settings)
        fully_shard([model.model.norm, model.lm_head], reshard_after_forward=False, **settings)
    fully_shard(model, **settings)
    ahead = case.option("prefetch", 0)  # explicit prefetching of that many units
    for index, layer in enumerate(layers):
        if ahead:
            layer.set_modules_to_forward_prefetch(list(layers[index + 1:index + 1 + ahead]))
            layer.set_modules_to_backward_prefetch(list(layers[max(0, index - ahead):index][::-1]))
    if case.option("offload"):
        model.to_empty(device="cpu")
        for module in model.modules():
            for name, buffer in list(module.named_buffers(recurse=False)):
                setattr(module, name, torch.ones(buffer.shape, dtype=buffer.dtype, device="cuda"))
        llama.tie(model)
    else:
        llama.materialise(model)
    each = case.parallelism.get("accumulation", {}).get("reduce", "each") == "each"
    clip = (lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0)) if case.option("clip", True) else None
    return step.measure(llama.train_step(case, model, llama.adamw(case, model),
                                         lambda last: model.set_requires_gradient_sync(last or each), clip=clip))


def mesh(case):
    """The shard's dimension alone, or with replicas before it."""
    both = init_device_mesh("cuda", (case.replicas, case.world // case.replicas), mesh_dim_names=("replicate", "shard"))
    return both if case.replicas > 1 else both["shard"]
