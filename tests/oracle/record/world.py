"""One rank of a job, alone: torch's fake process group, whose collectives return at once and leave their output as it was."""
import os

import torch
import torch.distributed as dist


def join(case):
    """Initialises the default group and, as the first thing that a training script does, the device."""
    from torch.testing._internal.distributed.fake_pg import FakeStore
    local = case.rank % 8
    os.environ.update(RANK=str(case.rank), LOCAL_RANK=str(local), WORLD_SIZE=str(case.world), LOCAL_WORLD_SIZE=str(min(8, case.world)),
                      MASTER_ADDR="localhost", MASTER_PORT="29500")
    prepare(case)
    dist.init_process_group("fake", rank=case.rank, world_size=case.world, store=FakeStore())


def prepare(case):
    """What holds for every process that is recorded: its kernels, its allocator, its device."""
    # cuDNN is not in PyTorch's libraries and would do real work. Flash attention is, and saves the same tensors for backward.
    torch.backends.cuda.enable_cudnn_sdp(False)
    if case.memory.get("allocator") == "expandable_segments":
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    torch.cuda.set_device(0)


def alone(case):
    """The device of a job of one GPU, whose script makes no process group."""
    prepare(case)
    os.environ.update(WORLD_SIZE="1", RANK="0", LOCAL_RANK="0")
