// What every report page can do besides showing its figures: change the colour scheme, sort tables, show a tip.
"use strict";
const stepcast = {};

(function () {
  const root = document.documentElement;
  const remembered = (value) => {  // browsers refuse storage to some local pages
    try {
      if (value !== undefined) localStorage.setItem("stepcast-theme", value);
      return localStorage.getItem("stepcast-theme");
    } catch {
      return null;
    }
  };

  // Scripts that draw on a canvas listen for "stepcast-theme" on the document.
  function theme() {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
    const button = document.createElement("button");
    button.type = "button";
    button.id = "theme";
    const changed = () => {
      button.textContent = dark() ? "Light" : "Dark";
      button.setAttribute("aria-label", dark() ? "Use the light scheme" : "Use the dark scheme");
      document.dispatchEvent(new Event("stepcast-theme"));
    };
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      remembered(root.dataset.theme);
      changed();
    });
    system.addEventListener("change", changed);
    const before = remembered();
    if (before === "dark" || before === "light") root.dataset.theme = before;
    document.querySelector("header").append(button);
    changed();
    stepcast.dark = dark;
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    const value = (row, column) => {
      const cell = row.cells[column];
      if (!cell) return "";
      return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
    };
    heads.forEach((head, column) => {
      if (!head.textContent.trim()) return;  // the column of bars has no heading
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const sign = up ? 1 : -1;
        const rows = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
        rows.sort(([a], [b]) => {
          if (typeof a === "number" && typeof b === "number") return sign * (a - b);
          if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;  // rows without a number come last
          return sign * a.localeCompare(b, "en", { numeric: true });
        });
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }

  // Shows a tip at a position of the page; `lines` are texts, the first one bold. Without lines the tip is hidden.
  const box = document.createElement("div");
  box.className = "tip";
  box.hidden = true;
  stepcast.tip = (lines, x, y) => {
    box.hidden = !lines || lines.length === 0;
    if (box.hidden) return;
    box.replaceChildren(...lines.map((text, i) => {
      const line = document.createElement(i === 0 ? "strong" : "div");
      line.textContent = text;
      return line;
    }));
    const width = root.clientWidth;
    box.style.left = "0px";
    const wide = box.offsetWidth;
    box.style.left = Math.max(4, Math.min(x + 14, scrollX + width - wide - 6)) + "px";
    const below = y + 16;
    const fits = below + box.offsetHeight < scrollY + innerHeight;
    box.style.top = (fits ? below : Math.max(scrollY, y - box.offsetHeight - 10)) + "px";
  };
  document.body.append(box);

  // Folded sections are opened for printing and closed again afterwards.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details[data-print]:not([open])")];
    opened.forEach((d) => { d.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((d) => { d.open = false; }));

  theme();
  document.querySelectorAll("table[data-sort]").forEach(sortable);
})();
