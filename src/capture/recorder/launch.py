"""Runs a training command on the null GPU, one process for each rank to be recorded, and puts their records into one program file.

usage: python launch.py --out FILE [--world-size N] [--record 0,8] [--steps N] [--routing even] -- torchrun ... train.py ... | python train.py ...
"""
import argparse
import gzip
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import null_gpu  # noqa: E402

# Options of torchrun that stand alone; all others take a value.
FLAGS = ("--standalone", "--no-python", "--no_python", "--run-path", "--run_path", "--virtual-local-rank", "--virtual_local_rank")


class Command:
    """What a command line of torchrun or python would run, and in how many processes."""

    def __init__(self, words):
        self.local = self.nodes = 1
        self.module = False
        first = pathlib.Path(words[0]).name
        self.launcher = first == "torchrun" or words[1:3] in (["-m", "torch.distributed.run"], ["-m", "torch.distributed.launch"])
        rest = words[1:] if first == "torchrun" else words[3:] if self.launcher else words[1:]
        if not self.launcher and not first.startswith("python"):
            sys.exit(f"capture: '{words[0]}' is neither torchrun nor python; expected one of them before the script")
        while rest and rest[0].startswith("-"):
            rest = self.option(rest)
        if not rest:
            sys.exit("capture: the command names no script")
        self.script = rest

    def option(self, rest):
        name, _, value = rest[0].partition("=")
        if name in ("-m", "--module"):
            self.module = True
            return rest[1:]
        if not self.launcher or name in FLAGS:
            return rest[1:]
        used = 1 if "=" in rest[0] else 2
        value = value or (rest[1] if len(rest) > 1 else "")
        key = name.lstrip("-").replace("_", "-")
        if key in ("nproc-per-node", "nnodes"):
            number = value.split(":")[-1]
            if not number.isdigit():
                sys.exit(f"capture: {name} is '{value}'; expected a number, since there is no GPU to count")
            setattr(self, "local" if key == "nproc-per-node" else "nodes", int(number))
        return rest[used:]


def library():
    """The null GPU for this Python's torch, built once for each version of either."""
    import importlib.metadata
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        sys.exit(f"capture: {sys.executable} has no torch; expected the torch for CUDA that the command runs with")
    stamp = hashlib.sha256((version + sys.prefix).encode())
    for path in sorted(null_gpu.FOLDER.iterdir()):
        stamp.update(path.read_bytes())
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = home / "stepcast" / f"null-gpu-{stamp.hexdigest()[:16]}"
    if not (folder / "libnvidia-ml.so.1").exists():
        null_gpu.build(sys.executable, folder)
    return folder


def run(command, arguments, world, rank, out, folder):
    local = min(command.local if command.launcher else 8, world)
    settings = {"out": str(out), "rank": rank, "world": world, "steps": arguments.steps, "module": command.module,
                "routing": arguments.routing}
    environment = {
        **os.environ, "LD_PRELOAD": null_gpu.preloaded(folder), "NULLGPU_GIB": "1000", "STEPCAST_CAPTURE": json.dumps(settings),
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")])),
        "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank % local), "LOCAL_WORLD_SIZE": str(local),
        "GROUP_RANK": str(rank // local), "ROLE_RANK": str(rank), "ROLE_WORLD_SIZE": str(world), "MASTER_ADDR": "localhost",
        "MASTER_PORT": "29500", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"), "TORCHDYNAMO_DISABLE": "1",
        "TORCH_NCCL_ENABLE_MONITORING": "0", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0", "CUDA_MODULE_LOADING": "LAZY"}
    if not command.launcher and world == 1:  # a script that was started by hand is told nothing
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK", "ROLE_WORLD_SIZE"):
            environment.pop(name, None)
    ran = subprocess.run([sys.executable, str(HERE / "rank.py"), *command.script], env=environment, check=False)
    if not out.exists():
        hint = "; where tokens are routed to experts, try --routing even" if arguments.routing != "even" else ""
        sys.exit(f"capture: rank {rank} ended with status {ran.returncode} before {arguments.steps} optimizer steps were done{hint}")
    return json.loads(out.read_text())


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--world-size", type=int, default=0)
    parser.add_argument("--record", default="0")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--routing", choices=("zeros", "even"), default="zeros")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not words:
        sys.exit("capture: no command; expected it behind --")
    command = Command(words)
    world = arguments.world_size or command.local * command.nodes
    ranks = sorted({int(r) for r in arguments.record.split(",")})
    if ranks[0] != 0 or ranks[-1] >= world:
        sys.exit(f"capture: --record {arguments.record}: expected rank 0 and others below {world}")
    folder = library()
    records = []
    with tempfile.TemporaryDirectory(prefix="stepcast-capture-") as scratch:
        for rank in ranks:
            records.append(run(command, arguments, world, rank, pathlib.Path(scratch) / f"{rank}.json", folder))
    write(pathlib.Path(arguments.out), records, world, words)


def write(out, records, world, words):
    """One line for the file, then one for each rank."""
    header = {"format": "stepcast-program", "version": 1, "world_size": world, "command": " ".join(words), **records[0].pop("made")}
    for record in records[1:]:
        record.pop("made")
    lines = [json.dumps(line, separators=(",", ":")) for line in [header, *records]]
    text = ("\n".join(lines) + "\n").encode()
    part = out.with_name(out.name + ".part")
    part.write_bytes(gzip.compress(text, 9, mtime=0) if out.suffix == ".gz" else text)
    part.replace(out)
    for remark in dict.fromkeys(remark for record in records for remark in record["remarks"]):
        print(f"{out}: warning: {remark}", file=sys.stderr)
    print(f"{out}: {len(records)} of {world} ranks, {sum(len(r['tasks']) for r in records)} tasks, {out.stat().st_size} bytes",
          file=sys.stderr)


main()
