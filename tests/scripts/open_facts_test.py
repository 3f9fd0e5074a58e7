"""scripts/open-facts: a run that states no memory is given a reading that `simulate validate` takes, so that the forecast's own
memory can be read.

    python3 tests/scripts/open_facts_test.py SOURCE SIMULATE
"""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
os.environ["SIMULATE"] = str(pathlib.Path(sys.argv.pop(1)).resolve())
sys.dont_write_bytecode = True


def script(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(SOURCE / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class OpenFacts(unittest.TestCase):
    def test_a_run_without_a_reading_has_its_forecast_s_memory(self):
        facts = script("open-facts")
        run = next(json.loads(line) for line in (SOURCE / "tests/validation/korthikanti.jsonl").read_text().splitlines()
                   if '"step_time"' in line)
        self.assertNotIn("peak_memory", run["measured"])
        with tempfile.TemporaryDirectory() as folder:
            rows = facts.forecasts([facts.with_memory(run, "kernels.loss")], folder)[0]
        memory = [row for row in rows if row["metric"] == "peak_memory"]
        self.assertEqual([row["published"] for row in memory], [facts.NO_READING["bytes"]])
        self.assertGreater(memory[0]["predicted"], 1e9)


if __name__ == "__main__":
    unittest.main()
