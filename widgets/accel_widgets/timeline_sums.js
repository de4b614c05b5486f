// What a search, a chosen operation and a span of time hold: which slices they are, and their own time in sums.
// It stands between timeline_drawing.js and timeline_panel.js in the same module.

/** @typedef {{before: Int32Array, inTime: Int32Array, counted: number}} Matches */
/** @typedef {{op: string, phase: string, module: string}} Op */
/** @typedef {{name: string, ms: number, calls: number}} Sum */

const PYTHON = "Python code";  // as op_table.py calls a range's own time
const TOP = 5;

/** The slices that are wanted, from a first one on: how many there are before each, and all in order of time, those of warm-up
 * behind the others. @param {Data} data @param {number} first @param {(i: number) => boolean} isWanted @returns {Matches} */
function matchesOf(data, first, isWanted) {
  const before = new Int32Array(data.count + 1);
  /** @type {number[]} */
  const [counted, rest] = [[], []];
  const [from, until] = data.counted;
  for (let i = first; i < data.count; i += 1) {
    if (isWanted(i)) (data.start[i] >= from && data.start[i] < until ? counted : rest).push(i);
    before[i + 1] = counted.length + rest.length;
  }
  const sorted = (/** @type {number[]} */ found) => Int32Array.from(found).sort((a, b) => data.start[a] - data.start[b]);
  const inTime = new Int32Array(counted.length + rest.length);
  inTime.set(sorted(counted));
  inTime.set(sorted(rest), counted.length);
  return { before, inTime, counted: counted.length };
}

/** Steps and phases, which come first, tell where one is: a search finds none of them. @param {Data} data */
function firstEvent(data) {
  return Math.max(0, ...data.rows.filter((row) => row.is_band).flatMap((row) => row.lanes.map(([, end]) => end)));
}

/** Every operation whose name and module hold all words. @param {Data} data @param {string} query @returns {Matches | null} */
export function findMatches(data, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  /** @type {Map<number, boolean>} */
  const known = new Map();
  return matchesOf(data, firstEvent(data), (i) => {
    const key = data.name[i] * data.modules.length + data.module[i];
    let matches = known.get(key);
    if (matches === undefined) {
      const text = `${data.names[data.name[i]]} ${data.modules[data.module[i]]}`.toLowerCase();
      matches = words.every((word) => text.includes(word));
      known.set(key, matches);
    }
    return matches;
  });
}

/** What the op table counts a slice for; null for a bracket, a kernel, none. @param {Data} data @param {number} i @returns {Op | null} */
function opOf(data, i) {
  const op = i >= 0 && i < data.count ? data.ops[data.name[i]] : "";
  return op ? { op, phase: data.phases[data.phase[i]].name, module: data.modules[data.module[i]] } : null;
}

/** @param {Partial<Op> | null} one @param {Partial<Op> | null} other */
function isSame(one, other) {
  return ["op", "phase", "module"].every((part) => (one?.[part] ?? "") === (other?.[part] ?? ""));
}

/** Every slice of an operation, in one phase and module. @param {Data} data @param {Partial<Op>} chosen @returns {Matches | null} */
export function findOp(data, { op, phase, module }) {
  if (!op) return null;
  const [inPhase, inModule] = [data.phases.findIndex((each) => each.name === phase), data.modules.indexOf(module ?? "")];
  return matchesOf(data, 0, (i) => data.phase[i] === inPhase && data.module[i] === inModule && data.ops[data.name[i]] === op);
}

/** What a search found, in words; `at` is the match that was gone to. @param {Data} data @param {Matches} matches @param {number} at */
function foundText(data, { inTime, counted }, at) {
  const [all, rest] = [inTime.length, inTime.length - counted];
  if (!all) return "Nothing found";
  const where = data.start[inTime[all - 1]] < data.counted[0] ? "in warm-up" : "outside the counted steps";
  if (at >= 0) return `${at + 1} of ${all}${at < counted ? "" : `, ${where}`}`;
  return counted ? `${counted} found${rest ? `, ${rest} more ${where}` : ""}` : `${rest} found, all ${where}`;
}

