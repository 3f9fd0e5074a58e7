"""What a real GPU needs and the null one does not: values that are numbers, and data as training has it."""
import torch

import llama
import measure
import world


def apply(case):
    world.join = lambda told: join(told)
    materialise = llama.materialise

    def with_values(model):
        measure.MODELS.append(fill(case, materialise(model)))
        return measure.MODELS[-1]

    build = llama.build

    def compiled(told, *args, **kwargs):
        model = build(told, *args, **kwargs)
        for layer in model.model.layers if told.option("compile") else []:
            layer.compile()  # each by itself, ahead of sharding, as torchtitan does
        return model

    llama.materialise, llama.build, llama.tokens = with_values, compiled, tokens


def join(case):
    """world.join of the recorders, but for the choice of attention, and no group where there is one rank alone."""
    import os
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    measure.before_context()
    torch.backends.cuda.enable_cudnn_sdp(case.option("attention") == "chosen")  # by PyTorch: cuDNN's on Hopper; else flash, as on the null GPU
    if case.memory.get("allocator") == "expandable_segments":
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    torch.cuda.set_device(0)
    measure.after_context()
    if case.world > 1:
        os.environ.update(RANK=str(case.rank), LOCAL_RANK="0", WORLD_SIZE=str(case.world), LOCAL_WORLD_SIZE=str(min(8, case.world)),
                          MASTER_ADDR="localhost", MASTER_PORT="29500")
        dist.init_process_group("fake", rank=case.rank, world_size=case.world, store=FakeStore())
        fill_collectives()


def fill_collectives():
    """What a fake group does not write would be NaN or whatever lies there, and kernels are faster on some values. A gather gives each rank
    this one's shard (torch 2.11's own fake group does too, in as many copies), a reduction this rank's addend: one kernel each."""
    import torch.distributed as dist

    def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
        with torch.no_grad():
            parts, bytes_of = output_tensor.view(-1, input_tensor.numel()), input_tensor.numel() * input_tensor.element_size()
            inside = 0 <= input_tensor.data_ptr() - output_tensor.data_ptr() < len(parts) * bytes_of
            own = (input_tensor.data_ptr() - output_tensor.data_ptr()) // bytes_of if inside else None
            for first, last in [(0, len(parts))] if own is None else [(0, own), (own + 1, len(parts))]:
                if last > first:
                    parts[first:last].copy_(input_tensor.view(1, -1).expand(last - first, -1))

    def reduce_scatter_tensor(output, input, op=None, group=None, async_op=False):  # noqa: A002
        with torch.no_grad():
            output.view(-1).copy_(input.view(-1)[:output.numel()])

    dist.all_gather_into_tensor, dist.reduce_scatter_tensor = all_gather_into_tensor, reduce_scatter_tensor


def fill(case, model):
    """Weights as a training script initialises them, and the tables of rotary embeddings."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
            if parameter.ndim > 1:
                local.normal_(0, 0.02)
            else:
                local.fill_(0 if name.endswith("bias") else 1)
        for name, buffer in model.named_buffers():
            if name.endswith("inv_freq"):
                half = buffer.numel()
                buffer.copy_(500000.0 ** (-torch.arange(half, device=buffer.device, dtype=torch.float32) / half))
    return model


def tokens(case):
    return torch.randint(0, case.model.vocab, (case.micro_batch, case.sequence), device="cuda")
