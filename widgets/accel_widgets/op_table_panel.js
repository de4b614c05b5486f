// Draws the operations of a step as a table to filter, by text and by phase, and to sort by any column.
// Rows, their texts and the columns come from Python; filtering and sorting only choose and order them.

/** @typedef {{key: string, title: string, is_number: boolean}} Column */
/** @typedef {Record<string, any> & {phase: string, share: number, colour: string, texts: Record<string, string>}} OpRow */

const FIRST_ROWS = 40;

/**
 * The rows to show: every word of the filter occurs in the row, the phase is the chosen one, in the chosen order.
 * @param {OpRow[]} rows
 * @param {Column[]} columns
 * @param {{filter: string, phase: string, sort_by: string, is_descending: boolean}} choice
 */
export function chosenRows(rows, columns, { filter, phase, sort_by, is_descending }) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const texts = columns.filter((column) => !column.is_number).map((column) => column.key);
  const kept = rows.filter((row) => (!phase || row.phase === phase)
    && words.every((word) => texts.some((key) => shownText(row, key).toLowerCase().includes(word))));
  const direction = is_descending ? -1 : 1;
  return kept.sort((a, b) => direction * (typeof a[sort_by] === "number"
    ? a[sort_by] - b[sort_by] : shownText(a, sort_by).localeCompare(shownText(b, sort_by))));
}

/** @param {OpRow} row @param {string} key */
function shownText(row, key) {
  return row.texts[key] ?? String(row[key]);
}

/**
 * @param {OpRow} row
 * @param {Column} column
 */
function cell(row, column) {
  const shown = shownText(row, column.key);
  const made = element("td", { class: column.is_number ? "accel-op-number" : `accel-op-${column.key}` });
  if (column.key === "share") {
    const bar = element("span", { class: "accel-op-bar", "aria-hidden": "true" });
    bar.style.setProperty("--share", String(row.share));
    bar.style.setProperty("--phase", row.colour);
    made.append(bar);
  }
  const text = element("span", {}, shown);
  if (!column.is_number) text.title = shown;
  made.append(text);
  return made;
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  let isShowingAll = false;
  const filter = /** @type {HTMLInputElement} */ (element("input", { type: "search", class: "accel-op-filter",
    placeholder: "Type to filter: conv backward …", "aria-label": "Filter operations", "data-testid": "op-filter" }));
  const phase = /** @type {HTMLSelectElement} */ (element("select", { class: "accel-op-phase-choice",
    "aria-label": "Phase", "data-testid": "op-phase" }));
  const count = element("span", { class: "accel-muted", role: "status", "data-testid": "op-count" });
  const head = element("tr");
  const body = element("tbody");
  const more = element("button", { type: "button", class: "accel-button", "data-testid": "op-more" });
  const scroll = element("div", { class: "accel-op-scroll", tabindex: "0", role: "region", "aria-label": "Operations of a step" },
    element("table", { "data-testid": "op-table" }, element("thead", {}, head), body));
  el.classList.add("accel", "accel-op");
  el.append(element("div", { class: "accel-op-top" }, element("h3", { class: "accel-heading" }, "Operations"), filter, phase, count),
    scroll, more);

  const set = (/** @type {Record<string, any>} */ changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };
  const sortBy = (/** @type {Column} */ column) => set(model.get("sort_by") === column.key
    ? { is_descending: !model.get("is_descending") } : { is_descending: column.is_number, sort_by: column.key });
  const drawHead = () => {
    const buttons = model.get("columns").map((/** @type {Column} */ column) => {
      const button = element("button", { type: "button", "data-testid": `sort-${column.key}` }, column.title);
      button.addEventListener("click", () => sortBy(column));
      return element("th", { scope: "col", "data-key": column.key, class: column.is_number ? "accel-op-number" : "" }, button);
    });
    head.replaceChildren(...buttons);
  };
  const drawPhases = () => {
    /** @type {Map<string, string>} */
    const words = new Map(model.get("rows").map((/** @type {OpRow} */ row) => [row.phase, shownText(row, "phase")]));
    phase.replaceChildren(element("option", { value: "" }, "All phases"),
      ...[...words].map(([name, text]) => element("option", { value: name }, text)));
  };
  const drawBody = () => {
    const columns = model.get("columns");
    const all = model.get("rows");
    const choice = Object.fromEntries(["filter", "phase", "sort_by", "is_descending"].map((name) => [name, model.get(name)]));
    const chosen = chosenRows(all, columns, /** @type {any} */ (choice));
    const shown = isShowingAll ? chosen : chosen.slice(0, FIRST_ROWS);
    body.replaceChildren(...shown.map((row) => element("tr", { "data-testid": "op-row" },
      ...columns.map((/** @type {Column} */ column) => cell(row, column)))));
    for (const heading of head.children) {
      const isSorted = heading.getAttribute("data-key") === choice.sort_by;
      heading.setAttribute("aria-sort", isSorted ? (choice.is_descending ? "descending" : "ascending") : "none");
    }
    if (filter.value !== choice.filter) filter.value = choice.filter;
    phase.value = choice.phase;
    count.textContent = chosen.length ? `${chosen.length} of ${all.length}` : "Nothing matches the filter.";
    more.hidden = shown.length === chosen.length;
    more.textContent = `Show all ${chosen.length}`;
    el.hidden = all.length === 0;
  };
  const drawAll = () => { drawHead(); drawPhases(); drawBody(); };

  filter.addEventListener("input", () => set({ filter: filter.value }));
  phase.addEventListener("change", () => set({ phase: phase.value }));
  more.addEventListener("click", () => { isShowingAll = true; drawBody(); });
  const choices = ["filter", "phase", "sort_by", "is_descending"];
  for (const name of choices) model.on(`change:${name}`, drawBody);
  for (const name of ["rows", "columns"]) model.on(`change:${name}`, drawAll);
  drawAll();
  return () => {
    for (const name of choices) model.off(`change:${name}`, drawBody);
    for (const name of ["rows", "columns"]) model.off(`change:${name}`, drawAll);
  };
}

export default { render };
