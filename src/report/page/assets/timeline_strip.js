// Draws a row of any number of tasks as one line of pixels: each pixel has the colour of the longest task inside it. A frame
// then costs one visit of each task in the window and one stretched image per row, instead of one shape per task.
"use strict";
stepcast.timelineStrip = () => {
  const scratch = document.createElement("canvas");
  const pen = scratch.getContext("2d", { willReadFrequently: true });
  const paints = new Map();  // CSS colour -> colour in the format of ImageData
  let image = null, pixels = null, width = 0;
  let longest = new Float64Array(0), who = new Int32Array(0);

  function paint(colour) {
    let found = paints.get(colour);
    if (found === undefined) {
      const one = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
      one.fillStyle = colour;
      one.fillRect(0, 0, 1, 1);
      found = new Uint32Array(one.getImageData(0, 0, 1, 1).data.buffer)[0];
      paints.set(colour, found);
    }
    return found;
  }

  function begin(wide, rows) {
    if (width !== wide || scratch.height < rows) {
      width = scratch.width = Math.max(1, wide);
      scratch.height = Math.max(1, rows);
      image = pen.createImageData(width, scratch.height);
      pixels = new Uint32Array(image.data.buffer);
      longest = new Float64Array(width);
      who = new Int32Array(width);
    }
    pixels.fill(0);
  }

  // Draws the tasks from `i` on that begin before the window's end into line `line`; `per` is pixels per nanosecond.
  function row(line, { start, end, tasks }, i, from, per, colours) {
    who.fill(-1);
    longest.fill(0);
    const until = from + width / per;
    for (; i < tasks && start[i] < until; ++i) {
      const length = end[i] - start[i];
      let column = Math.max(0, Math.floor((start[i] - from) * per));
      const last = Math.min(width - 1, Math.ceil((end[i] - from) * per) - 1);
      do {
        if (column < width && length >= longest[column]) {
          longest[column] = length;
          who[column] = i;
        }
      } while (++column <= last);
    }
    const at = line * width;
    for (let column = 0; column < width; ++column) {
      if (who[column] >= 0) pixels[at + column] = colours(who[column]);
    }
  }

  // Paints time without a task where nothing is painted yet.
  function ground(line, from, to, colour) {
    const end = line * width + Math.min(width, Math.round(to));
    for (let p = line * width + Math.max(0, Math.round(from)); p < end; ++p) {
      if (pixels[p] === 0) pixels[p] = colour;
    }
  }

  return { begin, row, ground, paint, finish: () => pen.putImageData(image, 0, 0), canvas: scratch, forget: () => paints.clear() };
};
