// Draws the bar of the workbench, and shows the chosen tab: both react in the page, whatever the kernel does.
// What goes on is counted on here each second, from the last word of Python.

/** @typedef {{called: string, phase: string, phase_s: number, detail: string, seconds: number, at_most_s: number | null,
 *   is_strict: boolean, can_stop: boolean}} Beat */

/** Minutes and seconds, as a clock shows them. @param {number} seconds */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, String(whole % 60).padStart(2, "0")];
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** The same words as `Beat` in Python. @param {Beat} beat @param {number} later seconds since it was said */
export function beatText(beat, later) {
  const seconds = beat.seconds + later;
  const isPast = beat.at_most_s !== null && !beat.is_strict && seconds > beat.at_most_s;
  const whole = beat.at_most_s === null ? "" : isPast ? clock(seconds) : `${clock(seconds)} of ${beat.is_strict ? "at most" : "about"} ${clock(beat.at_most_s)}`;
  return [beat.called, `${beat.phase} ${clock(beat.phase_s + later)}`, beat.detail, whole].filter(Boolean).join(" · ");
}

const BUTTONS = /** @type {[string, string, string][]} */ ([
  ["try", "Try", "Measure what is switched on, together, against the baseline"],
  ["try_each", "Try each", "Measure each one alone, and all of them together"],
  ["tune", "Tune", "Search for the fastest plan of all accelerations, for up to two minutes"],
]);

const STARTING_MS = 5000;  // an error that comes instead has a place of its own

class BarView {
  /** @param {any} model @param {HTMLElement} el */
  constructor(model, el) {
    [this.model, this.el, this.heard, this.isStopping, this.awaits] = [model, el, 0, false, ""];
    this.isStarting = 0;  // until then "starting…" stands there: the kernel packs the cell first
    el.classList.add("accel", "accel-bar");
    this.build();
    const draw = () => this.draw();
    const watched = ["headline", "plan", "hint", "is_problem", "can", "live"];
    for (const name of watched) model.on(`change:${name}`, draw);
    const hear = () => this.hearBeat();
    const turn = () => this.showTab();
    const told = (/** @type {any} */ message) => { if (message?.copy !== undefined) this.copy(message.copy); };
    model.on("change:beat", hear);
    model.on("change:tab", turn);
    model.on("msg:custom", told);
    const counting = setInterval(() => this.drawBeat(), 250);
    const stopSaying = saySeen(model, el, false);
    this.stop = () => {
      clearInterval(counting);
      stopSaying();
      for (const name of watched) model.off(`change:${name}`, draw);
      model.off("change:beat", hear);
      model.off("change:tab", turn);
      model.off("msg:custom", told);
    };
    this.draw();
    this.hearBeat();
    this.showTabOncePlaced();
  }

  build() {
    this.headline = element("span", { class: "accel-bar-headline", "data-testid": "bar-headline" });
    this.plan = element("span", { class: "accel-bar-plan", "data-testid": "plan", tabindex: "-1" });
    this.buttons = new Map(BUTTONS.map(([name, face, title]) => [name, this.button(name, face, title, name === "try" ? "accel-primary" : "")]));
    this.stopButton = this.button("stop", "■ Stop", "End it and its processes; what was measured stays", "accel-bar-stop");
    this.beatLine = element("span", { class: "accel-bar-beat", "data-testid": "beat", role: "timer" });
    this.phase = element("span", { class: "accel-sr", role: "status" });
    this.live = element("span", { class: "accel-bar-live", "data-testid": "live" });
    this.undo = this.button("undo", "Undo", "Take back what is kept, bit for bit");
    this.copyButton = this.button("copy", "Copy as plain PyTorch", "Your cell with the kept plan written in, without accel");
    this.word = element("span", { class: "accel-muted", role: "status", "data-testid": "copied" });
    this.text = /** @type {HTMLTextAreaElement} */ (element("textarea", { class: "accel-bar-text", readonly: "", rows: "8", hidden: "", "aria-label": "What was to be copied" }));
    this.tabs = element("div", { class: "accel-tabs", role: "tablist", "aria-label": "Parts of the workbench" });
    const does = element("div", { class: "accel-bar-does" }, ...this.buttons.values(), this.stopButton, this.beatLine, this.phase);
    const lives = element("div", { class: "accel-bar-lives" }, this.live, this.undo, this.copyButton, this.word);
    this.el.append(element("div", { class: "accel-bar-rows" }, does, this.plan, lives, this.text), element("div", { class: "accel-bar-tabs" }, this.tabs, this.headline));
    const tabs = /** @type {Record<string, string>} */ (this.model.get("tabs"));
    this.tabButtons = new Map(Object.entries(tabs).map(([name, face]) => [name, this.tabButton(name, face)]));
    this.tabs.append(...this.tabButtons.values());
    this.tabs.addEventListener("keydown", (event) => this.turnByKey(event));
  }

  /** A button that keeps its focus while it can do nothing. @param {string} name @param {string} face @param {string} title */
  button(name, face, title, classes = "") {
    const made = element("button", { type: "button", class: `accel-button ${classes}`, title, "data-testid": name }, face);
    made.addEventListener("click", () => { if (made.getAttribute("aria-disabled") !== "true") this.click(name); });
    return made;
  }

