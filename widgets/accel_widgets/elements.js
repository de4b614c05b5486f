// What panels make their pages of. It stands before a panel's own script in the same module: a widget's view cannot import.

/**
 * An element with attributes and children; texts are texts, never HTML.
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

/** Set a text only when it changed, so that selections and screen readers are left in peace. @param {Element} target @param {string} text */
function write(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/** Hide what may have the focus: it goes to `next` then, for at the page's body bare keys are JupyterLab's.
 * @param {HTMLElement} target @param {boolean} isHidden @param {HTMLElement} next */
function hide(target, isHidden, next) {
  const hadFocus = isHidden && target.contains(document.activeElement);
  target.hidden = isHidden;
  if (hadFocus) next.focus();
}

const STARTING_MS = 5000;  // so long "starting…" stands there: an error that comes instead has a place of its own
const AWAITS_MS = 30000;  // packing takes seconds; a trial that begins later was begun elsewhere

/** The parts of a panel know from each other that a click begins a trial. @param {Element} el */
function sayBegin(el) {
  el.dispatchEvent(new CustomEvent("accel-begin", { bubbles: true }));
}

/** Calls this whenever a click in the panel of this element begins a trial; gives the function that ends it.
 * @param {Element} el @param {() => void} begun */
function onBegin(el, begun) {
  const hear = (/** @type {Event} */ event) => { if ((el.closest(".accel-workbench") ?? el).contains(/** @type {Element} */ (event.target))) begun(); };
  document.body.addEventListener("accel-begin", hear);
  return () => document.body.removeEventListener("accel-begin", hear);
}

/** Who asks for a text to copy, and when: other views of the same panel have nothing to do with it. @param {Element} el */
function asker(el) {
  return { view: /** @type {HTMLElement | null} */ (el.closest("[data-view]"))?.dataset.view ?? "", at: Date.now() };
}

/**
 * Controls that are one Tab stop together: arrow keys, Home and End move between them.
 * Gives what to call when they have changed; it keeps the one that was last used, or takes the one it is given.
 * @param {HTMLElement} container @param {string} selector
 * @returns {(wanted?: HTMLElement | null) => void}
 */
function rove(container, selector) {
  const every = () => /** @type {HTMLElement[]} */ ([...container.querySelectorAll(selector)]);
  const usable = () => every().filter((item) => !item.matches(":disabled") && !item.hidden);
  const shown = () => usable().filter((item) => item.getClientRects().length > 0);
  const settle = (/** @type {HTMLElement | null | undefined} */ wanted) => {
    const items = shown().length ? shown() : usable();  // nothing of a tab that is not open is shown
    const stop = wanted && items.includes(wanted) ? wanted : items.find((item) => item.tabIndex === 0) ?? items[0];
    for (const item of every()) item.tabIndex = item === stop ? 0 : -1;
  };
  container.addEventListener("focusin", (event) => settle(/** @type {HTMLElement} */ (event.target).closest(selector)));
  container.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const items = shown();
    const at = items.indexOf(/** @type {HTMLElement} */ (event.target));
    const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    items[next]?.focus();
  });
  settle();
  return settle;
}

/** A way past a panel of many controls, visible when it has the focus; the next Tab is at what follows the panel.
 * @param {HTMLElement} el @param {string} what */
function addSkip(el, what) {
  const skip = element("button", { type: "button", class: "accel-skip", "data-testid": "skip" }, `Skip ${what}`);
  const end = element("span", { tabindex: "-1", class: "accel-skip" }, `End of ${what}`);
  skip.addEventListener("click", () => end.focus());
  el.prepend(skip);
  el.append(end);
}

/**
 * Keys that are pressed in a panel are the panel's: in JupyterLab a bare arrow moves to another cell, and x cuts this one. So is
 * Shift+Enter: it goes back in a search, and must not train again. Shortcuts with Ctrl, Alt or Cmd (Ctrl+Enter runs the cell), and
 * Escape, which leaves the panel, reach the notebook as ever. Once a page, for whatever stands in a panel: JupyterLab listens
 * further out, at the document. Notebook 7 listens there before any element does, and passes over a target that is marked.
 */
function keepKeysInPanels() {
  const done = Symbol.for("accel: keys stay in panels");
  const page = /** @type {any} */ (document.body);
  if (page[done]) return;
  page[done] = true;
  const isBare = (/** @type {KeyboardEvent} */ event) => !event.ctrlKey && !event.metaKey && !event.altKey && event.key !== "Escape";
  const inPanel = (/** @type {Event} */ event) => event.target instanceof Element && event.target.closest(".accel") ? event.target : null;
  window.addEventListener("keydown", (event) => inPanel(event)?.toggleAttribute("data-lm-suppress-shortcuts", isBare(event)), true);
  page.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => { if (isBare(event) && inPanel(event)) event.stopPropagation(); });
}
keepKeysInPanels();
