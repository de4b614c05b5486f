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
