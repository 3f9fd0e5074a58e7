"""The package as a wheel has it, in a folder of its own: the module, the program and the data. Arguments: cmake, a build."""

import os
import subprocess
import sys
import tempfile
import unittest

CMAKE, BUILD = sys.argv[1:3]
USE = """
import os, stepcast
assert "STEPCAST_DATA" in os.environ and os.environ["STEPCAST_DATA"].startswith(os.path.dirname(stepcast.__file__))
report = stepcast.forecast("llama8b-fsdp")
assert report["step_time"]["value"] == stepcast.memory("llama8b-fsdp")["step_time"], report["conclusion"]
print(report)
"""


class Installed(unittest.TestCase):
    def test_it_needs_neither_build_nor_sources(self):
        with tempfile.TemporaryDirectory() as prefix:
            plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
            subprocess.run(
                [CMAKE, "--install", BUILD, "--component", "python", "--prefix", prefix],
                check=True, capture_output=True, env=plain,
            )
            for name in ("__init__.py", "__init__.pyi", "py.typed", "bin/simulate", "share/stepcast/documents.image"):
                self.assertTrue(os.path.exists(os.path.join(prefix, "stepcast", name)), name)
            environment = {k: v for k, v in os.environ.items() if not k.startswith("STEPCAST")}
            environment["PYTHONPATH"] = prefix
            ran = subprocess.run([sys.executable, "-c", USE], env=environment, cwd=prefix, capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn("s a step at", ran.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
