// Draws what the machine does: one tile a thing that is watched, with small lines of the last seconds.
// Every text comes from Python. The layout never changes while values do: texts and pixels are replaced in place.

/** @typedef {{key: string, label: string, lines: string[]}} Tile */

const POINTS = 90;
const MOST_LINES_APART = 32;  // more cores than that are drawn as a bar each, of now
const HEIGHT = 30;

/** Small charts side by side, one a line; a line is filled below, a gap is where there are no data.
 * @param {HTMLCanvasElement} canvas @param {number[][]} rows @param {number} first @param {number} count @param {number} slots */
function drawLines(canvas, rows, first, count, slots) {
  const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
  if (!width) return;
  if (canvas.width !== Math.round(width * ratio)) { canvas.width = Math.round(width * ratio); canvas.height = HEIGHT * ratio; }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const style = getComputedStyle(canvas);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, HEIGHT);
  const perRow = Math.min(slots, Math.max(1, Math.floor(width / 24))), lanes = Math.ceil(slots / perRow);
  const gap = slots > 1 ? 3 : 0, cellWidth = (width - gap * (perRow - 1)) / perRow, cellHeight = (HEIGHT - (lanes - 1)) / lanes;
  for (let line = 0; line < count; line++) {
    const slot = slots === 1 ? 0 : line;
    const left = (slot % perRow) * (cellWidth + gap), top = Math.floor(slot / perRow) * (cellHeight + 1);
    if (line < slots) {
      context.fillStyle = style.getPropertyValue("--telemetry-ground");
      context.fillRect(left, top, cellWidth, cellHeight);
    }
    drawLine(context, rows.map((row) => row[first + line]), left, top, cellWidth, cellHeight, style, line > 0 && slots === 1);
  }
}

/** @param {CanvasRenderingContext2D} context @param {number[]} values @param {number} left @param {number} top
 * @param {number} width @param {number} height @param {CSSStyleDeclaration} style @param {boolean} isDashed */
function drawLine(context, values, left, top, width, height, style, isDashed) {
  const at = (/** @type {number} */ index) => left + width - (values.length - 1 - index) * (width / (POINTS - 1));
  const up = (/** @type {number} */ value) => top + height - 1 - (height - 2) * value / 100;
  const colour = style.getPropertyValue("--telemetry-line");
  context.lineWidth = 1.25;
  context.strokeStyle = colour;
  context.setLineDash(isDashed ? [2, 2] : []);
  let begun = -1;
  for (let index = 0; index <= values.length; index++) {
    const isTold = index < values.length && values[index] >= 0;
    if (isTold && begun < 0) begun = index;
    if (isTold || begun < 0) continue;
    const from = Math.max(begun, values.length - POINTS);
    context.beginPath();
    for (let point = from; point < index; point++) context.lineTo(at(point), up(values[point]));
    if (index - from === 1) context.lineTo(at(from) + 1, up(values[from]));
    context.stroke();
    if (!isDashed) {
      context.lineTo(at(index - 1), top + height); context.lineTo(at(from), top + height);
      context.globalAlpha = 0.22; context.fillStyle = colour; context.fill(); context.globalAlpha = 1;
    }
    begun = -1;
  }
  context.setLineDash([]);
}

/** @param {HTMLCanvasElement} canvas @param {number[]} values */
function drawBars(canvas, values) {
  drawLines(canvas, [], 0, 1, 1);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const width = canvas.clientWidth / values.length;
  context.fillStyle = getComputedStyle(canvas).getPropertyValue("--telemetry-line");
  values.forEach((value, index) => {
    const height = HEIGHT * Math.max(0, value) / 100;
    context.fillRect(index * width, HEIGHT - height, Math.max(0.5, width - 0.5), height);
  });
}

