#!/usr/bin/env python3
"""usage: reports.py SIMULATE ROWS [--shots FOLDER]
Opens every kind of HTML report in headless Chromium: no console errors, no requests, no sideways scrolling at desktop and
phone width, dark and light, readable without scripts; then what each kind is about (forecast.py).
ROWS: rows of published data for the validation page. A new kind: a line in `kinds`."""
import json
import pathlib
import subprocess
import sys
import tempfile

import browser
import forecast

DESKTOP, PHONE = (1400, 900), (400, 844)
MOST_BYTES = 5_000_000
ONE_NODE = ["--config", "llama70b", "--set", "cluster.nodes=1", "--set", "parallelism.pipeline=1", "--set",
            "parallelism.virtual_pipeline=1"]


def kinds(rows):
    """Name, arguments of simulate without --html, whether it has --json of its own, its own checks (page, JSON)."""
    excerpt = pathlib.Path(__file__).resolve().parents[1] / "unit/trace/excerpts/a100-2ranks.json"
    return [
        ("forecast", ["--config", "llama70b", "--set", "workload.global_batch=64"], True, forecast.check),
        ("largest", ["--config", "llama405b"], True, forecast.check),
        ("sharded", ["--config", "llama8b-fsdp"], True, forecast.check),
        ("full", [*ONE_NODE, "--set", "workload.global_batch=16"], True, forecast.check),
        # Only its beginning is included.
        ("long", [*ONE_NODE, "--set", "workload.global_batch=256"], True, forecast.check_headline),
        ("bound", ["--config", "llama70b", "--fidelity", "bound"], True, forecast.check_headline),
        ("validation", ["validate", rows], True, check_validation),
        ("profile", ["trace", str(excerpt), "--config", "llama8b-fsdp"], True, check_profile),
        ("run", ["--config", "llama8b-fsdp", "--set", "workload.tokens=1e12", "--offer", "own-dgx-h100"], True, check_run),
        ("compare", ["compare", "--config", "llama8b-fsdp"], True, check_compare),
        ("diff", ["diff", "llama70b", "tp=4", "pp=8"], True, check_diff),
        ("search", ["search", "--config", "llama8b-fsdp", "--vary", "tensor=1,2", "--vary", "micro_batch=1,2", "--vary", "pipeline=1,2"], True,
         check_figures),
        ("sweep", ["sweep", "--config", "llama8b-fsdp", "--vary", "cluster.nodes=1..4*2", "--vary", "workload.micro_batch=1,2,3"], True, check_figures),
        ("plan", ["plan", "--config", "llama8b-fsdp", "--tokens", "1e12", "--deadline", "30d", "--runs", "2", "--set", "memory.recompute=full",
                  "--set", "workload.micro_batch=2", "--set", "parallelism.pipeline=1", "--set", "parallelism.tensor=1"], True, check_plan),
    ]


def check_validation(page, report):
    """The first sentence and the summary's figures are those of --json."""
    assert page.script("return document.querySelector('.conclusion').textContent") == report["conclusion"]
    shown = page.script("""return [...document.querySelectorAll('#sources tbody tr')].map(r =>
        [r.cells[0].textContent, r.cells[1].textContent, ...[5, 6, 7].map(i => Number(r.cells[i].dataset.value))])""")
    told = [[pathlib.Path(s["file"]).stem, s["metric"], s["median"], s["mean"], s["bias"]] for s in report["summary"]]
    assert len(shown) == len(told) > 0
    for a, b in zip(shown, told):
        assert a[:2] == b[:2] and all(forecast.same(x, y) for x, y in zip(a[2:], b[2:])), (a, b)
    # A click on a heading sorts the table.
    page.script("document.querySelectorAll('#sources th button')[5].click()")
    medians = page.script("return [...document.querySelectorAll('#sources tbody tr')].map(r => Number(r.cells[5].dataset.value))")
    assert medians == sorted(medians) and len(medians) == len(told)


def check_profile(page, profile):
    """Times by kind are the JSON's, and the picture of the step has all streams."""
    device = profile["ranks"][0]["devices"][0]
    shown = page.script("return [...document.querySelectorAll('#rank-0-device-0-kinds tbody tr')].map(r => "
                        "[r.cells[0].textContent, Number(r.cells[2].dataset.value)])")
    told = [[k["kind"], k["time"]] for k in device["kinds"]]
    assert len(shown) == len(told) > 0
    for a, b in zip(shown, told):
        assert a[0] == b[0] and forecast.same(a[1], b[1]), (a, b)
    assert page.script("return document.querySelectorAll('figure svg rect').length") >= len(device["streams"])


def check_run(page, report):
    """The whole run's tiles are the JSON's."""
    forecast.check_headline(page, report)
    for name in ("days", "gpu_hours", "energy", "cost", "carbon"):
        shown = page.script("return {...document.querySelector(`[data-figure=run_${arguments[0]}]`).dataset}", name)
        assert all(forecast.same(float(shown[part]), report["run"][name][part]) for part in ("value", "low", "high")), name


