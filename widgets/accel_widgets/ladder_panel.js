// Draws the trial ladder: for each plan a bar of its speed-up with the interval, the verdict, the loss and the proof, in words.
// Every number and sentence comes from Python; rows are updated in place, so that a focused button stays focused.

/**
 * @typedef {{id: string, plan: string, title: string, state: string, progress: string, mark: string, verdict: string, sentence: string,
 *   ratio: number | null, low: number | null, high: number | null, evidence: string[], can_keep: boolean, is_kept: boolean}} Row
 * @typedef {{end: number, ticks: {at: number, text: string}[]}} Axis
 * @typedef {{lines: {plan: string, colour: number, points: [number, number][]}[], metric: string, target: number | null}} Curves
 * @typedef {{id: string, title: string, state: string, is_running: boolean, summary: string, facts: string[], notes: string[], rows: Row[],
 *   time: string, date: string, axis: Axis, curves: Curves | null}} Trial
 * @typedef {{send: (message: object) => void, act: (what: string, id: string, value?: string) => void}} Page
 */

const WIDEST = 760;  // of curves, in pixels

/** The same for a list of lines. @param {Element} target @param {string[]} lines */
function writeLines(target, lines) {
  const shown = [...target.children].map((child) => child.textContent);
  if (shown.length !== lines.length || lines.some((line, index) => line !== shown[index])) {
    target.replaceChildren(...lines.map((line) => element("li", {}, line)));
  }
}

/** A plan, or a sentence with one, which may be broken into lines after each +. @param {Element} target @param {string} plan */
function writePlan(target, plan) {
  if (target.textContent === plan) return;
  const parts = plan.split("+").map((name, index, all) => (index < all.length - 1 ? `${name}+` : name));
  target.replaceChildren(...parts.flatMap((part, index) => (index ? [element("wbr"), part] : [part])));
}

/** Put elements in this order without disturbing those in place; a focused one stays focused. @param {Element} parent @param {Element[]} wanted */
function arrange(parent, wanted) {
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  wanted.forEach((child, index) => {
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  });
  if (focused && focused !== document.activeElement && parent.contains(focused)) focused.focus();
}

/** @param {number} value @param {number} end */
const percent = (value, end) => `${(100 * Math.min(value, end)) / end}%`;

/** @param {Axis} axis */
function axisLine({ end, ticks }) {
  const line = element("div", { class: "accel-ladder-axis", "aria-hidden": "true" });
  for (const { at, text } of ticks) {
    const tick = element("span", { class: "accel-ladder-tick" }, text);
    tick.style.left = percent(at, end);
    if (at > 0.95 * end) tick.classList.add("is-last");
    line.append(tick);
  }
  return line;
}

/** @param {string} tag @param {Record<string, string | number>} attributes @param {string} [text] */
function drawn(tag, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.textContent = text;
  return made;
}

/** Quality over seconds of training: a line a plan and seed, the target dotted. The rows say the same in words.
 * @param {Curves} curves @param {number} width */
function picture(curves, width) {
  const [height, left, right, top, bottom] = [200, 48, 12, 12, 30];
  const points = curves.lines.flatMap((line) => line.points);
  const levels = [...points.map(([, value]) => value), ...(curves.target === null ? [] : [curves.target])];
  const end = Math.max(...points.map(([seconds]) => seconds)) || 1;
  const [low, high] = [Math.min(...levels), Math.max(...levels)];
  const x = (/** @type {number} */ seconds) => left + ((width - left - right) * seconds) / end;
  const y = (/** @type {number} */ value) => height - bottom - ((height - top - bottom) * (value - low)) / (high - low || 1);
  const svg = /** @type {SVGElement} */ (drawn("svg", { width, height, class: "accel-curves", "aria-hidden": "true" }));
  svg.append(drawn("path", { class: "accel-curves-axis", d: `M${left} ${top}V${height - bottom}H${width - right}` }));
  for (const level of new Set([low, high])) svg.append(drawn("text", { x: left - 6, y: y(level) + 4, "text-anchor": "end" }, level.toPrecision(3)));
  svg.append(drawn("text", { x: left, y: height - 12 }, "0"), drawn("text", { x: width - right, y: height - 12, "text-anchor": "end" }, `${end.toPrecision(3)} s of training`));
  if (curves.target !== null) svg.append(drawn("path", { class: "accel-curves-target", d: `M${left} ${y(curves.target)}H${width - right}` }));
  for (const line of curves.lines) {
    const path = line.points.map(([seconds, value]) => `${x(seconds)} ${y(value)}`).join("L");
    svg.append(drawn("path", { class: `accel-curves-line accel-curve-${line.colour % 8}`, d: `M${path}`, "data-testid": "curve", "data-plan": line.plan }));
  }
  return svg;
}

