// Where the page gets what it shows: from its server, or from the file that it is itself.

const embedded = document.getElementById("run-data");

/** JSON as it was written: a number that JavaScript cannot hold becomes a `BigInt` where the browser tells its digits. */
export function parse(text) {
  return JSON.parse(text, (key, value, context) => {
    if (typeof value !== "number" || Number.isSafeInteger(value) || !context || !/^-?\d+$/.test(context.source)) return value;
    return BigInt(context.source);
  });
}

/** What was refused, in the words of the server. */
export class Refused extends Error {
  constructor(told, status) {
    super(told.message);
    Object.assign(this, { code: told.code, hint: told.hint || "", problems: told.problems || null, status });
  }
}

async function answerOf(response) {
  let told = null;
  try {
    told = parse(await response.text());
  } catch {
    told = { error: { code: "unreadable", message: `the server answered with status ${response.status}` } };
  }
  if (!response.ok) throw new Refused(told.error || { code: "refused", message: `status ${response.status}` }, response.status);
  return told;
}

function addressOf(path, query) {
  const address = new URL(`api/${path}`, document.baseURI);
  address.hash = "";
  for (const [name, value] of Object.entries(query || {})) {
    for (const each of [value].flat()) if (each !== undefined && each !== null && each !== "") address.searchParams.append(name, each);
  }
  return address;
}

class Server {
  about = null;

  async get(path, query, signal) {
    return answerOf(await fetch(addressOf(path, query), { signal, credentials: "same-origin" }));
  }

  async post(path, query, body) {
    const headers = { "content-type": "application/json", "x-loom-csrf": this.about.csrf };
    return answerOf(await fetch(addressOf(path, query), { method: "POST", headers, body: JSON.stringify(body), credentials: "same-origin" }));
  }

  /** Hears what happens: `runs`, `events` of a run after number `after`, and whether the connection stands. */
  listen(run, after, heard) {
    const stream = new EventSource(addressOf("live", { run, after: after }));
    stream.addEventListener("runs", () => heard.runs());
    stream.addEventListener("events", (event) => heard.events(parse(event.data)));
    stream.addEventListener("hello", () => heard.connected(true));
    stream.addEventListener("error", () => heard.connected(false));
    return () => stream.close();
  }
}

/** One run, in the page itself. What it does not hold is refused in words. */
class File {
  constructor(data) {
    this.data = data;
    this.about = { ...data.about, file: true };
  }

  async get(path, query) {
    const { data } = this;
    const n = Number(query && query.n);
    switch (path) {
      case "about": return this.about;
      case "run": return data.run;
      case "run/lines": {
        const lines = data.lines.slice(query.start, query.start + query.limit);
        return { start: query.start, lines, total: data.lines.length, last: data.run.last };
      }
      case "run/moment": {
        const moment = data.moments[n - data.run.first];
        if (!moment) throw new Refused({ code: "not-there", message: `the state after event ${n} is not in this file` });
        return { ...moment, n, line: data.lines[moment.index], event: data.events[moment.index] };
      }
      case "run/state": return { n, ...stateAt(data, n), digest: data.moments[n - data.run.first].digest || null };
      case "run/timeline": return data.timeline;
      case "run/found": return foundIn(data, query.search);
      case "run/branches": return data.branches;
      case "run/call": return callIn(data, Number(query.start), n);
      default: throw new Refused({ code: "not-there", message: "this is not in the file", hint: data.about.elsewhere });
    }
  }

  listen() {
    return () => {};
  }
}

/** The state after event `n`: what every event up to it has changed, one upon the other. */
function stateAt(data, n) {
  const state = {};
  let cuts = [];
  for (const moment of data.moments.slice(0, n - data.run.first + 1)) {
    for (const { path, after } of moment.changes) {
      let place = state;
      for (const name of path.slice(0, -1)) place = place[name] ??= {};
      if (after) place[path.at(-1)] = structuredClone(after.value);
      else delete place[path.at(-1)];
      cuts = cuts.filter(([cut]) => !path.every((name, at) => String(cut[at]) === name));
      for (const [below, size] of (after && after.cuts) || []) cuts.push([[...path, ...below], size]);
    }
  }
  return { state: { value: state, cuts } };
}

function foundIn(data, search) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const without = words.filter((word) => /^-[^.\d]/.test(word)).map((word) => word.slice(1));
  const wanted = words.filter((word) => !/^-[^.\d]/.test(word));
  const found = [];
  data.lines.forEach((line, at) => {
    const text = JSON.stringify([line.type, line.about, line.says, data.events[at].value]).toLowerCase();
    const fits = (word) => (word === "is:failure" ? line.failure : text.includes(word));
    if (wanted.every(fits) && !without.some(fits)) found.push(at);
  });
  return { found, more: false, without: without.length ? ` without ${without.join(", ")}` : "" };
}

function callIn(data, start, n) {
  const call = data.timeline.calls.find((each) => each.start === start);
  if (!call) throw new Refused({ code: "not-there", message: "this is no call" });
  const outcome = call.outcomes.filter((each) => each.since <= n).at(-1);
  const index = (sequence) => data.lines.findIndex((line) => line.n === sequence);
  const events = [start, ...(outcome ? [outcome.end] : [])].map((each) => data.events[index(each)]);
  return { ...call, name: call.id.split("/").at(-1), asked_at: call.at, ended_at: outcome ? outcome.at : null, attempts: null, events };
}

export const source = embedded ? new File(parse(embedded.textContent)) : new Server();
