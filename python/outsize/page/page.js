"use strict";
// Draws what page/drawn.py has made small. No library, no network.
const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const live = data.kind === "report";

// --- words -----------------------------------------------------------------------------------------

function bytes(count) {
  let value = count;
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (Math.abs(value) < 999.5 || unit === "TiB") return (unit === "B" ? value : value.toPrecision(3)) + " " + unit;
    value /= 1024;
  }
}

function time(nanos) {
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (Math.abs(nanos) >= size * 0.9995) return Number((nanos / size).toPrecision(3)) + " " + unit;
  }
  return Math.round(nanos) + " ns";
}

const CAUSES = ["a read", "room: a write", "room that others held"];
const MEANING = [
  "what the op needs was on the disk",
  "something had to be written before it could leave",
  "other ops, threads or transfers held it",
];

// What stands in a row of view.stalls.
function stallOf(view, row) {
  const [thread, why, cause, name, needed, since, begin, nanos, extent, size, asked, began, ahead, outcome] = row;
  return { thread, why, cause, name: view.names[name], needed, since: since * view.unit, begin: begin * view.unit,
           nanos, extent, size, asked: asked * view.unit, began: began * view.unit, ahead, failed: outcome === 1 };
}

function why(stall) {
  const line = stall.began - stall.asked;
  const queue = line > 1000 ? ", in line for " + time(line) : "";
  if (stall.cause === 0) {
    const before = stall.since - stall.asked;
    const how = stall.ahead ? `asked ${time(Math.max(0, before))} before: foreseen, but too late`
      : stall.asked > stall.since + 50000 ? `asked ${time(-before)} into the wait, when there was room: not foreseen`
      : "asked when it was needed: not foreseen";
    return `waits for the read of extent ${stall.extent}, ${bytes(stall.size)}, ${how}${queue}` +
      (stall.failed ? "; that read failed" : "");
  }
  if (stall.cause === 1) {
    const how = stall.ahead ? "begun ahead of need, and not over" : "asked when room was needed";
    return `waits for a write to make room: extent ${stall.extent}, ${bytes(stall.size)}, ${how}${queue}` +
      (stall.failed ? "; that write failed" : "");
  }
  return "waits for room that other ops, threads or transfers hold";
}

function who(stall) {
  const op = stall.name || "an op whose name is not known";
  const what = ["is absent", "is needed for what is born", "is touched through a raw pointer"][stall.why];
  return `${stall.why === 2 ? "raw access, in " : "op: "}${op}; ${bytes(stall.needed)} ${what}`;
}

// --- small helpers ---------------------------------------------------------------------------------

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}

function fill(table, heads, rows, names) {
  table.replaceChildren();
  const head = table.createTHead().insertRow();
  heads.forEach((text, i) => head.append(make("th", text, names.includes(i) ? "name" : "")));
  const body = table.createTBody();
  for (const { cells, act } of rows) {
    const row = body.insertRow();
    cells.forEach((text, i) => row.append(make("td", text, names.includes(i) ? "name" : "")));
    if (!act) continue;
    row.tabIndex = 0;
    row.addEventListener("click", act);
    row.addEventListener("keydown", (event) => { if (event.key === "Enter") act(); });
  }
  return body;
}

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// --- overview: step time against budget ------------------------------------------------------------

const PALETTE = ["#2f7ed8", "#d9822b", "#4b9b7d", "#c0392b", "#7d3c98", "#8a8a2e", "#2e8a8a"];
const policies = [...new Set(data.runs.map((run) => run.policy))];

