"""Causal language models of transformers by the sizes of a case, on the meta device or as memory that is never written: Llama where
the option `family` names no other."""
import importlib
import importlib.util

import torch
import torch.nn as nn
import transformers
from transformers.models.llama import modeling_llama  # imported once, for all cases

# {family: (prefix of its classes, settings that Llama's configuration lacks)}; sizes have the same names but where RENAMED says so.
FAMILIES = {
    "llama": ("Llama", {}), "mistral": ("Mistral", {"sliding_window": None}), "qwen2": ("Qwen2", {}), "qwen3": ("Qwen3", {}),
    "gemma": ("Gemma", {"hidden_activation": "gelu_pytorch_tanh"}), "phi3": ("Phi3", {"pad_token_id": 0}),
    "starcoder2": ("Starcoder2", {"use_bias": True, "residual_dropout": 0.0, "embedding_dropout": 0.0, "sliding_window": None}),
    "gpt_neox": ("GPTNeoX", {"use_parallel_residual": True}),
    "gpt2": ("GPT2", {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}),
    "opt": ("OPT", {"dropout": 0.0, "attention_dropout": 0.0}), "phi": ("Phi", {}), "falcon": ("Falcon", {"parallel_attn": True}),
    "gemma2": ("Gemma2", {}), "gemma3": ("Gemma3", {}), "mixtral": ("Mixtral", {}), "qwen3_moe": ("Qwen3Moe", {}),
}
CONFIGURATIONS = {"gemma3": "Gemma3TextConfig"}  # where they are not called as the family's other classes
RENAMED = {"opt": {"intermediate_size": "ffn_dim"},
           "falcon": {"intermediate_size": "ffn_hidden_size", "num_key_value_heads": "num_kv_heads"},
           "gpt2": {"hidden_size": "n_embd", "intermediate_size": "n_inner", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
                    "max_position_embeddings": "n_positions"}}


def classes(case):
    """The module of a family, and the prefix of its classes."""
    family = case.option("family", "llama")
    return importlib.import_module(f"transformers.models.{family}.modeling_{family}"), FAMILIES[family][0]


def configuration(case):
    m, family = case.model, case.option("family", "llama")
    if hasattr(m, "model_type"):  # a config.json
        stated = {k: v for k, v in vars(m).items() if k != "model_type"}
        return transformers.models.auto.configuration_auto.CONFIG_MAPPING[m.model_type](
            **stated, use_cache=False)  # attention is sdpa where transformers has it for the family
    prefix, settings = FAMILIES[family]
    sizes = {"vocab_size": m.vocab, "hidden_size": m.hidden, "intermediate_size": m.ffn, "num_hidden_layers": m.layers,
             "num_attention_heads": m.heads, "max_position_embeddings": case.sequence}
    if "kv_heads" in vars(m):
        sizes["num_key_value_heads"] = m.kv_heads
    if "head_dim" in vars(m):
        sizes["head_dim"] = m.head_dim
    if getattr(m, "sliding_window", None):
        letters = getattr(m, "mixers", "w")
        settings = settings | {"sliding_window": m.sliding_window, "layer_types": [
            "sliding_attention" if letters[i % len(letters)] == "w" else "full_attention" for i in range(m.layers)]}
    if getattr(m, "moe", None):
        settings = settings | {"num_local_experts": m.moe["experts"], "num_experts": m.moe["experts"], "num_experts_per_tok": m.moe["topk"],
                               "moe_intermediate_size": m.moe["ffn"]}
    if family == "falcon":
        grouped = getattr(m, "parallel_norms", False)
        settings = settings | {"new_decoder_architecture": grouped, "multi_query": not grouped}
    renamed = RENAMED.get(family, {})
    out = getattr(transformers, CONFIGURATIONS.get(family, f"{prefix}Config"))(
        **{renamed.get(k, k): v for k, v in sizes.items()}, **{"rms_norm_eps": 1e-5} if m.norm == "rms" else {}, use_cache=False,
        tie_word_embeddings=getattr(m, "tied_embeddings", False), attn_implementation="sdpa", **settings)
    activation = getattr(out, "activation_function", getattr(out, "hidden_act", None))
    if getattr(m, "activation", activation) != activation:
        raise ValueError(f"the activation of {family} is {activation}")
    return out


def build(case, dtype=torch.float32, norm="fused"):
    """`norm`: "fused" puts nn.RMSNorm, one kernel, in the place of transformers' own, which is composed of several ("eager")."""
    if importlib.util.find_spec("transformers.masking_utils"):  # since 4.53
        # It reads positions, which are zero here, and would take them for packed documents.
        importlib.import_module("transformers.masking_utils").find_packed_sequence_indices = lambda positions: None
    if hasattr(case.model, "model_type"):
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(configuration(case)).to(dtype)
        model.train()
        if case.recompute == "full":
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": bool(case.option("reentrant", False))})
        return model
    module, prefix = classes(case)
    with torch.device("meta"):
        model = getattr(module, f"{prefix}LMHeadModel" if prefix == "GPT2" else f"{prefix}ForCausalLM")(configuration(case)).to(dtype)
        if norm == "fused":
            for parent in list(model.modules()):
                for name, child in parent.named_children():
                    if type(child).__name__ == f"{prefix}RMSNorm" and prefix != "Gemma":
                        setattr(parent, name, nn.RMSNorm(child.weight.shape[0], eps=1e-5, dtype=dtype))
    model.train()
    if case.recompute == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": bool(case.option("reentrant", False))})
    elif case.recompute != "none":
        raise ValueError(f"transformers recomputes full or none, not {case.recompute}")
    return model


def layers_of(model):
    base = getattr(model.base_model, "decoder", getattr(model.base_model, "model", model.base_model))
    return next(getattr(base, name) for name in ("h", "blocks", "layers") if hasattr(base, name))


def tie(model):
    """Memory is made for each module by itself: a head that shares the embedding's weight gets it back."""
    if model.config.tie_word_embeddings:
        model.get_output_embeddings().weight = model.get_input_embeddings().weight


def materialise(model):
    """Memory for what is on the meta device; buffers get values that are never read."""
    model.to_empty(device="cuda")
    for module in model.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, torch.ones(buffer.shape, dtype=buffer.dtype, device="cuda"))
    if isinstance(model, transformers.PreTrainedModel):
        tie(model)
    return model


def adapted(model, lora):
    """PEFT's LoRA of so many ranks on matrices by PEFT's names."""
    import peft
    names = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj", "gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
    return peft.get_peft_model(model, peft.LoraConfig(r=lora["rank"], target_modules=[names[t] for t in lora["targets"]],
                                                      lora_dropout=lora.get("dropout", 0.0), task_type="CAUSAL_LM", init_lora_weights=False))


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
    if kind == "sgd":
        return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-4, momentum=case.option("momentum", 0.0))
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=kind == "fused" or None,
                             foreach=False if kind == "loop" else None)
