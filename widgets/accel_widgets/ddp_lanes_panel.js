// Draws a lane for each rank of a data-parallel run. Every text comes from Python; rows stay the same elements while values change.

/** @typedef {{rank: number, phase: string, step: number, behind: number, loss: string, rate: string, waiting: number, memory: string,
 *   holds_up: boolean}} Lane */

const COLUMNS = ["Rank", "Phase", "Step", "Loss", "Samples/s", "Waiting for others", "Memory"];

/** A lane that can be updated; its elements stay. @param {number} rank */
function makeLane(rank) {
  const phase = element("td", { "data-testid": "lane-phase" });
  const step = element("td", { class: "accel-lanes-number", "data-testid": "lane-step" });
  const loss = element("td", { class: "accel-lanes-number", "data-testid": "lane-loss" });
  const rate = element("td", { class: "accel-lanes-number", "data-testid": "lane-rate" });
  const fill = element("div", { class: "accel-lanes-fill" });
  const share = element("span", { "data-testid": "lane-waiting" });
  const memory = element("td", { class: "accel-lanes-number" });
  const name = element("th", { scope: "row", "data-testid": "lane-name" });
  const node = element("tr", { "data-testid": "lane" }, name, phase, step, loss, rate,
    element("td", {}, element("div", { class: "accel-lanes-bar", "aria-hidden": "true" }, fill), share), memory);
  /** @param {Lane} lane */
  const update = (lane) => {
    node.setAttribute("data-phase", lane.phase);
    node.toggleAttribute("data-holds-up", lane.holds_up);
    write(name, lane.holds_up ? `rank ${rank} ⚠ slowest` : `rank ${rank}`);
    write(phase, lane.phase);
    write(step, lane.behind > 1 ? `${lane.step} (${lane.behind} behind)` : String(lane.step));
    write(loss, lane.loss);
    write(rate, lane.rate);
    fill.style.width = `${100 * lane.waiting}%`;
    write(share, `${Math.round(100 * lane.waiting)} %`);
    write(memory, lane.memory);
  };
  return { node, update };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const line = element("span", { role: "status", tabindex: "-1", "data-testid": "ddp-line" });
  const stop = element("button", { type: "button", class: "accel-button accel-lanes-stop", "data-testid": "ddp-stop",
    title: "All ranks end after the same step; the state of that step comes back" }, "■ Stop");
  const fold = element("button", { type: "button", class: "accel-fold", "data-testid": "ddp-fold" });
  const rows = element("tbody");
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...COLUMNS.map((name, index) =>
    element("th", { scope: "col", class: [2, 3, 4, 6].includes(index) ? "accel-lanes-number" : "" }, name)))), rows);
  const notes = element("ul", { class: "accel-lanes-notes", "data-testid": "ddp-notes" });
  const scroll = element("div", { class: "accel-lanes-scroll", role: "region", tabindex: "0", "aria-label": "Ranks" }, table);
  const body = element("div", {}, scroll, notes);
  const whole = element("div", {}, element("div", { class: "accel-lanes-header" }, fold, line, stop), body);
  el.classList.add("accel", "accel-lanes");
  el.append(whole);
  stop.addEventListener("click", () => model.send({ do: "stop" }));
  fold.addEventListener("click", () => {
    model.set("is_open", !model.get("is_open"));
    model.save_changes();
  });
  /** @type {ReturnType<typeof makeLane>[]} */
  const shown = [];

  const draw = () => {
    /** @type {Lane[]} */
    const lanes = model.get("lanes");
    for (const gone of shown.splice(lanes.length)) gone.node.remove();
    lanes.forEach((lane, index) => {
      if (!shown[index]) { shown[index] = makeLane(lane.rank); rows.append(shown[index].node); }
      shown[index].update(lane);
    });
    const isOpen = model.get("is_open") || !model.get("has_fold");
    whole.hidden = !model.get("line");  // before the first run there is nothing to unfold
    fold.hidden = !model.get("has_fold");
    write(fold, `${isOpen ? "▾" : "▸"} Ranks`);
    fold.setAttribute("aria-expanded", String(isOpen));
    body.hidden = !isOpen;
    write(line, isOpen ? model.get("line") : "");  // nobody counts its seconds while it is folded
    scroll.hidden = lanes.length === 0;
    hide(stop, !model.get("can_stop"), line);
    /** @type {string[]} */
    const told = model.get("notes");
    if (notes.textContent !== told.join("")) notes.replaceChildren(...told.map((note) => element("li", {}, note)));
    notes.hidden = told.length === 0;
  };
  const watched = ["line", "lanes", "notes", "can_stop", "has_fold", "is_open"];
  for (const name of watched) model.on(`change:${name}`, draw);
  draw();
  const stopSaying = saySeen(model, el, true);  // Python looks only while this page shows the lanes
  return () => {
    stopSaying();
    for (const name of watched) model.off(`change:${name}`, draw);
  };
}

export default { render };
