// The calls of a run as bars, each scope followed by what stands in it; by the number of the event, or by the clock.
import { button, h, put } from "./dom.js";
import { clock, counted, duration } from "./format.js";
import { icon, TONES } from "./icons.js";

const ROW = 26;

/** The calls in the order asked, each scope followed at once by all that stands in it, branch by branch. */
export function inOrder(calls) {
  const known = new Map(calls.map((call) => [call.id, call]));
  const inside = new Map();
  for (const call of calls) {
    const parts = call.id.split("/");
    const scope = parts.length > 2 && known.has(parts.slice(0, -2).join("/")) ? parts.slice(0, -2).join("/") : null;
    if (!inside.has(scope)) inside.set(scope, []);
    inside.get(scope).push({ ...call, branch: parts.length > 2 ? parts.at(-2) : null, name: parts.at(-1) });
  }
  const ordered = [];
  const add = (scope, depth) => {
    const rank = new Map();
    const within = inside.get(scope) || [];
    for (const call of within) if (!rank.has(call.branch)) rank.set(call.branch, /^\d+$/.test(call.branch) ? Number(call.branch) : rank.size);
    within.sort((one, other) => rank.get(one.branch) - rank.get(other.branch) || one.start - other.start);
    for (const call of within) {
      const place = ordered.push({ ...call, depth }) - 1;
      if (!inside.has(call.id)) continue;
      add(call.id, depth + 1);
      ordered[place].below = lastOf(ordered.slice(place + 1));
    }
  };
  add(null, 0);
  return ordered;
}

/** The last outcome of these calls, by which a scope is as long as what stands in it; null while one of them is open. */
function lastOf(calls) {
  const ends = calls.map((call) => (call.outcomes.length ? call.below || call.outcomes.at(-1) : null));
  return ends.includes(null) ? null : ends.reduce((one, other) => (other.end > one.end ? other : one));
}

/** How a call stands after event `n`; `open` has the status of those that are open there. */
export function statusAt(call, n, open) {
  if (n < call.start) return "ahead";
  if (open && open.has(call.start)) return open.get(call.start);
  const outcome = call.outcomes.filter((each) => each.since <= n).at(-1);
  return outcome ? outcome.status : open ? "void" : "running";
}