/** @param {Tile} tile */
function tileView(tile) {
  const value = element("span", { class: "accel-telemetry-value", "data-testid": `telemetry-${tile.key}` });
  const detail = element("span", { class: "accel-telemetry-detail" });
  const canvas = /** @type {HTMLCanvasElement} */ (element("canvas", { "aria-hidden": "true", title: tile.lines.join(", ") }));
  const view = element("div", { class: "accel-telemetry-tile", "data-tile": tile.key },
    element("div", { class: "accel-telemetry-top" },
      element("span", { class: "accel-telemetry-label" }, tile.label), value), canvas, detail);
  return { tile, view, value, detail, canvas };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  /** @type {number[][]} */
  let rows = [];
  let newest = -1;  // the number of the last row
  /** @type {ReturnType<typeof tileView>[]} */
  let views = [];
  let frame = 0;
  const button = (/** @type {string} */ name) => element("button", { type: "button", class: "accel-button", "data-testid": name });
  const fold = element("button", { type: "button", class: "accel-fold", "data-testid": "telemetry-fold" });
  const pause = button("telemetry-pause"), end = button("telemetry-end");
  const grid = element("div", { class: "accel-telemetry-tiles", "aria-hidden": "true" });
  const said = element("p", { class: "accel-telemetry-said", "data-testid": "telemetry-said" });
  const note = element("p", { class: "accel-telemetry-note", "data-testid": "telemetry-note" });
  end.textContent = "End";
  end.title = "Sample no more; what was sampled stays in the monitor";
  el.classList.add("accel", "accel-telemetry");
  el.setAttribute("role", "group");
  el.setAttribute("aria-label", "Load of this machine");
  el.append(element("div", { class: "accel-telemetry-bar" }, fold, pause, end), grid, said, note);

  const paint = () => {
    frame = 0;
    let first = 0;
    for (const { tile, canvas } of views) {
      const count = tile.lines.length, isOfCores = tile.key === "cpu";
      if (isOfCores && count > MOST_LINES_APART) drawBars(canvas, (rows.at(-1) ?? []).slice(first, first + count));
      else drawLines(canvas, rows, first, count, isOfCores ? Math.max(1, count) : 1);
      first += count;
    }
  };
  const repaint = () => { frame ||= requestAnimationFrame(paint); };
  const drawTiles = () => {
    views = model.get("tiles").map(tileView);
    grid.replaceChildren(...views.map(({ view }) => view));
    drawTexts();
  };
  const drawTexts = () => {
    const { texts = [], said: sentence = "" } = model.get("now");
    views.forEach(({ value, detail }, index) => {
      const [shown = "", more = ""] = texts[index] ?? [];
      if (value.textContent !== shown) value.textContent = shown;
      if (detail.textContent !== more) { detail.textContent = more; detail.title = more; }
    });
    said.textContent = sentence;
    repaint();
  };
  const add = () => {
    const { row, number } = model.get("now");
    if (row && number !== newest) rows = [...rows.slice(1 - POINTS), row];
    newest = number;
    drawTexts();
  };
  const refill = () => {
    const { row, number } = model.get("now");
    rows = [...model.get("past"), ...(row ? [row] : [])].slice(-POINTS);
    newest = number;
    repaint();
  };
  const drawState = () => {
    const isOpen = model.get("is_open"), isOver = model.get("is_over"), isPaused = model.get("is_paused");
    fold.textContent = `${isOpen ? "▾" : "▸"} Load of this machine`;
    fold.setAttribute("aria-expanded", String(isOpen));
    pause.textContent = isPaused ? "Go on" : "Pause";
    hide(pause, !isOpen || isOver, fold);
    hide(end, !isOpen || isOver || !model.get("can_close"), fold);
    grid.hidden = said.hidden = !isOpen;
    note.textContent = model.get("note");
    note.hidden = !model.get("note");
    repaint();
  };
  const turn = (/** @type {string} */ name) => () => { model.set(name, !model.get(name)); model.save_changes(); };
  fold.addEventListener("click", turn("is_open"));
  pause.addEventListener("click", turn("is_paused"));
  end.addEventListener("click", () => model.send({ do: "end" }));
  /** @type {[string, () => void][]} */
  const watched = [["tiles", drawTiles], ["now", add], ["past", refill],
    ...["is_open", "is_paused", "is_over", "can_close", "note"].map((name) => /** @type {[string, () => void]} */ ([name, drawState]))];
  for (const [name, draw] of watched) model.on(`change:${name}`, draw);
  const resized = new ResizeObserver(repaint);
  resized.observe(grid);
  refill();
  drawTiles();
  drawState();
  const stopSaying = saySeen(model, el, false);
  return () => {
    stopSaying();
    for (const [name, draw] of watched) model.off(`change:${name}`, draw);
    resized.disconnect();
    cancelAnimationFrame(frame);
  };
}

export default { render };
