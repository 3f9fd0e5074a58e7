"""One rank of a job, alone: torch's own NCCL process group over the null NCCL, with a store that answers for the other ranks."""
import ctypes
import os

import torch
import torch.distributed as dist
from torch.distributed import device_mesh
from torch.distributed import distributed_c10d as c10d


class Store(dist.Store):
    """What other ranks would have written reads as zeros: an id of NCCL's, which the null NCCL does not look at."""

    def __init__(self):
        super().__init__()
        self.values = {}

    def set(self, key, value):
        self.values[key] = value if isinstance(value, bytes) else str(value).encode()

    def get(self, key):
        return self.values.get(key, bytes(128))

    def add(self, key, amount):
        value = int(self.values.get(key, b"0")) + amount
        self.values[key] = str(value).encode()
        return value

    def wait(self, *keys):
        pass

    def check(self, keys):
        return True

    def delete_key(self, key):
        return self.values.pop(key, None) is not None

    def num_keys(self):
        return len(self.values)

    def compare_set(self, key, expected, value):
        self.set(key, value)
        return value

    def multi_get(self, keys):
        return [self.get(key) for key in keys]

    def multi_set(self, keys, values):
        for key, value in zip(keys, values):
            self.set(key, value)

    def set_timeout(self, timeout):
        pass

    def clone(self):
        return self

    def append(self, key, value):
        self.set(key, self.values.get(key, b"") + (value if isinstance(value, bytes) else str(value).encode()))


def backend_of(stated):
    """Groups of the CPU would wait for the other ranks, so they are torch's fake ones."""
    if stated is None:
        return "cpu:fake,cuda:nccl"
    return str(stated).lower().replace("gloo", "fake").replace("mpi", "fake")


def alone(rank, world):
    """Lets init_process_group and what exchanges Python objects succeed without the other ranks."""
    import torch.testing._internal.distributed.fake_pg  # noqa: F401 registers the fake backend
    asks = hasattr(dist, "ProcessGroupNCCL2") and os.environ.get("TORCH_DIST_USE_NCCL2") != "0"  # c10d's own choice
    ctypes.CDLL(None).nullgpu_pending(int(asks))
    store = Store()  # C++ calls this object's functions, and does not keep it
    first, group, split = c10d.init_process_group, c10d.new_group, getattr(c10d, "split_group", None)

    def init_process_group(backend=None, *_, **named):
        kept = {key: named[key] for key in ("timeout", "pg_options", "group_name", "device_id") if key in named}
        if kept.get("device_id") is not None:  # it would split communicators, whose sizes the null NCCL is not told
            torch.cuda.set_device(kept.pop("device_id"))
        size, own = named.get("world_size", -1), named.get("rank", -1)
        return first(backend=backend_of(backend), store=store, rank=own if own >= 0 else rank, world_size=size if size > 0 else world, **kept)

    def new_group(ranks=None, timeout=None, backend=None, *rest, **named):
        named.pop("device_id", None)
        mine = sorted(ranks) if ranks else list(range(world))
        if rank in mine:  # it may be split from the group of all ranks
            ctypes.CDLL(None).nullgpu_split(len(mine), mine.index(rank))
        return group(ranks, timeout, backend_of(backend) if backend is not None else None, *rest, **named)

    def split_group(parent_pg=None, split_ranks=None, *rest, **named):
        mine = next((ranks for ranks in split_ranks or [] if rank in ranks), [rank])
        ctypes.CDLL(None).nullgpu_split(len(mine), mine.index(rank))
        return split(parent_pg, split_ranks, *rest, **named)

    def all_gather_object(objects, mine, group=None, **_):
        objects[:] = [mine] * len(objects)

    def gather_object(mine, objects=None, *_, **__):
        if objects is not None:
            objects[:] = [mine] * len(objects)

    def keeps_own(*_, **__):
        return None

    # DDP compares parameters in a gather whose sum is computed on the device.
    dist._verify_params_across_processes = keeps_own
    patched = {"init_process_group": init_process_group, "new_group": new_group, "all_gather_object": all_gather_object,
               "gather_object": gather_object, "broadcast_object_list": keeps_own, "monitored_barrier": keeps_own}
    if split is not None:
        patched["split_group"] = split_group
    for name, function in patched.items():
        for module in (dist, c10d, device_mesh):
            if hasattr(module, name):
                setattr(module, name, function)


def group_of(group):
    """(ranks, description) of a process group, which operators take as an object or by name."""
    if isinstance(group, torch.ScriptObject):
        group = torch._C._distributed_c10d.ProcessGroup.unbox(group)
    elif isinstance(group, str):
        group = c10d._resolve_process_group(group)
    name = group.group_desc
    return tuple(dist.get_process_group_ranks(group)), "world" if name in ("", "undefined", "default_pg") else name


def all_groups():
    """Every group that this rank is in, as group_of gives them."""
    return [group_of(group) for group in list(c10d._world.pg_map) if dist.get_rank() in dist.get_process_group_ranks(group)]
