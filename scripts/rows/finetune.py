"""Adapters of a row. Rows say lora, qlora or adapter; rank, modules and dropout are those of the framework's own scripts of the
time, each an open fact."""
import re

# Part of a framework's name, rank, modules, dropout, and whose they are.
RECIPES = (
    # finetune/lora.py @8641822: lora_r, lora_query, lora_value, lora_dropout.
    ("litgpt", 8, ["q", "v"], 0.05, "LoRA as litgpt's script sets it"),
    # recipes/configs/llama3/8B_lora.yaml and its kin: lora_attn_modules, apply_lora_to_mlp.
    ("torchtune", 8, ["q", "v", "o", "gate", "up", "down"], 0.0, "LoRA as torchtune's recipes set it"),
    # scripts/performance of Llama 3 70B: target_modules linear_qkv, dim 16.
    ("Bridge", 16, ["q", "k", "v"], 0.0, "LoRA as the performance recipes set it"),
    # nemo-toolkit 2.5.0, scripts/performance/llm/mlperf_lora_llama2_70b.py:110: linear_qkv and linear_proj.
    ("MLPerf", 16, ["q", "k", "v", "o"], 0.1, "LoRA as MLPerf's reference sets it"),
    # nemo-automodel 0.7.0, components/_peft: lora.py:56, module_matcher.py:121 ("*_proj").
    ("AutoModel", 8, ["all"], 0.0, "LoRA as the framework's default"),
    # nemo-toolkit 2.5.0, collections/llm/peft/lora.py:408: linear_qkv, linear_proj, linear_fc1, linear_fc2, dim 32.
    ("NeMo", 32, ["all"], 0.0, "LoRA as the framework's default"),
    # llamafactory 0.9.5, hparams/finetuning_args.py:77 and :81: lora_rank 8, lora_target "all".
    ("LLaMA-Factory", 8, ["all"], 0.0, "LoRA as the framework's default"),
    # unsloth 2026.10.9, models/llama.py:4571: r 16, all linear layers.
    ("Unsloth", 16, ["all"], 0.0, "LoRA as the framework's default"),
    # QwenLM/Qwen finetune.py: lora_r 64, c_attn, c_proj (attention's and the MLP's), w1, w2.
    ("HF Trainer", 64, ["all"], 0.05, "LoRA as the model's finetune.py sets it"),
)

# Frameworks that nobody describes: peft 0.21.2, tuners/lora/config.py:632 (r 8, no dropout), utils/constants.py:85 (q_proj, v_proj of a llama).
PEFT = ("", 8, ["q", "v"], 0.0, "LoRA as PEFT's default")


def double_quantized(precision):
    """litgpt's "quant=bnb.nf4" against "quant=bnb.nf4-dq"."""
    return not ("bnb.nf4" in precision and "nf4-dq" not in precision)


def write_llama_adapter(draft, w, second):
    """litgpt's Adapter is LLaMA-Adapter (litgpt 0.2.0, adapter.py), whose base may be quantised."""
    f, precision = {}, draft.row["precision"].text()
    if "bnb." in precision:
        f = {"quantized": True, **({} if double_quantized(precision) else {"double_quantized": False})}
    w["finetune"] = {"llama_adapter_v2" if second else "llama_adapter": f}
    draft.assume("workload.finetune", "prompts as litgpt sets them")


def write_finetune(draft, w):
    kind = draft.job["finetune"].text()
    if kind in ("", "none"):
        return
    recipe = next((recipe for recipe in RECIPES if draft.framed(recipe[0])), PEFT)
    if draft.framed("litgpt") and (kind == "adapter" or draft.adapter_of_prose):
        write_llama_adapter(draft, w, draft.adapter_of_prose == "adapter_v2")
        return
    if kind == "adapter":
        w["finetune"] = "adapter"
        draft.assume("workload.finetune", "adapters as bottlenecks")
        return
    _, rank, targets, dropout, source = recipe
    stated = re.search(r"\br(?:ank)?[\s=:]*(\d{1,4})\b", draft.stated["finetune"], re.IGNORECASE)
    f = {"rank": int(stated[1]) if stated else rank, "targets": targets}
    if dropout > 0:
        f["dropout"] = dropout
    precision = draft.row["precision"].text()
    if kind == "qlora" and not double_quantized(precision):
        f["double_quantized"] = False
    if kind == "qlora" and "gptq" in precision.lower():
        f["base"] = "gptq"
    # QwenLM/Qwen finetune.py: modules_to_save ["wte", "lm_head"] for a base model, none for a chat model.
    if draft.trains_vocabulary:
        f["modules_to_save"] = ["embedding", "head"]
    w["finetune"] = {kind: f}
    other = draft.stated["finetune"]
    if other.lower() in ("dora", "rslora"):
        source += f"; {other} as LoRA, without its own operations"
    draft.assume("workload.finetune", source)
