"""Bytes that the fused kernels of a compiled layer read and write, as torch's Inductor counts them: what compiled.cpp holds the graphs to.

usage: ENV/bin/python tests/unit/model/inductor_bytes.py [autocast]
    ENV    the environment torch-2.15 of scripts/oracle, with the null GPU's variables (tests/oracle/tool/environments.py); an empty
           TORCHINDUCTOR_CACHE_DIR, since a cached graph is not counted again
    autocast    over fp32 parameters, at 4,096 tokens; else in bf16, at 8,192
"""
import sys

import torch
import torch.nn as nn

torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 8
import transformers
from torch._inductor.graph import GraphLowering
from transformers.models.llama import modeling_llama

HIDDEN = 4096
torch.backends.cuda.enable_cudnn_sdp(False)  # flash attention, as tests/oracle has it
counted = []


def codegen(self, write=GraphLowering.codegen):
    out = write(self)
    per_node = self.count_bytes()[1]  # a quarter of the bytes each
    counted.append(sum(4 * quarter for node, quarter in per_node if not type(node).__name__.startswith("Extern")))
    return out


def main(autocast):
    GraphLowering.codegen = codegen
    tokens, dtype = (4096, torch.float32) if autocast else (8192, torch.bfloat16)
    sizes = transformers.LlamaConfig(hidden_size=HIDDEN, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8,
                                     max_position_embeddings=tokens, attn_implementation="sdpa")
    layer = modeling_llama.LlamaDecoderLayer(sizes, 0).to("cuda", dtype)
    for name in ("input_layernorm", "post_attention_layernorm"):
        setattr(layer, name, nn.RMSNorm(HIDDEN, eps=1e-5, device="cuda", dtype=dtype))
    layer.compile(fullgraph=True)
    x = torch.zeros(1, tokens, HIDDEN, device="cuda", dtype=dtype, requires_grad=True)
    tables = modeling_llama.LlamaRotaryEmbedding(sizes).to("cuda")(x, torch.arange(tokens, device="cuda")[None])
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        out = layer(x, position_embeddings=tables)
    out.backward(torch.zeros_like(out))
    print("MiB forward and backward:", *(round(n / 2**20, 1) for n in counted))


main("autocast" in sys.argv)
