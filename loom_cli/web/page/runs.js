// The list of runs: searched, filtered by how they stand, kept up to date.
import { button, h, put } from "./dom.js";
import { dateTime, distance } from "./format.js";
import { icon, standing, TONES } from "./icons.js";
import { source } from "./source.js";

const FILTERS = [
  ["all", {}],
  ["waiting", { gates: "1" }],
  ["running", { status: ["running"] }],
  ["failed", { status: ["failed", "diverged", "in_doubt"] }],
  ["done", { status: ["completed"] }],
];
const PAGE = 50;
const TYPING_MS = 200;

/** Makes the list; `chosen(id)` is called for a run that is picked. Returns its element and how to tell it what is new. */
export function runsList(chosen) {
  let filter = "all", shown = [], more = null, current = "", now = 0, asking = null, timer = 0;
  const search = h("input", {
    type: "search", id: "search-runs", placeholder: "id, flow or condition", title: "A part of an id or a flow, or a condition: status=failed and started > -2h", autocomplete: "off", spellcheck: "false",
    "aria-label": "Search runs", on: { input: () => { clearTimeout(timer); timer = setTimeout(load, TYPING_MS); } },
  });
  const problem = h("p", { class: "problem", role: "status" });
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Which runs" });
  const rows = h("div", { class: "rows", role: "list" });
  const element = h("nav", { class: "runs", "aria-label": "Runs" }, h("div", { class: "runs-head" }, search, chips, problem), rows);

  function drawChips() {
    put(chips, FILTERS.map(([name]) =>
      button(name, () => { filter = name; drawChips(); load(); }, { class: "chip", "aria-pressed": String(name === filter) })));
  }

  async function fetchPage(before) {
    if (asking) asking.abort();
    asking = new AbortController();
    const query = { search: search.value.trim(), ...Object.fromEntries(FILTERS)[filter], before, limit: before ? PAGE : Math.max(PAGE, shown.length) };
    return source.get("runs", query, asking.signal);
  }

  async function load() {
    try {
      const told = await fetchPage(null);
      [shown, more, now] = [told.runs, told.more, told.now];
      put(problem);
      element.classList.remove("stale");
    } catch (refused) {
      if (refused.name === "AbortError") return;
      put(problem, `${refused.message}. ${refused.hint || ""}`);
      element.classList.add("stale");
      return;
    }
    draw();
  }

  async function loadMore() {
    const told = await fetchPage(more);
    shown = [...shown, ...told.runs];
    more = told.more;
    draw();
  }

  function draw() {
    const focused = document.activeElement && document.activeElement.dataset.run;
    const empty = search.value.trim() || filter !== "all" ? "No runs are like that." : "No runs yet. Start one: loom run FLOW";
    put(rows, shown.length ? shown.map(row) : h("p", { class: "empty-words" }, empty), more && button("Show more", loadMore, { class: "quiet" }));
    if (focused) for (const each of rows.children) if (each.dataset.run === focused) each.focus({ preventScroll: true });
  }

  function row(run) {
    const status = standing(run);
    const waits = run.gates.length ? run.gates.map((gate) => gate.gate).join(", ") : run.wake_at ? (run.wake_at > now ? `wakes ${distance(run.wake_at, now)}` : "due") : "";
    const link = `#/run/${encodeURIComponent(run.id)}`;
    return h("a", {
      class: `run-row${run.id === current ? " current" : ""}`, href: link, role: "listitem", data: { run: run.id },
      "aria-current": run.id === current ? "page" : null, on: { click: (event) => { event.preventDefault(); chosen(run.id); } },
    },
      h("span", { class: `sign ${TONES[status] || "off"}`, title: status.replaceAll("_", " ") }, icon(status)),
      h("span", { class: "run-id", title: run.id }, run.id),
      h("time", { title: dateTime(run.started_at) }, distance(run.started_at, now)),
      h("span", { class: "run-about" }, h("span", { class: "flow" }, run.flow), h("span", { class: "word" }, status.replaceAll("_", " ")), waits && h("span", { class: "waits" }, waits)));
  }

  drawChips();
  return {
    element,
    load,
    focus: () => search.focus(),
    select(id) { current = id; draw(); },
    step(by) {
      const at = shown.findIndex((run) => run.id === current);
      const next = shown[Math.min(Math.max(at + by, 0), shown.length - 1)];
      if (next) chosen(next.id);
    },
  };
}
