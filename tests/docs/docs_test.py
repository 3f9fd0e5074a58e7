"""README.md and src/docs are true: their commands run, the output that they show is what is printed, their pictures are those
that the commands draw, links lead somewhere, and no option is named that the program lacks. Needs no network.

    python3 tests/docs/docs_test.py SIMULATE [--write] [--verbose] [PAGE...]

--write puts the present output and pictures into the pages instead (scripts/docs --write);
--verbose prints what each command takes.
"""
import ast
import difflib
import json
import pathlib
import re
import subprocess
import sys
import time

import pages
from pages import DOCS, ROOT

# Options of other programs that pages name.
OTHERS = {"--preset", "--build", "--install", "--target", "--config", "--prefix", "--minutes", "--output", "--dry-run", "--device", "--check",
          "--write", "--nccl", "--help"}


class Run:
    def __init__(self, simulate, write, verbose):
        self.simulate, self.write, self.verbose, self.faults = simulate, write, verbose, []
        self.table = pages.reads_option_table(simulate)
        self.options = set().union(*self.table.values())
        self.keys = keys_of(json.loads(subprocess.run([simulate, "schema"], check=True, stdout=subprocess.PIPE).stdout))

    def fault(self, page, line, text):
        self.faults.append(f"{page.relative_to(ROOT)}:{line}: {text}")


def keys_of(schema):
    """Every key of a job with its sections: "memory.recompute"."""
    out = set()

    def visit(node, above):
        if not isinstance(node, dict):
            return
        if "$ref" in node:
            target = schema
            for part in node["$ref"].split("/")[1:]:
                target = target[part]
            visit(target, above)
        for name, below in node.get("properties", {}).items():
            key = f"{above}.{name}" if above else name
            out.add(key)
            visit(below, key)
        for word in ("oneOf", "anyOf", "allOf"):
            for below in node.get(word, []):
                visit(below, above)

    visit(schema, "")
    return out


def anchor_of(heading):
    """As mkdocs and the usual viewers make it."""
    text = re.sub(r"[`*]", "", heading).strip().lower()
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", text)).strip("-")


def anchors(page):
    plain = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    return {anchor_of(m) for m in re.findall(r"^#+ (.*)$", plain, re.M)}


def check_links(run, page, text):
    plain = re.sub(r"^```.*?^```$", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.M | re.S)
    for number, line in enumerate(plain.splitlines(), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"https?://", target):
                continue
            name, _, anchor = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            if not file.exists():
                run.fault(page, number, f"{target} leads to no file")
            elif page.parent == DOCS and DOCS not in file.parents:
                run.fault(page, number, f"{target} leads out of src/docs, where the site has nothing")
            elif anchor and (file.suffix != ".md" or anchor not in anchors(file)):
                run.fault(page, number, f"{target}: {file.name} has no such heading")


