// A JSON value to look into: objects and lists fold, long texts are cut, and what was left out can be asked for.
import { button, h, put } from "./dom.js";
import { counted, size } from "./format.js";
import { visible } from "./text.js";

const OPEN_DEPTH = 2;
const OPEN_ITEMS = 24;
const LINE = 160;

const same = (one, other) => one.length === other.length && one.every((step, at) => String(step) === String(other[at]));

/**
 * Draws `short`, which is `{value, cuts}`. `whole(path)` fetches what stands at a path in full; without it, `elsewhere` says
 * where it is to be had.
 */
export function tree(short, { whole, elsewhere, open = OPEN_DEPTH, path = [] } = {}) {
  const look = { cuts: short.cuts || [], whole, elsewhere, open };
  const isBranch = short.value !== null && typeof short.value === "object" && Object.keys(short.value).length;
  return h("div", { class: "tree" }, isBranch ? parts(short.value, path, look, 0) : node(short.value, path, look, 0));
}

function cutAt(path, look) {
  const found = look.cuts.find(([at]) => same(at, path));
  return found ? found[1] : null;
}

function node(value, path, look, depth) {
  if (value !== null && typeof value === "object") return branch(value, path, look, depth);
  return leaf(value, path, look);
}

function leaf(value, path, look) {
  if (typeof value === "string") return text(value, path, look);
  const kind = value === null ? "null" : typeof value === "boolean" ? "truth" : "number";
  return h("span", { class: `value ${kind}` }, String(value));
}

function text(value, path, look) {
  const total = cutAt(path, look);
  const isLong = value.length > LINE || value.includes("\n");
  const shown = h("span", { class: `value text${isLong ? " long" : ""}` });
  shown.append(visible(value, isLong));
  if (total === null) return shown;
  return h("span", {}, shown, more(path, look, `${size(total)} in all`, (all) => put(shown, visible(String(all), true))));
}

/** The button that shows what was left out; where that cannot be had here, the words that say so. */
function more(path, look, words, show) {
  if (!look.whole) return h("span", { class: "left-out" }, ` … ${words}${look.elsewhere ? `; ${look.elsewhere}` : ""}`);
  const act = async () => {
    asked.disabled = true;
    try {
      const all = await look.whole(path);
      look.cuts = look.cuts.filter(([at]) => !path.every((step, place) => String(at[place]) === String(step)));
      show(all);
      asked.remove();
    } catch (refused) {
      put(asked, `${refused.message} ${refused.hint || ""}`);
    }
  };
  const asked = button(`… show whole: ${words}`, act, { class: "more" });
  return asked;
}

function wordsOf(value, path, look) {
  const count = cutAt(path, look) ?? Object.keys(value).length;
  return Array.isArray(value) ? counted(count, "item", "items") : counted(count, "field", "fields");
}

function branch(value, path, look, depth, key = null) {
  const length = Object.keys(value).length;
  if (!length && cutAt(path, look) === null) return h("div", { class: "entry" }, key, h("span", { class: "value empty" }, Array.isArray(value) ? "[ ]" : "{ }"));
  const below = h("div", { class: "inside" });
  const summary = h("summary", {}, key, h("span", { class: "count" }, wordsOf(value, path, look)), preview(value));
  const details = h("details", { class: "branch" }, summary, below);
  const draw = () => below.childNodes.length || below.append(...parts(value, path, look, depth));
  details.addEventListener("toggle", () => details.open && draw());
  if (depth < look.open && length <= OPEN_ITEMS) {
    draw();
    details.open = true;
  }
  return details;
}

/** What stands in an object or a list, a line each, and how to have what was left out. */
function parts(value, path, look, depth) {
  const isList = Array.isArray(value);
  const within = isList ? value.map((item, at) => [at, item]) : Object.entries(value);
  const lines = within.map(([name, item]) => entry(name, item, [...path, name], look, depth, isList));
  if (cutAt(path, look) === null) return lines;
  const left = more(path, look, `${wordsOf(value, path, look)} in all`, (all) => {
    const holder = left.parentElement;
    put(holder, parts(all, path, look, depth));
  });
  return [...lines, left];
}

function entry(name, item, path, look, depth, isList) {
  const key = h("span", { class: isList ? "key at" : "key" }, String(name));
  if (item !== null && typeof item === "object") return branch(item, path, look, depth + 1, key);
  return h("div", { class: "entry" }, key, leaf(item, path, look));
}

/** What a folded value is like, in a few words. */
function preview(value) {
  const words = [];
  for (const [name, item] of Object.entries(value)) {
    const shown = item !== null && typeof item === "object" ? (Array.isArray(item) ? "[…]" : "{…}") : String(item);
    words.push(Array.isArray(value) ? shown.slice(0, 24) : `${name}: ${shown.slice(0, 24)}`);
    if (words.join(", ").length > 70) break;
  }
  return h("span", { class: "preview" }, words.join(", ").slice(0, 80));
}
