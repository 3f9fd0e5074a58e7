"""The house's own rules, read from its source text: what rooms may name, how large a class or function may be.

    python3 tests/house/house_test.py SOURCE_FOLDER

The rules lean on the repository's clang-format: what stands at the first column opens and closes at namespace level.
"""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()

FUNCTION_LINES = 100  # a longer function does more than one thing
CLASS_METHODS = 25  # limit for a class in `lower`
CLASS_MEMBERS = 15

# Folders that are divided by subject: each subfolder's README ends with the subfolders that its files may include.
DIVIDED = ("src/report", "src/interop/launch", "src/cli")


def sources(*folders):
    for folder in folders:
        yield from sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in (".cpp", ".h"))


def lines_of(path):
    return path.read_text().splitlines()


def name_of(path):
    return str(path.relative_to(ROOT))


def without_comments(line):
    return re.sub(r"//.*", "", line)


def long_functions(path):
    """(line, length) of each function at namespace level that is longer than FUNCTION_LINES."""
    out = []
    start = None
    for number, line in enumerate(lines_of(path), 1):
        if start is None:
            opens = re.match(r"[A-Za-z].*\{$|  .*\) (const )?(-> .*)?\{$", line)
            if opens and not re.match(r"(namespace|class|struct|enum|union|extern|const|constexpr|static const|inline const)\b", line):
                start = number
        elif line == "}":
            if number - start + 1 > FUNCTION_LINES:
                out.append((start, number - start + 1))
            start = None
        elif line in ("};", "}  // namespace"):
            start = None
    return out


def classes(path):
    """(name, methods, members) of each class or struct at namespace level."""
    out = []
    name, statement, methods, members, depth = None, "", 0, 0, 0
    for line in lines_of(path):
        code = without_comments(line).rstrip()
        if name is None:
            head = re.match(r"(class|struct) (\w+)( final)?( : .*)? ?\{$", code)
            if head:
                name, statement, methods, members, depth = head.group(2), "", 0, 0, 0
            continue
        if code == "};":
            out.append((name, methods, members))
            name = None
            continue
        if depth == 0 and not re.match(r"\s*(public|private|protected):", code):
            statement += " " + code.strip()
        depth += code.count("{") - code.count("}")
        if depth == 0 and re.search(r"[;}]\s*$", code):
            declared = statement.strip()
            statement = ""
            if not declared or re.match(r"(using|friend|static|enum|struct|class|template <.*> (struct|class)|STEPCAST)\b", declared):
                continue
            if re.match(rf"(explicit |virtual )?~?{name}\(|{name}& operator=", declared):
                continue
            if re.search(r"\w\(|operator", declared.split("=")[0].split("{")[0]):
                methods += 1
            else:
                members += declared.split("{")[0].split("=")[0].count(",") + 1 if "<" not in declared else 1
    return out


def included_folders(divided):
    """{subfolder: {subfolder that a file of it includes: file}} of a divided folder; "." is the folder itself."""
    out = {}
    for path in sources(divided):
        here = str(path.parent.relative_to(ROOT / divided))
        named = out.setdefault(here, {})
        for line in lines_of(path):
            include = re.match(r'#include "([^"]+)"', line)
            target = (path.parent / include.group(1)).resolve() if include else None
            if target and target.is_file() and target.is_relative_to(ROOT / divided):
                there = str(target.parent.relative_to(ROOT / divided))
                if there != here:
                    named.setdefault(there, name_of(path))
    return out


def allowed_folders(readme):
    """The folders that a README's last line names: "May include: `text`, `page`."; None without such a line."""
    last = readme.read_text().rstrip().rsplit("\n\n", 1)[-1]
    return set(re.findall(r"`(\w+)`", last)) if last.startswith("May include: ") else None


def circle(arrows):
    """The names of a circle of arrows, or an empty list."""
    done = set()

    def walk(at, path):
        if at in path:
            return path[path.index(at):] + [at]
        if at in done:
            return []
        for to in sorted(arrows.get(at, ())):
            if found := walk(to, path + [at]):
                return found
        done.add(at)
        return []

    for start in sorted(arrows):
        if found := walk(start, []):
            return found
    return []


