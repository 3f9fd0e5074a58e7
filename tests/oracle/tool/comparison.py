"""Forecasts of `simulate` held against what the frameworks were recorded to do.

Each record gives measures (name, recorded, forecast) in per cent of the record, and its collectives by group and kind, in
number and bytes. bounds.yaml holds, for each file of cases, how far each measure lies off today: it may only shrink.
"""
import collections
import concurrent.futures
import csv
import fnmatch
import io
import json
import math
import os
import statistics
import subprocess
import tempfile

import yaml

import catalogue
import records

BOUNDS = catalogue.FOLDER / "bounds.yaml"
MEASURES = ("steady", "first_peak", "peak", "reserved", "flops")
GIB = 1 << 30
AT_ONCE = 2  # programs that forecast
TORCH_PIPELINES = ("pipeline_orders", "torchtitan")  # recorders of torch.distributed.pipelining
FORWARDS_FIRST = ("megatron-core-0.8", "megatron-core-0.9")  # what presets say by `round_forwards_first`
V_SHAPED = ("zb_v", "dualpipe_v")  # schedules that have two chunks a rank by themselves
FP32 = 4  # bytes
LINEARS_OF_LAYER = 7  # of a Llama: queries, keys, values, output, and the gated MLP's three
SMALL = 2048  # an all-reduce of fewer bytes that is no gradient of the backward pass is the gradient norm or a flag; what the
# optimizer's phase gathers or broadcasts of fewer, in no format of parameters, is a metric, a count or a time
SCALARS = {"bfloat16": 2, "float32": 4, "int64": 8}  # bytes: where ranks gather one of each, it is a metric as well (TRL's, behind each forward pass)
HEADER = """# How far forecasts lie from what the frameworks did (scripts/oracle compare --check): the worst and the median difference of each
# measure in per cent, and how many cases have other collectives or another order of passes, or are refused. These are upper limits,
# which may only shrink: `scripts/oracle compare --tighten` lowers those that a better forecast allows. `differs` says in words what
# the cases of a file have in common, `exceptions` has limits of their own for cases that differ by something else.
"""


def environment():
    return {"STEPCAST_DATA": str(catalogue.FOLDER.parent.parent), **os.environ}


