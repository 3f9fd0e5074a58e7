"""One training step, measured twice: as it is, for memory, and under the recording of its operators."""
import collections
import ctypes
import gc
import time

import torch

import allocator
from operators import Operators, as_compiled

WARM_UP = 2  # the first step makes the optimizer's state, the second is the first that reuses cached blocks


def measure(step, passes=None):
    """`step(mark)` runs a step and calls mark(phase) where its parts begin. `passes()`: the order of passes of the last step."""
    launches = ctypes.CDLL(None).nullgpu_launches
    launches.restype = ctypes.c_long
    ignore = lambda phase: None
    # What is forecast is the training loop. Blocks that construction used and left cached (whole weights ahead of sharding, casts,
    # initial values) depend on how a script makes or loads its model: their bytes are recorded, and they are given back.
    out = {"left_cached": torch.cuda.memory_reserved() - torch.cuda.memory_allocated()}
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step(ignore)
    out["first_peak"] = torch.cuda.max_memory_allocated()
    allocator.start_history()
    for _ in range(WARM_UP - 1):
        step(ignore)
    gc.collect()

    phases = {}
    torch.cuda.reset_peak_memory_stats()
    before, since = launches(), time.time_ns() // 1000
    step(lambda phase: phases.setdefault(phase, torch.cuda.memory_allocated()))
    out["peak"], out["reserved"] = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    out["launches"], out["phases"] = launches() - before, phases
    out["steady"] = phases["forward"]  # between steps; scripts that begin with zero_grad still hold gradients before it
    until = time.time_ns() // 1000

    operators = Operators()
    torch.cuda.reset_peak_memory_stats()
    since_watched = time.time_ns() // 1000
    with as_compiled(), operators:
        step(lambda phase: setattr(operators, "phase", phase))
    # Under checkpointing, recording holds tensors. Where it changes the peak, the names of operators are given up.
    same = torch.cuda.max_memory_allocated() == out["peak"]
    out["at_peak"] = allocator.at_peak(since_watched, None, operators.moments) if same else allocator.at_peak(since, until, [])
    torch.cuda.memory._record_memory_history(enabled=None)
    out["flops"] = dict(operators.flops)
    counted = collections.Counter(operators.collectives)
    out["collectives"] = [[*key, count] for key, count in sorted(counted.items())]
    out["order"] = order(operators.collectives, sorted(counted))
    if passes is not None:
        out["passes"] = passes()
    out["host"] = host_time(step)
    return out


def host_time(step, steps=5):
    """Microseconds of CPU that a step takes on this machine: Python, dispatch, autograd and calls of the null runtime, which
    return at once. The least of a few steps: what else runs here only adds to it."""
    gc.collect()
    gc.disable()
    taken = []
    for _ in range(steps):
        before = time.process_time_ns()
        step(lambda phase: None)
        taken.append(time.process_time_ns() - before)
    gc.enable()
    return min(taken) // 1000


def order(collectives, known):
    """The host's order of collectives: numbers of rows of `collectives`, where `(1 2)3` is 1 2 1 2 1 2."""
    rows = [known.index(c) for c in collectives]
    out, i = [], 0
    while i < len(rows):
        best = (1, 1)  # (length of the pattern, repetitions) that covers most
        for length in range(1, min(16, (len(rows) - i) // 2) + 1):
            times = 1
            while rows[i + times * length:i + (times + 1) * length] == rows[i:i + length]:
                times += 1
            if times > 1 and times * length > best[0] * best[1]:
                best = (length, times)
        length, times = best
        text = " ".join(map(str, rows[i:i + length]))
        out.append(text if times == 1 else f"({text}){times}")
        i += length * times
    return " ".join(out)
