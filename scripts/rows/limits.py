"""Limits of a preset that a row, which ran, shows not to be those of its training system."""
from . import presets
from .skips import Skipped


def asked(draft):
    """What the row's layout asks of its training system, by the names of src/strategy/features.cpp."""
    p = draft.out["parallelism"]
    out = {key for key in ("data", "tensor", "pipeline", "virtual_pipeline", "expert") if p.get(key, 1) > 1}
    context = p.get("context", {})
    if context.get("size", 1) > 1:
        out.add("ulysses" if context["kind"] == "a2a" else "context")
    if "tensor" in out and p.get("sequence_parallel"):
        out.add("sequence")
    if "tensor" in out and p.get("overlap", {}).get("tensor", False) is not False:
        out.add("tensor_overlap")
    if "pipeline" in out and "vocab" in str(p.get("schedule")):
        out.add("vocabulary")
    if p.get("sharding", "none") != "none":
        out.add(p["sharding"])
    return out


def share_heads(draft, s):
    """Where more tensor ranks than key-value heads ran, those that share one gather its projections, as megatron-core 0.16 does."""
    m, tensor = draft.out["model"], draft.out["parallelism"].get("tensor", 1)
    heads = m.get("kv_heads") or draft.published and presets.size_of(draft.published, "kv_heads") or tensor
    shared = tensor > heads and tensor % heads == 0
    if "mla" in m or not shared and heads % tensor == 0:
        return
    width = 0 if draft.published else m.get("head_dim", m["hidden"] // m["heads"])
    if not shared or 2 * heads * width % tensor != 0:  # src/strategy/rules_shard.cpp: divides_key_heads
        raise Skipped("framework", f"{tensor} tensor ranks share {heads} key-value heads")
    if presets.stated(s["use"], r"^ +gathers_qkv: *(\w+)") != "true":
        s["gathers_qkv"] = True
        draft.assume("system.gathers_qkv", f"how {tensor} tensor ranks share {heads} key-value heads")


def lift(draft):
    """Where the preset cannot run what the row ran, the row's system is not quite the preset: it has none of its limits."""
    s = draft.out["system"]
    share_heads(draft, s)
    if "cannot" in s:
        return
    features = asked(draft)
    beyond = [limit for limit in presets.cannot(s["use"]) if features.issuperset(limit.split("+"))]
    if beyond:
        s.update(cannot={}, schedules=[])
        why = f"'{draft.framework}' behaves as {s['use']}, which does not run {', '.join(beyond)}"
        draft.assume("system", why)
        draft.remark(f"framework {why}")
