// Draws a quiz: each question is a form with plain controls, so that keyboard and screen reader work as everywhere.
// What is right is known in Python alone: the page sends an answer and gets back what became of it.

/**
 * @typedef {{id: string, kind: string, lesson: string, heading: string, ask: string, choices: string[], plain: string[], lefts: string[], unit: string, missing: string, legend?: string, button?: string, field?: string, typed?: string}} Question
 * @typedef {{text: string, why: string, mark: string, word: string, is_right: boolean | null}} Remark
 * @typedef {{verdict: string, is_right: boolean | null, is_over: boolean, hint: string, left: string, remarks: Remark[]}} Outcome
 * @typedef {{body: Element, given: () => unknown, close: () => void}} Controls
 */

/** HTML that Python made of Markdown: everything in it was escaped there. @param {Element} target @param {string} html */
function fill(target, html) {
  target.innerHTML = html;
  for (const link of target.querySelectorAll("a[href]")) lead(/** @type {HTMLAnchorElement} */ (link));
  return target;
}

/** A link out opens a page of its own; one to a heading scrolls there, by whichever attribute JupyterLab keeps its name. @param {HTMLAnchorElement} link */
function lead(link) {
  const to = link.getAttribute("href") ?? "";
  if (!to.startsWith("#")) {
    link.target = "_blank";
    link.rel = "noopener";
    return;
  }
  link.addEventListener("click", (event) => {
    const name = CSS.escape(decodeURIComponent(to.slice(1)));
    const heading = document.querySelector(`[id="${name}"], [data-jupyter-id="${name}"]`);
    if (!heading) return;
    event.preventDefault();
    heading.scrollIntoView({ block: "start" });
  });
}

/** Where a question belongs: a link where the notebook has that heading. @param {Question} question @returns {(Node | string)[]} */
function lesson(question) {
  if (!question.lesson) return [];
  if (!question.heading) return [` · ${question.lesson}`];
  const link = /** @type {HTMLAnchorElement} */ (element("a", { href: `#${encodeURIComponent(question.heading)}`, class: "accel-quiz-lesson" }, question.lesson));
  lead(link);
  return [" · ", link];
}

/** Radio buttons or boxes. @param {Question} question @param {string} own @returns {Controls} */
function options(question, own) {
  const type = question.kind === "single" ? "radio" : "checkbox";
  const boxes = question.choices.map(() => /** @type {HTMLInputElement} */ (element("input", { type, name: own })));
  const labels = boxes.map((box, at) =>
    element("label", { class: "accel-quiz-choice" }, box, fill(element("span"), question.choices[at])),
  );
  const chosen = () => boxes.flatMap((box, at) => (box.checked ? [at] : []));
  return {
    body: element("div", {}, ...labels),
    given: () => chosen(),
    close: () => boxes.forEach((box) => (box.disabled = true)),
  };
}

/** A field for a number. @param {Question} question @param {string} own @returns {Controls} */
function number(question, own) {
  const field = /** @type {HTMLInputElement} */ (
    element("input", { type: "text", inputmode: "decimal", autocomplete: "off", id: `${own}-number`, class: "accel-quiz-number" })
  );
  const label = element("label", { for: `${own}-number`, class: "accel-quiz-unit" }, question.unit);
  const name = question.field ?? "Your answer";
  field.setAttribute("aria-label", question.unit ? `${name} in ${question.unit}` : name);
  field.value = question.typed ?? "";
  return { body: element("div", {}, field, label), given: () => field.value.trim(), close: () => (field.disabled = true) };
}

/** Items that are moved up and down by buttons. @param {Question} question @returns {Controls} */
function order(question) {
  const list = element("ol", { class: "accel-quiz-order" });
  const places = question.choices.map((_, at) => at);
  /** @param {Element} item @param {number} by @param {HTMLButtonElement} button */
  const move = (item, by, button) => {
    const from = [...list.children].indexOf(item);
    const to = from + by;
    if (to < 0 || to >= places.length) {
      write(moved, `already ${to < 0 ? "first" : "last"}: ${item.querySelector("span")?.textContent}`);
      return;
    }
    [places[from], places[to]] = [places[to], places[from]];
    list.insertBefore(by < 0 ? item : list.children[to], by < 0 ? list.children[to] : item);
    button.focus();
    write(moved, `${to + 1} of ${places.length}: ${item.querySelector("span")?.textContent}`);
  };
  const moved = element("div", { class: "accel-quiz-unseen", role: "status" });
  for (const [at, text] of question.choices.entries()) {
    const item = element("li", {}, fill(element("span"), text));
    for (const [by, sign, word] of /** @type {[number, string, string][]} */ ([[1, "↓", "down"], [-1, "↑", "up"]])) {
      const label = `Move ${word}: ${question.plain[at]}`;
      const button = /** @type {HTMLButtonElement} */ (element("button", { type: "button", class: "accel-button", "aria-label": label }, sign));
      button.addEventListener("click", () => move(item, by, button));
      item.prepend(button);
    }
    list.append(item);
  }
  const close = () => list.querySelectorAll("button").forEach((button) => (button.disabled = true));
  return { body: element("div", {}, list, moved), given: () => [...places], close };
}

