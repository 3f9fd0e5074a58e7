"""Attention: its shapes, and which kernel PyTorch would take for it on a Hopper.

cuDNN is not in PyTorch's libraries and would do real work, so it is never enabled here: FlashAttention (with a mask, the memory-efficient
kernel) runs in its place, and saves the same tensors for backward. What the script asks for is remembered, and PyTorch is asked what it
would have taken.
"""
import contextlib

import torch

STAND_INS = ("flash", "mem_efficient")  # they run where the script allows cuDNN's alone


class Chooser:
    """Stands between scripts and PyTorch's switches of kernels (torch.nn.attention.sdpa_kernel, torch.backends.cuda.enable_cudnn_sdp)."""

    def __init__(self):
        self.real, self.allowed, self.chosen = {}, {}, {}
        for name in ("cudnn", *STAND_INS):
            if hasattr(torch._C, f"_set_sdp_use_{name}") and hasattr(torch._C, f"_get_{name}_sdp_enabled"):
                self.real[name] = getattr(torch._C, f"_set_sdp_use_{name}")
                self.allowed[name] = getattr(torch._C, f"_get_{name}_sdp_enabled")()
                setattr(torch._C, f"_set_sdp_use_{name}", lambda on, name=name: self.allow(name, on))
                setattr(torch._C, f"_get_{name}_sdp_enabled", lambda name=name: self.allowed[name])
        self.without_cudnn()

    def allow(self, name, on):
        self.allowed[name] = on
        self.without_cudnn()

    def without_cudnn(self):
        for name, switch in self.real.items():
            switch(name != "cudnn" and (self.allowed[name] or self.allowed.get("cudnn", False)))

    @contextlib.contextmanager
    def as_allowed(self):
        for name, switch in self.real.items():
            switch(self.allowed[name])
        try:
            yield
        finally:
            self.without_cudnn()

    def kernel(self, name, stated, sizes, backward):
        """Of an operator of torch.nn.functional.scaled_dot_product_attention; backward takes the kernel of its forward."""
        runs = "efficient" if "efficient" in name else "flash2"
        if "scaled_dot_product" not in name:
            return runs
        key = (runs, *sizes)
        if not backward:
            self.chosen[key] = "cudnn" if self.allowed.get("cudnn") and self.prefers_cudnn(stated) else runs
        return self.chosen.get(key, runs)

    def prefers_cudnn(self, stated):
        grad = [stated[name].detach().requires_grad_() for name in ("query", "key", "value")]
        grouped = {"enable_gqa": True} if grad[0].shape[1] != grad[1].shape[1] else {}
        from torch.nn.attention import SDPBackend
        with torch.enable_grad(), self.as_allowed():
            return int(SDPBackend.CUDNN_ATTENTION.value) == torch._fused_sdp_choice(*grad, stated.get("attn_bias"), stated.get("dropout_p", 0.0), bool(stated.get("is_causal", False)),
                                                    scale=stated.get("scale"), **grouped)


def attention_of(name, schema, args, kwargs, chooser):
    backward = "backward" in name
    stated = {a.name: v for a, v in zip(schema.arguments, args)} | kwargs
    q, k, v = stated["query"], stated["key"], stated["value"]
    causal = bool(stated.get("is_causal", stated.get("causal", False)))
    sizes = [q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3], int(causal)]
    kernel = chooser.kernel(name, stated, sizes, backward)
    return {"attention": sizes, "backward": int(backward)} | ({"kernel": kernel} if kernel != "flash2" else {})
