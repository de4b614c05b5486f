// The ladder of one trial as a picture: the rows of the page, drawn on a sheet of paper's width; below them its curves.

const [PAPER, EDGE, SPEED_AT, LINE] = [840, 18, 300, 18];

/** Text in lines of at most this width; a plan may break after each +. @param {CanvasRenderingContext2D} context @param {string} text @param {number} width */
function inLines(context, text, width) {
  const lines = [""];
  for (const part of text.split(/(?<=[ +])/)) {
    if (lines[lines.length - 1] && context.measureText(lines[lines.length - 1] + part.trimEnd()).width > width) lines.push("");
    lines[lines.length - 1] += part;
  }
  return lines;
}

/** @param {any} trial @param {string} name @param {Element} el @param {SVGElement | null} curves */
async function ladderPicture(trial, name, el, curves) {
  const font = getComputedStyle(el).fontFamily;
  const [text, muted, line] = ["text", "muted", "line"].map((each) => colourOf(el, each));
  const colours = /** @type {Record<string, string>} */ ({ faster: colourOf(el, "good"), slower: colourOf(el, "bad") });
  const neutral = colourOf(el, "neutral");
  const [wide, end] = [PAPER - SPEED_AT - EDGE, trial.axis.end];
  const x = (/** @type {number} */ value) => SPEED_AT + (wide * Math.min(value, end)) / end;

  /** Everything, or with `isDry` nothing: then it only says how high it is. @param {CanvasRenderingContext2D} context @param {boolean} isDry */
  const paint = (context, isDry) => {
    let y = EDGE;
    const write = (/** @type {string} */ words, /** @type {number} */ left, /** @type {number} */ width, /** @type {string} */ style, colour = text, top = y) => {
      [context.font, context.fillStyle, context.textAlign] = [style, colour, "left"];
      const lines = inLines(context, words, width);
      if (!isDry) lines.forEach((each, index) => context.fillText(each, left, top + 13 + LINE * index));
      return LINE * lines.length;
    };
    const box = (/** @type {string} */ colour, /** @type {number[]} */ ...place) => {
      context.fillStyle = colour;
      if (!isDry) context.fillRect(place[0], place[1], place[2], place[3]);
    };
    y += write(name, EDGE, PAPER - 2 * EDGE, `600 15px ${font}`) + 2;
    if (trial.summary) y += write(trial.summary, EDGE, PAPER - 2 * EDGE, `13px ${font}`);
    y += write(trial.facts.join(" · "), EDGE, PAPER - 2 * EDGE, `12px ${font}`, muted) + 6;
    for (const { at, text: words } of trial.axis.ticks) {
      [context.font, context.fillStyle, context.textAlign] = [`12px ${font}`, muted, at === 0 ? "left" : at > 0.95 * end ? "right" : "center"];
      if (!isDry) context.fillText(words, x(at), y + 12);
    }
    y += trial.axis.ticks.length ? LINE : 0;
    for (const row of trial.rows) {
      box(line, EDGE, y, PAPER - 2 * EDGE, 1);
      y += 8;
      const plan = write(row.title, EDGE, SPEED_AT - EDGE - 16, "600 12px monospace");
      let speed = 0;
      if (row.ratio !== null) {
        box(colours[row.verdict] ?? neutral, SPEED_AT, y, x(row.ratio) - SPEED_AT, 12);
        box(muted, x(1), y - 4, 1.5, 20);
        if (row.low !== null && row.high !== null) {
          box(text, x(row.low), y + 5, x(row.high) - x(row.low), 1.5);
          for (const at of [row.low, row.high]) box(text, x(at) - 0.75, y, 1.5, 12);
        }
        speed += 17;
      }
      speed += write(`${row.mark} ${row.sentence || row.progress}`.trim(), SPEED_AT, wide, `600 13px ${font}`, text, y + speed);
      y += Math.max(plan, speed) + 6;
    }
    return y + EDGE;
  };
  const high = paint(sheet(1, 1).context, true);
  const image = curves && (await imageOf(curves));
  const { canvas, context } = sheet(PAPER, high + (image ? image.height + EDGE : 0));
  paint(context, false);
  if (image) context.drawImage(image, EDGE, high);
  return canvas;
}