function svg(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function chart(trace, device, peak) {
  const runs = data.runs.filter((run) => run.trace === trace && run.device === device && run.plain_seconds);
  const box = make("div", undefined, "chart");
  box.append(make("h3", `${trace} on ${device}`));
  const { retimed } = data.devices[device];
  if (retimed) box.append(make("p", retimed));
  const series = policies.map((policy, i) => ({
    name: policy, color: PALETTE[i % PALETTE.length],
    points: runs.filter((run) => run.policy === policy && run.ratio)
      .map((run) => [run.budget_bytes / peak, run.ratio, run]),
  }));
  const limit = runs.filter((run) => run.policy === policies[0] && run.limit_seconds)
    .map((run) => [run.budget_bytes / peak, run.limit_seconds / run.plain_seconds, run]);
  series.push({ name: "limit", color: "currentColor", dash: "4 3", points: limit });
  const all = series.flatMap((one) => one.points);
  if (all.length === 0) {
    box.append(make("p", "No run has a step time to show.", "hint"));
    return box;
  }
  const width = 420, height = 230, left = 44, bottom = 34;
  const shares = all.map((point) => point[0]);
  const low = Math.min(...shares), high = Math.max(...shares, low + 0.01);
  const top = Math.max(1.1, ...all.map((point) => point[1])) * 1.05;
  const x = (share) => left + 10 + ((high - share) / (high - low)) * (width - left - 30);
  const y = (factor) => 8 + ((top - factor) / top) * (height - 8 - bottom);
  const picture = svg("svg", { width, height, role: "img", "aria-label": `step time against budget, ${trace}` });
  for (let i = 0; i <= 4; ++i) {
    const factor = (top * i) / 4;
    picture.append(svg("line", { x1: left, x2: width - 8, y1: y(factor), y2: y(factor), stroke: "currentColor",
                                 "stroke-opacity": 0.15 }));
    picture.append(svg("text", { x: left - 5, y: y(factor) + 4, "text-anchor": "end" }, factor.toFixed(1) + "×"));
  }
  for (const share of new Set(shares)) {
    picture.append(svg("text", { x: x(share), y: height - 18, "text-anchor": "middle" }, Math.round(share * 100) + "%"));
  }
  picture.append(svg("text", { x: width / 2, y: height - 3, "text-anchor": "middle" }, "budget, of the run's peak"));
  for (const one of series) {
    one.points.sort((a, b) => b[0] - a[0]);
    const path = one.points.map(([share, factor], i) => `${i ? "L" : "M"}${x(share)} ${y(factor)}`).join("");
    if (path) picture.append(svg("path", { d: path, fill: "none", stroke: one.color, "stroke-width": 1.8,
                                           "stroke-dasharray": one.dash || "none" }));
    for (const [share, factor, run] of one.points) {
      const dot = svg("circle", { cx: x(share), cy: y(factor), r: 3.5, fill: one.color });
      dot.append(svg("title", {}, `${one.name}, ${run.budget}: ${factor.toFixed(3)} × ${time(run.plain_seconds * 1e9)}`));
      picture.append(dot);
    }
  }
  const key = make("div", undefined, "key");
  for (const one of series) {
    const line = make("i");
    line.style.background = one.color;
    key.append(line, one.name);
  }
  box.append(picture, key);
  return box;
}

function told(value, form) { return value === null || value === undefined ? "–" : form(value); }

function overview() {
  const place = find("overview");
  if (live) {
    const table = make("table");
    fill(table, [], data.table.map((cells) => ({ cells })), [0, 1]);
    place.append(table);
    return;
  }
  place.append(make("h2", "Step time, against that with room for all"));
  const charts = make("div", undefined, "charts");
  for (const trace of data.traces) {
    for (const device of Object.keys(data.devices)) charts.append(chart(trace.name, device, trace.peak_bytes));
  }
  const table = make("table");
  table.id = "runs";
  const seconds = (value) => time(value * 1e9);
  const rows = data.runs.map((run, index) => ({
    cells: [run.trace, run.device, run.policy, `${run.budget} (${bytes(run.budget_bytes)})`,
            told(run.step_seconds, seconds),
            told(run.ratio, (x) => x.toFixed(3)),
            told(run.limit_seconds, seconds), told(run.stall_seconds, seconds),
            told(run.read_bytes, bytes), told(run.write_bytes, bytes), run.reason],
    act: run.view ? () => choose(index) : undefined,
  }));
  fill(table, ["trace", "disk", "policy", "budget", "step", "×", "limit", "stall", "up", "down", ""], rows, [0, 1, 2, 10]);
  place.append(charts, make("p", "limit: the least a step can take: its compute, or the disk's time for the bytes that " +
    "Belady's rule would move, or for what must move within a stretch of ops. Up and down: bytes read and written a step. A dash: that run cannot be, the last column says why. " +
    "A click on a row draws it below.", "hint"), table);
}

// --- one run ---------------------------------------------------------------------------------------

let run = null, view = null, from = 0, to = 1;  // what is drawn, in the view's units
let lanes = [];                                 // {canvas, height, bars: [{begin, end, color, text}]}

function lane(label, id, height, bars, paint) {
  const row = make("div", undefined, "lane");
  const canvas = make("canvas");
  canvas.id = id;
  canvas.style.height = height + "px";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  row.append(make("span", label), canvas);
  find("lanes").append(row);
  lanes.push({ canvas, height, bars, paint });
}

function transferBars(rows, up) {
  return rows.map(([begin, span, size, extent, asked, ahead, outcome, count]) => {
    const nanos = span * view.unit;
    const rate = nanos > 0 ? `, ${bytes(size / (nanos / 1e9))}/s` : "";
    const what = count > 1 ? `${count} transfers, ${bytes(size)}` : `extent ${extent}, ${bytes(size)}`;
    const how = count > 1 ? "" : `\n${ahead ? "asked ahead" : "asked when it was needed"}, ` +
      `${time((begin - asked) * view.unit)} before it began` +
      (outcome === 1 ? "\nit failed" : outcome === 2 ? "\nfor nothing: the tensor died meanwhile" : "");
    return { begin, end: begin + span, color: up ? "up" : "down",
             text: `${up ? "read" : "write"}: ${what}\n${time(nanos)}${rate}${how}` };
  });
}

function memoryText(at) {
  const points = view.resident;
  let size = points.length ? points[1] : 0;
  for (let i = 0; i < points.length && points[i] <= at; i += 2) size = points[i + 1];
  return `${bytes(size)} in RAM of a budget of ${bytes(run.budget_bytes)}`;
}

function paintMemory(pen, width, height) {
  const points = view.resident;
  let top = run.budget_bytes;
  for (let i = 1; i < points.length; i += 2) top = Math.max(top, points[i]);
  const y = (size) => height - (size / (top * 1.08)) * height;
  pen.fillStyle = color("memory");
  pen.beginPath();
  pen.moveTo(0, height);
  for (let i = 0; i < points.length; i += 2) {
    const x = ((points[i] - from) / (to - from)) * width;
    const next = i + 2 < points.length ? ((points[i + 2] - from) / (to - from)) * width : width;
    pen.lineTo(Math.max(x, 0), y(points[i + 1]));
    pen.lineTo(Math.min(Math.max(next, 0), width), y(points[i + 1]));
  }
  pen.lineTo(width, height);
  pen.fill();
  pen.fillStyle = color("budget");
  pen.fillRect(0, y(run.budget_bytes) - 1, width, 2);
}

function buildLanes() {
  find("lanes").replaceChildren();
  lanes = [];
  lane("bytes in RAM", "lane-memory", 110, [], paintMemory);
  const stalls = view.stalls.map((row) => {
    const stall = stallOf(view, row);
    const begin = stall.begin / view.unit;
    return { begin, end: begin + stall.nanos / view.unit, color: ["read", "write", "room"][stall.cause],
             thread: stall.thread, text: `stall of ${time(stall.nanos)}: ${why(stall)}\n${who(stall)}` };
  });
  for (let thread = 0; thread < view.threads; ++thread) {
    const which = view.threads > 1 ? ` ${thread + 1}` : "";
    lane("stalls" + which, thread ? "lane-stalls-" + thread : "lane-stalls", 26,
         stalls.filter((bar) => bar.thread === thread));
    const work = view.work.filter((bar) => bar[0] === thread).map(([, begin, span, name, count]) => ({
      begin, end: begin + span, color: "work",
      text: (view.names[name] || "an op whose name is not known") + (count > 1 ? ` and ${count - 1} more` : "") +
            `\n${time(span * view.unit)} of compute`,
    }));
    lane("compute" + which, thread ? "lane-work-" + thread : "lane-work", 22, work);
  }
  lane("up (reads)", "lane-up", 22, transferBars(view.up, true));
  lane("down (writes)", "lane-down", 22, transferBars(view.down, false));
  lane("time", "lane-time", 26, [], paintTime);
}

function paintTime(pen, width, height) {
  pen.fillStyle = color("soft");
  pen.font = "11px system-ui, sans-serif";
  let step = view.first_step;
  const ends = view.step_ends;
  const apart = ((to - from) * view.unit) / 6e9;  // seconds between two labels
  const digits = Math.max(0, Math.ceil(-Math.log10(apart)) + 1);
  for (let i = 0; i < 6; ++i) {
    const seconds = (from * view.unit) / 1e9 + apart * i;
    pen.fillText(seconds.toFixed(Math.min(digits, 9)) + " s", (width * i) / 6 + 3, height - 4);
  }
  let begin = 0;
  for (const end of ends) {
    const x = ((begin - from) / (to - from)) * width;
    if (x > -1 && x < width && end > begin) {
      pen.fillRect(x, 0, 1, 12);
      if (view.last_step > 0) pen.fillText("step " + step, x + 3, 10);
    }
    begin = end;
    ++step;
  }
}

function paint() {
  const ratio = window.devicePixelRatio || 1;
  for (const { canvas, height, bars, paint: special } of lanes) {
    const width = canvas.clientWidth;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    if (special) {
      special(pen, width, height);
      continue;
    }
    const colors = {};
    for (const bar of bars) {
      if (bar.end < from || bar.begin > to) continue;
      const x = ((bar.begin - from) / (to - from)) * width;
      const end = ((bar.end - from) / (to - from)) * width;
      pen.fillStyle = colors[bar.color] || (colors[bar.color] = color(bar.color));
      pen.fillRect(x, 2, Math.max(end - x - (end - x > 3 ? 0.5 : 0), 0.7), height - 4);
    }
  }
}

// The bar under the pointer, or the nearest within three pixels.
function barAt(bars, at, near) {
  let best = null, distance = near;
  for (const bar of bars) {
    const away = Math.max(bar.begin - at, at - bar.end, 0);
    if (away < distance || (away === 0 && !best)) {
      best = bar;
      distance = away;
      if (away === 0) break;
    }
  }
  return best;
}

function point(event) {
  const tip = find("tip");
  const hit = lanes.find((one) => one.canvas === event.target);
  let text = "";
  if (hit) {
    const edge = hit.canvas.getBoundingClientRect();
    const at = from + ((event.clientX - edge.left) / edge.width) * (to - from);
    if (hit.canvas.id === "lane-memory") text = memoryText(at);
    const bar = barAt(hit.bars, at, (3 / edge.width) * (to - from));
    if (bar) text = bar.text;
  }
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 16, window.innerHeight - tip.offsetHeight - 8) + "px";
}

