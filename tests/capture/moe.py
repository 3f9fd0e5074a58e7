"""A mixture-of-experts model under expert parallelism, as a user writes it: top-k router, all-to-all of uneven parts, grouped products by expert."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as collectives
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--hidden", type=int, default=2048)
parser.add_argument("--ffn", type=int, default=1408)
parser.add_argument("--experts", type=int, default=64)
parser.add_argument("--topk", type=int, default=6)
parser.add_argument("--sequence", type=int, default=4096)
arguments = parser.parse_args()

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
ranks = dist.get_world_size()
expert_group = dist.new_group(list(range(ranks)), group_desc="expert_parallel")


def exchanged(rows, sent, received):
    out = rows.new_empty(sum(received), *rows.shape[1:])
    return collectives.all_to_all_single(out, rows, received, sent, group=expert_group)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(arguments.hidden, arguments.experts, bias=False)
        mine = arguments.experts // ranks
        self.up = nn.ModuleList(nn.Linear(arguments.hidden, 2 * arguments.ffn, bias=False) for _ in range(mine))
        self.down = nn.ModuleList(nn.Linear(arguments.ffn, arguments.hidden, bias=False) for _ in range(mine))

    def forward(self, x):
        scores, chosen = torch.topk(self.router(x).softmax(-1), arguments.topk, dim=-1)
        counts = torch.bincount(chosen.flatten(), minlength=arguments.experts)
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts, group=expert_group)
        sent = counts.view(ranks, -1).sum(1).tolist()
        received = theirs.view(ranks, -1)
        order = chosen.flatten().argsort(stable=True)
        rows = exchanged(x[order // arguments.topk], sent, received.sum(1).tolist())
        of = torch.arange(received.shape[1], device="cuda").repeat(ranks).repeat_interleave(received.flatten())
        by_expert = of.argsort(stable=True)
        parts = rows[by_expert].split(received.sum(0).tolist())
        made = []
        for part, up, down in zip(parts, self.up, self.down):
            gate, value = up(part).chunk(2, dim=-1)
            made.append(down(F.silu(gate) * value))
        back = torch.zeros_like(rows).index_copy(0, by_expert, torch.cat(made))
        back = exchanged(back, received.sum(1).tolist(), sent)
        weighted = back * scores.flatten()[order].unsqueeze(1)
        return torch.zeros_like(x).index_add(0, order // arguments.topk, weighted)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(arguments.hidden) for _ in range(arguments.layers))
        self.layers = nn.ModuleList(Experts() for _ in range(arguments.layers))

    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x


model = Model().to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.zeros(arguments.sequence, arguments.hidden, device="cuda", dtype=torch.bfloat16)
for step in range(100):
    model(x).float().pow(2).mean().backward()
    for layer in model.layers:
        dist.all_reduce(layer.router.weight.grad)
    optimizer.step()
    optimizer.zero_grad()
