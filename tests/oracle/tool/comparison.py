"""Forecasts of `simulate` held against what the frameworks were recorded to do.

Each record gives measures (name, recorded, forecast) in per cent of the record, and its collectives by group and kind, in
number and bytes. bounds.yaml holds, for each file of cases, how far each measure lies off today: it may only shrink.
"""
import collections
import concurrent.futures
import csv
import io
import json
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
V_SHAPED = ("zb_v", "dualpipe_v")  # schedules that have two chunks a rank by themselves
SMALL = 2048  # an all-reduce of fewer bytes is the gradient norm or a flag
HEADER = """# How far forecasts lie from what the frameworks did (scripts/oracle compare --check): the worst and the median difference of each
# measure in per cent, and how many cases have other collectives or another order of passes, or are refused. These are upper limits, which may only shrink:
# `scripts/oracle compare --tighten` lowers those that a better forecast allows. `exceptions` say in words what differs and why.
"""


def environment():
    return {"STEPCAST_DATA": str(catalogue.FOLDER.parent.parent), **os.environ}


def forecast(program, case):
    """The report of `simulate`, or the line with which it refuses the job."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(case["job"], file)  # JSON is YAML
        file.flush()
        ran = subprocess.run([program, "--config", file.name, "--json", "-"], capture_output=True, text=True, env=environment())
        if ran.returncode == 2 or not ran.stdout:
            return None, ran.stderr.strip().splitlines()[0].replace(f"{file.name}:", "")
        return json.loads(ran.stdout), ""


def orders_of(program, case):
    """The passes of each rank by `simulate schedule`, or the line with which it refuses."""
    sizes, parallelism = case["told"]["sizes"], case["told"]["parallelism"]
    name = parallelism.get("schedule", "interleaved_1f1b" if sizes["virtual"] > 1 else "1f1b")
    command = [program, "schedule", name, "--stages", str(sizes["pipeline"]), "--micro-batches", str(sizes["accumulate"]), "--csv", "-"]
    if sizes["virtual"] > 1 and name not in V_SHAPED:
        command += ["--chunks", str(sizes["virtual"])]
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
    for _, kind, called, moved, _, count in record["collectives"]:
        if kind == "recv":
            continue
        shape, _, name = called.partition(" ")
        group = case["groups"].get(name) or case["groups"].get(shape, called)
        if kind == "all_reduce" and moved < SMALL:
            group = "norm"
        out[group, kind][0] += count
        out[group, kind][1] += moved * count
    return out


def forecast_collectives(report):
    out = collections.defaultdict(lambda: [0, 0])
    for row in report["traffic"]:
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


def summary_of(results):
    """{file: {measure: {"worst", "median"}, "collectives": cases that differ, "refused": cases}}."""
    out = {}
    for stem in dict.fromkeys(c.stem for c in results):
        mine = [c for c in results if c.stem == stem]
        summary = {}
        for measure in MEASURES:
            values = [abs(off(c.measures[measure])) for c in mine if measure in c.measures]
            if values:
                summary[measure] = {"worst": max(values), "median": statistics.median(values)}
        summary["collectives"] = sum(bool(c.collectives) for c in mine)
        summary["passes"] = sum(c.passes is False for c in mine)
        summary["refused"] = sum(bool(c.refused) for c in mine)
        out[stem] = summary
    return out


def limits(summary):
    """{path of a limit: value}."""
    out = {}
    for stem, measures in summary.items():
        for name, value in measures.items():
            for part, number in value.items() if isinstance(value, dict) else [("", value)]:
                out[stem, name, part] = number
    return out


def check(summary, bounds):
    """A line for each limit that is broken or missing."""
    allowed, faults = limits({s: {k: v for k, v in b.items() if k != "exceptions"} for s, b in bounds.items()}), []
    for key, value in limits(summary).items():
        where = " ".join(k for k in key if k)
        if key not in allowed:
            faults.append(f"{where}: {value:.2f}, and bounds.yaml has no limit")
        elif value > allowed[key] + 1e-9:
            faults.append(f"{where}: {value:.2f} is above the limit of {allowed[key]:g}")
    return faults


def round_up(value):
    """To a tenth of a per cent; counts stay."""
    return value if isinstance(value, int) else int(value * 10 + 1) / 10


def tighten(summary, bounds):
    """Writes what differs today where that is less than what stands, or nothing stands."""
    out = {}
    for stem in sorted(set(summary) | set(bounds)):
        old, new = bounds.get(stem, {}), summary.get(stem)
        if new is None:
            out[stem] = old
            continue
        lower = lambda a, b: b if a is None else min(a, b)
        entry = {}
        for name, value in new.items():
            if isinstance(value, dict):
                entry[name] = {part: lower(old.get(name, {}).get(part), round_up(number)) for part, number in value.items()}
            else:
                entry[name] = lower(old.get(name), value)
        if "exceptions" in old:
            entry["exceptions"] = old["exceptions"]
        out[stem] = entry
    lines = [HEADER]
    for stem, entry in out.items():
        lines.append(f"{stem}:\n")
        for name, value in entry.items():
            if name == "exceptions":
                lines.append("  exceptions:\n" + "".join(f"    - {line}\n" for line in value))
            elif isinstance(value, dict):
                lines.append(f"  {name}: {{worst: {value['worst']:g}, median: {value['median']:g}}}\n")
            else:
                lines.append(f"  {name}: {value}\n")
    BOUNDS.write_text("".join(lines))


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
    summary = summary_of(results)
    bounds = yaml.safe_load(BOUNDS.read_text()) or {} if BOUNDS.exists() else {}
    print(f"\n{len(results)} cases" + "".join(f"\n{stem}: " + ", ".join(
        f"{n} {v['worst']:.2f} (median {v['median']:.2f}) %" if isinstance(v, dict) else f"{v} {n}" for n, v in s.items()) for stem, s in summary.items()))
    for stem in summary:
        for line in bounds.get(stem, {}).get("exceptions", []):
            print(f"{stem}: {line}")
    if arguments.tighten:
        tighten(summary, bounds)
    if arguments.check:
        faults += check(summary, yaml.safe_load(BOUNDS.read_text()) if BOUNDS.exists() else {})
    for fault in faults:
        print(f"oracle: {fault}")
    return 1 if faults and arguments.check else 0
