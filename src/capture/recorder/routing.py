"""Even routing: the null GPU computes nothing, so a script that routes tokens to experts would send none. Whole numbers are computed here,
on the host, in the memory that the null GPU gave them; a choice among experts is spread evenly over them."""
import ctypes

import torch
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type

from .operators import tensors_in

LARGEST = 1 << 24  # bytes: what is larger is no count of tokens, and its pages would become resident
# What is made of a stated number, fractions as well: a map of tokens to experts may start as such. The device fills small tensors alone.
STATED = ("zeros", "zeros_like", "new_zeros", "zero_", "ones", "ones_like", "new_ones", "full", "full_like", "new_full", "fill_")
RANDOM = ("normal_", "uniform_", "bernoulli", "bernoulli_", "native_dropout", "exponential_")


def on_host(t):
    """The tensor's own memory, seen from the host."""
    storage = t.untyped_storage()
    if t.numel() == 0:
        return torch.empty(t.shape, dtype=t.dtype)
    memory = (ctypes.c_byte * storage.nbytes()).from_address(storage.data_ptr())
    return torch.frombuffer(memory, dtype=t.dtype).as_strided(t.size(), t.stride(), t.storage_offset())


def whole(t):
    return not t.is_floating_point() and not t.is_complex()


def small(t):
    return t.untyped_storage().nbytes() <= LARGEST


def moved_to_host(value):
    if isinstance(value, torch.Tensor):
        return on_host(value) if value.is_cuda else value
    if isinstance(value, (list, tuple)):
        return type(value)(moved_to_host(v) for v in value)
    return torch.device("cpu") if isinstance(value, torch.device) else value


def even(shape, experts):
    """Each token's choices: the next ones in turn. shape: [..., choices]."""
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(count) % experts).view(shape)


class EvenRouting(TorchDispatchMode):
    supports_higher_order_operators = True  # DTensor's random numbers, for one: they run as they are

    def __init__(self):
        super().__init__()
        self.experts = 0  # that tokens were last routed to
        self.missed = set()  # operators on whole numbers that the host could not compute

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if any(is_traceable_wrapper_subclass_type(t) for t in types):
            return NotImplemented
        kwargs = kwargs or {}
        if isinstance(operator, HigherOrderOperator):
            return operator(*args, **kwargs)
        if any(issubclass(t, FakeTensor) for t in types):  # shapes alone (DTensor's propagation of shardings): there is no memory behind them
            return operator(*args, **kwargs)
        name = operator._schema.name.split("::")[1]
        if operator.namespace == "aten" and name == "index" and any(t is not None and t.is_cuda and t.dtype == torch.bool for t in args[1]):
            args = (args[0], self.places(args[1]))
        if operator.namespace == "aten" and name == "repeat_interleave" and kwargs.get("output_size") is None and args[0].is_cuda:
            kwargs = {**kwargs, "output_size": int(on_host(args[0]).sum())}  # the device would be asked
        if operator.namespace == "aten" and name == "bincount" and args[0].is_cuda and small(args[0]):
            # Its length is the largest value, which the device would be asked.
            return written(operator(*moved_to_host(args), **{k: moved_to_host(v) for k, v in kwargs.items()}), args[0].device)
        out = operator(*args, **kwargs)
        if operator.namespace == "aten" and name == "masked_select" and args[0].is_cuda and not whole(args[0]):
            return self.selected(*args)
        made = [t for t in tensors_in(out) if t.is_cuda and not isinstance(t, FakeTensor)]
        if operator.namespace != "aten" or operator.is_view or not made or name in RANDOM:
            return out
        if name == "topk" and args[0].is_floating_point():
            self.choose(args, kwargs, out)
            return out
        given = [t for t in tensors_in([*args, *kwargs.values()]) if t.is_cuda]
        counts = name in STATED or all(map(whole, made)) or given and all(map(whole, given))
        if not all(map(small, given + made)) or not counts:
            return out
        return self.computed(name, operator, args, kwargs, out)

    def choose(self, args, kwargs, out):
        """topk's values and indices. The last choice ahead of the dispatch is the one among experts."""
        values, indices = out
        dim = args[2] if len(args) > 2 else kwargs.get("dim", -1)
        if dim % args[0].dim() == args[0].dim() - 1 and small(indices):
            self.experts = args[0].shape[-1]
            on_host(indices).copy_(even(indices.shape, self.experts))

    @staticmethod
    def selected(tensor, mask):
        """As many fractions as a mask holds ones, which the device cannot count."""
        ones = torch.broadcast_to(on_host(mask), torch.broadcast_shapes(tensor.shape, mask.shape)).sum()
        return torch.empty(int(ones), dtype=tensor.dtype, device=tensor.device)

    @staticmethod
    def places(masks):
        """A mask chooses as many rows as it holds ones, which the device cannot count."""
        out = []
        for mask in masks:
            if mask is None or not mask.is_cuda or mask.dtype != torch.bool:
                out.append(mask)
                continue
            for place in on_host(mask).nonzero(as_tuple=True):
                out.append(written(place, mask.device))
        return out

    def computed(self, name, operator, args, kwargs, out):
        given = moved_to_host(args)
        if name == "histc":  # the host has it for fractions alone
            given = (given[0].double(), *given[1:])
        try:
            values = operator(*given, **{k: moved_to_host(v) for k, v in kwargs.items()})
        except (RuntimeError, NotImplementedError):
            self.missed.add(name)
            return out
        if isinstance(out, torch.Tensor):
            return self.put(out, values)
        made = [self.put(o, v) if isinstance(o, torch.Tensor) else o for o, v in zip(out, values)]
        return type(out)(made) if isinstance(out, list) else tuple(made)

    @staticmethod
    def put(out, values):
        if out.shape != values.shape:  # how much it makes hangs on values
            return written(values, out.device)
        memory = on_host(out)
        if memory.data_ptr() != values.data_ptr():  # done in place
            memory.copy_(values)
        return out


