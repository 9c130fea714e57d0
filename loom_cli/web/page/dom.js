// Making elements. Whatever is text becomes a text node, by way of `visible`: nothing is ever parsed as HTML.
import { plain, visible } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

function set(element, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (name === "class") element.setAttribute("class", value);
  else if (name === "on") for (const [event, heard] of Object.entries(value)) element.addEventListener(event, heard);
  else if (name === "style") for (const [property, to] of Object.entries(value)) element.style.setProperty(property, to);
  else if (name === "data") for (const [key, to] of Object.entries(value)) element.dataset[key] = to;
  else if (name === "title" || name === "aria-label") element.setAttribute(name, plain(value));
  else element.setAttribute(name, value === true ? "" : value);
}

function fill(element, children) {
  for (const child of children.flat(9)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : visible(child));
  }
  return element;
}

/** An element with attributes and children. */
export function h(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) set(element, key, value);
  return fill(element, children);
}

/** An element of a picture. */
export function s(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) set(element, key, value);
  return fill(element, children);
}

/** Replaces what is in an element. */
export function put(element, ...children) {
  element.replaceChildren();
  return fill(element, children);
}

/** A button that does something. */
export function button(label, act, attributes) {
  return h("button", { type: "button", on: { click: act }, ...attributes }, label);
}