/** The picture, and which colour is which plan; nothing before the first evaluation. @param {Element} target @param {Curves | null} curves */
function drawCurves(target, curves) {
  if (curves === null || curves.lines.length === 0) return target.replaceChildren();
  const plans = new Map(curves.lines.map((line) => [line.plan, line.colour % 8]));
  const legend = [...plans].map(([plan, colour]) => element("span", { class: `accel-curves-name accel-curve-${colour}` }, plan));
  const width = Math.min(target.clientWidth || WIDEST, WIDEST);  // folded, it has none
  target.replaceChildren(picture(curves, width), element("div", { class: "accel-curves-legend", "aria-hidden": "true" }, ...legend));
}

/** A row that can be updated; the element stays the same. What hides in it hands its focus to the trial.
 * @param {(message: object) => void} send @param {HTMLElement} trial */
function makeRow(send, trial) {
  const plan = element("code", { class: "accel-ladder-plan" });
  const live = element("span", { class: "accel-ladder-live", "data-testid": "is-live", tabindex: "-1" }, "● kept");
  const fill = element("div", { class: "accel-ladder-fill" });
  const whisker = element("div", { class: "accel-ladder-whisker", "data-testid": "whisker" });
  const unit = element("div", { class: "accel-ladder-unit" });
  const mark = element("span", { class: "accel-ladder-mark", "aria-hidden": "true" });
  const sentence = element("span", { "data-testid": "sentence" });
  const progress = element("span", { class: "accel-ladder-progress", "data-testid": "progress" });
  const evidence = element("ul", { "data-testid": "evidence" });
  const bar = element("div", { class: "accel-ladder-bar", "aria-hidden": "true" }, fill, unit, whisker);
  const details = element("details", { class: "accel-ladder-evidence" }, element("summary", {}, "How it was found"), evidence);
  const keep = /** @type {HTMLButtonElement} */ (element("button", { type: "button", class: "accel-button", "data-testid": "keep" }, "Keep"));
  const node = element("tr", { "data-testid": "ladder-row" },
    element("th", { scope: "row" }, plan, live),
    element("td", { class: "accel-ladder-speed" },
      bar,
      element("div", { class: "accel-ladder-answer" }, mark, sentence, progress), details),
    element("td", { class: "accel-ladder-actions" }, keep));
  let shownPlan = "";
  keep.addEventListener("click", () => send({ do: "keep", plan: shownPlan }));

  /** @param {Row} row @param {number} end */
  const update = (row, end) => {
    shownPlan = row.plan;
    node.setAttribute("data-state", row.state);
    node.setAttribute("data-verdict", row.verdict);
    node.setAttribute("data-plan", row.plan);
    writePlan(plan, row.title);
    live.hidden = !row.is_kept;
    writeLines(evidence, row.evidence);
    hide(details, row.evidence.length === 0, trial);
    bar.hidden = row.ratio === null && !["waiting", "measuring", "confirming"].includes(row.state);
    fill.style.width = percent(row.ratio ?? 0, end);
    unit.style.left = percent(1, end);
    whisker.hidden = row.low === null || row.high === null;
    whisker.classList.toggle("is-cut", (row.high ?? 0) > end);
    whisker.style.left = percent(row.low ?? 0, end);
    whisker.style.right = `calc(100% - ${percent(row.high ?? 0, end)})`;
    write(mark, row.mark);
    write(sentence, row.sentence);
    write(progress, row.progress);
    hide(keep, !row.can_keep, row.is_kept ? live : trial);
    keep.setAttribute("aria-label", `Keep ${row.plan}`);
  };
  return { node, update };
}

/** What can be done with a trial on the list. Its name is typed here and not in its summary, where a space folds it.
 * @param {Page} page @param {string} id @param {HTMLElement} title @param {() => void} save */
