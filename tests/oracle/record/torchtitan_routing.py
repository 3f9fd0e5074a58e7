"""Balanced routing for torchtitan 0.2's experts: what its dispatch reads from counts of tokens on the host, which are zero here, is
put in their place. The kernel that fills the table of rows is Triton's and is not run; its table is allocated as it allocates it."""
import torch
from torchtitan.distributed import expert_parallel
from torchtitan.models.moe import kernels, utils

from operators import Operators


def table(tokens_per_expert_group, start_index_values, write_offsets, experts_per_rank, num_ranks, max_len, **_):
    return torch.full((max_len,), -1, dtype=torch.int32, device=tokens_per_expert_group.device)


def balance():
    kernels.fill_indices_wrapper = table
    # Each expert's rows are padded to a multiple of 8, which balanced ones are already.
    Operators.rows_of_groups = staticmethod(lambda rows, groups: rows - groups * utils.TOKEN_GROUP_ALIGN_SIZE_M)
    real = expert_parallel.ExpertParallel._token_dispatch

    def dispatch(self, mod, inputs, device_mesh):
        rows, read = inputs[0].shape[0], torch.Tensor.tolist
        torch.Tensor.tolist = lambda counts: [rows // counts.numel()] * counts.numel()
        try:
            return real(self, mod, inputs, device_mesh)
        finally:
            torch.Tensor.tolist = read

    expert_parallel.ExpertParallel._token_dispatch = dispatch
