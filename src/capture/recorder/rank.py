"""Runs a training script as one rank on the null GPU, and records a step once the optimizer has stepped a few times."""
import gc
import json
import os
import pathlib
import platform
import runpy
import sys
import time
import types

SETTINGS = json.loads(os.environ["STEPCAST_CAPTURE"])
# A package of a name of its own: a script may have an `operators` or a `distributed` beside it.
sys.modules["stepcast_recorder"] = package = types.ModuleType("stepcast_recorder")
package.__path__ = [str(pathlib.Path(__file__).resolve().parent)]
sys.path = [path for path in sys.path if path not in package.__path__]  # Python puts a script's folder there

import torch  # noqa: E402
import torch.optim.optimizer as optimizers  # noqa: E402

from stepcast_recorder import attention, calls, distributed, triton_kernels  # noqa: E402
from stepcast_recorder.operators import OPTIMIZER, Operators  # noqa: E402
from stepcast_recorder.routing import EvenRouting, RoutedRows  # noqa: E402

TIMED = 2  # steps without a recorder, whose host times count
# A process group's watchdog gives up the tensors of finished collectives that nobody waited for (torch 2.15, include/torch/csrc/distributed/
# c10d/ProcessGroupNCCL.hpp:1453, shelvesToUnstash_; nccl2/WorkNCCL.hpp:197, completedInputTensors_). A training step lasts as long as its
# rounds of 100 ms; a step here is shorter, so it is waited for, and what a capture holds does not depend on this machine's speed.
WATCHDOG = 0.25  # seconds, of each step ahead of the timed ones


