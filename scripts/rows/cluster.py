"""The nearest named cluster of a row's hardware, and what the row says of its network cards."""
import re

from . import presets
from .network import read_network
from .skips import Skipped

POD_CHIPS = {"tpu-v5e": 256, "tpu-v6e": 256}

# A device's first letters, the vendor's reference machine in configs/clusters and its GPUs a node. The first that fits.
REFERENCE_NODES = (
    ("a100-pcie", "pcie-server", 8),
    ("v100-pcie", "pcie-server", 8),
    ("h100-pcie", "pcie-server", 8),
    ("h100-nvl", "h100-nvl-pairs", 4),
    ("a100", "dgx-a100", 8),
    ("a800", "dgx-a100", 8),
    ("v100", "dgx-1-v100", 8),
    ("h100", "hgx-h100", 8),
    ("h200", "hgx-h200", 8),
    ("h800", "hgx-h100", 8),
    ("b200", "dgx-b200", 8),
    ("b300", "dgx-b300", 8),
    ("gb200", "gb200-nvl72", 4),
    ("gb300", "gb300-nvl72", 4),
)
# Machines of devices that have one cluster in configs/: taken for jobs of several GPUs only.
OTHER_NODES = (
    ("h20", "hgx-h100", 8),
    ("gh200", "alps", 4),
    ("mi250x-gcd", "frontier", 8),
    ("mi300x", "azure-nd-mi300x-v5", 8),
    ("mi308x", "amd-mi308x", 8),
    ("mi325x", "amd-mi325x", 8),
    ("mi350x", "amd-mi350x", 8),
    ("mi355x", "amd-mi355x", 8),
    ("tpu-v4", "tpu-v4", 4),
    ("tpu-v5e", "tpu-v5e", 4),
    ("tpu-v5p", "tpu-v5p", 4),
    ("tpu-v6e", "tpu-v6e", 4),
    ("tpu-v7", "tpu-v7", 4),
    ("l40s", "l40s-server", 8),
    ("a10g", "aws-g5", 8),
    ("a10", "pcie-server", 8),
    ("a40", "pcie-server", 8),
    ("l4", "pcie-server", 8),
    ("rtx-a6000", "pcie-server", 8),
    ("rtx3090", "pcie-server", 8),
    ("rtx4090", "rtx4090-server", 8),
    ("rtx-pro-6000", "rtx-pro-6000-server", 8),
)

# Words that all occur in a product's name without punctuation ("nvidiaa100sxm480gb"), and its file of configs/devices. The
# first that fits (src/interop/discover/products.cpp): a short name means the most common form in clusters.
PRODUCTS = (
    (("gb300",), "gb300"), (("gb200",), "gb200"), (("b300",), "b300-sxm"), (("b200",), "b200-sxm"), (("gh200",), "gh200"),
    (("h200",), "h200-sxm"), (("h800",), "h800-sxm"), (("h20",), "h20"), (("h100", "nvl"), "h100-nvl"),
    (("h100", "pcie"), "h100-pcie"), (("h100",), "h100-sxm"), (("a800",), "a800-sxm-80"), (("a100", "pci", "40gb"), "a100-pcie-40"),
    (("a100", "pci"), "a100-pcie-80"), (("a100", "40gb"), "a100-sxm-40"), (("a100",), "a100-sxm-80"),
    (("v100", "pci"), "v100-pcie-32"), (("v100", "16gb"), "v100-sxm2-16"), (("v100",), "v100-sxm2-32"), (("l40s",), "l40s"),
    (("rtxpro6000",), "rtx-pro-6000"), (("a6000",), "rtx-a6000"), (("3090",), "rtx3090"), (("4090",), "rtx4090"), (("mi300x",), "mi300x"), (("mi308x",), "mi308x"),
    (("mi325x",), "mi325x"), (("mi350x",), "mi350x"), (("mi355x",), "mi355x"), (("mi250x",), "mi250x"), (("tpuv4",), "tpu-v4"),
    (("tpuv5e",), "tpu-v5e"), (("tpuv5lite",), "tpu-v5e"), (("tpuv5p",), "tpu-v5p"), (("tpuv6e",), "tpu-v6e"), (("tpu7x",), "tpu-v7"),
    (("tpuv7",), "tpu-v7"),
)


