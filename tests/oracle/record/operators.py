"""What runs below autograd and DTensor: every collective with its group and bytes, and the FLOPs of every product."""
import collections
import contextlib
import time

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor")
# By how the operator's name begins, underscores aside; `gather` and `scatter` are rooted.
KINDS = {"allreduce": "all_reduce", "all_reduce": "all_reduce", "allgather": "all_gather", "all_gather": "all_gather",
         "reduce_scatter": "reduce_scatter", "alltoall": "all_to_all", "all_to_all": "all_to_all", "shard_dim_alltoall": "all_to_all",
         "broadcast": "broadcast", "reduce": "reduce", "gather": "gather", "scatter": "scatter", "send": "send", "isend": "send",
         "recv": "recv", "irecv": "recv"}


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors_in(part)


def bytes_of(value):
    return sum(t.numel() * t.element_size() for t in tensors_in(value))


def group_of(group):
    """(number of ranks, "RANKSxSTRIDE" and what the framework calls it) of a group, which operators take as an object or by name."""
    from torch._C._distributed_c10d import ProcessGroup, _resolve_process_group
    if isinstance(group, torch.ScriptObject):
        group = ProcessGroup.unbox(group)
    elif isinstance(group, str):
        group = _resolve_process_group(group)
    ranks = dist.get_process_group_ranks(group)
    name = f"{len(ranks)}x{ranks[1] - ranks[0] if len(ranks) > 1 else 1}"
    called = group.group_desc
    return len(ranks), name if called in ("", "undefined", "default_pg") else f"{name} {called}"


def attention_flops(operator, args):
    """(class, FLOPs) of an attention core of PyTorch, by its own formula, which ignores the causal mask; grouped heads are allowed."""
    backward = "backward" in str(operator)
    query, key, value = args[1:4] if backward else args[:3]
    batch, heads, rows, width = query.shape
    forward = 2 * batch * heads * rows * key.shape[2] * (width + value.shape[3])
    return ("attention_backward", forward * 5 // 2) if backward else ("attention_forward", forward)


def grouped_flops(args, rows_of):
    """FLOPs of a grouped product: rows of all groups by a matrix each, or for each group's rows a matrix (weight gradients).
    `rows_of(rows, groups)`: how many of the rows that it is given belong to a group."""
    one, other = args[:2]
    if other.dim() == 3:
        return 2 * rows_of(one.shape[0], other.shape[0]) * one.shape[1] * other.shape[2]
    groups = (args[2] if len(args) > 2 and args[2] is not None else other).shape[0]
    return 2 * one.shape[0] * rows_of(one.shape[1], groups) * other.shape[1]


def count_attention(name, flops):
    """Of a core that is no operator of PyTorch's."""
    if Operators.recording is not None:
        Operators.recording.flops[name] += flops


def as_compiled():
    """A context in which compiled regions are watched: as they run, or, where torch cannot (2.7), as the eager code that they were made of."""
    keeps = hasattr(TorchDispatchMode, "ignore_compile_internals")
    return contextlib.nullcontext() if keeps else torch.compiler.set_stance("force_eager")


class Operators(TorchDispatchMode):
    """Records while it is entered. `phase` is the part of the step that the case has marked."""
    recording = None
    rows_of_groups = staticmethod(lambda rows, groups: rows)  # of grouped products, whose sizes are on the device

    def __init__(self):
        super().__init__()
        Operators.recording = self
        self.phase = "step"
        self.collectives = []  # (phase, kind, group, bytes, dtype) in the order of the host's calls
        self.flops = collections.Counter()
        self.moments = []  # (time in us, phase, operator): names the operator that ran at an allocation

    @classmethod
    def ignore_compile_internals(cls):
        """Compiled regions run as they do without the mode, which sees what they call: products, attention and collectives."""
        return True

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        from torch.distributed.tensor import DTensor
        if any(issubclass(t, DTensor) for t in types):
            return NotImplemented  # its local tensors come here next
        kwargs = kwargs or {}
        if operator.namespace != "profiler":
            self.moments.append((time.time_ns() // 1000, self.phase, str(operator)))
        out = operator(*args, **kwargs)
        if operator.namespace in NAMESPACES:
            self.collective(operator, args, kwargs, out)
        formula = flop_registry.get(operator._overloadpacket)
        if "_scaled_dot_product" in str(operator):
            name, count = attention_flops(operator, args)
            self.flops[name] += count
        elif "_grouped_mm" in operator._schema.name:
            offsets = [kwargs["offs"]] if kwargs.get("offs") is not None else []
            self.flops["products"] += grouped_flops([*args, *offsets], self.rows_of_groups)
        elif operator.namespace == "bitsandbytes" and "gemm_4bit" in operator._schema.name:
            self.flops["products"] += 2 * args[0].numel() * args[2][0]  # of A by the [N, K] that is read in four bits
        elif formula is not None:
            self.flops["products"] += formula(*args, **kwargs, out_val=out)
        return out

    def collective(self, operator, args, kwargs, out):
        name = operator._schema.name.split("::")[1].strip("_")
        kind = next((KINDS[k] for k in sorted(KINDS, key=len, reverse=True) if name.startswith(k)), None)
        if kind is None:
            return
        stated = {a.name: v for a, v in zip(operator._schema.arguments, args)} | kwargs
        ranks, group = group_of(stated.get("process_group", stated.get("group_name")))
        if ranks == 1:
            return
        given = [v for v in stated.values() if next(tensors_in(v), None) is not None]
        if kind in ("all_gather", "reduce_scatter", "all_to_all"):  # the whole message: what is gathered, or what is reduced
            moved = max(bytes_of(v) for v in [*given, out if operator.namespace != "c10d" else None])
        else:
            moved = bytes_of(given[0])
        dtype = str(next(tensors_in(given)).dtype).removeprefix("torch.")
        self.collectives.append((self.phase, kind, group, moved, dtype))
