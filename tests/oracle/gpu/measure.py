"""Training steps of one case, in this process alone: memory first, as the recorder of the null GPU asks for it, then time, then what
a profiler and the allocator's history see. `partial` holds what is known when a case fails."""
import collections
import ctypes
import gc
import gzip
import json
import pathlib
import time

import torch

partial = {}
MODELS = []  # what the case trains
IGNORE = lambda phase: None


def used():
    """Bytes in use on the whole device, by NVML; without NVML, by the runtime, which needs a context."""
    try:
        import pynvml
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    except Exception:
        if not torch.cuda.is_initialized():
            return None
        free, total = torch.cuda.mem_get_info()
        return total - free


def sensors():
    try:
        import pynvml
        pynvml.nvmlInit()
        h = pynvml.nvmlDeviceGetHandleByIndex(0)
        return {"sm_mhz": pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_SM), "memory_mhz": pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_MEM),
                "watts": pynvml.nvmlDeviceGetPowerUsage(h) / 1000, "celsius": pynvml.nvmlDeviceGetTemperature(h, 0),
                "throttle": pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(h)}
    except Exception as error:
        return {"error": repr(error)[:80]}


def before_context():
    partial["used_idle"] = used()


def after_context():
    torch.cuda.init()
    torch.cuda.current_stream()
    torch.cuda.synchronize()
    partial["used_context"] = used()
    block = torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    partial["used_first_kernel"] = used() - torch.cuda.memory_reserved()
    del block
    torch.cuda.empty_cache()


def outside():
    """Bytes of the device that neither the idle device nor the caching allocator has: context, loaded kernels, libraries' own buffers."""
    torch.cuda.synchronize()
    return used() - (partial.get("used_idle") or 0) - torch.cuda.memory_reserved()


def launches():
    try:
        counter = ctypes.CDLL(None).nullgpu_launches
        counter.restype = ctypes.c_long
        return counter()
    except AttributeError:
        return None


def measure(case, step, folder):
    out = partial
    want = case.option("also", [])
    limit = case.option("timed_s", 3.0)
    out["left_cached"] = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    torch.cuda.empty_cache()
    out["outside_built"] = outside()
    torch.cuda.reset_peak_memory_stats()
    out["model_bytes"] = torch.cuda.memory_allocated()
    if "snapshot" in want:
        torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=200_000)
    began = time.perf_counter()
    step(IGNORE)
    torch.cuda.synchronize()
    out["first_step_s"] = round(time.perf_counter() - began, 3)
    out["first_peak"] = torch.cuda.max_memory_allocated()
    out["outside_first_step"] = outside()
    step(IGNORE)
    gc.collect()
    phases = {}
    torch.cuda.reset_peak_memory_stats()
    before = launches()
    step(lambda phase: phases.setdefault(phase, torch.cuda.memory_allocated()))
    torch.cuda.synchronize()
    out["peak"], out["reserved"] = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    out["phases"], out["steady"] = phases, phases.get("forward", phases.get("step"))
    if before is not None:
        out["launches"] = launches() - before
    if "snapshot" in want:
        snapshot(case, folder)
        torch.cuda.memory._record_memory_history(enabled=None)
    timed(step, out, limit)
    stats = torch.cuda.memory_stats()
    out["reserved_end"] = torch.cuda.max_memory_reserved()
    out["peak_end"] = torch.cuda.max_memory_allocated()
    out["allocator"] = {k: stats.get(k) for k in ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free", "inactive_split_bytes.all.current",
                                                  "inactive_split_bytes.all.peak", "active_bytes.all.peak", "requested_bytes.all.peak",
                                                  "segment.all.current", "reserved_bytes.all.current")}
    out["outside_end"] = outside()
    out["process"] = used() - (out.get("used_idle") or 0)
    out["finite"] = all(bool(torch.isfinite(p.detach().sum())) for m in MODELS for p in m.parameters() if p.ndim == 1)
    if "profile" in want or "trace" in want:
        try:
            import kernels
            with gzip.open(pathlib.Path(folder) / "kernels.jsonl.gz", "at") as file:
                table = kernels.profile(step, pathlib.Path(folder) / f"trace-{case.name}.json.gz" if "trace" in want else None)
                out["profile"] = {k: v for k, v in table.items() if k != "kernels"}
                file.write(json.dumps({"name": case.name, **table}) + "\n")
        except Exception as error:
            out["profile_error"] = repr(error)[:300]
    return out


