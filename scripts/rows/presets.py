"""What configs/ of the project beside these scripts has."""
import functools
import os
import pathlib
import re

ROOT = pathlib.Path(os.environ.get("STEPCAST_DATA") or pathlib.Path(__file__).resolve().parent.parent.parent)


@functools.cache
def names(kind):
    """Names of the files in configs/`kind`, sorted; none where there is no such folder."""
    folder = ROOT / "configs" / kind
    files = folder.iterdir() if folder.is_dir() else ()
    return tuple(sorted({file.stem for file in files if file.suffix in (".yaml", ".json")}))


def found(kind, name):
    """The name of the file in configs/`kind` that a name means; None: there is none. Underscores and dashes are the same, and case
    does not matter; without configs/, every name is one."""
    known = names(kind)
    if not known or name in known:
        return name
    plain = name.lower().replace("_", "-")
    return plain if plain in known else None


@functools.cache
def stated_of(kind, name, form):
    """The first group of what fits `form` in a YAML file of configs/`kind`; None: it states nothing of the kind."""
    file = ROOT / "configs" / kind / f"{name}.yaml"
    found = re.search(form, file.read_text(), re.MULTILINE) if file.is_file() else None
    return found[1] if found else None


@functools.cache
def stated(system, form):
    """The first group of what fits `form` in a preset of configs/systems, or else in its ancestor; None: neither states it."""
    file = ROOT / "configs" / "systems" / f"{system}.yaml"
    text = file.read_text() if file.is_file() else ""
    found = re.search(form, text, re.MULTILINE)
    if found:
        return found[1]
    ancestor = re.search(r"^use: *([\w.-]+)", text, re.MULTILINE)
    return stated(ancestor[1], form) if ancestor else None


def canonical(device):
    """The file of configs/devices that a short name stands for: "a100" is one of its forms."""
    return stated_of("devices", device, r"^use: *(\S+)") or device


# Sizes of a model by their names in its own files and in HuggingFace's config.json.
SIZES = {"layers": "num_hidden_layers|n_layer|num_layers", "kv_heads": "num_key_value_heads|num_query_groups", "heads": "num_attention_heads|n_head"}


@functools.cache
def size_of(model, key):
    """A size of a file of configs/models, or else of the file that it uses; None: neither states it."""
    for suffix, form in (("yaml", rf"^{key}: *(\d+)"), ("json", rf'^ *"(?:{SIZES[key]})": *(\d+)')):
        file = ROOT / "configs" / "models" / f"{model.removesuffix('.' + suffix)}.{suffix}"
        text = file.read_text() if file.is_file() else ""
        found = re.search(form, text, re.MULTILINE)
        if found:
            return int(found[1])
        ancestor = re.search(r"^use: *(?:\./)?([\w./-]+) *$", text, re.MULTILINE)
        if ancestor and ancestor[1] != model:
            return size_of(ancestor[1], key)
    return None


def schedules(system):
    """The pipeline schedules that a preset lists; (): it has no list."""
    listed = stated(system, r"^ +schedules: *\[([^\]]*)\]") or ""
    return tuple(name.strip() for name in listed.split(",") if name.strip())


def cannot(system):
    """What a preset says that it cannot run."""
    listed = stated(system, r"^ +cannot:(?: *\{\}| *#.*)?\n((?: {4,}.*\n)*)") or ""
    return tuple(re.findall(r'^ {4}"?([\w+]+)"?:', listed, re.MULTILINE))
