"""Records cases in one environment: main.py CASES.json FOLDER [NAME]. FOLDER gets a JSON and a log of each case.

Frameworks keep global state, so each case runs in a process of its own, forked after the imports that all share.
"""
import importlib
import json
import os
import pathlib
import subprocess
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


def record(stated, recorder, out):
    from case import Case
    case = Case(stated)
    result = recorder.record(case)
    case.check_options()
    (out / f"{case.name}.json").write_text(json.dumps(result))


def run(stated, recorder, out):
    """Exit status of a case."""
    try:
        record(stated, recorder, out)
        status = 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def in_child(stated, recorder, out):
    """True where the case ran, in a process that is forked, or begun anew where imports have already initialised the device."""
    import torch
    (out / f"{stated['name']}.json").unlink(missing_ok=True)
    with (out / f"{stated['name']}.log").open("w") as log:
        if torch.cuda.is_initialized():
            return subprocess.run([sys.executable, *sys.argv, stated["name"]], stdout=log, stderr=log, check=False).returncode == 0
        child = os.fork()
        if child == 0:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            os._exit(run(stated, recorder, out))  # without destructors: there is nothing to give back
    return os.waitpid(child, 0)[1] == 0


def main():
    cases, out = json.loads(pathlib.Path(sys.argv[1]).read_text()), pathlib.Path(sys.argv[2])
    for name, value in cases[0]["variables"].items():
        os.environ[name] = str(value)
    import torch
    # Frameworks ask these while they are imported. Answered by the device, they would forbid CUDA to the forked cases.
    torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 8
    recorder = importlib.import_module(cases[0]["recorder"])
    if len(sys.argv) > 3:
        os._exit(run(next(c for c in cases if c["name"] == sys.argv[3]), recorder, out))
    failed = 0
    for stated in cases:
        began = time.time()
        ran = in_child(stated, recorder, out)
        failed += not ran
        why = "" if ran else ": " + ((out / f"{stated['name']}.log").read_text().strip().splitlines() or ["no word"])[-1][:200]
        print(f"{stated['name']}: {'recorded' if ran else 'failed'} in {time.time() - began:.1f} s{why}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
