// The page: a list of runs beside the one that is looked at. The address says which, and after which event.
import { button, h, put } from "./dom.js";
import { runPage } from "./run.js";
import { runsList } from "./runs.js";
import { source } from "./source.js";

const REFRESH_MS = 15000;
const KEYS = [
  ["/", "search runs"], ["e", "search events"], ["j  k", "next, previous run"], ["←  →", "one event back, on"], ["Home  End", "first, last event"],
  ["f  F", "next, previous failure"], ["1 … 5", "changes, event, state, call, branches"], ["?", "these keys"],
];

function placeOf(hash) {
  const [, kind, id, n] = hash.split("/");
  return kind === "run" && id ? { id: decodeURIComponent(id), n: n === undefined ? null : Number(n) } : { id: null, n: null };
}

function addressOf(id, n) {
  return `#/run/${encodeURIComponent(id)}${n === null ? "" : `/${n}`}`;
}

function banner(words) {
  return h("div", { class: "nothing" }, h("h2", {}, "Loom inspect"), h("p", {}, words));
}

function keysDialog() {
  const dialog = h("dialog", { class: "keys", "aria-label": "Keys" }, h("h3", {}, "Keys"), h("dl", {}, KEYS.map(([key, does]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, does)])), button("close", () => dialog.close(), { class: "quiet" }));
  return dialog;
}

class Page {
  constructor(root) {
    this.root = root;
    this.shown = null;
    this.place = { id: null, n: null };
    this.stop = () => {};
    this.main = h("main", { id: "main" });
    this.state = h("span", { class: "live", role: "status" });
    this.list = source.about.file ? null : runsList((id) => this.go(id, null));
    this.keys = keysDialog();
    this.draw();
  }

  draw() {
    const { about } = source;
    const mode = about.file ? "a file" : about.answers ? "answers allowed" : "read-only";
    const back = button("← runs", () => { location.hash = "#/"; }, { class: "back quiet" });
    put(this.root,
      h("header", { class: "top" }, back, h("h1", {}, "Loom ", h("span", {}, "inspect")), h("span", { class: "store", title: about.store }, about.store), h("span", { class: `mode${about.answers ? " open" : ""}` }, mode), this.state, button("?", () => this.keys.showModal(), { class: "quiet", title: "Keys", "aria-label": "Keys" })),
      h("div", { class: about.file ? "columns alone" : "columns" }, this.list && this.list.element, this.main), this.keys);
  }

  go(id, n, quietly = false) {
    if (quietly) {
      history.replaceState(null, "", addressOf(id, n));
      this.place = { id, n };
    } else location.hash = addressOf(id, n);
  }

  async follow() {
    const next = placeOf(location.hash);
    if (source.about.file) {
      if (next.id === null) next.n = source.data.at;
      next.id = source.data.run.id;
    }
    const isOther = next.id !== this.place.id || !this.shown;
    this.place = next;
    this.root.classList.toggle("at-run", next.id !== null);
    if (this.list) this.list.select(next.id || "");
    if (next.id === null) {
      this.shown = null;
      put(this.main, banner("Choose a run."));
      this.listen();
      return;
    }
    document.title = `${next.id} · Loom inspect`;
    if (!isOther) {
      this.shown.at(next.n);
      return;
    }
    this.shown = runPage(next.id, (id, n, quietly) => this.go(id, n, quietly));
    put(this.main, this.shown.element);
    const mine = this.shown;
    await mine.load(next.n);
    if (mine === this.shown) this.listen();
  }

  listen() {
    this.stop();
    if (source.about.file || document.hidden) return;
    const { id } = this.place, shown = this.shown;
    this.stop = source.listen(id, shown ? shown.last() : null, {
      runs: () => this.list.load(),
      events: (told) => shown && shown === this.shown && shown.grown(told).catch(() => {}),
      connected: (is) => { put(this.state, is ? "live" : "reconnecting …"); this.state.classList.toggle("lost", !is); },
    });
  }

  hear(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.keys.open) return;
    const within = event.target;
    if (within.matches("input[type=range]") && event.key.startsWith("Arrow")) return;
    if (within.matches("input:not([type=range]), textarea, select")) {
      if (event.key === "Escape") within.blur();
      return;
    }
    const keys = { "/": () => this.list && this.list.focus(), "?": () => this.keys.showModal(), j: () => this.list && this.list.step(1), k: () => this.list && this.list.step(-1) };
    if (keys[event.key]) keys[event.key]();
    else if (!this.shown || !this.shown.key(event)) return;
    event.preventDefault();
  }
}

async function begin() {
  const root = document.getElementById("page");
  const address = new URL(location.href);
  if (address.searchParams.has("token")) {
    address.searchParams.delete("token");
    history.replaceState(null, "", address);
  }
  try {
    source.about = await source.get("about");
  } catch (refused) {
    put(root, banner(`${refused.message}. ${refused.hint || ""}`));
    return;
  }
  const page = new Page(root);
  window.addEventListener("hashchange", () => page.follow());
  window.addEventListener("keydown", (event) => page.hear(event));
  document.addEventListener("visibilitychange", () => { if (document.hidden) page.stop(); else { if (page.list) page.list.load(); page.listen(); } });
  if (page.list) {
    window.setInterval(() => document.hidden || page.list.load(), REFRESH_MS);
    await page.list.load();
  }
  await page.follow();
}

begin();
