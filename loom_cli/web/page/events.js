// The list of events: only what is in view is drawn, and fetched, so that a log of any length scrolls alike.
import { h, put } from "./dom.js";
import { clock, duration } from "./format.js";

const ROW = 30;
const PAGE = 200;
const PAGES_MAX = 60;

/** Makes the list of `fetchLines(start, limit)`; `chosen(n, index)` is called with an event that is picked. */
export function eventList(fetchLines, chosen) {
  let total = 0, current = -1, pages = new Map(), hits = null;
  const rows = h("div", { class: "event-rows" });
  const body = h("div", { class: "event-body", tabindex: "0", role: "listbox", "aria-label": "Events" }, rows);
  body.addEventListener("scroll", () => window.requestAnimationFrame(draw));
  new ResizeObserver(() => draw()).observe(body);

  function page(number) {
    if (!pages.has(number)) {
      const entry = { lines: null };
      pages.set(number, entry);
      entry.coming = fetchLines(number * PAGE, PAGE).then((told) => { entry.lines = told.lines; draw(); return told.lines; }).catch(() => pages.delete(number));
      if (pages.size > PAGES_MAX) pages.delete(pages.keys().next().value);
    }
    return pages.get(number);
  }

  const lineAt = (index) => {
    const found = page(Math.floor(index / PAGE)).lines;
    return found ? found[index % PAGE] : null;
  };

  function draw() {
    rows.style.height = `${total * ROW}px`;
    const from = Math.max(Math.floor(body.scrollTop / ROW) - 10, 0);
    const to = Math.min(Math.ceil((body.scrollTop + body.clientHeight) / ROW) + 10, total);
    const drawn = [];
    for (let index = from; index < to; index += 1) drawn.push(row(index));
    put(rows, drawn);
  }

  function row(index) {
    const line = lineAt(index);
    const place = { top: `${index * ROW}px` };
    if (!line) return h("div", { class: "event-row loading", style: place });
    const isHit = hits && hits.has(index);
    const classes = ["event-row", line.tone || "", line.failure ? "failure" : "", index === current ? "current" : "", index > current ? "ahead" : "", isHit ? "hit" : ""];
    return h("div", {
      class: classes.filter(Boolean).join(" "), style: place, role: "option", "aria-selected": String(index === current), on: { click: () => chosen(line.n, index) },
      title: [line.about, line.says, line.brief].filter(Boolean).join("  "),
    },
      h("span", { class: "n" }, String(line.n)), h("time", {}, clock(line.at)), h("span", { class: "type" }, line.type),
      h("span", { class: "says" }, line.about && h("b", {}, line.about), line.simulated && h("span", { class: "tag" }, "simulated"), line.says && h("span", { class: "what" }, line.says), line.brief && h("span", { class: "brief" }, line.brief)),
      h("span", { class: "took" }, line.took !== undefined ? duration(line.took) : ""));
  }

  return {
    element: body,
    /** Says how many events there are; with `lines`, those that came from `start` on are known. */
    grow(count, start = 0, lines = []) {
      total = count;
      if (lines.length) for (const number of [...pages.keys()]) if ((number + 1) * PAGE > start) pages.delete(number);
      draw();
    },
    /** Marks the event at `index` and brings it into view. */
    show(index) {
      current = index;
      const top = index * ROW;
      if (top < body.scrollTop + ROW || top + 2 * ROW > body.scrollTop + body.clientHeight) body.scrollTop = Math.max(top - body.clientHeight / 2, 0);
      draw();
    },
    mark(found) { hits = found; draw(); },
    lineAt,
    /** The line at `index`, once it is there. */
    async line(index) {
      const entry = page(Math.floor(index / PAGE));
      return ((entry.lines || (await entry.coming)) || [])[index % PAGE] || null;
    },
  };
}