# Names too short to be looked for inside others.
SHORT = ("a10", "a10g", "a40", "l4")


def device_of_product(product):
    plain = "".join(c for c in product.lower() if c.isascii() and c.isalnum())
    whole = re.sub(r"^(?:nvidia|tesla|geforce|amd|instinct)+|(?:\d+gb|gpu|tensorcore)+$", "", plain)
    return next((device for words, device in PRODUCTS if all(word in plain for word in words)), whole if whole in SHORT else None)


def reference_node(device, table=REFERENCE_NODES):
    """(cluster, GPUs a node); None: nobody knows its machines."""
    return next(((cluster, gpus) for prefix, cluster, gpus in table if device.startswith(prefix)), None)


def device_of(draft):
    """The file of configs/devices of the job's device, or of its machine."""
    cluster = draft.out["cluster"]
    device = cluster.get("device") or presets.stated_of("clusters", cluster["use"], r"^device: *(\S+)")
    name = device.get("use") if isinstance(device, dict) else device
    return presets.canonical(name) if name else None


def spread(ranks, per_node):
    """(nodes, GPUs of each) for `ranks` on nodes of at most `per_node`: all nodes carry as many."""
    gpus = min(max(per_node, 1), ranks)
    while ranks % gpus != 0:
        gpus -= 1
    return ranks // gpus, gpus


def named_device(draft, name):
    """The file of configs/devices that a name means. Skipped: nobody describes it."""
    if not name or name.startswith(("/", "./", "../")) or name.endswith((".yaml", ".json")):
        return name
    known = presets.found("devices", name)
    if known is not None:
        return known
    meant = device_of_product(name)
    several = {device_of_product(part) for part in re.split(r"/|,|\band\b|\bor\b|&|\+", name)} - {None}
    if len(several) > 1:
        raise Skipped("no device", f"{name} names several")
    if meant is None or presets.found("devices", meant) is None:
        raise Skipped("no device", f"{name} is not in configs/devices")
    draft.remark(f"device '{name}' is taken as {meant}")
    return meant


def figures_in(name, device):
    """What a name states otherwise than the device that it is taken as has it, by the keys of a device: "V100-PCIE-16GB",
    "H100 96GB HBM2e 2.4TB/s, 500 W"."""
    if device.startswith(("tpu", "gh200")):  # chips of a slice; the host's memory ("GH200 480GB")
        return {}
    figures = {}
    for key, unit, form in (("memory", "GiB", r"(?<![\w.])(\d{2,3}(?:\.\d+)?)\s?GiB\b"), ("memory", "GB", r"(?<![\w.])(\d{2,3})\s?GB?\b(?!\s?/s)|[\s_-](\d{2,3})$"),
                            ("memory_bandwidth", "TB/s", r"(?<![\d.])(\d(?:\.\d+)?)\s?TB/s"), ("power", "W", r"(?<![\d.])(\d{2,4})\s?W\b")):
        stated = re.search(form, name, re.IGNORECASE)
        known = presets.stated_of("devices", device, rf"^{key}: *([\d.]+) *[GTW]")
        if not stated or known is None or key in figures:
            continue
        size = stated[1] or stated[2]
        scale = {"TB/s": 1000}.get(unit, 1)
        if abs(float(size) * scale / float(known) - 1) >= 0.08:
            figures[key] = f"{float(size) * scale:g} {'GB/s' if scale > 1 else unit}"
    return figures


PCIE_NODES = ("pcie-server", "l40s-server", "rtx4090-server", "rtx-pro-6000-server", "azure-nc96ads-a100-v4")


def linked_by_pcie(draft):
    text = draft.row["intra_node"].text()
    return re.search(r"pci-?e", text, re.IGNORECASE) and not re.search(r"nv-?link|nv-?switch|xgmi|infinity|ici\b", text, re.IGNORECASE)


