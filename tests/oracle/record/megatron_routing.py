"""Balanced routing for megatron-core's experts: the router's values are zero here, so what its dispatchers read from them on
the host (tokens for each expert, sizes of the exchange) is put in their place. All operators on tokens are megatron-core's own
but masked_select, whose size would be read from the device."""
import math

import torch
from megatron.core.transformer.moe import moe_utils, token_dispatcher


class Selected(torch.autograd.Function):
    """masked_select with a size that is known: the same temporary of indices, output, and saved mask."""

    @staticmethod
    def forward(ctx, values, mask, count):
        ctx.save_for_backward(mask)
        ctx.shape = values.shape
        torch.empty(count, mask.dim(), dtype=torch.long, device=values.device)
        return values.new_empty(count)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.new_zeros(ctx.shape), None, None


def balance(topk, experts, here, factor=None):
    """`here`: the experts of this rank; `factor`: of their capacity, to which each expert's tokens are padded."""
    if not hasattr(moe_utils, "te_general_gemm"):  # 0.16.1 reads the name without Transformer Engine too
        moe_utils.te_general_gemm = None
    allgather, alltoall = token_dispatcher.MoEAllGatherTokenDispatcher, token_dispatcher.MoEAlltoAllTokenDispatcher
    by_index = not hasattr(token_dispatcher.MoETokenDispatcher, "tp_ep_group") and not hasattr(allgather, "dispatch_postprocess")
    known_sizes(topk, experts, here, by_index, factor or 1.0)

    if hasattr(allgather, "dispatch_postprocess"):  # from 0.13 on
        gather_after = allgather.dispatch_postprocess

        def postprocess(self, hidden_states, probs):
            tokens, counts, chosen = gather_after(self, hidden_states, probs)
            return tokens, counts.fill_(tokens.shape[0] // counts.numel()), chosen

        allgather.dispatch_postprocess = postprocess
    else:
        gather = allgather.token_permutation

        def permutation(self, *args):
            tokens, counts, *rest = gather(self, *args)
            return tokens, counts.fill_(tokens.shape[0] // counts.numel()), *rest

        allgather.token_permutation = permutation

    def balanced(self, rows, counts):
        """`rows`: this rank's tokens."""
        mine = rows * topk  # copies of them
        parts = getattr(self, "tp_size", 1)
        fill(self.input_splits, mine)
        fill(self.output_splits, mine)
        fill(getattr(self, "output_splits_tp", None), mine * parts)
        fill(counts, mine * parts)
        for name in ("num_global_tokens_per_local_expert", "num_global_tokens_per_local_expert_cpu"):
            counts = getattr(self, name, None)
            if isinstance(counts, torch.Tensor) and not counts.is_cuda:
                fill(counts, mine * parts)

    if hasattr(alltoall, "_maybe_dtoh_and_synchronize"):  # from 0.12 on
        wait = alltoall._maybe_dtoh_and_synchronize

        def synchronise(self, point, tokens_per_expert=None):
            out = wait(self, point, tokens_per_expert)
            if point == self.cuda_dtoh_point and not self.drop_and_pad:
                balanced(self, self.routing_map.shape[0], out)
            return out

        alltoall._maybe_dtoh_and_synchronize = synchronise
    else:
        count = alltoall.preprocess

        def preprocess(self, chosen):
            out = count(self, chosen)
            if not self.drop_and_pad:
                balanced(self, chosen.shape[0], out)
            return out

        alltoall.preprocess = preprocess


def known_sizes(topk, experts, here, by_index, factor):
    """Operators whose result's size would be read from the device. `by_index` (0.8, 0.9): masks are of each token's choices."""
    real_select, real_nonzero, real_repeat = torch.Tensor.masked_select, torch.Tensor.nonzero, torch.repeat_interleave
    chosen = lambda mask: (mask.numel() * here // experts if by_index else  # masks of experts by tokens
                           mask.shape[0] * math.ceil(mask.shape[1] * topk / experts * factor))

    def masked_select(values, mask):
        if not mask.is_cuda or mask.dim() != 2:
            return real_select(values, mask)
        return Selected.apply(values, mask, chosen(mask))

    def nonzero(mask, *args, **named):
        if not mask.is_cuda or mask.dim() != 2 or args or named:
            return real_nonzero(mask, *args, **named)
        return torch.zeros(2, chosen(mask), dtype=torch.long, device=mask.device).T  # column by column, as ATen's

    def repeat_interleave(values, repeats, *args, **named):
        if not (isinstance(repeats, torch.Tensor) and repeats.is_cuda) or args or named:
            return real_repeat(values, repeats, *args, **named)
        return real_repeat(values, repeats, output_size=exchanged[0])

    exchanged = [0]
    torch.Tensor.masked_select = masked_select
    if by_index:
        torch.Tensor.nonzero, torch.repeat_interleave = nonzero, repeat_interleave
        count = token_dispatcher.MoEAlltoAllTokenDispatcher.preprocess

        def preprocess(self, indices):
            exchanged[0] = indices.shape[0] * topk
            return count(self, indices)

        token_dispatcher.MoEAlltoAllTokenDispatcher.preprocess = preprocess
        return
    permute = token_dispatcher.permute

    def permute_all(values, mask, *rest, num_out_tokens=None, **named):
        if type(num_out_tokens) is int and num_out_tokens == 0:  # read from the counts (0.19)
            num_out_tokens = mask.shape[0] * mask.shape[1] * topk // experts
        return permute(values, mask, *rest, **({} if num_out_tokens is None else {"num_out_tokens": num_out_tokens}), **named)

    token_dispatcher.permute = permute_all


def fill(values, total):
    """Equal parts of a total, for a tensor or an array on the host."""
    if values is None:
        return
    parts = values.numel() if isinstance(values, torch.Tensor) else values.size
    if isinstance(values, torch.Tensor):
        values.fill_(total // parts)
    else:
        values[...] = total // parts
