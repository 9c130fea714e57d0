// A run and all its forks as a tree: who is a fork of whom, after which event, and which names stand for them.
import { h } from "./dom.js";
import { dateTime } from "./format.js";
import { pill } from "./icons.js";

/** Draws the family of a run, in which it is `current`. */
export function branchTree(views, current, chosen) {
  if (views.length < 2) return h("p", { class: "empty-words" }, "This run has no forks, and is none. Make one: loom fork ", h("code", {}, current), " --at N");
  const rows = views.map((view) => {
    const go = (event) => { event.preventDefault(); chosen(view.id); };
    return h("li", { class: view.id === current ? "current" : "", style: { "--depth": view.depth } },
      h("a", { href: `#/run/${encodeURIComponent(view.id)}`, on: { click: go }, "aria-current": view.id === current ? "true" : null }, view.id),
      pill(view.status),
      view.names.map((name) => h("span", { class: "tag name" }, name)),
      view.through !== null && h("span", { class: "muted" }, `from event ${view.through}`),
      h("time", { class: "muted" }, dateTime(view.started_at)));
  });
  return h("ol", { class: "branch-tree" }, rows);
}

const RANK = { status: -1, at: 1, sequence: 2 }; // how it stands comes first, what changes with every event last

/** The changes of one event: the path in the state, and what stood and stands there. */
export function changeTable(changes, look) {
  if (!changes.length) return h("p", { class: "empty-words" }, "Nothing of the state was changed by this.");
  const sorted = [...changes].sort((one, other) => (RANK[one.path[0]] || 0) - (RANK[other.path[0]] || 0));
  const rows = sorted.map((change) => {
    const side = (which, sign) => change[which] && h("div", { class: `side ${which}` }, h("span", { class: "mark", "aria-label": which }, sign), look(change, which));
    return h("li", {}, h("div", { class: "path" }, change.path.map((name, at) => [at ? h("i", {}, " › ") : null, name])), side("before", "−"), side("after", "+"));
  });
  return h("ul", { class: "changes" }, rows);
}
