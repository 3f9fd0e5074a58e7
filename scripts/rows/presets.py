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
def schedules(system):
    """The pipeline schedules that a preset of configs/systems lists, its own or its ancestor's; (): it has no list."""
    file = ROOT / "configs" / "systems" / f"{system}.yaml"
    text = file.read_text() if file.is_file() else ""
    listed = re.search(r"^ +schedules: *\[([^\]]*)\]", text, re.MULTILINE)
    if listed:
        return tuple(name.strip() for name in listed[1].split(",") if name.strip())
    ancestor = re.search(r"^use: *([\w.-]+)", text, re.MULTILINE)
    return schedules(ancestor[1]) if ancestor else ()


@functools.cache
def cannot(system):
    """What a preset of configs/systems says that it cannot run, its own list or its ancestor's."""
    file = ROOT / "configs" / "systems" / f"{system}.yaml"
    text = file.read_text() if file.is_file() else ""
    listed = re.search(r"^ +cannot:(?: *\{\}| *#.*)?\n((?: {4,}.*\n)*)", text, re.MULTILINE)
    if listed:
        return tuple(re.findall(r'^ {4}"?([\w+]+)"?:', listed[1], re.MULTILINE))
    ancestor = re.search(r"^use: *([\w.-]+)", text, re.MULTILINE)
    return cannot(ancestor[1]) if ancestor else ()
