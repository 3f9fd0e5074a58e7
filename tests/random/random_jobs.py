#!/usr/bin/env python3
"""Draws random jobs from the option table (`simulate schema`) and holds each to the laws of a forecast.

    random_jobs.py SIMULATE WORKER --jobs 2500 --seed 1     what ctest runs
    random_jobs.py SIMULATE WORKER --jobs 100000 --seed 7 --threads 2 --keep broken/   a long run by hand

WORKER (worker.cpp) forecasts job after job in one process. Every job is held there to the laws of one forecast, bound and full
among them, and its bytes to those of a forecaster that has seen no other job; every fourth also to the laws of two jobs. The program
itself, its exit codes, faults, folders and locales, is run for every 16th, a sweep with 1 and 4 threads for every 64th, MPI processes
and advice for every 128th.

A job is a skeleton that most systems accept (sizes that divide, a known cluster), with a few keys of the table set to any
value that the schema allows, weighted towards the edges. A job that breaks a law is shrunk, key by key, to the least job that
still breaks the same law, and printed: JSON is YAML.
"""
import argparse
import collections
import concurrent.futures
import copy
import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

SECONDS = 60  # of a processor: a run that takes longer hangs


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


# ---------------------------------------------------------------- drawing
def leaves(schema, path=()):
    """Every key of the table that takes a value by itself: (path, schema)."""
    if "properties" in schema:
        for key, below in schema["properties"].items():
            yield from leaves(below, path + (key,))
        return
    sections = [s for s in schema.get("anyOf", []) if "properties" in s]
    for section in sections:
        yield from leaves(section, path)
    if not sections or len(sections) < len(schema["anyOf"]):
        plain = dict(schema)
        if sections:
            plain["anyOf"] = [s for s in schema["anyOf"] if "properties" not in s]
        yield path, plain


def number(rng, schema, whole):
    low = schema.get("minimum", 0)
    high = schema.get("maximum", 10**6)
    kind = rng.random()
    if kind < 0.15:
        value = low
    elif kind < 0.2:
        value = high
    elif kind < 0.3:
        value = low + 1
    elif whole and kind < 0.75:
        value = min(high, max(low, rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 100, 128, 1024])))
    else:
        value = low + math.exp(rng.uniform(0, math.log(high - low + 1))) - 1
    return int(value) if whole else float(value)


# Quantities: "in bytes" and the like stand in a comment of the bare number.
TEXTS = {
    "in bytes": ["80 GB", "1 GiB", "25 MB", "4 KiB", "1 TB"],
    "in bytes per second": ["450 GB/s", "400 Gb/s", "1 GB/s", "3.35 TB/s", "10 MB/s"],
    "in FLOP/s": ["989 TFLOP/s", "100 TFLOP/s", "1 GFLOP/s", "2 PFLOP/s"],
    "in seconds": ["1 us", "5 us", "1 ms", "0 s"],
    "in watts": ["700 W", "300 W"],
}


