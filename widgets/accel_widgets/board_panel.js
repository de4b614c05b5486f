// Draws findings as cards and a switch for each acceleration. Every number and sentence comes from Python, as text.
// A switch reacts in the page; Python then says which plan that makes.

/**
 * @typedef {{name: string, choices: string[], default: string, placeholder: string, allowed: string, is_long: boolean}} Knob
 * @typedef {{name: string, layer: string, effect: string, effect_means: string, summary: string, is_kept: boolean, is_first: boolean, knobs: Knob[],
 *   why_not: string[], make: {environment: string, words: string, because: string} | null}} Entry
 * @typedef {{id: string, title: string, share: number, share_text: string, predicted: string, plans: string[], details: string[][]}} Finding
 * @typedef {{names: {name: string, has_knobs: boolean}[], because: string}} Refused
 * @typedef {Record<string, Record<string, string>>} Chosen
 */

let boards = 0;  // ids are the page's, and a panel may be shown twice

/** What a card's button says, to listeners with the plans of its title. @param {HTMLElement} button @param {string} words */
function face(button, words) {
  write(button, words);
  button.setAttribute("aria-label", `${words}: ${button.title.replaceAll("  ", ", ")}`);
}

/** A finding as a card. @param {Finding} finding @param {(plans: string[]) => void} tryThese */
function card(finding, tryThese) {
  const bar = element("span", { class: "accel-card-share", "aria-hidden": "true" });
  bar.style.setProperty("--share", String(finding.share));
  const facts = finding.details.map(([label, said]) => element("p", {}, ...(label ? [element("b", {}, `${label}: `)] : []), said));
  const made = element("li", { class: "accel-card", "data-testid": "finding" },
    element("h4", {}, finding.title), bar);
  if (finding.predicted) made.append(element("p", { class: "accel-card-predicted" }, finding.predicted));
  const foot = element("div", { class: "accel-card-foot" });
  if (finding.plans.length) {
    const button = element("button", { type: "button", class: "accel-button", "data-testid": "try-this", "data-key": `try ${finding.id}`,
      title: finding.plans.join("  ") });
    face(button, "Try this");
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-disabled") === "true") return;
      tryThese(finding.plans);
      face(button, "starting…");
    });
    foot.append(button);
  }
  foot.append(element("details", {}, element("summary", { "data-key": `why ${finding.id}` }, finding.plans.length ? "Why" : "What to do"), ...facts));
  made.append(foot);
  return made;
}

/** The control of one knob, named by its entry and its own name. @param {Entry} entry @param {Knob} knob @param {string} id */
function knobControl(entry, knob, id) {
  const given = { id, "aria-label": `${entry.name}: ${knob.name}`, title: knob.allowed, "data-key": id, "data-knob": knob.name };
  if (!knob.choices.length) return element("input", { ...given, type: "text", placeholder: knob.placeholder, ...(knob.is_long ? { class: "is-long" } : {}) });
  return element("select", given, ...knob.choices.map((word) => element("option", { value: word }, word)));
}

class BoardView {
  /** @param {any} model @param {HTMLElement} el */
  constructor(model, el) {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.starting = undefined;
    [this.model, this.el, this.id] = [model, el, `accel-board-${boards += 1}`];
    el.classList.add("accel", "accel-board");
    this.cards = element("ul", { class: "accel-cards", "aria-label": "Findings" });
    this.findings = element("section", {}, element("h3", { class: "accel-heading" }, "What costs time"), this.cards);
    this.first = element("div", { class: "accel-switches" });
    this.asking = element("p", { class: "accel-empty", "data-testid": "asking" }, "Asking which accelerations can work on this cell …");
    this.others = element("details", { class: "accel-others", "data-testid": "others" });
    this.cannot = element("details", { class: "accel-others", "data-testid": "refused" });
    this.heading = element("h3", { class: "accel-heading", tabindex: "-1" }, "Accelerations");
    el.append(this.findings, element("section", {}, this.heading, this.asking, this.first, this.others, this.cannot));
    const watched = /** @type {[string, () => void][]} */ ([["findings", () => this.drawFindings()], ["entries", () => this.drawEntries()],
      ["refused", () => this.drawRefused()], ["chosen", () => this.drawChosen()], ["is_busy", () => this.begun()],
      ["is_asked", () => this.drawEntries()]]);
    for (const [name, draw] of watched) model.on(`change:${name}`, draw);
    this.stop = () => {
      clearTimeout(this.starting);
      for (const [name, draw] of watched) model.off(`change:${name}`, draw);
    };
    this.drawFindings();
    this.drawEntries();
    this.drawRefused();
  }

