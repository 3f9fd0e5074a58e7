"""What main.py measured, kept small in measured/, and as measured runs of tests/validation.

usage: runs.py keep RESULTS.jsonl DEVICE   what a folder of main.py holds, into measured/DEVICE.jsonl (DEVICE: a name in configs/devices)
       runs.py write [--check]             measured/*.jsonl into tests/validation/stepcast-gpu.jsonl and its copy in all/

A step on one GPU claims its time, and all memory. A rank of a fake group has no communication: it claims no time, and no memory of the
process, which lacks NCCL's buffers; what is allocated and reserved is a real step's.
"""
import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
VALIDATION = HERE.parent.parent / "validation"
FILE = "stepcast-gpu.jsonl"
MACHINE = ("packages", "python", "cuda", "date", "cpu", "cores")
GPU = ("name", "driver_version", "memory.total", "clocks.max.sm", "clocks.max.mem", "power.limit", "ecc.mode.current")
KEPT = ("name", "recorder", "options", "job", "step_ms", "wall_ms", "host_issue_ms", "steady", "first_peak", "peak", "reserved", "reserved_end", "outside_end",
        "process", "sensors", "error")
CLUSTERS = {"h100-sxm": "dgx-h100", "h200-sxm": "dgx-h200"}


def keep(results, device):
    lines = [json.loads(line) for line in pathlib.Path(results).read_text().splitlines()]
    machine = lines[0]["machine"]
    out = [{**{k: machine[k] for k in MACHINE}, "gpu": {k: machine["gpu"][k] for k in GPU}}]
    for case in lines[1:]:
        row = {k: case[k] for k in KEPT if k in case}
        row["options"] = {k: v for k, v in case["options"].items() if k not in ("also", "needs")}
        row["step_ms"] = [round(t, 2) for t in case.get("step_ms", [])]
        row["retries"] = case.get("allocator", {}).get("num_alloc_retries")
        if "profile" in case:
            row["profile"] = {k: case["profile"][k] for k in ("span_us", "busy_us", "count")}
        out.append(row)
    (HERE / "measured").mkdir(exist_ok=True)
    write(HERE / "measured" / f"{device}.jsonl", out)


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def job_of(case, device):
    """The job as the case states it, with nothing left for Stepcast to assume."""
    job = json.loads(json.dumps(case["job"]))
    job["cluster"]["use"] = CLUSTERS[device]
    job["model"].setdefault("head_dim", job["model"]["hidden"] // job["model"]["heads"])
    job.setdefault("kernels", {}).setdefault("attention", "flash2")
    job["memory"].setdefault("recompute", "none")
    job["assumed"] = []
    return job


def run_of(case, machine, device):
    alone = case["recorder"] == "single"
    kinds = ("allocated", "reserved", "process") if alone else ("allocated", "reserved")
    at = {"allocated": "peak", "reserved": "reserved_end", "process": "process"}
    measured = {"step_time": round(statistics.median(case["step_ms"]) / 1e3, 6)} if alone else {}
    measured["peak_memory"] = [{"kind": kind, "bytes": case[at[kind]]} for kind in kinds]
    packages = machine["packages"]
    return {"id": f"{device.split('-')[0]}-{case['name']}", "date": machine["date"],
            "source": f"Stepcast's own runs: tests/oracle/gpu, {machine['gpu']['name']}, torch {packages['torch']}+cu{machine['cuda'].replace('.', '')}, "
                      f"driver {machine['gpu']['driver_version']}" + ("" if alone else "; one rank of eight, without communication"),
            "job": job_of(case, device), "measured": measured, "assumed": {}}


def runs():
    out = []
    for path in sorted((HERE / "measured").glob("*.jsonl")):
        machine, *cases = map(json.loads, path.read_text().splitlines())
        out += [run_of(case, machine, path.stem) for case in cases if "error" not in case]
    return out


def main():
    words = sys.argv[1:]
    if len(words) == 3 and words[0] == "keep":
        keep(*words[1:])
        return 0
    if words not in (["write"], ["write", "--check"]):
        print(__doc__)
        return 2
    found, status = runs(), 0
    for path in (VALIDATION / FILE, VALIDATION / "all" / FILE):
        if words[-1] == "--check":
            held = [json.loads(line) for line in path.read_text().splitlines()]
            status |= held != found
        else:
            write(path, found)
    if status:
        print(f"tests/validation/{FILE} does not hold what measured/ gives; expected tests/oracle/gpu/runs.py write", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
