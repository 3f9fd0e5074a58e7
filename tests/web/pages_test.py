"""Pages of searches, comparisons and sweeps, and the what-if of `simulate serve`, in headless Chromium.

Arguments: the binary, the source tree, and a folder for screenshots if they are wanted. At desktop and phone width: nothing
on the console, nothing asked from elsewhere, nothing wider than the screen, figures as in the JSON.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

import browser

BINARY, SOURCE = sys.argv[1:3]
SHOTS = sys.argv[3] if len(sys.argv) > 3 else None
if lacking := browser.missing():
    print("SKIPPED:", lacking)
    sys.exit(0)
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
JOB = ["--config", "llama8b-fsdp"]


def simulate(*arguments, may_fail=False):
    return subprocess.run([BINARY, *arguments], cwd=SOURCE, capture_output=True, text=True, check=not may_fail)


class Page(browser.Browser):
    def open(self, url, width=1280, height=900):
        # The browser would not load an address that differs only behind '#'.
        self.call("POST", self.session + "/url", {"url": "about:blank"})
        super().open(url, width, height)

    def run(self, script, *arguments):
        return self.script(script, *arguments)

    def until(self, condition):
        """The first value of the expression that is true."""
        return self.wait(lambda: self.script("return " + condition), condition)

    def logs(self):
        """What the console said, and the addresses that were asked for, since the last call."""
        said = [entry["message"] for entry in self.log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        return said, self.requests()


class WebCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Page()
        cls.addClassCleanup(cls.browser.close)
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def shot(self, name):
        if SHOTS:
            self.browser.screenshot(os.path.join(SHOTS, name + ".png"))

    def well_behaved(self, origin):
        said, asked = self.browser.logs()
        self.assertEqual(said, [])
        self.assertEqual([url for url in asked if not url.startswith(origin)], [])
        width, room = self.browser.run("return [document.documentElement.scrollWidth, innerWidth]")
        self.assertLessEqual(width, room)
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('[id]')].map(e => e.id).filter((id, i, all) => all.indexOf(id) !== i)"), [])

    def figures(self):
        return self.browser.run("return Object.fromEntries([...document.querySelectorAll('[data-figure]')]"
                                ".map(e => [e.dataset.figure, Number(e.dataset.value)]))")

    def numbers(self, table):
        """The exact numbers behind a table's cells, row by row."""
        return self.browser.run("return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)]"
                                ".map(r => [...r.cells].filter(c => c.dataset.value).map(c => Number(c.dataset.value)))", table)

    def near(self, found, expected):
        self.assertAlmostEqual(found / expected if expected else found, 1 if expected else 0, delta=1e-9)


