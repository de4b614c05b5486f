// Draws the CPUs as boxes in boxes and on each the threads that are there. Every text comes from Python, as text, never as HTML.
// The boxes are built once; a look changes only the CPUs on which something changed.

/** @typedef {{level: string, label: string, boxes: Box[], cpus: number[]}} Box */
/** @typedef {{process: number, is_busy: boolean, what: string, share: string, load: number, words: string}} Chip */
/** @typedef {{short: string, name: string, colour: string, mask: number[], mask_text: string, threads_text: string}} Process */

const HINT = "Choose a CPU for who is there, a process for where it may run.";

/**
 * @param {Box} box
 * @param {Map<number, HTMLElement>} cells
 */
function drawnBox(box, cells) {
  if (box.level === "core") {
    const core = element("div", { class: "accel-cores-core", title: box.label });
    for (const number of box.cpus) {
      const cell = element("button", { type: "button", class: "accel-cores-cpu", "data-testid": "core-map-cpu",
        "data-cpu": String(number) },
        element("span", { class: "accel-cores-number" }, element("span", { class: "accel-cores-word" }, "CPU "), String(number)),
        element("span", { class: "accel-cores-load", "aria-hidden": "true" }), element("span", { class: "accel-cores-chips" }));
      cells.set(number, cell);
      core.append(cell);
    }
    if (box.cpus.length < 2) return core;
    return element("div", { class: "accel-cores-core-column" },
      element("div", { class: "accel-cores-label accel-cores-core-label" }, box.label), core);
  }
  const row = element("div", { class: "accel-cores-row" }, ...box.boxes.map((each) => drawnBox(each, cells)));
  if (!box.label) return row;
  return element("div", { class: `accel-cores-box accel-cores-${box.level}` },
    element("div", { class: "accel-cores-label" }, box.label), row);
}

/**
 * @param {Chip} chip
 * @param {Process} process
 */
function drawnChip(chip, process) {
  const text = [element("b", {}, process.short)];
  if (chip.what) text.push(element("span", { class: "accel-cores-what" }, chip.what));
  if (chip.share) text.push(element("span", { class: "accel-cores-share" }, chip.share));
  const made = element("span", { class: "accel-cores-chip", "data-busy": String(chip.is_busy), "data-testid": "core-map-chip" },
    element("span", { class: "accel-cores-dot", "aria-hidden": "true" }, chip.is_busy ? "●" : "○"), ...text);
  made.style.setProperty("--process", process.colour);
  return made;
}

/**
 * The part of the CPU that a process uses, in the bar above its chip.
 * @param {Chip} chip
 * @param {Process} process
 */
function drawnLoad(chip, process) {
  const made = element("span");
  made.style.width = `${100 * chip.load}%`;
  made.style.setProperty("--process", process.colour);
  return made;
}

/**
 * @param {Process} process
 * @param {number} index
 */
function drawnProcess(process, index) {
  const item = element("li", {}, element("button", { type: "button", class: "accel-cores-process", "data-testid": "core-map-process",
    "data-index": String(index), title: "Show where it may run" },
    ...["badge", "name", "mask", "threads"].map((part) => element("span", { class: `accel-cores-${part}` }))));
  fillProcess(item, process);
  return item;
}

/**
 * Only what differs is written: a button that is pressed or has the focus stays the same one.
 * @param {Element} item
 * @param {Process} process
 */