def written(values, device):
    out = torch.empty(values.shape, dtype=values.dtype, device=device)
    on_host(out).copy_(values)
    return out


class RoutedRows:
    """Which tensors hold rows that were routed to this rank's experts: what an all-to-all of uneven parts brought, and what is made of
    it row by row, until an all-to-all sends it back. By storage, as long as the storage lives: each new one is judged as it is made."""

    def __init__(self):
        self.rows = {}  # storage: elements of a column
        self.groups = {}  # (ranks, name): rows that an all-to-all brought

    @staticmethod
    def key(t):
        return t.untyped_storage()._cdata

    def of(self, value):
        return [t for t in tensors_in(value) if t.is_cuda and t.is_floating_point() and self.key(t) in self.rows]

    def judge(self, product, operands, args, kwargs, out):
        """none, rows or sum: as capture::Routed. product: of `operands`."""
        given = [*args, *kwargs.values()]
        routed = self.of(given)
        most = max((self.rows[self.key(t)] for t in routed), default=0)
        made = [t for t in tensors_in(out) if t.is_cuda]
        summed = product and len(self.of(operands)) == 2 or all(t.numel() < most for t in made)
        old = {self.key(t) for t in tensors_in(given) if t.is_cuda}
        for t in made:
            if self.key(t) in old:
                continue
            self.rows.pop(self.key(t), None)
            if routed and not summed and t.is_floating_point():
                self.rows[self.key(t)] = most
        return None if not routed else "sum" if summed else "rows"

    def exchanged(self, name, group, source, target, uneven):
        """An all-to-all either brings rows or sends them back."""
        back = self.of(source)
        self.rows.pop(self.key(target), None)
        if uneven and not back and target.is_floating_point() and target.dim() > 0:
            self.rows[self.key(target)] = target.shape[0]
            self.groups[group] = max(self.groups.get(group, 0), target.shape[0])
