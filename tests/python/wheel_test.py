"""The wheel as pip makes it from src/python/pyproject.toml, with what this build has compiled, tried in a clean virtual
environment. Arguments: a build, the source tree. Needs scikit-build-core and pip's registry; skipped where they are not to be had."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = sys.argv[1:3]
# Of the interpreter under sanitizers alone: pip and its children run without.
PRELOAD = {k: v for k in ("LD_PRELOAD", "ASAN_OPTIONS") if (v := os.environ.pop(k, None))}
# Rows under the NumPy that pip brings, which lays out its types in another way than the distribution's.
ROWS = """
import numpy
again = stepcast.forecast_many("llama70b", {"cluster.nodes": numpy.array([64, 16])})
for row, nodes in (rows[0], 16), (rows[2], 64), (again[0], 64), (again[1], 16):
    one = stepcast.forecast("llama70b", set=[f"cluster.nodes={nodes}"])
    assert abs(row["step_time"] - one.step_time) < 1e-9 and row["feasible"], (row, nodes)
"""


def run(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)


class Wheel(unittest.TestCase):
    def test_it_installs_into_a_clean_environment_and_runs_the_readmes_example(self):
        with tempfile.TemporaryDirectory() as folder:
            clean = pathlib.Path(folder) / "clean"
            python = clean / "bin" / "python"
            made = run(sys.executable, "-m", "venv", clean)
            tools = made if made.returncode else run(python, "-m", "pip", "install", "-q", "scikit-build-core", "numpy", timeout=300)
            if tools.returncode:
                print("SKIPPED: no virtual environment with scikit-build-core:", (tools.stderr or tools.stdout).strip()[-200:])
                return
            built = run(
                python, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", f"{SOURCE}/src/python", "-w", folder,
                "--config-settings", f"cmake.source-dir={SOURCE}/tests/python/wheel", "--config-settings", f"cmake.define.STEPCAST_BUILD={BUILD}",
                "--config-settings", f"build-dir={folder}/build",
            )
            self.assertEqual(built.returncode, 0, built.stderr)
            wheels = list(pathlib.Path(folder).glob("stepcast-*.whl"))
            self.assertEqual(len(wheels), 1, built.stdout)
            run(python, "-m", "pip", "uninstall", "-q", "-y", "scikit-build-core")
            installed = run(python, "-m", "pip", "install", "-q", "--no-deps", wheels[0])
            self.assertEqual(installed.returncode, 0, installed.stderr)
            plain = {k: v for k, v in os.environ.items() if not k.startswith(("STEPCAST", "PYTHONPATH"))} | PRELOAD
            pages = [(pathlib.Path(SOURCE) / name).read_text() for name in ("README.md", "src/docs/python.md")]
            example = "".join(re.search(r"```python\n(.*?)```", page, re.S).group(1) for page in pages)
            example = "\n".join(line for line in example.splitlines() if "to_frame" not in line)  # pandas is the reader's
            ran = run(python, "-c", example + ROWS + "\nprint(best['conclusion'])", env=plain, cwd=folder)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertRegex(ran.stdout, r"fastest of \d+ possible")
            for name in ("simulate", "stepcast"):
                command = run(clean / "bin" / name, "llama70b", env=plain, cwd=folder)
                self.assertEqual(command.returncode, 0, command.stderr)
                self.assertIn("s a step at", command.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
