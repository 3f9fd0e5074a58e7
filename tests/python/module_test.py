"""The Python module against the command line. Arguments: the binary, the source tree."""

import contextlib
import io
import json
import os
import subprocess
import sys
import threading
import unittest

try:
    import numpy as np
except ImportError:
    print("SKIPPED: NumPy (python3-numpy) is not installed")
    sys.exit(0)
import stepcast

BINARY, SOURCE = sys.argv[1:3]
JOB = {
    "model": "llama-3-8b",
    "cluster": {"use": "dgx-h100", "nodes": 2},
    "system": "megatron-lm",
    "workload": {"sequence_length": 8192, "global_batch": 64, "micro_batch": 1},
    "parallelism": {"tensor": 2, "pipeline": 2, "sharding": "zero1"},
}
ROWS = {
    "parallelism.tensor": np.array([1, 2, 4, 8, 3, 2], dtype=np.int32),
    "workload.micro_batch": np.array([1, 9, 2, 9, 1, 9, 2, 9, 1, 9, 1, 9])[::2],  # a view with strides
    "memory.recompute": ["full", "none", "selective", "{every: 2}", "none", "full"],
    "kernels.compile": np.array([False] * 6),
    "system.launch": np.array([5e-6, 5e-6, 4e-6, 5e-6, 5e-6, 6e-6]),
}


def simulate(*arguments):
    """The JSON of a command, or its faults."""
    ran = subprocess.run([BINARY, *arguments, "--json", "-"], capture_output=True, text=True, cwd=SOURCE)
    return json.loads(ran.stdout) if ran.stdout else ran.stderr.strip()


def option(value):
    return value if isinstance(value, str) else json.dumps(value.item())


class Forecast(unittest.TestCase):
    def test_equals_the_command_line(self):
        for name, overrides in (
            ("llama70b", []),
            ("llama8b-fsdp", ["memory.recompute=none", "workload.micro_batch=2"]),
            ("llama70b", ["workload.micro_batch=4"]),  # does not fit in memory, so it has advice
        ):
            sets = [part for one in overrides for part in ("--set", one)]
            self.assertEqual(stepcast.forecast(name, set=overrides), simulate("--config", name, *sets))
        self.assertEqual(
            stepcast.forecast("llama8b-fsdp", fidelity="bound"),
            simulate("--config", "llama8b-fsdp", "--fidelity", "bound"),
        )

    def test_a_dict_is_a_job_file(self):
        report = stepcast.forecast(JOB)
        again = stepcast.forecast(report["job"])  # with every default filled in
        self.assertEqual(report["step_time"], again["step_time"])
        self.assertEqual(report["job"]["parallelism"]["tensor"], 2)
        changed = {**JOB, "workload": {**JOB["workload"], "micro_batch": np.int64(2)}}
        self.assertEqual(
            stepcast.forecast(changed)["step_time"],
            stepcast.forecast(JOB, set=["workload.micro_batch=2"])["step_time"],
        )

    def test_faults_are_the_same_lines(self):
        with self.assertRaises(stepcast.InputError) as caught:
            stepcast.forecast({**JOB, "parallelism": {"tensr": 3, "pipeline": "x"}})
        lines = str(caught.exception).splitlines()
        self.assertEqual(len(lines), 2)
        self.assertTrue(lines[0].startswith("job.parallelism.tensr: error: unknown key 'tensr'; expected"))
        self.assertTrue(lines[1].startswith("job.parallelism.pipeline: error: "))
        self.assertIsInstance(caught.exception, ValueError)
        with self.assertRaises(stepcast.InputError) as caught:
            stepcast.forecast("llama70b", set=["parallelism.tensor=7"])
        self.assertEqual(
            str(caught.exception), simulate("--config", "llama70b", "--set", "parallelism.tensor=7")
        )
        for bad, text in (({"model": object()}, "job.model: error: is a object"), ("no-such-job", "no-such-job")):
            with self.assertRaises(stepcast.InputError) as caught:
                stepcast.forecast(bad)
            self.assertIn(text, str(caught.exception))
        with self.assertRaises(stepcast.InputError):
            stepcast.forecast(JOB, fidelity="fold")


class Batch(unittest.TestCase):
    def test_rows_are_forecasts(self):
        rows = stepcast.forecast_many(JOB, ROWS)
        self.assertEqual(
            rows.dtype.names, ("step_time", "low", "high", "peak_memory", "mfu", "fits_probability", "fits", "feasible")
        )
        for i, row in enumerate(rows):
            overrides = [f"{key}={option(values[i])}" for key, values in ROWS.items()]
            if not row["feasible"]:
                self.assertTrue(np.isnan(row["step_time"]) and not row["fits"])
                with self.assertRaises(stepcast.InputError):
                    stepcast.forecast(JOB, set=overrides)
                continue
            report = stepcast.forecast(JOB, set=overrides)
            self.assertEqual(
                tuple(round(float(row[key]), 12) for key in ("step_time", "low", "high")),
                tuple(report["step_time"][key] for key in ("value", "low", "high")),
            )
            self.assertEqual(row["peak_memory"], report["memory"]["peak"]["value"])
            self.assertEqual(row["fits_probability"], report["memory"]["fits"]["probability"])
            self.assertEqual(row["fits"], report["memory"]["fits"]["spare"] >= 0)
        self.assertTrue(rows["feasible"].any() and not rows["feasible"].all())

    def test_any_number_of_threads_gives_the_same_bytes(self):
        one = stepcast.forecast_many(JOB, ROWS, threads=1)
        for threads in (2, 4, 0):
            self.assertEqual(one.tobytes(), stepcast.forecast_many(JOB, ROWS, threads=threads).tobytes())

    def test_other_threads_run_meanwhile(self):
        turns, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                turns[0] += 1

        counter = threading.Thread(target=count)
        sizes = np.arange(64, 64 + 64 * 100, 64)
        counter.start()
        before = turns[0]
        stepcast.forecast_many(JOB, {"workload.global_batch": sizes}, fidelity="bound", threads=1)
        during = turns[0] - before
        stop.set()
        counter.join()
        # If forecast() held the lock, this thread would not run.
        self.assertGreater(during, len(sizes))

    def test_columns_that_do_not_fit_together(self):
        for overrides in (
            {},
            {"parallelism.tensor": [1, 2], "parallelism.pipeline": [1]},
            {"parallelism.tensor": np.ones((2, 2))},
        ):
            with self.assertRaises(stepcast.InputError):
                stepcast.forecast_many(JOB, overrides)
        self.assertEqual(len(stepcast.forecast_many(JOB, {"parallelism.tensor": []})), 0)


