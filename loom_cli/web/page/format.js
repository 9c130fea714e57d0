// Times, durations and sizes for people. The same words as in the terminal (loom_cli/times.py).

const UNITS = [["d", 86400000], ["h", 3600000], ["m", 60000], ["s", 1000]];

/** How long it took, in two whole units at most: 240ms, 4.2s, 3m 20s, 2d 4h. */
export function duration(ms) {
  ms = Math.abs(ms);
  if (ms < 1000) return `${Math.round(ms)}ms`;
  if (ms < 10000) return `${Math.floor(ms / 100) / 10}s`;
  const at = UNITS.findIndex(([, size]) => ms >= size);
  const [unit, size] = UNITS[at];
  const whole = Math.floor(ms / size), rest = ms % size, smaller = UNITS[at + 1];
  return smaller && rest >= smaller[1] ? `${whole}${unit} ${Math.floor(rest / smaller[1])}${smaller[0]}` : `${whole}${unit}`;
}

/** How far it is from now: now, 12s ago, in 3m. */
export function distance(at, now) {
  const passed = now - at, far = Math.abs(passed);
  if (far < 1000) return "now";
  const [unit, size] = UNITS.find(([, each]) => far >= each);
  const words = `${Math.round(far / size)}${unit}`;
  return passed > 0 ? `${words} ago` : `in ${words}`;
}

const pad = (number, width = 2) => String(number).padStart(width, "0");

/** The time of day, to the millisecond. */
export function clock(at) {
  const time = new Date(at);
  if (Number.isNaN(time.getTime())) return `${at} ms`;
  return `${pad(time.getHours())}:${pad(time.getMinutes())}:${pad(time.getSeconds())}.${pad(time.getMilliseconds(), 3)}`;
}

/** Date and time, to the second. */
export function dateTime(at) {
  const time = new Date(at);
  if (Number.isNaN(time.getTime())) return `${at} ms since 1970`;
  return `${time.getFullYear()}-${pad(time.getMonth() + 1)}-${pad(time.getDate())} ${clock(at).slice(0, 8)}`;
}

/** A count with its word. */
export function counted(count, one, many) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** So many characters, in words. */
export function size(count) {
  if (count < 10000) return counted(count, "character", "characters");
  return count < 1000000 ? `${Math.round(count / 1000)} thousand characters` : `${(count / 1000000).toFixed(1)} million characters`;
}
