// Text of logs, tools and people, made harmless to read: what would be obeyed or not be seen is shown as an escape.
// The characters are those of loom_cli/safe_text.py.

const EACH =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\u00ad\ufff9-\ufffb\u{e0000}-\u{e007f}\ud800-\udfff]/gu;
const LINES = new Set(["\n", "\t"]);
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escapeOf(character) {
  const code = character.codePointAt(0);
  if (SHORT[character]) return SHORT[character];
  if (code < 0x100) return "\\x" + code.toString(16).padStart(2, "0");
  return code < 0x10000 ? "\\u" + code.toString(16).padStart(4, "0") : "\\U" + code.toString(16).padStart(8, "0");
}

/** The text on one line, for places that take nothing but text, such as titles. */
export function plain(text) {
  return String(text).replace(EACH, escapeOf);
}

/** The text as nodes: what would not be seen as it is stands out. With `lines`, its line breaks are kept. */
export function visible(text, lines = false) {
  const nodes = document.createDocumentFragment();
  let from = 0;
  text = String(text);
  for (const found of text.matchAll(EACH)) {
    if (lines && LINES.has(found[0])) continue;
    nodes.append(text.slice(from, found.index));
    const mark = document.createElement("span");
    mark.className = "escape";
    mark.textContent = escapeOf(found[0]);
    nodes.append(mark);
    from = found.index + found[0].length;
  }
  nodes.append(text.slice(from));
  return nodes;
}
