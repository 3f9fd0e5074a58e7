"""torch's DistributedDataParallel with autocast over LlamaForCausalLM in fp32."""
import torch
import torch.distributed as dist
import torch.nn as nn

import llama
import step
import world


def reduce_by_torch(state, bucket):
    """What the reducer does in C++, where the fake group's work has no future: divide and all-reduce the bucket."""
    dist.all_reduce(bucket.buffer().div_(dist.get_world_size()))
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def record(case):
    world.join(case)
    model = llama.materialise(llama.build(case, norm=case.option("norm", "fused")))
    if case.option("compile"):
        model.compile()  # whole, with its loss
    ddp = nn.parallel.DistributedDataParallel(
        model, device_ids=[0], init_sync=False, bucket_cap_mb=case.option("bucket_cap_mb", 25),
        gradient_as_bucket_view=bool(case.option("bucket_view", False)), static_graph=bool(case.option("static_graph", False)),
        find_unused_parameters=bool(case.option("find_unused", False)))
    ddp.register_comm_hook(None, reduce_by_torch)
    each = case.parallelism.get("accumulation", {}).get("reduce", "last") == "each"

    def last_only(last):  # what no_sync() sets
        ddp.require_backward_grad_sync = last or each

    clip = (lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0)) if case.option("clip", True) else None
    return step.measure(llama.train_step(case, ddp, llama.adamw(case, model), last_only, autocast=True, clip=clip))