def check_plan(page, plan):
    """All clusters stand in two tables, rented and bought, in the JSON's order; those that run are dots of two colours, some with names."""
    kinds = [k for k in ("rented", "bought") if page.script("return !!document.getElementById(arguments[0] + '-table')", k)]
    shown = [row for k in kinds for row in forecast.table(page, k + "-table")]
    clusters = sorted(plan["clusters"], key=lambda c: c["bought"])
    assert [r["cluster"] for r in shown] == [c["name"] for c in clusters]
    names = page.script("return [...document.querySelectorAll('#plot .name')].map(e => e.textContent)")
    assert names and set(names) <= {c["name"] for c in clusters} and len(set(names)) == len(names), names
    for row, c in zip(shown, clusters):
        assert row["meets"] == ("yes" if c["meets"] else "no")
        assert row["limits that it misses"] == "; ".join(s["text"] for s in c["shortfalls"])
        if c["simulated"]:
            assert row["nodes"] == c["nodes"] and forecast.same(row["days"], c["days"]["value"])
            assert row["USD"] == "" if c["cost"] is None else forecast.same(row["USD"], c["cost"]["value"]), row["USD"]
    dots = page.script("return document.querySelectorAll('#plot .dot').length")
    drawn = [c for c in plan["clusters"] if c["simulated"] and c["memory"]["fits"]["spare"] >= 0 and c["cost"] is not None]
    assert dots == len(drawn) > 0
    meeting = page.script("return Number(document.querySelector('[data-figure=meeting]').dataset.value)")
    assert meeting == sum(c["meets"] for c in plan["clusters"])


def check_figures(page, report):
    """The tables have rows; pages_test.py holds their figures."""
    assert page.script("return document.querySelectorAll('tbody tr').length") > 0
    assert page.script("return document.querySelector('.conclusion').textContent") == report["conclusion"]


def check_compare(page, comparison):
    """Every system stands in a table with its figures, those that cannot run the job with the reason."""
    check_figures(page, comparison)
    shown = {row["system"]: row for row in forecast.table(page, "systems")}
    memory = {row["system"]: row for row in forecast.table(page, "memory-table")}
    for s in comparison["systems"]:
        assert (s["name"] in shown) == s["ran"], s["name"]
        if s["ran"]:
            assert forecast.same(shown[s["name"]]["step time"], s["step_time"]["value"]), s["name"]
            assert memory[s["name"]]["fits"].lower().startswith(s["fits"]["verdict"]), s["name"]


def check_diff(page, diff):
    """Figures and keys are the JSON's; the timelines stand one above the other on one scale."""
    check_figures(page, diff)
    shown = forecast.table(page, "figures")
    assert len(shown) == len(diff["figures"]) > 0
    for row, f in zip(shown, diff["figures"]):
        assert forecast.same(row[diff["a"]], f["a"]) and forecast.same(row[diff["b"]], f["b"]), f
    assert [[r["key"], r[diff["a"]], r[diff["b"]]] for r in forecast.table(page, "keys")] == [[k["key"], k["a"], k["b"]] for k in diff["keys"]]
    above, below = page.script("return [...document.querySelectorAll('#timeline svg')].map(e => {"
                               "const b = e.getBoundingClientRect(); return [b.top, b.left, b.width]; })")
    times = [f for f in diff["figures"] if f["name"] == "step time"][0]
    assert above[0] < below[0] and above[1] == below[1]
    assert abs(above[2] / below[2] / (times["a"] / times["b"]) - 1) < 0.01, (above, below, times)


# Texts of tables that the reader cannot see without scrolling a table sideways, and how many were looked at. On a phone the names
# of the columns must stand beside each figure.
HIDDEN = """
    const found = [], tables = [...document.querySelectorAll('table')].filter(t => t.checkVisibility());
    let seen = 0;
    for (const t of tables) {
      for (const cell of t.querySelectorAll('tbody td')) {
        if (!cell.textContent.trim() || !cell.checkVisibility()) continue;
        const range = document.createRange();
        range.selectNodeContents(cell);
        const box = range.getBoundingClientRect();
        ++seen;
        const named = !cell.dataset.label || innerWidth > 600 || getComputedStyle(cell, '::before').content.includes(cell.dataset.label);
        if (box.left < 0 || box.right > innerWidth + 0.5 || !named) found.push([t.id, cell.textContent.slice(0, 40), box.left, box.right]);
      }
    }
    return [found, seen];"""