  /** @returns {Chosen} */
  get chosen() { return this.model.get("chosen"); }

  /** @param {Chosen} chosen */
  choose(chosen) {
    this.model.set("chosen", chosen);
    this.model.save_changes();
    this.drawChosen();
  }

  /** Replace what a part holds; what had the focus has it again, also in another part, or the heading has it: never the page's body.
   * @param {Element} part @param {...Element} children */
  fill(part, ...children) {
    const active = /** @type {HTMLElement | null} */ (document.activeElement);
    const hadFocus = part.contains(active);
    const typed = active instanceof HTMLInputElement && active.type === "text" ? active.value : undefined;
    part.replaceChildren(...children);
    if (!hadFocus) return this.follow();
    const again = /** @type {HTMLElement | undefined} */ ([...part.querySelectorAll("[data-key]")].find((each) => /** @type {HTMLElement} */ (each).dataset.key === active?.dataset.key));
    if (again instanceof HTMLInputElement && typed !== undefined) again.value = typed;
    if (again) return again.focus();
    this.moved = active?.dataset.name;
    this.heading.focus();
    this.follow();
  }

  /** A name that is refused now, or no longer, stands in another part; Python says of both parts, in any order. */
  follow() {
    if (!this.moved || document.activeElement !== this.heading) return;
    const there = /** @type {HTMLElement | null} */ (this.el.querySelector(`[data-name="${CSS.escape(this.moved)}"]:enabled`));
    there?.closest("details")?.setAttribute("open", "");
    there?.focus();
  }

  drawFindings() {
    /** @type {Finding[]} */
    const findings = this.model.get("findings");
    this.findings.hidden = findings.length === 0;
    this.fill(this.cards, ...findings.map((finding) => card(finding, (plans) => this.tryThese(plans))));
    this.drawBusy();
  }

  /** Packing the cell takes seconds: until Python says that it runs, or what is in its way, the page says that it begins.
   * @param {string[]} plans */
  tryThese(plans) {
    clearTimeout(this.starting);
    this.starting = setTimeout(() => this.begun(), STARTING_MS);
    this.drawBusy();
    sayBegin(this.el);
    this.model.send({ do: "try", plans });
  }

  drawEntries() {
    /** @type {Entry[]} */
    const entries = this.model.get("entries");
    const first = entries.filter((entry) => entry.is_first);
    const others = entries.filter((entry) => !entry.is_first);
    this.asking.hidden = Boolean(this.model.get("is_asked"));
    this.fill(this.first, ...first.map((entry) => this.row(entry)));
    const groups = grouped(others);
    const rows = [...groups].map(([layer, own]) => element("section", {}, element("h4", { class: "accel-layer" }, layer), ...own.map((entry) => this.row(entry))));
    const words = first.length ? `${others.length} more that can work here` : `${others.length} accelerations`;
    this.others.hidden = others.length === 0;
    this.fill(this.others, element("summary", { "data-key": "others" }, words), ...rows);
    if (entries.length && !this.wasDrawn) this.others.open = first.length === 0;
    this.wasDrawn = entries.length > 0;
    this.drawChosen();
  }

  /** @param {Entry} entry */
  row(entry) {
    const id = `${this.id}-${entry.name}`;
    const input = /** @type {HTMLInputElement} */ (element("input", { type: "checkbox", role: "switch", id, "data-key": id, "data-name": entry.name,
      "aria-describedby": `${id}-what` }));
    input.addEventListener("change", () => this.choose(input.checked ? { ...this.chosen, [entry.name]: {} } : without(this.chosen, entry.name)));
    const what = element("span", { class: "accel-switch-what", id: `${id}-what` },
      ...(entry.is_kept ? [element("b", { class: "accel-is-live" }, "● kept ")] : []), entry.summary, " ", element("span", { class: "accel-effect", title: entry.effect_means }, entry.effect));
    const made = element("div", { class: "accel-switch", "data-testid": "switch-row" },
      element("label", { for: id }, input, element("code", {}, entry.name)), what);
    if (entry.knobs.length) made.append(this.knobs(entry, id));
    for (const why of entry.why_not) made.append(element("p", { class: "accel-why-not", "data-testid": "why-not" }, `Not here: ${why}`));
    if (entry.make) {
      const { environment, words, because } = entry.make;
      const make = element("button", { type: "button", class: "accel-button accel-make-environment", title: `${because}; this makes one`, "data-key": `make ${entry.name}`, "data-name": entry.name }, words);
      make.addEventListener("click", () => this.model.send({ do: "make", environment }));
      input.disabled = true;
      made.append(make);
    }
    return made;
  }