def forecast(program, case):
    """The report of `simulate`, or the line with which it refuses the job."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file, tempfile.NamedTemporaryFile("w", suffix=".json") as model:
        job = case["job"]
        if "model_type" in job["model"]:  # a config.json is a file of its own
            json.dump(job["model"], model)
            model.flush()
            job = job | {"model": model.name}
        json.dump(job, file)  # JSON is YAML
        file.flush()
        ran = subprocess.run([program, "--config", file.name, "--json", "-"], capture_output=True, text=True, env=environment())
        if ran.returncode == 2 or not ran.stdout:
            return None, (ran.stderr.strip().splitlines() or ["crashed"])[0].replace(f"{file.name}:", "")
        return json.loads(ran.stdout), ""


def orders_of(program, case):
    """The passes of each rank by `simulate schedule`, or the line with which it refuses."""
    sizes, parallelism = case["told"]["sizes"], case["told"]["parallelism"]
    stated = parallelism.get("schedule", "interleaved_1f1b" if sizes["virtual"] > 1 else "1f1b")
    name, group = (stated["name"], stated.get("group")) if isinstance(stated, dict) else (stated, None)
    command = [program, "schedule", name, "--stages", str(sizes["pipeline"]), "--micro-batches", str(sizes["accumulate"]), "--csv", "-"]
    if sizes["virtual"] > 1 and name not in V_SHAPED:
        command += ["--chunks", str(sizes["virtual"])]
    command += ["--group", str(group)] if group else []
    if case["told"]["environment"] in FORWARDS_FIRST and name == "interleaved_1f1b":
        command += ["--round-forwards-first"]
    if case["told"]["recorder"].startswith(TORCH_PIPELINES):  # what presets say by `torch_orders`
        stages, number = sizes["pipeline"], sizes["accumulate"]
        command += ["--oldest-first"] if name == "gpipe" else []
        command += ["--group", str(number // max(1, number // stages))] if name == "interleaved_1f1b" else []
    ran = subprocess.run(command, capture_output=True, text=True, env=environment())
    if ran.returncode != 0:
        return None, (ran.stderr.strip().splitlines() or ["no word"])[0]
    # Pairs that run at the same time stand in parentheses, their parts divided by a semicolon.
    return [" ".join(p for cell in row for p in cell.strip("() ").split(")")[0].split(";") if p) for row in csv.reader(io.StringIO(ran.stdout))], ""


def halves(row):
    """Passes with every backward pass as its two halves, so that a whole one is the same as two in a row."""
    return [p for action in row.split() for p in ([action.replace("B", "I"), action.replace("B", "W")] if "B" in action else [action])]


def passes_equal(program, case, record):
    """None: nothing to compare."""
    recorded = record.get("orders") or ([record["passes"]] if record.get("passes") else None)
    if recorded is None and "refused" not in record:
        return None
    rows, _ = orders_of(program, case)
    if recorded is None or rows is None:
        return recorded is rows
    mine = rows if "orders" in record else [rows[case["stage"]]]
    return [halves(r) for r in recorded] == [halves(r) for r in mine]


def measures_of(case, record, report):
    """{measure: (recorded, forecast)}."""
    stage = report["memory"]["stages"][case["stage"]]
    out = {"steady": (record["steady"], stage["steady"]), "first_peak": (record["first_peak"], stage["first_step_peak"]),
           "peak": (record["peak"], stage["peak"]["allocated"]), "reserved": (record["reserved"], stage["peak"]["reserved"])}
    flops = record["flops"]
    if case["told"]["sizes"]["pipeline"] == 1:  # a report's FLOPs are the mean of the stages
        # torch counts a causal attention core as whole, and its backward as 2.5 forwards (the scores once more); Stepcast
        # counts the half that is computed, and backward as 2.
        core = flops.get("attention_forward", 0) / 2 + flops.get("attention_backward", 0) / 2.5
        model = report["model_flops_per_gpu"]["value"] * report["step_time"]["value"]
        run = model * report["hfu"]["value"] / report["mfu"]["value"]
        out["flops"] = (flops.get("products", 0), run - core)
    return {name: pair for name, pair in out.items() if name not in case["without"]}


def recorded_collectives(case, record):
    """{(group, kind): [number, bytes]}."""
    out = collections.defaultdict(lambda: [0, 0])
    for phase, kind, called, moved, form, count in record["collectives"]:
        if kind == "recv":
            continue
        shape, _, name = called.partition(" ")
        group = case["groups"].get(name) or case["groups"].get(shape, called)
        gradient = phase.startswith("backward") and "float" in form or largest_values(case, phase, moved, count)
        counted = kind in ("all_gather", "broadcast") and phase == "optimizer" and form in ("float32", "int64")
        of_each = moved == int(shape.split("x")[0]) * SCALARS.get(form, 0)
        if moved < SMALL and (kind == "all_reduce" and not gradient or counted) or kind == "all_gather" and of_each:
            group = "norm"
        out[group, kind][0] += count
        out[group, kind][1] += moved * count
    return out


def largest_values(case, phase, moved, count):
    """Whether ranks agree on the largest values of weights that are gathered in 8 bits: each by itself, or all behind the optimizer."""
    how = case["told"]["parallelism"].get("float8_all_gather")
    if how not in ("dynamic", "precomputed"):
        return False
    weights = LINEARS_OF_LAYER * case["told"]["model"]["layers"]
    if how == "dynamic":
        return phase.startswith("forward") and moved == FP32 and count >= weights
    return phase == "optimizer" and moved == FP32 * weights


def forecast_collectives(report):
    out = collections.defaultdict(lambda: [0, 0])
    for row in report["traffic"]:
        if row["group"] == "offload":
            continue  # copies to the host and back, which frameworks make as plain copies
        key = row["group"], row["op"].split()[0]
        out[key][0] += row["count"]
        out[key][1] += row["bytes"]
    return out


def collectives_that_differ(case, record, report):
    """{(group, kind): (recorded, forecast)} but for the norm's, whose form changes with versions and moves nothing."""
    there, here = recorded_collectives(case, record), forecast_collectives(report)
    out = {}
    for key in sorted(set(there) | set(here)):
        a, b = there.get(key, [0, 0]), here.get(key, [0, 0])
        if key[0] != "norm" and (a[0] != b[0] or abs(a[1] - b[1]) > 1e-6 * max(a[1], 1)):
            out[key] = (a, b)
    return out


def off(pair):
    """Per cent of what was recorded."""
    recorded, predicted = pair
    return 100 * (predicted - recorded) / recorded if recorded else (0.0 if predicted == 0 else float("inf"))


