"""Operators as PyTorch runs them, each by itself: medians with least and greatest, the L2 cache flushed before each run."""
import json
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

BF16, FP32 = torch.bfloat16, torch.float32
STATE = {}


class Bench:
    def __init__(self, path, seconds):
        self.path, self.until = path, time.time() + seconds
        self.buffer = torch.empty(256 * 2**20, dtype=torch.uint8, device="cuda")
        self.rows = self.failed = self.left_out = 0

    def note(self, **row):
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        self.rows += 1

    def time(self, function, flush=True, most=15, budget=0.15, lead=800_000):
        """[median, least, greatest, runs] in microseconds. The host runs ahead: a kernel that waits stands before each run."""
        function()
        torch.cuda.synchronize()
        began = time.perf_counter()
        function()
        torch.cuda.synchronize()
        runs = max(5, min(most, int(budget / max(time.perf_counter() - began, 1e-5))))
        events = []
        for _ in range(runs):
            if flush:
                self.buffer.zero_()
            torch.cuda._sleep(lead)
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            function()
            b.record()
            events.append((a, b))
        torch.cuda.synchronize()
        taken = sorted(a.elapsed_time(b) * 1e3 for a, b in events)
        return [round(taken[len(taken) // 2], 2), round(taken[0], 2), round(taken[-1], 2), runs]

    def both(self, op, sizes, forward, inputs, gradient=None, **more):
        """Rows of the forward pass (with the graph's recording) and of the backward pass alone."""
        us = self.time(forward)
        self.note(op=op, direction="forward", sizes=sizes, us=us, **more)
        out = forward()
        gradient = torch.randn_like(out) if gradient is None else gradient
        us = self.time(lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True))
        self.note(op=op, direction="backward", sizes=sizes, us=us, **more)

    def part(self, name, function, *args):
        if time.time() > self.until:
            self.left_out += 1
            return
        try:
            function(self, *args)
        except Exception as error:
            self.failed += 1
            self.note(op=name, error=f"{type(error).__name__}: {str(error)[:200]}", sizes=[str(a)[:60] for a in args])
        torch.cuda.empty_cache()


def random(*sizes, dtype=BF16, grad=False, scale=1.0):
    return (torch.randn(*sizes, device="cuda", dtype=FP32 if dtype is FP32 else dtype) * scale).requires_grad_(grad)


def attention(b, backend, batch, heads, kv, length, width, causal=True):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q, k, v = (random(batch, length, n, width).transpose(1, 2).detach().requires_grad_() for n in (heads, kv, kv))
    with sdpa_kernel({"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}[backend]):
        b.both(f"attention {backend}", dict(batch=batch, heads=heads, kv_heads=kv, length=length, width=width, causal=causal),
               lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=kv != heads), (q, k, v))


def gemm(b, tokens, k, n):
    x, w, y = random(tokens, k), random(n, k), random(tokens, n)
    for direction, f in (("forward", lambda: x @ w.t()), ("dgrad", lambda: y @ w), ("wgrad", lambda: y.t() @ x)):
        b.note(op="gemm", direction=direction, sizes=dict(tokens=tokens, k=k, n=n), us=b.time(f, budget=0.08))


def cross_entropy(b, tokens, vocab):
    logits, labels = random(tokens, vocab, grad=True), torch.randint(0, vocab, (tokens,), device="cuda")
    b.both("cross entropy of bf16 logits as fp32", dict(tokens=tokens, vocab=vocab), lambda: F.cross_entropy(logits.float(), labels), (logits,))
    wide = logits.detach().float().requires_grad_()
    b.both("cross entropy of fp32 logits", dict(tokens=tokens, vocab=vocab), lambda: F.cross_entropy(wide, labels), (wide,))


def hf_norm(x, w):
    y = x.to(FP32)
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
    return w * y.to(x.dtype)


def norms(b, tokens, width, dtype):
    x, w, bias = random(tokens, width, dtype=dtype, grad=True), random(width, dtype=dtype, grad=True), random(width, dtype=dtype, grad=True)
    sizes = dict(tokens=tokens, width=width, dtype=str(dtype)[6:])
    b.both("rms_norm", sizes, lambda: F.rms_norm(x, (width,), w, 1e-5), (x, w))
    b.both("rms norm of transformers", sizes, lambda: hf_norm(x, w), (x, w))
    b.both("layer_norm", sizes, lambda: F.layer_norm(x, (width,), w, bias), (x, w, bias))


def activations(b, tokens, width):
    g, u = random(tokens, width, grad=True), random(tokens, width, grad=True)
    b.both("silu(gate) * up", dict(tokens=tokens, width=width), lambda: F.silu(g) * u, (g, u))
    b.both("silu", dict(tokens=tokens, width=width), lambda: F.silu(g), (g,))
    b.both("gelu tanh", dict(tokens=tokens, width=width), lambda: F.gelu(g, approximate="tanh"), (g,))


def rotary(b, tokens, heads, width):
    q = random(1, tokens, heads, width).transpose(1, 2).detach().requires_grad_()
    cos, sin = random(1, 1, tokens, width), random(1, 1, tokens, width)

    def rotated():
        half = width // 2
        return q * cos + torch.cat((-q[..., half:], q[..., :half]), dim=-1) * sin
    b.both("rotary of transformers", dict(tokens=tokens, heads=heads, width=width), rotated, (q,))


def elementwise(b, count, dtype):
    x, y = random(count, dtype=dtype), random(count, dtype=dtype)
    out = torch.empty_like(x)
    sizes = dict(count=count, dtype=str(dtype)[6:])
    b.note(op="add", sizes=sizes, us=b.time(lambda: torch.add(x, y, out=out)))
    b.note(op="mul", sizes=sizes, us=b.time(lambda: torch.mul(x, y, out=out)))
    b.note(op="copy", sizes=sizes, us=b.time(lambda: out.copy_(x)))
    b.note(op="zero", sizes=sizes, us=b.time(lambda: out.zero_()))
    other = torch.empty(count, device="cuda", dtype=FP32 if dtype is BF16 else BF16)
    b.note(op="cast", sizes=sizes, us=b.time(lambda: other.copy_(x)))


def embedding(b, tokens, width, vocab, dtype):
    w, x = random(vocab, width, dtype=dtype, grad=True), torch.randint(0, vocab, (tokens,), device="cuda")
    b.both("embedding", dict(tokens=tokens, width=width, vocab=vocab, dtype=str(dtype)[6:]), lambda: F.embedding(x, w), (w,))


def layer_shapes(hidden, ffn, kv, layers):
    return [(hidden, hidden), (kv, hidden), (kv, hidden), (hidden, hidden), (ffn, hidden), (ffn, hidden), (hidden, ffn), (hidden,), (hidden,)] * layers


def optimizer(b, kind, dtype, shapes, called):
    parameters = [nn.Parameter(random(*s, dtype=dtype, scale=0.02)) for s in shapes]
    for p in parameters:
        p.grad = torch.randn_like(p)
    made = torch.optim.AdamW(parameters, lr=1e-4, **{"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}[kind])
    sizes = dict(parameters=sum(p.numel() for p in parameters), tensors=len(parameters), dtype=str(dtype)[6:], of=called)
    b.note(op=f"AdamW {kind}", sizes=sizes, us=b.time(made.step, most=10, lead=8_000_000))
    if kind == "fused":
        b.note(op="clip_grad_norm_", sizes=sizes, us=b.time(lambda: nn.utils.clip_grad_norm_(parameters, 1.0), most=10, lead=8_000_000))


def grouped(b, experts, rows, k, n):
    a, w = random(rows, k, grad=True), random(experts, n, k, grad=True)
    ends = torch.arange(1, experts + 1, device="cuda", dtype=torch.int32) * (rows // experts)
    sizes = dict(experts=experts, rows=rows, k=k, n=n)
    b.both("grouped_mm", sizes, lambda: torch._grouped_mm(a, w.transpose(-2, -1), offs=ends), (a, w))
    whole, one = random(rows, k), random(n, k)
    b.note(op="gemm of the same rows", direction="forward", sizes=sizes, us=b.time(lambda: whole @ one.t()))


def beside(b, other):
    """A GEMM on one stream, copies or memory-bound kernels on another: each alone, then each while the other runs throughout."""
    x, w, out = random(8192, 8192), random(8192, 8192), torch.empty(8192, 8192, device="cuda", dtype=BF16)
    host = torch.empty(256 * 2**20, dtype=torch.uint8, pin_memory=True)
    device = torch.empty_like(host, device="cuda")
    y, z = random(2**28), random(2**28)
    works = {"h2d": lambda: device.copy_(host, non_blocking=True), "d2h": lambda: host.copy_(device, non_blocking=True),
             "add": lambda: torch.add(y, z, out=y), "d2d": lambda: y.copy_(z)}
    product, second = (lambda: torch.mm(x, w, out=out)), works[other]
    streams = torch.cuda.Stream(), torch.cuda.Stream()

    def run(counts):
        """Milliseconds of one run of each, where both began together."""
        marks = []
        torch.cuda.synchronize()
        torch.cuda._sleep(20_000_000)
        gate = torch.cuda.Event()
        gate.record()
        for stream, work, count in zip(streams, (product, second), counts):
            stream.wait_event(gate)
            with torch.cuda.stream(stream):
                a, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                a.record()
                for _ in range(count):
                    work()
                e.record()
            marks.append((a, e))
        torch.cuda.synchronize()
        return [a.elapsed_time(e) / count if count else 0.0 for (a, e), count in zip(marks, counts)]

    run((3, 3))
    alone = [sorted(run((20, 0))[0] for _ in range(3))[1], sorted(run((0, 20))[1] for _ in range(3))[1]]
    whole = 40.0  # milliseconds of what is measured
    counts = [max(2, int(whole / max(t, 1e-3))) for t in alone]
    first = sorted(run((counts[0], counts[1] * 3))[0] for _ in range(3))
    then = sorted(run((counts[0] * 3, counts[1]))[1] for _ in range(3))
    b.note(op=f"gemm beside {other}", sizes=dict(gemm=8192, bytes={"h2d": 2**28, "d2h": 2**28, "add": 3 * 2**29, "d2d": 2 * 2**29}[other]),
           alone_ms=[round(t, 4) for t in alone], together_ms=[round(first[1], 4), round(then[1], 4)],
           spread_ms=[round(first[2] - first[0], 4), round(then[2] - then[0], 4)])


def copies(b, megabytes):
    n = int(megabytes * 2**20)
    pinned, pageable = torch.empty(n, dtype=torch.uint8, pin_memory=True), torch.zeros(n, dtype=torch.uint8)
    device = torch.zeros(n, dtype=torch.uint8, device="cuda")
    for name, f in (("h2d pinned", lambda: device.copy_(pinned, non_blocking=True)), ("d2h pinned", lambda: pinned.copy_(device, non_blocking=True))):
        b.note(op=f"copy {name}", sizes=dict(bytes=n), us=b.time(f, flush=False, most=7))
    for name, f in (("h2d pageable", lambda: device.copy_(pageable)), ("d2h pageable", lambda: pageable.copy_(device))):
        taken = []
        for _ in range(4):
            torch.cuda.synchronize()
            began = time.perf_counter()
            f()
            torch.cuda.synchronize()
            taken.append((time.perf_counter() - began) * 1e6)
        b.note(op=f"copy {name}", sizes=dict(bytes=n), us=[round(sorted(taken[1:])[1], 1), round(min(taken), 1), round(max(taken), 1), 3])


def launches(b):
    x = torch.zeros(32, device="cuda")
    count = 4000

    def host_rate(call):
        taken = []
        for _ in range(5):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(count):
                call()
            issued = time.perf_counter() - began
            torch.cuda.synchronize()
            taken.append((round(issued / count * 1e6, 3), round((time.perf_counter() - began) / count * 1e6, 3)))
        return sorted(taken)[2]
    one = torch.ones(32, device="cuda")
    w, v = random(32, 32), random(32, 32)
    big = torch.zeros(32, device="cuda", requires_grad=True)
    with torch.no_grad():
        b.note(op="launch eager add_(scalar)", us_issue_and_whole=host_rate(lambda: x.add_(1.0)))
        b.note(op="launch eager add_(tensor)", us_issue_and_whole=host_rate(lambda: x.add_(one)))
        b.note(op="launch eager mm out=", us_issue_and_whole=host_rate(lambda: torch.mm(w, v)))
        b.note(op="host empty()", us_issue_and_whole=host_rate(lambda: torch.empty(32, device="cuda")))
        b.note(op="host view()", us_issue_and_whole=host_rate(lambda: x.view(4, 8)))
    b.note(op="launch eager mul with a graph recorded", us_issue_and_whole=host_rate(lambda: big * one))
    torch.cuda._sleep(30_000_000)  # what is queued meanwhile runs back to back
    a, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    for _ in range(900):
        x.add_(1.0)
    e.record()
    torch.cuda.synchronize()
    b.note(op="kernels queued back to back", sizes=dict(kernels=900), us_per_kernel=round(a.elapsed_time(e) / 900 * 1e3, 4))


def graphs(b):
    xs = [torch.zeros(32, device="cuda") for _ in range(8)]
    kernels, graph = 1000, torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(kernels):
            xs[i % 8].add_(1.0)
    us = b.time(graph.replay, flush=False)
    b.note(op="kernels of a CUDA graph, one stream", sizes=dict(kernels=kernels), us_per_kernel=round(us[0] / kernels, 4), us=us)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(20):
        graph.replay()
    issued = (time.perf_counter() - began) / 20
    torch.cuda.synchronize()
    whole = (time.perf_counter() - began) / 20
    b.note(op="host time of a graph's replay", sizes=dict(kernels=kernels), us_issue=round(issued * 1e6, 2), us_whole=round(whole * 1e6, 2))


def nccl(b):
    import datetime
    import torch.distributed as dist
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    before = torch.cuda.mem_get_info()[0]
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, timeout=datetime.timedelta(seconds=30))
    x = torch.zeros(2**20 // 4, device="cuda")
    y = torch.zeros_like(x)
    began = time.perf_counter()
    dist.all_reduce(x)
    torch.cuda.synchronize()
    b.note(op="nccl first call of a group of one", seconds=round(time.perf_counter() - began, 3), device_bytes=before - torch.cuda.mem_get_info()[0])
    for name, call in (("all_reduce", lambda: dist.all_reduce(x)), ("all_gather_into_tensor", lambda: dist.all_gather_into_tensor(y, x)),
                       ("reduce_scatter_tensor", lambda: dist.reduce_scatter_tensor(y, x))):
        us = b.time(call)
        issue = []
        for _ in range(5):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(100):
                call()
            issue.append(round((time.perf_counter() - began) * 1e4, 2))
            torch.cuda.synchronize()
        b.note(op=f"nccl {name} of one rank", sizes=dict(bytes=2**20), us=us, us_issue=sorted(issue))
    dist.destroy_process_group()


def plan():
    for tokens in (4096, 8192):
        for k, n in ((4096, 4096), (4096, 14336), (14336, 4096), (4096, 128256), (8192, 28672), (8192, 8192)):
            if n * tokens < 2**30:
                yield gemm, (tokens, k, n)
    for backend in ("flash", "cudnn"):
        for shape in ((1, 32, 8, 4096, 128), (1, 32, 8, 8192, 128), (1, 32, 8, 16384, 128), (4, 32, 8, 4096, 128), (16, 32, 8, 1024, 128), (8, 32, 8, 2048, 128),
                      (2, 64, 8, 4096, 128), (1, 32, 32, 4096, 128), (1, 32, 32, 8192, 128), (4, 16, 16, 2048, 128), (1, 16, 16, 4096, 64), (1, 32, 8, 2048, 128)):
            yield attention, (backend, *shape)
        yield attention, (backend, 1, 32, 32, 4096, 128, False)
    for tokens, vocab in ((4096, 128256), (8192, 128256), (8192, 32000), (2048, 32000)):
        yield cross_entropy, (tokens, vocab)
    for tokens, width in ((4096, 4096), (8192, 4096), (4096, 8192), (8192, 2048)):
        yield norms, (tokens, width, BF16)
    yield norms, (4096, 4096, FP32)
    for tokens, width in ((4096, 14336), (8192, 14336), (4096, 28672), (8192, 5632)):
        yield activations, (tokens, width)
    yield rotary, (4096, 32, 128)
    yield rotary, (8192, 8, 128)
    for count in (2**20, 2**24, 2**25, 2**28):
        yield elementwise, (count, BF16)
        yield elementwise, (count, FP32)
    for dtype in (BF16, FP32):
        yield embedding, (8192, 4096, 128256, dtype)
    yield embedding, (8192, 2048, 32000, FP32)
    for dtype in (FP32, BF16):
        for kind in ("fused", "foreach"):
            yield optimizer, (kind, dtype, layer_shapes(4096, 14336, 1024, 1), "a layer of Llama-3 8B")
            yield optimizer, (kind, dtype, layer_shapes(4096, 14336, 1024, 8), "8 layers of Llama-3 8B")
            yield optimizer, (kind, dtype, [(128256, 4096)], "an embedding")
    yield optimizer, ("fused", FP32, layer_shapes(2048, 5632, 2048, 4), "4 layers of width 2048")
    for shape in ((8, 16384, 4096, 14336), (8, 16384, 14336, 4096), (64, 32768, 2048, 1408), (64, 32768, 1408, 2048), (128, 65536, 2048, 768), (8, 8192, 4096, 14336)):
        yield grouped, shape
    for other in ("h2d", "d2h", "add", "d2d"):
        yield beside, (other,)
    for megabytes in (1, 16, 256):
        yield copies, (megabytes,)
    yield launches, ()
    yield graphs, ()
    yield nccl, ()


def run(path, seconds):
    torch.cuda.set_device(0)
    b = Bench(path, seconds)
    began = time.time()
    slow = []
    for function, arguments in plan():
        since = time.time()
        b.part(function.__name__, function, *arguments)
        slow.append((round(time.time() - since, 2), function.__name__, str(arguments)[:50]))
    return {"rows": b.rows, "failed": b.failed, "left_out": b.left_out, "seconds": round(time.time() - began, 1), "slowest": sorted(slow)[-5:]}