class House(unittest.TestCase):
    maxDiff = None

    def test_folders_at_the_top(self):
        """Each is one that the owner of the project named; `build` and `out` are made, and dotted ones belong to tools."""
        found = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")} - {"build", "out"}
        self.assertEqual(found, {"calibration", "configs", "include", "scripts", "src", "tests"})

    def test_rooms_below_read_no_job(self):
        """What `strategy` has resolved is all that these rooms know of what a user stated."""
        named = [f"{name_of(path)}:{number}" for path in sources("src/lower", "src/bound", "src/engine")
                 for number, line in enumerate(lines_of(path), 1) if "job::" in line]
        self.assertEqual(named, [])

    def test_no_training_system_below_config(self):
        """Rooms act on what a system does, never on which one it is."""
        folders = ["src/" + room for room in ("model", "cluster", "cost", "strategy", "lower", "bound", "engine", "memory", "forecast")]
        named = [f"{name_of(path)}:{number}" for path in sources(*folders, "include/stepcast/job", "include/stepcast/strategy")
                 for number, line in enumerate(lines_of(path), 1) if re.search(r"\bFamily\b|\.family\b", without_comments(line))]
        self.assertEqual(named, [])

    def test_no_source_of_published_runs_in_code(self):
        """A forecast cannot depend on who published a run: no literal of the library is a source's or a preset's name.

        Readers and writers of launch files, which are a system's own, and texts of help are other matters.
        """
        names = {path.stem for folder in ("tests/validation", "tests/validation/all") for path in (ROOT / folder).glob("*.jsonl")}
        names |= {path.stem for path in (ROOT / "configs/systems").glob("*.yaml")} - {"pipedream"}
        names |= {"korthikanti", "aleph", "bloom", "vtrain", "simumax", "mlperf", "jean-zay"}
        exempt = ("src/interop/launch/", "src/cli/", "src/schedule/", "src/python/", "src/automatic/", "include/stepcast/automatic/")
        allowed = {("src/config/huggingface_encoders.cpp", "bloom"),  # a model_type of config.json
                   ("src/config/huggingface_dense.cpp", "olmo"),
                   ("src/config/huggingface_modules.cpp", "bloom"),
                   ("src/config/load.cpp", "megatron-lm"),  # the preset of a job that names none
                   ("src/config/system_habits.cpp", "deepspeed"),  # words of system.family
                   ("src/config/system_habits.cpp", "internevo"),
                   ("src/lower/stage/feature_list.cpp", "Horovod")}  # the name of a feature
        named = []
        for path in sources("src", "include"):
            if name_of(path).startswith(exempt):
                continue
            for number, line in enumerate(lines_of(path), 1):
                for literal in re.findall(r'"((?:[^"\\]|\\.)*)"', without_comments(line)):
                    if literal.lower() in names and (name_of(path), literal) not in allowed:
                        named.append(f"{name_of(path)}:{number}: {literal}")
        self.assertEqual(named, [])

    def test_classes_of_lower_are_small(self):
        large = [f"{name_of(path)}: {name} has {methods} methods and {members} members"
                 for path in sources("src/lower", "include/stepcast/lower") for name, methods, members in classes(path)
                 if (methods > CLASS_METHODS or members > CLASS_MEMBERS)]
        self.assertEqual(large, [])

    def test_folders_by_subject_say_what_they_include(self):
        """Every subfolder has a README that says what is in it, and its files include no other folder than that README names."""
        wrong = []
        for divided in DIVIDED:
            for folder, included in included_folders(divided).items():
                readme = ROOT / divided / folder / "README.md"
                if not readme.is_file():
                    wrong.append(f"{divided}/{folder} has no README.md")
                elif folder != ".":
                    allowed = allowed_folders(readme)
                    if allowed is None:
                        wrong.append(f"{name_of(readme)} does not end with \"May include: ...\"")
                        continue
                    wrong += [f"{file} includes {there}, which {name_of(readme)} does not name"
                              for there, file in included.items() if there not in allowed]
                    wrong += [f"{name_of(readme)} names {one}, which is no folder of {divided}"
                              for one in allowed if not (ROOT / divided / one).is_dir()]
        self.assertEqual(wrong, [])

    def test_arrows_between_folders_go_one_way(self):
        """What READMEs allow, and what files at the top of a divided folder include, makes no circle."""
        for divided in DIVIDED:
            arrows = {folder: set(included) for folder, included in included_folders(divided).items()}
            for folder in arrows:
                readme = ROOT / divided / folder / "README.md"
                if folder != "." and readme.is_file():
                    arrows[folder] |= allowed_folders(readme) or set()
            self.assertEqual(circle(arrows), [], divided)

    def test_folders_by_subject_are_all_divided(self):
        """A file of code directly in a divided folder belongs to a subject; main.cpp alone ties them together."""
        heap = [name_of(path) for divided in DIVIDED for path in sorted((ROOT / divided).iterdir())
                if path.suffix in (".cpp", ".h") and path.name != "main.cpp"]
        self.assertEqual(heap, [])

    def test_files_that_readmes_name_exist(self):
        """Of divided folders: by a name below the README, or by a path from the room, the headers or the tree."""
        missing = []
        for divided in DIVIDED:
            room = divided.split("/")[1]
            for readme in sorted((ROOT / divided).rglob("README.md")):
                for name in re.findall(r"`([a-z0-9_./]+\.(?:h|cpp|js|css))`", readme.read_text()):
                    include = ROOT / "include"
                    places = [readme.parent, ROOT / divided, include, include / "stepcast", include / "stepcast" / room, ROOT]
                    below = "/" not in name and any(readme.parent.rglob(name))
                    if not below and not any((place / name).is_file() for place in places):
                        missing.append(f"{name_of(readme)} names {name}")
        self.assertEqual(missing, [])

    def test_matchers_are_those_of_both_catch2(self):
        # Catch2 2 has Contains for text, 3 only for ranges (tests/catch.hpp).
        found = [f"{name_of(path)}:{number}" for path in sources("tests") if name_of(path) != "tests/catch.hpp"
                 for number, line in enumerate(lines_of(path), 1) if re.search(r"\b(Contains\(|Matchers::Contains\b|Detail::Approx\b)", line)]
        self.assertEqual([], found)

    def test_a_circle_is_found(self):
        self.assertEqual(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}), ["a", "b", "c", "a"])
        self.assertEqual(circle({"a": {"b", "c"}, "b": {"c"}}), [])

    def test_functions_are_short(self):
        long = [f"{name_of(path)}:{line}: {length} lines" for path in sources("src")
                for line, length in long_functions(path)]
        self.assertEqual(long, [])


if __name__ == "__main__":
    unittest.main()
