"""HuggingFace's LlamaForCausalLM by the sizes of a case, on the meta device or as memory that is never written."""
import torch
import torch.nn as nn
import transformers
import transformers.masking_utils
from transformers.models.llama import modeling_llama  # imported once, for all cases


def build(case, dtype=torch.float32, norm="fused"):
    """`norm`: "fused" puts nn.RMSNorm, one kernel, in the place of transformers' own, which is composed of several ("eager")."""
    # It reads positions, which are zero here, and would take them for packed documents.
    transformers.masking_utils.find_packed_sequence_indices = lambda positions: None
    m = case.model
    config = transformers.LlamaConfig(
        vocab_size=m.vocab, hidden_size=m.hidden, intermediate_size=m.ffn, num_hidden_layers=m.layers, num_attention_heads=m.heads,
        num_key_value_heads=m.kv_heads, max_position_embeddings=case.sequence, rms_norm_eps=1e-5, use_cache=False,
        tie_word_embeddings=False, attn_implementation="sdpa")
    with torch.device("meta"):
        model = modeling_llama.LlamaForCausalLM(config).to(dtype)
        if norm == "fused":
            for parent in list(model.modules()):
                for name, child in parent.named_children():
                    if type(child).__name__ == "LlamaRMSNorm":
                        setattr(parent, name, nn.RMSNorm(m.hidden, eps=1e-5, dtype=dtype))
    model.train()
    if case.recompute == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": bool(case.option("reentrant", False))})
    elif case.recompute != "none":
        raise ValueError(f"transformers recomputes full or none, not {case.recompute}")
    return model


def materialise(model):
    """Memory for what is on the meta device; buffers get values that are never read."""
    model.to_empty(device="cuda")
    for module in model.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, torch.ones(buffer.shape, dtype=buffer.dtype, device="cuda"))
    return model


def tokens(case):
    return torch.zeros(case.micro_batch, case.sequence, dtype=torch.long, device="cuda")


def train_step(case, model, optimizer, last_only, autocast=False, clip=None):
    """A step as a training script writes it. `last_only(bool)`: reduce gradients in this backward pass, or leave them."""
    x = tokens(case)

    def step(mark):
        for index in range(case.accumulate):
            mark(f"forward{index or ''}")
            last_only(index == case.accumulate - 1)
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                loss = model(input_ids=x, labels=x).loss
            mark(f"backward{index or ''}")
            loss.backward()
            del loss
        mark("optimizer")
        if clip is not None:
            clip()
        optimizer.step()
        optimizer.zero_grad()

    return step


def adamw(case, model):
    """torch's AdamW as it is asked for: its default loops over lists of tensors (foreach)."""
    kind = case.option("optimizer", "foreach")
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=kind == "fused" or None,
                             foreach=False if kind == "loop" else None)
