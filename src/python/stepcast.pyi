"""Forecasts one training step of a large language model on a GPU cluster."""

from os import PathLike
from typing import Any, Literal, Mapping, Sequence, Union

import numpy as np
import numpy.typing as npt

Job = Union[Mapping[str, Any], str, "PathLike[str]"]
Fidelity = Literal["bound", "folded", "full"]

class InputError(ValueError):
    """What is wrong with a job, one line a fault."""

def forecast(job: Job, *, set: Sequence[str] = ..., fidelity: Fidelity = ...) -> dict[str, Any]:
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
) -> dict[str, Any]:
    """The answer of simulate search --json."""