/** A list to choose from for each line. @param {Question} question @param {string} own @returns {Controls} */
function pairs(question, own) {
  const selects = question.lefts.map((_, row) => {
    const first = element("option", { value: "" }, "choose …");
    const rest = question.plain.map((text, at) => element("option", { value: String(at) }, text));
    return /** @type {HTMLSelectElement} */ (element("select", { id: `${own}-${row}` }, first, ...rest));
  });
  const rows = selects.map((select, row) =>
    element("div", { class: "accel-quiz-pair" }, fill(element("label", { for: `${own}-${row}` }), question.lefts[row]), select),
  );
  return {
    body: element("div", {}, ...rows),
    given: () => selects.map((select) => (select.value === "" ? -1 : Number(select.value))),
    close: () => selects.forEach((select) => (select.disabled = true)),
  };
}

/** @type {Record<string, (question: Question, own: string) => Controls>} */
const CONTROLS = { single: options, multiple: options, numeric: number, ordering: order, matching: pairs };

/** @param {Element} target @param {Outcome} outcome */
function writeOutcome(target, outcome) {
  const remarks = outcome.remarks.map((remark) => {
    const state = remark.is_right === null ? "is-neither" : remark.is_right ? "is-right" : "is-wrong";
    const line = element("li", { class: state }, element("span", { class: "accel-quiz-mark", role: "img", "aria-label": remark.word }, remark.mark));
    line.append(fill(element("span", { class: "accel-quiz-said" }), remark.text), fill(element("div"), remark.why));
    return line;
  });
  const verdict = element("strong", outcome.is_right === null ? {} : { class: outcome.is_right ? "is-right" : "is-wrong" }, outcome.verdict);
  target.replaceChildren(verdict, " ", fill(element("span"), outcome.hint), element("ul", {}, ...remarks), outcome.left);
}

/** One question. @param {Question} question @param {number} at @param {number} count @param {string} own @param {(given: unknown) => void} send */
function form(question, at, count, own, send) {
  const ask = fill(element("div", { class: "accel-quiz-ask", id: `${own}-ask` }), question.ask);
  const legend = element("legend", { id: `${own}-legend` }, question.legend ?? `Question ${at + 1} of ${count}`, ...lesson(question));
  const outcome = element("div", { class: "accel-quiz-outcome", role: "status", tabindex: "-1", "data-testid": "outcome" });
  const fields = element("fieldset", { "aria-labelledby": `${own}-legend ${own}-ask` }, legend, ask);
  const made = element("form", { "data-question": question.id }, fields);
  if (question.missing) {
    fields.append(element("p", { class: "accel-muted" }, question.missing));
    return { made, show: () => {} };
  }
  const controls = CONTROLS[question.kind](question, own);
  const check = /** @type {HTMLButtonElement} */ (element("button", { type: "submit", class: "accel-button" }, question.button ?? "Check"));
  fields.append(controls.body, check, outcome);
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    send(controls.given());
  });
  /** @param {Outcome | undefined} found */
  const show = (found) => {
    if (!found || JSON.stringify(found) === made.dataset.shown) return;
    made.dataset.shown = JSON.stringify(found);
    writeOutcome(outcome, found);
    if (!found.is_over) return;
    const hadFocus = made.contains(document.activeElement);
    controls.close();
    check.hidden = true;
    if (hadFocus) outcome.focus();
  };
  return { made, show };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const own = `accel-quiz-${Math.random().toString(36).slice(2)}`;
  const score = element("p", { class: "accel-quiz-score", role: "status", "data-testid": "score" });
  const list = element("div", {});
  const title = element("h3", { class: "accel-heading" });
  const section = element("section", { class: "accel accel-quiz", "aria-label": "Quiz" }, title, score, list);
  /** @type {Map<string, (found: Outcome | undefined) => void>} */
  let shows = new Map();

  const draw = () => {
    const questions = /** @type {Question[]} */ (model.get("questions"));
    const forms = questions.map((question, at) =>
      form(question, at, questions.length, `${own}-${at}`, (given) => model.send({ do: "answer", question: question.id, given })),
    );
    shows = new Map(forms.map(({ show }, at) => [questions[at].id, show]));
    list.replaceChildren(...forms.map(({ made }) => made));
    update();
  };
  const update = () => {
    write(title, model.get("title"));
    title.toggleAttribute("hidden", !model.get("title"));
    section.setAttribute("aria-label", model.get("title") || model.get("questions")[0]?.legend || "Quiz");
    write(score, model.get("points"));
    for (const [name, show] of shows) show(model.get("outcomes")[name]);
  };
  draw();
  el.append(section);
  model.on("change:questions", draw);
  for (const name of ["title", "points", "outcomes"]) model.on(`change:${name}`, update);
  return () => {
    model.off("change:questions", draw);
    for (const name of ["title", "points", "outcomes"]) model.off(`change:${name}`, update);
    section.remove();
  };
}

export default { render };
