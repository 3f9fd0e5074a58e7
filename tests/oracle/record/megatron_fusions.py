"""Elementwise regions that megatron-core compiles (jit_fuser) as what one kernel of each allocates: its results, no temporaries.

torch.compile, which jit_fuser is from torch 2.2 on (megatron/core/jit.py), makes one kernel of such a region. It would want a GPU to
compile for; eager code would hold each intermediate tensor, twice the size of the result in SwiGLU's backward pass.
"""
import torch


def swiglu(y):
    return y.new_empty(*y.shape[:-1], y.shape[-1] // 2)


def weighted_swiglu_back(g, y, weights):
    return torch.empty_like(y), torch.empty_like(weights)


class BiasDropoutAdd(torch.autograd.Function):
    """Adds a bias and a residual to what is dropped out: one kernel, which keeps the mask, and back the product with it."""

    @staticmethod
    def forward(ctx, values, bias, residual, probability):
        ctx.bias = bias
        if probability:
            ctx.save_for_backward(torch.empty(values.shape, dtype=torch.bool, device=values.device))
        return torch.empty_like(values)

    @staticmethod
    def backward(ctx, gradient):
        through = torch.empty_like(gradient) if ctx.saved_tensors else gradient
        return through, None if ctx.bias is None else torch.empty_like(ctx.bias), gradient, None


def bias_dropout_add(values, residual, probability):
    values, bias = values
    if bias is None and not probability:
        return residual + values
    return BiasDropoutAdd.apply(values, bias, residual, probability)


FUSED = {"swiglu": swiglu, "bias_swiglu": lambda y, bias: swiglu(y), "weighted_swiglu": lambda y, weights: swiglu(y),
         "swiglu_back": lambda g, y: torch.empty_like(y), "bias_swiglu_back": lambda g, y, bias: torch.empty_like(y),
         "weighted_swiglu_back": weighted_swiglu_back}
GELU = {"bias_gelu": lambda bias, y: torch.empty_like(y), "bias_gelu_back": lambda g, bias, y: torch.empty_like(y)}


def stand_in():
    from megatron.core.fusions import fused_bias_dropout, fused_bias_gelu, fused_bias_swiglu
    for module, functions in ((fused_bias_swiglu, FUSED), (fused_bias_gelu, GELU),
                              (fused_bias_dropout, {"bias_dropout_add_fused_train": bias_dropout_add})):
        for name, function in functions.items():
            if hasattr(module, name):
                setattr(module, name, function)