def draw(rng, schema):
    if "anyOf" in schema:
        comments = [s["$comment"] for s in schema["anyOf"] if "$comment" in s]
        if comments and rng.random() < 0.8:
            return rng.choice(TEXTS[comments[0]])
        return draw(rng, rng.choice(schema["anyOf"]))
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "integer":
        return number(rng, schema, True)
    if kind == "number":
        return number(rng, schema, False)
    if kind == "null":
        return None
    if kind == "array":
        return [draw(rng, schema.get("items", {"type": "integer"})) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    if kind == "object":
        if "properties" in schema:
            keys = rng.sample(list(schema["properties"]), min(2, len(schema["properties"])))
            return {key: draw(rng, schema["properties"][key]) for key in keys}
        return {}
    return rng.choice(["", "x", "auto", "none", "1", "a-b", "é"])


def put(job, path, value):
    at = job
    for key in path[:-1]:
        if not isinstance(at.get(key), dict):
            at[key] = {"use": at[key]} if isinstance(at.get(key), str) and key in ("model", "cluster", "system") else {}
        at = at[key]
    at[path[-1]] = value


class Table:
    def __init__(self, simulate, data):
        self.keys = [(p, s) for p, s in leaves(json.loads(subprocess.check_output([simulate, "schema"])))
                     if p not in (("use",), ("seed",), ("system", "generation"), ("calibration",))]
        names = lambda folder: sorted(f[:-5] for f in os.listdir(os.path.join(data, "configs", folder)) if f.endswith(".yaml"))
        self.systems, self.clusters, self.models = names("systems"), names("clusters"), names("models")


def draw_job(rng, table):
    nodes = rng.choice([1, 1, 2, 4])
    tensor = rng.choice([1, 1, 2, 4, 8])
    pipeline = rng.choice([1, 1, 1, 2, 4])
    heads = rng.choice([8, 16, 32])
    layers = pipeline * rng.choice([1, 2, 4])
    micro = rng.choice([1, 1, 2, 4])
    job = {
        "model": {"layers": layers, "hidden": heads * rng.choice([8, 64, 128]), "heads": heads,
                  "vocab": rng.choice([1, 6, 32000, 128256])},
        "cluster": {"use": rng.choice(table.clusters), "nodes": nodes},
        "workload": {"sequence_length": rng.choice([1, 64, 1024, 8192]), "global_batch": 32 * micro * rng.choice([1, 2, 6]),
                     "micro_batch": micro},
        "parallelism": {"tensor": tensor, "pipeline": pipeline,
                        "sharding": rng.choice(["none", "none", "zero1", "zero2", "zero3"])},
    }
    if rng.random() < 0.2:
        job["model"]["kv_heads"] = rng.choice([1, 2, 4])
    if rng.random() < 0.2:
        job["model"] = rng.choice(table.models)
    elif rng.random() < 0.3:
        job["model"]["moe"] = {"experts": 8, "topk": rng.choice([1, 2, 8]), "ffn": 512}
        if rng.random() < 0.2:
            job["model"]["moe"]["latent"] = rng.choice([64, 256])
        if rng.random() < 0.2:
            job["model"]["moe"].update(shared_experts=1, branch_norms=True)
        job["parallelism"]["expert"] = rng.choice([1, 2, 4, 8])
    if isinstance(job["model"], dict) and rng.random() < 0.1:
        job["model"].update(qk_norm=True, value_norm=True, keys_as_values=True)
    if isinstance(job["model"], dict) and rng.random() < 0.1:
        job["model"]["ffns"] = [rng.choice([256, 1024, 2816]) for _ in range(rng.choice([1, 2, layers]))][:layers]
    if isinstance(job["model"], dict) and rng.random() < 0.1:
        job["model"]["indexer"] = {"heads": 4, "dim": 64, "topk": rng.choice([128, 512]), "block": rng.choice([1, 64, 128]),
                                   "layers": rng.choice(["", "ai", "i", "ias"])[:layers]}
    if isinstance(job["model"], dict) and rng.random() < 0.1:
        job["model"].update(mtp_layers=rng.choice([1, 2, 3]), mtp_repeated=rng.choice([True, False]))
    if rng.random() < 0.15:
        job.setdefault("workload", {})["precision"] = rng.choice(["fp8", "fp8_block", "mxfp8", "nvfp4"])
        if isinstance(job["model"], dict):
            job["model"].update(bf16_start_layers=rng.choice([0, 1, 2]), bf16_end_layers=rng.choice([0, 1, 3]))
    if rng.random() < 0.1:
        job["kernels"] = {"cuda_graph": True, "cuda_graph_modules": rng.sample(["attn", "mamba", "mlp", "moe", "moe_router"], rng.randint(0, 3))}
    if tensor == 1 and rng.random() < 0.1:
        job.setdefault("kernels", {})["liger"] = rng.choice(
            [True, ["rope"], ["rms_norm", "glu"], ["glu", "cross_entropy"], ["fused_linear_cross_entropy"]])
    if isinstance(job["model"], dict) and rng.random() < 0.15:
        job["model"].update(rng.choice([
            {"hyper_connections": {"streams": rng.choice([2, 4]), "sinkhorn": rng.choice([1, 20])}},
            {"attention_residual_block": rng.choice([1, 2, 4])},
            {"layer_embedding": {"width": rng.choice([64, 256])}},
            {"shared_kv_layers": rng.choice([1, 2])},
            {"kv_heads": 1, "positions": "rotary", "norm": "rms", "sliding_window": rng.choice([16, 128]), "sinks": True,
             "mixers": rng.choice(["w", "wch", "c", "hc"])[:layers], "indexer": {"heads": 4, "dim": 64, "topk": rng.choice([16, 512])},
             "compressed": {"q_lora_rank": 64, "rope_dim": 4, "o_groups": 2, "o_lora_rank": 32, "sparse_rate": 4, "heavy_rate": 32}},
        ]))
    if isinstance(job["model"], dict) and rng.random() < 0.05:
        job["model"].update(rng.choice([
            {"mixers": rng.choice(["m", "ma"])[:layers], "mamba": {"heads": rng.choice([8, 32]), "head_dim": 64, "state": 128,
                                                                    "groups": rng.choice([1, 8]), "chunk": 128}},
            {"mixers": rng.choice(["l", "la"])[:layers], "linear": {"key_heads": 8, "value_heads": rng.choice([8, 16]), "key_dim": 64,
                                                                     "value_dim": rng.choice([64, 128])}},
        ]))
        job["parallelism"]["context"] = rng.choice([1, 2, 4, 8])
    if rng.random() < 0.5:
        job["system"] = rng.choice(table.systems)
    if rng.random() < 0.3:
        job["parallelism"]["sequence_parallel"] = True
    if rng.random() < 0.3:
        job["memory"] = {"recompute": rng.choice(["full", "selective", {"every": 2}, {"block": 1}])}
    for _ in range(rng.choice([0, 1, 1, 2, 3, 5])):
        path, schema = rng.choice(table.keys)
        put(job, path, draw(rng, schema))
    return job


# ---------------------------------------------------------------- laws
class Broken(Exception):
    """The law that a job breaks, and what shows it."""

    def __init__(self, law, what=""):
        super().__init__(law)
        self.law, self.what = law, what


def hold(law, truth, what=""):
    if not truth:
        raise Broken(law, what)


def judge(status, text, error):
    """What a forecast may end as; its report is None where there is none."""
    if status == 2:
        lines = error.splitlines()
        hold("a fault is one line, with nothing on standard output", not text and lines and all(": error: " in line for line in lines),
             error)
        hold("a fault is printable", all(ord(c) >= 32 for line in lines for c in line), error)
        hold("no fault is ours", "internal error" not in error, error)
        hold("programs do not wait for each other for ever", "the programs deadlock" not in error, error)
        return 2, None, error
    hold("a job that exits with 0 or 1 has a report", text, error)
    return status, text, error


MERGED = 20  # tasks with slices for one without: kernels that follow each other are one task there


class Worker:
    """A process of worker.cpp, started again when it has ended."""

    def __init__(self, program, data):
        self.program, self.data, self.process = os.path.abspath(program), data, None

    def ask(self, request):
        if self.process is None:
            self.errors = tempfile.TemporaryFile()
            self.folder = tempfile.TemporaryDirectory()
            self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                            cwd=self.folder.name, env=dict(os.environ, STEPCAST_DATA=self.data))
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            head = self.process.stdout.readline()
        except BrokenPipeError:
            head = b""
        if not head:
            status, self.process = self.process.wait(), None
            if status == -signal.SIGPROF:
                raise Broken("ends within a minute", json.dumps(request)[:500])
            self.errors.seek(0)
            name = signal.Signals(-status).name if status < 0 else status
            raise Broken("exits with 0, 1 or 2", f"{name} {self.errors.read().decode('utf-8', 'replace')[-2000:]}")
        head = json.loads(head)
        self.shared = head["shared"]  # of this request
        return head["status"], self.process.stdout.read(head["bytes"]), head["error"]


