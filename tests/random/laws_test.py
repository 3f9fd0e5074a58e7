#!/usr/bin/env python3
"""The laws of random_jobs.py can be broken: a true report keeps them all, and each change that makes it untrue breaks its law.
Jobs that once broke a law (closed.jsonl: the law and the least job that broke it) keep all of them now.

    laws_test.py WORKER DATA
"""
import copy
import json
import os
import sys

import random_jobs
from random_jobs import Broken, at

JOB = {"model": {"layers": 2, "hidden": 1024, "heads": 8, "vocab": 32000}, "cluster": {"use": "dgx-h100", "nodes": 1},
       "workload": {"sequence_length": 1024, "global_batch": 32}, "parallelism": {"tensor": 2, "sharding": "zero3"}}
HALF = 0.5

# The law, and what makes a report break it: a place and a factor, or a place and a number.
REPORTS = [
    ("a step takes time", "step_time.value", 0, None),
    ("low <= value <= high", "step_time.high", HALF, "times"),
    ("low <= value <= high", "memory.peak.low", 10, "times"),
    ("MFU <= HFU", "hfu", {"value": 0.01, "low": 0.0, "high": 1.0}, None),
    ("HFU <= 1", "hfu", {"value": 1.1, "low": 0.0, "high": 2.0}, None),
    ("the breakdown adds up to the step", "breakdown.0.compute", HALF, "times"),
    ("no bubble without a pipeline", "breakdown.0.bubble", "compute", "moved"),
    ("no part is negative", "breakdown.0.bubble", -1, "moved by"),
    ("allocated <= reserved <= process", "memory.stages.0.peak.reserved", HALF, "times"),
    ("parameters are part of the peak", "memory.stages.0.parameters", 1000, "times"),
    ("a job that exits with 0 leaves memory", "memory.fits.spare", -1, None),
    ("time >= FLOPs over the fastest peak", "model_flops_per_gpu", {"value": 1e16, "low": 0, "high": 1e17}, None),
    ("memory >= shards of the parameters", "memory.stages.0.parameters", 0.2, "times"),
]

# The law, which forecasts of the worker are changed (by their options), and the change.
ANSWERS = [
    ("same bytes twice, whatever was forecast before", lambda job, sets, how: how.get("fresh"), "step_time.value", 1.0001),
    ("jumping over what repeats changes nothing", lambda job, sets, how: how.get("jumps") is False, "step_time.value", 1.0001),
    ("bound <= folded in time", lambda job, sets, how: how.get("fidelity") == "bound", "step_time.value", 1000),
    ("bound <= folded in memory", lambda job, sets, how: how.get("fidelity") == "bound", "memory.peak.value", 1000),
    ("folded is full", lambda job, sets, how: how.get("fidelity") == "full", "step_time.value", 1.0001),
    ("communication alone takes no longer at twice a capacity", lambda job, sets, how: "nvlink" in str(sets), "traffic.0.time", 1000),
    ("twice a capacity is no slower than by what tasks lose to others", lambda job, sets, how: "memory_bandwidth=" in str(sets),
     "step_time.value", 2),
    ("an equal device on some nodes changes nothing", lambda job, sets, how: "overrides" in str(sets), "step_time.value", 1.0001),
    ("recomputing everything allocates no more", lambda job, sets, how: "recompute=full" in str(sets),
     "memory.stages.0.peak.allocated", 1000),
]


def place(report, path):
    *above, last = [int(word) if word.isdigit() else word for word in path.split(".")]
    for word in above:
        report = report[word]
    return report, last


def untrue(report, path, by, how):
    out = copy.deepcopy(report)
    node, key = place(out, path)
    if how == "times":
        node[key] *= by
    elif how == "moved":  # from another part, so that the sum stays
        node[key], node[by] = node[by], 0.0
    elif how == "moved by":
        node[key] += by
        node["compute"] -= by
    else:
        node[key] = by
    return out


class Liar(random_jobs.Runner):
    """Forecasts of the worker, of which some are changed."""

    chosen, path, factor = None, "", 1

    def forecast(self, job, *overrides, **how):
        status, text, error = super().forecast(job, *overrides, **how)
        if text is not None and self.chosen(job, overrides, how):
            report = json.loads(text)
            node, key = place(report, self.path)
            node[key] = 10**18 if self.factor is None else node[key] * self.factor
            text = json.dumps(report).encode()
        return status, text, error


def broken_by(check):
    try:
        check()
    except Broken as broken:
        return broken.law
    return "none"


def main():
    worker, data = sys.argv[1:]
    liar = Liar("no-program", worker, data, 10**5)
    status, text, _ = random_jobs.Runner.forecast(liar, JOB)
    report = json.loads(text)
    also = random_jobs.Dear(two_jobs=True)
    liar.chosen = lambda job, sets, how: False
    found = [("none", "none: the true forecasts", broken_by(lambda: random_jobs.check(liar, JOB, also)))]
    for law, path, by, how in REPORTS:
        found.append((law, path, broken_by(lambda: random_jobs.check_report(status, untrue(report, path, by, how)))))
    for law, liar.chosen, liar.path, liar.factor in ANSWERS:
        found.append((law, liar.path, broken_by(lambda: random_jobs.check(liar, JOB, also))))
    # A forecaster that has seen the device as another vendor's, or behind another link to its host, prices its kernels anew.
    tpu = {"model": {"layers": 1, "hidden": 512, "heads": 8, "vocab": 1000}, "cluster": {"use": "tpu-v4", "nodes": 1},
           "workload": {"sequence_length": 1024, "global_batch": 64}}
    away = {"model": {"layers": 1, "hidden": 4096, "heads": 32, "vocab": 128256}, "cluster": {"use": "amd-mi355x", "nodes": 1},
            "workload": {"sequence_length": 1024, "global_batch": 64}, "memory": {"offload": {"activations": "cpu"}}}
    for job, other in ((tpu, "cluster.device.vendor=amd"), (away, "cluster.device.pcie=10 GB/s")):
        random_jobs.Runner.forecast(liar, job, other)
        after, fresh = (random_jobs.Runner.forecast(liar, job, fresh=fresh) for fresh in (False, True))
        found.append(("none", other, "none" if after == fresh else "same bytes twice, whatever was forecast before"))
    liar.chosen = lambda job, sets, how: False
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "closed.jsonl")) as lines:
        closed = [json.loads(line)["job"] for line in lines]
    for job in closed:
        found.append(("none", json.dumps(job), broken_by(lambda: random_jobs.check(liar, job, also))))
    wrong = [f"{path}: breaks '{law}', but the law found broken is '{which}'" for law, path, which in found if law != which]
    print("\n".join(wrong) or f"{len(REPORTS) + len(ANSWERS)} untrue reports, each breaks its law; {len(closed)} closed findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
