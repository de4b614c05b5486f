// The drawing half of the timeline panel: slices in lanes on a canvas, and what lies at a point. What is narrower than a pixel
// is drawn together, found by binary search, so that a frame costs pixels and not slices.
// timeline_panel.py hands this file and the other two to the page as one module: a widget's view cannot import.

const LANE = 17;
const ROW_GAP = 9;
const AXIS = 24;
const GUTTER = 150;
const NARROW = 560;  // below it, labels stand above their rows and the time has the whole width
const NARROW_GUTTER = 6;

/** @typedef {{first: number, end: number, y: number, isBand: boolean}} Lane */
/** @typedef {{lanes: Lane[], labels: {text: string, y: number}[], height: number, isNarrow: boolean, gutter: number}} Layout */
/** @typedef {{count: number, last: number, names: string[], ops: string[], steps: number, modules: string[],
 *   phases: {name: string, label: string, colour: string}[], lines: {where: string, text: string}[],
 *   rows: {label: string, kind: string, is_band: boolean, lanes: number[][]}[], counted: number[],
 *   start: Float64Array, duration: Float64Array, self: Float64Array,
 *   name: Int32Array, phase: Int32Array, module: Int32Array, line: Int32Array}} Data */
/** @typedef {{from: number, until: number, width: number, gutter: number, top: number, height: number, wanted: Matches[], faint: number, selected: number,
 *   span: number[], text: string, muted: string, grid: string, brand: string}} View */

/** A time in the unit it reads best in. @param {number} ms */
export function timeText(ms) {
  const [value, unit] = Math.abs(ms) >= 1000 ? [ms / 1000, "s"] : Math.abs(ms) >= 0.1 || ms === 0 ? [ms, "ms"] : [ms * 1000, "µs"];
  return `${Number(value.toPrecision(4))} ${unit}`;
}

/** Numbers out of the bytes that Python sent; copied, for they need not lie where such numbers may lie. */
function numbers(/** @type {any} */ Type, /** @type {DataView | undefined} */ bytes) {
  return bytes?.byteLength ? new Type(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)) : new Type(0);
}

/** @param {(name: string) => any} get @returns {Data} */
export function readData(get) {
  const [start, duration, self] = ["start_ms", "duration_ms", "self_ms"].map((name) => numbers(Float64Array, get(name)));
  const [name, phase, module, line] = ["name", "phase", "module", "line"].map((one) => numbers(Int32Array, get(one)));
  let last = 0;
  for (let i = 0; i < start.length; i += 1) last = Math.max(last, start[i] + duration[i]);
  return { count: start.length, last: last || 1, names: get("names"), ops: get("ops"), steps: get("steps"), modules: get("modules"), phases: get("phases"), lines: get("lines"),
    rows: get("rows"), counted: get("counted_ms"), start, duration, self, name, phase, module, line };
}

/** Where each lane lies, from the top. @param {Data["rows"]} rows @param {number} width @returns {Layout} */
export function layOut(rows, width) {
  const isNarrow = width < NARROW;
  /** @type {Layout} */
  const layout = { lanes: [], labels: [], height: AXIS, isNarrow, gutter: isNarrow ? NARROW_GUTTER : GUTTER };
  for (const row of rows) {
    layout.labels.push({ text: row.label, y: layout.height });
    if (isNarrow) layout.height += LANE;
    for (const [first, end] of row.lanes) {
      layout.lanes.push({ first, end, y: layout.height, isBand: row.is_band });
      layout.height += LANE;
    }
    layout.height += ROW_GAP;
  }
  return layout;
}

/** The first index in [low, high) for which `isPast`, which must be false and then true. */
function firstWhere(/** @type {number} */ low, /** @type {number} */ high, /** @type {(i: number) => boolean} */ isPast) {
  let reach = 1;
  let until = low;
  while (until < high && !isPast(until)) {
    low = until + 1;
    until += reach;
    reach *= 2;
  }
  until = Math.min(until, high);
  while (low < until) {
    const middle = (low + until) >> 1;
    if (isPast(middle)) until = middle; else low = middle + 1;
  }
  return low;
}

/** The slice under a point, the longest where several share a pixel; -1 for none. @param {Data} data @param {Lane} lane */
function sliceAt(data, lane, /** @type {number} */ from, /** @type {number} */ until) {
  let best = -1;
  const first = firstWhere(lane.first, lane.end, (i) => data.start[i] + data.duration[i] >= from);
  for (let i = first; i < lane.end && data.start[i] <= until; i += 1) if (best < 0 || data.duration[i] > data.duration[best]) best = i;
  return best;
}

/** The same colour a third darker or two: neighbours of one phase are told apart. @param {string} colour */
function shades(colour) {
  const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return [1, 0.84, 0.7].map((factor) => `rgb(${parts.map((part) => Math.round(part * factor)).join(",")})`);
}

