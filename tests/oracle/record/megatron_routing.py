"""Balanced routing for megatron-core's experts: the router's values are zero here, so what its dispatchers read from them on
the host (tokens for each expert, sizes of the exchange) is put in their place. All operators on tokens are megatron-core's own
but masked_select, whose size would be read from the device."""
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


def balance(topk, experts):
    if not hasattr(moe_utils, "te_general_gemm"):  # 0.16.1 reads the name without Transformer Engine too
        moe_utils.te_general_gemm = None
    real = torch.Tensor.masked_select

    def masked_select(values, mask):
        if not mask.is_cuda or mask.dim() != 2:
            return real(values, mask)
        return Selected.apply(values, mask, mask.shape[0] * mask.shape[1] * topk // experts)  # experts here x tokens

    torch.Tensor.masked_select = masked_select
    allgather, alltoall = token_dispatcher.MoEAllGatherTokenDispatcher, token_dispatcher.MoEAlltoAllTokenDispatcher
    if not hasattr(allgather, "dispatch_postprocess"):
        raise ValueError("this version's dispatchers have other parts than those of megatron-core 0.14 to 0.16")
    permute = token_dispatcher.permute

    def permute_all(values, mask, *rest, num_out_tokens=None, **named):
        if type(num_out_tokens) is int and num_out_tokens == 0:  # read from the counts (0.19)
            num_out_tokens = mask.shape[0] * mask.shape[1] * topk // experts
        return permute(values, mask, *rest, num_out_tokens=num_out_tokens, **named)

    token_dispatcher.permute = permute_all
    gather_after, wait = allgather.dispatch_postprocess, alltoall._maybe_dtoh_and_synchronize

    def postprocess(self, hidden_states, probs):
        tokens, counts, chosen = gather_after(self, hidden_states, probs)
        return tokens, counts.fill_(tokens.shape[0] // counts.numel()), chosen

    def synchronise(self, point, tokens_per_expert=None):
        out = wait(self, point, tokens_per_expert)
        if point == self.cuda_dtoh_point and not self.drop_and_pad:
            mine = self.routing_map.shape[0] * topk  # copies of this rank's tokens
            fill(self.input_splits, mine)
            fill(self.output_splits, mine)
            fill(self.output_splits_tp, mine * self.tp_size)
            fill(out, mine * self.tp_size)
            counts = getattr(self, "num_global_tokens_per_local_expert", None)
            if isinstance(counts, torch.Tensor) and not counts.is_cuda:
                fill(counts, mine * self.tp_size)
        return out

    allgather.dispatch_postprocess, alltoall._maybe_dtoh_and_synchronize = postprocess, synchronise


def fill(values, total):
    """Equal parts of a total, for a tensor or an array on the host."""
    if values is None:
        return
    parts = values.numel() if isinstance(values, torch.Tensor) else values.size
    if isinstance(values, torch.Tensor):
        values.fill_(total // parts)
    else:
        values[...] = total // parts