def check_anywhere(page, url, name, shots):
    for size in (DESKTOP, PHONE):
        for dark in (False, True):
            page.open(url, *size, dark=dark)
            page.wait(lambda: page.script("return document.readyState === 'complete'"), "the page")
            assert page.script("return matchMedia('(max-width: 600px)').matches") == (size == PHONE)
            wide = page.script("return document.documentElement.scrollWidth")
            assert wide <= size[0], f"{name}: {wide} pixels wide on {size[0]}"
            # The answer stands on the first screen.
            answer = page.script("""const e = document.querySelector('.conclusion, #headline p');
                return e && [e.textContent, e.getBoundingClientRect().bottom]""")
            assert answer and answer[0].strip() and answer[1] <= size[1], f"{name}: {answer} is not on the first {size[1]} pixels"
            hidden, cells = page.script(HIDDEN)
            assert not hidden, f"{name}: at {size[0]} pixels a table hides {hidden[:5]}"
            assert cells > 0 or name == "bound", f"{name}: no table was looked at"  # a bound has tiles alone
            paper = page.script("return getComputedStyle(document.body).backgroundColor")
            brightness = sum(int(x) for x in paper.strip("rgba()").split(",")[:3])
            assert (brightness < 200) == dark, f"{name}: paper is {paper}"
            pale, seen = page.pale()
            assert seen > 20 and not pale, f"{name}: too pale to read: {pale}"
            problems = [e["message"] for e in page.log("browser")]
            assert not problems, f"{name}: {problems}"
            assert not page.requests(), f"{name}: asks for {page.requests()}"
            if shots:
                page.screenshot(f"{shots}/{name}-{size[0]}-{'dark' if dark else 'light'}.png")
    # On paper, a portrait A4: nothing is cut off, and tables keep their headings.
    page.open(url, 794, 1123, media="print")
    assert page.script("return document.documentElement.scrollWidth") <= 794, f"{name}: wider than its paper"
    assert page.script("""return [...document.querySelectorAll('main table th')].filter(e => e.textContent.trim() &&
        e.checkVisibility()).every(e => (e.querySelector('button') || e).checkVisibility())"""), f"{name}: headings are lost on paper"
    for tag in ("header", "main", "h1", "footer"):
        assert page.script("return document.getElementsByTagName(arguments[0]).length", tag) == 1, tag
    unnamed = page.script("""return [...document.querySelectorAll('section, [role=img], canvas, button')].filter(e =>
        !e.getAttribute('aria-label') && !e.textContent.trim() &&
        !document.getElementById(e.getAttribute('aria-labelledby'))).map(e => e.outerHTML.slice(0, 200))""")
    assert not unnamed, f"{name}: without a name: {unnamed}"
    # The button switches to the scheme other than the system's.
    page.open(url, *DESKTOP)
    before = page.script("return getComputedStyle(document.body).backgroundColor")
    page.script("document.getElementById('theme').click()")
    assert page.script("return getComputedStyle(document.body).backgroundColor") != before
    page.script("try { localStorage.clear(); } catch { }")


def main():
    if (lacks := browser.missing()) is not None:
        print("SKIPPED:", lacks)
        return
    simulate, rows = sys.argv[1:3]
    shots = sys.argv[4] if len(sys.argv) > 4 else None
    with tempfile.TemporaryDirectory(prefix="stepcast-reports-") as folder:
        page = browser.Browser()
        try:
            for name, arguments, has_json, check in kinds(rows):
                file = pathlib.Path(folder, name + ".html")
                out = pathlib.Path(folder, name + ".json")
                command = [simulate, *arguments, "--html", str(file), *(["--json", str(out)] if has_json else [])]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                assert done.returncode in (0, 1), f"{command}: {done.stderr}"
                assert file.stat().st_size < MOST_BYTES, f"{name}: {file.stat().st_size} bytes"
                check_anywhere(page, file.as_uri(), name, shots)
                page.open(file.as_uri(), *DESKTOP)
                check(page, json.loads(out.read_text()) if has_json else None)
                assert not page.log("browser") and not page.requests(), name
                page.open(file.as_uri(), *DESKTOP, scripts=False)
                check_without_scripts(page, name)
                print(f"{name}: {file.stat().st_size} bytes, as it should be", flush=True)
        finally:
            page.close()


def check_without_scripts(page, name):
    """Figures stand in the page's text; what only scripts can draw gives way to its still."""
    # Scripts are disabled, so the tree is read through the DevTools.
    # A second call would invalidate the nodes.
    root = page.devtools("DOM.getDocument", depth=0)["root"]["nodeId"]

    def all_of(selector):
        return page.devtools("DOM.querySelectorAll", nodeId=root, selector=selector)["nodeIds"]

    def drawn(node):
        try:
            return page.devtools("DOM.getBoxModel", nodeId=node)["model"]["height"] > 0
        except RuntimeError:  # the node has no box
            return False
    assert not all_of("html.js"), f"{name}: scripts ran"
    figures = all_of(".tile dd") + all_of("main > section > .wide td")
    assert figures and all(drawn(n) for n in figures[:40]), f"{name}: figures are hidden without scripts"
    assert not any(drawn(n) for n in all_of(".live")), f"{name}: a dead canvas is shown"
    assert all(drawn(n) for n in all_of(".still svg")), f"{name}: the still is hidden"


if __name__ == "__main__":
    main()