function makeActions(page, id, title, save) {
  const button = (/** @type {string} */ what, /** @type {string} */ face, /** @type {() => void} */ click) => {
    const made = element("button", { type: "button", class: "accel-ladder-act", "data-testid": `trial-${what}` }, face);
    made.addEventListener("click", (event) => { event.preventDefault(); click(); });
    return made;
  };
  const name = /** @type {HTMLInputElement} */ (element("input", { type: "text", class: "accel-ladder-name", "data-testid": "trial-name", "aria-label": "Name of the trial", maxlength: "60", hidden: "" }));
  const isNaming = (/** @type {boolean} */ now) => { name.hidden = !now; write(rename, now ? "Done" : "Rename"); };
  const begin = () => { name.value = title.textContent ?? ""; isNaming(true); name.select(); name.focus(); };
  const done = () => { if (name.hidden) return; isNaming(false); page.act("rename", id, name.value.trim()); };
  const rename = button("rename", "Rename", () => { if (name.hidden) begin(); else { done(); rename.focus(); } });
  rename.addEventListener("mousedown", (event) => { if (!name.hidden) event.preventDefault(); });  // else the name is left, and opened again
  name.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();  // Enter would press the button that has the focus then
    event.stopPropagation();
    if (event.key === "Enter") done(); else isNaming(false);
    rename.focus();
  });
  name.addEventListener("blur", done);  // the focus stays with what was clicked
  const pin = button("pin", "Pin", () => page.act("pin", id));
  pin.title = "A pinned trial stays on top; two pinned ones are compared";
  const copies = [["markdown", "Copy as Markdown"], ["csv", "CSV"]].map(([form, face]) => button(form, face, () => page.send({ do: "copy", trial: id, form })));
  return { pin, node: element("span", { class: "accel-ladder-acts" }, ...copies, button("png", "PNG", save), pin, button("remove", "Remove", () => page.act("remove", id)), rename, name) };  // the name last: what is clicked does not move as it goes
}