/** Makes the timeline; `chosen(n)` is called with an event that is picked. */
export function gantt(chosen) {
  let calls = [], first = 0, last = 0, times = [0, 0], leftOut = 0, byTime = false, at = 0, isPart = false, open = null, drawn = [];
  const rows = h("div", { class: "gantt-rows" });
  const cursor = h("div", { class: "cursor", "aria-hidden": "true" });
  const body = h("div", { class: "gantt-body", tabindex: "0", role: "group", "aria-label": "Calls over time" }, rows, cursor);
  const axis = h("div", { class: "axis", "aria-hidden": "true" });
  const words = h("span", { class: "muted" });
  const way = h("div", { class: "switch", role: "group", "aria-label": "Spread the timeline by" });
  const element = h("section", { class: "gantt", "aria-label": "Timeline" }, h("header", {}, h("h3", {}, "Calls"), words, way), axis, body);
  body.addEventListener("scroll", () => window.requestAnimationFrame(drawRows));

  function drawWay() {
    const each = (label, is) => button(label, () => { byTime = is; draw(); }, { "aria-pressed": String(byTime === is) });
    put(way, each("by event", false), each("by time", true));
  }

  const share = (sequence, time) => {
    const [from, to] = byTime ? times : [first, last];
    return to > from ? Math.min(Math.max(((byTime ? time : sequence) - from) / (to - from), 0), 1) : 0;
  };
  const percent = (part) => `${(part * 100).toFixed(3)}%`;

  function drawAxis() {
    const parts = byTime || last - first >= 4 ? [0, 0.25, 0.5, 0.75, 1] : [...Array(last - first + 1).keys()].map((each) => each / Math.max(last - first, 1));
    const marks = parts.map((part) => {
      const value = Math.round(first + (last - first) * part);
      const left = byTime ? part : (value - first) / Math.max(last - first, 1);
      return h("span", { style: { left: percent(left) } }, byTime ? `+${duration((times[1] - times[0]) * part)}` : String(value));
    });
    put(axis, h("div", { class: "ticks" }, marks));
  }

  function draw() {
    drawWay();
    drawAxis();
    drawn = inOrder(calls);
    rows.style.height = `${drawn.length * ROW}px`;
    const part = isPart ? ` between event ${first.toLocaleString("en")} and ${last.toLocaleString("en")}` : "";
    const note = leftOut ? `; ${counted(leftOut, "earlier call is", "earlier calls are")} left out` : "";
    put(words, drawn.length ? counted(drawn.length, "call", "calls") + part + note : "Nothing was asked yet.");
    element.classList.toggle("none", !drawn.length);
    drawRows();
  }

  function drawRows() {
    const from = Math.max(Math.floor(body.scrollTop / ROW) - 8, 0);
    const to = Math.min(Math.ceil((body.scrollTop + (body.clientHeight || 400)) / ROW) + 8, drawn.length);
    put(rows, drawn.slice(from, to).map((call, place) => row(call, from + place)));
    moveCursor();
  }

  function row(call, place) {
    const status = statusAt(call, at, open), ended = endOf(call), outcome = ended && ended.end <= at ? ended : null;
    const label = h("button", {
      type: "button", class: "call-name", style: { "padding-left": `${10 + call.depth * 14}px` }, title: call.id, on: { click: () => chosen(call.start) },
    }, h("span", { class: `sign ${TONES[status] || "off"}` }, icon(status)), call.branch !== null && h("span", { class: "branch-name" }, `${call.branch} / `), call.name);
    const took = outcome ? duration(outcome.at - call.at) : "";
    return h("div", { class: `gantt-row is-${status}`, style: { top: `${place * ROW}px` } }, label,
      h("div", { class: "track" }, bars(call, status), h("span", { class: "took" }, status === "ahead" ? "" : outcome ? took : status.replaceAll("_", " "))));
  }

  /** The outcome that ends the bar of a call: of a scope, the last one within it. */
  const endOf = (call) => (call.kind === "scope" && call.below !== undefined ? call.below : call.outcomes.at(-1));

  function bars(call, status) {
    const ended = endOf(call);
    const end = ended || { end: last, at: times[1], status: "running" };
    const tone = TONES[end.status];
    const from = share(call.start, call.at), to = share(end.end, end.at);
    const words = `${call.kind} ${call.id}\nasked by event ${call.start}, ${clock(call.at)}` + (ended ? `\n${end.status.replaceAll("_", " ")} by event ${end.end}, after ${duration(end.at - call.at)}` : "");
    const bar = h("button", {
      type: "button", class: `span ${status === "ahead" ? "off" : TONES[status] || tone} kind-${call.kind}${ended ? "" : " unfinished"}`, title: words, tabindex: "-1",
      style: { left: percent(from), width: `max(7px, ${percent(to - from)})` }, on: { click: () => chosen(Math.max(call.start, Math.min(end.end, last))) },
    });
    const tries = (call.attempts || []).filter(([, , , , failed]) => failed).map(([start, began, ended, endedAt]) => {
      const left = share(start, began), right = share(ended, endedAt);
      return h("span", { class: "try", title: "an attempt that failed", style: { left: percent(left), width: `max(4px, ${percent(right - left)})` } });
    });
    return [bar, tries];
  }

  function moveCursor() {
    const time = timeOf(at);
    cursor.style.setProperty("--at", share(at, time).toFixed(5));
    cursor.style.height = `${Math.max(drawn.length * ROW, 0)}px`;
    cursor.hidden = !drawn.length;
  }

  let timeOf = () => times[1];
  body.addEventListener("click", (event) => {
    const track = event.target.closest(".track");
    if (!track || event.target.closest("button") || byTime) return;
    const box = track.getBoundingClientRect();
    chosen(Math.round(first + ((event.clientX - box.left) / box.width) * (last - first)));
  });

  return {
    element,
    /** Takes the calls of a run, of which the events go from `first` to `last`. */
    load(told, firstEvent, lastEvent, part) {
      isPart = part;
      [calls, first, last, times, leftOut] = [told.calls, Math.max(firstEvent, told.start || 0), lastEvent, told.times, told.left_out || 0];
      draw();
    },
    /** Shows how it stood after event `n`, which happened at `time`. */
    show(n, time, opened) {
      at = n;
      open = opened;
      timeOf = () => time;
      drawRows();
    },
    /** Brings the call that event `start` asked into view. */
    reveal(start) {
      const place = drawn.findIndex((call) => call.start === start);
      if (place < 0) return;
      const top = place * ROW;
      if (top < body.scrollTop || top + ROW > body.scrollTop + body.clientHeight) body.scrollTop = top - body.clientHeight / 2;
    },
  };
}
