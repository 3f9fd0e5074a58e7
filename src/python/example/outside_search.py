"""Stepcast under SciPy's differential evolution, a whole generation at a time on all cores.

    PYTHONPATH=build/release/python /usr/bin/python3 src/python/example/outside_search.py
"""

import numpy as np
from scipy.optimize import differential_evolution

import stepcast

SPACE = {
    "parallelism.tensor": [1, 2, 4, 8],
    "parallelism.pipeline": [1, 2, 4, 8],
    "workload.micro_batch": [1, 2, 4],
    "memory.recompute": ["none", "selective", "full"],
}


def chosen(population):  # an array (dimensions, candidates) of positions in SPACE
    return {key: [values[int(i)] for i in row] for (key, values), row in zip(SPACE.items(), population)}


def seconds(population):
    rows = stepcast.forecast_many("llama70b", {**chosen(population), "parallelism.virtual_pipeline": [1] * population.shape[1]})
    return np.where(rows["fits"], rows["step_time"], 1e9)  # of one step; too long where it does not fit or is no job


ends = [(0, len(values) - 1e-9) for values in SPACE.values()]
found = differential_evolution(seconds, ends, maxiter=5, seed=1, polish=False, vectorized=True, updating="deferred")
print(f"{found.fun:.3f} s a step: " + ", ".join(f"{key}={value[0]}" for key, value in chosen(found.x[:, None]).items()))