class Pages(WebCase):
    def page(self, name, *arguments):
        """Both widths of the page that a command writes; its JSON."""
        files = [os.path.join(self.folder.name, name + end) for end in (".html", ".json")]
        simulate(*arguments, "--html", files[0], "--json", files[1], may_fail=True)
        url = "file://" + files[0]
        for kind, (width, height) in WIDTHS.items():
            self.browser.open(url, width, height)
            self.well_behaved(url)
            self.shot(f"{name}-{kind}")
        self.browser.open(url)
        with open(files[1], encoding="utf-8") as file:
            return json.load(file)

    def test_search(self):
        found = self.page("search", "search", *JOB, "--vary", "tensor=1,2", "--vary", "micro_batch=1,2", "--vary", "pipeline=1,2")
        figures = self.figures()
        self.near(figures["objective"], found["best"]["objective"])
        self.near(figures["peak"], found["best"]["peak"]["value"])
        self.near(figures["candidates"], found["counts"]["candidates"])
        rows = self.numbers("ranking-table")
        self.assertEqual(len(rows), len(found["ranking"]))
        for row, one in zip(rows, found["ranking"]):
            self.near(row[1], one["objective"])
            self.near(row[-2], one["peak"]["value"])
            self.near(row[-1], one["mfu"])
        self.assertEqual(json.loads(self.browser.run("return document.getElementById('data').textContent")), found)

    def test_algorithms(self):
        found = self.page("algorithms", "search", *JOB, "--vary", "tensor=1,2", "--vary", "micro_batch=1,2", "--algorithm", "evolutionary",
                          "--algorithm", "annealing")
        rows = self.numbers("algorithms")
        self.assertEqual(len(rows), len(found["algorithms"]))
        for row, one in zip(rows, found["algorithms"]):
            if one["found"]:
                self.near(row[0], one["step_time"])
            self.assertIn(one["tried"], row)

    def test_compare(self):
        found = self.page("compare", "compare", *JOB, "--systems", "pytorch-fsdp2,megatron-lm,deepspeed,gpipe")
        ran = [s for s in found["systems"] if s["ran"]]
        self.assertEqual(self.figures()["ran"], len(ran))
        for row, one in zip(self.numbers("systems"), ran, strict=True):
            self.near(row[0], one["step_time"]["value"])
            self.near(row[1], one["mfu"]["value"])
        for row, one in zip(self.numbers("memory-table"), ran, strict=True):
            self.near(row[0], one["peak"]["value"])
        refused = self.browser.run("return [...document.querySelectorAll('#refused tbody tr')].map(r => r.cells[0].textContent)")
        self.assertEqual(refused, [s["name"] for s in found["systems"] if not s["ran"]])

    def test_sweep(self):
        found = self.page("sweep", "sweep", *JOB, "--vary", "cluster.nodes=1..4*2", "--vary", "workload.micro_batch=1,2,3")
        rows = self.numbers("points-table")
        self.assertEqual(len(rows), len(found["points"]))
        self.assertGreater(sum(point["ran"] for point in found["points"]), 1)
        for row, one in zip(rows, found["points"]):
            shown = one["ran"] and any(abs(value / one["step_time"]["value"] - 1) < 1e-9 for value in row)
            self.assertEqual(shown, one["ran"])


