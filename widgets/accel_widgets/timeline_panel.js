// Draws the profiled steps as slices in rows: zoom at the pointer, drag, search, click for details.
// Rows, names and sentences come from Python; here are only pixels, and times put in a unit that fits. What is drawn and
// what lies where is in timeline_drawing.js, what is found and added up in timeline_sums.js: both stand before this in the same module.

const TALLEST = 430;
const HIGHEST = 8000; // of a picture that is saved: browsers limit a canvas
const LEAST_MS = 1e-5;
const CLICK_PX = 4;
const KEYS = "Arrow keys move, plus and minus zoom, 0 shows all, N and P go to the next and previous match. "
  + "From a chosen slice, Shift with an arrow key adds up a span; Escape clears it.";
const HINT = "Drag to move; drag along the times, or with Shift, to add up a span. Shaded: warm-up, which the tables leave out.";
const WHEEL = "The wheel zooms once the picture was clicked, or with Ctrl. ";

/** A small button with a sign for a face. @param {string} id @param {string} sign @param {string} label */
function signButton(id, sign, label) {
  return element("button", { type: "button", class: "accel-button", "data-testid": `timeline-${id}`, "aria-label": label, title: label }, sign);
}

/** One view of the panel: what is on the page, which stretch of time is shown, and what was found. */
class TimelineView {
  /** @param {any} model @param {HTMLElement} el */
  constructor(model, el) {
    [this.model, this.el] = [model, el];
    this.build();
    this.data = readData((name) => model.get(name));
    this.layout = layOut(this.data.rows, this.width);
    [this.from, this.until, this.at, this.frame, this.reached] = [0, this.data.last, -1, 0, -1];
    /** What was searched for, and the slices of the chosen operation. @type {(Matches | null)[]} */
    [this.matches, this.chosen] = [null, null];
    /** @type {{x: number, y: number, from: number, top: number, at: number, isSpan: boolean, hasMoved: boolean} | null} */
    this.drag = null;
    /** A span while it is drawn. @type {number[]} */
    this.drawn = [];
    this.drawNow = this.drawNow.bind(this);
    this.redraw = () => { this.frame ||= requestAnimationFrame(this.drawNow); };
    this.listenToPointer();
    this.listenToKeys();
    this.listenToTools();
    this.stop = this.listenOutside();
    this.load();
  }

  // --- what is on the page ------------------------------------------------------------------------------------------

  build() {
    this.toggle = element("button", { type: "button", class: "accel-button", "data-testid": "timeline-toggle" });
    this.search = /** @type {HTMLInputElement} */ (element("input", { type: "search", class: "accel-timeline-search",
      "data-testid": "timeline-search", placeholder: "Find: conv backward …", "aria-label": "Find operations or modules in the timeline" }));
    [this.previous, this.next] = [signButton("previous", "‹", "Previous match"), signButton("next", "›", "Next match")];
    this.found = element("span", { class: "accel-muted accel-timeline-found", role: "status", "data-testid": "timeline-found" });
    this.zoomButtons = [signButton("in", "+", "Zoom in"), signButton("out", "−", "Zoom out"), signButton("whole", "All", "Show all of it"),
      signButton("png", "PNG", "Save as PNG")];
    this.canvas = /** @type {HTMLCanvasElement} */ (element("canvas", { tabindex: "0", role: "application", "data-testid": "timeline-canvas" }));
    this.spacer = element("div");
    this.scroll = element("div", { class: "accel-timeline-scroll" }, this.canvas, this.spacer);
    this.tip = element("div", { class: "accel-timeline-tip", "data-testid": "timeline-tip", "aria-hidden": "true", hidden: "" });
    this.sums = element("div", { class: "accel-timeline-details", role: "status", "data-testid": "timeline-sums" });
    this.details = element("div", { class: "accel-timeline-details", role: "status", "data-testid": "timeline-details" });
    this.summary = element("ul", { "data-testid": "timeline-summary" });
    this.note = element("p", { class: "accel-empty", "data-testid": "timeline-note" });
    const steps = element("div", { class: "accel-timeline-steps", role: "toolbar", "aria-label": "Go and zoom; arrow keys move between buttons" },
      this.previous, this.next, ...this.zoomButtons);
    this.settleTools = rove(steps, "button");
    const tools = element("div", { class: "accel-timeline-tools" }, this.search, steps, this.found);
    const asText = element("details", {}, element("summary", {}, "As text"), this.summary);
    const keys = element("details", {}, element("summary", {}, "Keys"), element("p", { class: "accel-timeline-hint" }, WHEEL, KEYS));
    this.body = element("div", {}, tools, this.scroll, element("p", { class: "accel-muted accel-timeline-hint" }, HINT), this.sums, this.details, keys, asText);
    this.el.classList.add("accel", "accel-timeline");
    const top = element("div", { class: "accel-timeline-top" }, element("h3", { class: "accel-heading" }, "Timeline"), this.toggle);
    this.el.append(top, this.note, this.body, this.tip);
    addSkip(this.el, "the timeline");
  }

