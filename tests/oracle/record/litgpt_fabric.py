"""litgpt's fine-tuning: its GPT in bf16 through Lightning Fabric, with Fabric's FSDP where there are several devices. Whole (full.py), with
LoRA (lora.py) or LLaMA-Adapter's prompts (adapter.py, adapter_v2.py)."""
import torch

import absent
import llama

absent.stand_in("tensorboardX")

import lightning
from lightning.fabric.plugins.environments import LightningEnvironment, TorchElasticEnvironment
from lightning.fabric.plugins.precision import BitsandbytesPrecision
from lightning.fabric.strategies import FSDPStrategy, ModelParallelStrategy
from litgpt import adapter, adapter_v2, lora
from litgpt import model as whole
from litgpt.finetune.lora import parallelize_fn
from litgpt.utils import chunked_cross_entropy, instantiate_bnb_optimizer

import step
import world

# PEFT's names of matrices, and the switch of lora.py that each turns on.
SWITCHES = {"q": "query", "k": "key", "v": "value", "o": "projection", "gate": "mlp", "up": "mlp", "down": "mlp", "head": "head"}
CHUNK = 128  # finetune/lora.py:352, adapter.py:303: lm_head_chunk_size


def strategy_of(case, module):
    """Of several devices: full.py:100 and adapter.py:102 have FSDP1, lora.py:157 has FSDP2."""
    if module is lora:
        return ModelParallelStrategy(parallelize_fn=lambda model, device_mesh: parallelize_fn(model, device_mesh, case.recompute == "full"),
                                     data_parallel_size=case.world, tensor_parallel_size=1)
    gathered = not case.parallelism.get("reshard_after_forward", True)
    block = module.Block
    return FSDPStrategy(auto_wrap_policy={block}, activation_checkpointing_policy={block} if case.recompute == "full" else None,
                        state_dict_type="full", limit_all_gathers=True, cpu_offload=False,
                        sharding_strategy="SHARD_GRAD_OP" if gathered else "FULL_SHARD")


def adapters(case):
    """The module whose GPT is trained, what its configuration has beside the sizes, and what marks the parameters that are trained."""
    if case.option("lora"):
        stated = case.option("lora")
        switches = {f"lora_{v}": any(SWITCHES[t] == v for t in stated["targets"]) for v in SWITCHES.values()}
        return lora, {"lora_r": stated["rank"], "lora_alpha": 16, "lora_dropout": stated.get("dropout", 0.0), **switches}, lora.mark_only_lora_as_trainable
    kind = case.option("adapter")
    if kind == 1:
        return adapter, {}, adapter.mark_only_adapter_as_trainable
    if kind == 2:
        return adapter_v2, {}, adapter_v2.mark_only_adapter_v2_as_trainable
    return whole, {}, lambda model: None


class Convolution(torch.autograd.Function):
    """F.conv1d of width 1 as cuDNN allocates for it: lora.py multiplies by lora_B with it, and the null GPU's cuDNN has no engine. Operands
    are made contiguous, results are one tensor each; no workspace (which one cuDNN's choice would have is not known)."""

    @staticmethod
    def forward(ctx, signal, weight, groups):
        signal = signal.contiguous()
        ctx.save_for_backward(signal, weight)
        ctx.groups = groups
        out = signal.new_empty(signal.shape[0], weight.shape[0], signal.shape[2])
        for part, rows, matrix in zip(out.chunk(groups, 1), signal.chunk(groups, 1), weight.chunk(groups)):
            for i in range(len(rows)):
                torch.matmul(matrix.squeeze(-1), rows[i], out=part[i])
        return out

    @staticmethod
    def backward(ctx, grad):
        signal, weight = ctx.saved_tensors
        grad, to_signal, to_weight = grad.contiguous(), torch.empty_like(signal), torch.empty_like(weight)
        parts = (t.chunk(ctx.groups, 1) for t in (grad, signal, to_signal))
        for rows, inputs, results, matrix, result in zip(*parts, weight.chunk(ctx.groups), to_weight.chunk(ctx.groups)):
            for i in range(len(rows)):
                torch.matmul(matrix.squeeze(-1).T, rows[i], out=results[i])
                torch.matmul(rows[i], inputs[i].T, out=result.squeeze(-1))
        return to_signal, to_weight, None


