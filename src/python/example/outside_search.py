"""Stepcast under somebody else's search: Optuna where it is installed, else SciPy, else plain random draws.

    PYTHONPATH=build/release/python python3 src/python/example/outside_search.py
"""

import math
import random

import stepcast

SPACE = {
    "parallelism.tensor": [1, 2, 4, 8],
    "parallelism.pipeline": [1, 2, 4, 8],
    "workload.micro_batch": [1, 2, 4],
    "memory.recompute": ["none", "selective", "full"],
}
FIXED = ["parallelism.virtual_pipeline=1"]


def seconds(choice):
    """Of one step; infinite where the choice is no job or does not fit."""
    overrides = FIXED + [f"{key}={value}" for key, value in choice.items()]
    try:
        row = stepcast.forecast_many("llama70b", {one.split("=")[0]: [one.split("=", 1)[1]] for one in overrides})[0]
    except stepcast.InputError:
        return math.inf
    return row["step_time"] if row["fits"] else math.inf


def search(draws=60):
    try:
        import optuna

        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
        pick = lambda trial: seconds({k: trial.suggest_categorical(k, v) for k, v in SPACE.items()})
        study.optimize(lambda trial: min(pick(trial), 1e9), n_trials=draws)
        return study.best_value, study.best_params
    except ImportError:
        pass
    try:
        from scipy.optimize import differential_evolution

        at = lambda x: {k: v[int(i)] for i, (k, v) in zip(x, SPACE.items())}
        ends = [(0, len(v) - 1e-9) for v in SPACE.values()]
        found = differential_evolution(lambda x: min(seconds(at(x)), 1e9), ends, seed=1, maxiter=5, polish=False)
        return found.fun, at(found.x)
    except ImportError:
        pass
    random.seed(1)
    choices = [{k: random.choice(v) for k, v in SPACE.items()} for _ in range(draws)]
    return min(((seconds(c), c) for c in choices), key=lambda pair: pair[0])


if __name__ == "__main__":
    best, choice = search()
    print(f"{best:.3f} s a step: " + ", ".join(f"{key}={value}" for key, value in choice.items()))
