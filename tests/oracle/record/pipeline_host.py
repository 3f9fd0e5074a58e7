"""Host time of a pass between pipeline stages: Megatron-Core's schedules around a chunk that does nothing.

Run by hand, in the environment of an oracle case (tests/oracle/README.md, host time of a pass):

    python pipeline_host.py

prints for the schedule without stages, for 1F1B and for interleaved 1F1B with two and four chunks a rank the CPU time of a
micro-batch, in microseconds, and its launches: steps of 64 micro-batches less steps of 32, each the least of many, taken in turn.
"""
import ctypes
import os
import sys
import time
import types

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")

import torch
from megatron.core import parallel_state
from megatron.core.enums import ModelType
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer.transformer_config import TransformerConfig

import megatron_core
import world

FEW, MANY, ROUNDS = 32, 64, 12
SEQUENCE, HIDDEN = 1024, 256


class Chunk(torch.nn.Module):
    """Its input times a number: one kernel forward, two back."""

    def __init__(self, config):
        super().__init__()
        self.config, self.received, self.model_type = config, None, ModelType.encoder_or_decoder
        self.weight = torch.nn.Parameter(torch.ones(1, device="cuda", dtype=torch.bfloat16))
        self.first = torch.ones(SEQUENCE, 1, HIDDEN, device="cuda", dtype=torch.bfloat16)

    def set_input_tensor(self, received):
        self.received = received[0] if isinstance(received, list) else received

    def forward(self):
        return (self.first if self.received is None else self.received) * self.weight


def schedule(stages, chunks):
    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(1, stages, chunks if chunks > 1 else None)
    config = TransformerConfig(num_layers=stages * chunks, hidden_size=HIDDEN, num_attention_heads=2, bf16=True,
                               params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16, pipeline_model_parallel_size=stages,
                               virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None,
                               deallocate_pipeline_outputs=True, batch_p2p_comm=chunks == 1, overlap_p2p_comm=chunks > 1)
    models = [Chunk(config) for _ in range(chunks)]
    run = get_forward_backward_func()

    def forward(_, model):
        return model(), lambda values: (values.float().mean(), {})

    def step(micro_batches):
        run(forward_step_func=forward, data_iterator=[iter(())] * chunks if chunks > 1 else iter(()),
            model=models if chunks > 1 else models[0], num_microbatches=micro_batches, seq_length=SEQUENCE, micro_batch_size=1,
            forward_only=False)

    return step


def main():
    stages = 4
    world.join(types.SimpleNamespace(rank=1, world=stages, memory={}))
    megatron_core.stand_alone()
    launches = ctypes.CDLL(None).nullgpu_launches
    launches.restype = ctypes.c_long
    for name, of, chunks in (("no stages", 1, 1), ("1f1b", stages, 1), ("interleaved, 2 chunks", stages, 2),
                             ("interleaved, 4 chunks", stages, 4)):
        step = schedule(of, chunks)
        least = {}
        for _ in range(ROUNDS):
            for count in (FEW, MANY):
                before, kernels = time.process_time_ns(), launches()
                step(count)
                taken = (time.process_time_ns() - before) / 1000
                least[count] = min(least.get(count, (taken, 0)), (taken, launches() - kernels))
        each = [(least[MANY][i] - least[FEW][i]) / (MANY - FEW) for i in range(2)]
        print(f"{name}: {each[0]:.0f} us and {each[1]:.1f} launches a micro-batch", file=sys.stdout, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
