"""Cases as they are stated in cases/*.yaml, written out one by one.

A case is a job in Stepcast's own language; the recorder reads the same keys, so that both sides run one job. What only the
framework has stands under `options`, what only Stepcast has under `system` and `kernels`.
"""
import copy
import fnmatch
import hashlib
import itertools
import json
import pathlib

import yaml

FOLDER = pathlib.Path(__file__).resolve().parent.parent
NULL_GPU_GIB = 1000  # memory of the null GPU
SECTIONS = ("model", "cluster", "system", "workload", "parallelism", "kernels", "moe", "memory")  # keys of a job
OWN = ("name", "layers", "accumulate", "stages", "data_rank", "options", "vary", "groups", "without")  # keys of a case beside them
FILE = ("environment", "recorder", "variables", "defaults", "cases")
GPUS_OF_NODE = 8


class Fault(Exception):
    pass


def set_key(target, path, value):
    *parents, last = path.split(".")
    for parent in parents:
        target = target.setdefault(parent, {})
        if not isinstance(target, dict):
            raise Fault(f"{path}: {parent} is not a map")
    target[last] = merged(target.get(last), value)


def merged(base, over):
    """Maps merge key by key; everything else is replaced."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return copy.deepcopy(over)
    out = copy.deepcopy(base)
    for key, value in over.items():
        out[key] = merged(out.get(key), value)
    return out


def variants(entry):
    """An entry for each combination of its axes; a part of the name that is empty leaves no trace in it."""
    axes = [list(axis.items()) for axis in entry.get("vary", [])]
    for chosen in itertools.product(*axes):
        out = {k: copy.deepcopy(v) for k, v in entry.items() if k != "vary"}
        for part, settings in chosen:
            out["name"] += f"-{part}" if part else ""
            for path, value in (settings or {}).items():
                set_key(out, path, value)
        yield out


def sizes_of(entry):
    """What the job's keys say in numbers: the ranks of every dimension and the batch."""
    workload, parallelism = entry["workload"], entry.get("parallelism", {})
    context = parallelism.get("context", 1)
    out = {"world": entry["cluster"].get("nodes", 1) * entry["cluster"].get("gpus_per_node", GPUS_OF_NODE),
           "sequence": workload["sequence_length"], "micro_batch": workload.get("micro_batch", 1), "accumulate": entry.get("accumulate", 1),
           "tensor": parallelism.get("tensor", 1), "pipeline": parallelism.get("pipeline", 1),
           "virtual": parallelism.get("virtual_pipeline", 1), "context": context["size"] if isinstance(context, dict) else context,
           "expert": parallelism.get("expert", 1), "expert_tensor": parallelism.get("expert_tensor", parallelism.get("tensor", 1))}
    model_ranks = out["tensor"] * out["pipeline"] * out["context"]
    if out["world"] % model_ranks:
        raise Fault(f"{entry['name']}: {out['world']} ranks are no multiple of {model_ranks}")
    out["data"] = out["world"] // model_ranks
    shard = parallelism.get("shard_size", out["data"] * out["context"])  # the ranks of a sequence share a copy
    out["replicas"] = out["data"] * out["context"] // shard if parallelism.get("sharding") == "hsdp" else 1
    return out


