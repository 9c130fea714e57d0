// One run: its head, what waits, its calls over time, the slider, its events, and what one of them did.
import { branchTree, changeTable } from "./branches.js";
import { button, h, put } from "./dom.js";
import { eventList } from "./events.js";
import { clock, counted, dateTime, distance, duration } from "./format.js";
import { gantt } from "./gantt.js";
import { gateCards } from "./gates.js";
import { icon, pill, standing } from "./icons.js";
import { source } from "./source.js";
import { tree } from "./tree.js";

const TABS = ["changes", "event", "state", "call", "branches"];
const AROUND = 150; // events to each side of the one that is looked at, in a run too long to draw all of it

/** Makes the page of the run `id`. `go(id, n)` changes the address; `n` null means: wherever it stands. */
export function runPage(id, go) {
  let run = null, at = null, moment = null, against = null, follows = true, tab = "changes", between = [0, 0], search = 0;
  const asked = {};

  const whole = (n, path, of = "event", base = null) => source.get("run/value", { id, n, path: JSON.stringify(path), base: base && JSON.stringify(base), of });
  const look = (n, path, of) => ({ whole: source.about.file ? null : (more) => whole(n, [...path, ...more], of), elsewhere: source.about.elsewhere });
  const head = h("header", { class: "run-head" });
  const gates = gateCards((n, base, path) => whole(n, path, "event", base));
  const bars = gantt((n) => select(n));
  const events = eventList((start, limit) => source.get("run/lines", { id, start, limit }), (n) => select(n));
  const slider = h("input", { type: "range", min: 0, max: 0, value: 0, step: 1, id: "slider", "aria-label": "Event number", on: { input: () => select(Number(slider.value)) } });
  const place = h("output", { for: "slider", class: "place" });
  const follow = button("follow", () => { follows = true; select(run.last); }, { class: "follow", title: "Go along with the last event (End)" });
  const find = h("input", { type: "search", id: "search-events", placeholder: "search events: a word, type:STEP_*, is:failure", autocomplete: "off", spellcheck: "false", "aria-label": "Search events", on: { input: () => seek() } });
  const foundWords = h("span", { class: "muted found", role: "status" });
  const tabs = h("div", { class: "tabs", role: "tablist" });
  const detail = h("div", { class: "detail-body", role: "tabpanel", tabindex: "0" });
  const problem = h("p", { class: "problem banner", role: "alert" });
  let hits = [];

  const steps = h("div", { class: "steps" },
    button(icon("first"), () => select(run.first), { title: "First event (Home)", "aria-label": "First event" }),
    button(icon("back"), () => step(-1), { title: "One event back (←)", "aria-label": "One event back" }),
    button(icon("on"), () => step(1), { title: "One event on (→)", "aria-label": "One event on" }),
    button(icon("last"), () => select(run.last), { title: "Last event (End)", "aria-label": "Last event" }),
    button("next failure", () => failure(1), { title: "Next failure (f)", class: "wide" }));
  const element = h("article", { class: "run" }, head, problem, gates.element, bars.element,
    h("div", { class: "slide" }, steps, slider, place, follow),
    h("div", { class: "split" },
      h("section", { class: "events", "aria-label": "Events" }, h("header", {}, find, foundWords), events.element),
      h("section", { class: "detail", "aria-label": "Details" }, tabs, detail)));

  /** Fetches, and forgets the answer when a later one of its kind was asked for. */
  async function latest(kind, path, query) {
    if (asked[kind]) asked[kind].abort();
    const asking = (asked[kind] = new AbortController());
    const told = await source.get(path, query, asking.signal);
    if (asking.signal.aborted) throw new DOMException("a later one was asked for", "AbortError");
    return told;
  }

  function failed(error) {
    if (error.name !== "AbortError") put(problem, `${error.message}. ${error.hint || ""}`);
  }

  async function load(n) {
    put(head, h("p", { class: "muted" }, "reading the log …"));
    try {
      run = await latest("run", "run", { id });
    } catch (error) {
      if (error.name !== "AbortError") put(element, h("div", { class: "nothing" }, h("h2", {}, "This run cannot be shown"), h("p", {}, error.message), h("p", { class: "muted" }, error.hint)));
      return;
    }
    const told = await source.get("run/lines", { id, start: 0, limit: 1 });
    events.grow(told.total);
    drawHead();
    gates.show(run);
    follows = n === null || n >= run.last;
    await loadCalls();
    await select(n === null ? run.last : n, false);
  }

  async function loadCalls() {
    const middle = at === null ? run.last : at;
    const isLong = run.last - run.first > 4 * AROUND;
    between = isLong ? [Math.max(middle - AROUND, run.first), Math.min(Math.max(middle, run.first + AROUND) + AROUND, run.last)] : [run.first, run.last];
    const told = await latest("calls", "run/timeline", { id, start: between[0], end: between[1] });
    bars.load(told, between[0], between[1], isLong);
  }

  /** How long ago; in a file, which is read at any time, when. */
  const ago = (time) => (source.about.file ? dateTime(time) : distance(time, run.now));

  function drawHead() {
    const status = standing(run);
    const fact = (name, value, title) => value && h("div", { class: "fact" }, h("dt", {}, name), h("dd", { title }, value));
    const link = (to, words) => h("a", { href: `#/run/${encodeURIComponent(to)}`, on: { click: (event) => { event.preventDefault(); go(to, null); } } }, words || to);
    const copied = h("span", { class: "fine", role: "status" });
    const copy = button(icon("copy"), async () => { await navigator.clipboard.writeText(run.id).catch(() => {}); put(copied, "copied"); }, { class: "quiet", title: "Copy the id", "aria-label": "Copy the id" });
    put(head,
      h("div", { class: "title" }, h("h2", { title: run.id }, run.id), copy, copied, pill(status), run.simulated && h("span", { class: "tag simulated", title: "Simulators stand in for its effects" }, "simulated")),
      h("dl", { class: "facts" },
        fact("flow", `${run.flow}${run.version === "1" ? "" : ` v${run.version}`}`),
        fact("started", ago(run.started_at), dateTime(run.started_at)),
        fact(run.ended ? "took" : "last event", run.ended ? duration(run.at - run.started_at) : ago(run.at), dateTime(run.at)),
        fact("events", (run.last + 1).toLocaleString("en")),
        fact("by", run.principal),
        fact("driver", run.driver),
        fact("wakes", run.wake_at && !run.ended ? ago(run.wake_at) : null, run.wake_at && dateTime(run.wake_at)),
        fact("waits for", run.why),
        fact("attempt", run.generation ? `${run.generation + 1}` : null, "Tried again from its failure"),
        fact("child of", run.parent && link(run.parent.id)),
        fact("fork of", run.source && [link(run.source.execution_id), ` after event ${run.source.sequence}`]),
        fact("goes on as", run.next && link(run.next)),
        fact("archived", run.first > 0 ? `up to event ${run.first}` : null)),
      h("div", { class: "values" }, valueOf("input", run.input, 0, ["payload", "input"]), valueOf("result", run.result, run.last, ["payload", "result"]), valueOf("failure", run.failure, run.last, ["payload", "failure"]), run.failure && run.cause && valueOf("cause", run.cause.args, run.cause.start, ["payload", "args"], `asked of ${run.cause.id}`), valueOf("attributes", run.attributes.value && Object.keys(run.attributes.value).length ? run.attributes : null, 0, ["payload", "attributes"]), valueOf("difference", run.difference, run.last, ["payload", "difference"])),
      run.children.length ? h("p", { class: "kin" }, "children: ", run.children.slice(0, 20).map((child) => [link(child.id), " ", pill(child.status), " "])) : null);
  }

  function valueOf(name, short, n, path, label = name) {
    if (!short) return null;
    const isSmall = short.value === null || typeof short.value !== "object";
    const shown = tree(short, { whole: source.about.file ? null : (more) => whole(n, more, "event", path), elsewhere: source.about.elsewhere, open: 1 });
    return isSmall ? h("div", { class: `known ${name}` }, h("span", { class: "name" }, label), shown) : h("details", { class: `known ${name}`, open: name === "failure" || name === "cause" }, h("summary", {}, label), shown);
  }

  /** Goes to event `n`. */
  async function select(n, addressed = true) {
    n = Math.min(Math.max(n, run.first), run.last);
    follows = n === run.last;
    at = n;
    slider.min = run.first;
    slider.max = run.last;
    slider.value = n;
    drawPlace(null);
    if (addressed) go(id, follows ? null : n, true);
    if (n < between[0] || n > between[1]) loadCalls().catch(failed);
    try {
      moment = await latest("moment", "run/moment", { id, n, against });
    } catch (error) {
      failed(error);
      return;
    }
    put(problem);
    events.show(moment.index);
    bars.show(n, moment.at, new Map(moment.open));
    if (moment.line.call !== undefined) bars.reveal(moment.line.call);
    drawPlace(moment.line);
    drawDetail();
  }

  function drawPlace(line) {
    slider.setAttribute("aria-valuetext", line ? `event ${at}, ${line.type} ${line.about}` : `event ${at}`);
    put(place, h("b", {}, `event ${at}`), h("span", { class: "muted" }, ` of ${run.last}`), line && h("span", { class: `type ${line.tone || ""}` }, line.type), line && h("time", { class: "muted", title: dateTime(line.at) }, clock(line.at)));
    follow.hidden = follows || run.ended || source.about.file;
    element.classList.toggle("following", follows && !run.ended && !source.about.file);
  }

  function drawTabs() {
    const each = (name) => button(name, () => { tab = name; drawTabs(); drawDetail(); }, { role: "tab", "aria-selected": String(tab === name), id: `tab-${name}` });
    put(tabs, TABS.map(each), h("span", { class: "digest", title: "The digest of the state after this event: the same in loom show, logs and debug" }));
  }

  function drawDetail() {
    detail.setAttribute("aria-labelledby", `tab-${tab}`);
    DRAW[tab]().catch(failed);
  }

  const DRAW = {
    async changes() {
      const side = (change, which) => tree(change[which], { ...look(moment.n - (which === "before" ? 1 : 0), change.path, "change"), whole: null, elsewhere: "see event or state", open: 1 });
      put(detail, source.about.file ? h("p", { class: "muted lead" }, `What event ${moment.n} changed in the state`) : compared(), changeTable(moment.changes, side));
    },
    async event() {
      put(detail, tree(moment.event, { ...look(moment.n, []), open: 4 }));
    },
    async state() {
      const n = at;
      put(detail, h("p", { class: "muted" }, "folding …"));
      const told = await latest("state", "run/state", { id, n });
      const digest = told.digest ? h("p", { class: "muted lead" }, "digest ", h("code", { class: "digest" }, told.digest)) : null;
      put(detail, digest, tree(told.state, { ...look(n, [], "state"), open: 2 }));
    },
    async call() {
      const start = moment.line.call;
      if (start === undefined) {
        put(detail, h("p", { class: "empty-words" }, "This event belongs to the run as a whole, and to none of its calls."));
        return;
      }
      const call = await latest("call", "run/call", { id, start, n: at });
      put(detail, callDetail(call));
    },
    async branches() {
      put(detail, branchTree(await latest("branches", "run/branches", { id }), id, (to) => go(to, null)));
    },
  };

  /** The words above the changes, with the event that they are counted from. */
  function compared() {
    const since = h("input", { type: "number", min: run.first, max: run.last, placeholder: String(moment.n - 1), value: against, "aria-label": "Changes since event", on: {
      change: () => { against = since.value === "" ? null : Math.min(Math.max(Number(since.value), run.first), run.last); select(at, false); },
    } });
    return h("label", { class: "muted lead since" }, `What event ${moment.n} changed in the state since event `, since);
  }

  function callDetail(call) {
    const attempts = (call.attempts || []).map((each) => h("li", { class: each.failure ? "bad" : "" }, `attempt ${each.number}`, h("span", { class: "muted" }, each.ended_at !== null && each.ended_at !== undefined ? ` ${duration(each.ended_at - each.began_at)}` : " under way"), each.failure && h("span", {}, ` ${each.failure.type}: ${each.failure.message}`)));
    const took = call.ended_at !== null ? `, after ${duration(call.ended_at - call.asked_at)}` : "";
    const titles = ["asked", "settled"];
    return [
      h("p", { class: "lead" }, h("b", {}, call.id), " ", pill(call.status || "running"), h("span", { class: "muted" }, ` ${call.kind}${took}`)),
      attempts.length > 1 ? h("ol", { class: "attempts" }, attempts) : null,
      call.events.map((event, place) => h("div", { class: "call-event" }, h("h4", {}, `${titles[place]} by event ${event.value.sequence}`), tree(event, { ...look(event.value.sequence, []), open: 3 }))),
    ];
  }

  function step(by) {
    select(at + by);
  }

  async function seek() {
    const words = find.value.trim(), mine = (search += 1);
    if (!words) {
      hits = [];
      events.mark(null);
      put(foundWords);
      return;
    }
    try {
      const told = await latest("found", "run/found", { id, search: words });
      if (mine !== search) return;
      hits = told.found;
      events.mark(new Set(hits));
      put(foundWords, hits.length ? `${told.more ? "more than " : ""}${counted(hits.length, "event", "events")}${told.without}; Enter goes on` : "no event is like that");
    } catch (error) {
      if (error.name !== "AbortError") put(foundWords, error.message);
    }
  }

  async function toIndex(index) {
    const line = await events.line(index);
    if (line) await select(line.n);
  }

  find.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !hits.length || !moment) return;
    event.preventDefault();
    const next = event.shiftKey ? hits.filter((hit) => hit < moment.index).at(-1) : hits.find((hit) => hit > moment.index);
    toIndex(next === undefined ? (event.shiftKey ? hits.at(-1) : hits[0]) : next);
  });

  async function failure(by) {
    const told = await source.get("run/found", { id, search: "is:failure" });
    const next = by > 0 ? told.found.find((hit) => hit > moment.index) : told.found.filter((hit) => hit < moment.index).at(-1);
    if (next === undefined) put(foundWords, by > 0 ? "no failure after this" : "no failure before this");
    else await toIndex(next);
  }

  drawTabs();
  return {
    element,
    load,
    /** Goes where the address says. */
    at(n) {
      if (run && (n === null ? run.last : n) !== at) select(n === null ? run.last : n, false);
    },
    last: () => (run ? run.last : -1),
    /** Takes new events of the run. */
    async grown(told) {
      if (!run || told.last <= run.last) return;
      const followed = follows;
      run = await latest("run", "run", { id });
      events.grow(told.total, told.start, told.lines);
      drawHead();
      gates.show(run);
      slider.max = run.last;
      await loadCalls();
      if (followed) await select(run.last, false);
      else drawPlace(moment && moment.line);
    },
    async again() {
      if (!run) return;
      run = await latest("run", "run", { id });
      drawHead();
    },
    key(event) {
      const keys = {
        ArrowLeft: () => step(-1), ArrowRight: () => step(1), Home: () => select(run.first), End: () => select(run.last),
        f: () => failure(1), F: () => failure(-1), e: () => find.focus(),
      };
      for (const [number, name] of TABS.entries()) keys[String(number + 1)] = () => { tab = name; drawTabs(); drawDetail(); };
      if (event.target === events.element) Object.assign(keys, { ArrowUp: () => step(-1), ArrowDown: () => step(1) });
      const act = run && keys[event.key];
      if (act) act();
      return Boolean(act);
    },
  };
}