  /** @param {string} name @param {string} face */
  tabButton(name, face) {
    const made = element("button", { type: "button", role: "tab", class: "accel-tab-button", "data-tab": name, "data-testid": `tab-${name}` }, face);
    made.addEventListener("click", () => this.turnTo(name));
    return made;
  }

  /** @param {string} name */
  click(name) {
    if (name === "stop") {
      this.isStopping = true;
      this.drawBeat();
    } else if (this.buttons.has(name)) {
      this.awaits = "stop";
      this.turnTo("speed_up");
      this.isStarting = performance.now() + STARTING_MS;
      this.drawBeat();
    }
    this.model.send({ do: name });
  }

  draw() {
    const can = new Set(this.model.get("can"));
    const live = this.model.get("live");
    write(this.headline, this.model.get("headline"));
    const plan = this.model.get("plan");
    if (plan) {
      this.plan.replaceChildren("Plan: ", element("code", {}, ...plan.split("+").flatMap((/** @type {string} */ part, /** @type {number} */ index) => (index ? [element("wbr"), `+${part}`] : [part]))));
    } else write(this.plan, this.model.get("hint"));
    this.plan.classList.toggle("is-problem", this.model.get("is_problem"));
    if (this.model.get("is_problem")) this.plan.setAttribute("role", "alert"); else this.plan.removeAttribute("role");
    for (const [name, button] of [...this.buttons, ["undo", this.undo], ["copy", this.copyButton]]) {
      /** @type {HTMLElement} */ (button).setAttribute("aria-disabled", String(!can.has(name)));
    }
    this.live.replaceChildren(...(live ? [element("b", { class: "accel-is-live" }, "● "), "Kept: ", element("code", {}, live)] : ["Nothing is kept"]));
    this.undo.hidden = this.copyButton.hidden = !live && document.activeElement !== this.undo;
  }

  hearBeat() {
    [this.heard, this.isStopping] = [performance.now(), this.isStopping && Boolean(this.beat)];
    if (this.beat) this.isStarting = 0;
    const beat = this.beat;
    write(this.phase, beat ? `${beat.called} ${beat.phase}`.trim() : "");
    this.el.classList.toggle("is-running", Boolean(beat));
    const hadFocus = document.activeElement === this.stopButton;
    this.stopButton.hidden = !beat?.can_stop;
    const isHere = this.el.contains(document.activeElement) || document.activeElement === document.body;
    if (beat?.can_stop && this.awaits === "stop") {
      this.awaits = "";
      if (isHere) this.stopButton.focus();  // a user who went on to another cell stays there
    } else if (hadFocus && this.stopButton.hidden) this.buttons.get("try")?.focus();
    this.drawBeat();
  }

  /** @returns {Beat | null} */
  get beat() {
    const beat = this.model.get("beat");
    return beat && beat.phase ? beat : null;
  }

  drawBeat() {
    if (this.el.closest(".jupyter-widgets-disconnected")) return;  // its kernel is gone: nothing goes on
    const beat = this.beat;
    const later = (performance.now() - this.heard) / 1000;
    const isStarting = performance.now() < this.isStarting;
    write(this.beatLine, !beat ? (isStarting ? "starting…" : "") : this.isStopping ? [beat.called, "stopping…"].filter(Boolean).join(" · ") : beatText(beat, later));
    this.beatLine.hidden = !beat && !isStarting;
  }

  // --- tabs ---------------------------------------------------------------------------------------------------------

  /** @param {string} name */
  turnTo(name) {
    this.model.set("tab", name);
    this.model.save_changes();
    this.showTab();
  }

  /** @param {KeyboardEvent} event */
  turnByKey(event) {
    const names = [...this.tabButtons.keys()];
    const by = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: names.length - 1 })[event.key];
    const name = event.key === "Home" ? names[0] : event.key === "End" ? names[names.length - 1] : by && names[(names.indexOf(this.model.get("tab")) + by) % names.length];
    if (!name) return;
    event.preventDefault();
    this.turnTo(name);
    this.tabButtons.get(name)?.focus();
  }

  showTab() {
    const [tab, root] = [this.model.get("tab"), this.el.closest(".accel-workbench")];
    for (const [name, button] of this.tabButtons) {
      button.setAttribute("aria-selected", String(name === tab));
      button.tabIndex = name === tab ? 0 : -1;
    }
    root?.setAttribute("data-tab", tab);
    for (const name of this.tabButtons.keys()) {
      const part = root?.querySelector(`.accel-tab-${name}`);
      part?.setAttribute("role", "tabpanel");
      part?.setAttribute("aria-label", String(this.tabButtons.get(name)?.textContent));
    }
  }

  /** A view is made before it stands in the page, and its neighbours later still. */
  showTabOncePlaced(turns = 40) {
    this.showTab();
    if (turns > 0 && !this.el.closest(".accel-workbench")?.querySelector(".accel-tab-machine")) requestAnimationFrame(() => this.showTabOncePlaced(turns - 1));
  }

  // --- copy ---------------------------------------------------------------------------------------------------------

  /** Where the page may not reach the clipboard, the text stands there to be copied by hand. @param {string} text */
  async copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      write(this.word, "Copied");
    } catch {
      this.text.value = text;
      this.text.hidden = false;
      this.text.select();
      this.text.focus();
      write(this.word, "Press Ctrl+C to copy it");
    }
  }
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  return new BarView(model, el).stop;
}

export default { render };
