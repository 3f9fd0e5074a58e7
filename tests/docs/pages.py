"""The pages of the documentation: README.md and src/docs/*.md, with the commands that they show.

A page's commands stand in fenced blocks. In a `console` block a line that begins with "$ " is a command, and what follows is its
standard output, where a line "…" stands for any lines; a command without output below it is run and not compared. A line of an
`sh` block is a command without output. A comment before a block says what else there is to know:

    <!-- file: job.yaml -->              the block is that file, in the folder in which the page's commands run
    <!-- not run: needs a GPU -->        its commands are not run, for the reason given

A command whose last words are "# exit status N" must end so; else with 0. A picture of the page (pictures/NAME.svg) is the file
NAME.svg that a command of the page has written. An indented block below a line that ends with "prints:" is what the command
before it prints. Everything else is text.
"""
import os
import pathlib
import re
import shlex
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "src" / "docs"
LONGEST = 900  # seconds that a command may take; under sanitizers on a busy machine a plan takes minutes


def pages():
    return [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


class Block:
    """A fenced block: lines[first:last] of the page, without its fences."""

    def __init__(self, kind, first, lines, note):
        self.kind, self.first, self.lines = kind, first, lines
        self.last = first + len(lines)
        self.note = note
        match = re.fullmatch(r"<!-- (file|not run): (.*) -->", note)
        self.file = match.group(2) if match and match.group(1) == "file" else None
        self.not_run = match.group(2) if match and match.group(1) == "not run" else None


def blocks_of(text):
    out, lines, number = [], text.splitlines(), 0
    while number < len(lines):
        fence = re.fullmatch(r"```(\w*)", lines[number])
        if fence:
            end = lines.index("```", number + 1)
            before = next((line for line in reversed(lines[:number]) if line), "")
            out.append(Block(fence.group(1), number + 1, lines[number + 1:end], before))
            number = end
        number += 1
    return out


class Command:
    """A command of a block, and the lines of output that the page shows: lines[first:last] of the page."""

    def __init__(self, words, first, status):
        self.words, self.first, self.last, self.status = words, first, first, status
        self.shown = []

    def __repr__(self):
        return self.words


def commands_of(block):
    if block.kind not in ("console", "sh") or block.file:
        return []
    out, number = [], 0
    while number < len(block.lines):
        line = block.lines[number]
        starts = line.startswith("$ ") if block.kind == "console" else bool(line.strip())
        if not starts:
            if out and block.kind == "console":
                out[-1].shown.append(line)
                out[-1].last = block.first + number + 1
            number += 1
            continue
        words = line[2:] if block.kind == "console" else line
        while words.endswith("\\"):
            number += 1
            words = words[:-1] + block.lines[number]
        status = re.search(r"# exit status (\d)$", words)
        number += 1
        out.append(Command(words, block.first + number, int(status.group(1)) if status else 0))
    return out


class Folder:
    """Where a page's commands run: an empty folder, with the program by its name and the data of this checkout."""

    known = {}  # words of a command -> its result, and the files that it wrote

    def __init__(self, simulate):
        self.held = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.held.name)
        self.own_files = False
        programs = self.path / ".programs"
        programs.mkdir()
        (programs / "simulate").symlink_to(pathlib.Path(simulate).resolve())
        self.environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "STEPCAST_DATA": str(ROOT),
                            "LC_ALL": "C.UTF-8", "TERM": "dumb"}

    def run(self, command):
        """Status, standard output and standard error. A command that another page has is not run again: what it has written is
        copied, as long as neither page brings files of its own."""
        known = Folder.known.get(command.words) if not self.own_files else None
        if known:
            for name, content in known[1].items():
                (self.path / name).write_bytes(content)
            return known[0]
        before = {file.name for file in self.path.iterdir()}
        done = subprocess.run(["bash", "-c", command.words], cwd=self.path, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LONGEST)
        # The data's folder is where the program was installed; here it is this checkout.
        result = done.returncode, *(out.decode().replace(f"{ROOT}/", "") for out in (done.stdout, done.stderr))
        if not self.own_files:
            written = {file.name: file.read_bytes() for file in self.path.iterdir() if file.name not in before and file.is_file()}
            Folder.known[command.words] = result, written
        return result

    def write(self, block):
        self.own_files = True
        file = self.path / block.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(block.lines) + "\n")

    def close(self):
        self.held.cleanup()


def segments(shown):
    """The shown lines as runs between lines "…", and whether the first begins and the last ends the output."""
    runs = [[]]
    for line in shown:
        if line.strip() == "…":
            runs.append([])
        else:
            runs[-1].append(line)
    return runs


def differs(shown, printed):
    """The first shown line that the output does not have in its place; None where all agree."""
    runs, at = segments(shown), 0
    for index, run in enumerate(runs):
        first, last = index == 0, index == len(runs) - 1
        if first and last:
            starts = [0] if len(printed) == len(run) else []
        elif first:
            starts = [0]
        elif last:
            starts = [len(printed) - len(run)] if len(printed) - len(run) >= at else []
        else:
            starts = range(at, len(printed) - len(run) + 1)
        for start in starts:
            if printed[start:start + len(run)] == run:
                at = start + len(run)
                break
        else:
            near = printed[starts[0]:] if starts else printed
            wrong = next((a for a, b in zip(run, near) if a != b), run[0] if run else "the end of the output")
            return wrong
    return None


def trimmed(text):
    """Lines without blanks at their ends, as a page shows them."""
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return lines


def printed_block(text):
    """Of README.md: the command and the first and last line of the block that it prints, or None."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.endswith("prints:"):
            first = next(n for n in range(number + 1, len(lines)) if lines[n])
            last = next((n for n in range(first, len(lines)) if lines[n] and not lines[n].startswith("    ")), len(lines))
            while not lines[last - 1]:
                last -= 1
            command = next(l.strip() for l in reversed(lines[:number]) if "scripts/run" in l)
            return command.split("#")[0].replace("scripts/run", "simulate").strip(), first, last
    return None


def reads_option_table(simulate):
    """Command ("" for none, "calibrate nccl") -> its long options, from the manual pages."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([simulate, "man", "--output", folder], check=True)
        table = {}
        for page in pathlib.Path(folder).glob("*.1"):
            text = page.read_text().replace("\\-", "-")
            names = re.search(r"^\.SH SYNOPSIS\n\\fBsimulate ?(.*?)\\fR", text, re.M).group(1)
            table[names] = set(re.findall(r"\\fB(--[a-z-]+)\\fR", text))
        return table


def options_named(words, table):
    """(command, its options that a line names) for each `simulate` of a command line."""
    out = []
    for part in re.split(r"[|;&()]+|(?:^| )# ", words):
        try:
            given = shlex.split(part)
        except ValueError:
            continue
        if "simulate" not in given:
            continue
        given = given[given.index("simulate") + 1:]
        command = ""
        while given and (command + " " + given[0]).strip() in table:
            command = (command + " " + given.pop(0)).strip()
        out.append((command, [word.split("=")[0] for word in given if re.match(r"--[a-z]", word)]))
    return out
