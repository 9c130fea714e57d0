// What waits for a person: what is shown, and a form by its schema where answers are taken.
import { button, h, put } from "./dom.js";
import { dateTime, distance } from "./format.js";
import { icon } from "./icons.js";
import { source } from "./source.js";
import { tree } from "./tree.js";

/** The cards of the gates of a run. Each is kept while it waits, with what was entered in it. */
export function gateCards(whole) {
  const cards = new Map();
  const element = h("div", { class: "gates" });
  return {
    element,
    show(run) {
      const open = new Map(run.gates.map((gate) => [`${run.id} ${gate.start}`, gate]));
      for (const key of [...cards.keys()]) if (!open.has(key)) cards.delete(key);
      for (const [key, gate] of open) if (!cards.has(key)) cards.set(key, card(run, gate, whole));
      put(element, [...cards.values()]);
    },
  };
}

function card(run, gate, whole) {
  const due = gate.due_at ? h("span", { class: "due", title: dateTime(gate.due_at) }, `until ${dateTime(gate.due_at)}`) : null;
  const since = h("span", { class: "muted", title: dateTime(gate.opened_at) }, source.about.file ? `since ${dateTime(gate.opened_at)}` : `since ${distance(gate.opened_at, run.now)}`);
  const title = gate.in_doubt ? `Did ${gate.label} happen?` : gate.label;
  const head = h("header", {}, h("span", { class: `sign ${gate.in_doubt ? "doubt" : "wait"}` }, icon(gate.in_doubt ? "in_doubt" : "suspended")), h("h3", {}, title), since, due, gate.gate !== gate.label && h("code", {}, gate.gate));
  const shown = gate.show ? h("div", { class: "shown" }, tree(gate.show, { whole: (path) => whole(gate.start, ["payload", gate.in_doubt ? "args" : "show"], path), open: 3 })) : null;
  return h("section", { class: `gate${gate.in_doubt ? " doubt" : ""}`, "aria-label": `Gate ${gate.gate}`, data: { gate: gate.gate } }, head, gate.reason && h("p", {}, gate.reason), h("div", { class: "ask" }, shown, action(run, gate)));
}

function action(run, gate) {
  if (gate.in_doubt) return command(`loom resolve ${run.id} --as done|failed|retry`, "Whether it happened is decided in the terminal:");
  if (source.about.file) return null;
  if (!source.about.answers) return command(`loom resume ${run.id}`, "This page is read-only. Answer in the terminal, or start it with --allow-answers:");
  return answerForm(run, gate);
}

function command(line, words) {
  return h("p", { class: "hint" }, words, " ", h("code", {}, line));
}

function answerForm(run, gate) {
  const fields = [];
  const status = h("p", { class: "status", role: "status" });
  const send = h("button", { type: "submit", class: "primary" }, "Answer");
  const form = h("form", { novalidate: true, autocomplete: "off" }, field(gate.form, fields), h("footer", {}, send, status), h("p", { class: "fine" }, source.about.driven));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    for (const each of fields) each.problem("");
    put(status, "checking …");
    send.disabled = true;
    try {
      const entered = Object.fromEntries(fields.filter((each) => each.is()).map((each) => [each.path, each.value()]));
      const told = await source.post("run/answer", { id: run.id }, { gate: gate.gate, shown: gate.shown, entered });
      put(status, told.driven_here ? "Recorded. The run goes on." : "Recorded. Whoever drives the run goes on with it.");
      form.classList.add("sent");
    } catch (refused) {
      send.disabled = false;
      told(refused, fields, status);
    }
  });
  return form;
}

/** Tells each problem at its field; what is at none stands below the form. */
function told(refused, fields, status) {
  const left = [];
  let first = null;
  for (const [path, words] of Object.entries(refused.problems || {})) {
    const near = fields.filter((each) => path === each.path || path.startsWith(`${each.path}.`) || path.startsWith(`${each.path}[`));
    const found = near.sort((one, other) => other.path.length - one.path.length)[0] || (fields.length === 1 ? fields[0] : null);
    if (found) found.problem(words);
    else left.push(path ? `${path}: ${words}` : words);
    first = first || found;
  }
  put(status, refused.problems ? left.join("; ") || "Not recorded: see the marked fields." : `${refused.message}. ${refused.hint}`);
  status.classList.add("bad");
  if (first) first.focus();
}

let counter = 0;
const WORDLESS = new Set(["text", "yes or no"]);

