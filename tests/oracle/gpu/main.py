"""Training steps of cases.yaml on a real GPU: time, memory of the allocator and of the process, kernels. Runs on the null GPU too.

usage: main.py --out FOLDER [--seconds N] [--operators N] [--cases FILE] [PATTERN...]
    --seconds    start no case that would end later than this after the first began (default 300)
    --operators  N seconds of operators measured by themselves, ahead of the cases; alone with --seconds 0
    PATTERN      cases by name with * and ?; without one, all in the order of the file, the most wanted first

Each case runs in a process forked after the imports, with a CUDA context of its own. FOLDER gets results.jsonl (first line: the machine),
operators.jsonl, kernels.jsonl.gz, snapshots.jsonl.gz, trace-*.json.gz and log.txt, each written as the cases end.
"""
import argparse
import fnmatch
import importlib
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "record"), str(HERE.parent / "tool")]
LIMIT = 75  # seconds after which a case is ended


def stated(path):
    """Cases written out, in the order of the file."""
    import catalogue
    import yaml
    models = yaml.safe_load((HERE.parent / "cases" / "models.yaml").read_text())
    out = []
    for file in yaml.safe_load_all(path.read_text()):
        models.update(file.pop("models", {}))
        for entry in file["cases"]:
            for variant in catalogue.variants(catalogue.merged(file.get("defaults", {}), entry)):
                for case in catalogue.written_out(variant, models, {"environment": "gpu", "recorder": file["recorder"]}):
                    del case["job"]["memory"]["stream_waits"]  # of the null GPU
                    out.append(case)
    return out


def command(*words):
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=20, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return repr(error)


def machine():
    import importlib.metadata as metadata
    import torch
    version = lambda name: next((d.version for d in metadata.distributions(name=name)), None)
    fields = ["name", "driver_version", "memory.total", "memory.used", "memory.reserved", "clocks.max.sm", "clocks.max.mem", "clocks.sm",
              "clocks.mem", "power.limit", "power.draw", "temperature.gpu", "persistence_mode", "ecc.mode.current", "compute_mode", "vbios_version",
              "pcie.link.gen.current", "pcie.link.width.current"]
    asked = command("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader").partition("\n")[0].split(",")
    if len(asked) != len(fields):
        fields, asked = ["answer"], [command("nvidia-smi", "-q")[:3000]]
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return {"machine": {
        "gpu": dict(zip(fields, (v.strip() for v in asked))), "cpu": cpu, "cores": os.cpu_count(), "kernel": platform.release(),
        "python": platform.python_version(), "cuda": torch.version.cuda,
        "packages": {n: version(n) for n in ("torch", "triton", "transformers", "accelerate", "numpy", "nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-nccl-cu13")},
        "date": time.strftime("%Y-%m-%d"), "null_gpu": "nullgpu" in os.environ.get("LD_PRELOAD", ""),
        "settings": {k: v for k, v in os.environ.items() if k.startswith(("PYTORCH", "CUDA", "NCCL", "TORCH", "OMP"))}}}


def guarded(work):
    """What work() gives; where it fails, why, and what was measured until then."""
    try:
        return work()
    except BaseException as error:
        traceback.print_exc()
        import measure
        return {**measure.partial, "error": f"{type(error).__name__}: {str(error)[:600]}", "where": traceback.format_exc()[-900:]}


def anew(name, a, limit):
    """As in_child, in a process that imports everything again."""
    began, path = time.time(), pathlib.Path(f"/tmp/result-{os.getpid()}.json")
    path.unlink(missing_ok=True)
    with (a.out / "log.txt").open("a") as log:
        words = [sys.executable, __file__, "--out", str(a.out), "--cases", str(a.cases), "--here", str(path), name]
        try:
            subprocess.run(words, stdout=log, stderr=log, timeout=limit + 15, check=False)
        except subprocess.TimeoutExpired:
            pass
    return json.loads(path.read_text()) if path.exists() else {"error": "ended without a result"}, time.time() - began


def in_child(name, work, out, limit):
    """What work(parts) gave, run in a forked process, and how long it took."""
    log = out / "log.txt"
    receive, send = os.pipe()
    began = time.time()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(receive)
            with log.open("a") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            print(f"=== {name}", flush=True)
            result = guarded(work)
            status = 0
            with os.fdopen(send, "w") as pipe:
                pipe.write(json.dumps(result, default=str))
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)  # without destructors: there is nothing to give back
    os.close(send)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.alarm(max(5, int(limit)))
    with os.fdopen(receive) as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    signal.alarm(0)
    result = json.loads(text) if text else {"error": f"ended with status {status} (9: over {limit:.0f} s)"}
    return result, time.time() - began


