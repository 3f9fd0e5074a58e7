"""What a forecast's page must do: its figures are those of --json, and its timeline can be pointed at, zoomed and stepped through."""
import re

# What people read in place of a communicator's name.
WORDS = {"norm": "gradient norm", "expert tensor": "tensor within experts", "tensor expert": "tensor, expert-parallel", "expert": "expert-parallel", "expert data": "data of experts", "pipe": "pipeline"}
CONTROL = 2  # value of the modifier in Input.dispatchKeyEvent and dispatchMouseEvent


def same(a, b, tolerance=1e-9):
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def table(page, name):
    """Rows of a table as {column: figure}."""
    return page.script("""const t = document.getElementById(arguments[0]);
        if (!t) return null;
        const heads = [...t.tHead.rows[0].cells].map(c => c.textContent);
        return [...t.tBodies[0].rows].map(r => Object.fromEntries([...r.cells].map((c, i) =>
            [heads[i], 'value' in c.dataset ? Number(c.dataset.value) : c.textContent])));""", name)


def check_headline(page, report):
    tiles = page.script("""return Object.fromEntries([...document.querySelectorAll('.tile')].map(t =>
        [t.dataset.figure, {...t.dataset, text: t.querySelector('dd').textContent}]))""")
    for figure in ("step_time", "tokens_per_second_per_gpu", "model_flops_per_gpu", "mfu", "hfu"):
        for part in ("value", "low", "high"):
            assert same(float(tiles[figure][part]), report[figure][part]), figure
    assert same(float(tiles["peak"]["value"]), report["memory"]["peak"]["value"])
    assert tiles["fits"]["text"] == report["memory"]["fits"]["verdict"]
    # The displayed values are the report's.
    number, unit = tiles["step_time"]["text"].split()
    assert same(float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit], report["step_time"]["value"], 1e-3)
    notes = page.script("return [...document.querySelectorAll('.notes li')].map(n => n.textContent)")
    assert notes == report["notes"]


def check_tables(page, report):
    shown = table(page, "breakdown")
    assert len(shown) == len(report["breakdown"])
    for row, stage in zip(shown, report["breakdown"]):
        parts = {**stage, **stage["exposed"]}
        assert row["stage"] == stage["stage"]
        for name, seconds in row.items():
            assert name in ("stage", "") or same(seconds, parts[name]), (name, seconds, parts[name])
    shown = table(page, "memory-table")
    assert len(shown) == len(report["memory"]["stages"])
    for row, stage in zip(shown, report["memory"]["stages"]):
        parts = {**stage, **stage["peak"], "used": stage["peak"]["process"] / report["memory"]["capacity"]}
        for name, figure in row.items():
            assert name == "" or same(figure, parts[name]), (name, figure)
    shown = table(page, "traffic") or []
    assert len(shown) == len(report["traffic"])
    for row, traffic in zip(shown, report["traffic"]):
        assert row["group"] == WORDS.get(traffic["group"], traffic["group"])
        assert row["operation"] == re.sub("^tokens", "expert dispatch/combine", traffic["op"])
        assert row["count"] == traffic["count"] and same(row["data"], traffic["bytes"]) and same(row["time"], traffic["time"])
    shown = table(page, "calibration")
    assert [r["provenance"] for r in shown] == [c["provenance"] for c in report["calibration"]]
    shown = table(page, "advice-table") or []
    assert [(r["--set"], r["peak, GiB"]) for r in shown] == [(a["change"], a["peak"]) for a in report["advice"]]
    for row in table(page, "link-classes") or []:
        assert 0 <= row["used, mean"] <= row["used, busiest"] * (1 + 1e-9)
    assert sum(r["time"] for r in table(page, "critical-path")) <= report["step_time"]["value"] * (1 + 1e-9)


def check_tasks(page, report):
    """Tasks of a compute stream follow one another, and their time is what the breakdown says."""
    sums = page.script("""return stepcast.timeline.rows.map(r => {
        let busy = 0, overlaps = 0;
        const kinds = JSON.parse(document.getElementById('timeline-data').textContent).kinds;
        for (let i = 0; i < r.tasks; ++i) {
          const k = kinds[r.kind[i]].colour;
          if (['compute', 'forward', 'backward', 'recompute', 'optimizer'].includes(k)) busy += r.end[i] - r.begin[i];
          if (i > 0 && r.start[i] < r.end[i - 1]) ++overlaps;
        }
        return [r.stream, r.stage, busy / 1e9, overlaps, r.tasks];
    })""")
    compute = {stage: busy for stream, stage, busy, _, _ in sums if stream == "compute"}
    assert all(overlaps == 0 for stream, _, _, overlaps, _ in sums if stream == "compute")
    step = report["step_time"]["value"]
    for stage in report["breakdown"]:
        told = sum(stage[k] for k in ("compute", "recompute", "optimizer", "slowdown"))
        assert abs(compute[stage["stage"]] - told) < 2e-3 * step, (stage["stage"], compute[stage["stage"]], told)


def window(page):
    return page.script("const c = document.querySelector('canvas'); return [Number(c.dataset.from), Number(c.dataset.to)]")


def changed(page, before):
    return page.wait(lambda: (now := window(page)) != before and now, "the window to change")