def check_words(run, page, text):
    """Options and keys that the text names, whether in commands or in sentences."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.replace("`", " ").removeprefix("$ ").split(" -- ")[0]  # behind it stands another program's command
        for command, named in pages.options_named(words, run.table):
            for option in named:
                if option not in run.table[command] and option not in run.options:
                    run.fault(page, number, f"simulate {command} has no {option}")
        for code in re.findall(r"`([^`]+)`", line):
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", code):
                if option not in run.options | OTHERS:
                    run.fault(page, number, f"no command has {option}")
            for key in re.findall(r"(?<![\w./-])((?:workload|parallelism|memory|kernels|nccl)(?:\.[a-z_0-9]+)+)(?![\w./(-])", code):
                if key not in run.keys:
                    run.fault(page, number, f"a job has no key {key}")


def check_commands(run, page, text):
    folder = pages.Folder(run.simulate)
    changes = []  # (first line, last line, new lines)
    for block in pages.blocks_of(text):
        if block.file:
            folder.write(block)
        if block.kind == "python":
            ast.parse("\n".join(block.lines))
        for command in [] if block.not_run else pages.commands_of(block):
            begun = time.monotonic()
            status, printed, said = folder.run(command)
            if run.verbose:
                print(f"{time.monotonic() - begun:7.2f} s  {command}")
            if status != command.status:
                run.fault(page, command.first, f"{command} ends with {status}: {said.strip()[-400:]}")
                continue
            shown, real = pages.trimmed("\n".join(command.shown)), pages.trimmed(printed)
            if not shown or (wrong := pages.differs(shown, real)) is None:
                continue
            if run.write:
                changes.append((command.first, command.last, renewed(shown, real)))
            else:
                run.fault(page, command.first, f"{command} does not print as shown: {wrong}")
        if block.kind in ("console", "sh") and block.note.startswith("<!--") and not (block.file or block.not_run):
            run.fault(page, block.first, f"{block.note} is not understood")
    check_printed(run, page, text, folder, changes)
    check_pictures(run, page, text, folder)
    folder.close()
    if changes:
        lines = text.splitlines()
        for first, last, new in sorted(changes, reverse=True):
            lines[first:last] = new
        page.write_text("\n".join(lines) + "\n")


def check_printed(run, page, text, folder, changes):
    found = pages.printed_block(text) if page.name == "README.md" and page.parent == ROOT else None
    if not found:
        return
    command, first, last = found
    real = pages.trimmed(folder.run(pages.Command(command, 0, 0))[1])
    shown = [line.removeprefix("    ") for line in text.splitlines()[first:last]]
    if shown != real:
        if run.write:
            changes.append((first, last, ["    " + line if line else "" for line in real]))
        else:
            run.fault(page, first + 1, f"{command} does not print this block")


def check_pictures(run, page, text, folder):
    for name in re.findall(r"!\[[^]]*\]\((?:src/docs/)?pictures/([^)]+)\)", text):
        committed, drawn = DOCS / "pictures" / name, folder.path / name
        if name.endswith(".png"):  # of a page, by a browser: another one draws other bytes
            if not committed.exists() or len(committed.read_bytes()) > 150_000:
                run.fault(page, 1, f"pictures/{name} is not there, or larger than 150 kB")
        elif not drawn.exists():
            run.fault(page, 1, f"no command of the page draws {name}")
        elif not committed.exists() or committed.read_bytes() != drawn.read_bytes():
            if run.write:
                committed.write_bytes(drawn.read_bytes())
            else:
                run.fault(page, 1, f"pictures/{name} is not what the command draws")
        elif len(committed.read_bytes()) > 60_000:
            run.fault(page, 1, f"pictures/{name} is larger than 60 kB")


def renewed(shown, real):
    """The present output, cut as the shown one: the same numbers of lines at both ends, and between them those most alike."""
    runs = pages.segments(shown)
    if len(runs) == 1:
        return real
    out, at = pages.trimmed("\n".join(real[:len(runs[0])])), len(runs[0])
    for piece in runs[1:-1]:
        def alike(start):
            return sum(difflib.SequenceMatcher(None, a, b, False).ratio() for a, b in zip(piece, real[start:start + len(piece)]))
        start = max(range(at, len(real) - len(piece) + 1), key=alike, default=at)
        out += ["…", *real[start:start + len(piece)]]
        at = start + len(piece)
    return out + ["…", *(real[len(real) - len(runs[-1]):] if runs[-1] else [])]


def check_site(run):
    """mkdocs.yml lists every page once."""
    listed = re.findall(r"[\w-]+\.md", (DOCS / "mkdocs.yml").read_text())
    for page in DOCS.glob("*.md"):
        if listed.count(page.name) != 1:
            run.fault(page, 1, "not listed once in mkdocs.yml")
    for name in set(listed) - {page.name for page in DOCS.glob("*.md")}:
        run.fault(DOCS / "mkdocs.yml", 1, f"there is no {name}")


def main():
    words = [word for word in sys.argv[1:] if word not in ("--write", "--verbose")]
    run = Run(words[0], "--write" in sys.argv, "--verbose" in sys.argv)
    for page in pages.pages():
        if words[1:] and page.name not in words[1:] and page.stem not in words[1:]:
            continue
        text = page.read_text()
        check_links(run, page, text)
        check_words(run, page, text)
        check_commands(run, page, text)
    check_site(run)
    for fault in run.faults:
        print(fault)
    return 1 if run.faults else 0


if __name__ == "__main__":
    sys.exit(main())