/** One trial: its heading, its rows, its machine. @param {Page} page @param {string} id */
function makeTrial(page, id) {
  const send = page.send;
  const title = element("h4", { class: "accel-ladder-title" });
  const state = element("span", { class: "accel-ladder-state", role: "status", "data-testid": "trial-state" });
  const facts = element("span", { class: "accel-muted" });
  const time = element("time", { class: "accel-muted", "data-testid": "trial-time" });
  const axisCell = element("th", { scope: "col", class: "accel-ladder-speed" });
  const body = element("tbody");
  const foot = element("ul", { class: "accel-ladder-foot", "data-testid": "trial-notes" });
  const curves = element("div", { "data-testid": "curves" });
  const table = element("table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Plan"), axisCell,
    element("th", { scope: "col", class: "accel-ladder-actions" }, element("span", { class: "accel-sr" }, "Keep")))), body);
  const summary = element("p", { class: "accel-ladder-summary", "data-testid": "trial-summary" });
  /** @type {Trial | null} */
  let last = null;
  const acts = makeActions(page, id, title, async () => {
    if (last === null) return;
    const name = title.textContent ?? "";
    savePng(node, await ladderPicture(last, name, node, /** @type {SVGElement | null} */ (curves.querySelector("svg"))), name);
  });
  const notes = element("details", { class: "accel-ladder-evidence" }, element("summary", {}, "Notes"), foot);
  const top = element("summary", { class: "accel-ladder-top" }, title, time, state, facts);
  const node = /** @type {HTMLDetailsElement} */ (element("details", { class: "accel-ladder-trial", "data-testid": "trial" }, top, acts.node, summary, table, curves, notes));
  /** @type {Map<string, {node: Element, update: (row: Row, end: number) => void}>} */
  const rows = new Map();

  /** @param {Trial} trial @param {string} name @param {boolean} isPinned */
  const update = (trial, name, isPinned) => {
    last = trial;
    node.setAttribute("data-state", trial.state);
    node.classList.toggle("is-running", trial.is_running);
    write(title, name || trial.title);
    write(acts.pin, isPinned ? "Unpin" : "Pin");
    writePlan(summary, trial.summary ?? "");
    summary.hidden = !trial.summary;
    write(state, trial.state);
    write(time, trial.time);
    time.title = trial.date;
    write(facts, trial.facts.join(" · "));
    drawCurves(curves, trial.curves);
    table.hidden = trial.rows.length === 0;
    axisCell.replaceChildren(element("span", { class: "accel-sr" }, "Speed-up"), ...(trial.axis.ticks.length ? [axisLine(trial.axis)] : []));
    for (const id of [...rows.keys()].filter((id) => !trial.rows.some((row) => row.id === id))) {
      hide(/** @type {any} */ (rows.get(id)).node, true, top);
      rows.get(id)?.node.remove();
      rows.delete(id);
    }
    for (const row of trial.rows) {
      if (!rows.has(row.id)) rows.set(row.id, makeRow(send, top));
      rows.get(row.id)?.update(row, trial.axis.end);
    }
    const hasNew = body.children.length !== trial.rows.length;
    // While it runs the rows keep their places until there are others; once it is over the best comes first, as in the text.
    if (hasNew || !trial.is_running) arrange(body, trial.rows.map((row) => /** @type {any} */ (rows.get(row.id)).node));
    writeLines(foot, trial.notes);
    notes.hidden = trial.notes.length === 0;
  };
  return { node, update };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const empty = element("p", { class: "accel-empty", "data-testid": "ladder-empty" });
  const list = element("div", { class: "accel-ladder-list" });
  el.classList.add("accel", "accel-ladder");
  const compared = element("p", { class: "accel-ladder-compared", role: "status", "data-testid": "compared" });
  const back = element("button", { type: "button", class: "accel-ladder-act", "data-testid": "show-removed" }, "show");
  const gone = element("span");
  const removedLine = element("p", { class: "accel-muted" }, gone, " · ", back);
  el.append(element("h3", { class: "accel-heading", tabindex: "-1" }, "Trials"), compared, empty, list, removedLine);
  /** @type {Map<string, {node: HTMLDetailsElement, update: (trial: Trial, name: string, isPinned: boolean) => void}>} */
  const shown = new Map();

  const set = (/** @type {string} */ name, /** @type {any} */ value) => { model.set(name, value); model.save_changes(); };
  const change = {
    rename: (/** @type {string} */ id, /** @type {string} */ value) => set("names", { ...model.get("names"), [id]: value }),
    pin: (/** @type {string} */ id) => set("pinned", model.get("pinned").includes(id) ? model.get("pinned").filter((/** @type {string} */ each) => each !== id) : [...model.get("pinned"), id]),
    remove: (/** @type {string} */ id) => {
      set("removed", [...model.get("removed"), id]);
      focusFirst();
    },
  };
  const focusFirst = () => /** @type {HTMLElement | null} */ (list.querySelector("summary") ?? el.querySelector("h3"))?.focus();
  back.addEventListener("click", () => { set("removed", []); focusFirst(); });
  const page = { send: (/** @type {{do: string}} */ message) => model.send(message.do === "copy" ? { ...message, to: asker(el) } : message),
    act: (/** @type {"rename" | "pin" | "remove"} */ what, /** @type {string} */ id, value = "") => change[what](id, value) };

  let awaits = 0;  // until then a new trial is one that a click in this panel began
  const deaf = onBegin(el, () => { awaits = performance.now() + AWAITS_MS; });
  /** Neither the focus nor the view went elsewhere since. @param {Element} panel */
  const isStillHere = (panel) => {
    const box = panel.getBoundingClientRect();
    const isInSight = box.bottom > 0 && box.top < window.innerHeight;
    return isInSight && (document.activeElement === document.body || panel.contains(document.activeElement));
  };
  /** Below the bar, which sticks to the top, with room for the rows that come. @param {HTMLElement} trial */
  const bringIntoView = (trial) => {
    const panel = el.closest(".accel-workbench");
    if (!panel || !isStillHere(panel)) return;
    const bar = /** @type {HTMLElement | null} */ (panel.querySelector(".accel-bar"));
    trial.style.scrollMarginTop = `${(bar?.offsetHeight ?? 0) + 8}px`;
    trial.scrollIntoView({ block: "nearest" });
  };

  const draw = () => {
    /** @type {HTMLElement | null} */
    let begun = null;
    const [pinned, removed] = [model.get("pinned"), model.get("removed")];
    /** @type {Trial[]} */
    const known = model.get("trials").filter((/** @type {Trial} */ trial) => !removed.includes(trial.id));
    const trials = [...known.filter((trial) => pinned.includes(trial.id)), ...known.filter((trial) => !pinned.includes(trial.id))];
    for (const id of [...shown.keys()].filter((id) => !trials.some((trial) => trial.id === id))) {
      shown.get(id)?.node.remove();
      shown.delete(id);
    }
    for (const trial of trials) {
      if (!shown.has(trial.id)) {
        const made = makeTrial(page, trial.id);
        if (trial.id === known[0].id) {  // the newest is looked at, the others are lines
          for (const { node } of shown.values()) node.open = false;
          made.node.open = true;
          if (performance.now() < awaits) [begun, awaits] = [made.node, 0];
        }
        shown.set(trial.id, made);
      }
      shown.get(trial.id)?.update(trial, model.get("names")[trial.id] ?? "", pinned.includes(trial.id));
    }
    arrange(list, trials.map((trial) => /** @type {any} */ (shown.get(trial.id)).node));
    write(empty, model.get("empty_note"));
    const away = model.get("trials").length - known.length;
    write(gone, `Removed: ${away}`);
    removedLine.hidden = away === 0;
    empty.hidden = trials.length + away > 0;
    if (begun) bringIntoView(begun);
    write(compared, model.get("compared"));
    compared.hidden = !model.get("compared");
  };
  const watched = ["trials", "names", "pinned", "removed", "compared", "empty_note"];
  for (const name of watched) model.on(`change:${name}`, draw);
  draw();
  let width = list.clientWidth;
  const resized = new ResizeObserver(() => {
    if (list.clientWidth === width) return;
    width = list.clientWidth;
    draw();  // curves have the width of their cell
  });
  resized.observe(list);
  return () => {
    resized.disconnect();
    deaf();
    for (const name of watched) model.off(`change:${name}`, draw);
  };
}

export default { render };