def check_shapes(page):
    """What a frame draws is bounded by what a window can show, whatever the number of tasks; and each pixel of a row is of a
    task or of none, as the tasks say."""
    seen = page.script("""const t = stepcast.timeline, c = document.querySelector('canvas'), { from, to } = t.view, out = [];
        for (const share of [1, 0.3, 0.1, 0.02, 0.004]) {
          for (const at of [0, 0.37, 1]) {
            const start = from + (to - from) * (1 - share) * at;
            t.look(start, start + (to - from) * share);
            t.draw();
            out.push([Number(c.dataset.drawn), c.clientWidth, t.rows.length]);
          }
        }
        t.look(from, to);
        t.draw();
        return out;""")
    least = 4  # pixels of a task that is drawn individually, with at most four shapes
    for drawn, width, rows in seen:
        assert 0 < drawn <= rows * (width / least * 4 + 1), (drawn, width, rows)
    tasks = page.script("return stepcast.timeline.rows.map(r => r.tasks)")
    busiest = tasks.index(max(tasks))
    shown = page.script("""const t = stepcast.timeline, r = t.rows[arguments[0]], c = document.querySelector('canvas');
        const pen = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
        const ratio = c.width / c.clientWidth, box = c.getBoundingClientRect(), out = [];
        const at = (i) => {
          const [x, y] = t.placeOf(arguments[0], i);
          pen.drawImage(c, Math.floor((x - box.left) * ratio), Math.floor((y - box.top) * ratio), 1, 1, 0, 0, 1, 1);
          return [...pen.getImageData(0, 0, 1, 1).data].join();
        };
        for (let i = 1; i + 1 < r.tasks && out.length < 12; i += Math.ceil(r.tasks / 12)) {
          const middle = (r.start[i] + r.end[i]) / 2, span = 60 * (r.end[i] - r.start[i]);  // too narrow for its name
          if (span < 12000 || r.begin[i] - r.start[i] > 0.3 * (r.end[i] - r.start[i])) continue;
          t.look(middle - span / 2, middle + span / 2);
          t.draw();
          if (t.view.from <= r.start[i] && r.end[i] <= t.view.to) out.push([at(i), t.colourOf(arguments[0], i)]);
        }
        t.look(-1e18, 1e18);
        t.draw();
        return out;""", busiest)
    assert shown and all(a == b for a, b in shown), shown


def check_timeline(page):
    page.script("document.querySelector('canvas').scrollIntoView({block: 'start'})")
    whole = window(page)
    # Hover: the longest task of the first row shows its facts.
    longest = page.script("""const r = stepcast.timeline.rows[0]; let b = 0;
        for (let i = 0; i < r.tasks; ++i) if (r.end[i] - r.start[i] > r.end[b] - r.start[b]) b = i;
        const span = 20 * (r.end[b] - r.start[b]);
        stepcast.timeline.look(r.start[b] - span / 2, r.start[b] + span / 2); stepcast.timeline.draw();
        return b;""")
    x, y = page.script("return stepcast.timeline.placeOf(0, arguments[0])", longest)
    page.mouse("mouseMoved", x, y)
    tip = page.wait(lambda: page.script("const t = document.querySelector('.tip'); return !t.hidden && t.textContent"), "a tip")
    facts = page.script("return stepcast.timeline.describe(0, arguments[0])", longest)
    assert tip == "".join(facts) and "stage 0" in tip and " from " in tip, (tip, facts)
    page.script("stepcast.timeline.look(-1e18, 1e18); stepcast.timeline.draw()")
    assert window(page) == whole
    # Zoom by keys, by wheel with Ctrl, by button; pan by keys and by dragging.
    page.script("document.querySelector('canvas').focus()")
    page.key("+", "+")
    near = changed(page, whole)
    assert near[1] - near[0] < whole[1] - whole[0] and whole[0] <= near[0] and near[1] <= whole[1]
    page.key("+", "+")
    near = changed(page, near)
    page.key("ArrowRight")
    right = changed(page, near)
    assert right[0] > near[0]
    page.key("-", "-")
    far = changed(page, right)
    assert far[1] - far[0] > right[1] - right[0]
    page.key("Home")
    assert changed(page, far) == whole
    x, y = page.script("const b = document.querySelector('canvas').getBoundingClientRect(); return [b.left + 0.6 * b.width, b.top + 30]")
    page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-60, modifiers=CONTROL)
    wheeled = changed(page, whole)
    assert wheeled[1] - wheeled[0] < whole[1] - whole[0]
    page.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    page.mouse("mouseMoved", x - 60, y, button="left", buttons=1)
    page.mouse("mouseReleased", x - 60, y, button="left", clickCount=1)
    assert changed(page, wheeled)[0] > wheeled[0]
    page.script("document.querySelector('button[data-do=all]').click()")
    page.wait(lambda: window(page) == whole, "the whole step")
    page.script("document.querySelector('button[data-do=in]').click()")
    changed(page, whole)
    # Step through tasks: each is announced to screen readers.
    page.key("Escape")
    page.script("stepcast.timeline.look(-1e18, 1e18); document.querySelector('canvas').focus()")
    told = []
    for _ in range(3):
        before = page.script("return document.querySelector('[aria-live]').textContent") if told else ""
        page.key("Enter", "\r")
        told.append(page.wait(lambda: (t := page.script("return document.querySelector('[aria-live]').textContent")) != before and t,
                              "the next task"))
    assert len(set(told)) == 3 and all("stage 0" in t for t in told)
    assert page.script("return document.querySelector('canvas').tabIndex") == 0
    # In print a still image replaces the canvas.
    page.devtools("Emulation.setEmulatedMedia", media="print")
    assert page.script("""const shown = q => document.querySelector(q).getBoundingClientRect().height > 0;
        return !shown('.live') && shown('.still svg')""")
    page.devtools("Emulation.setEmulatedMedia", media="")


def check(page, report):
    check_headline(page, report)
    check_tables(page, report)
    check_tasks(page, report)
    check_shapes(page)
    check_timeline(page)
