"""transformers' Llama on one GPU without a wrapper: autocast over fp32 parameters, or all in bf16; loss of chunks."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import llama
import step
import world


def record(case):
    world.join(case)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[case.option("parameters", "fp32")]
    model = llama.materialise(llama.build(case, dtype, norm=case.option("norm", "fused")))
    clip = (lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0)) if case.option("clip", True) else None
    chunks = case.option("loss_chunks", 0)
    if chunks:
        return step.measure(chunked(case, model, llama.adamw(case, model), chunks, dtype is torch.float32, clip))
    return step.measure(llama.train_step(case, model, llama.adamw(case, model), lambda last: None, autocast=dtype is torch.float32, clip=clip))


def chunked(case, model, optimizer, chunks, autocast, clip):
    """The head and loss of a part of the tokens at a time, forward and back (torchtitan 0.3 components/loss.py: ChunkedLossWrapper)."""
    x = llama.tokens(case)

    def step_of(mark):
        mark("forward")
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            hidden = model.model(input_ids=x)[0]
            mark("loss")
            kept = hidden.detach().requires_grad_()
            gradient = torch.zeros_like(kept)
            for part, label, into in zip(kept.chunk(chunks, 1), x.chunk(chunks, 1), gradient.chunk(chunks, 1)):
                part = part.detach().requires_grad_()
                logits = model.lm_head(part)
                loss = F.cross_entropy(logits.flatten(0, 1).float(), label.flatten(), reduction="sum") / x.numel()
                del logits
                loss.backward()
                into.copy_(part.grad)
                del loss, part
        mark("backward")
        hidden.backward(gradient)
        del hidden, gradient, kept
        mark("optimizer")
        if clip is not None:
            clip()
        optimizer.step()
        optimizer.zero_grad()

    return step_of
