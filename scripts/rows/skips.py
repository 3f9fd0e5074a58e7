"""Rows that have no job: the reasons, and how each is recognised."""
from .offload import offloaded_activations, offloaded_states

# Kind: what it means. An operator row, a model named alone and an out-of-memory row are no reasons: each has its form.
KINDS = {
    "operator table": "the row measures single operators, not a training step",
    "single layer": "the row measures one layer, not of experts, outside a model",
    "no device": "the row names a device that nobody describes",
    "architecture": "the row does not state an encoder or a hybrid in a form that is read",
    "calculation": "the authors' own calculation, not a measurement",
    "quantity": "the row measures what is no quantity of a forecast",
    "framework": "a framework or engine whose behaviour is not modelled",
    "recompute": "a recomputation policy that is not modelled",
    "offload": "offloading in a form that is not modelled",
    "finetune": "a way of fine-tuning that is not modelled",
    "optimizer": "an optimizer that is not modelled",
    "incomplete": "the row leaves open what no default can stand for",
    "not possible": "the job that the row states contradicts itself",
    "no value": "the row states its metric without a measured value",
    "malformed": "a field is of another type than its name has, or out of range",
}


class Skipped(Exception):
    def __init__(self, kind, detail=""):
        assert kind in KINDS, kind
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail


def measures_experts(row):
    """Whether the row measures a mixture of experts by itself: a layer without attention, norm and residual."""
    return row["model"]["arch"].text() == "single MoE layer" and row["model"]["moe"].is_map()


def first_key(field):
    return next(iter(field.value), "") if field.is_map() else ""


def check(row, published, unpacked=False):
    """Raises Skipped where the row has no job. `published`: the file of configs/models that stands for the model, or None;
    `unpacked`: its sequences are as long as the samples, whatever length it states."""
    model, job = row["model"], row["job"]
    if not model.is_map():
        if row["kernel"].present() or row["config"].present():
            raise Skipped("operator table")
        raise Skipped("incomplete", "the model")
    arch = model["arch"].text()
    experts = measures_experts(row)
    if "single" in arch and not experts:
        raise Skipped("single layer", arch)
    # Encoders with the launch flags that say how many of which layers there are (Megatron-LM's).
    flags = row["extra_args"]
    encoders = flags.is_map() and (arch == "bert" or (
        arch == "t5" and flags["encoder-num-layers"].present() and flags["decoder-num-layers"].present()))
    hybrid = arch == "hybrid" and flags["hybrid-layer-pattern"].present()
    if not published and not encoders and not experts and not hybrid and arch not in ("gpt", "llama", "moe"):
        name = model["name"].text()
        if not arch and name and not model["hidden"].present():
            raise Skipped("architecture", f"not stated, and '{name}' is not in configs/models")
        raise Skipped("architecture", arch or "not stated")
    # Functional tests show memory alone, of which the device decides little (cluster.py).
    if not job["device"].present() and not flags.is_map():
        raise Skipped("no device", "neither job.device nor gpu")
    recompute = first_key(job["recompute"])
    if job["recompute"].is_map() and recompute not in ("as_stated", "every", "uniform", "block", "modules", "per_op"):
        raise Skipped("recompute", recompute)
    offload = row["offload"].text()
    states = "CPU offload" in offload or offloaded_states(row) is not None
    if not states and offloaded_activations(row) is None and (
            row["offload"].is_map() or row["offload"].is_list() or row["offload"].is_true() or "offload" in offload or "activation" in offload):
        raise Skipped("offload", offload or str(row["offload"].value))
    if not published and ((not encoders and not hybrid and not model["layers"].present()) or not model["hidden"].present()):
        raise Skipped("incomplete", "the model's size")
    if not row["seq_len"].present() or unpacked:
        raise Skipped("incomplete", "the sequence length")
