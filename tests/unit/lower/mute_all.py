"""Leaves out one hook of one feature after the other, and names the hooks without which all tests still pass.

    python3 tests/unit/lower/mute_all.py build/release/tests/test_unit_lower
"""
import os
import pathlib
import re
import subprocess
import sys

LOWER = pathlib.Path(__file__).resolve().parents[3] / "src" / "lower"


def hooks_of(source):
    """Hooks that a feature's file overrides; of end_of_step each part that the file names."""
    hooks = re.findall(r"\b(\w+)\([^()]*\) override", source)
    parts = dict.fromkeys(re.findall(r"StepEnd::(\w+)", source))
    return [hook for hook in hooks if hook != "end_of_step"] + ["end_of_step." + part for part in parts]


def entries():
    sources = [path.read_text() for path in sorted(LOWER.rglob("*.cpp"))]
    for name, make in re.findall(r'FeatureEntry\{"([^"]+)",\s*(\w+)\}', (LOWER / "stage/feature_list.cpp").read_text()):
        source = next(s for s in sources if f"std::unique_ptr<Feature> {make}()" in s)
        for hook in hooks_of(source):
            yield f"{name}:{hook}"


def passes(program, muted):
    environment = os.environ | {"STEPCAST_MUTE": muted}
    return subprocess.run([program], stdout=subprocess.DEVNULL, env=environment).returncode == 0


def main():
    program = sys.argv[1]
    if not passes(program, ""):
        sys.exit("tests fail with all hooks")
    every = list(entries())
    unguarded = [entry for entry in every if passes(program, entry)]
    print(f"{len(every) - len(unguarded)} of {len(every)} hooks make a test fail when they are left out")
    for entry in unguarded:
        print(f"no test fails without {entry}")
    sys.exit(1 if unguarded else 0)


if __name__ == "__main__":
    main()
