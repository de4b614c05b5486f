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

/**
 * Keys that are pressed in a panel are the panel's: in JupyterLab a bare arrow moves to another cell, and x cuts this one. Shortcuts with
 * Ctrl, Alt or Cmd, and Escape, which leaves the panel, reach the notebook as ever. Once a page, for whatever stands in a panel:
 * JupyterLab listens further out, at the document.
 */
function keepKeysInPanels() {
  const done = Symbol.for("accel: keys stay in panels");
  const page = /** @type {any} */ (document.body);
  if (page[done]) return;
  page[done] = true;
  page.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const isBare = !event.ctrlKey && !event.metaKey && !event.altKey && event.key !== "Escape";
    if (isBare && event.target instanceof Element && event.target.closest(".accel")) event.stopPropagation();
  });
}
keepKeysInPanels();
