// Tells Python while the page shows a view: open, in a page that is not in the background, and, if it asks for that, on the screen.
// It stands before a panel's own script in the same module; the Python side is SeenViews in seen_views.py.

const REPEAT_MS = 3000;  // Python stops when it hears nothing: a page that is reloaded or closed cannot say so

/**
 * Says it now, at each change and every few seconds; gives the function that says the last "unseen" and stops; its `say` says it once more.
 * `isOfScreen` false: a view that is scrolled away counts too, so that its lines have no gap when it is back.
 * @param {any} model @param {HTMLElement} el @param {boolean} isOfScreen
 */
function saySeen(model, el, isOfScreen) {
  const view = crypto.randomUUID?.() ?? String(Math.random());
  let [isOnScreen, wasSeen] = [!isOfScreen, false];
  // One in a tab that is not shown has no box, and what is scrolled away may lose its box unseen by an observer. No `is_open`: always.
  const isSeen = () => (model.get("is_open") ?? true) && isOnScreen && !document.hidden && el.getClientRects().length > 0;
  const send = (/** @type {boolean} */ seen) => {
    wasSeen = seen;
    try { model.send({ seen, view }); } catch { /* the kernel was restarted or ended: nobody is there to hear it */ }
  };
  const say = () => send(isSeen());
  const observer = new IntersectionObserver((entries) => {
    isOnScreen = !isOfScreen || entries[entries.length - 1].isIntersecting;
    if (isSeen() !== wasSeen) say();
  });
  observer.observe(el);
  const repeat = setInterval(() => { if (isSeen() || wasSeen) say(); }, REPEAT_MS);
  document.addEventListener("visibilitychange", say);
  model.on("change:is_open", say);
  if (!isOfScreen) say();
  const stop = () => {
    clearInterval(repeat);
    observer.disconnect();
    document.removeEventListener("visibilitychange", say);
    model.off("change:is_open", say);
    send(false);
  };
  return Object.assign(stop, { say });
}