function show(begin, end) {
  const span = Math.min(Math.max(end - begin, Math.min(20, view.span)), Math.max(view.span, 1));
  from = Math.max(0, Math.min((begin + end - span) / 2, view.span - span));
  to = from + span;
  paint();
}

function zoom(factor, share) {
  const middle = from + (to - from) * share;
  show(middle - (middle - from) * factor, middle + (to - middle) * factor);
}

function listenToLanes() {
  const place = find("lanes");
  let drag = null;
  place.addEventListener("wheel", (event) => {
    if (event.target.tagName !== "CANVAS") return;
    event.preventDefault();
    const edge = event.target.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, (event.clientX - edge.left) / edge.width);
  }, { passive: false });
  place.addEventListener("pointerdown", (event) => {
    if (event.target.tagName === "CANVAS") drag = { x: event.clientX, from, to, width: event.target.clientWidth };
  });
  window.addEventListener("pointerup", () => { drag = null; });
  place.addEventListener("pointermove", (event) => {
    if (drag && event.buttons) {
      const moved = ((drag.x - event.clientX) / drag.width) * (drag.to - drag.from);
      show(drag.from + moved, drag.to + moved);
    }
    point(event);
  });
  place.addEventListener("pointerleave", () => { find("tip").hidden = true; });
  place.addEventListener("dblclick", () => show(0, view.span));
  window.addEventListener("keydown", (event) => {
    if (event.key === "+") zoom(0.8, 0.5);
    if (event.key === "-") zoom(1.25, 0.5);
  });
  window.addEventListener("resize", paint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
}