/** Draw the lanes that are in view; gives the number of rectangles.
 * @param {CanvasRenderingContext2D} context @param {Data} data @param {Layout} layout @param {View} view */
export function drawLanes(context, data, layout, view) {
  const brush = new Brush(context, data, view);
  for (const lane of layout.lanes) {
    const y = lane.y - view.top;
    if (y + LANE >= AXIS && y <= view.height) drawLane(brush, data, lane, y, view);
  }
  context.globalAlpha = 1;
  return brush.drawn;
}

/** @param {Brush} brush @param {Data} data @param {Lane} lane @param {number} y @param {View} view */
function drawLane(brush, data, lane, y, view) {
  const { scale } = brush;
  brush.isSteady = lane.isBand;
  let i = firstWhere(lane.first, lane.end, (at) => data.start[at] + data.duration[at] > view.from);
  while (i < lane.end && data.start[i] < view.until) {
    if (data.duration[i] * scale >= 1) {
      brush.slice(i, y);
      i += 1;
      continue;
    }
    // The grid is fixed to time, not to the view: while panning, a pixel stands for the same slices.
    const pixel = Math.floor(data.start[i] * scale);
    const next = firstWhere(i + 1, lane.end, (at) => data.start[at] * scale >= pixel + 1);
    const end = next - 1 > i && data.duration[next - 1] * scale >= 1 ? next - 1 : next;
    brush.speck(i, end, pixel - brush.shift, y);
    i = end;
  }
  brush.flush(y);
}

/** Draws slices of a pixel or more one by one, narrower ones as runs of one colour. */
class Brush {
  /** @param {CanvasRenderingContext2D} context @param {Data} data @param {View} view */
  constructor(context, data, view) {
    [this.context, this.data, this.view, this.drawn] = [context, data, view, 0];
    this.scale = (view.width - view.gutter) / (view.until - view.from);
    this.colours = data.phases.map((phase) => shades(phase.colour));
    this.run = { x: 0, wide: 0, colour: "", isFaint: false };
    // Whole pixels, so that a merged run has sharp edges and costs no blending.
    this.shift = Math.round(view.from * this.scale);
    [this.colour, this.alpha, this.isSteady] = ["", -1, false];
  }

  slice(/** @type {number} */ i, /** @type {number} */ y) {
    const { data, view, scale } = this;
    const x = Math.max((data.start[i] - view.from) * scale, -1);
    const wide = Math.min((data.start[i] + data.duration[i] - view.from) * scale, view.width) - x;
    const own = this.colours[data.phase[i]];
    const isFaint = this.isFaint(i, i + 1);
    this.rectangle(x, y, wide > 3 ? wide - 0.6 : wide, own[data.name[i] % own.length], isFaint);
    if (wide <= 30) return;
    this.context.globalAlpha = this.alpha = 1;
    drawText(this.context, data.names[data.name[i]], view.gutter + Math.max(x, 0) + 3, y, wide - 6, isFaint ? view.muted : "#fff");
    this.colour = "";
  }

  /** All slices from `i` up to `end` as one pixel. */
  speck(/** @type {number} */ i, /** @type {number} */ end, /** @type {number} */ x, /** @type {number} */ y) {
    const [run, colour, isFaint] = [this.run, this.colours[this.data.phase[i]][0], this.isFaint(i, end)];
    if (run.wide && run.x + run.wide === x && run.colour === colour && run.isFaint === isFaint) run.wide += 1;
    else {
      this.flush(y);
      this.run = { x, wide: 1, colour, isFaint };
    }
  }

  flush(/** @type {number} */ y) {
    if (this.run.wide) this.rectangle(this.run.x, y, this.run.wide, this.run.colour, this.run.isFaint);
    this.run.wide = 0;
  }

  /** Whether some are searched for or chosen, and none of these. */
  isFaint(/** @type {number} */ i, /** @type {number} */ end) {
    const { wanted } = this.view;
    return wanted.length > 0 && !this.isSteady && wanted.every(({ before }) => before[end] === before[i]);
  }

  rectangle(/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ wide, /** @type {string} */ colour, /** @type {boolean} */ isFaint) {
    const alpha = isFaint ? this.view.faint : 1;
    if (alpha !== this.alpha) this.context.globalAlpha = this.alpha = alpha;
    if (colour !== this.colour) this.context.fillStyle = this.colour = colour;
    this.context.fillRect(this.view.gutter + x, y, wide, LANE - 2);
    this.drawn += 1;
  }
}

