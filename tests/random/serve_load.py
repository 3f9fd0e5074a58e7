#!/usr/bin/env python3
"""Holds `simulate serve` to its promise: it answers many mixed requests at once, stays up, and takes no more than a tenth more memory than at its start.

    serve_load.py SIMULATE                                       2,000 requests, 500 of them malformed, 200 at once
    serve_load.py SIMULATE --requests 200 --at-once 50 --no-memory    under sanitizers, which keep what was freed

Well-formed requests are jobs of random keys (200 or 422), bounds, headlines, advice and the page itself. Malformed ones are
broken JSON, foreign hosts and origins, bodies that are too large, bytes that are no HTTP, and clients that leave at once.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import socket
import subprocess
import sys
import time

SECONDS = 600  # a request that takes longer hangs
VARIED = ["workload.global_batch=64", "workload.global_batch=128", "workload.micro_batch=2", "cluster.nodes=2", "cluster.nodes=4",
          "memory.recompute=full", "memory.recompute=none", "workload.sequence_length=2048", "workload.sequence_length=4096",
          "parallelism.tensor=2", "parallelism.sharding=zero1", "model=llama-2-7b", "seed=3", "cluster.device=a100-sxm-80"]


def ask(port, data, leave=False):
    """The status of what a server answers to these bytes; 0 where it closes without an answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as line:
        try:
            line.sendall(data)
            if leave:
                return 0
            answer = b""
            while chunk := line.recv(1 << 16):
                answer += chunk
        except (ConnectionResetError, BrokenPipeError):
            return 0
    found = re.match(rb"HTTP/1.1 (\d+) ", answer)
    return int(found.group(1)) if found else 0


def post(port, path, body, host=None, headers=""):
    host = host or f"127.0.0.1:{port}"
    return (f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{headers}"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def good(rng, port):
    if rng.random() < 0.05:
        return f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode(), {200}
    sets = rng.sample(VARIED, rng.choice([0, 1, 2, 3]))
    asked = {"set": sets}
    if rng.random() < 0.7:
        asked["fidelity"] = rng.choice(["bound", "headline"])
    path = "/advice" if rng.random() < 0.02 else "/forecast"
    if path == "/advice":
        asked.pop("fidelity", None)
    return post(port, path, json.dumps(asked).encode()), {200, 400, 422}


def bad(rng, port):
    """Bytes, what may come of them (0: closed), and whether the client leaves without reading."""
    noise = bytes(rng.randrange(256) for _ in range(200))
    return rng.choice([
        (post(port, "/forecast", noise), {400}, False),
        (post(port, "/forecast", b'{"set": ['), {400}, False),
        (post(port, "/forecast", b'{"set": ["model=/etc/passwd"]}'), {400}, False),
        (post(port, "/forecast", b'{"set": ["parallelism.reshard_after_forward=100000"]}'), {422}, False),
        (post(port, "/forecast", b"{}", host="evil.example"), {403}, False),
        (post(port, "/forecast", b"{}", headers="Origin: http://evil.example\r\n"), {403}, False),
        (post(port, "/forecast", b" " * 70_000), {413, 0}, False),
        (post(port, "/" + "x" * 9_000, b"{}"), {414, 400, 0}, False),
        (post(port, "/forecast", b'{"set": ["workload.sequence_length=1e8"]}'), {422}, False),
        (post(port, "/forecast", b'{"set": ["workload.global_batch=1e8"]}'), {422}, False),
        (post(port, "/forecast", b"{}", headers="X: " + "y" * 9_000 + "\r\n"), {400, 0}, False),
        (noise + b"\r\n\r\n", {400, 0}, False),
        (b"", {0}, True),
        (post(port, "/forecast", b'{"set": ["seed=%d"]}' % rng.randrange(1000)), {0}, True),
        (post(port, "/forecast", b"{}")[:-1], {0}, True),
    ])


def resident(process):
    """Bytes that a process holds in memory now."""
    with open(f"/proc/{process}/statm") as text:
        return int(text.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("simulate")
    parser.add_argument("--requests", type=int, default=2000, help="a quarter of them malformed")
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-memory", action="store_true", help="do not compare the memory after with that before")
    given = parser.parse_args()
    server = subprocess.Popen([given.simulate, "serve", "--config", "llama8b-fsdp", "--port", "0"], stdout=subprocess.PIPE, text=True)
    wrong = []
    try:
        port = int(re.search(r":(\d+)/", server.stdout.readline()).group(1))

        def round_of(name, requests):
            """Asks all, in random order, and counts what came."""
            rng = random.Random(f"{given.seed}/{name}")
            asked = [bad(rng, port) for _ in range(requests // 4)]
            asked += [(*good(rng, port), False) for _ in range(requests - len(asked))]
            rng.shuffle(asked)
            counts = collections.Counter()
            with concurrent.futures.ThreadPoolExecutor(given.at_once) as pool:
                for (data, expected, _), status in zip(asked, pool.map(lambda one: ask(port, one[0], one[2]), asked)):
                    counts[status] += 1
                    if status not in expected:
                        wrong.append(f"{status} where {sorted(expected)} was expected: {data[:200]!r}")
            print(f"{name}: {requests} requests, {given.at_once} at once:",
                  ", ".join(f"{n} x {k or 'closed'}" for k, n in sorted(counts.items())), flush=True)

        def settled(limit):
            """Memory once the server has given back what connections that have ended took."""
            for _ in range(100):
                if resident(server.pid) <= limit:
                    break
                time.sleep(0.1)
            return resident(server.pid)

        start = resident(server.pid)
        for name in ("first", "second"):
            round_of(name, given.requests)
            after = settled(1.1 * start)
            print(f"memory: {start / 2**20:.1f} MiB at the start, {after / 2**20:.1f} MiB after")
            if after > 1.1 * start and not given.no_memory:
                wrong.append(f"the server grew from {start} to {after} bytes")
        if server.poll() is not None or ask(port, post(port, "/forecast", b"{}")) != 200:
            wrong.append(f"the server is down: {server.poll()}")
    finally:
        server.terminate()
        server.wait()
    if server.returncode not in (0, 130, 143, -15):
        wrong.append(f"the server ended with {server.returncode}")
    for line in wrong[:20]:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