class Recorder:
    """Steps end where the first optimizer that stepped ends its own."""

    def __init__(self, chooser):
        self.log = calls.Log()
        self.operators = Operators(self.log.operator, chooser)
        self.routing = None
        if SETTINGS["routing"] == "even":
            self.routing, self.operators.routed = EvenRouting(), RoutedRows()
            self.routing.__enter__()
        self.step = 0
        self.primary = None
        self.facts = {}
        self.warm = max(1, SETTINGS["steps"] - TIMED - 1)
        optimizers.register_optimizer_step_pre_hook(self.before)
        optimizers.register_optimizer_step_post_hook(self.after)

    def before(self, optimizer, *_):
        self.operators.optimizing = True

    def after(self, optimizer, *_):
        self.operators.optimizing = False
        if self.primary is None:
            self.primary = id(optimizer)
        if id(optimizer) == self.primary:
            self.boundary(optimizer)

    def boundary(self, optimizer):
        self.step += 1
        if self.step == 1:
            self.facts["first_peak"] = torch.cuda.max_memory_allocated()
        if self.step <= self.warm:
            time.sleep(WATCHDOG)
        if self.step == self.warm:
            gc.collect()
            self.states(optimizer)
            torch.cuda.reset_peak_memory_stats()
            self.log.keep(True)
        if self.step == self.warm + TIMED:
            self.facts["peak"], self.facts["reserved"] = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        if self.step >= self.warm:
            self.log.mark(self.step)
        if self.step == self.warm + TIMED:
            self.operators.__enter__()
            self.operators.entered = True
        if self.step == self.warm + TIMED + 1:
            self.operators.__exit__(None, None, None)
            self.finish()

    def states(self, optimizer):
        def of(tensors):
            return sum(t.untyped_storage().nbytes() for t in {local(t).untyped_storage().data_ptr(): local(t) for t in tensors
                                                              if local(t).is_cuda}.values())

        def local(t):
            return getattr(t, "_local_tensor", t)

        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        kept = [v for s in optimizer.state.values() if isinstance(s, dict) for v in s.values() if isinstance(v, torch.Tensor)]
        self.facts |= {"parameters": of(parameters), "gradients": of([p.grad for p in parameters if p.grad is not None]),
                       "optimizer": of(kept), "trained": sum(p.numel() for p in parameters), "between": torch.cuda.memory_allocated()}

    def finish(self):
        steps, end = self.log.steps()
        ends = [step[0][0] for step in steps[1:]] + [end]
        gaps, same = calls.host_times(list(zip(steps[:TIMED], ends)), (steps[TIMED], ends[TIMED]))
        known = self.communicators(steps[TIMED])
        tasks, addresses = calls.tasks_of(steps[TIMED - 1], steps[TIMED], gaps, self.operators.calls, known)
        groups = {}
        for task in tasks:
            if task[0] in ("collective", "exchange"):
                task[4] = groups.setdefault(known(task[4]), len(groups))
        for group in self.outside(known):
            groups.setdefault(group, len(groups))
        remarks = [] if same else ["the recorded step made other calls than those that were timed: its own host times, scaled, stand"]
        if any(t[0] == "collective" and t[5] == "all_to_all" and t[6] == 0 for t in tasks):
            remarks.append("an all-to-all moved nothing: how tokens are routed depends on values, which are zero here; --routing even "
                           "spreads them over the experts")
        if self.routing is not None and not self.operators.routed.groups:
            remarks.append("--routing even: no all-to-all sent tokens to experts of other ranks")
        if self.routing is not None and self.routing.missed:
            remarks.append(f"--routing even: not computed: {', '.join(sorted(self.routing.missed))}")
        if "expandable_segments:True" not in os.environ.get("PYTORCH_ALLOC_CONF", os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")):
            remarks.append("PyTorch's default allocator reserved the memory, whose free blocks are broken up; where training sets "
                           "PYTORCH_ALLOC_CONF=expandable_segments:True, capture with it as well")
        if os.environ.get("TORCHDYNAMO_DISABLE") == "1" and COMPILED:
            remarks.append("torch.compile was asked for and left out: the program is the eager one")
        if FLEXIBLE:
            remarks.append("flex_attention stands as causal attention of a fused kernel: its mask is code, and its score function is left out")
        table = {}
        for task in tasks:
            if task[0] == "kernel" and task[4] >= 0:
                task[4] = table.setdefault(task[4], len(table))
        record = {"rank": SETTINGS["rank"], "streams": self.names(tasks, addresses, list(groups)), "memory": self.facts,
                  "groups": [self.group(ranks, name) for ranks, name in groups],
                  "operators": [self.operators.table[number] for number in table], "remarks": remarks, "tasks": tasks, "made": made()}
        out = pathlib.Path(SETTINGS["out"])
        out.write_text(json.dumps(record))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # nothing here needs to be given back

    def outside(self, known):
        """Groups whose communicators ran something ahead of the recorded step, which does not use them: a barrier's, a broadcast's of seeds.
        They hold their buffers all the same; one that never ran anything holds none. Which group such a communicator is of, its size alone
        says; that of all ranks comes first."""
        size_of, used = self.log.library.nullgpu_comm_size, self.log.library.nullgpu_comm_used
        idle = [size_of(comm) for comm in range(self.log.library.nullgpu_comm_count()) if comm not in known.seen and used(comm) and size_of(comm) > 1]
        rest = sorted((g for g in distributed.all_groups() if g not in known.seen.values()), key=lambda g: -len(g[0]))
        out = []
        for size in idle:
            fits = [g for g in rest if len(g[0]) == size]
            if fits:
                out.append(fits[0])
                rest.remove(fits[0])
        return out

    def group(self, ranks, name):
        said = {"name": name, "ranks": list(ranks)}
        rows = self.operators.routed.groups.get((ranks, name)) if self.routing is not None else None
        if rows and self.routing.experts % len(ranks) == 0:
            said["routed"] = [self.routing.experts, rows]
        return said

    def communicators(self, step):
        """Group of a communicator: by the operators that were seen to use it."""
        seen = {}
        for _, kind, operator, _, what, _ in step:
            if kind == calls.COLLECTIVE and operator in self.operators.groups:
                seen[what & 0xffff] = self.operators.groups[operator]
        others = [group for group in distributed.all_groups() if group not in seen.values()]

        def of(comm):
            if comm not in seen:  # messages between two ranks pass no operator: by its size, of groups that no operator used
                size = self.log.library.nullgpu_comm_size(comm)
                fits = [group for group in others if len(group[0]) == size]
                seen[comm] = next((g for g in fits if "pp" in g[1].lower() or "pipeline" in g[1].lower()),
                                  fits[0] if fits else (tuple(range(SETTINGS["world"])), "world"))
            return seen[comm]
        of.seen = seen
        return of

    @staticmethod
    def names(tasks, addresses, groups):
        out = ["compute"] + [f"stream {number}" for number in range(1, len(addresses))]
        for task in tasks:
            if task[0] == "collective" and task[1] > 0 and out[task[1]].startswith("stream"):
                out[task[1]] = f"{groups[task[4]][1]} {task[1]}"
        return out


COMPILED = []
FLEXIBLE = []


def flash_for_flexible():
    """flex_attention is a kernel only once it is compiled; eager it makes all scores. A fused causal kernel that saves as much stands there."""
    from torch.nn.attention import flex_attention as flexible

    def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False, **named):
        if return_lse or named.get("return_aux") is not None:
            return eager(query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, **named)
        FLEXIBLE.append(1)
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale, enable_gqa=enable_gqa)

    eager, flexible.flex_attention = flexible.flex_attention, flex_attention


def made():
    """Of the file: with what, and on which machine, whose host times these are."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    return {"torch": torch.__version__, "python": platform.python_version(), "host": cpu}


def noted_compile(compile_of):
    def compile(*args, **kwargs):
        COMPILED.append(1)
        return compile_of(*args, **kwargs)
    return compile


def main():
    torch.compile = noted_compile(torch.compile)
    chooser = attention.Chooser()
    torch.nn.init._no_grad_trunc_normal_ = lambda tensor, *_, **__: tensor  # it would draw again until values that are zero suit it
    flash_for_flexible()
    distributed.alone(SETTINGS["rank"], SETTINGS["world"])
    recorder = Recorder(chooser)  # lives in the hooks
    triton_kernels.take_over(recorder.operators)
    sys.argv = sys.argv[1:]
    if SETTINGS["module"]:
        sys.path[0:1] = [os.getcwd()]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(pathlib.Path(sys.argv[0]).resolve().parent))
        runpy.run_path(sys.argv[0], run_name="__main__")
    print(f"capture: the script ended after {recorder.step} optimizer steps", file=sys.stderr)
    os._exit(3)


main()