class Runner:
    def __init__(self, simulate, worker, data, most_tasks):
        self.simulate, self.worker, self.data, self.most_tasks = os.path.abspath(simulate), worker, data, most_tasks
        self.mpi = shutil.which("mpirun") is not None
        self.local = threading.local()

    def forecast(self, job, *overrides, fidelity="folded", fresh=False, shared=False, tight=False, jumps=True):
        """Status, report (or None) and faults of a forecast by the worker. One with slices merges no tasks, so it holds more of them."""
        if not hasattr(self.local, "worker"):
            self.local.worker = Worker(self.worker, self.data)
        request = {"job": json.dumps(job), "set": overrides, "fidelity": fidelity, "fresh": fresh, "shared": shared, "tight": tight,
                   "jumps": jumps, "most_tasks": MERGED * self.most_tasks if shared else self.most_tasks}
        return judge(*self.local.worker.ask(request))

    def lost_to_others(self, job, *overrides):
        """Seconds that the transfers of a step, of all simulated ranks together, take longer than each by itself; without a bound
        where the job is too large for slices."""
        _, text, _ = self.forecast(job, *overrides, shared=True)
        return self.local.worker.shared if text is not None else math.inf

    def run(self, job, *options, cwd=None, env=None):
        """Status, report (or None) and standard error of a forecast by the program."""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "job.json")
            with open(file, "w") as out:
                json.dump(job, out)
            command = [self.simulate, "--config", file, "--json", "-", *options]
            full = dict(os.environ, STEPCAST_DATA=self.data, **(env or {}))
            try:  # waiting for what never comes takes no processor, and on a busy machine everything waits
                done = subprocess.run(command, capture_output=True, timeout=20 * SECONDS, cwd=cwd or folder, env=full,
                                      preexec_fn=limit)
            except subprocess.TimeoutExpired:
                raise Broken("ends within a minute", " ".join(options)) from None
        error = done.stderr.decode("utf-8", "replace").replace(folder + "/", "")
        if done.returncode < 0 or done.returncode > 2:
            name = signal.Signals(-done.returncode).name if done.returncode < 0 else done.returncode
            raise Broken("exits with 0, 1 or 2", f"{name} {error[-2000:]}")
        return judge(done.returncode, done.stdout, error)

    def sweep(self, job, threads):
        """What a sweep of two points says."""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "job.json")
            with open(file, "w") as out:
                json.dump(job, out)
            command = [self.simulate, "sweep", "--config", file, "--vary", "memory.recompute=none,full", "--threads", str(threads),
                       "--json", "-"]
            done = subprocess.run(command, capture_output=True, timeout=20 * SECONDS, cwd=folder, preexec_fn=limit,
                                  env=dict(os.environ, STEPCAST_DATA=self.data))
            if done.returncode not in (0, 1, 2):
                raise Broken("a sweep exits with 0, 1 or 2", done.stderr.decode("utf-8", "replace")[-2000:])
            return done.stdout.replace(folder.encode(), b"")

    def search(self, job, processes):
        """What a search of two strategies answers with some MPI processes; None where the job is refused."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("job.json", json.dumps(job)), ("space.yaml", "recompute: [none, full]\n")):
                with open(os.path.join(folder, name), "w") as out:
                    out.write(text)
            command = [self.simulate, "search", "--config", "job.json", "--space", "space.yaml", "--json", "-"]
            if processes > 1:
                command = ["mpirun", "-n", str(processes), *command]
            # For any user and on any number of cores; Open MPI itself leaks.
            some = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "ASAN_OPTIONS": "detect_leaks=0"}
            done = subprocess.run(command, capture_output=True, timeout=20 * SECONDS, cwd=folder, preexec_fn=limit,
                                  env=dict(os.environ, STEPCAST_DATA=self.data, **some))
            if done.returncode not in (0, 1, 2):
                raise Broken("a search exits with 0, 1 or 2", done.stderr.decode("utf-8", "replace")[-2000:])
            return None if done.returncode == 2 else (done.returncode, done.stdout.replace(folder.encode(), b""))


def estimates(node, path=""):
    if isinstance(node, dict):
        if {"value", "low", "high"} <= node.keys():
            yield path, node
        else:
            for key, below in node.items():
                yield from estimates(below, f"{path}.{key}")


def difference(a, b):
    lines = zip((a or b"").splitlines(), (b or b"").splitlines())
    return next((f"{x} {y}" for x, y in lines if x != y), "")


# How much of what takes long a job is held to: the index of a job decides.
Dear = collections.namedtuple("Dear", "two_jobs program threads processes", defaults=(False,) * 4)


def dear(index):
    return Dear(index % 4 == 0, index % 16 == 0, index % 64 == 0, index % 128 == 0)


def check_program(runner, job, status, text, error, advice):
    """The program says of a job what the worker says, in another folder and locale as well."""
    options = () if advice else ("--no-advice",)
    ran = runner.run(job, *options)
    hold("the program ends as the worker does", ran[0] == status, f"{ran[0]} {status}")
    if status == 2:
        hold("the program has the worker's faults", ran[2] == error, f"{ran[2]}\n{error}")
    elif not advice:
        hold("the program writes the worker's bytes", ran[1] == text)
    again = runner.run(job, *options, cwd="/", env={"LC_ALL": "C.UTF-8", "COLUMNS": "40"})
    hold("same bytes twice, in another folder", again[:2] == ran[:2])


def check_report(status, report):
    """The laws of one report."""
    step = report["step_time"]["value"]
    hold("a step takes time", 0 < step < 1e7, step)
    for path, e in estimates({k: v for k, v in report.items() if k != "job"}):
        hold("low <= value <= high", e["low"] <= e["value"] <= e["high"], f"{path} {e}")
    # A made-up device may be slower in few bits than in 16, in which the output projection runs.
    peaks = at(report, "job.cluster.device.peak") or {}
    slower = (peaks.get(at(report, "job.workload.precision")) or float("inf")) < (peaks.get("bf16") or 0)
    hold("MFU <= HFU", report["mfu"]["value"] <= report["hfu"]["value"] * (1 + 1e-9), f"{report['mfu']['value']} {report['hfu']['value']}")
    hold("HFU <= 1", slower or report["hfu"]["value"] <= 1 + 1e-6, f"{report['hfu']['value']}")
    hold("the interval of HFU ends at 1", slower or report["hfu"]["high"] <= 1 + 1e-6, f"{report['hfu']}")
    for stage in report["breakdown"]:
        parts = [v for k, v in stage.items() if k not in ("stage", "exposed")] + list(stage["exposed"].values())
        hold("the breakdown adds up to the step", abs(sum(parts) - step) <= 1e-9 * step + 1e-11, f"{sum(parts)} {step}")
        hold("no part is negative", min(parts) >= 0, stage)
        pipeline = len(report["breakdown"])
        hold("no bubble without a pipeline", pipeline > 1 or stage["bubble"] == 0, stage["bubble"])
    for stage in report["memory"]["stages"]:
        peak = stage["peak"]
        hold("allocated <= reserved <= process", peak["allocated"] <= peak["reserved"] <= peak["process"], peak)
        hold("parameters are part of the peak", stage["parameters"] <= peak["allocated"], stage)
    fits = report["memory"]["fits"]
    hold("a job that exits with 0 leaves memory", status == 1 or fits["spare"] >= 0, f"{status} {fits}")
    # Of all devices and precisions: what a job counts its utilisation against is a choice.
    devices = [at(report, "job.cluster.device"), *(one.get("device") for one in at(report, "job.cluster.overrides") or [])]
    peak = max((rate for device in devices if isinstance(device, dict) for rate in device["peak"].values() if rate), default=None)
    hold("time >= FLOPs over the fastest peak", peak is None or report["model_flops_per_gpu"]["value"] <= peak * (1 + 1e-6),
         f"{report['model_flops_per_gpu']['value']} {peak}")
    # Each parameter lies on one GPU at least: four bits of it (QLoRA's base) or more.
    if not offloads(report["job"], "parameters"):
        stages = report["memory"]["stages"]
        held = sum(stage["parameters"] for stage in stages) * report["engine"]["ranks"] / len(stages)
        hold("memory >= shards of the parameters", held >= report["parameters"] / 2, f"{held} {report['parameters']}")
    # Verdict, probability and interval are of one distribution: "yes" is a probability of 95 %, at which the interval ends.
    if fits["needed"] and fits["probability"] and not at(report, "job.cluster.overrides"):  # of one kind of device
        room = report["memory"]["capacity"] / fits["needed"]["high"]
        hold("a verdict of yes is an interval that fits", abs(room - 1) < 1e-3 or (fits["verdict"] == "yes") == (room > 1), f"{fits}")


def check(runner, job, also):
    """Holds a job to the laws, and to those that `also` names; its exit status."""
    status, text, error = runner.forecast(job)
    if also.program and (status != 2 or "more tasks than a forecast holds" not in error):
        check_program(runner, job, status, text, error, also.processes)
    if status == 2:
        return 2
    report = json.loads(text)
    step = report["step_time"]["value"]
    check_report(status, report)

    fresh = runner.forecast(job, fresh=True)
    hold("same bytes twice, whatever was forecast before", fresh[:2] == (status, text), difference(text, fresh[1]))
    run = runner.forecast(job, jumps=False)
    # A clock that does not jump runs through steps of many days, to the end of its 64 bits.
    too_long = run[0] == 2 and "do not fit 64-bit picoseconds" in run[2]
    hold("jumping over what repeats changes nothing", too_long or run[:2] == (status, text), difference(text, run[1]))
    _, bound_text, _ = runner.forecast(job, fidelity="bound", tight=True)
    if bound_text is not None:
        bound = json.loads(bound_text)
        hold("bound <= folded in time", bound["step_time"]["value"] <= step * (1 + 1e-12), f"{bound['step_time']['value']} {step}")
        # Without what the allocator reserves beyond its tensors.
        peaks = [stage["peak"] for stage in report["memory"]["stages"]]
        most = max((peak["allocated"] + peak["process"] - peak["reserved"] for peak in peaks), default=0)
        hold("bound <= folded in memory", bound["memory"]["peak"]["value"] <= most, f"{bound['memory']['peak']['value']} {most}")
    if report["engine"]["ranks"] * report["engine"]["tasks"] / max(1, report["engine"]["classes"]) < runner.most_tasks:
        _, full_text, _ = runner.forecast(job, fidelity="full")
        full = json.loads(full_text)
        for part in ("step_time", "breakdown", "memory"):
            hold("folded is full", full[part] == report[part], f"{part} {full[part]} {report[part]}")
    if also.two_jobs:
        compare(runner, job, report)
    if also.threads:
        texts = [runner.sweep(job, threads) for threads in (1, 4)]
        hold("1 and 4 threads give the same bytes", texts[0] == texts[1])
    if runner.mpi and also.processes:
        alone = runner.search(job, 1)
        if alone is not None:
            hold("1 and 3 MPI processes give the same bytes", runner.search(job, 3) == alone)
    return status


# ---------------------------------------------------------------- laws of two jobs
# A what-if: the same job with one capacity doubled.
# - Communication of a named device by itself never takes longer, where the report's busiest stage stays the same: each group's operations are priced
#   from the same measured curves, as the least of what the library offers (src/cost/collective/predict.h), and copies and sends
#   from one rate. Equal numbers of operations and of bytes stand for an equal stage.
# - A step may be longer, by no more than the kernels lose beside the faster communication (`slowdown` of the breakdown), and
#   transfers to others on a link that they share, where alone they would end sooner. Argument: streams run their tasks in a fixed
#   order, so the end of a step is a longest path, which is no longer where no task is. With the times of kernels and communication
#   alone the second step is therefore no longer than the first, which sharing and slow-down only lengthen; the path of the second
#   as it ran has in addition what its tasks lost, which is no more than what all tasks of all ranks lose together. (Seen: two
#   groups of gcp-a2-highgpu under one NIC; at twice its rate NCCL's tuner, which knows one group alone, leaves the tree for a
#   ring, which is 8 % faster alone, 0.2 % of the step slower for two. Four stages' gradients offloaded on hgx-a100, PCIe doubled:
#   8 % longer, as faster copies take more of the host's memory from those that the step waits for.)
# Horovod sends what is ready when a cycle of its background thread has passed, so faster kernels cut the same gradients into other
# buffers: more or fewer operations, of which none is slower. Its jobs are compared without the cycle, with buffers cut by size.
OFFLOADED = ("optimizer", "parameters", "gradients", "activations")
CAPACITIES = ("cluster.device.memory_bandwidth", "cluster.device.nvlink", "cluster.device.pcie", "cluster.node.nic")


def at(node, path):
    for key in path.split("."):
        node = node.get(key) if isinstance(node, dict) else None
    return node


def offloads(resolved, kind):
    """Whether a kind of state leaves the GPU. The whole section is the word none where nothing does."""
    return at(resolved, f"memory.offload.{kind}") not in (None, "none")


def times(report):
    """Seconds of communication alone, by group and operation: together, faster ones would hide slower ones."""
    out = collections.Counter()
    for row in report["traffic"]:
        out[row["group"], row["op"].split()[0]] += row["time"]
    return out


def carried(report):
    """Operations and bytes of each kind, which tell stages apart: two may send as often, and one a norm's weights more."""
    out = collections.Counter()
    for row in report["traffic"]:
        kind = row["group"], row["op"].split()[0]
        out[kind, "count"] += row["count"]
        out[kind, "bytes"] += row["bytes"]
    return out


