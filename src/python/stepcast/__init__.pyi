"""Forecasts one training step of a large language model on a GPU cluster."""

from os import PathLike
from typing import Any, Literal, Mapping, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt
import pandas as pd

Job = Union[Mapping[str, Any], str, "PathLike[str]"]
Fidelity = Literal["bound", "folded", "full"]

class InputError(ValueError):
    """What is wrong with a job, one line a fault."""

class Answer(dict[str, Any]):
    """The JSON of a command."""

    def to_frame(self) -> pd.DataFrame:
        """A row for each item of the answer's main list."""

class Forecast(Answer):
    """The report of simulate --json. SI units."""

    @property
    def step_time(self) -> float:
        """Seconds."""
    @property
    def fits(self) -> Literal["yes", "likely", "borderline", "unlikely", "no", "possible"]: ...

def forecast(job: Job, *, set: Sequence[str] = ..., fidelity: Fidelity = ...) -> Forecast:
    """The report of simulate --json. SI units."""

def forecast_many(
    job: Job,
    overrides: Mapping[str, Union[Sequence[Any], npt.NDArray[Any]]],
    *,
    threads: int = ...,
    fidelity: Fidelity = ...,
) -> npt.NDArray[np.void]:
    """A row for each row of overrides: step_time, low, high (seconds), peak_memory (bytes), mfu,
    fits_probability, fits, feasible; NaN where the overrides make no job."""

def search(
    job: Job,
    space: Union[str, Mapping[str, Any]] = ...,
    *,
    set: Sequence[str] = ...,
    objective: Literal["time", "cost", "energy"] = ...,
    time_limit: float = ...,
    threads: int = ...,
) -> Answer:
    """The answer of simulate search --json."""

def sweep(
    job: Job,
    vary: Mapping[str, Union[str, Sequence[Any]]],
    *,
    set: Sequence[str] = ...,
    fidelity: Optional[Fidelity] = ...,
    optimize: bool = ...,
    threads: Optional[int] = ...,
) -> Answer:
    """All combinations of {KEY: [VALUES]}, or of ranges such as "8..64*2": simulate sweep --json."""

def memory(job: Job, *, set: Sequence[str] = ...) -> Answer:
    """Memory of each stage over the step: simulate memory --json."""

def plan(
    job: Job,
    *,
    tokens: Union[float, str, None] = ...,
    deadline: Optional[str] = ...,
    budget: Union[float, str, None] = ...,
    power: Optional[str] = ...,
    objective: Optional[Literal["cost", "time", "energy", "carbon"]] = ...,
    catalogue: Optional[str] = ...,
    runs: Optional[int] = ...,
    set: Sequence[str] = ...,
) -> Answer:
    """Which clusters of a catalogue meet the limits: simulate plan --json."""

def goodput(
    job: Job,
    *,
    duration: Optional[str] = ...,
    interval: Optional[str] = ...,
    operations: Optional[str] = ...,
    set: Sequence[str] = ...,
) -> Answer:
    """The useful share of a long run: simulate goodput --json."""

def explain(job: Job, *, measured: Optional[str] = ..., set: Sequence[str] = ...) -> Answer:
    """Where the time goes and how sure it is: simulate explain --json."""

def compare(job: Job, systems: Union[str, Sequence[str]] = ..., *, set: Sequence[str] = ...) -> Answer:
    """The job under training systems: simulate compare --json."""

def from_launch(
    system: str,
    *files: Union[str, "PathLike[str]"],
    cluster: str,
    nodes: Optional[int] = ...,
    model: Optional[str] = ...,
    define: Sequence[str] = ...,
    set: Sequence[str] = ...,
) -> Forecast:
    """The forecast of another framework's launch files: simulate --from."""
