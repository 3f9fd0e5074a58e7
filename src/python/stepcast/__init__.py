"""Forecasts one training step of a large language model on a GPU cluster."""

import json
import os
import subprocess
import sys
import tempfile
from html import escape

_HERE = os.path.dirname(os.path.abspath(__file__))
_DATA = os.path.join(_HERE, "share", "stepcast")
if os.path.isdir(_DATA):  # a wheel has its own; a build finds that of its source tree
    os.environ.setdefault("STEPCAST_DATA", _DATA)

from . import _core  # noqa: E402  (it reads STEPCAST_DATA)

InputError = _core.InputError
forecast_many = _core.forecast_many

__all__ = [
    "Answer",
    "Forecast",
    "InputError",
    "compare",
    "explain",
    "forecast",
    "forecast_many",
    "from_launch",
    "goodput",
    "memory",
    "plan",
    "search",
    "sweep",
]


def _program():
    for path in (os.path.join(_HERE, "bin", "simulate"), os.path.join(_HERE, "..", "..", "bin", "simulate")):
        if os.access(path, os.X_OK):
            return path
    raise RuntimeError("the program simulate lies neither in this package nor beside its build")


def _command(*arguments):
    """The JSON of a command. Faults of the input are an InputError with their lines; exit status 1 (it does not fit, no plan
    meets the limits) still has an answer."""
    ran = subprocess.run([_program(), *arguments, "--json", "-"], capture_output=True, text=True)
    if ran.returncode not in (0, 1) or not ran.stdout:
        raise InputError(ran.stderr.strip() or f"simulate ended with status {ran.returncode}")
    return json.loads(ran.stdout)


class _JobFile:
    """The name of a job for the program: a dict is written to a file that lives as long as the call."""

    def __init__(self, job):
        self._job = job
        self._path = None

    def __enter__(self):
        if isinstance(self._job, (str, os.PathLike)):
            return os.fspath(self._job)
        with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="job-", delete=False) as file:
            self._path = file.name
            json.dump(self._job, file, default=lambda x: x.item())  # NumPy's numbers
        return self._path

    def __exit__(self, *_):
        if self._path is not None:
            os.unlink(self._path)


def _option(name, value):
    """--NAME VALUE, or nothing where the value is None or False."""
    if value is None or value is False:
        return []
    return [name] if value is True else [name, str(value)]


def _sets(overrides):
    return [part for one in overrides for part in ("--set", one)]


class Answer(dict):
    """The JSON of a command as a dict. `rows` names the list that `to_frame` makes a table of."""

    rows = None

    def to_frame(self):
        """A pandas DataFrame with a row for each item of the answer's main list."""
        import pandas

        return pandas.json_normalize(self[self.rows] if self.rows else dict(self))


class Forecast(Answer):
    """The report of simulate --json. SI units. A notebook shows its first sentence, its figures and where the time goes."""

    rows = "breakdown"

    @property
    def step_time(self):
        return self["step_time"]["value"]

    @property
    def fits(self):
        return self["memory"]["fits"]["verdict"]

    def __str__(self):
        return self["conclusion"]

    def to_frame(self):
        """A row for each pipeline stage: seconds of each kind of time, and bytes at the peak."""
        import pandas

        time = pandas.json_normalize(self["breakdown"]).set_index("stage")
        memory = pandas.json_normalize(self["memory"].get("stages", []))
        if memory.empty:
            return time
        return time.join(memory.set_index("stage").add_prefix("memory."))

    def _repr_html_(self):
        def interval(e, per, unit, digits=4):
            return (
                f"{e['value'] * per:.{digits}g} {unit}",
                f"{e['low'] * per:.{digits}g} to {e['high'] * per:.{digits}g}",
            )

        rows = [
            ("Step time", *interval(self["step_time"], 1, "s")),
            ("Tokens/s per GPU", *interval(self["tokens_per_second_per_gpu"], 1, "")),
            ("MFU", *interval(self["mfu"], 100, "%", 3)),
            ("Peak memory", *interval(self["memory"]["peak"], 2**-30, "GiB")),
            ("Fits", self.fits, ""),
        ]
        table = "".join(f"<tr><th>{escape(n)}</th><td>{escape(v)}</td><td>{escape(r)}</td></tr>" for n, v, r in rows)
        return (
            f"<p><b>{escape(self['conclusion'])}</b></p><p>{escape(self['title'])}</p>"
            f"<table><tr><th></th><th></th><th>90 % interval</th></tr>{table}</table>{self._bars()}"
        )

    def _bars(self):
        """A bar a stage: compute, exposed communication, bubble, the rest."""
        step = self.step_time
        colours = {"compute": "#2563a8", "exposed": "#d9822b", "bubble": "#b0b7bf", "rest": "#4c9a5a"}
        out = []
        for stage in self["breakdown"]:
            exposed = sum(stage["exposed"].values())
            compute = stage["compute"] + stage["recompute"] + stage["slowdown"]
            shares = {"compute": compute, "exposed": exposed, "bubble": stage["bubble"]}
            shares["rest"] = max(0.0, step - sum(shares.values()))
            cells = "".join(
                f'<span title="{name} {100 * seconds / step:.1f} %" style="display:inline-block;height:1em;'
                f'width:{60 * seconds / step:.2f}%;background:{colours[name]}"></span>'
                for name, seconds in shares.items()
            )
            out.append(f"<div>stage {stage['stage']} {cells}</div>")
        legend = ", ".join(f'<span style="color:{colour}">&#9632;</span> {name}' for name, colour in colours.items())
        return "".join(out[:16]) + f"<div>{legend}</div>" if out else ""


