"""flash-attn without its extension and Triton's compiler: its Python is its own, its kernels allocate and do nothing.

`stand_in()` comes before anything imports flash_attn. What the extension allocates follows flash-attn 2.8.3, csrc/flash_attn/flash_api.cpp:
an output like the queries and fp32 sums of each row (:431, :441, :643, :652); backward sums of rows, the queries' gradient in
fp32 (:883 to :891, :1100 to :1116) and, where heads share keys, the gradients of repeated keys and values (:899, :1122).
"""
import types
import sys

import torch

import operators


longest_sample = None  # of packed samples, where a framework reads it from the device


def stand_in():
    import triton.runtime.autotuner
    import triton.runtime.jit
    from triton.runtime import driver
    torch.library.wrap_triton = lambda kernel: kernel  # else kernels are operators, which recording would have to know
    driver.set_active(types.SimpleNamespace(get_benchmarker=lambda: None))  # its own asks for a whole CUDA driver
    triton.runtime.jit.JITFunction.run = triton.runtime.autotuner.Autotuner.run = lambda *_, **__: None
    kernels = types.ModuleType("flash_attn_2_cuda")
    kernels.fwd, kernels.bwd, kernels.varlen_fwd, kernels.varlen_bwd = fwd, bwd, varlen_fwd, varlen_bwd
    sys.modules["flash_attn_2_cuda"] = kernels
    # Its norm asks the device as it is imported, which would forbid CUDA to the forked cases.
    asked = torch.cuda.current_device, torch.cuda.get_device_properties
    torch.cuda.current_device, torch.cuda.get_device_properties = lambda: 0, lambda _: types.SimpleNamespace(warp_size=32)
    import flash_attn.ops.triton.layer_norm  # noqa: F401
    torch.cuda.current_device, torch.cuda.get_device_properties = asked


def up(value, multiple):
    return -(-value // multiple) * multiple


def count(kind, rows, keys, heads, width):
    """FLOPs as torch's formula has them, which ignores the causal mask: 2 products forward, 5 backward."""
    operators.count_attention(kind, (4 if kind == "attention_forward" else 10) * rows * keys * heads * width)


def forward(q, sums, rows, keys):
    count("attention_forward", rows, keys, q.shape[-2], q.shape[-1])
    empty = torch.empty(0, dtype=q.dtype, device=q.device)
    return torch.empty_like(q), sums, empty, torch.empty(2, dtype=torch.int64, device=q.device)


def fwd(q, k, v, out, *_):
    batch, rows, heads, _ = q.shape
    return forward(q, torch.empty(batch, heads, rows, dtype=torch.float32, device=q.device), batch * rows, k.shape[1])


def varlen_fwd(q, k, v, out, ends, ends_k, *rest):
    longest_k = longest_sample or rest[5]
    return forward(q, torch.empty(q.shape[1], q.shape[0], dtype=torch.float32, device=q.device), q.shape[0], longest_k)


def backward(q, k, v, rows_of_sums, rows_of_dq, rows, keys):
    count("attention_backward", rows, keys, q.shape[-2], q.shape[-1])
    heads, width = q.shape[-2:]
    sums = torch.empty(heads, rows_of_sums, dtype=torch.float32, device=q.device)
    wide = torch.empty(rows_of_dq, heads, up(width, 32), dtype=torch.float32, device=q.device)
    if k.shape[-2] != heads:
        repeated = [torch.empty(*t.shape[:-2], heads, width, dtype=t.dtype, device=t.device) for t in (k, v)]
        summed = [t.reshape(*t.shape[:-2], k.shape[-2], -1, width).sum(-2) for t in repeated]  # at::sum_out, into dk and dv
        del repeated, summed
    del wide
    return sums


def bwd(dout, q, k, v, out, sums, dq, dk, dv, *_):
    batch, rows = q.shape[:2]
    padded = batch * up(rows, 128)
    return dq, dk, dv, backward(q, k, v, padded, padded, batch * rows, k.shape[1])


def varlen_bwd(dout, q, k, v, out, sums, dq, dk, dv, ends, ends_k, alibi, longest, longest_k, *_):
    padded = q.shape[0] + 128 * (len(ends) - 1)
    return dq, dk, dv, backward(q, k, v, padded, padded, q.shape[0], longest_sample or longest_k)