  /** @param {Entry} entry @param {string} id */
  knobs(entry, id) {
    const line = element("div", { class: "accel-knobs", hidden: "" });
    for (const knob of entry.knobs) {
      const control = /** @type {HTMLInputElement | HTMLSelectElement} */ (knobControl(entry, knob, `${id}-${knob.name}`));
      control.addEventListener("change", () => this.choose({ ...this.chosen, [entry.name]: { ...this.chosen[entry.name], [knob.name]: control.value } }));
      line.append(element("label", { class: "accel-knob", for: control.id }, knob.name, " ", control));
    }
    return line;
  }

  /** Switches, knobs and what was turned, in place. */
  drawChosen() {
    /** @type {Map<string, Entry>} */
    const known = new Map(this.model.get("entries").map((/** @type {Entry} */ entry) => [entry.name, entry]));
    for (const input of /** @type {NodeListOf<HTMLInputElement>} */ (this.el.querySelectorAll("input[role='switch']"))) {
      const [name, line] = [String(input.dataset.name), input.closest(".accel-switch")?.querySelector(".accel-knobs")];
      const own = this.chosen[name];
      if (input.checked !== Boolean(own)) input.checked = Boolean(own);
      if (!line) continue;
      line.toggleAttribute("hidden", !own);
      for (const control of /** @type {NodeListOf<HTMLInputElement>} */ (line.querySelectorAll("[data-knob]"))) {
        const knob = known.get(name)?.knobs.find((each) => each.name === control.dataset.knob);
        const value = own?.[String(control.dataset.knob)] ?? knob?.default ?? "";
        if (control !== document.activeElement && control.value !== value) control.value = value;
      }
    }
  }

  drawRefused() {
    /** @type {Refused[]} */
    const refused = this.model.get("refused");
    const count = refused.reduce((sum, group) => sum + group.names.length, 0);
    const groups = refused.map((group) => element("p", { class: "accel-why-not" },
      ...group.names.flatMap(({ name, has_knobs }, index) => [...(index ? [", "] : []), has_knobs ? this.otherwise(name) : element("code", {}, name)]), `: ${group.because}`));
    this.cannot.hidden = count === 0;
    this.fill(this.cannot, element("summary", { "data-key": "refused" }, `${count} cannot work here, and why`), ...groups);
  }

  /** One that cannot work as it stands may with other settings. @param {string} name */
  otherwise(name) {
    const button = element("button", { type: "button", class: "accel-otherwise", title: "Show its settings: another value may work", "data-key": `otherwise ${name}`, "data-name": name }, name);
    button.addEventListener("click", () => {
      this.choose({ ...this.chosen, [name]: {} });
      this.others.open = true;
    });
    return button;
  }

  begun() {
    clearTimeout(this.starting);
    this.starting = undefined;
    this.drawBusy();
  }

  drawBusy() {
    const isStarting = this.starting !== undefined;
    const isBusy = isStarting || Boolean(this.model.get("is_busy"));
    for (const button of /** @type {NodeListOf<HTMLElement>} */ (this.cards.querySelectorAll("button"))) {
      button.setAttribute("aria-disabled", String(isBusy));
      if (!isStarting) face(button, "Try this");
    }
  }
}

/** @param {Chosen} chosen @param {string} name */
function without(chosen, name) {
  return Object.fromEntries(Object.entries(chosen).filter(([each]) => each !== name));
}

/** By layer, in the order in which layers first come. @param {Entry[]} entries */
function grouped(entries) {
  /** @type {Map<string, Entry[]>} */
  const groups = new Map();
  for (const entry of entries) groups.set(entry.layer, [...(groups.get(entry.layer) ?? []), entry]);
  return groups;
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  return new BoardView(model, el).stop;
}

export default { render };