def write_network(draft, c, per_node, name):
    text = draft.row["inter_node"].text()
    link = presets.stated_of("devices", presets.canonical(name), r"^pcie: *([\d.]+) *GB/s")
    network = read_network(text, per_node, 8 * float(link) if link else None)
    if network.fault:
        draft.remark(f"network '{text}' is taken as the reference node's: {network.fault}")
    if not network.rate:
        draft.assume("cluster.node.nic", "the reference node's network")
        return
    c["node"] = {"nics": network.cards} if network.cards else {}
    c["node"]["nic"] = f"{network.rate:g} Gb/s"
    if network.open:
        draft.assume("cluster.node.nic", network.open)


# Cards that software sees as two devices, which rows count as GPUs: the device, and the cards of a machine.
TWO_IN_ONE = {"mi250x": ("mi250x-gcd", 4)}


def halves_cards(draft, name, named):
    """Whether a row counts each card as two GPUs."""
    return name in TWO_IN_ONE and (draft.row["gpus_per_node"].integer() != TWO_IN_ONE[name][1] or "gcd" in named.lower())


def aws_machine(draft, device):
    """The file of configs/clusters for the instances that a row's network names, "EFA (AWS p4d)", where they have its device."""
    found = re.search(r"\bAWS (p[0-9][a-z]*(?:-[a-z0-9]+)?)\b", draft.row["inter_node"].text())
    name = f"aws-{found[1]}" if found else ""
    of_machine = presets.stated_of("clusters", name, r"^device: *(\S+)") if name in presets.names("clusters") else None
    return name if of_machine and presets.canonical(of_machine) == presets.canonical(device) else None


def write_cluster(draft):
    device = draft.job["device"]
    named = ""
    if not device.present() and draft.functional:
        # Megatron-LM's first platform of functional tests. Hopper's cuBLAS workspaces are 48 MiB more.
        name = "a100-sxm-80"
        draft.assume("cluster.device", "an A100")
    else:
        named = (device["use"] if device.is_map() else device).text()
        name = named_device(draft, named)
    if not device.is_map() and halves_cards(draft, name, named):
        draft.remark(f"each {name} is taken as two GPUs, as software counts them")
        name = TWO_IN_ONE[name][0]
        named = ""
    gpus = draft.ranks
    if gpus > 10_000_000:
        raise Skipped("incomplete", f"{gpus} GPUs")
    reference = reference_node(name)
    if reference is None and gpus > 1:
        reference = reference_node(name, OTHER_NODES)
        if reference is None:
            reference = ("dgx-a100", 8)
            draft.remark(f"no machine of {name} is known: its nodes are taken to be like a DGX A100's")
    if reference and gpus > 1 and linked_by_pcie(draft) and reference[0] not in PCIE_NODES:
        reference = ("pcie-server", 8)
    per_node = draft.row["gpus_per_node"].count_or(reference[1] if reference else 0)
    if reference and reference[0] == "dgx-1-v100" and per_node == 16:
        reference = ("dgx-2", 16)
    if reference and per_node > reference[1]:
        draft.remark(f"{per_node} GPUs a node are taken as {reference[1]}, those of the reference node")
        per_node = reference[1]
    nodes, on_each = spread(gpus, per_node)
    c = {"use": reference[0] if reference else "dgx-a100", "nodes": nodes, "gpus_per_node": on_each}
    if device.is_map():
        c["device"] = {key: device[key].text() for key in device.value}
        if "use" in c["device"]:
            c["device"]["use"] = name
    elif named and figures_in(named, name):
        c["device"] = {"use": name, **figures_in(named, name)}
    elif presets.canonical(name) == "a100-sxm-80" and "Omni-Path" in draft.row["inter_node"].text():
        c["use"] = "jean-zay-a100"  # a machine with a file of its own brings its device, as its links are achieved
    elif aws_machine(draft, name):
        c["use"] = aws_machine(draft, name)
        c["device"] = name
    else:
        c["device"] = name
    if name.startswith("tpu"):  # links reach over all chips of a slice
        if gpus > POD_CHIPS.get(name, gpus):
            draft.slices = gpus // POD_CHIPS[name]
            c["fabric"] = {"slices": draft.slices}
    elif nodes > 1:
        write_network(draft, c, max(per_node, 1), name)
    draft.out["cluster"] = c
