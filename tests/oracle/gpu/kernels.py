"""One step under torch.profiler, reduced to a table of kernels: by name, shapes of the operator that launched them, phase."""
import collections
import gzip
import json
import os
import re
import tempfile

import torch
from torch.profiler import ProfilerActivity, profile as torch_profile, record_function

KINDS = ("kernel", "gpu_memcpy", "gpu_memset")


def profile(step, keep=None):
    """The table; `keep`: where the whole trace goes. A first step under the profiler pays for its start and is thrown away."""
    def run():
        current = []

        def mark(phase):
            if current:
                current.pop().__exit__(None, None, None)
            current.append(record_function(f"phase:{phase}"))
            current[-1].__enter__()

        with record_function("phase:step"):
            step(mark)
        if current:
            current.pop().__exit__(None, None, None)
        torch.cuda.synchronize()

    with torch_profile(activities=[ProfilerActivity.CUDA]):
        step(lambda phase: None)
        torch.cuda.synchronize()
    with torch_profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as seen:
        run()
    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    seen.export_chrome_trace(path)
    with open(path) as file:
        text = file.read()
    os.unlink(path)
    if keep is not None:
        with gzip.open(keep, "wt") as file:
            file.write(text)
    return reduce(json.loads(text, strict=False)["traceEvents"])


def short(name):
    """A kernel's name without arguments, and with templates cut."""
    name = re.sub(r"^void ", "", name)
    name = re.sub(r"\(anonymous namespace\)::", "", name)
    return name[:200]


def reduce(events):
    operators = {e["args"]["External id"]: e for e in events if e.get("cat") == "cpu_op" and "External id" in e.get("args", {})}
    phases = sorted((e["ts"], e["ts"] + e["dur"], e["name"].removeprefix("phase:")) for e in events
                    if e.get("cat") == "user_annotation" and e["name"].startswith("phase:") and e["name"] != "phase:step")
    calls = {e["args"]["correlation"]: e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})}
    around = enclosing(events, calls.values())
    groups, intervals = collections.defaultdict(list), collections.defaultdict(list)
    for e in events:
        if e.get("cat") not in KINDS:
            continue
        args = e.get("args", {})
        call = calls.get(args.get("correlation"))
        operator = operators.get(args.get("External id")) or operators.get((call or {}).get("args", {}).get("External id")) or around.get(id(call))
        at = call["ts"] if call else None
        phase = next((name for a, b, name in phases if at is not None and a <= at <= b), "") if at else ""
        shapes = json.dumps([d for d in operator["args"].get("Input Dims", []) if d]) if operator else ""
        types = operator["args"].get("Input type", []) if operator else []
        key = (phase, short(e["name"]), operator["name"] if operator else "", shapes[:240], ",".join(t for t in types if t and t not in ("Scalar",))[:120])
        groups[key].append(e["dur"])
        intervals[args.get("stream")].append((e["ts"], e["ts"] + e["dur"]))
    everything = sorted(i for one in intervals.values() for i in one)
    begin = everything[0][0] if everything else 0
    end = max((b for _, b in everything), default=0)
    table = [[*key, len(d), round(sum(d) / len(d), 3), round(min(d), 3), round(max(d), 3)] for key, d in groups.items()]
    table.sort(key=lambda r: -r[5] * r[6])
    host = collections.Counter()
    for e in calls.values():
        host[e["name"]] += 1
    return {"span_us": round(end - begin, 1), "busy_us": round(union(everything), 1), "count": len(everything),
            "streams": {str(s): [len(i), round(union(sorted(i)), 1)] for s, i in intervals.items()}, "calls": dict(host),
            "phases": [[name, round(a - begin, 1), round(b - a, 1)] for a, b, name in phases],
            "columns": ["phase", "kernel", "operator", "shapes", "types", "count", "mean_us", "min_us", "max_us"], "kernels": table}


def enclosing(events, calls):
    """{id of a call of the runtime: the innermost operator of its thread around it}."""
    out, lanes = {}, collections.defaultdict(list)
    for e in events:
        if e.get("cat") == "cpu_op":
            lanes[e.get("tid")].append((e["ts"], 0, -e["dur"], id(e), e))
    for e in calls:
        lanes[e.get("tid")].append((e["ts"], 1, 0, id(e), e))
    for lane in lanes.values():
        open_ones = []
        for at, kind, _, key, e in sorted(lane, key=lambda r: r[:4]):
            while open_ones and open_ones[-1]["ts"] + open_ones[-1]["dur"] < at:
                open_ones.pop()
            if kind == 0:
                open_ones.append(e)
            elif open_ones:
                out[key] = open_ones[-1]
    return out


def union(intervals):
    total, until = 0.0, float("-inf")
    for a, b in intervals:
        total += max(0.0, b - max(a, until))
        until = max(until, b)
    return total
