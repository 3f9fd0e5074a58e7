// The what-if page: it turns controls into overrides, overrides into a forecast and the forecast into bars. The overrides
// are kept in the address behind '#', so that a state of the page can be bookmarked, shared and returned to with the back
// button.
"use strict";
(function () {
  const start = JSON.parse(document.getElementById("start").textContent);
  const $ = (id) => document.getElementById(id);
  const at = (value, path) => path.split(".").reduce((v, k) => (v == null ? v : v[k]), value);

  // ---- Controls. `value` reads the key's current value from a resolved job.
  const whole = (key, label, more = {}) => ({ key, label, kind: "number", min: 1, value: (job) => at(job, key), ...more });
  const choice = (key, label, options, more = {}) => ({ key, label, kind: "select", options, value: (job) => at(job, key), ...more });
  const groups = [
    ["Hardware", [
      choice("cluster", "Cluster", start.clusters, { value: (job) => job.cluster.name, keeps: "cluster.nodes" }),
      whole("cluster.nodes", "Nodes", { twice: true }),
      choice("cluster.device", "Device", start.devices, { value: (job) => job.cluster.device.name }),
      whole("cluster.fabric.oversubscription", "Oversubscr.", { step: "any" }),
    ]],
    ["Training", [
      choice("model", "Model", start.models, { value: (job) => job.model.name }),
      choice("system", "System", start.systems, { value: (job) => job.system.name }),
      whole("workload.sequence_length", "Sequence", { twice: true }),
      whole("workload.global_batch", "Global batch", { twice: true }),
      whole("workload.micro_batch", "Micro-batch", { twice: true }),
      choice("workload.precision", "Precision", ["bf16", "fp16", "fp8", "fp8_block", "mxfp8", "nvfp4", "tf32", "fp32"]),
    ]],
    ["Strategy", [
      whole("parallelism.tensor", "Tensor", { twice: true }),
      whole("parallelism.pipeline", "Pipeline", { twice: true }),
      whole("parallelism.virtual_pipeline", "Virtual", {}),
      whole("parallelism.context", "Context", { twice: true, value: (job) => at(job, "parallelism.context.size") ?? job.parallelism.context }),
      whole("parallelism.expert", "Expert", { twice: true }),
      choice("parallelism.sharding", "Sharding", ["none", "zero1", "zero2", "zero3"]),
      choice("parallelism.schedule", "Schedule", ["auto", ...start.schedules], { value: (job) => at(job, "parallelism.schedule.name") ?? job.parallelism.schedule }),
      choice("memory.recompute", "Recompute", ["none", "selective", "full"], { value: (job) => said(job.memory.recompute) }),
      choice("memory.offload", "Offload", ["none", "{optimizer: cpu}", "{activations: cpu}"], { value: (job) => offloaded(job.memory.offload) }),
    ]],
  ];
  const controls = groups.flatMap(([, list]) => list);
  // A value of the job, written as in an override.
  function said(value) {
    if (value === null || typeof value !== "object") return String(value);
    if (Array.isArray(value)) return `[${value.map(said).join(", ")}]`;
    return `{${Object.entries(value).map(([k, v]) => `${k}: ${said(v)}`).join(", ")}}`;
  }
  // What is offloaded, and where to. The job keeps its own choice of how it is transferred.
  function offloaded(offload) {
    const kinds = ["optimizer", "parameters", "gradients", "activations"].filter((k) => offload[k] && offload[k] !== "none");
    return kinds.length ? `{${kinds.map((k) => `${k}: ${offload[k]}`).join(", ")}}` : "none";
  }

  const asked = new Map();  // key -> value that the reader has set in a control
  let others = [];  // overrides in the address that no control covers
  let pinned = { set: [], report: null };
  let report = null;  // the last report that was shown
  const list = () => [...controls.filter((c) => asked.has(c.key)).map((c) => `${c.key}=${asked.get(c.key)}`), ...others];

  function build() {
    const form = $("controls");
    const actions = document.createElement("div");
    actions.id = "actions";
    for (const [id, text, does] of [["pin", "Pin as baseline", pin], ["unpin", "Baseline: the job as given", unpin], ["reset", "Reset all", resetAll]]) {
      const button = Object.assign(document.createElement("button"), { type: "button", id, textContent: text });
      button.addEventListener("click", does);
      actions.append(button);
    }
    form.append(actions);
    for (const [name, members] of groups) {
      const set = document.createElement("fieldset");
      set.append(Object.assign(document.createElement("legend"), { textContent: name }));
      for (const control of members) set.append(row(control));
      form.append(set);
    }
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  function row(control) {
    const line = document.createElement("div");
    line.className = "control";
    const id = "c-" + control.key.replaceAll(".", "-");
    const label = Object.assign(document.createElement("label"), { htmlFor: id, textContent: control.label, title: control.key });
    const entry = document.createElement("div");
    entry.className = "entry";
    const input = document.createElement(control.kind === "select" ? "select" : "input");
    input.id = id;
    if (control.kind === "select") {
      for (const option of control.options) input.append(new Option(option, option));
      input.addEventListener("change", () => ask(control, input.value));
    } else {
      Object.assign(input, { type: "number", min: control.min, step: control.step || 1, inputMode: "decimal" });
      let wait = 0;
      input.addEventListener("input", () => {
        clearTimeout(wait);
        wait = setTimeout(() => input.value !== "" && ask(control, input.value), 200);
      });
      input.addEventListener("change", () => {
        clearTimeout(wait);
        if (input.value !== "") ask(control, input.value);
      });
    }
    entry.append(input);
    if (control.twice) {
      for (const [text, times, name] of [["÷2", 0.5, "Half of"], ["×2", 2, "Twice"]]) {
        const button = Object.assign(document.createElement("button"), { type: "button", textContent: text });
        button.setAttribute("aria-label", `${name} ${control.label}`);
        button.addEventListener("click", () => {
          const next = Number(input.value) * times;
          if (Number.isInteger(next) && next >= control.min) ask(control, String((input.value = next)));
        });
        entry.append(button);
      }
    }
    const reset = Object.assign(document.createElement("button"), { type: "button", className: "reset", textContent: "↺" });
    reset.setAttribute("aria-label", `${control.label} as given`);
    reset.addEventListener("click", () => {
      asked.delete(control.key);
      update();
      input.focus();
    });
    line.append(label, entry, reset);
    Object.assign(control, { line, input });
    return line;
  }

  // Writes the job into the controls: values that the reader has set, otherwise those of the last feasible job.
  function fill() {
    for (const control of controls) {
      const set = asked.has(control.key);
      control.line.classList.toggle("set", set);
      const value = set ? asked.get(control.key) : report ? String(control.value(report.job) ?? "") : "";
      if (control.kind === "select" && ![...control.input.options].some((o) => o.value === value)) {
        control.input.append(new Option(value, value));
      }
      if (document.activeElement !== control.input || control.input.value === "") control.input.value = value;
    }
  }

  function ask(control, value) {
    const given = start.job && String(control.value(start.job) ?? "");
    if (value === given) asked.delete(control.key);
    else asked.set(control.key, value);
    if (control.keeps && asked.has(control.key) && report && !asked.has(control.keeps)) {
      asked.set(control.keeps, String(at(report.job, control.keeps)));
    }
    update();
  }
  function resetAll() {
    asked.clear();
    others = [];
    update();
  }
  function pin() {
    pinned = { set: list(), report: report.engine.fidelity === "folded" ? report : null };
    update();
  }
  function unpin() {
    pinned = { set: [], report: start.report };
    update();
  }

  // ---- The address.
  function remember() {
    const words = new URLSearchParams();
    for (const one of list()) words.append("set", one);
    for (const one of pinned.set) words.append("pin", one);
    const hash = words.toString();
    history.replaceState(null, "", hash ? "#" + hash : location.pathname);
  }
  function recall() {
    const words = new URLSearchParams(location.hash.slice(1));
    asked.clear();
    others = [];
    for (const one of words.getAll("set")) {
      const equals = one.indexOf("=");
      const control = controls.find((c) => c.key === one.slice(0, equals));
      if (control) asked.set(control.key, one.slice(equals + 1));
      else others.push(one);
    }
    const set = words.getAll("pin");
    pinned = { set, report: set.length ? null : start.report };
  }

  // ---- Requests. The headline comes first: it needs neither intervals nor the allocator's replay. The whole forecast
  // follows when the reader pauses. At most one request of each kind runs at a time; of the changes made meanwhile only the
  // last is sent afterwards.
  let turn = 0, answered = 0, running = false;
  let wanted = null, wholeRuns = false;
  const kPatience = 80;  // milliseconds after which a bound is shown first
  const kRest = 120;  // milliseconds without a change after which the whole forecast starts
  async function post(path, body) {
    const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const timing = /dur=([\d.]+)/.exec(response.headers.get("Server-Timing") || "");
    return { status: response.status, body: await response.json(), took: timing ? Number(timing[1]) : 0 };
  }

  function update() {
    const mine = ++turn;
    remember();
    fill();
    command();
    setTimeout(() => bound(mine), kPatience);
    pump();
  }
  async function pump() {
    if (running) return;
    running = true;
    try {
      while (answered !== turn) {
        const mine = turn, set = list();
        const answer = await post("/forecast", { set, fidelity: "headline" });
        const known = answer.status === 200 && answer.body.engine.fidelity === "folded";
        if (known) await baseline();
        if (mine !== turn) continue;
        answered = mine;
        show(answer);
        if (known) settle(answer, mine, set);
        else if (answer.status === 200) complete(mine, set);
      }
    } catch {
      silent();
    } finally {
      running = false;
    }
  }
  async function complete(mine, set) {
    wanted = { mine, set };
    if (wholeRuns) return;
    wholeRuns = true;
    try {
      while (wanted) {
        const now = wanted;
        await new Promise((done) => setTimeout(done, kRest));
        if (wanted !== now) continue;
        wanted = null;
        if (now.mine !== turn) continue;
        await baseline();
        const answer = await post("/forecast", { set: now.set });
        if (now.mine !== turn) continue;
        show(answer);
        settle(answer, now.mine, now.set);
      }
    } catch {
      silent();
    } finally {
      wholeRuns = false;
    }
  }
  async function baseline() {
    const base = pinned;
    if (base.report) return;
    const answer = await post("/forecast", { set: base.set });
    base.report = answer.status === 200 ? answer.body : start.report;
  }
  function settle(answer, mine, set) {
    if (answer.status === 200 && !fits(answer.body)) advise(mine, set);
  }
  function silent() {
    answered = turn;
    fail([{ key: "", message: "The server does not answer; is simulate serve still running?" }]);
  }
  async function bound(mine) {
    if (mine !== turn || answered === turn) return;
    $("results").classList.add("waiting");
    try {
      const answer = await post("/forecast", { set: list(), fidelity: "bound" });
      if (mine === turn && answered !== turn && answer.status === 200) show(answer);
    } catch {
      // The forecast that runs at the same time reports the same error.
    }
  }
  async function advise(mine, set) {
    $("advice").textContent = "Looking for changes with which the job fits …";
    const answer = await post("/advice", { set });
    if (mine !== turn || answer.status !== 200) return;
    const box = $("advice");
    box.textContent = "";
    const found = answer.body.advice;
    if (found.length === 0) {
      box.textContent = answer.body.notes.at(-1) || "";
      return;
    }
    box.append(Object.assign(document.createElement("h3"), { textContent: "Changes with which the job fits in memory, the fastest first" }));
    const wide = Object.assign(document.createElement("div"), { className: "wide" });
    const table = document.createElement("table");
    head(table, [["change", "t"], ["peak"], ["step time"], ["", "t"]]);
    const body = table.createTBody();
    for (const one of found) {
      const tr = body.insertRow();
      cell(tr, one.change, "t");
      cell(tr, gib(one.peak));
      cell(tr, time(one.step_time));
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Try" });
      button.addEventListener("click", () => {
        for (const change of one.change.match(/[\w.]+=(\{.*?\}\}?|\S+)/g) || []) {
          const equals = change.indexOf("=");
          const key = change.slice(0, equals), value = change.slice(equals + 1);
          if (controls.some((c) => c.key === key)) asked.set(key, value);
          else others = [...others.filter((o) => !o.startsWith(key + "=")), change];
        }
        update();
      });
      cell(tr, "", "t").append(button);
    }
    wide.append(table);
    box.append(wide);
  }

  // ---- Display.
  const digits = (value, n = 4) => (value === 0 ? "0" : Number(value.toPrecision(n)).toLocaleString("en-US", { maximumSignificantDigits: n }));
  const time = (s) => (s >= 1 || s === 0 ? `${digits(s)} s` : s >= 1e-3 ? `${digits(s * 1e3)} ms` : `${digits(s * 1e6)} µs`);
  const gib = (bytes) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
  // Whether memory is enough at the forecast value, and how sure that is.
  const fits = (report) => report.memory.fits.spare >= 0;
  const fitWords = (report) => {
    const { verdict, probability, needed, frees_cache } = report.memory.fits;
    const likely = probability === null || verdict === "yes" || verdict === "no" ? "" : ` ${Math.floor(100 * probability + 1e-9)} %`;
    const cache = frees_cache ? `; runs in ${gib(needed.value)}, with the allocator giving back its cache` : "";
    return `fits: ${verdict}${likely}${cache}`;
  };
  const percent = (x, n = 1) => `${(100 * x).toFixed(n)} %`;
  const kTime = [["compute", "compute"], ["recompute", "recompute"], ["slowdown", "slowdown"], ["exposed.tensor", "tensor"], ["exposed.pipeline", "pipeline"],
    ["exposed.data", "data"], ["exposed.context", "context"], ["exposed.expert", "expert"], ["exposed.offload", "offload"], ["exposed.other", "other"],
    ["optimizer", "optimizer"], ["host", "host"], ["stall", "stall"], ["bubble", "bubble"]];
  const kMemory = [["parameters", "parameters"], ["gradients", "gradients"], ["optimizer", "optimizer"], ["activations", "activations"], ["communication", "communication"],
    ["workspace", "workspace"], ["other", "other"], ["cached", "cached by the allocator"], ["outside", "outside the allocator"]];
  const memoryOf = (stage) => ({ ...stage, cached: stage.peak.reserved - stage.peak.allocated, outside: stage.peak.process - stage.peak.reserved });
  const mean = (stages, path) => stages.reduce((sum, s) => sum + at(s, path), 0) / Math.max(1, stages.length);

  function head(table, columns) {
    table.className = "cards";
    const tr = table.createTHead().insertRow();
    for (const [name, kind] of columns) tr.append(Object.assign(document.createElement("th"), { scope: "col", textContent: name, className: kind || "" }));
  }
  function cell(tr, text, kind = "") {
    const td = tr.insertCell();
    td.textContent = text;
    td.className = kind;
    td.dataset.label = tr.closest("table").tHead.rows[0].cells[td.cellIndex].textContent;
    return td;
  }
  function bar(parts, total, rule) {
    const make = (name, attributes) => {
      const node = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
      return node;
    };
    const svg = make("svg", { class: "bar", viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true" });
    let x = 0;
    for (const [kind, value, hint] of parts) {
      const width = (Math.max(0, value) / total) * 1000;
      if (width >= 0.05) {
        const rect = make("rect", { class: "k-" + kind, x: x.toFixed(1), width: Math.min(width, 1000 - x).toFixed(1), height: 10 });
        const title = make("title", {});
        title.textContent = hint;
        rect.append(title);
        svg.append(rect);
      }
      x += width;
    }
    if (rule !== undefined) svg.append(make("path", { class: "mark", d: `M${((rule / total) * 1000).toFixed(1)} 0V10` }));
    return svg;
  }
  function addRow(box, name, svg, figure, kind = "") {
    for (const [part, className] of [[name, "name"], [null, "drawn"], [figure, "figure"]]) {
      const span = Object.assign(document.createElement("span"), { className: `${className} ${kind}` });
      if (part === null) span.append(svg);
      else span.textContent = part;
      box.append(span);
    }
  }
  function legend(box, kinds, prefix, shares) {
    box.textContent = "";
    const ul = Object.assign(document.createElement("ul"), { className: "legend" });
    kinds.forEach(([path, name], i) => {
      if (shares[i] <= 0) return;
      const li = document.createElement("li");
      li.innerHTML = `<svg viewBox="0 0 12 12" aria-hidden="true"><rect class="k-${prefix}${path.split(".").pop()}" width="12" height="12" rx="2"/></svg>`;
      li.append(name + " ");
      li.append(Object.assign(document.createElement("b"), { textContent: percent(shares[i]) }));
      ul.append(li);
    });
    box.append(ul);
  }

  function fail(faults) {
    const box = $("faults");
    box.textContent = "";
    for (const fault of faults) {
      const p = document.createElement("p");
      const control = controls.find((c) => c.key === fault.key);
      if (control) {
        control.input.setAttribute("aria-invalid", "true");
        control.input.setAttribute("aria-describedby", "faults");
      }
      if (fault.key) p.append(Object.assign(document.createElement("b"), { textContent: control ? control.label : fault.key }), ": ");
      p.append(fault.message);
      box.append(p);
    }
    $("results").classList.remove("waiting");
    $("results").classList.add("stale");
    $("pulse").textContent = report ? "Invalid combination; showing the last valid job." : "Invalid combination.";
  }

  function show(answer) {
    for (const control of controls) {
      control.input.removeAttribute("aria-invalid");
      control.input.removeAttribute("aria-describedby");
    }
    $("results").classList.remove("stale");
    $("advice").textContent = "";
    if (answer.status !== 200) {
      fail(answer.body.faults || [{ key: "", message: `The server answered ${answer.status}.` }]);
      return;
    }
    $("faults").textContent = "";
    const now = answer.body;
    const kind = now.engine.fidelity, isBound = kind === "bound";
    report = now;
    fill();
    $("results").classList.toggle("waiting", isBound);
    $("results").classList.toggle("headline", kind === "headline");
    tiles(now, kind);
    bars(now, isBound);
    pulse(now, kind, answer.took);
    const notes = $("notes");
    notes.textContent = "";
    for (const note of now.notes || []) notes.append(Object.assign(document.createElement("li"), { textContent: note }));
    document.documentElement.dataset.shown = `${kind} ${turn}`;
  }

  function pulse(now, kind, took) {
    const isBound = kind === "bound", early = kind === "headline";
    const box = $("pulse");
    box.textContent = "";
    const job = now.job, gpus = now.engine.ranks;
    box.append(Object.assign(document.createElement("b"), { textContent: `${isBound ? "at least " : ""}${time(now.step_time.value)}` }));
    $("conclusion").textContent = early || isBound ? "" : now.conclusion;
    box.append(` · ${isBound ? "at most " : ""}${percent(now.mfu.value)} MFU · ${early ? "" : `${fitWords(now)} · `}${job.model.name} on ${job.cluster.nodes} × ${job.cluster.name} (${gpus.toLocaleString("en-US")} GPUs)`);
    box.append(isBound ? " · lower bound, simulating …" : took ? ` · simulated in ${took < 10 ? took.toFixed(1) : Math.round(took)} ms` : "");
    if (early) box.append(" · intervals and memory follow …");
  }

  const memoryRange = (now, isBound) => (isBound ? "" : `${(now.memory.peak.low / 2 ** 30).toFixed(1)} to ${gib(now.memory.peak.high)}; `);
  const sizeOf = (part) => (part !== null && typeof part === "object" ? part.size : part) || 1;
  function dataParallel(now) {
    const { tensor, context, pipeline } = now.job.parallelism;
    return now.engine.ranks / (sizeOf(tensor) * sizeOf(context) * sizeOf(pipeline));
  }
  // The whole run of a job that states its tokens, if nothing ever fails; costs are simulate plan's and --offer's.
  function wholeRun(now) {
    const tokens = now.job.workload.tokens;
    if (!tokens) return null;
    const seconds = tokens / (now.tokens_per_second_per_gpu.value * now.engine.ranks);
    return { tokens, days: seconds / 86400, hours: (seconds / 3600) * now.engine.ranks };
  }

  const same = (now) => !pinned.report || JSON.stringify(pinned.report.job) === JSON.stringify(now.job);
  // `better` is the sign of a change for the better; 0: neither direction is better.
  function tiles(now, kind) {
    const isBound = kind === "bound", early = kind === "headline";
    const base = same(now) ? null : pinned.report;
    const box = $("tiles");
    box.textContent = "";
    const range = (e, f) => (isBound ? "bound" : early ? "interval follows" : `${f(e.low)} to ${f(e.high)}`);
    const rate = (x) => digits(x), tera = (x) => `${digits(x / 1e12)}`;
    const make = (name, figure, path, value, below, better, bad) => {
      const tile = document.createElement("div");
      tile.className = "tile" + (bad ? " bad" : "");
      const exact = at(now, path), before = better ? base && at(base, path) : null;
      if (figure) Object.assign(tile.dataset, { figure, value: exact });
      tile.append(Object.assign(document.createElement("dt"), { textContent: name }));
      tile.append(Object.assign(document.createElement("dd"), { textContent: value }));
      tile.append(Object.assign(document.createElement("dd"), { className: "range", textContent: below }));
      if (before) {
        const change = exact / before - 1;
        const kind = Math.abs(change) < 5e-5 || !better ? "same" : change * better > 0 ? "better" : "worse";
        const text = Math.abs(change) < 5e-5 ? "as the baseline" : `${change > 0 ? "+" : "−"}${Math.abs(100 * change).toFixed(1)} %`;
        tile.append(Object.assign(document.createElement("dd"), { className: `range against ${kind}`, textContent: text }));
      }
      box.append(tile);
    };
    make("Step time", "step_time", "step_time.value", time(now.step_time.value), range(now.step_time, time), -1);
    make("Tokens/s/GPU", "tokens_per_second_per_gpu", "tokens_per_second_per_gpu.value", rate(now.tokens_per_second_per_gpu.value), range(now.tokens_per_second_per_gpu, rate), 1);
    make("Model TFLOP/s/GPU", "model_flops_per_gpu", "model_flops_per_gpu.value", tera(now.model_flops_per_gpu.value), range(now.model_flops_per_gpu, tera), 1);
    make("MFU", "mfu", "mfu.value", percent(now.mfu.value), range(now.mfu, (x) => percent(x)), 1);
    if (early) {
      make("Peak memory", "", "", "…", "follows", 0);
    } else make("Peak memory", "peak_memory", "memory.peak.value", gib(now.memory.peak.value), `of ${gib(now.memory.capacity)}; ${memoryRange(now, isBound)}${fitWords(now)}`, -1, !fits(now));
    make("Pipeline bubble", "bubble_fraction", "bubble_fraction", percent(now.bubble_fraction, 2), "of the step", -1);
    make("Data parallel", "", "", digits(dataParallel(now), 8), `of ${now.engine.ranks.toLocaleString("en-US")} GPUs`, 0);
    make("Tokens a step", "tokens", "tokens", digits(now.tokens, 9), `${now.job.workload.global_batch.toLocaleString("en-US")} sequences`, 0);
    const run = wholeRun(now);
    if (run) make("Time to train", "", "", `${digits(run.days, 3)} days`, `${digits(run.tokens)} tokens, ${digits(run.hours / 1e6, 3)} M GPU-hours, nothing failing`, 0);
  }

  function bars(now, isBound) {
    const base = same(now) ? null : pinned.report;
    const step = now.step_time.value;
    const total = Math.max(step, base ? base.step_time.value : 0);
    const box = $("breakdown");
    box.textContent = "";
    box.classList.toggle("many", now.breakdown.length > 12);
    const parts = (of, whole) => kTime.map(([path, name]) => [path.split(".").pop(), of(path), `${name}: ${time(of(path))}, ${percent(of(path) / whole)}`]);
    if (base) addRow(box, "baseline", bar(parts((p) => mean(base.breakdown, p), base.step_time.value), total), time(base.step_time.value), "pinned");
    if (now.breakdown.length === 0) addRow(box, "step", bar([["compute", step, `at least ${time(step)}`]], total), `${isBound ? "at least " : ""}${time(step)}`);
    for (const stage of now.breakdown) {
      addRow(box, `stage ${stage.stage}`, bar(parts((p) => at(stage, p), step), total), time(step));
    }
    legend($("breakdown-legend"), kTime, "", kTime.map(([path]) => mean(now.breakdown, path) / step));

    if (!now.memory) return table(now, []);  // A headline has no memory: the old rows stay, greyed out.
    const stages = now.memory.stages.map(memoryOf), capacity = now.memory.capacity;
    const most = Math.max(capacity, ...stages.map((s) => s.peak.process)) * 1.02;
    const rows = $("memory-rows");
    rows.textContent = "";
    rows.classList.toggle("many", stages.length > 12);
    for (const stage of stages) {
      const drawn = kMemory.map(([key, name]) => ["m-" + key, stage[key], `${name}: ${gib(stage[key])}`]);
      addRow(rows, `stage ${stage.stage}`, bar(drawn, most, capacity), gib(stage.peak.process));
    }
    const full = stages.reduce((a, b) => (b.peak.process > a.peak.process ? b : a), stages[0]);
    legend($("memory-legend"), kMemory, "m-", kMemory.map(([key]) => (full ? full[key] / full.peak.process : 0)));
    table(now, stages);
  }

  function table(now, stages) {
    const box = $("table");
    box.textContent = "";
    const used = kTime.filter(([path]) => mean(now.breakdown, path) > 0);
    head(box, [["stage"], ...used.map(([, name]) => [name + ", ms"]), ["peak, GiB"]]);
    const body = box.createTBody();
    now.breakdown.forEach((stage, i) => {
      const tr = body.insertRow();
      cell(tr, stage.stage);
      for (const [path] of used) cell(tr, digits(at(stage, path) * 1e3)).dataset.value = at(stage, path);
      cell(tr, stages[i] ? (stages[i].peak.process / 2 ** 30).toFixed(1) : "");
    });
  }

  function command() {
    const quote = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
    const words = ["simulate", "--config", start.config];
    for (const one of [...start.set, ...list()]) words.push("--set", one);
    $("line").textContent = words.map(quote).join(" ");
    $("copied").textContent = "";
    $("pin").disabled = $("download").disabled = !report;
    $("reset").disabled = list().length === 0;
    $("unpin").hidden = pinned.set.length === 0;
  }

  // A resolved job as YAML: maps in blocks, lists as JSON, which YAML reads.
  function yaml(value, indent = "") {
    return Object.entries(value)
      .map(([key, below]) => {
        const map = below !== null && typeof below === "object" && !Array.isArray(below) && Object.keys(below).length > 0;
        return map ? `${indent}${key}:\n${yaml(below, indent + "  ")}` : `${indent}${key}: ${scalar(below)}\n`;
      })
      .join("");
  }
  const scalar = (value) => (typeof value === "string" && /^[A-Za-z][\w.-]*$/.test(value) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(value) ? value : JSON.stringify(value));

  $("download").addEventListener("click", () => {
    const text = `# ${report.title}: every key resolved. From ${$("line").textContent}\n${yaml(report.job)}`;
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([text], { type: "application/yaml" })), download: "job.yaml" });
    link.click();
    URL.revokeObjectURL(link.href);
  });
  $("copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText($("line").textContent);
      $("copied").textContent = "copied";
    } catch {  // The browser does not allow copying here: select the text instead.
      getSelection().selectAllChildren($("line"));
      $("copied").textContent = "selected: copy it with your keyboard";
    }
  });
  addEventListener("hashchange", () => {
    recall();
    update();
  });

  async function begin() {
    build();
    try {
      const answer = await post("/forecast", { set: [] });
      start.report = answer.body;
      start.job = answer.body.job;
    } catch {
      fail([{ key: "", message: "The server does not answer." }]);
      return;
    }
    report = start.report;
    recall();
    update();
  }
  begin();
})();
