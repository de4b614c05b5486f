// Draws the bar of the workbench, and shows the chosen tab: both react in the page, whatever the kernel does.
// What goes on is counted on here each second, from the last word of Python.

/** @typedef {{called: string, phase: string, phase_s: number, detail: string, seconds: number, at_most_s: number | null,
 *   is_strict: boolean, can_stop: boolean, interrupt: string}} Beat */

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

const UNHEARD_MS = 1000;  // a kernel that takes messages while a cell runs has answered by then
const SILENT_MS = 5000;  // Python says something each second: after that it is no longer counted on
const COPY_MS = 5000;  // later the user is at something else: neither clipboard nor focus are taken then

class BarView {
  /** @param {any} model @param {HTMLElement} el */
  constructor(model, el) {
    [this.model, this.el, this.heard, this.isStopping, this.began] = [model, el, 0, false, 0];
    [this.seconds, this.couldStop] = [Infinity, false];  // of what ran when it was last heard of; whether Stop stood there then
    this.asked = /** @type {HTMLElement | null} */ (null);  // what a text to copy was asked for with
    [this.unseen, this.wasGone] = [0, false];
    this.awaits = 0;  // until then Stop gets the focus when it appears
    this.view = crypto.randomUUID?.() ?? String(Math.random());
    this.isStarting = 0;  // until then "starting…" stands there: the kernel packs the cell first
    el.classList.add("accel", "accel-bar");
    this.build();
    const draw = () => this.draw();
    const watched = ["headline", "plan", "hint", "is_problem", "can", "live"];
    for (const name of watched) model.on(`change:${name}`, draw);
    const hear = () => this.hearBeat();
    const turn = () => { this.showTab(); };
    const face = () => { for (const [name, button] of this.tabButtons) write(button, model.get("tabs")[name]); this.showTab(); };
    const told = (/** @type {any} */ message) => { if (message?.copy !== undefined && message.to?.view === this.view) this.copy(message.copy, message.to.at); };
    const deaf = onBegin(el, () => this.begin());
    model.on("change:beat", hear);
    model.on("change:tab", turn);
    model.on("change:tabs", face);
    model.on("msg:custom", told);
    const counting = setInterval(() => this.drawBeat(), 250);
    this.seen = saySeen(model, el, false);
    this.stop = () => {
      clearInterval(counting);
      this.seen();
      this.placing?.disconnect();
      deaf();
      for (const name of watched) model.off(`change:${name}`, draw);
      model.off("change:beat", hear);
      model.off("change:tab", turn);
      model.off("change:tabs", face);
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
    this.stopButton.hidden = true;
    this.beatLine = element("span", { class: "accel-bar-beat", "data-testid": "beat", role: "timer" });
    this.phase = element("span", { class: "accel-sr", role: "status" });
    this.live = element("span", { class: "accel-bar-live", "data-testid": "live" });
    this.undo = this.button("undo", "Undo", "Take back what is kept, bit for bit");
    this.copyButton = this.button("copy", "Copy as plain PyTorch", "Your cell with the kept plan written in, without accel");
    this.word = element("span", { class: "accel-muted", role: "status", "data-testid": "copied" });
    this.text = /** @type {HTMLTextAreaElement} */ (element("textarea", { readonly: "", rows: "8", "aria-label": "What was to be copied" }));
    this.byHand = element("div", { class: "accel-bar-text", hidden: "" }, this.text, this.button("done", "Done", "Hide this text"));
    this.byHand.addEventListener("focusout", (event) => this.endCopy(/** @type {Node | null} */ (event.relatedTarget)));
    this.byHand.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.endCopy();
    });
    this.tabs = element("div", { class: "accel-tabs", role: "tablist", "aria-label": "Parts of the workbench" });
    const does = element("div", { class: "accel-bar-does" }, ...this.buttons.values(), this.stopButton, this.beatLine, this.phase);
    const lives = element("div", { class: "accel-bar-lives" }, this.live, this.undo, this.copyButton, this.word);
    this.el.append(element("div", { class: "accel-bar-rows" }, does, this.plan, lives, this.byHand), element("div", { class: "accel-bar-tabs" }, this.tabs, this.headline));
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
    if (name === "done") return this.endCopy();
    this.awaits = 0;
    if (name === "stop") {
      this.isStopping = true;
      this.drawBeat();
    } else if (this.buttons.has(name)) {
      this.turnTo("speed_up");
      sayBegin(this.el);
    }
    this.model.send({ do: name, ...(name === "copy" ? { to: { view: this.view, at: Date.now() } } : {}) });
  }

  /** What was asked for takes the kernel a moment: that is to be seen at once. */
  begin() {
    this.awaits = performance.now() + AWAITS_MS;
    this.isStarting = performance.now() + STARTING_MS;
    write(this.phase, "starting");
    this.drawBeat();
  }

  /** The panel that it is the bar of; none before it stands there. */
  get root() { return this.el.closest(".accel-workbench"); }

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
    const next = /** @type {HTMLElement} */ (this.buttons.get("try"));
    hide(this.undo, !live, next);
    hide(this.copyButton, !live, next);
  }

  hearBeat() {
    const beat = this.beat;
    const isNew = beat !== null && !(beat.seconds >= this.seconds);  // another trial may follow at once
    [this.heard, this.isStopping] = [performance.now(), this.isStopping && beat !== null && !isNew];
    if (beat) this.isStarting = 0;
    write(this.phase, beat ? `${beat.called} ${beat.phase}`.trim() : "");
    if (isNew) [this.began, this.couldStop] = [performance.now(), !this.stopButton.hidden];
    if (isNew && !beat.can_stop) this.seen.say();  // if that is heard, so will a click on Stop be
    this.seconds = beat ? beat.seconds : Infinity;
    if (beat?.can_stop) {
      this.drawStop();
      if (this.isAwaited && performance.now() < this.awaits) this.stopButton.focus({ preventScroll: true });
      this.awaits = 0;
    }
    this.drawBeat();
  }

  /** Whether the focus is still where a trial was begun: a user who went on to another control or cell stays there. */
  get isAwaited() {
    const active = /** @type {Element} */ (document.activeElement ?? document.body);
    return this.el.contains(active) || active === document.body || Boolean(this.root?.contains(active) && active.matches("[data-testid='try-this']"));
  }

  /** It stays from one trial to the next until the page could have been heard. */
  drawStop() {
    const isAsked = this.couldStop && performance.now() - this.began <= UNHEARD_MS;
    const canStop = this.beat !== null && (this.beat.can_stop || isAsked);
    hide(this.stopButton, !canStop, /** @type {HTMLElement} */ (this.buttons.get("try")));
  }

  /** @returns {Beat | null} */
  get beat() {
    const beat = this.model.get("beat");
    return beat && beat.phase ? beat : null;
  }

  drawBeat() {
    const now = performance.now();
    const isGone = this.el.closest(".jupyter-widgets-disconnected") !== null;  // its kernel is: nothing goes on
    if (isGone !== this.wasGone) this.release(isGone);
    if (document.hidden || !this.el.getClientRects().length) this.unseen = now;  // Python says nothing to who does not look
    const [beat, later] = [isGone ? null : this.beat, (now - this.heard) / 1000];
    const isStarting = !isGone && now < this.isStarting;
    const isSilent = now - Math.max(this.heard, this.unseen) > SILENT_MS;
    this.drawStop();
    write(this.beatLine, beat ? this.beatWords(beat, later, isSilent) : isStarting ? "starting…" : "");
    this.beatLine.hidden = !beat && !isStarting;
    if (!beat && !isStarting) write(this.phase, "");
    this.el.classList.toggle("is-running", beat !== null && !isSilent);
  }

  /** The whole panel without its kernel: nothing in it can be pressed, and the focus stays in it. @param {boolean} isGone */
  release(isGone) {
    this.wasGone = isGone;
    const root = /** @type {HTMLElement | null} */ (this.root);
    if (!root) return;
    root.tabIndex = -1;
    if (isGone && root.contains(document.activeElement)) root.focus();
    for (const part of root.children) part.toggleAttribute("inert", isGone);
  }

  /** @param {Beat} beat @param {number} later seconds since it was said @param {boolean} isSilent */
  beatWords(beat, later, isSilent) {
    if (isSilent) return [beat.called, `no word from the kernel for ${clock(later)}`].filter(Boolean).join(" · ");
    if (this.isStopping && !this.stopButton.hidden) return [beat.called, "stopping…"].filter(Boolean).join(" · ");
    const isUnheard = !beat.can_stop && performance.now() - this.began > UNHEARD_MS;
    return isUnheard ? `${beatText(beat, later)}. ${beat.interrupt}` : beatText(beat, later);
  }

  // --- tabs ---------------------------------------------------------------------------------------------------------

  /** Where the one before was scrolled on, this one begins below the bar. @param {string} name */
  turnTo(name) {
    const isScrolled = this.root && this.el.getBoundingClientRect().top > this.root.getBoundingClientRect().top + 8;
    const isNew = name !== this.model.get("tab");
    this.model.set("tab", name);
    this.model.save_changes();
    this.showTab();
    if (isScrolled && isNew) this.root?.scrollIntoView({ block: "start" });
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
    const [tab, root] = [this.model.get("tab"), this.root];
    for (const [name, button] of this.tabButtons) {
      button.setAttribute("aria-selected", String(name === tab));
      button.tabIndex = name === tab ? 0 : -1;
    }
    const parts = [...this.tabButtons].map(([name, button]) => /** @type {const} */ ([button, root?.querySelector(`.accel-tab-${name}`)]));
    const left = parts.find(([button, part]) => button.dataset.tab !== tab && part?.contains(document.activeElement));
    root?.setAttribute("data-tab", tab);
    root?.setAttribute("data-view", this.view);
    for (const [button, part] of parts) {
      part?.setAttribute("role", "tabpanel");
      part?.setAttribute("aria-label", String(button.textContent));
    }
    if (left) this.tabButtons.get(tab)?.focus();
    return parts.every(([, part]) => part);
  }

  /** A view is made before it stands in the page, and its neighbours later still. */
  showTabOncePlaced() {
    if (this.showTab()) return;
    this.placing = new MutationObserver(() => { if (this.showTab()) this.placing?.disconnect(); });
    this.placing.observe(document.body, { childList: true, subtree: true });
  }

  // --- copy ---------------------------------------------------------------------------------------------------------

  /** Where the page may not reach the clipboard, or the answer is late, the text stands there to be copied by hand.
   * @param {string} text @param {number} at when it was asked for */
  async copy(text, at) {
    const isInTime = Date.now() - at < COPY_MS;
    const isCopied = isInTime && await putOnClipboard(text);
    if (!this.byHand.contains(document.activeElement)) this.asked = isInTime ? /** @type {HTMLElement | null} */ (document.activeElement) : null;
    this.text.value = text;
    this.byHand.hidden = isCopied && this.byHand.hidden;
    if (isInTime && !isCopied) {
      this.text.focus();
      this.text.select();
    }
    const isDone = isCopied || (isInTime && document.execCommand("copy"));  // where a page has no clipboard, as over plain http
    if (isDone) this.endCopy();
    write(this.word, isDone ? "Copied" : isInTime ? "Press Ctrl+C to copy it" : "Ready to copy");
  }

  /** The text goes when it is left, and the focus back to what asked for it. @param {Node | null} [next] */
  endCopy(next) {
    if (this.byHand.hidden || (next !== undefined && (this.byHand.contains(next) || !document.hasFocus()))) return;  // another window has it
    if (next === undefined) hide(this.byHand, true, this.asked?.getClientRects().length ? this.asked : this.copyButton);
    this.byHand.hidden = true;
    write(this.word, "");
  }
}

/** Whether the page may reach the clipboard. @param {string} text */
async function putOnClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  return new BarView(model, el).stop;
}

export default { render };
