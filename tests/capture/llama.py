"""Llama-3 under FSDP2 or DDP, as a user writes it: transformers' model, mixed precision, AdamW, clipping."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers.models.llama.modeling_llama import LlamaForCausalLM, LlamaRMSNorm

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=32)
parser.add_argument("--sequence", type=int, default=8192)
parser.add_argument("--recompute", action="store_true")
parser.add_argument("--ddp", action="store_true")
parser.add_argument("--hidden", type=int, default=4096)
arguments = parser.parse_args()

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
config = transformers.LlamaConfig(
    vocab_size=128256, hidden_size=arguments.hidden, intermediate_size=arguments.hidden * 7 // 2, num_hidden_layers=arguments.layers, num_attention_heads=arguments.hidden // 128,
    num_key_value_heads=8, max_position_embeddings=8192, rms_norm_eps=1e-5, use_cache=False, tie_word_embeddings=False,
    attn_implementation="sdpa")
with torch.device("meta"):
    model = LlamaForCausalLM(config)
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, LlamaRMSNorm):
                setattr(parent, name, nn.RMSNorm(arguments.hidden, eps=1e-5))
model.train()
if arguments.recompute:
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
if not arguments.ddp:
    mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("dp_shard",))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
model.to_empty(device="cuda")
for module in model.modules():
    for name, buffer in list(module.named_buffers(recurse=False)):
        setattr(module, name, torch.ones(buffer.shape, dtype=buffer.dtype, device="cuda"))
if arguments.ddp:
    model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
# Packed documents are told by positions; this loop has one document to a sequence.
transformers.masking_utils.find_packed_sequence_indices = lambda positions: None
tokens = torch.zeros(1, arguments.sequence, dtype=torch.long, device="cuda")
for step in range(100):
    with torch.autocast("cuda", torch.bfloat16, enabled=arguments.ddp):
        loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0 and rank == 0:
        print(step, loss.item())