class Search(unittest.TestCase):
    def test_equals_the_command_line_and_brute_force(self):
        space = {"parallelism.tensor": [4, 8], "parallelism.pipeline": [4, 8], "workload.micro_batch": [1, 2]}
        answer = stepcast.search("llama70b", space, set=["parallelism.virtual_pipeline=1"])
        self.assertEqual(answer["gap"], 0)  # the optimum of the space
        shape = np.array(np.meshgrid(*space.values(), indexing="ij")).reshape(3, -1)
        base = stepcast.forecast("llama70b", set=["parallelism.virtual_pipeline=1"])["job"]
        rows = stepcast.forecast_many(base, dict(zip(space, shape)))
        best = rows["step_time"][rows["fits"]].min()
        self.assertAlmostEqual(answer["best"]["step_time"]["value"] / best, 1, places=9)
        with self.assertRaises(stepcast.InputError):
            stepcast.search("llama70b", {"tensr": [1]})
        with self.assertRaises(stepcast.InputError):
            stepcast.search("llama70b", objective="speed")


class Commands(unittest.TestCase):
    def test_equal_the_command_line(self):
        self.assertEqual(stepcast.memory("llama8b-fsdp"), simulate("memory", "--config", "llama8b-fsdp"))
        self.assertEqual(
            stepcast.sweep("llama8b-fsdp", {"workload.micro_batch": [1, 2]}, set=["memory.recompute=none"]),
            simulate("sweep", "llama8b-fsdp", "memory.recompute=none", "--vary", "mbs=1,2"),
        )
        self.assertEqual(
            stepcast.goodput("llama8b-fsdp", duration="30d"),
            simulate("goodput", "--config", "llama8b-fsdp", "--duration", "30d"),
        )
        self.assertEqual(
            stepcast.explain("llama8b-fsdp", measured="2.5s"),
            simulate("explain", "--config", "llama8b-fsdp", "--measured", "2.5s"),
        )
        systems = "pytorch-fsdp2,deepspeed"
        self.assertEqual(
            stepcast.compare("llama8b-fsdp", systems.split(",")),
            simulate("compare", "--config", "llama8b-fsdp", "--systems", systems),
        )

    def test_a_dict_is_a_job_too(self):
        self.assertEqual(stepcast.memory(JOB)["step_time"], stepcast.forecast(JOB).step_time)
        with self.assertRaisesRegex(stepcast.InputError, "tensr"):
            stepcast.memory({**JOB, "parallelism": {"tensr": 2}})

    def test_a_plan_says_what_is_wrong(self):
        with self.assertRaisesRegex(stepcast.InputError, "--deadline"):
            stepcast.plan("llama70b", tokens="2T", deadline="soon")

    def test_launch_files(self):
        with self.assertRaises(stepcast.InputError):
            stepcast.from_launch("megatron", "/nowhere.sh", cluster="dgx-h100", nodes=1)


class Notebook(unittest.TestCase):
    def test_a_forecast_shows_itself(self):
        report = stepcast.forecast("llama70b")
        self.assertEqual(str(report), report["conclusion"])
        page = report._repr_html_()
        self.assertIn(report["title"], page)
        self.assertEqual(page.count("<div>stage "), len(report["breakdown"]))
        self.assertEqual(report.fits, "yes")

    def test_frames(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        report = stepcast.forecast("llama70b")
        frame = report.to_frame()
        self.assertEqual(len(frame), len(report["breakdown"]))
        self.assertIn("memory.peak.process", frame.columns)
        self.assertEqual(len(stepcast.sweep("llama8b-fsdp", {"mbs": [1, 2]}).to_frame()), 2)

    def test_the_notebooks_run(self):
        folder = os.path.join(SOURCE, "src", "python", "example")
        names = [name for name in sorted(os.listdir(folder)) if name.endswith(".ipynb")]
        self.assertEqual(len(names), 2)
        for name in names:
            with open(os.path.join(folder, name)) as file:
                cells = json.load(file)["cells"]
            space = {}
            for cell in cells:
                if cell["cell_type"] == "code":
                    with contextlib.redirect_stdout(io.StringIO()):
                        exec(compile("".join(cell["source"]), name, "exec"), space)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
