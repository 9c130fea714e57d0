// Small pictures for how things stand. Each has a shape of its own, so that none is told by its colour alone.
import { h, s } from "./dom.js";

const PATHS = {
  completed: "M3.5 8.5l3 3 6-7",
  failed: "M4 4l8 8M12 4l-8 8",
  suspended: "M8 4v4.2l2.6 1.6M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8z",
  running: "M5.2 3.4v9.2L12.6 8z",
  in_doubt: "M5.6 5.8c0-3 4.8-3 4.8 0 0 2-2.4 2-2.4 4M8 12.6v.2",
  cancelled: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8zM3.8 12.2l8.4-8.4",
  diverged: "M3 6h10M3 10h10M10.5 3l-5 10",
  forked: "M5 2.5v11M5 9c0-3 6-2 6-6.5M9.2 4.4L11 2.5l1.8 1.9",
  paused: "M5.5 3.5v9M10.5 3.5v9",
  continued: "M2.5 8h10M9 4.5L12.5 8 9 11.5",
  cancelling: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8zM3.8 12.2l8.4-8.4",
};
const STEPS = {
  first: "M4 3.5v9M12.5 3.5L6.5 8l6 4.5z",
  back: "M11 3.5L5 8l6 4.5z",
  on: "M5 3.5L11 8l-6 4.5z",
  last: "M12 3.5v9M3.5 3.5L9.5 8l-6 4.5z",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
};
const LIKE = {
  done: "completed", timed_out: "suspended", resting: "suspended", waiting: "suspended",
  stopped: "paused", cut: "cancelled", abandoned: "cancelled", void: "cancelled", ahead: "running",
};
export const TONES = {
  completed: "good", done: "good", failed: "bad", timed_out: "bad", diverged: "bad", suspended: "wait", waiting: "wait",
  resting: "wait", in_doubt: "doubt", running: "life", forked: "life", continued: "life", paused: "wait", stopped: "wait",
  cancelled: "off", cancelling: "off", cut: "off", abandoned: "off", void: "off", ahead: "off",
};

/** Where a run stands, for people: its status, unless its row knows better. */
export const standing = (run) => (run.cancelling ? "cancelling" : run.stopped ? "stopped" : run.status);

/** The picture for a status. */
export function icon(status) {
  const d = PATHS[status] || STEPS[status] || PATHS[LIKE[status]] || "M8 7.8v.4";
  return s("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d }));
}

/** The status as a pill: picture, word, colour. */
export function pill(status, words) {
  return h("span", { class: `pill ${TONES[status] || "off"}` }, icon(status), words || status.replaceAll("_", " "));
}