class Serve(WebCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = subprocess.Popen([BINARY, "serve", *JOB, "--port", "0"], cwd=SOURCE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        cls.url = cls.server.stdout.readline().strip()
        if not cls.url:
            why = cls.server.stderr.read()
            cls.server.wait()
            if "libcpp-httplib-dev" in why:
                raise unittest.SkipTest("this build has no HTTP")
            raise RuntimeError(why)

    @classmethod
    def tearDownClass(cls):
        cls.server.send_signal(signal.SIGTERM)
        assert cls.server.wait(timeout=60) == 0
        super().tearDownClass()

    def settled(self):
        self.browser.until("/^folded/.test(document.documentElement.dataset.shown) && !document.querySelector('#results.waiting')")

    def answers_on_the_first_screen(self, size):
        """The sentence stands on the first screen, and no table hides a figure at the side."""
        said, bottom = self.browser.run("const e = document.getElementById('conclusion'); return [e.textContent, e.getBoundingClientRect().bottom]")
        self.assertRegex(said, r"a step at .* MFU.*fit")
        self.assertLessEqual(bottom, size[1])
        hidden = self.browser.run("return [...document.querySelectorAll('tbody td')].filter(c => c.textContent && c.checkVisibility() && "
                                  "c.getBoundingClientRect().right > innerWidth + 0.5).map(c => c.textContent)")
        self.assertEqual(hidden, [])

    def expect(self, *overrides):
        """The page's figures are those of the command line."""
        options = [word for one in overrides for word in ("--set", one)]
        report = json.loads(simulate(*JOB, *options, "--json", "-", may_fail=True).stdout)
        self.browser.until(f"Number(document.querySelector('[data-figure=step_time]')?.dataset.value) === {report['step_time']['value']!r}")
        self.settled()
        figures = self.figures()
        for name in ("step_time", "tokens_per_second_per_gpu", "model_flops_per_gpu", "mfu"):
            self.assertEqual(figures[name], report[name]["value"])
        self.assertEqual(figures["peak_memory"], report["memory"]["peak"]["value"])
        self.assertEqual(figures["bubble_fraction"], report["bubble_fraction"])
        self.assertEqual(figures["tokens"], report["tokens"])
        self.assertEqual(self.browser.run("return document.getElementById('conclusion').textContent"), report["conclusion"])
        rows = self.numbers("table")
        self.assertEqual([row[0] for row in rows], [stage["compute"] for stage in report["breakdown"]])
        line = self.browser.run("return document.getElementById('line').textContent")
        self.assertEqual(line, " ".join(["simulate", *JOB, *options]))
        return report

    def change(self, key, value):
        self.browser.run("const e = document.getElementById('c-' + arguments[0].replaceAll('.', '-')); e.value = arguments[1];"
                         "e.dispatchEvent(new Event('change', {bubbles: true}))", key, value)

    def test_as_given(self):
        for kind, (width, height) in WIDTHS.items():
            self.browser.open(self.url, width, height)
            self.expect()
            self.shot(f"serve-{kind}")
            self.well_behaved(self.url)

    def test_a_change_shows_its_forecast_and_stays_in_the_address(self):
        self.browser.open(self.url)
        self.expect()
        self.change("workload.micro_batch", "1")
        self.expect("workload.micro_batch=1")
        self.browser.run("document.querySelector('[aria-label=\"Twice Global batch\"]').click()")
        self.expect("workload.global_batch=32", "workload.micro_batch=1")
        self.assertRegex(self.browser.run("return document.querySelector('[data-figure=step_time]').textContent"), r"\+\d+\.\d %")
        self.shot("serve-changed")
        url = self.browser.run("return location.href")
        self.answers_on_the_first_screen(WIDTHS["desktop"])
        self.browser.open(url, *WIDTHS["phone"])
        self.expect("workload.global_batch=32", "workload.micro_batch=1")
        self.answers_on_the_first_screen(WIDTHS["phone"])
        self.shot("serve-changed-phone")
        self.browser.run("document.getElementById('reset').click()")
        self.expect()
        self.well_behaved(self.url)

    def test_the_job_comes_down_as_yaml(self):
        self.browser.open(self.url)
        self.expect()
        self.browser.run("""window.saved = '';
            URL.createObjectURL = (blob) => { blob.text().then((t) => (window.saved = t)); return 'about:blank#'; };
            HTMLAnchorElement.prototype.click = () => {};
            document.getElementById('download').click()""")
        text = self.browser.until("window.saved")
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            again = json.loads(simulate("--config", file.name, "--json", "-", may_fail=True).stdout)
        report = json.loads(simulate(*JOB, "--json", "-", may_fail=True).stdout)
        self.assertEqual(again["step_time"], report["step_time"])
        self.assertEqual(again["job"], report["job"])

    def test_a_baseline_can_be_pinned(self):
        self.browser.open(self.url)
        self.expect()
        self.change("workload.micro_batch", "1")
        self.expect("workload.micro_batch=1")
        self.browser.run("document.getElementById('pin').click()")
        self.change("memory.recompute", "none")
        self.expect("workload.micro_batch=1", "memory.recompute=none")
        url = self.browser.run("return location.href")
        told = self.browser.run("return document.querySelector('[data-figure=step_time] .against').textContent")
        self.browser.open(url)
        self.expect("workload.micro_batch=1", "memory.recompute=none")
        self.assertEqual(self.browser.run("return document.querySelector('[data-figure=step_time] .against').textContent"), told)

    def test_what_is_impossible_says_why_and_what_does_not_fit_what_would(self):
        self.browser.open(self.url)
        self.expect()
        self.change("parallelism.tensor", "3")
        text = self.browser.until("document.getElementById('faults').textContent")
        self.assertIn("tensor 3", text)
        self.assertEqual(self.browser.run("return document.getElementById('c-parallelism-tensor').getAttribute('aria-invalid')"), "true")
        self.shot("serve-impossible")
        said, _ = self.browser.logs()
        # Chromium itself logs each such answer.
        self.assertTrue(all("400" in one or "422" in one for one in said))
        self.browser.run("document.getElementById('reset').click()")
        self.expect()
        for key, value in (("memory.recompute", "none"), ("workload.sequence_length", "32768")):
            self.change(key, value)
        report = self.expect("workload.sequence_length=32768", "memory.recompute=none")
        self.assertEqual(report["memory"]["fits"]["verdict"], "no")
        self.browser.until("document.querySelector('#advice td')")
        self.shot("serve-does-not-fit")
        changes = self.browser.run("return [...document.querySelectorAll('#advice tbody tr')].map(r => r.cells[0].textContent)")
        self.assertEqual(changes, [one["change"] for one in report["advice"]])
        self.browser.run("document.querySelector('#advice button').click()")
        self.browser.until("!document.querySelector('.tile.bad') && document.querySelector('.tile')")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
