// A chart of a panel as a PNG file: on a sheet in the colours of the page, handed out by a link of the page itself.

const SHARP = 2; // pixels of the file for one of the page
const KEPT_MS = 60_000; // that a browser, or VS Code round it, has to fetch the file

/** A colour of the panel as the page has it now. @param {Element} el @param {string} name */
function colourOf(el, name) {
  const probe = element("span", { style: `color: var(--accel-${name})` });
  el.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** A canvas of this many pixels of the page. @param {number} width @param {number} height */
function sheet(width, height) {
  const canvas = /** @type {HTMLCanvasElement} */ (element("canvas"));
  [canvas.width, canvas.height] = [Math.round(width * SHARP), Math.round(height * SHARP)];
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.scale(SHARP, SHARP);
  return { canvas, context };
}

/** A sheet on the ground of the page, as a file. The link stands in the page while it is clicked: VS Code listens for downloads there. @param {Element} el @param {HTMLCanvasElement} canvas @param {string} name */
function savePng(el, canvas, name) {
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  Object.assign(context, { globalCompositeOperation: "destination-over", globalAlpha: 1, fillStyle: colourOf(el, "ground") });
  context.fillRect(0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => {
    if (!blob) return;
    const href = URL.createObjectURL(blob);
    const link = element("a", { href, download: `accel-${name.replace(/[^\p{L}\p{N}.]+/gu, "-")}.png`, hidden: "" });
    el.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(href), KEPT_MS);
  }, "image/png");
}

/** An SVG of the page with the styles that it has there. @param {SVGElement} svg */
async function imageOf(svg) {
  const copy = /** @type {SVGElement} */ (svg.cloneNode(true));
  const styled = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family"];
  const made = copy.querySelectorAll("*");
  svg.querySelectorAll("*").forEach((node, index) => {
    const look = getComputedStyle(node);
    for (const name of styled) /** @type {SVGElement} */ (made[index]).style.setProperty(name, look.getPropertyValue(name));
  });
  copy.removeAttribute("class");
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  return image;
}
