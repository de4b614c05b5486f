// Draws a lane for each rank of a data-parallel run. Every text comes from Python; rows stay the same elements while values change.

/** @typedef {{rank: number, phase: string, step: number, behind: number, loss: string, rate: string, waiting: number, memory: string}} Lane */

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

/** @param {Element} target @param {string} text */
function write(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

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
  const node = element("tr", { "data-testid": "lane" }, element("th", { scope: "row" }, `rank ${rank}`), phase, step, loss, rate,
    element("td", {}, element("div", { class: "accel-lanes-bar", "aria-hidden": "true" }, fill), share), memory);
  /** @param {Lane} lane */
  const update = (lane) => {
    node.setAttribute("data-phase", lane.phase);
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
  const line = element("span", { role: "status", "data-testid": "ddp-line" });
  const stop = element("button", { type: "button", class: "accel-button accel-lanes-stop", "data-testid": "ddp-stop",
    title: "All ranks end after the same step; the state of that step comes back" }, "■ Stop");
  const body = element("tbody");
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...COLUMNS.map((name, index) =>
    element("th", { scope: "col", class: [2, 3, 4, 6].includes(index) ? "accel-lanes-number" : "" }, name)))), body);
  const notes = element("ul", { class: "accel-lanes-notes", "data-testid": "ddp-notes" });
  el.classList.add("accel", "accel-lanes");
  el.append(element("div", { class: "accel-lanes-header" }, line, stop), table, notes);
  stop.addEventListener("click", () => model.send({ do: "stop" }));
  /** @type {ReturnType<typeof makeLane>[]} */
  const rows = [];

  const draw = () => {
    /** @type {Lane[]} */
    const lanes = model.get("lanes");
    lanes.forEach((lane, index) => {
      if (!rows[index]) { rows[index] = makeLane(lane.rank); body.append(rows[index].node); }
      rows[index].update(lane);
    });
    write(line, model.get("line"));
    table.hidden = lanes.length === 0;
    stop.hidden = !model.get("is_running");
    /** @type {string[]} */
    const told = model.get("notes");
    if (notes.textContent !== told.join("")) notes.replaceChildren(...told.map((note) => element("li", {}, note)));
    notes.hidden = told.length === 0;
  };
  const watched = ["line", "lanes", "notes", "is_running"];
  for (const name of watched) model.on(`change:${name}`, draw);
  draw();
  return () => {
    for (const name of watched) model.off(`change:${name}`, draw);
  };
}

export default { render };