/** Text cut to a width; six and a half pixels a letter are near enough, and measuring each would cost the frame. */
function drawText(/** @type {CanvasRenderingContext2D} */ context, /** @type {string} */ text, /** @type {number} */ x, /** @type {number} */ y,
  /** @type {number} */ wide, /** @type {string} */ colour) {
  const letters = Math.floor(wide / 6.5);
  if (letters < 3) return;
  context.fillStyle = colour;
  context.fillText(text.length > letters ? `${text.slice(0, letters - 1)}…` : text, x, y + 11.5);
}

/** Round times at least 90 pixels apart. @param {View} view @returns {{x: number, ms: number}[]} */
function ticksOf(view) {
  const scale = (view.width - view.gutter) / (view.until - view.from);
  const rough = 90 / scale;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const ticks = [];
  for (let ms = Math.ceil(view.from / step) * step; ms < view.until; ms += step) ticks.push({ x: view.gutter + (ms - view.from) * scale, ms });
  return ticks;
}

/** Lines at the ticks, under the lanes. @param {CanvasRenderingContext2D} context @param {View} view */
function drawGrid(context, view) {
  context.fillStyle = view.grid;
  for (const { x } of ticksOf(view)) context.fillRect(Math.round(x), AXIS - 6, 1, view.height);
}

/** A veil over what the tables leave out, and the times at the ticks.
 * @param {CanvasRenderingContext2D} context @param {Data} data @param {View} view */
function drawAxis(context, data, view) {
  const scale = (view.width - view.gutter) / (view.until - view.from);
  context.fillStyle = view.grid;
  for (const [from, until] of [[view.from, data.counted[0]], [data.counted[1], view.until]]) {
    if (until > from) context.fillRect(view.gutter + (from - view.from) * scale, 0, (until - from) * scale, view.height);
  }
  for (const { x, ms } of ticksOf(view)) drawText(context, timeText(Number(ms.toPrecision(9))), x + 3, 2, 88, view.muted);
}

/** The span whose sums are shown: its edges, and what lies outside under a veil.
 * @param {CanvasRenderingContext2D} context @param {View} view */
function drawSpan(context, view) {
  if (view.span.length < 2) return;
  const [from, until] = view.span.map((ms) => view.gutter + ((ms - view.from) * (view.width - view.gutter)) / (view.until - view.from));
  context.globalAlpha = 0.16;
  context.fillStyle = view.brand;
  context.fillRect(from, 0, until - from, view.height);
  context.globalAlpha = 1;
  for (const x of [from, until]) context.fillRect(Math.round(x) - 1, 0, 2, view.height);
  context.fillRect(from, AXIS - 5, until - from, 3);
}

/** The whole picture: lanes, the chosen slice, then axis and labels over what scrolled under them.
 * @param {CanvasRenderingContext2D} context @param {Data} data @param {Layout} layout @param {View} view */
function draw(context, data, layout, view) {
  context.font = "11px ui-sans-serif, system-ui, 'DejaVu Sans', sans-serif";
  context.clearRect(0, 0, view.width, view.height);
  drawGrid(context, view);
  drawLanes(context, data, layout, view);
  drawChosen(context, data, layout, view);
  context.clearRect(0, 0, view.width, AXIS);
  drawAxis(context, data, view);
  drawSpan(context, view);
  context.clearRect(0, 0, view.gutter, view.height);
  for (const label of layout.labels) {
    const wide = layout.isNarrow ? view.width - 8 : view.gutter - 8;
    if (label.y - view.top >= AXIS) drawText(context, label.text, 4, label.y - view.top, wide, view.text);
  }
}

/** A frame round the chosen slice. @param {CanvasRenderingContext2D} context @param {Data} data @param {Layout} layout @param {View} view */
function drawChosen(context, data, layout, view) {
  const lane = laneOf(layout, view.selected);
  if (!lane) return;
  const scale = (view.width - view.gutter) / (view.until - view.from);
  const x = (data.start[view.selected] - view.from) * scale;
  context.strokeStyle = view.text;
  context.lineWidth = 2;
  context.strokeRect(view.gutter + x - 1, lane.y - view.top - 1, Math.max(data.duration[view.selected] * scale, 2) + 2, LANE);
}

/** @param {Layout} layout @param {number} i */
function laneOf(layout, i) {
  return layout.lanes.find((lane) => i >= lane.first && i < lane.end);
}

/** What is known of a slice, as pairs of a word and its value. @param {Data} data @param {number} i */
export function factsOf(data, i) {
  const line = data.lines[data.line[i]];
  return [
    ["Time", data.self[i] < data.duration[i] ? `${timeText(data.duration[i])}, of it itself ${timeText(data.self[i])}` : timeText(data.duration[i])],
    ["Begins at", timeText(data.start[i])], ["Phase", data.phases[data.phase[i]].label], ["Module", data.modules[data.module[i]]],
    ["Line", line ? `${line.where}: ${line.text}` : ""],
  ].filter(([, value]) => value);
}
