// Draws the trial ladder: for each plan a bar of its speed-up with the interval, the verdict, the loss and the proof, in words.
// Every number and sentence comes from Python; rows are updated in place, so that a focused button stays focused.

/**
 * @typedef {{id: string, plan: string, state: string, progress: string, verdict: string, sentence: string,
 *   ratio: number | null, low: number | null, high: number | null, quality: string, following: string, effect: string,
 *   proofs: {text: string, took_effect: boolean}[], evidence: string[], can_keep: boolean, is_kept: boolean}} Row
 * @typedef {{id: string, title: string, state: string, is_running: boolean, facts: string[], notes: string[], rows: Row[]}} Trial
 */

const MARKS = { faster: "▲", slower: "▼", "no difference": "=", undecided: "?" };
const LOSS_MARKS = { same: "✓", follows: "✓", drifts: "⚠", unknown: "" };

/**
 * @param {string} tag
 * @param {Record<string, string>} attributes
 * @param {...(Node | string)} children
 */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Set a text only when it changed, so that selections and screen readers are left in peace. @param {Element} target @param {string} text */
function write(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/** The same for a list of lines. @param {Element} target @param {string[]} lines */
function writeLines(target, lines) {
  const shown = [...target.children].map((child) => child.textContent);
  if (shown.length !== lines.length || lines.some((line, index) => line !== shown[index])) {
    target.replaceChildren(...lines.map((line) => element("li", {}, line)));
  }
}

/** A plan, which may be broken into lines after each +. @param {Element} target @param {string} plan */
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

/** The right end of the axis: a little beyond the longest bar, and never less than 1.5×. @param {Trial[]} trials */
export function axisEnd(trials) {
  const ends = trials.flatMap((trial) => trial.rows).map((row) => Math.max(row.ratio ?? 0, row.high ?? 0));
  return Math.max(1.5, ...ends.map((end) => end * 1.06));
}

/** Whole, half or larger steps, so that at most six ticks are drawn. @param {number} end */
export function ticks(end) {
  const step = [0.5, 1, 2, 5, 10, 20, 50, 100].find((size) => end / size <= 6) ?? end / 5;
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, index) => index * step);
}

/** @param {number} value @param {number} end */
const percent = (value, end) => `${(100 * Math.min(value, end)) / end}%`;

/** @param {number} end */
function axis(end) {
  const line = element("div", { class: "accel-ladder-axis", "aria-hidden": "true" });
  for (const value of ticks(end)) {
    const tick = element("span", { class: "accel-ladder-tick" }, `${value}×`);
    tick.style.left = percent(value, end);
    if (value > 0.95 * end) tick.classList.add("is-last");
    line.append(tick);
  }
  return line;
}

/** A row that can be updated; the element stays the same. @param {(message: object) => void} send */
function makeRow(send) {
  const plan = element("code", { class: "accel-ladder-plan" });
  const live = element("span", { class: "accel-ladder-live", "data-testid": "is-live" }, "● live in this notebook");
  const proofs = element("ul", { class: "accel-ladder-proofs" });
  const fill = element("div", { class: "accel-ladder-fill" });
  const whisker = element("div", { class: "accel-ladder-whisker", "data-testid": "whisker" });
  const unit = element("div", { class: "accel-ladder-unit" });
  const mark = element("span", { class: "accel-ladder-mark", "aria-hidden": "true" });
  const sentence = element("span", { "data-testid": "sentence" });
  const progress = element("span", { class: "accel-ladder-progress", "data-testid": "progress" });
  const evidence = element("ul", { "data-testid": "evidence" });
  const details = element("details", { class: "accel-ladder-evidence" }, element("summary", {}, "How it was found"), evidence);
  const loss = element("td", { class: "accel-ladder-loss", "data-testid": "quality" });
  const keep = /** @type {HTMLButtonElement} */ (element("button", { type: "button", class: "accel-button", "data-testid": "keep" }, "Keep"));
  const node = element("tr", { "data-testid": "ladder-row" },
    element("th", { scope: "row" }, plan, live, proofs),
    element("td", { class: "accel-ladder-speed" },
      element("div", { class: "accel-ladder-bar", "aria-hidden": "true" }, fill, unit, whisker),
      element("div", { class: "accel-ladder-answer" }, mark, sentence, progress), details),
    loss, element("td", { class: "accel-ladder-actions" }, keep));
  let shownPlan = "";
  keep.addEventListener("click", () => send({ do: "keep", plan: shownPlan }));

  /** @param {Row} row @param {number} end */
  const update = (row, end) => {
    shownPlan = row.plan;
    node.setAttribute("data-state", row.state);
    node.setAttribute("data-verdict", row.verdict);
    node.setAttribute("data-plan", row.plan);
    writePlan(plan, row.plan);
    live.hidden = !row.is_kept;
    writeLines(proofs, row.proofs.map((proof) => `${proof.took_effect ? "✓" : "✗ NO EFFECT:"} ${proof.text}`));
    writeLines(evidence, row.evidence);
    details.hidden = row.evidence.length === 0;
    fill.style.width = percent(row.ratio ?? 0, end);
    unit.style.left = percent(1, end);
    whisker.hidden = row.low === null || row.high === null;
    whisker.style.left = percent(row.low ?? 0, end);
    whisker.style.right = `calc(100% - ${percent(row.high ?? 0, end)})`;
    write(mark, ["failed", "not applicable"].includes(row.state) ? "✗" : row.state === "done" ? MARKS[row.verdict] ?? "" : "");
    write(sentence, row.sentence);
    write(progress, row.progress);
    write(loss, `${LOSS_MARKS[row.following] ?? ""} ${row.quality}`.trim());
    loss.setAttribute("data-following", row.following);
    keep.hidden = !row.can_keep;
    keep.setAttribute("aria-label", `Keep ${row.plan}`);
  };
  return { node, update };
}