def group_names(sizes):
    """{(ranks, stride): Stepcast's name}: the fastest dimension is tensor, then context, data, replicas and pipeline."""
    tensor, context, data, replicas = (sizes[k] for k in ("tensor", "context", "data", "replicas"))
    shard, names = data // replicas, {}
    names[replicas, tensor * context * shard] = "data replicas"
    names[shard, tensor * context] = "data"
    names[shard * context, tensor] = "data"
    names[sizes["world"], 1] = "data" if tensor * sizes["pipeline"] == 1 else "world"
    names[context, tensor] = "context"
    names[tensor, 1] = "tensor"
    names[sizes["pipeline"], sizes["world"] // sizes["pipeline"]] = "pipeline"
    if sizes["context"] > 1 and shard == 1 and sizes["pipeline"] * replicas == 1:
        names[context, tensor] = "data"  # parameters are sharded over the ranks of a sequence too: told apart by what they move
    return {f"{n}x{stride}": name for (n, stride), name in names.items() if n > 1}


def written_out(entry, models, file):
    """The case as the recorder and the comparison read it."""
    unknown = sorted(set(entry) - set(SECTIONS) - set(OWN))
    if unknown:
        raise Fault(f"{entry['name']}: unknown keys {', '.join(unknown)}")
    if isinstance(entry["model"], dict):
        model = dict(entry["model"])
    elif entry["model"] in models:
        model = dict(models[entry["model"]])
    else:
        raise Fault(f"{entry['name']}: models.yaml has no {entry['model']}")
    if "layers" in entry:
        model["layers"] = entry["layers"]
    sizes = sizes_of(entry)
    workload = {"precision": "bf16", **entry["workload"]}
    workload["global_batch"] = sizes["micro_batch"] * sizes["accumulate"] * sizes["data"]
    job = {k: entry[k] for k in SECTIONS if k in entry} | {"model": model, "workload": workload}
    # Every event has happened on the null GPU (README: What is not real).
    job["memory"] = {"stream_waits": False, **entry.get("memory", {})}
    # The recorders' attention is PyTorch's flash kernel, never cuDNN's.
    job["system"] = {"prefers_cudnn_attention": False, **job["system"]} if isinstance(job["system"], dict) else {
        "use": job["system"], "prefers_cudnn_attention": False}
    # So much memory that nothing is given back (environments.py).
    job["cluster"] = {"device": {"memory": f"{NULL_GPU_GIB} GiB"}, **entry["cluster"]}
    for stage in entry.get("stages", [None]):
        name = entry["name"] + (f"-stage{stage}" if stage is not None else "")
        rank = (stage or 0) * sizes["world"] // sizes["pipeline"] + entry.get("data_rank", 0) * sizes["tensor"] * sizes["context"]
        told = {"recorder": file["recorder"], "variables": file.get("variables", {}), "environment": file["environment"], "rank": rank,
                "options": entry.get("options", {}), "model": model, "sizes": sizes, "memory": entry.get("memory", {}),
                "parallelism": entry.get("parallelism", {})}
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]
        yield {"name": name, "job": job, "stage": stage or 0, "digest": digest, "without": entry.get("without", []),
               "groups": merged(group_names(sizes), entry.get("groups", {})), "told": {"name": name, **told}}


def read(folder=FOLDER / "cases"):
    """{stem of a file: {case's name: case}}, in the order of the files."""
    models = yaml.safe_load((folder / "models.yaml").read_text())
    out, seen = {}, set()
    for path in sorted(folder.glob("*.yaml")):
        if path.name == "models.yaml":
            continue
        file = yaml.safe_load(path.read_text())
        if set(file) - set(FILE):
            raise Fault(f"{path.name}: unknown keys {', '.join(sorted(set(file) - set(FILE)))}")
        cases = out.setdefault(path.stem, {})
        for stated in file["cases"]:
            for entry in variants(merged(file.get("defaults", {}), stated)):
                for case in written_out(entry, models, file):
                    if case["name"] in seen:
                        raise Fault(f"{path.name}: {case['name']} is stated twice")
                    seen.add(case["name"])
                    cases[case["name"]] = case
    return out


def matching(patterns, folder=FOLDER / "cases"):
    """The files and cases whose name, or whose file's, fits one of the patterns."""
    out = {}
    for stem, cases in read(folder).items():
        chosen = {n: c for n, c in cases.items() if not patterns or any(fnmatch.fnmatch(n, p) or p == stem for p in patterns)}
        if chosen:
            out[stem] = chosen
    if not out:
        raise Fault(f"no case is called {' or '.join(patterns)}")
    return out