function tellLeftOut() {
  const parts = [];
  const count = (number, noun) => `${number.toLocaleString("en")} ${noun}`;
  if (view.last_step > 0) {
    parts.push(view.first_step === view.last_step ? `Drawn is step ${view.last_step}.`
      : `Drawn are steps ${view.first_step} to ${view.last_step}.`);
  }
  if (view.cut) parts.push("Of these only the end: there were too many events.");
  if (view.ops_put_together > 0) parts.push(`${count(view.ops_put_together, "ops")} are drawn as one with a neighbour.`);
  if (view.transfers_put_together > 0) {
    parts.push(`${count(view.transfers_put_together, "transfers")} are drawn as one with a neighbour.`);
  }
  if (view.stalls_left_out > 0) {
    parts.push(`${count(view.stalls_left_out, "shorter stalls")}, ${time(view.stalls_left_out_ns)} in all, are not drawn.`);
  }
  find("left-out").textContent = parts.join(" ");
}

function listStalls() {
  const all = view.stall_by_cause.reduce((sum, nanos) => sum + nanos, 0);
  const causes = CAUSES.map((name, i) => ({ cells: [name, time(view.stall_by_cause[i]),
    all ? ((100 * view.stall_by_cause[i]) / all).toFixed(1) + "%" : "–",
    view.stalls_by_cause[i].toLocaleString("en"), MEANING[i]] }));
  if (live) {
    causes.push({ cells: ["its own waking", time(Math.max(0, run.stall_ns - all)), "–", "–",
                          "what it waited for was there, the thread did not run yet"] });
  }
  fill(find("causes"), ["it waited for", "time", "share", "times", "which means"],
       causes, [0, 4]);
  find("causes").createCaption().textContent = "The whole run, not only what is drawn";
  const longest = view.stalls.map((row) => stallOf(view, row)).sort((a, b) => b.nanos - a.nanos).slice(0, 20);
  fill(find("longest"), ["at", "stall", "why", "who"], longest.map((stall) => ({
    cells: [time(stall.begin), time(stall.nanos), why(stall), who(stall)],
    act: () => {
      const begin = stall.begin / view.unit, span = Math.max(stall.nanos / view.unit, 1);
      show(begin - 2 * span, begin + 3 * span);
      find("lanes").scrollIntoView({ block: "nearest" });
    },
  })), [2, 3]);
}