def timed(step, out, limit):
    """Steps one after another without waiting between them, as training runs; then single ones, for the time of the host."""
    began = time.perf_counter()
    step(IGNORE)
    torch.cuda.synchronize()
    once = time.perf_counter() - began
    count = max(6, min(20, int(limit / max(once, 1e-4))))
    if launches() is not None:
        count = 5
    gc.collect()
    gc.disable()
    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    host = []
    began = time.perf_counter()
    for event in events[:-1]:
        event.record()
        host.append(time.perf_counter() - began)
        step(IGNORE)
    events[-1].record()
    host.append(time.perf_counter() - began)
    out["sensors"] = sensors()
    torch.cuda.synchronize()
    wall = time.perf_counter() - began
    try:
        out["step_ms"] = [round(a.elapsed_time(b), 4) for a, b in zip(events, events[1:])]
    except RuntimeError as error:  # the null GPU
        out["step_ms"], out["events_error"] = [round((b - a) * 1e3, 4) for a, b in zip(host, host[1:])], repr(error)[:100]
    if out["step_ms"] and max(out["step_ms"]) == 0:
        out["step_ms"] = [round((b - a) * 1e3, 4) for a, b in zip(host, host[1:])]
    out["host_step_ms"] = [round((b - a) * 1e3, 3) for a, b in zip(host, host[1:])]
    out["wall_ms"] = round(wall / count * 1e3, 3)
    issue, cpu, whole, threads, moments = [], [], [], [], []
    for _ in range(3):
        torch.cuda.synchronize()
        seen = []
        a, b, c = time.perf_counter(), time.process_time(), time.thread_time()
        step(lambda phase: seen.append((phase, time.perf_counter())))
        issue.append(time.perf_counter() - a)
        threads.append(time.thread_time() - c)
        cpu.append(time.process_time() - b)
        torch.cuda.synchronize()
        whole.append(time.perf_counter() - a)
        moments.append({phase: round((at - a) * 1e3, 3) for phase, at in seen})
    gc.enable()
    ms = lambda values: round(sorted(values)[len(values) // 2] * 1e3, 3)
    out.update(host_issue_ms=ms(issue), host_cpu_ms=ms(cpu), host_thread_ms=ms(threads), alone_ms=ms(whole), host_phases_ms=moments[-1])


def snapshot(case, folder):
    """Segments with their blocks after three steps, and every action of the allocator since the first one began."""
    whole = torch.cuda.memory._snapshot()
    origin = {}
    place = lambda address: origin.setdefault(address, len(origin))
    segments = [{"kind": s["segment_type"], "size": s["total_size"], "stream": s["stream"], "expandable": s.get("is_expandable", False), "at": place(s["address"]),
                 "blocks": [[b["size"], b.get("requested_size", b["size"]), b["state"]] for b in s["blocks"]]} for s in whole["segments"]]
    trace = whole["device_traces"][torch.cuda.current_device()]
    streams = collections.OrderedDict()
    events = [[e["action"], place(e["addr"]) if "addr" in e else -1, e["size"], streams.setdefault(e.get("stream", 0), len(streams))] for e in trace]
    with gzip.open(pathlib.Path(folder) / "snapshots.jsonl.gz", "at") as file:
        file.write(json.dumps({"name": case.name, "segments": segments, "events": events}) + "\n")
