"""What a row says of offloaded activations."""
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
