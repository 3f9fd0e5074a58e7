"""The caching allocator's own history: which tensors stand at the peak of a step, and which code allocated them."""
import bisect
import collections
import re

import torch

SHOWN = 20  # groups of equal tensors of a case
SMALLEST = 500  # groups under this part of the peak are left out
# Frames of the recorder and of torch's machinery say nothing about where a tensor comes from.
MACHINERY = re.compile(r"/torch/utils/_|/oracle/record/(operators|step)\.py|_ops\.py|eval_frame\.py|_compile\.py|_contextlib\.py")
CALLS = ("_call_impl", "_wrapped_call_impl", "inner", "wrapper", "decorate_context")


def start_history():
    torch.cuda.memory._record_memory_history(context="alloc", stacks="python", max_entries=4_000_000)


def site(frames):
    """The innermost two frames that belong to a model or framework."""
    kept = [f for f in frames if not MACHINERY.search(f["filename"]) and f["name"] not in CALLS]
    return " < ".join(re.sub(r".*/(site-packages|oracle|inductor/..)/", "", f["filename"]) + f":{f['line']} {f['name']}" for f in kept[:2])


def at_peak(since, until, moments):
    """{"at", "tensors": [[count, bytes of each, "before" or "step", where]]} of the history from `since` to `until`, in us.

    Backward runs on a thread of autograd's without Python frames: there `moments` name the operator.
    """
    trace = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    if until is not None:
        trace = [event for event in trace if event["time_us"] <= until]
    times = [m[0] for m in moments]

    def label(event):
        index = bisect.bisect_right(times, event["time_us"]) - 1
        ran = f"[{moments[index][1]} {moments[index][2].removeprefix('aten.').removesuffix('.default')}] " if index >= 0 else ""
        return ran + site(event["frames"])

    def replay(events):
        live, now = {}, 0
        for event in events:
            if event["action"] == "alloc":
                live[event["addr"]] = event
                now += event["size"]
            elif event["action"] == "free_requested":
                freed = live.pop(event["addr"], None)
                now -= freed["size"] if freed else 0
            yield event, now, live

    peak, last = 0, -1
    for number, (event, now, _) in enumerate(replay(trace)):
        if event["time_us"] >= since and now > peak:
            peak, last = now, number
    if last < 0:
        return {"at": "", "tensors": []}
    for _, _, live in replay(trace[:last + 1]):
        pass
    groups = collections.Counter()
    for event in live.values():
        groups[event["size"], "step" if event["time_us"] >= since else "before", label(event)] += 1
    rows = sorted(([count, size, when, where] for (size, when, where), count in groups.items()),
                  key=lambda r: (-r[0] * r[1], r[3]))
    return {"at": label(trace[last]), "tensors": [r for r in rows[:SHOWN] if r[0] * r[1] * SMALLEST >= peak]}