class Compared:
    """A case beside its record."""

    def __init__(self, stem, case, record, report, refused, passes):
        self.stem, self.case, self.record, self.report, self.refused, self.passes = stem, case, record, report, refused, passes
        self.measures = measures_of(case, record, report) if report else {}
        # A report's traffic is that of the busiest rank, which is not always the one that was recorded.
        self.compares_traffic = report is not None and "collectives" not in case["without"] and case["told"]["sizes"]["pipeline"] == 1
        self.collectives = collectives_that_differ(case, record, report) if self.compares_traffic else {}


def compared(chosen, program):
    """Every case that is recorded, in order, and the faults of the folder."""
    work, faults = [], []
    for stem, cases in chosen.items():
        known = records.read(stem)["cases"]
        for name, case in cases.items():
            if name not in known:
                faults.append(f"{name}: not recorded (scripts/oracle run {name})")
            elif known[name]["digest"] != case["digest"]:
                faults.append(f"{name}: changed since it was recorded (scripts/oracle run {name})")
            else:
                work.append((stem, case, known[name]))
        faults += [f"{name}: recorded, but no case of {stem}.yaml" for name in sorted(set(known) - set(catalogue.read()[stem]))]

    def ask(item):
        stem, case, record = item
        report, refused = forecast(program, case) if "peak" in record else (None, "")
        return Compared(stem, case, record, report, refused, passes_equal(program, case, record))

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(ask, work)), faults


def row_of(c):
    peak = f"{c.record['peak'] / GIB:.2f}" if "peak" in c.record else "-"
    if c.refused:
        return [c.case["name"], peak, "refused: " + c.refused]
    cells = [f"{off(c.measures[m]):+.2f}" if m in c.measures else "-" for m in MEASURES]
    differ = "; ".join(f"{group} {kind} {b[0] - a[0]:+d} ({(b[1] - a[1]) / GIB:+.3f} GiB)" for (group, kind), (a, b) in c.collectives.items())
    passes = {None: "", True: "passes equal", False: "passes differ"}[c.passes]
    return [c.case["name"], peak, *cells, differ or passes or ("equal" if c.compares_traffic else "-")]


def print_table(results):
    stem = None
    for c in results:
        if c.stem != stem:
            stem = c.stem
            print(f"\n{stem:44} {'GiB':>7} " + " ".join(f"{m + ' %':>12}" for m in MEASURES) + "  collectives, forecast - recorded")
        name, peak, *cells = row_of(c)
        print(f"{name:44} {peak:>7} " + (cells[0] if c.refused else " ".join(f"{x:>12}" for x in cells[:-1]) + "  " + cells[-1]))


def groups_of(bounds):
    """[(file, pattern, limits)]: an exception has limits of its own, and its cases do not count for their file's."""
    for stem, entry in bounds.items():
        for exception in entry.get("exceptions", []):
            yield stem, exception["cases"], exception
        yield stem, "*", entry


def summary_of(results, bounds):
    """{(file, pattern): {limit: value}}: worst and median of the measures, and numbers of cases that differ otherwise."""
    patterns = {stem: [p for s, p, _ in groups_of(bounds) if s == stem] for stem in bounds}
    members = collections.defaultdict(list)
    for c in results:
        pattern = next(p for p in [*patterns.get(c.stem, []), "*"] if fnmatch.fnmatch(c.case["name"], p))
        members[c.stem, pattern].append(c)
    out = {}
    for key, cases in members.items():
        limits = out[key] = {}
        for measure in MEASURES:
            values = [abs(off(c.measures[measure])) for c in cases if measure in c.measures]
            if values:
                limits[measure] = {"worst": max(values), "median": statistics.median(values)}
        limits["collectives"] = sum(bool(c.collectives) for c in cases)
        limits["passes"] = sum(c.passes is False for c in cases)
        limits["refused"] = sum(bool(c.refused) for c in cases)
    return out


def numbers(limits):
    """{path of a limit: value}."""
    out = {}
    for name, value in limits.items():
        if isinstance(value, dict):
            out |= {f"{name} {part}": number for part, number in value.items()}
        elif name in ("collectives", "passes", "refused"):
            out[name] = value
    return out


def check(summary, bounds):
    """A line for each limit that is broken or missing."""
    allowed, faults = {(stem, pattern): numbers(limits) for stem, pattern, limits in groups_of(bounds)}, []
    for key, limits in summary.items():
        known = allowed.get(key, {})
        for name, value in numbers(limits).items():
            where = f"{key[0]} {name}" if key[1] == "*" else f"{key[1]} {name}"
            if name not in known:
                faults.append(f"{where}: {value:.2f}, and bounds.yaml has no limit")
            elif value > known[name] + 1e-9:
                faults.append(f"{where}: {value:.2f} is above the limit of {known[name]:g}")
    return faults


