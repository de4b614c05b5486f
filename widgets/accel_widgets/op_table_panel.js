// Draws the operations of a step as a table to filter, by text and by phase, to sort by any column and to choose a row of.
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

/** What a row and a choice are known by, here and in the timeline. @param {{op?: string, phase?: string, module?: string}} row */
export function keyOf({ op = "", phase = "", module = "" }) {
  return JSON.stringify([op, phase, module]);
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
  const made = element("td", { class: `accel-op-${column.key}${column.is_number ? " accel-op-number" : ""}` });
  if (column.key === "share") {
    const bar = element("span", { class: "accel-op-bar", "aria-hidden": "true" });
    bar.style.setProperty("--share", String(row.share));
    bar.style.setProperty("--phase", row.colour);
    made.append(bar);
  }
  const isName = column.key === "op";
  const text = isName ? element("button", { type: "button", class: "accel-op-choose" }, shown) : element("span", {}, shown);
  if (!column.is_number) text.title = isName ? `${shown}: show its slices in the timeline` : shown;
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
  const scroll = element("div", { class: "accel-op-scroll", role: "region", "aria-label": "Operations of a step" },
    element("table", { "data-testid": "op-table" }, element("thead", {}, head), body));
  el.classList.add("accel", "accel-op");
  el.append(element("div", { class: "accel-op-top" }, element("h3", { class: "accel-heading" }, "Operations"), filter, phase, count),
    scroll, more);
  addSkip(el, "the operations");
  const settleHead = rove(head, "button");
  const settleRows = rove(body, ".accel-op-choose");

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
    settleHead();
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
    const place = chosen.findIndex((row) => keyOf(row) === keyOf(model.get("chosen_op")));
    isShowingAll ||= place >= FIRST_ROWS;
    const shown = isShowingAll ? chosen : chosen.slice(0, FIRST_ROWS);
    const focused = body.contains(document.activeElement) ? rowOf(document.activeElement)?.dataset.key : null;
    body.replaceChildren(...shown.map((row) => element("tr", { "data-testid": "op-row", "data-key": keyOf(row) },
      ...columns.map((/** @type {Column} */ column) => cell(row, column)))));
    markRow();
    if (focused) (chooserOf(focused) ?? chooserOf(body.querySelector("tr")?.dataset.key) ?? filter).focus();
    for (const heading of head.children) {
      const isSorted = heading.getAttribute("data-key") === choice.sort_by;
      heading.setAttribute("aria-sort", isSorted ? (choice.is_descending ? "descending" : "ascending") : "none");
    }
    if (filter.value !== choice.filter) filter.value = choice.filter;
    phase.value = choice.phase;
    const isFilteredOut = place < 0 && all.some((/** @type {OpRow} */ row) => keyOf(row) === keyOf(model.get("chosen_op")));
    write(count, (chosen.length ? `${chosen.length} of ${all.length}${isFilteredOut ? "." : ""}` : "Nothing matches the filter.")
      + (isFilteredOut ? " The chosen operation is filtered out." : ""));
    hide(more, shown.length === chosen.length, chooserOf(keyOf(chosen[FIRST_ROWS] ?? {})) ?? filter);
    more.textContent = `Show all ${chosen.length}`;
    el.hidden = all.length === 0;
  };
  const rowOf = (/** @type {EventTarget | null} */ inside) => /** @type {HTMLElement | null} */ (
    /** @type {Element | null} */ (inside)?.closest("tr[data-key]") ?? null);
  const chooserOf = (/** @type {string | undefined} */ key) => /** @type {HTMLElement | null | undefined} */ (
    [...body.children].find((row) => /** @type {HTMLElement} */ (row).dataset.key === key)?.querySelector(".accel-op-choose"));
  const markRow = () => {
    const key = keyOf(model.get("chosen_op"));
    for (const row of /** @type {HTMLCollectionOf<HTMLElement>} */ (body.children)) {
      row.querySelector(".accel-op-choose")?.setAttribute("aria-pressed", String(row.dataset.key === key));
    }
    settleRows(chooserOf(key));
  };
  /** A row that was chosen elsewhere comes into the table's view; the page stays where it is. */
  const showChosen = () => {
    drawBody();
    const row = rowOf(chooserOf(keyOf(model.get("chosen_op"))) ?? null);
    if (!row) return;
    const above = row.offsetTop - head.offsetHeight;
    if (above < scroll.scrollTop) scroll.scrollTop = above;
    const below = row.offsetTop + row.offsetHeight - scroll.clientHeight;
    if (below > scroll.scrollTop) scroll.scrollTop = below;
  };
  const drawAll = () => { drawHead(); drawPhases(); drawBody(); };

  filter.addEventListener("input", () => set({ filter: filter.value }));
  phase.addEventListener("change", () => set({ phase: phase.value }));
  more.addEventListener("click", () => { isShowingAll = true; drawBody(); });
  body.addEventListener("click", (event) => {
    const key = rowOf(event.target)?.dataset.key;
    if (!key) return;
    const [op, phase, module] = JSON.parse(key);
    set({ chosen_op: key === keyOf(model.get("chosen_op")) ? {} : { op, phase, module } });
  });
  const choices = ["filter", "phase", "sort_by", "is_descending"];
  for (const name of choices) model.on(`change:${name}`, drawBody);
  for (const name of ["rows", "columns"]) model.on(`change:${name}`, drawAll);
  model.on("change:chosen_op", showChosen);
  drawAll();
  const resized = new ResizeObserver(() => settleHead());  // a narrow table has fewer headings
  resized.observe(scroll);
  return () => {
    resized.disconnect();
    for (const name of choices) model.off(`change:${name}`, drawBody);
    for (const name of ["rows", "columns"]) model.off(`change:${name}`, drawAll);
    model.off("change:chosen_op", showChosen);
  };
}

export default { render };
