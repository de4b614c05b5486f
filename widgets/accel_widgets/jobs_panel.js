// Draws a row for each job. Every text comes from Python; rows stay the same elements while values change.

/** @typedef {{name: string, state: string, word: string, where: string, ranks: string, for: string, step: string, loss: string,
 *   size: string, because: string, sure: string, can: string[]}} Job */

/** @type {Record<string, string>} */
const HEADINGS = { name: "Job", state: "State", where: "Where", ranks: "Ranks", for: "For", step: "Step", loss: "Loss", size: "On disk", do: "Do" };
/** @type {Record<string, [string, string]>} */
const WORDS = {
  logs: ["Logs", "What the launcher and the ranks printed"],
  stop: ["Stop", "All ranks end after the same step, and the state of that step can come home"],
  cancel: ["Cancel", "End it now: what it trained is lost, but for its checkpoints"],
  home: ["Bring home", "Put what it trained into your objects"],
  remove: ["Remove", "Remove its folder, with all that it left"],
};
const SURE = ["cancel", "remove"];
const ARMED_MS = 4000;

/** A button that has to be pressed twice where it takes something away. @param {string} word @param {string} name @param {string} sure
 * @param {(word: string) => void} press */
function makeButton(word, name, sure, press) {
  const [text, title] = WORDS[word];
  const button = element("button", { type: "button", class: "accel-button", title, "aria-label": `${text} ${name}`, "data-testid": `job-${word}` }, text);
  let isArmed = !SURE.includes(word);
  button.addEventListener("click", () => {
    if (isArmed) { press(word); return; }
    isArmed = true;
    write(button, sure);
    button.setAttribute("aria-label", `${text} ${name}: press again to do it`);
    setTimeout(() => {
      isArmed = false;
      write(button, text);
      button.setAttribute("aria-label", `${text} ${name}`);
    }, ARMED_MS);
  });
  return button;
}

/** An element of the table, which stays one for screen readers where its style makes cards of the rows. */
function part(/** @type {string} */ tag, /** @type {string} */ role, /** @type {Record<string, string>} */ attributes = {}, /** @type {(Node | string)[]} */ ...inside) {
  return element(tag, { role, ...attributes }, ...inside);
}

/** A row that can be updated; its elements stay. @param {string} name @param {(word: string) => void} press */
function makeRow(name, press) {
  const cells = Object.fromEntries(["state", "where", "ranks", "for", "step", "loss", "size"].map((key) =>
    [key, part("td", "cell", { "data-testid": `job-${key}`, class: ["ranks", "step", "loss", "size"].includes(key) ? "accel-jobs-number" : "",
      "data-heading": key in HEADINGS ? HEADINGS[key] : "" })]));
  const because = element("div", { class: "accel-jobs-because", "data-testid": "job-because" });
  const buttons = part("td", "cell", { class: "accel-jobs-buttons" });
  const node = part("tr", "row", { "data-testid": "job" },
    part("th", "rowheader", { scope: "row", "data-testid": "job-name", title: name }, name), ...Object.values(cells), buttons);
  cells.state.append(element("span"), because);
  let shown = "";
  /** @param {Job} job */
  const update = (job) => {
    node.setAttribute("data-state", job.word);
    write(/** @type {Element} */ (cells.state.firstChild), job.state);
    write(because, job.because);
    because.hidden = !job.because;
    write(cells.where, job.where);
    write(cells.ranks, job.ranks);
    write(cells.for, job.for);
    write(cells.step, job.step);
    write(cells.loss, job.loss);
    write(cells.size, job.size);
    if (shown === job.can.join()) return;
    shown = job.can.join();
    const hadFocus = buttons.contains(document.activeElement);
    buttons.replaceChildren(...job.can.filter((word) => word in WORDS).map((word) => makeButton(word, name, job.sure, press)));
    const first = buttons.querySelector("button");
    if (hadFocus && first) first.focus();  // a key's place is never lost to the page
  };
  return { node, update };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const rows = part("tbody", "rowgroup");
  const heads = Object.values(HEADINGS).map((name) => part("th", "columnheader", { scope: "col" }, name));
  const table = part("table", "table", { "aria-label": "Jobs" }, part("thead", "rowgroup", {}, part("tr", "row", {}, ...heads)), rows);
  const settle = rove(rows, "button");
  const line = element("div", { role: "status", tabindex: "-1", class: "accel-jobs-line", "data-testid": "jobs-line" });
  const logs = element("div", { class: "accel-jobs-logs", "data-testid": "jobs-logs" });
  el.classList.add("accel", "accel-jobs");
  const fold = element("summary", { class: "accel-fold", "data-testid": "jobs-fold" }, "Jobs");
  const whole = /** @type {HTMLDetailsElement} */ (model.get("has_fold") ? element("details", {}, fold, line, table, logs) : element("div", {}, line, table, logs));
  el.append(whole);
  /** @type {Map<string, ReturnType<typeof makeRow>>} */
  const shown = new Map();

  let hadJobs = false;
  const draw = () => {
    /** @type {Job[]} */
    const jobs = model.get("rows");
    const names = jobs.map((job) => job.name);
    const hadFocus = rows.contains(document.activeElement);
    for (const [name, row] of shown) if (!names.includes(name)) { row.node.remove(); shown.delete(name); }
    jobs.forEach((job, index) => {
      const row = shown.get(job.name) ?? makeRow(job.name, (word) => model.send({ do: word, name: job.name }));
      shown.set(job.name, row);
      if (rows.children[index] !== row.node) rows.insertBefore(row.node, rows.children[index] ?? null);
      row.update(job);
    });
    table.hidden = jobs.length === 0;
    write(fold, jobs.length ? `Jobs (${jobs.length})` : model.get("line") ? "Jobs: none" : "Jobs");
    if (jobs.length && !hadJobs) whole.open = true;
    hadJobs = jobs.length > 0;
    write(line, model.get("line"));
    line.hidden = !model.get("line");
    line.toggleAttribute("data-error", model.get("is_error"));
    settle(rows.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null);
    if (hadFocus && !rows.contains(document.activeElement)) (rows.querySelector("button") ?? line).focus();
  };
  const drawLogs = () => {
    /** @type {[string, string][]} */
    const texts = model.get("logs");
    const of = model.get("logs_of");
    logs.hidden = !of;
    if (!of) return;
    const parts = texts.map(([whose, text], index) => {
      const part = element("details", {}, element("summary", {}, whose), element("pre", {}, text));
      if (index === 0) part.setAttribute("open", "");
      return part;
    });
    const none = texts.length ? [] : [element("p", {}, "It has printed nothing yet.")];
    logs.replaceChildren(element("h3", {}, `Logs of ${of}`), ...none, ...parts);
  };
  for (const name of ["rows", "line", "is_error"]) model.on(`change:${name}`, draw);
  for (const name of ["logs", "logs_of"]) model.on(`change:${name}`, drawLogs);
  draw();
  drawLogs();
  const stopSaying = saySeen(model, el, true);  // Python looks only while this page shows the jobs
  return () => {
    stopSaying();
    for (const name of ["rows", "line", "is_error"]) model.off(`change:${name}`, draw);
    for (const name of ["logs", "logs_of"]) model.off(`change:${name}`, drawLogs);
  };
}

export default { render };