function fillProcess(item, process) {
  const texts = [process.short, process.name, `may use ${process.mask_text}`, process.threads_text];
  const parts = /** @type {HTMLElement[]} */ ([.../** @type {Element} */ (item.firstElementChild).children]);
  parts.forEach((part, index) => { if (part.textContent !== texts[index]) part.textContent = texts[index]; });
  parts[0].style.setProperty("--process", process.colour);
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const fold = element("button", { type: "button", class: "accel-fold", "data-testid": "core-map-fold" });
  const body = element("div", { class: "accel-cores-body" });
  const map = element("div", { class: "accel-cores-map", role: "group", "aria-label": "CPUs; arrow keys move between them" });
  const details = element("p", { class: "accel-cores-details", "data-testid": "core-map-details" }, HINT);
  const processes = element("ul", { class: "accel-cores-processes", "aria-label": "Processes and where they may run; arrow keys move between them" });
  const notes = element("ul", { class: "accel-cores-notes", "data-testid": "core-map-notes", "aria-label": "Problems" });
  const words = element("ul", { "data-testid": "core-map-summary" });
  const legend = element("p", { class: "accel-cores-legend" },
    element("span", {}, "● busy, with its share of the CPU"), element("span", {}, "○ idle, ran there last"),
    element("span", {}, "The bar is what they use of the CPU together."));
  const told = element("p", { class: "accel-empty", "data-testid": "core-map-note" });
  const inWords = element("details", { class: "accel-cores-words" }, element("summary", {}, "The same in words"), words);
  el.classList.add("accel", "accel-cores");
  body.append(map, details, processes, notes, legend, inWords, told);
  el.append(fold, body);
  const [settleMap, settleProcesses] = [rove(map, "button"), rove(processes, "button")];

  /** @type {Map<number, HTMLElement>} */
  const cells = new Map();
  /** @type {Map<number, string>} */
  const shown = new Map();
  let chosen = "";  // the short name of the process that was clicked: its place in the list may change
  let pointed = "";
  let watchedCpu = -1;

  const light = () => {
    const short = pointed || chosen;
    const process = model.get("processes").find((/** @type {Process} */ each) => each.short === short);
    map.classList.toggle("accel-cores-lit", Boolean(process));
    for (const [number, cell] of cells) cell.dataset.may = process && process.mask.includes(number) ? "run" : "";
    if (process) map.style.setProperty("--process", process.colour);
    for (const button of processes.querySelectorAll("button")) {
      const each = model.get("processes")[Number(button.dataset.index)];
      button.setAttribute("aria-pressed", String(Boolean(each) && each.short === chosen));
    }
  };
  const tell = () => {
    if (watchedCpu < 0) { details.textContent = HINT; return; }
    const chips = model.get("cpus")[watchedCpu] || [];
    const label = cells.get(watchedCpu)?.parentElement?.getAttribute("title");
    const who = chips.map((/** @type {Chip} */ chip) => chip.words).join("; ");
    details.textContent = `CPU ${watchedCpu}, ${label}: ${who || "nobody of these processes"}`;
  };
  const drawBoxes = () => {
    cells.clear();
    shown.clear();
    map.replaceChildren(...model.get("boxes").map((/** @type {Box} */ box) => drawnBox(box, cells)));
    settleMap();
    map.classList.toggle("accel-cores-compact", model.get("is_compact"));
    map.hidden = details.hidden = legend.hidden = inWords.hidden = cells.size === 0;
    drawCpus();
  };
  const drawCpus = () => {
    /** @type {Process[]} */
    const known = model.get("processes");
    const cpus = model.get("cpus");
    for (const [number, cell] of cells) {
      const chips = (cpus[number] || []).filter((/** @type {Chip} */ chip) => known[chip.process]);
      const now = JSON.stringify(chips.map((/** @type {Chip} */ chip) => [chip, known[chip.process].short, known[chip.process].colour]));
      if (shown.get(number) === now) continue;
      shown.set(number, now);
      cell.lastElementChild?.replaceChildren(...chips.map((/** @type {Chip} */ chip) => drawnChip(chip, known[chip.process])));
      cell.children[1].replaceChildren(...chips.filter((/** @type {Chip} */ chip) => chip.load > 0)
        .map((/** @type {Chip} */ chip) => drawnLoad(chip, known[chip.process])));
      const who = chips.map((/** @type {Chip} */ chip) => chip.words).join("; ");
      cell.setAttribute("aria-label", `CPU ${number}: ${who || "nobody"}`);
      cell.dataset.busy = String(chips.some((/** @type {Chip} */ chip) => chip.is_busy));
    }
    tell();
  };
  const drawProcesses = () => {
    const known = model.get("processes");
    const hadFocus = processes.contains(document.activeElement);
    while (processes.children.length > known.length) processes.lastElementChild?.remove();
    [...processes.children].forEach((item, index) => fillProcess(item, known[index]));
    processes.append(...known.slice(processes.children.length).map((/** @type {Process} */ process, /** @type {number} */ index) =>
      drawnProcess(process, processes.children.length + index)));
    settleProcesses();
    if (hadFocus && !processes.contains(document.activeElement)) (processes.querySelector("button") ?? fold).focus();
    drawCpus();
    light();
  };
  const drawTexts = () => {
    for (const [list, lines, mark] of [[notes, model.get("notes"), "⚠ "], [words, model.get("summary"), ""]]) {
      list.replaceChildren(...lines.map((/** @type {string} */ line) => element("li", {}, mark + line)));
    }
    told.textContent = model.get("note");
    told.hidden = !model.get("note");
  };

  const processAt = (/** @type {Event} */ event) => {
    const button = /** @type {HTMLElement} */ (event.target).closest?.("button[data-index]");
    return button ? model.get("processes")[Number(button.dataset.index)]?.short || "" : "";
  };
  processes.addEventListener("click", (event) => {
    const short = processAt(event);
    if (!short) return;
    chosen = chosen === short ? "" : short;
    light();
  });
  for (const [come, go] of [["mouseover", "mouseleave"], ["focusin", "focusout"]]) {
    processes.addEventListener(come, (event) => { pointed = processAt(event); light(); });
    processes.addEventListener(go, () => { pointed = ""; light(); });
    map.addEventListener(come, (event) => {
      const cell = /** @type {HTMLElement} */ (event.target).closest?.("button[data-cpu]");
      if (cell) { watchedCpu = Number(cell.dataset.cpu); tell(); }
    });
  }
  fold.addEventListener("click", () => {
    model.set("is_open", !model.get("is_open"));
    model.save_changes();
  });

  const turnFold = () => {
    fold.textContent = `${model.get("is_open") ? "▾" : "▸"} Cores: where threads, workers and ranks are`;
    fold.setAttribute("aria-expanded", String(model.get("is_open")));
    body.hidden = !model.get("is_open");
  };

  /** @type {[string, () => void][]} */
  const watched = [["boxes", drawBoxes], ["is_compact", drawBoxes], ["processes", drawProcesses], ["cpus", drawCpus],
    ["notes", drawTexts], ["summary", drawTexts], ["note", drawTexts], ["is_open", turnFold]];
  for (const [name, draw] of watched) model.on(`change:${name}`, draw);
  drawBoxes();
  drawProcesses();
  drawTexts();
  turnFold();
  const stopSaying = saySeen(model, el, true);  // Python looks only while this page shows the map
  return () => {
    stopSaying();
    for (const [name, draw] of watched) model.off(`change:${name}`, draw);
  };
}

export default { render };