def record(case, out):
    import torch
    restore_device_questions(torch)
    import measure
    import patches
    import step
    from case import Case
    told = Case(case["told"])
    patches.apply(told)
    step.measure = lambda train_step, passes=None: measure.measure(told, train_step, out)
    result = importlib.import_module(case["told"]["recorder"]).record(told)
    told.check_options()
    return result


KEPT = {}


def hide_device(torch):
    """Frameworks ask these while they are imported. Answered by the device, they would forbid CUDA to the forked cases."""
    KEPT.update(is_available=torch.cuda.is_available, device_count=torch.cuda.device_count)
    torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 1


def restore_device_questions(torch):
    for name, function in KEPT.items():
        setattr(torch.cuda, name, function)


def add(path, line):
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


def row(name, r, took):
    gib = lambda key: f"{r[key] / 2**30:9.3f}" if r.get(key) is not None else f"{'-':>9}"
    time_of = r.get("step_ms") or []
    median = sorted(time_of)[len(time_of) // 2] if time_of else None
    spread = f"{(max(time_of) - min(time_of)) / median * 100:5.1f}" if median else "    -"
    return (f"{name:34} {f'{median:9.2f}' if median else '        -'} {spread} {gib('steady')} {gib('first_peak')} {gib('peak')} {gib('reserved')} "
            f"{gib('process')} {r.get('host_issue_ms', 0) or 0:8.1f} {took:6.1f} {r.get('error', '')[:60]}")


HEAD = (f"{'case':34} {'step ms':>9} {'+-%':>5} {'steady':>9} {'first':>9} {'peak':>9} {'reserved':>9} {'process':>9} {'host ms':>8} {'took s':>6}  (GiB)")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--operators", type=float, default=0)
    parser.add_argument("--cases", type=pathlib.Path, default=HERE / "cases.yaml")
    parser.add_argument("--fresh", action="store_true")  # each case in an interpreter of its own
    parser.add_argument("--here", type=pathlib.Path)  # of such an interpreter: the file of its result
    parser.add_argument("patterns", nargs="*")
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"/tmp/inductor-{os.getpid()}")  # cold
    began = time.time()
    import torch
    if not a.here:
        about = machine()
        add(a.out / "results.jsonl", about)
        print(json.dumps(about), flush=True)
    hide_device(torch)
    if a.operators:
        def operators():
            restore_device_questions(torch)
            import microbench
            return microbench.run(a.out / "operators.jsonl", a.operators)
        result, took = in_child("operators", operators, a.out, a.operators + 45)
        print(f"operators: {took:.1f} s {json.dumps(result)[:300]}", flush=True)
    if a.seconds <= 0:
        return
    cases = [c for c in stated(a.cases) if not a.patterns or any(fnmatch.fnmatch(c["name"], p) for p in a.patterns)]
    for recorder in dict.fromkeys(c["told"]["recorder"] for c in cases):
        if recorder != "transformers_trainer":  # which imports much that asks for devices
            importlib.import_module(recorder)
    import measure  # noqa: F401
    import torch._dynamo  # noqa: F401
    import torch.profiler  # noqa: F401
    fresh = torch.cuda.is_initialized() or a.fresh
    if fresh:
        print("an import initialised the device, which forks could not use: each case begins anew", flush=True)
    if a.here:
        a.here.write_text(json.dumps(guarded(lambda: record(cases[0], a.out))))
        os._exit(0)
    print(f"imports: {time.time() - began:.1f} s, {len(cases)} cases\n{HEAD}", flush=True)
    began, rows = time.time(), []
    for case in cases:
        left = a.seconds - (time.time() - began)
        needed = case["told"]["options"].get("needs", 9)
        if left < needed:
            print(f"{case['name']}: left out, {left:.0f} s are left", flush=True)
            continue
        case["told"]["options"] = {k: v for k, v in case["told"]["options"].items() if k != "needs"}
        run = in_child if not fresh else lambda name, work, out, limit: anew(name, a, limit)
        result, took = run(case["name"], lambda: record(case, a.out), a.out, min(LIMIT, left + 15))
        add(a.out / "results.jsonl", {"name": case["name"], "job": case["job"], "options": case["told"]["options"], "recorder": case["told"]["recorder"],
                                      "sizes": case["told"]["sizes"], "took_s": round(took, 2), **result})
        rows.append(row(case["name"], result, took))
        print(rows[-1], flush=True)
    print(f"\n{json.dumps(machine()['machine']['gpu'])}\n{HEAD}")
    print("\n".join(rows), flush=True)


if __name__ == "__main__":
    main()
