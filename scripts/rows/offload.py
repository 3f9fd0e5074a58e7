"""What a row says of offloading: of activations, and of optimizer states, parameters and gradients."""
import re


def offloaded_activations(row):
    """(the first so many layers, 0: all; modules, none: of all) in host memory, of "activation offload, 20 layers to CPU",
    "activations (saved_tensors_hooks)", "activation (expert_fc1, moe_act)"; None: nothing is said of it, or in a form that
    is not read."""
    # Megatron-LM's launch flags: "[expert_fc1 moe_act]".
    flags = row["extra_args"]
    if flags["fine-grained-activation-offloading"].is_true():
        return 0, re.findall(r"[a-z0-9_]+", flags["offload-modules"].text())
    text = row["offload"].text()
    layers = re.fullmatch(r"activation offload, ([0-9]{1,4}) layers to CPU", text)
    if layers:
        return int(layers[1]), []
    if text == "activations (saved_tensors_hooks)":
        return 0, []
    if text == "activation (expert_fc1, moe_act)":
        return 0, ["expert_fc1", "moe_act"]
    return None


# Words of what is offloaded and where to, by the keys and values of memory.offload.
STATES = (("optimizer", r"optimi[sz]er|adam|moment|master"), ("parameters", r"\bparam|\bweight"), ("gradients", r"\bgrad"))
PLACES = (("nvme", r"nvme|ssd|disk"), ("cpu", r"\bcpu|host|dram|ram\b"))
# DeepSpeed's names: ZeRO-Offload keeps optimizer states (and gradients) in host memory, ZeRO-Infinity parameters as well, on NVMe where
# nothing else is said (deepspeed 0.19.8, runtime/zero/offload_config.py).
BY_NAME = ((r"zero-?infinity", ("optimizer", "parameters"), "nvme"), (r"zero-?offload", ("optimizer",), "cpu"))


def of_everything(text):
    """FSDP's CPUOffloadPolicy, of which a row says no parts."""
    return re.match(r"CPU offload(?:\s*$|[\s,;(]+(?!of\b))", text) is not None


def place(text):
    return next((where for where, form in PLACES if re.search(form, text)), None)


def states_in(text):
    """{state: place} of "optimizer to CPU, parameters to NVMe", "optimizer states and gradients (host)"; None: in no form that is read."""
    parts = [part for part in re.split(r"[;,+&]|\band\b", text.lower()) if part.strip()]
    out, open_ = {}, []
    for part in parts:
        found = [state for state, form in STATES if re.search(form, part)]
        where = place(part)
        if not found or "activation" in part:
            return None
        open_ += found
        if where:  # "optimizer states and parameters to CPU": the place stands behind the last
            out.update(dict.fromkeys(open_, where))
            open_ = []
    out.update(dict.fromkeys(open_, place(text.lower()) or "cpu"))
    return out or None


def offloaded_states(row):
    """memory.offload of a row's optimizer states, parameters and gradients, of words, of an object {what: where}, or of the name
    that DeepSpeed gives it; None: nothing is said of it, or in a form that is not read."""
    stated = row["offload"]
    if stated.is_map():
        out = {}
        for name in stated.value:
            state = next((state for state, form in STATES if re.search(form, name.lower())), None)
            where = "cpu" if stated[name].is_true() else place(stated[name].text().lower())
            if stated[name].text().lower() in ("", "none", "false"):
                continue
            if state is None or where is None:
                return None
            out[state] = where
        return out or None
    text = stated.text()
    if of_everything(text):
        return None  # in memory.py
    names = text if text.lower() not in ("", "none", "no", "false") else row["framework"].text()
    for form, states, where in BY_NAME:
        if re.search(form, names, re.IGNORECASE):
            return dict.fromkeys(states, place(text.lower()) or where)
    return states_in(text) if text else None
