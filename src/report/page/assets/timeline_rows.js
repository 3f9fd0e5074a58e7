// Decodes the timeline's tasks from the page's data and describes single tasks.
"use strict";
stepcast.timelineRows = (data) => {
  function unpack() {
    const bytes = atob(data.data);
    let at = 0;
    const next = () => {  // numbers may exceed 31 bits
      let value = 0, scale = 1, byte;
      do {
        byte = bytes.charCodeAt(at++);
        value += (byte & 127) * scale;
        scale *= 128;
      } while (byte & 128);
      return value;
    };
    const signed = () => {
      const v = next();
      return v % 2 ? -(v + 1) / 2 : v / 2;
    };
    return data.rows.map((row) => {
      const n = row.tasks;
      const out = { ...row, start: new Float64Array(n), begin: new Float64Array(n), end: new Float64Array(n),
        kind: new Uint16Array(n), batch: new Int32Array(n), blocks: [] };
      let time = 0, batch = 0;
      for (let i = 0; i < n; ++i) {
        out.start[i] = time += signed();
        out.begin[i] = time += next();
        out.end[i] = time += next();
        out.kind[i] = next();
        out.batch[i] = batch += signed();
      }
      // Level of detail: for each block of tasks the longest one is drawn if the whole block is narrower than a pixel.
      for (let b = 0; b < n; b += 32) {
        let longest = b;
        for (let i = b; i < Math.min(n, b + 32); ++i) {
          if (out.end[i] - out.start[i] > out.end[longest] - out.start[longest]) longest = i;
        }
        out.blocks.push(longest);
      }
      return out;
    });
  }

  // The first task of a row that ends after a time.
  function first(row, time) {
    let low = 0, high = row.tasks;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row.end[middle] > time) high = middle; else low = middle + 1;
    }
    return low;
  }

  function duration(ns) {
    const [value, unit] = Math.abs(ns) >= 1e9 ? [ns / 1e9, "s"] : Math.abs(ns) >= 1e6 ? [ns / 1e6, "ms"] : [ns / 1e3, "us"];
    return `${Number(value.toPrecision(4))} ${unit}`;
  }

  function describe(row, i) {
    const kind = data.kinds[row.kind[i]];
    const lines = [data.names[kind.name], `stage ${row.stage}, ${row.stream} stream` +
      (row.alike > 1 ? `; ${row.alike.toLocaleString("en")} ranks alike` : "")];
    const what = [kind.what];
    if (row.batch[i] >= 0) what.push(`micro-batch ${row.batch[i]}`);
    if (kind.chunk >= 0) what.push(`chunk ${kind.chunk}`);
    lines.push(what.join(", "));
    lines.push(`${duration(row.end[i] - row.begin[i])}, from ${duration(row.begin[i])} to ${duration(row.end[i])}`);
    if (row.begin[i] > row.start[i]) lines.push(`waited ${duration(row.begin[i] - row.start[i])} before it began`);
    if (kind.bytes > 0) lines.push(`${(kind.bytes / 2 ** 20).toPrecision(4)} MiB` + (kind.ranks ? ` among ${kind.ranks} ranks` : ""));
    return lines;
  }

  return { rows: unpack(), first, duration, describe };
};