def stable_embedding(model):
    """finetune/lora.py:220: the embedding of a quantised model, made after the others were frozen and the optimizer was given them."""
    from bitsandbytes.nn import StableEmbedding
    old = model.transformer.wte
    model.transformer.wte = StableEmbedding(old.num_embeddings, old.embedding_dim)
    with torch.no_grad():
        model.transformer.wte.weight.copy_(old.weight)
    model.transformer.wte = model.transformer.wte.to(device=old.weight.device, dtype=old.weight.dtype)


def record(case):
    module, settings, mark_trained = adapters(case)
    lora.F.conv1d = lambda signal, weight, groups=1: Convolution.apply(signal, weight, groups)
    quantised = case.option("quantised")  # as litgpt's --quantize: bnb.nf4, bnb.nf4-dq
    if case.world == 1:
        world.alone(case)
        fabric = lightning.Fabric(accelerator="cuda", devices=1, strategy="auto", precision=None if quantised else case.option("precision", "bf16-true"),
                                  plugins=[LightningEnvironment()] + ([BitsandbytesPrecision(quantised[4:], torch.bfloat16)] if quantised else []))
    else:
        world.join(case)
        fabric = lightning.Fabric(accelerator="cuda", devices=8, num_nodes=case.world // 8, strategy=strategy_of(case, module),
                                  precision=case.option("precision", "bf16-true"), plugins=[TorchElasticEnvironment()])
    fabric.launch()
    m = case.model
    config = getattr(module, "Config")(
        name="recorded", block_size=case.sequence, vocab_size=m.vocab, padded_vocab_size=m.vocab, n_layer=m.layers, n_head=m.heads,
        n_query_groups=m.kv_heads, n_embd=m.hidden, intermediate_size=m.ffn, bias=False, norm_class_name="RMSNorm", rope_base=500000,
        **{"rotary_percentage": 1.0, "parallel_residual": False, "mlp_class_name": "LLaMAMLP", **case.option("config", {})}, **settings)
    with fabric.init_module(empty_init=case.world > 1):
        model = module.GPT(config)
    mark_trained(model)
    model = fabric.setup_module(model)
    if quantised:
        optimizer = instantiate_bnb_optimizer("AdamW", model.parameters())
        stable_embedding(model)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=case.option("optimizer", "foreach") == "fused" or None)
    optimizer = fabric.setup_optimizers(optimizer)
    x = llama.tokens(case)
    model.max_seq_length = case.sequence
    model.train()

    if module in (adapter, adapter_v2):
        # fit checks its settings first by a validation without gradients (finetune/adapter.py:277), of which the prompts' keys and values
        # stay (adapter.py:104): prompts have no gradient from then on.
        with torch.no_grad():
            model(x)
    logits = loss = None

    def train_step(mark):
        nonlocal logits, loss  # fit's own: both stand until the next are made, whatever step that is in
        for index in range(case.accumulate):
            mark(f"forward{index or ''}")
            with fabric.no_backward_sync(model, enabled=index < case.accumulate - 1):
                if module is whole:
                    logits = model(x)
                    loss = chunked_cross_entropy(logits[..., :-1, :], x[..., 1:])
                else:
                    logits = model(x, lm_head_chunk_size=CHUNK)
                    logits[-1] = logits[-1][..., :-1, :]
                    loss = chunked_cross_entropy(logits, x[..., 1:])
                mark(f"backward{index or ''}")
                fabric.backward(loss / case.accumulate)
        mark("optimizer")
        optimizer.step()
        optimizer.zero_grad()

    return step.measure(train_step)