def lowered(old, new):
    """The lower limits, rounded up to a tenth of a per cent."""
    def lower(before, value):
        value = value if isinstance(value, int) else math.ceil(value * 10 - 1e-9) / 10
        return value if before is None else min(before, value)

    return {name: {part: lower(old.get(name, {}).get(part), number) for part, number in value.items()} if isinstance(value, dict)
            else lower(old.get(name), value) for name, value in new.items()}


def tighten(summary, bounds):
    """Writes what differs today where that is less than what stands, or nothing stands."""
    for stem in sorted({stem for stem, _ in summary} | set(bounds)):
        entry = bounds.setdefault(stem, {})
        for target, pattern in [(e, e["cases"]) for e in entry.get("exceptions", [])] + [(entry, "*")]:
            target.update(lowered(target, summary.get((stem, pattern), {})))
    lines = [HEADER]
    for stem, entry in sorted(bounds.items()):
        lines.append(f"{stem}:\n")
        write_limits(lines, entry, "  ")
        if entry.get("exceptions"):
            lines.append("  exceptions:\n")
        for exception in entry.get("exceptions", []):
            lines.append(f"    - cases: {json.dumps(exception['cases'])}\n      why: {json.dumps(exception['why'])}\n")
            write_limits(lines, exception, "      ")
        for reason in entry.get("differs", []):
            lines.append(f"{'  differs:' + chr(10) if reason == entry['differs'][0] else ''}    - {json.dumps(reason)}\n")
    BOUNDS.write_text("".join(lines))


def write_limits(lines, entry, indent):
    for name in (*MEASURES, "collectives", "passes", "refused"):
        if isinstance(entry.get(name), dict):
            lines.append(f"{indent}{name}: {{worst: {entry[name]['worst']:g}, median: {entry[name]['median']:g}}}\n")
        elif name in entry:
            lines.append(f"{indent}{name}: {entry[name]}\n")


def print_details(c, program):
    """Tensors at the peak of both sides."""
    mib = lambda value: f"{value / (1 << 20):10.1f}"
    print(f"\n{c.case['name']}: recorded {c.record['peak'] / GIB:.3f} GiB at {c.record['at_peak']['at']}")
    for count, size, when, where in c.record["at_peak"]["tensors"]:
        print(f"  {mib(count * size)} = {count:5} x {mib(size)} {when:6} {where}")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(c.case["job"], file)
        file.flush()
        ran = subprocess.run([program, "memory", "--config", file.name, "--json", "-"], capture_output=True, text=True,
                             env=environment())
    if not ran.stdout:
        return
    stage = json.loads(ran.stdout)["stages"][c.case["stage"]]
    print(f"  forecast {stage['peak']['allocated'] / GIB:.3f} GiB")
    for t in stage["at_peak"]:
        if t["total"] * 500 >= stage["peak"]["allocated"]:
            print(f"  {mib(t['total'])} = {t['count']:5} x {mib(t['bytes'])} {'before' if t['from_before'] else 'step':6} {t['category']}: {t['label']}")


def run(chosen, program, arguments):
    results, faults = compared(chosen, program)
    print_table(results)
    if arguments.details:
        for c in results:
            print_details(c, program)
    bounds = (yaml.safe_load(BOUNDS.read_text()) or {}) if BOUNDS.exists() else {}
    summary = summary_of(results, bounds)
    print(f"\n{len(results)} cases; worst (median) difference in per cent, and numbers of cases that differ")
    for (stem, pattern), limits in summary.items():
        print(f"{stem if pattern == '*' else pattern}: " + ", ".join(
            f"{n} {v['worst']:.2f} ({v['median']:.2f})" if isinstance(v, dict) else f"{n} {v}" for n, v in limits.items()))
    for stem in dict.fromkeys(c.stem for c in results):
        entry = bounds.get(stem, {})
        for reason in entry.get("differs", []) + [f"{e['cases']}: {e['why']}" for e in entry.get("exceptions", [])]:
            print(f"{stem} differs: {reason}")
    if arguments.tighten:
        tighten(summary, bounds)
    if arguments.check:
        faults += check(summary, bounds)
    for fault in faults:
        print(f"oracle: {fault}")
    return 1 if faults and arguments.check else 0
