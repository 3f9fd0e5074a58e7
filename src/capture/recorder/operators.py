"""Operators as they run below autograd: what each computes, reads and writes. Its launches are found by its number in the null GPU's log."""
import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type
from torch.utils.flop_counter import flop_registry

from .attention import attention_of
from .distributed import group_of

FORWARD, BACKWARD, RECOMPUTE, OPTIMIZER = range(4)
# Positions of the two operands of products.
PRODUCTS = {"mm": (0, 1), "addmm": (1, 2), "bmm": (0, 1), "baddbmm": (1, 2), "_scaled_mm": (0, 1), "_grouped_mm": (0, 1)}
# Operators that read or write less than the tensors that they are given.
WRITES_ONLY = ("copy_", "zero_", "fill_", "_foreach_copy_", "_foreach_zero_", "normal_", "uniform_", "random_", "bernoulli_")
READS_ROWS = ("embedding", "index", "index_select", "gather", "nll_loss_forward", "nll_loss_backward", "embedding_dense_backward")
# What the first tensor says of shape and type is all that these take from it.
SHAPED_LIKE = ("new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like")
# Rows of the values are put into a tensor, of which the other rows are left alone. Backward, index_put stands for the one in place that autograd calls
# where no mode is entered (torch 2.15, csrc/autograd/FunctionsManual.cpp: index_backward, areAnyTensorSubclassLike).
PUTS_ROWS = ("index_put_", "_index_put_impl_", "index_put", "scatter_", "scatter_add_", "index_add_", "index_copy_")
# Zeros, into a part of which the gradient is copied.
INTO_ZEROS = ("slice_backward", "select_backward")


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors_in(part)


def touched(value):
    """Bytes of device memory behind tensors; what is expanded is there once."""
    total = 0
    for t in tensors_in(value):
        if t.device.type == "cuda":
            elements = 1
            for size, stride in zip(t.shape, t.stride()):
                elements *= size if stride != 0 else min(size, 1)
            total += elements * t.element_size()
    return total


def type_of(tensor):
    return str(tensor.dtype).removeprefix("torch.")


def moved(name, schema, args, kwargs, out):
    """Bytes read and written."""
    if name.endswith("all_gather_copy_in"):
        return 2 * touched(args[0])
    given = list(zip(schema.arguments, args)) + [(a, kwargs[a.name]) for a in schema.arguments if a.name in kwargs]
    written = [v for a, v in given if a.alias_info is not None and a.alias_info.is_write]
    mutated = {id(t) for v in written for t in tensors_in(v)}
    fresh = sum(touched(t) for t in tensors_in(out) if id(t) not in mutated)
    reads = [v for a, v in given if not (a.alias_info is not None and a.alias_info.is_write)]
    writes = sum(touched(v) for v in written)
    if name in READS_ROWS:
        most = max((touched(v) for v in reads if touched(v) > 0), default=0)
        if name in ("embedding_dense_backward", "nll_loss_backward"):
            return fresh + touched(args[0])
        return fresh + min(fresh, most)
    if name in SHAPED_LIKE:
        return fresh
    if name in PUTS_ROWS:
        return put(name, schema, args, kwargs)
    if name in INTO_ZEROS:
        return fresh + 2 * touched(args[0])
    if name.startswith("_fused_adam"):  # gradients are marked as written, for the sake of their scale
        return 2 * writes - touched(args[1])
    if name == "masked_fill":  # of a copy
        return 4 * fresh + touched(args[1])
    if name == "_softmax_backward_data":  # of the product of both, which a kernel makes first (torch 2.7, _decomp/decompositions.py:856)
        return touched(args[0]) + 4 * touched(args[1]) + fresh
    both = sum(touched(v) for v in written if not is_out(schema, given, v)) if name not in WRITES_ONLY else 0
    return sum(touched(v) for v in reads) + both + writes + fresh


def put(name, schema, args, kwargs):
    """Values and their places are read, rows are written, and read as well where they are added to."""
    stated = {a.name: v for a, v in zip(schema.arguments, args)} | kwargs
    values = next((stated[key] for key in ("values", "src", "source", "value") if isinstance(stated.get(key), torch.Tensor)), None)
    places = touched([v for key, v in stated.items() if key in ("indices", "index")])
    target = stated["self"]
    given = touched(values) if values is not None else places // 8 * target.element_size()
    adds = "add" in name or bool(stated.get("accumulate")) or stated.get("reduce") is not None
    return places + (3 if adds else 2) * given


def is_out(schema, given, value):
    return any(v is value and a.kwarg_only and a.name.startswith("out") for a, v in given)


