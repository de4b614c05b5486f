// Draws where a step goes: one bar of phases, and under it each phase with its time. Choosing a phase filters the op table.
// Every number and text comes from Python; this file only lays them out.

/** @typedef {{name: string, label: string, share: number, share_text: string, time_text: string, colour: string}} Phase */

/** @param {Phase} phase */
function segment(phase) {
  const made = element("div", { class: "accel-phase-segment", "data-testid": "phase-segment" },
    element("span", {}, phase.label));
  made.title = `${phase.label}: ${phase.time_text}, ${phase.share_text}`;
  made.style.flexGrow = String(phase.share);
  made.style.setProperty("--phase", phase.colour);
  return made;
}

/**
 * @param {Phase} phase
 * @param {(name: string) => void} choose
 */
function legendItem(phase, choose) {
  const swatch = element("span", { class: "accel-phase-swatch", "aria-hidden": "true" });
  swatch.style.setProperty("--phase", phase.colour);
  const button = element("button", { type: "button", class: "accel-phase-item", "data-phase": phase.name,
    "data-testid": "phase-item", title: "Show only this phase in the table of operations" },
    swatch, element("span", { class: "accel-phase-name" }, phase.label),
    element("span", { class: "accel-phase-time" }, phase.time_text),
    element("span", { class: "accel-phase-share" }, phase.share_text));
  button.addEventListener("click", () => choose(phase.name));
  return button;
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const headline = element("h3", { class: "accel-phase-headline", "data-testid": "step-time" });
  const facts = element("ul", { class: "accel-phase-facts" });
  const bar = element("div", { class: "accel-phase-bar", "aria-hidden": "true", "data-testid": "phase-bar" });
  const legend = element("div", { class: "accel-phase-legend", role: "toolbar", "aria-label": "Phases of a step; arrow keys move between them" });
  const note = element("p", { class: "accel-empty", "data-testid": "phase-note" });
  el.classList.add("accel", "accel-phase");
  const remarks = element("ul", { class: "accel-phase-remarks", "data-testid": "phase-remarks" });
  const notes = element("details", { class: "accel-phase-notes" }, element("summary", {}, "Notes"), remarks);
  el.append(element("div", { class: "accel-phase-top" }, headline, facts), bar, legend, notes, note);
  const settle = rove(legend, "button");

  const choose = (/** @type {string} */ name) => {
    model.set("phase", model.get("phase") === name ? "" : name);
    model.save_changes();
  };
  const mark = () => {
    for (const item of legend.querySelectorAll("button")) {
      item.setAttribute("aria-pressed", String(item.dataset.phase === model.get("phase")));
    }
  };
  const draw = () => {
    /** @type {Phase[]} */
    const phases = model.get("phases");
    headline.textContent = model.get("headline");
    for (const [list, lines] of [[facts, model.get("facts")], [remarks, model.get("remarks")]]) {
      list.replaceChildren(...lines.map((/** @type {string} */ line) => element("li", {}, line)));
    }
    bar.replaceChildren(...phases.map(segment));
    legend.replaceChildren(...phases.map((phase) => legendItem(phase, choose)));
    settle();
    notes.hidden = model.get("remarks").length === 0;
    note.textContent = model.get("note");
    note.hidden = !model.get("note");
    bar.hidden = legend.hidden = phases.length === 0;
    mark();
  };
  const watched = ["phases", "headline", "facts", "remarks", "note"];
  for (const name of watched) model.on(`change:${name}`, draw);
  model.on("change:phase", mark);
  draw();
  return () => {
    for (const name of watched) model.off(`change:${name}`, draw);
    model.off("change:phase", mark);
  };
}

export default { render };