def forecast(job, *, set=(), fidelity="folded"):
    """One training step of a job: a dict of its keys, or the path or name of a job file. The same as simulate --json."""
    return Forecast(_core.forecast(job, set=list(set), fidelity=fidelity))


class _Search(Answer):
    rows = "ranking"


def search(job, space="default", *, set=(), objective="time", time_limit=0.0, threads=0):
    """The best strategy of a space {KEY: [VALUES]}, with proof. The same as simulate search --json."""
    return _Search(
        _core.search(job, space, set=list(set), objective=objective, time_limit=time_limit, threads=threads)
    )


class _Sweep(Answer):
    rows = "points"


def sweep(job, vary, *, set=(), fidelity=None, optimize=False, threads=None):
    """The job for all combinations of {KEY: [VALUES] or RANGE}, as simulate sweep --json."""
    axes = []
    for key, values in vary.items():
        texts = values if isinstance(values, str) else ",".join(v if isinstance(v, str) else json.dumps(v) for v in values)
        axes += ["--vary", f"{key}={texts}"]
    options = _option("--fidelity", fidelity) + _option("--optimize", optimize) + _option("--threads", threads)
    with _JobFile(job) as name:
        return _Sweep(_command("sweep", "--config", name, *axes, *_sets(set), *options))


class _Memory(Answer):
    rows = "stages"


def memory(job, *, set=()):
    """Memory of each stage over the step, as simulate memory --json."""
    with _JobFile(job) as name:
        return _Memory(_command("memory", "--config", name, *_sets(set)))


class _Plan(Answer):
    rows = "clusters"


def plan(job, *, tokens=None, deadline=None, budget=None, power=None, objective=None, catalogue=None, runs=None, set=()):
    """Which clusters of a catalogue meet a deadline ("60d"), a budget and a power limit, as simulate plan --json."""
    limits = (
        _option("--tokens", tokens)
        + _option("--deadline", deadline)
        + _option("--budget", budget)
        + _option("--power", power)
        + _option("--objective", objective)
        + _option("--catalogue", catalogue)
        + _option("--runs", runs)
    )
    with _JobFile(job) as name:
        return _Plan(_command("plan", "--config", name, *limits, *_sets(set)))


def goodput(job, *, duration=None, interval=None, operations=None, set=()):
    """The useful share of a long run ("54d"), as simulate goodput --json."""
    options = _option("--duration", duration) + _option("--interval", interval) + _option("--operations", operations)
    with _JobFile(job) as name:
        return Answer(_command("goodput", "--config", name, *options, *_sets(set)))


def explain(job, *, measured=None, set=()):
    """Where the time goes, what is uncertain, and what a measured step ("9.1s") says, as simulate explain --json."""
    with _JobFile(job) as name:
        return Answer(_command("explain", "--config", name, *_option("--measured", measured), *_sets(set)))


class _Compare(Answer):
    rows = "systems"


def compare(job, systems="all", *, set=()):
    """The job under each training system that can run it, as simulate compare --json."""
    names = systems if isinstance(systems, str) else ",".join(systems)
    with _JobFile(job) as name:
        return _Compare(_command("compare", "--config", name, "--systems", names, *_sets(set)))


def from_launch(system, *files, cluster, nodes=None, model=None, define=(), set=()):
    """The forecast of another framework's launch files, as simulate --from SYSTEM FILE ..."""
    options = _option("--nodes", nodes) + _option("--model", model)
    variables = [part for one in define for part in ("--define", one)]
    return Forecast(
        _command("--from", system, *map(os.fspath, files), "--cluster", cluster, *options, *variables, *_sets(set))
    )


def _main():
    """The command simulate of a wheel."""
    program = _program()
    os.execv(program, [program, *sys.argv[1:]])
