// Draws the timeline of a step on a canvas, one row per stage and stream, with zoom, pan, tips, and keyboard steps through
// tasks. The data are JSON with names and rows, and base64 of five variable-length integers per task
// (timeline_data.cpp).
"use strict";
stepcast.timeline = (function () {
  const source = document.getElementById("timeline-data");
  const place = document.getElementById("timeline-live");
  if (!source || !place) return null;
  const data = JSON.parse(source.textContent);
  const { rows, first, duration, describe } = stepcast.timelineRows(data);
  const canvas = place.querySelector("canvas");
  const pen = canvas.getContext("2d", { alpha: false });
  const live = place.querySelector("[aria-live]");
  const facts = place.querySelector(".facts");
  const whole = { from: data.from, to: data.to };
  let view = { ...whole };
  let mode = "kind";
  let streams = rows.length * 14 < 1600;
  let shown = [];  // visible rows with their position: {row, y, height}
  let chosen = null;   // {row, task}
  let theme = {};
  let queued = false;
  const axis = 22;
  const kAlone = 4;  // width in pixels from which a task is drawn individually
  const strip = stepcast.timelineStrip();
  const box = { width: 0 };
  let drawn = 0;  // number of shapes in the last frame

  // ---------------------------------------------------------------- looks
  function readTheme() {
    const css = getComputedStyle(document.documentElement);
    const value = (name) => css.getPropertyValue("--" + name).trim();
    theme = { paper: value("paper"), ink: value("ink"), faint: value("faint"), line: value("line"), bubble: value("bubble"),
      accent: value("accent"), band: value("band"), of: {}, batches: new Map(), paints: [], batchPaints: [] };
    for (const k of data.kinds) theme.of[k.colour] = value(k.colour) || value("other");
    theme.dark = stepcast.dark();
  }

  function colour(row, i) {
    const kind = data.kinds[row.kind[i]];
    if (mode === "kind" || row.batch[i] < 0 || !kind.pass) return theme.of[kind.colour];
    const key = row.batch[i] * 4 + kind.pass;
    let c = theme.batches.get(key);
    if (!c) {
      const hue = (205 + row.batch[i] * 31) % 360;
      const light = (theme.dark ? [0, 66, 40, 54] : [0, 74, 48, 62])[kind.pass];
      c = `hsl(${hue.toFixed(0)} ${kind.pass === 3 ? 14 : 44}% ${light}%)`;
      theme.batches.set(key, c);
    }
    return c;
  }

  // A task's colour in the format of ImageData, cached by number, since there are many tasks and few colours.
  function paintOf(row, i) {
    const kind = data.kinds[row.kind[i]];
    if (mode === "kind" || row.batch[i] < 0 || !kind.pass) {
      return theme.paints[row.kind[i]] ?? (theme.paints[row.kind[i]] = strip.paint(colour(row, i)));
    }
    const key = row.batch[i] * 4 + kind.pass;
    return theme.batchPaints[key] ?? (theme.batchPaints[key] = strip.paint(colour(row, i)));
  }

  const wideNow = () => box.width || (box.width = canvas.clientWidth);  // read once per frame: reading it forces a layout
  const gutter = () => (wideNow() < 600 ? 34 : 112);
  const scale = () => (wideNow() - gutter()) / (view.to - view.from);
  const xOf = (time) => gutter() + (time - view.from) * scale();
  const timeAt = (x) => view.from + (x - gutter()) / scale();

  function arrange() {
    shown = [];
    let y = axis;
    const stages = new Set(rows.map((r) => r.stage)).size;
    const tall = stages > 24 ? 14 : 20;
    const low = streams && rows.length <= 64 ? 11 : 7;  // of further streams: with or without room for a name
    rows.forEach((row) => {
      const compute = row.stream === "compute";
      if (!compute && !streams) return;
      if (compute && y > axis) y += 4;
      shown.push({ row, y, height: compute ? tall : low });
      y += (compute ? tall : low) + 1;
    });
    canvas.style.height = y + 4 + "px";
  }

  // ---------------------------------------------------------------- drawing
  let filled = "";
  function fill(paint, x, y, w, h) {  // browsers parse a colour each time it is set
    if (paint !== filled) pen.fillStyle = filled = paint;
    pen.fillRect(x, y, w, h);
    ++drawn;
  }

  const widths = new Map();  // widths of texts in the rows' font
  function widthOf(text) {
    let found = widths.get(text);
    if (found === undefined) widths.set(text, found = pen.measureText(text).width);
    return found;
  }

  function draw() {
    queued = false;
    filled = "";
    drawn = 0;
    box.width = 0;
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = theme.paper;
    pen.fillRect(0, 0, width, height);
    drawAxis(width, height);
    pen.textBaseline = "middle";
    drawRows(width, ratio);
    pen.fillStyle = theme.paper;
    pen.fillRect(0, axis, gutter() - 4, height);
    for (const { row, y, height: h } of shown) {
      const compute = row.stream === "compute";
      if (h < 10 || (!compute && gutter() < 50)) continue;
      pen.fillStyle = theme.ink;
      pen.font = compute ? "11px sans-serif" : "9px sans-serif";
      const name = compute ? `stage ${row.stage} ${row.stream}` : row.stream;
      pen.fillText(gutter() < 50 ? String(row.stage) : name, compute ? 2 : 12, y + h / 2);
    }
    pen.font = "11px sans-serif";
    if (chosen) drawChosen();
    canvas.dataset.from = view.from / 1e9;
    canvas.dataset.to = view.to / 1e9;
    canvas.dataset.drawn = drawn;
  }

  function drawAxis(width, height) {
    const rough = (view.to - view.from) / Math.max(2, (width - gutter()) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
    pen.font = "11px sans-serif";
    pen.textBaseline = "alphabetic";
    for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
      const x = Math.round(xOf(t)) + 0.5;
      pen.fillStyle = theme.line;
      pen.fillRect(x, 14, 1, height);
      pen.fillStyle = theme.faint;
      const text = Math.abs(t) < step / 2 ? "0" : duration(t);
      if (x + 4 + pen.measureText(text).width < width) pen.fillText(text, x + 4, 12);
    }
  }

  // Draws the pixels of the strip first, then the tasks that are wide enough to be distinguished.
  function drawRows(width, ratio) {
    const left = gutter(), pixels = scale();
    const wide = Math.max(1, Math.round((width - left) * ratio)), per = wide / (view.to - view.from);
    const bubble = strip.paint(theme.bubble);
    strip.begin(wide, shown.length);
    shown.forEach(({ row, height }, line) => {
      strip.row(line, row, first(row, view.from), view.from, per, (i) => paintOf(row, i));
      if (height > 10) strip.ground(line, (Math.min(0, row.start[0]) - view.from) * per, (data.step - view.from) * per, bubble);
    });
    strip.finish();
    pen.imageSmoothingEnabled = false;
    shown.forEach(({ y, height }, line) => pen.drawImage(strip.canvas, 0, line, wide, 1, left, y, width - left, height));
    drawn += shown.length;
    pen.font = "10px sans-serif";
    const texts = [];
    for (const place of shown) drawAlone(place, left, width, pixels, texts);
    texts.forEach(drawText);
  }

  // The strip has already painted the task. This adds the gap to the next task, the part spent waiting, and the name.
  function drawAlone({ row, y, height }, left, width, pixels, texts) {
    if (height <= 10) return;
    const least = kAlone / pixels;
    for (let i = first(row, view.from); i < row.tasks && row.start[i] < view.to; ++i) {
      const block = row.blocks[i / 32];
      if (block !== undefined && row.end[block] - row.start[block] < least) {
        i += 31;  // all tasks of this block are too narrow
        continue;
      }
      if (row.end[i] - row.start[i] < least) continue;
      const x0 = Math.max(left, left + (row.start[i] - view.from) * pixels);
      const x1 = Math.min(width, left + (row.end[i] - view.from) * pixels), wide = x1 - x0;
      const kind = data.kinds[row.kind[i]];
      fill(theme.paper, x1 - 0.7, y, 0.7, height);
      if (kind.pass === 3) fill(theme.paper, x0, y + height - 4, wide, 1.5);  // marks recomputation without relying on colour
      const waited = Math.min((row.begin[i] - row.start[i]) * pixels, wide);
      if (waited > 2) fill(theme.bubble, x0, y, waited, height);
      if (wide > 34) texts.push([row, i, x0, wide, y + height / 2 + 0.5]);
    }
  }

  function drawText([row, i, x, wide, y]) {
    const kind = data.kinds[row.kind[i]];
    const text = row.batch[i] >= 0 && wide < 90 ? String(row.batch[i]) : data.names[kind.name];
    if (widthOf(text) >= wide - 8) return;
    pen.fillStyle = kind.pass === 2 || mode === "kind" ? "#ffffff" : "#101418";
    pen.fillText(text, x + 4, y);
    ++drawn;
  }

  function drawChosen() {
    const at = shown.find((p) => p.row === chosen.row);
    if (!at) return;
    const x0 = Math.max(gutter(), xOf(chosen.row.start[chosen.task]));
    const x1 = Math.max(x0 + 2, xOf(chosen.row.end[chosen.task]));
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 2;
    pen.strokeRect(x0 - 1, at.y - 1, x1 - x0 + 1, at.height + 2);
  }

  function request() {
    if (!queued) {
      queued = true;
      requestAnimationFrame(draw);
    }
  }

  // ---------------------------------------------------------------- moving
  function look(from, to) {
    const least = 200;  // nanoseconds
    let span = Math.min(Math.max(to - from, least), whole.to - whole.from);
    from = Math.min(Math.max(from, whole.from), whole.to - span);
    view = { from, to: from + span };
    request();
  }
  const zoom = (factor, about) => look(about - (about - view.from) * factor, about + (view.to - about) * factor);
  const pan = (share) => {
    const by = share * (view.to - view.from);
    look(view.from + by, view.to + by);
  };
  const centre = () => (view.from + view.to) / 2;

  // Finds the row and task at a position of the canvas.
  function find(x, y) {
    const at = shown.find((p) => y >= p.y && y < p.y + p.height + 1);
    if (!at || x < gutter()) return null;
    const time = timeAt(x), slack = 2 / scale();
    const i = first(at.row, time - slack);
    let nearest = -1;
    for (let k = i; k < Math.min(i + 64, at.row.tasks) && at.row.start[k] <= time + slack; ++k) {
      if (at.row.start[k] <= time && time < at.row.end[k]) return { row: at.row, task: k };
      if (nearest < 0) nearest = k;
    }
    if (nearest >= 0) return { row: at.row, task: nearest };
    return { row: at.row, task: -1, next: first(at.row, time) };
  }

  function idle({ row, next }) {
    const from = next > 0 ? row.end[next - 1] : view.from;
    const to = next < row.tasks ? row.start[next] : data.step;
    return ["idle", `stage ${row.stage}, ${row.stream} stream`, `${duration(to - from)}, from ${duration(from)} to ${duration(to)}`];
  }

  function point(event) {
    const box = canvas.getBoundingClientRect();
    const hit = find(event.clientX - box.left, event.clientY - box.top);
    const lines = hit && (hit.task >= 0 ? describe(hit.row, hit.task) : idle(hit));
    stepcast.tip(lines, event.pageX, event.pageY);
    return hit;
  }

  function choose(row, task) {
    chosen = { row, task };
    const start = row.start[task], end = row.end[task];
    if (end < view.from || start > view.to) {
      const span = view.to - view.from;
      look((start + end) / 2 - span / 2, (start + end) / 2 + span / 2);
    }
    const text = describe(row, task).join("; ");
    live.textContent = text;
    facts.textContent = text;
    request();
  }

  function step(by) {
    if (!chosen) {
      const row = shown[0].row;
      return choose(row, Math.min(first(row, view.from), row.tasks - 1));
    }
    choose(chosen.row, Math.min(Math.max(chosen.task + by, 0), chosen.row.tasks - 1));
  }

  function change(by) {
    if (!chosen) return step(0);
    const at = shown.findIndex((p) => p.row === chosen.row);
    const row = shown[Math.min(Math.max(at + by, 0), shown.length - 1)].row;
    choose(row, Math.min(first(row, chosen.row.begin[chosen.task]), row.tasks - 1));
  }

  const keys = {
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), ArrowUp: () => change(-1), ArrowDown: () => change(1),
    "+": () => zoom(0.7, centre()), "=": () => zoom(0.7, centre()), "-": () => zoom(1 / 0.7, centre()), "_": () => zoom(1 / 0.7, centre()),
    Home: () => look(whole.from, whole.to), "0": () => look(whole.from, whole.to),
    Enter: (e) => step(e.shiftKey ? -1 : 1),
    Escape: () => { chosen = null; facts.textContent = ""; stepcast.tip(null); request(); },
  };
  canvas.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act(event);
  });

  canvas.addEventListener("wheel", (event) => {
    const box = canvas.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) {
      zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.008), timeAt(event.clientX - box.left));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      pan((event.deltaX || event.deltaY) / box.width);
    } else {
      return;  // the page itself scrolls
    }
    event.preventDefault();
  }, { passive: false });

  // One pointer pans and two zoom.
  const held = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    held.set(event.pointerId, event);
    canvas.setPointerCapture(event.pointerId);
    const hit = point(event);
    if (hit && hit.task >= 0) choose(hit.row, hit.task);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = held.get(event.pointerId);
    if (!before) return void point(event);
    stepcast.tip(null);
    if (held.size === 2) {
      const other = [...held.values()].find((e) => e.pointerId !== event.pointerId);
      const was = Math.abs(before.clientX - other.clientX), is = Math.abs(event.clientX - other.clientX);
      const middle = (event.clientX + other.clientX) / 2 - canvas.getBoundingClientRect().left;
      if (was > 8 && is > 8) zoom(was / is, timeAt(middle));
    } else {
      const by = (before.clientX - event.clientX) / scale();
      look(view.from + by, view.to + by);
    }
    held.set(event.pointerId, event);
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (e) => held.delete(e.pointerId));
  canvas.addEventListener("pointerleave", () => stepcast.tip(null));
  canvas.addEventListener("dblclick", (event) => zoom(0.4, timeAt(event.clientX - canvas.getBoundingClientRect().left)));

  const buttons = { in: () => zoom(0.6, centre()), out: () => zoom(1 / 0.6, centre()), all: () => look(whole.from, whole.to) };
  place.querySelectorAll("button[data-do]").forEach((b) => b.addEventListener("click", buttons[b.dataset.do]));
  const select = place.querySelector("select");
  select.value = mode;
  select.addEventListener("change", () => {
    mode = select.value;
    request();
  });
  const all = place.querySelector("input");
  all.checked = streams;
  all.addEventListener("change", () => {
    streams = all.checked;
    arrange();
    request();
  });

  readTheme();
  document.addEventListener("stepcast-theme", () => { readTheme(); request(); });
  addEventListener("resize", () => { box.width = 0; request(); });
  arrange();
  draw();
  return { rows, draw, look, get view() { return view; },
    // The middle of a task inside the window, for scripts that point at it.
    placeOf: (row, i) => {
      const at = shown.find((p) => p.row === rows[row]), box = canvas.getBoundingClientRect();
      return [box.left + xOf((rows[row].start[i] + rows[row].end[i]) / 2), box.top + at.y + at.height / 2];
    },
    // The colour as the canvas has it: red, green, blue, opacity.
    colourOf: (row, i) => {
      const paint = paintOf(rows[row], i);
      return [0, 8, 16, 24].map((bits) => paint >>> bits & 255).join();
    },
    describe: (row, i) => describe(rows[row], i) };
})();