def compare(runner, job, report):
    """Laws of a job and a changed one. A change that makes no job is none."""
    resolved, step = report["job"], report["step_time"]["value"]

    def changed(*overrides):
        _, text, _ = runner.forecast(job, *overrides)
        return json.loads(text) if text is not None else None

    by_size = ("system.cycle_time=0 s",) if at(resolved, "system.cycle_time") else ()
    base = changed(*by_size) if by_size else report
    start = base["step_time"]["value"]

    # A device without an entry was measured at no rate from which its links could be scaled: it is priced along a curve of machines
    # of its kind, over sizes relative to its own rates, which is smooth to a few tenths of a per cent and no better.
    device = at(job, "cluster.device")
    renamed = isinstance(device, dict) and "name" in device
    for key in CAPACITIES:
        rate = at(resolved, key)
        if isinstance(rate, (int, float)) and rate > 0:
            faster = (*by_size, f"{key}={2 * rate}")
            twice = changed(*faster)
            if twice is not None:
                before, after = times(base), times(twice)
                moved = [carried(one) for one in (base, twice)]
                for what, time in after.items() if moved[0] == moved[1] and not renamed else ():
                    # A report rounds each time to a picosecond.
                    hold("communication alone takes no longer at twice a capacity", time <= before[what] * (1 + 1e-9) + 1e-9,
                         f"{key} {what} {before[what]} {time}")
                if renamed:
                    continue
                rounded = 1e-12 * base["engine"]["tasks"]  # each to a picosecond
                longer = twice["step_time"]["value"] - start
                lost = sum(stage["slowdown"] for stage in twice["breakdown"])
                if longer > lost:  # seldom, and then all slices of the step are needed
                    lost += runner.lost_to_others(job, *faster)
                hold("twice a capacity is no slower than by what tasks lose to others",
                     longer <= lost * (1 + 1e-6) + 1e-9 * start + rounded, f"{key} {longer / start} {lost / start}")
    if not at(resolved, "cluster.overrides"):
        # With all its fields: the one of its name may be another (jean-zay-a100 has fewer links than its device).
        device = json.dumps(at(resolved, "cluster.device"))
        same = changed(f"cluster.overrides=[{{first: 0, count: 1, device: {device}}}]")
        if same is not None:
            hold("an equal device on some nodes changes nothing", same["step_time"]["value"] == step,
                 f"{same['step_time']['value']} {step}")
    if not any(offloads(resolved, kind) for kind in OFFLOADED):
        # PyTorch's caching allocator counts a block whole and leaves up to 1 MiB of it unused; how much depends on the free blocks
        # that it finds, and so on what was allocated before: Adam's states of 25 MiB are made in free blocks, or in new segments,
        # which are whole 2 MiB (phi-2 under pytorch-ddp: 286 blocks of 26 MiB, and 376 where all is recomputed). Expandable
        # segments leave nothing: there a peak is the sum of its tensors, which the law is about.
        exact = [] if at(resolved, "memory.allocator") == "compiled" else ["memory.allocator=expandable_segments"]
        least, most = (changed(f"memory.recompute={kind}", *exact) for kind in ("full", "none"))
        if least is not None and most is not None:
            # Whatever is alive at an instant of the step that recomputes everything is alive at the same instant of the one that
            # recomputes nothing: a layer's input and what one layer works on are among what all layers keep. More than that are
            # results that only a recomputed layer writes (its last ones, in fp32, of all chosen experts or residual streams).
            model, workload = resolved["model"], resolved["workload"]
            block = at(model, "attention_residual_block")
            streams = max(at(model, "hyper_connections.streams") or 1, model["layers"] // block + 2 if block else 1)
            rows = workload["micro_batch"] * workload["sequence_length"] * max(streams, at(model, "moe.topk") or 1)
            result = whole_block(4 * rows * model["hidden"])
            # Megatron's routers keep the tensor from which a checkpoint ran them again, and its gradient (src/lower/stage/router_graph.cpp).
            tokens = workload["micro_batch"] * workload["sequence_length"]
            graph = 2 * whole_block(4 * tokens * model["hidden"] * streams) if model.get("moe") else 0
            more = len(least["memory"]["stages"]) * (2 * result + model["layers"] * graph)
            held = [sum(stage["peak"]["allocated"] for stage in one["memory"]["stages"]) for one in (least, most)]
            hold("recomputing everything allocates no more", held[0] <= held[1] + more, held)


def whole_block(size):
    """What PyTorch's allocator counts for a tensor: a multiple of 512 bytes (c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize)."""
    return -(-size // 512) * 512


# ---------------------------------------------------------------- shrinking
def parts_of(node, path=()):
    if isinstance(node, dict):
        for key in list(node):
            yield path + (key,)
            yield from parts_of(node[key], path + (key,))


def without(job, path):
    out = copy.deepcopy(job)
    at = out
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]
    return out


def halved(job, path):
    out = copy.deepcopy(job)
    at = out
    for key in path[:-1]:
        at = at[key]
    value = at[path[-1]]
    if isinstance(value, bool) or not isinstance(value, int) or value < 2:
        return None
    at[path[-1]] = value // 2
    return out


def shrink(runner, job, law, also, tries=300):
    def breaks(candidate):
        try:
            check(runner, candidate, also)
        except Broken as broken:
            return broken.law == law
        except (KeyError, ValueError):
            return False
        return False

    moved = True
    while moved and tries > 0:
        moved = False
        for change in (without, halved):
            for path in list(parts_of(job)):
                try:
                    candidate = change(job, path)
                except (KeyError, TypeError):
                    continue  # went with what was dropped before
                tries -= 1
                if candidate is not None and tries > 0 and breaks(candidate):
                    job, moved = candidate, True
    return job


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("simulate")
    parser.add_argument("worker")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--most-tasks", type=int, default=3 * 10**6, help="larger jobs are refused")
    parser.add_argument("--keep", help="folder for jobs that break a law")
    parser.add_argument("--data", default=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    given = parser.parse_args()
    runner, table = Runner(given.simulate, given.worker, given.data, given.most_tasks), Table(given.simulate, given.data)
    counts, broken = collections.Counter(), []

    def one(index):
        rng = random.Random(f"{given.seed}/{index}")
        job = draw_job(rng, table)
        try:
            return index, check(runner, job, dear(index)), None
        except Broken as fault:
            return index, fault.law, (shrink(runner, job, fault.law, dear(index)), fault)

    with concurrent.futures.ThreadPoolExecutor(given.threads) as pool:
        for index, outcome, fault in pool.map(one, range(given.jobs)):
            counts[outcome] += 1
            if fault is not None:
                job, why = fault
                broken.append(why.law)
                print(f"job {index} breaks '{why.law}': {str(why.what)[:500]}\n{json.dumps(job)}\n", flush=True)
                if given.keep:
                    os.makedirs(given.keep, exist_ok=True)
                    with open(os.path.join(given.keep, f"{given.seed}-{index}.yaml"), "w") as out:
                        out.write(f"# {why.law}\n{json.dumps(job)}\n")
    print(f"{given.jobs} jobs, seed {given.seed}:", ", ".join(f"{n} x {k}" for k, n in sorted(counts.items(), key=str)))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
