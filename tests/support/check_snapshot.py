"""Reads a memory snapshot with Python's own pickle, as PyTorch's tools do, and checks what they rely on.

    check_snapshot.py SIMULATE CONFIG

Exits 0 when all holds, else with the first thing that does not.
"""
import os
import pickle
import subprocess
import sys
import tempfile

simulate, config = sys.argv[1:3]
with tempfile.TemporaryDirectory() as folder:
    target = os.path.join(folder, "memory.pickle")
    subprocess.run([simulate, "memory", "--config", config, "--snapshot", target],
                   check=True, stdout=subprocess.DEVNULL)
    with open(target, "rb") as file:
        snapshot = pickle.load(file)

ACTIONS = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
           "segment_map", "segment_unmap"}
assert set(snapshot) >= {"segments", "device_traces", "allocator_settings"}, snapshot.keys()
reserved = 0
for segment in snapshot["segments"]:
    blocks = segment["blocks"]
    assert sum(b["size"] for b in blocks) == segment["total_size"]
    assert blocks[0]["address"] == segment["address"]
    live = [b for b in blocks if b["state"] == "active_allocated"]
    assert sum(b["size"] for b in live) == segment["allocated_size"]
    assert all(b["frames"] for b in live), "a live block without a label"
    assert segment["segment_type"] in ("small", "large")
    assert segment["segment_pool_id"] == (0, 0)
    reserved += segment["total_size"]
assert reserved > 0

events = 0
for device, trace in enumerate(snapshot["device_traces"]):
    spans = {(s["address"], s["address"] + s["total_size"])
             for s in snapshot["segments"] if s["device"] == device}
    # Replays the events backwards from the blocks that are live at the end.
    live = {b["address"]: b["requested_size"] for s in snapshot["segments"] if s["device"] == device
            for b in s["blocks"] if b["state"] == "active_allocated"}
    for e in reversed(trace):
        assert e["action"] in ACTIONS, e
        if e["action"] == "alloc":
            assert live.pop(e["addr"]) == e["size"], e
            assert any(a <= e["addr"] and e["addr"] + e["size"] <= b for a, b in spans), e
        elif e["action"] in ("segment_free", "segment_unmap"):
            spans.add((e["addr"], e["addr"] + e["size"]))
        elif e["action"] in ("segment_alloc", "segment_map"):
            spans.discard((e["addr"], e["addr"] + e["size"]))
        elif e["action"] == "free_requested":
            assert e["addr"] not in live, e
            live[e["addr"]] = e["size"]
        assert all(set(f) == {"filename", "line", "name"} for f in e["frames"])
    times = [e["time_us"] for e in trace]
    assert times == sorted(times) and min(times) >= 0
    events += len(trace)
assert events > 0
print(f"{len(snapshot['segments'])} segments, {reserved} bytes, {events} events")
