"""How a row's GPUs share a model and its batch: what does not fit together, and what is left open of it."""
from . import presets
from .cluster import device_of
from .skips import Skipped


NEAR = 0.04  # of a batch: what publications round


def fitting_batch(draft, batch, micro):
    """The batch, or the nearest that data ranks and micro-batches divide: publications round it ("2M tokens")."""
    unit = draft.dp * (micro or 1)
    nearest = max(1, round(batch / unit)) * unit
    if batch % unit == 0:
        return batch
    if abs(nearest - batch) > NEAR * batch:
        if draft.states_no_degree:
            raise Skipped("incomplete", f"how {draft.ranks} GPUs share the work")
        of = f" and micro-batches of {micro}" if micro else ""
        raise Skipped("not possible", f"a batch of {batch} over {draft.dp} data ranks{of}")
    draft.assume("workload.global_batch", f"{nearest} sequences, which data ranks and micro-batches divide, for {batch}")
    return nearest


def layers_of_stage(draft):
    """Layers of a stage where they divide, embedding and loss counted as a layer each if they must; 0: they do not divide."""
    layers = draft.layers or 0
    return next((count // draft.pp for count in (layers, layers + 2) if layers > 0 and count % draft.pp == 0), 0)


def interleaves_unsaid(draft):
    """Whether a row leaves open how many chunks a stage has, though it has several: where the schedule is interleaved, and in NVIDIA's runs of
    Megatron-Core with stages (its own tables: one to four layers a chunk). Stated as 1: it has one."""
    if draft.functional or draft.pp == 1 or draft.parallel["vpp"].present() or layers_of_stage(draft) == 0:
        return False
    if draft.job["schedule"].text() == "interleaved_1f1b":
        return True
    return draft.framed("Megatron-Core") and not draft.job["schedule"].present() and draft.layers % draft.pp == 0


def chunks_of_stage(draft):
    if draft.pp == 1:
        return 1
    if not interleaves_unsaid(draft):
        return draft.parallel["vpp"].count_or(1)
    each = layers_of_stage(draft)
    return next(chunks for chunks in range(min(each, 8), 0, -1) if each % chunks == 0)


def check_layout(draft):
    """Raises Skipped where the degrees that a row states contradict its number of GPUs or its model, or leave that number open."""
    if not draft.functional and draft.stated_ranks is None:
        raise Skipped("incomplete", "the number of GPUs")
    model_parallel = draft.tp * draft.pp * draft.cp
    if draft.ranks % model_parallel != 0:
        raise Skipped("not possible", f"{draft.ranks} GPUs in groups of tensor {draft.tp} x pipeline {draft.pp} x context {draft.cp}")
    stated = draft.parallel["dp"].count()
    if stated is not None and stated != draft.dp:
        draft.remark(f"parallel.dp {stated} is taken as {draft.dp}: {draft.ranks} GPUs / tensor / pipeline / context")
    if draft.parallel["vpp"].count_or(1) > 1 and not draft.parallel["pp"].present():
        raise Skipped("incomplete", "the number of stages")
    m = draft.out["model"]
    layers = draft.layers
    if layers is not None and draft.pp * chunks_of_stage(draft) > layers + 2:
        raise Skipped("framework", f"stages without a layer: {layers} layers on {draft.pp} stages of {chunks_of_stage(draft)} chunks")
    if m.get("heads", draft.tp) % draft.tp != 0:
        raise Skipped("not possible", f"{m['heads']} heads over {draft.tp} tensor ranks")
    experts = m.get("moe", {}).get("experts", 0)
    if experts > 0 and experts % draft.ep != 0:
        raise Skipped("not possible", f"{experts} experts over {draft.ep} ranks")


# Bytes that each rank holds of a parameter with its gradient and optimizer states, in mixed precision, and of one that adapters leave as it is.
STATES = {"none": 16, "zero1": 4, "zero2": 2, "zero3": 0}
FROZEN = 2


def holds_states(draft, sharding="none"):
    """Whether a GPU holds the states of its part of the model that are not sharded; True where that is not known."""
    name = device_of(draft)
    gigabytes = presets.stated_of("devices", name, r"^memory: *([\d.]+)") if name else None
    m = draft.out["model"]
    width, moe = m.get("hidden", 0), m.get("moe", {})
    mlp = (3 if m.get("gated_mlp") else 2) * width * (moe["experts"] * moe["ffn"] / draft.ep if moe else m.get("ffn", 0))
    parameters = m.get("layers", 0) * (2 * width**2 + mlp) + m.get("vocab", 0) * width
    each = min(STATES[sharding], FROZEN if "finetune" in draft.out["workload"] else STATES["none"])
    return gigabytes is None or parameters / (draft.tp * draft.pp) * each < float(gigabytes) * 1e9


def share_states(draft, p):
    """What a row leaves open of how its GPUs share states: they are sharded where a GPU does not hold them all; without any degree, data
    parallelism is alone."""
    stated = draft.parallel["zero_stage"].present() or draft.parallel["fsdp"].present()
    sharding = p.get("sharding") or presets.stated(draft.out["system"]["use"], r"^ +sharding: *(\w+)") or "none"
    if draft.ranks == 1 or draft.functional or stated or sharding not in STATES:
        return
    if draft.states_no_degree and not holds_states(draft, sharding):
        raise Skipped("incomplete", f"how {draft.ranks} GPUs share the work")
    if sharding != "none":
        return
    if draft.states_no_degree:
        draft.assume("parallelism.data", "data parallelism alone")
    elif draft.out["system"]["use"].startswith("megatron") and draft.dp > 1 and not holds_states(draft):
        p["sharding"] = "zero1"
        draft.assume("parallelism.sharding", "states sharded over data ranks, as none holds them all")
