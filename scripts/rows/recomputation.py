"""What a row's words say of recomputation, in the forms of a job's memory.recompute."""
import re

from .fields import Number

# Names of modules in a job (Megatron-LM's --recompute-modules and its forks') by those of rows.
MODULES = {name: module for module, names in (
    ("core_attn", "core_attn core_attention attn attention attention_core sdpa"), ("layernorm", "layernorm layer_norm layernorms norm norms rmsnorm ln"),
    ("mla_up_proj", "mla_up_proj mla_up up_proj mla_up_projection"), ("mlp", "mlp ffn dense_mlp"), ("moe", "moe moe_layer moe_mlp experts"),
    ("moe_act", "moe_act moe_activation expert_act"), ("shared_experts", "shared_experts shared_expert"), ("act", "act activation_func swiglu gelu"),
    ("mhc", "mhc")) for name in names.split()}
PER_OP = {"sac": "sac", "op": "sac", "selective": "sac", "products": "products", "matmul": "products"}


def modules_of(names):
    """(modules of a job, names that none has)."""
    known = [MODULES.get(re.sub(r"[\s-]", "_", name.strip().lower())) for name in names]
    return list(dict.fromkeys(module for module in known if module)), [name for name, module in zip(names, known) if module is None]


def listed_modules(words):
    """{modules: [...]} of "selective modules=[moe_act mlp]", "selective:layernorm+moe_act", "norm, act"; "none" of an empty list; None: no list
    of modules alone."""
    found = re.fullmatch(r"(?:selective[\s,:(]*)?(modules?\s*[=:])?\s*[\[(]?([\w\s,+/'-]*)[\])\s]*", words)
    if not found:
        return None
    names = [name for name in re.split(r"[\s,+/']+", found[2]) if name]
    if not names:
        return "none" if found[1] else None
    modules, others = modules_of(names)
    # One module that is also the name of a policy, "attention" or "selective core_attn", is Megatron-LM's selective recomputation.
    return None if others or modules == ["core_attn"] and not found[1] else {"modules": modules}


def recomputation(text):
    """memory.recompute of words that state layers, modules or operators; None: they do not (words.py has the plain ones)."""
    words = text.strip().lower()
    every = re.search(r"\bevery (?:(\d{1,3})(?:st|nd|rd|th)?|other|second) (?:\w+ )?(?:layer|block)s?\b", words)
    if every:
        return {"every": Number(every[1] or "2")}
    method = re.search(r"\b(uniform|block)\b\D{0,40}?(\d{1,4})\b", words)
    if method and not re.match(r"(?:no|none|off)\b", words):
        return {method[1]: Number(int(method[2]))} if int(method[2]) > 0 else "none"
    modules = listed_modules(words)
    if modules is not None:
        return modules
    if "memory budget" in words:  # torch.compile's, of 0.5 and more
        return {"per_op": "products"}
    if re.search(r"\bper[\s-]?op\b|\bop-?level\b|\bsac\b|^selective op\b", words):
        return {"per_op": "sac"}
    if re.search(r"\b(?:every|all|each)(?: transformer)? (?:layer|block)s?\b|\bfull (?:activation |gradient )?(?:checkpointing|recomputation)\b", words) and not re.search(r"\b(?:no|not|without|or)\b", words):
        return "full"
    return None