/** A sum as the tables write it. @param {number} ms */
function sumText(ms) {
  return timeText(Number(ms.toPrecision(3)));
}

/** How often an operation ran in the counted steps, and its own time in each. @param {Data} data @param {Matches} slices @param {number} at */
function opText(data, { inTime, counted }, at) {
  if (!counted) return foundText(data, { inTime, counted }, at).replace("Nothing found", "It has no slice here");
  let ms = 0;
  for (const i of inTime.subarray(0, counted)) ms += data.self[i];
  const number = at < 0 ? "" : at < counted ? `${at + 1} of ` : `${at + 1 - counted} in warm-up, of `;
  return `${number}${counted} slice${counted > 1 ? "s" : ""}, ${sumText(ms / Math.max(data.steps, 1))} a step`;
}

/** What lies in a span of time: own time by phase and by operation, the most first, and the time of kernels. A slice that is cut
 * counts with as much of its own time as of its length. @param {Data} data @param {number[]} span */
export function sumsOf(data, [from, until]) {
  /** @type {Map<string, Sum>[]} */
  const [phases, ops] = [new Map(), new Map()];
  /** @type {Map<string, number>[]} */
  const [waits, elsewhere] = [new Map(), new Map()];
  const add = (/** @type {Map<string, Sum>} */ sums, /** @type {string} */ name, /** @type {number} */ ms, calls = 0) => {
    const sum = sums.get(name) ?? { name, ms: 0, calls: 0 };
    sums.set(name, { name, ms: sum.ms + ms, calls: sum.calls + calls });
  };
  let [slices, kernels] = [0, 0];
  const rows = data.rows.filter((row) => !row.is_band);
  for (const row of rows) {
    for (const [first, end] of row.lanes) {
      for (let i = firstWhere(first, end, (at) => data.start[at] + data.duration[at] > from); i < end && data.start[i] < until; i += 1) {
        slices += 1;
        const inside = Math.min(data.start[i] + data.duration[i], until) - Math.max(data.start[i], from);
        const [op, phase] = [data.ops[data.name[i]], data.phases[data.phase[i]].label];
        if (row.kind === "stream") kernels += inside;
        if (row.kind === "stream" || row.kind === "asynchronous" || !op) continue;
        const own = data.duration[i] ? (data.self[i] * inside) / data.duration[i] : 0;
        add(phases, phase, own);
        add(ops, op, own, 1);
        const sum = row !== rows[0] ? elsewhere : op === PYTHON ? waits : null;
        sum?.set(phase, (sum.get(phase) ?? 0) + own);
      }
    }
  }
  for (const [phase, ms] of elsewhere) {  // while another thread worked for a phase, the training thread's own range only waited
    const waited = Math.min(ms, waits.get(phase) ?? 0);
    for (const [sums, name] of /** @type {[Map<string, Sum>, string][]} */ ([[phases, phase], [ops, PYTHON]])) if (waited) add(sums, name, -waited);
  }
  const most = (/** @type {Map<string, Sum>} */ sums) => [...sums.values()].sort((a, b) => b.ms - a.ms);
  return { slices, kernels, phases: most(phases), ops: most(ops).slice(0, TOP) };
}

/** A span's sums as elements. @param {Data} data @param {number[]} span */
function sumsView(data, [from, until]) {
  const { slices, kernels, phases, ops } = sumsOf(data, [from, until]);
  const list = (/** @type {string} */ title, /** @type {Sum[]} */ sums) => element("div", {}, element("div", { class: "accel-muted" }, title),
    element("dl", {}, ...sums.flatMap(({ name, ms, calls }) => [element("dt", {}, name),
      element("dd", {}, calls ? `${sumText(ms)}, ${calls} slice${calls > 1 ? "s" : ""}` : sumText(ms))])));
  const onDevice = kernels ? `, ${sumText(kernels)} of kernels on GPUs` : "";
  return [element("b", {}, `A span of ${timeText(until - from)}: ${slices} slice${slices === 1 ? "" : "s"}${onDevice}`),
    element("div", { class: "accel-timeline-sums" }, list("Own time by phase", phases), list("Operations with most own time", ops))];
}