function field(form, fields) {
  if (form.kind === "object") return objectField(form, fields);
  const id = `field-${(counter += 1)}`;
  const problem = h("p", { class: "problem", id: `${id}-problem`, role: "alert" });
  const input = INPUTS[form.kind] ? INPUTS[form.kind](form, id) : line(form, id, "text");
  const isGroup = form.kind === "boolean" || form.kind === "list";
  const label = h(isGroup ? "legend" : "label", isGroup ? {} : { for: id }, form.label, form.required ? null : h("span", { class: "optional" }, " optional"));
  const hint = [form.title, WORDLESS.has(form.words) || form.kind === "choice" ? "" : form.words].filter(Boolean).join(" · ");
  const element = h(isGroup ? "fieldset" : "div", { class: `field ${form.kind}`, data: { path: form.path } }, label, input.element, hint && h("p", { class: "fine", id: `${id}-hint` }, hint), problem);
  fields.push({
    path: form.path, is: () => true, value: input.value, focus: input.focus,
    problem(words) {
      put(problem, words);
      element.classList.toggle("wrong", Boolean(words));
      for (const each of element.querySelectorAll("input, textarea, select")) each.setAttribute("aria-invalid", String(Boolean(words)));
    },
  });
  return element;
}

function objectField(form, fields) {
  const mine = [];
  const inside = form.fields.map((each) => field(each, mine));
  const isOptional = form.path !== "" && !form.required;
  if (form.path === "") {
    fields.push(...mine);
    return h("div", { class: "fields" }, inside);
  }
  const body = h("div", { class: "fields" }, inside);
  const switched = h("input", { type: "checkbox", id: `field-${(counter += 1)}` });
  const isFilled = () => !isOptional || switched.checked;
  body.hidden = isOptional;
  switched.addEventListener("change", () => { body.hidden = !switched.checked; });
  fields.push({ path: form.path, is: () => true, value: isFilled, focus: () => switched.focus(), problem() {} });
  fields.push(...mine.map((each) => ({ ...each, is: isFilled })));
  const legend = isOptional ? h("legend", {}, h("label", { for: switched.id }, switched, ` fill in ${form.label}`)) : h("legend", {}, form.label);
  return h("fieldset", { class: "field group", data: { path: form.path } }, legend, form.title && h("p", { class: "fine" }, form.title), body);
}

function line(form, id, type) {
  const input = h("input", { type, id, name: form.path, value: form.default, inputmode: form.kind === "number" ? "decimal" : null, "aria-describedby": `${id}-hint ${id}-problem`, autocomplete: "off" });
  return { element: input, value: () => input.value, focus: () => input.focus() };
}

function area(form, id, rows) {
  const input = h("textarea", { id, name: form.path, rows, "aria-describedby": `${id}-hint ${id}-problem`, spellcheck: form.kind === "area" });
  input.value = form.default === undefined ? "" : form.default;
  return { element: input, value: () => input.value, focus: () => input.focus() };
}

const INPUTS = {
  text: (form, id) => line(form, id, "text"),
  number: (form, id) => line(form, id, "text"),
  date: (form, id) => line(form, id, "date"),
  time: (form, id) => line(form, id, "time"),
  secret: (form, id) => line(form, id, "password"),
  area: (form, id) => area(form, id, 2),
  json: (form, id) => area(form, id, 4),
  boolean: truth,
  choice,
  list,
};

function truth(form, id) {
  const choices = [["yes", true], ["no", false], ...(form.required ? [] : [["leave out", null]])];
  let chosen = form.default === undefined ? (form.required ? undefined : null) : form.default;
  const inputs = choices.map(([words, value], at) => {
    const input = h("input", { type: "radio", name: id, id: `${id}-${at}`, checked: chosen === value });
    input.addEventListener("change", () => { chosen = value; });
    return [input, h("label", { for: `${id}-${at}` }, input, words)];
  });
  return { element: h("div", { class: "choices" }, inputs.map(([, label]) => label)), value: () => (chosen === undefined ? null : chosen), focus: () => inputs[0][0].focus() };
}

function choice(form, id) {
  const none = form.default === undefined ? [h("option", { value: "" }, form.required ? "choose …" : "leave out")] : [];
  const options = form.choices.map((words, at) => h("option", { value: String(at), selected: form.default === String(at) }, words));
  const input = h("select", { id, name: form.path, "aria-describedby": `${id}-problem` }, none, options);
  return { element: input, value: () => input.value, focus: () => input.focus() };
}

function list(form) {
  const rows = h("div", { class: "items" });
  const add = (text = "") => {
    const input = h("input", { type: "text", "aria-label": `${form.label}, item ${rows.children.length + 1}`, autocomplete: "off" });
    input.value = text;
    const item = h("div", { class: "item" }, input, button("remove", () => item.remove(), { class: "quiet", "aria-label": "Remove this item" }));
    rows.append(item);
    return input;
  };
  for (const text of form.default || []) add(text);
  const more = button("add an item", () => add().focus(), { class: "quiet" });
  return { element: h("div", { class: "list" }, rows, more), value: () => [...rows.querySelectorAll("input")].map((input) => input.value), focus: () => more.focus() };
}