def product_of(name, args):
    """{"gemm": [batch, m, n, k], "order": "nt"...}: which operand lies transposed in memory."""
    a, b = (args[i] for i in PRODUCTS[name])
    if name == "_grouped_mm" and (a.dim() == 2 or b.dim() == 2):
        groups = b.shape[0] if b.dim() == 3 else a.shape[0] if a.dim() == 3 else args[2].shape[0]
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        each = [groups, m, n, k // groups] if a.dim() == 2 and b.dim() == 2 else [groups, m // groups, n, k]
        return {"gemm": each, "order": order(a) + order(b), "grouped": 1}
    batch = a.shape[0] if a.dim() == 3 else 1
    return {"gemm": [batch, a.shape[-2], b.shape[-1], a.shape[-1]], "order": order(a) + order(b)}


def order(t):
    return "t" if t.stride(-1) != 1 and t.stride(-2) == 1 else "n"


class Operators(TorchDispatchMode):
    """Records while it is entered. `mark(number)` tells the null GPU which operator a thread runs."""
    supports_higher_order_operators = True  # they run as they are, and their kernels belong to no operator

    def __init__(self, mark, chooser):
        super().__init__()
        self.mark = mark
        self.chooser = chooser  # attention.Chooser
        self.table, self.numbers = [], {}  # distinct operators
        self.calls = []  # (number in the table or -1, phase)
        self.groups = {}  # number of the call: (ranks, description)
        self.optimizing = False
        self.entered = False
        self.flops = {}
        self.unknown = {}
        self.routed = None  # routing.RoutedRows, where tokens are routed evenly

    def phase(self):
        if self.optimizing:
            return OPTIMIZER
        if torch._C._current_graph_task_id() == -1:
            return FORWARD
        return RECOMPUTE if torch.is_grad_enabled() else BACKWARD

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if any(is_traceable_wrapper_subclass_type(t) for t in types):
            return NotImplemented  # its inner tensors come here next
        kwargs = kwargs or {}
        if isinstance(operator, HigherOrderOperator):
            return operator(*args, **kwargs)
        number, phase = len(self.calls), self.phase()
        self.calls.append((-1, phase))
        self.mark(number)
        try:
            out = operator(*args, **kwargs)
        finally:
            self.mark(-1)
        if operator.namespace in ("c10d", "_c10d_functional", "_c10d_functional_autograd"):
            self.collective(number, operator, args, kwargs, out)
        elif operator.namespace != "profiler":
            self.calls[number] = (self.number_of(operator, args, kwargs, out, phase), phase)
        return out

    def kernel(self, name, tensors):
        """A kernel that no operator of torch's launches: all of its tensors are taken to be read or written once."""
        if not self.entered:
            return
        phase = self.phase()
        said = {"name": name, "type": type_of(tensors[0]) if tensors else "", "bytes": touched(tensors)}
        self.mark(len(self.calls))
        self.calls.append((self.place_of(said), phase))

    def collective(self, number, operator, args, kwargs, out):
        stated = {a.name: v for a, v in zip(operator._schema.arguments, args)} | kwargs
        group = stated.get("process_group", stated.get("group_name"))
        if group is None:
            return
        self.groups[number] = group_of(group)
        name = operator._schema.name.split("::")[1]
        if self.routed is not None and name in ("alltoall_base_", "all_to_all_single"):
            source = stated["input"]
            target = stated["output"] if "output" in stated else next(tensors_in(out))
            uneven = any(stated.get(key) for key in ("output_split_sizes", "input_split_sizes"))
            self.routed.exchanged(name, self.groups[number], source, target, uneven)

    def number_of(self, operator, args, kwargs, out, phase):
        name = operator._schema.name.split("::")[1]
        if operator.is_view and not name.startswith("_reshape"):
            return -1
        first = next((t for t in tensors_in([*args, *kwargs.values(), out])), None)
        said = {"name": f"{operator.namespace}.{name}", "type": type_of(first) if first is not None else ""}
        if name in PRODUCTS:
            said["type"] = type_of(args[PRODUCTS[name][0]])
            said |= product_of(name, args)
        elif ("scaled_dot_product" in name or "_attention_" in name) and "query" in {a.name for a in operator._schema.arguments}:
            said["type"] = type_of(next(tensors_in(args)))
            said |= attention_of(name, operator._schema, args, kwargs, self.chooser)
        else:
            said["bytes"] = moved(name, operator._schema, args, kwargs, out)
        if self.routed is not None:
            routed = self.routed.judge(name in PRODUCTS, [args[i] for i in PRODUCTS.get(name, ())], args, kwargs, out)
            if routed is not None:
                said["routed"] = routed
        formula = flop_registry.get(operator._overloadpacket)
        if formula is not None and "attention" not in name:
            said["flops"] = int(formula(*args, **kwargs, out_val=out))
        return self.place_of(said)

    def place_of(self, said):
        key = tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in said.items())
        if key not in self.numbers:
            self.numbers[key] = len(self.table)
            self.table.append(said)
        return self.numbers[key]
