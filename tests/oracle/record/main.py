"""Records cases in one environment: main.py CASES.json FOLDER, which gets a JSON and a log of each case.

Frameworks keep global state, so each case runs in a process of its own, forked after the imports that all share.
"""
import importlib
import json
import os
import pathlib
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


def in_child(stated, recorder, out):
    """True where the case ran."""
    (out / f"{stated['name']}.json").unlink(missing_ok=True)
    log = os.open(out / f"{stated['name']}.log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
    child = os.fork()
    if child == 0:
        os.dup2(log, 1)
        os.dup2(log, 2)
        status = 1
        try:
            record(stated, recorder, out)
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # without destructors: there is nothing to give back
    os.close(log)
    return os.waitpid(child, 0)[1] == 0


def main():
    cases, out = json.loads(pathlib.Path(sys.argv[1]).read_text()), pathlib.Path(sys.argv[2])
    for name, value in cases[0]["variables"].items():
        os.environ[name] = str(value)
    import torch
    # Frameworks ask these while they are imported. Answered by the device, they would forbid CUDA to the forked cases.
    torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 8
    torch.cuda.get_device_capability = lambda device=None: (9, 0)
    recorder = importlib.import_module(cases[0]["recorder"])
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