function choose(index) {
  run = data.runs[index];
  view = run.view;
  find("run").value = String(index);
  find("one").hidden = false;
  document.querySelectorAll("#runs tbody tr").forEach((row, i) => row.classList.toggle("chosen", i === index));
  find("facts").textContent = `${time(run.time_ns)} in all, ${time(run.stall_ns)} of stalls over all threads, ` +
    `at most ${bytes(run.peak_bytes)} in RAM of a budget of ${bytes(run.budget_bytes)}.`;
  buildLanes();
  tellLeftOut();
  listStalls();
  from = 0;
  to = Math.max(view.span, 1);
  paint();
}

function start() {
  document.title = find("title").textContent = "outsize " + data.kind;
  find("about").textContent = live
    ? "A live run, as it was on its machine. Waits of raw accesses (NumPy, pointers) are not drawn."
    : "Simulated from recorded runs: the same engine, predictors and planners as live, on a modelled disk. " +
      `${data.runs.length} of ${data.runs_asked_for} runs` +
      (data.interrupted ? "; it was interrupted, the others are missing." : ".");
  overview();
  const select = find("run");
  data.runs.forEach((one, index) => {
    if (!one.view) return;
    const option = make("option", [one.trace, one.device, one.policy, one.budget].filter(Boolean).join(", "));
    option.value = index;
    select.append(option);
  });
  select.addEventListener("change", () => choose(Number(select.value)));
  listenToLanes();
  // The run that stalled longest has most to say.
  const drawn = data.runs.map((one, index) => [one.view ? one.stall_ns : -1, index]).sort((a, b) => b[0] - a[0]);
  if (drawn.length && drawn[0][0] >= 0) choose(drawn[0][1]);
}

start();