/** One trial: its heading, its rows, its machine. @param {(message: object) => void} send */
function makeTrial(send) {
  const title = element("h4", { class: "accel-ladder-title" });
  const state = element("span", { class: "accel-ladder-state", role: "status", "data-testid": "trial-state" });
  const facts = element("span", { class: "accel-muted" });
  const axisCell = element("th", { scope: "col", class: "accel-ladder-speed", "aria-label": "Speed-up" });
  const body = element("tbody");
  const foot = element("ul", { class: "accel-ladder-foot", "data-testid": "trial-notes" });
  const table = element("table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Plan"), axisCell,
    element("th", { scope: "col", class: "accel-ladder-loss" }, "Loss"),
    element("th", { scope: "col", class: "accel-ladder-actions", "aria-label": "Keep" }))), body);
  const node = element("section", { class: "accel-ladder-trial", "data-testid": "trial" },
    element("div", { class: "accel-ladder-top" }, title, state, facts), table, foot);
  /** @type {Map<string, {node: Element, update: (row: Row, end: number) => void}>} */
  const rows = new Map();

  /** @param {Trial} trial @param {number} end */
  const update = (trial, end) => {
    node.setAttribute("data-state", trial.state);
    node.classList.toggle("is-running", trial.is_running);
    write(title, trial.title);
    write(state, trial.state);
    write(facts, trial.facts.join(" · "));
    axisCell.replaceChildren(axis(end));
    for (const row of trial.rows) {
      if (!rows.has(row.id)) rows.set(row.id, makeRow(send));
      rows.get(row.id)?.update(row, end);
    }
    const isFirst = body.children.length !== trial.rows.length;
    // While it runs the rows keep their places; once it is over the best comes first, as in the text.
    if (isFirst || !trial.is_running) arrange(body, trial.rows.map((row) => /** @type {any} */ (rows.get(row.id)).node));
    writeLines(foot, trial.notes);
  };
  return { node, update };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const send = (/** @type {object} */ message) => model.send(message);
  const stop = element("button", { type: "button", class: "accel-button accel-ladder-stop", "data-testid": "stop" }, "■ Stop");
  const empty = element("p", { class: "accel-empty", "data-testid": "ladder-empty" });
  const list = element("div", { class: "accel-ladder-list" });
  el.classList.add("accel", "accel-ladder");
  el.append(element("div", { class: "accel-ladder-header" }, element("h3", { class: "accel-heading" }, "Trials"), stop), empty, list);
  stop.addEventListener("click", () => send({ do: "stop" }));
  /** @type {Map<string, {node: Element, update: (trial: Trial, end: number) => void}>} */
  const shown = new Map();

  const draw = () => {
    /** @type {Trial[]} */
    const trials = model.get("trials");
    const end = axisEnd(trials);
    for (const id of [...shown.keys()].filter((id) => !trials.some((trial) => trial.id === id))) {
      shown.get(id)?.node.remove();
      shown.delete(id);
    }
    trials.forEach((trial, index) => {
      if (!shown.has(trial.id)) {
        const made = makeTrial(send);
        shown.set(trial.id, made);
        list.insertBefore(made.node, list.children[index] ?? null);
      }
      shown.get(trial.id)?.update(trial, end);
    });
    stop.hidden = !model.get("is_running");
    write(empty, model.get("empty_note"));
    empty.hidden = trials.length > 0;
  };
  const watched = ["trials", "is_running", "empty_note"];
  for (const name of watched) model.on(`change:${name}`, draw);
  draw();
  return () => {
    for (const name of watched) model.off(`change:${name}`, draw);
  };
}

export default { render };