  load() {
    this.data = readData((name) => this.model.get(name));
    this.layout = layOut(this.data.rows, this.width);
    this.canvas.setAttribute("aria-label", `${this.model.get("label")} ${KEYS}`);
    this.summary.replaceChildren(...this.model.get("summary").map((/** @type {string} */ line) => element("li", {}, line)));
    this.look(0, this.data.last);
    this.open();
    this.find();
    this.choose();
    this.showDetails();
    this.showSums();
  }

  open() {
    const isOpen = this.model.get("is_open");
    this.toggle.textContent = isOpen ? "Hide" : "Show";
    this.toggle.setAttribute("aria-expanded", String(isOpen));
    this.body.hidden = !isOpen || !this.data.count;
    this.note.textContent = isOpen ? this.model.get("note") : "";
    this.note.hidden = !this.note.textContent;
    this.redraw();
  }

  drawNow() {
    this.frame = 0;
    if (this.body.hidden) return;
    if (this.layout.isNarrow !== this.width < NARROW) this.layout = layOut(this.data.rows, this.width);
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== high) [this.canvas.width, this.canvas.height] = [wide, high];
    this.canvas.style.height = `${this.height}px`;
    this.spacer.style.height = `${Math.max(this.layout.height - this.height, 0)}px`;
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(context, this.data, this.layout, this.seen(this.scroll.scrollTop, this.height));
  }

  /** How the picture looks, from `top` on. */
  seen(/** @type {number} */ top, /** @type {number} */ height) {
    const colours = getComputedStyle(this.el);
    return { from: this.from, until: this.until, width: this.width, gutter: this.layout.gutter, top, height, wanted: [this.matches, this.chosen].filter((found) => found !== null),
      faint: this.matches ? 0.2 : 0.4,
      selected: this.model.get("selected"), span: this.drawn.length ? this.drawn : this.model.get("span_ms"), text: colours.color,
      muted: getComputedStyle(this.found).color, grid: "rgba(127,127,127,0.16)", brand: colours.getPropertyValue("--accel-brand") };
  }

  /** All rows, of the stretch of time that is shown. */
  savePicture() {
    const height = Math.min(this.layout.height, HIGHEST);
    const { canvas, context } = sheet(this.width, height);
    draw(context, this.data, this.layout, this.seen(0, height));
    savePng(this.el, canvas, "timeline");
  }

  // --- which stretch of time is shown -------------------------------------------------------------------------------

  /** Folded, it has none: then as most pages give it. */
  get width() { return Math.max(this.scroll.clientWidth || 1000, 200); }

  get height() { return Math.min(this.layout.height, TALLEST); }

  get span() { return this.until - this.from; }

  /** Milliseconds that a pixel stands for. */
  get perPixel() { return this.span / (this.width - this.layout.gutter); }

  /** Show a stretch of time, kept inside what there is. */
  look(/** @type {number} */ begin, /** @type {number} */ span) {
    const wide = Math.min(Math.max(span, LEAST_MS), this.data.last);
    this.from = Math.min(Math.max(begin, 0), this.data.last - wide);
    this.until = this.from + wide;
    this.redraw();
  }

  /** What lies under `x` stays there. */
  zoom(/** @type {number} */ factor, x = (this.layout.gutter + this.width) / 2) {
    const share = Math.min(Math.max((x - this.layout.gutter) / (this.width - this.layout.gutter), 0), 1);
    const span = Math.min(Math.max(this.span * factor, LEAST_MS), this.data.last);
    this.look(this.from + share * (this.span - span), span);
  }

  /** Bring a slice to the middle, at least 60 pixels wide, and choose it. */
  bring(/** @type {number} */ i) {
    const lasts = Math.max(this.data.duration[i], LEAST_MS);
    const span = Math.max(Math.min(this.span, (lasts * (this.width - this.layout.gutter)) / 60), lasts * 1.2);
    this.look(this.data.start[i] + lasts / 2 - span / 2, span);
    const y = laneOf(this.layout, i)?.y ?? 0;
    const isInView = y >= this.scroll.scrollTop + AXIS && y + LANE <= this.scroll.scrollTop + this.height;
    if (!isInView) this.scroll.scrollTop = y - this.height / 2;
    this.select(i);
  }

  // --- search and choice --------------------------------------------------------------------------------------------

  find() {
    const query = this.model.get("query");
    this.matches = findMatches(this.data, query);
    this.at = this.matches ? -1 : this.chosen?.inTime.indexOf(this.model.get("selected")) ?? -1;
    if (this.search.value !== query) this.search.value = query;
    this.showFound();
    this.redraw();
  }

  /** The operation that was chosen here or in a table: its slices, and the first of them if none of them is chosen yet. */
  choose() {
    const op = this.model.get("chosen_op");
    this.chosen = findOp(this.data, op);
    if (this.chosen?.inTime.length && !isSame(opOf(this.data, this.model.get("selected")), op)) {
      this.bring(this.chosen.inTime[0]);
      this.found.scrollIntoView({ block: "nearest" });
    }
    if (!this.matches) this.at = this.chosen?.inTime.indexOf(this.model.get("selected")) ?? -1;
    this.showFound();
    this.redraw();
  }

  /** Chosen in a table: the timeline opens for it, and its data come then. No operation any more: no slice of one either. */
  chooseFromOutside() {
    const op = this.model.get("chosen_op");
    if (op.op && !this.model.get("is_open")) this.set({ is_open: true });
    if (!op.op && opOf(this.data, this.model.get("selected"))) this.select(-1);
    this.choose();
  }

  showFound() {
    const { matches, chosen, at } = this;
    const text = matches ? foundText(this.data, matches, at) : chosen ? opText(this.data, chosen, at) : "";
    write(this.found, text);
    for (const button of [this.previous, this.next]) button.toggleAttribute("disabled", !(matches ?? chosen)?.inTime.length);
    this.settleTools();
  }

  /** To the next match (1) or the one before (-1), round the ends; without a search, of the chosen operation's slices. */
  go(/** @type {number} */ by) {
    const places = (this.matches ?? this.chosen)?.inTime;
    if (!places?.length) return;
    const at = this.at < 0 && by < 0 ? places.length - 1 : (this.at + by + places.length) % places.length;
    this.bring(places[at]);
    this.at = at;
    this.showFound();
  }

  set(/** @type {Record<string, any>} */ changes) {
    for (const [name, value] of Object.entries(changes)) this.model.set(name, value);
    this.model.save_changes();
  }

  /** A slice, and with it the operation it counts for; what was chosen in the same operation stays chosen. */
  select(/** @type {number} */ i) {
    const op = opOf(this.data, i) ?? {};
    this.set({ selected: i, ...(isSame(op, this.model.get("chosen_op")) ? {} : { chosen_op: op }) });
    this.showDetails();
  }

  showSums() {
    const span = this.model.get("span_ms");
    this.sums.replaceChildren(...(span.length && this.data.count ? sumsView(this.data, span) : []));
    this.redraw();
  }

  /** One slice further from the chosen one, to the right (1) or the left (-1): the span from the one to the other. */
  extend(/** @type {number} */ by) {
    const [data, selected] = [this.data, this.model.get("selected")];
    const lane = laneOf(this.layout, selected);
    if (!lane) return;
    const from = this.model.get("span_ms").length && this.reached >= lane.first && this.reached < lane.end ? this.reached : selected;
    this.reached = Math.min(Math.max(from + by, lane.first), lane.end - 1);
    const ends = [selected, this.reached].sort((a, b) => a - b);
    const [begin, end] = [data.start[ends[0]], data.start[ends[1]] + data.duration[ends[1]]];
    this.set({ span_ms: [begin, end] });
    if (begin < this.from || end > this.until) this.look(begin - 0.1 * (end - begin), Math.max(this.span, 1.2 * (end - begin)));
  }

  /** Whether there was something to clear: the span, then the choice. */
  clear() {
    if (this.model.get("span_ms").length) this.set({ span_ms: [] });
    else if (this.model.get("selected") >= 0) this.select(-1);
    else return false;
    return true;
  }

  showDetails() {
    const [data, i] = [this.data, this.model.get("selected")];
    const isKnown = i >= 0 && i < data.count;
    const facts = isKnown ? factsOf(data, i).flatMap(([word, value]) => [element("dt", {}, word), element("dd", {}, value)]) : [];
    this.details.replaceChildren(...(isKnown ? [element("strong", {}, data.names[data.name[i]]), element("dl", {}, ...facts)] : []));
    this.redraw();
  }

  // --- pointer, keys, buttons ---------------------------------------------------------------------------------------

  /** The slice at a point of the canvas, -1 for none. @param {MouseEvent} event */
  under({ offsetX, offsetY }) {
    const y = offsetY + this.scroll.scrollTop;
    const lane = this.layout.lanes.find((one) => y >= one.y && y < one.y + LANE);
    if (!lane || offsetY < AXIS || offsetX < this.layout.gutter) return -1;
    const time = this.timeAt(offsetX);
    return sliceAt(this.data, lane, time - this.perPixel, time + this.perPixel);
  }

  timeAt(/** @type {number} */ x) {
    return Math.min(Math.max(this.from + (x - this.layout.gutter) * this.perPixel, 0), this.data.last);
  }

  listenToPointer() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.drag = { x: event.clientX, y: event.clientY, from: this.from, top: this.scroll.scrollTop,
        at: this.timeAt(event.offsetX), isSpan: event.shiftKey || event.offsetY < AXIS, hasMoved: false };
      this.tip.hidden = true;
    });
    canvas.addEventListener("pointermove", (event) => (this.drag ? this.pull(event) : this.hover(event)));
    canvas.addEventListener("pointerup", (event) => {
      if (this.drag && !this.drag.hasMoved) this.click(event);
      else if (this.drawn.length) this.set({ span_ms: this.drawn });
      [this.drag, this.drawn, this.reached] = [null, [], -1];
    });
    canvas.addEventListener("pointercancel", () => { [this.drag, this.drawn] = [null, []]; this.redraw(); });
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("wheel", (event) => this.turn(event), { passive: false });
  }

  /** On the times: no span any more. */
  click(/** @type {PointerEvent} */ event) {
    if (event.offsetY < AXIS) this.set({ span_ms: [] });
    else this.select(this.under(event));
  }

  pull(/** @type {PointerEvent} */ event) {
    const drag = /** @type {NonNullable<typeof this.drag>} */ (this.drag);
    const [x, y] = [event.clientX - drag.x, event.clientY - drag.y];
    drag.hasMoved ||= Math.hypot(x, y) > CLICK_PX;
    if (!drag.hasMoved) return;
    if (drag.isSpan) {
      this.drawn = [drag.at, this.timeAt(event.offsetX)].sort((a, b) => a - b);
      this.redraw();
      return;
    }
    this.scroll.scrollTop = drag.top - y;
    this.look(drag.from - x * this.perPixel, this.span);
  }

  hover(/** @type {PointerEvent} */ event) {
    const [data, tip, i] = [this.data, this.tip, this.under(event)];
    tip.hidden = i < 0;
    this.canvas.classList.toggle("accel-timeline-at-times", event.offsetY < AXIS);
    if (i < 0) return;
    const facts = factsOf(data, i).map(([word, value]) => element("div", {}, `${word}: ${value}`));
    tip.replaceChildren(element("strong", {}, data.names[data.name[i]]), ...facts);
    const box = this.el.getBoundingClientRect();
    tip.style.left = `${Math.min(event.clientX - box.left + 12, Math.max(box.width - tip.offsetWidth - 4, 0))}px`;
    tip.style.top = `${event.clientY - box.top + 14}px`;
  }

  /** The page scrolls under a wheel, unless the picture was chosen. @param {WheelEvent} event */
  turn(event) {
    if (document.activeElement !== this.canvas && !event.ctrlKey) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.look(this.from + event.deltaX * this.perPixel, this.span);
    else this.zoom(Math.exp(Math.min(Math.max(event.deltaY, -300), 300) * 0.002), event.offsetX);
  }

  listenToKeys() {
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => this.look(this.from - this.span / 5, this.span), ArrowRight: () => this.look(this.from + this.span / 5, this.span),
      ArrowUp: () => { this.scroll.scrollTop -= 2 * LANE; }, ArrowDown: () => { this.scroll.scrollTop += 2 * LANE; },
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.look(0, this.data.last),
      n: () => this.go(1), p: () => this.go(-1),
    };
    /** @type {Record<string, () => void>} */
    const withShift = { ArrowLeft: () => this.extend(-1), ArrowRight: () => this.extend(1) };
    this.canvas.addEventListener("keydown", (event) => {
      const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
      const act = (event.shiftKey && withShift[key]) || keys[key];
      if (event.ctrlKey || event.metaKey || event.altKey || !(act || (key === "Escape" && this.clear()))) return;
      event.preventDefault();
      event.stopPropagation(); // Escape too: with nothing left to clear, it leaves the panel
      act?.();
    });
  }

  listenToTools() {
    const acts = [() => this.zoom(0.5), () => this.zoom(2), () => this.look(0, this.data.last), () => this.savePicture()];
    this.zoomButtons.forEach((button, number) => button.addEventListener("click", acts[number]));
    this.previous.addEventListener("click", () => this.go(-1));
    this.next.addEventListener("click", () => this.go(1));
    this.scroll.addEventListener("scroll", this.redraw);
    this.search.addEventListener("keydown", (event) => { if (event.key === "Enter") this.go(event.shiftKey ? -1 : 1); });
    this.search.addEventListener("input", () => this.set({ query: this.search.value }));
    this.toggle.addEventListener("click", () => this.set({ is_open: !this.model.get("is_open") }));
  }

  /** Listen to the model, the size and the theme; gives what stops it. */
  listenOutside() {
    const listeners = /** @type {[string, () => void][]} */ ([["change:generation", () => this.load()], ["change:query", () => this.find()],
      ["change:selected", () => this.showDetails()], ["change:is_open", () => this.open()], ["change:chosen_op", () => this.chooseFromOutside()],
      ["change:span_ms", () => this.showSums()]]);
    for (const [event, listener] of listeners) this.model.on(event, listener);
    const [resized, themed] = [new ResizeObserver(this.redraw), new MutationObserver(this.redraw)];
    const darkness = window.matchMedia("(prefers-color-scheme: dark)");
    resized.observe(this.scroll);
    themed.observe(document.body, { attributes: true });
    darkness.addEventListener("change", this.redraw);
    return () => {
      for (const [event, listener] of listeners) this.model.off(event, listener);
      resized.disconnect();
      themed.disconnect();
      darkness.removeEventListener("change", this.redraw);
      cancelAnimationFrame(this.frame);
    };
  }
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  return new TimelineView(model, el).stop;
}

export default { render };
